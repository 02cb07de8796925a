"""Folders in Google Cloud Storage, through its own client.

Nothing is retried here: a failed look is a value, and the poll after it is the retry. With `STORAGE_EMULATOR_HOST`
set the client talks to that server, without credentials.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import requests
from google.api_core.exceptions import GoogleAPICallError, RequestRangeNotSatisfiable
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError, TransportError
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from urllib3.exceptions import ReadTimeoutError

from runwatch.facts import Failure, FailureReason
from runwatch.sources.folder_listing import MAXIMUM_NAMES_IN_LEVEL, Level, LookFailedError, ObjectStat

REQUEST_TIMEOUT_SECONDS = 10.0
"""Of one request, for connecting and for each read from the connection."""

_NO_BACKGROUND_LOOKUPS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
"""The client's own switch. Without it every call may start a thread that asks for the bucket's metadata, for traces
that nobody reads here: a request that no budget counts, that needs a further right, and that retries for minutes."""

_LISTING_FIELDS = "items(name,size,timeCreated,updated),prefixes,nextPageToken"
_LONGEST_DETAIL = 200


class GcsConnection:
    """One client for all buckets, made when the first is opened, with the environment's own credentials."""

    def __init__(self, client: storage.Client | None = None, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Args: a client to use instead of one with application default credentials; seconds a request may take."""
        os.environ.setdefault(_NO_BACKGROUND_LOOKUPS, "true")
        self._client = client
        self._timeout = timeout
        self._lock = threading.Lock()

    def open(self, bucket: str, prefix: str, count: Callable[[], None]) -> GcsStore:
        """Return a store of one prefix.

        Raises:
            LookFailedError: there are no credentials (`auth`).
        """
        with self._lock:
            if self._client is None:
                with _failures_as_values("Google Cloud credentials"):
                    self._client = storage.Client()
            return GcsStore(self._client, bucket, prefix, count, self._timeout)

    def close(self) -> None:
        """Close the client's connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None


class GcsStore:
    """Reads below one prefix of one bucket. The client may be shared by stores and threads."""

    def __init__(
        self,
        client: storage.Client,
        bucket: str,
        prefix: str,
        count: Callable[[], None],
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        """Args: the client, where to read, what to call for each request, seconds that a request may take."""
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._count = count
        self._timeout = timeout

    def list_level(self, folder: str) -> Level:
        """List one level by a delimiter: one request for each thousand names.

        Raises:
            LookFailedError: the bucket is missing or nothing lies there (`not_found`: an object store knows no empty
                folders), or the service could not be asked.
        """
        prefix = "".join(f"{part}/" for part in (self._prefix, folder) if part)
        where = f"gs://{self._bucket}/{prefix}"
        folders: list[str] = []
        objects: dict[str, ObjectStat] = {}
        placeholder = False
        with _failures_as_values(where):
            listing = self._client.list_blobs(
                self._bucket,
                prefix=prefix,
                delimiter="/",
                fields=_LISTING_FIELDS,
                timeout=self._timeout,
                retry=None,
            )
            self._count()
            for page in listing.pages:
                for blob in page:
                    name = blob.name.removeprefix(prefix)
                    placeholder = placeholder or not name
                    if name:
                        # The service moves `updated` on with each change of metadata too: a lifecycle rule that makes
                        # an old checkpoint's storage cheaper is no new save. Content has a creation time each.
                        written = blob.time_created or blob.updated
                        objects[name] = ObjectStat(int(blob.size), written.timestamp())
                folders += [name.removeprefix(prefix).removesuffix("/") for name in page.prefixes]
                if len(folders) + len(objects) > MAXIMUM_NAMES_IN_LEVEL:
                    text = f"{where} holds more than {MAXIMUM_NAMES_IN_LEVEL} names: name the checkpoints' own folder"
                    raise LookFailedError(Failure(FailureReason.OTHER, text))
                if listing.next_page_token:
                    self._count()
        if not (folders or objects or placeholder):
            raise LookFailedError(Failure(FailureReason.NOT_FOUND, f"{where} lists empty"))
        return Level(tuple(folders), objects)

    def read_small(self, path: str) -> bytes:
        """Return an object's content, checked against its checksum.

        Raises:
            LookFailedError: it is gone (`not_found`), or the service could not be asked.
        """
        self._count()
        blob = self._blob(path)
        with _failures_as_values(f"gs://{self._bucket}/{blob.name}"):
            return bytes(blob.download_as_bytes(timeout=self._timeout, retry=None))

    def read_tail(self, path: str, length: int) -> bytes:
        """Return an object's last bytes, by one request for that range alone.

        Raises:
            LookFailedError: it is gone (`not_found`), or the service could not be asked.
        """
        self._count()
        blob = self._blob(path)
        with _failures_as_values(f"gs://{self._bucket}/{blob.name}"):
            try:
                content = bytes(blob.download_as_bytes(start=-length, checksum=None, timeout=self._timeout, retry=None))
            except RequestRangeNotSatisfiable:  # of an empty object there is no last byte
                return b""
        return content[-length:]  # a server may answer with the whole object

    def _blob(self, path: str) -> storage.Blob:
        return self._client.bucket(self._bucket).blob(f"{self._prefix}/{path}" if self._prefix else path)


@contextmanager
def _failures_as_values(where: str) -> Iterator[None]:
    """Turn everything that the client raises on what the outside world does into a `LookFailedError`."""
    try:
        yield
    except GoogleAPICallError as error:
        raise LookFailedError(_status_failure(where, error.code, error.message)) from error
    except TransportError as error:
        raise LookFailedError(Failure(FailureReason.NETWORK, f"{where}: {_brief(error)}")) from error
    except (DefaultCredentialsError, RefreshError, GoogleAuthError) as error:
        raise LookFailedError(Failure(FailureReason.AUTH, f"{where}: {_brief(error)}")) from error
    except DataCorruption as error:
        raise LookFailedError(Failure(FailureReason.PARSE, f"{where}: content does not match its checksum")) from error
    except InvalidResponse as error:
        raise LookFailedError(_status_failure(where, error.response.status_code, _brief(error))) from error
    except requests.Timeout as error:
        raise LookFailedError(Failure(FailureReason.TIMEOUT, f"{where}: no answer in time")) from error
    except requests.JSONDecodeError as error:
        raise LookFailedError(Failure(FailureReason.PARSE, f"{where}: the answer is not JSON")) from error
    except requests.RequestException as error:
        # A body that stops arriving comes as a ConnectionError around urllib3's own timeout.
        stopped = any(isinstance(part, ReadTimeoutError) for part in error.args)
        reason = FailureReason.TIMEOUT if stopped else FailureReason.NETWORK
        raise LookFailedError(Failure(reason, f"{where}: {type(error).__name__}")) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # What the client raises when a JSON answer is not of the listing's form.
        raise LookFailedError(Failure(FailureReason.PARSE, f"{where}: the answer has an unexpected form")) from error


def _status_failure(where: str, status: int | None, message: object) -> Failure:
    match status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            reason = FailureReason.AUTH
        case HTTPStatus.NOT_FOUND:
            reason = FailureReason.NOT_FOUND
        case HTTPStatus.TOO_MANY_REQUESTS:
            reason = FailureReason.THROTTLED
        case HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.GATEWAY_TIMEOUT:
            reason = FailureReason.TIMEOUT
        case int() if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            reason = FailureReason.NETWORK
        case _:
            reason = FailureReason.OTHER
    return Failure(reason, f"{where}: HTTP {status}: {_brief(message)}")


def _brief(message: object) -> str:
    """One line, cut off: upstream texts may be whole pages."""
    return " ".join(str(message).split())[:_LONGEST_DETAIL]
