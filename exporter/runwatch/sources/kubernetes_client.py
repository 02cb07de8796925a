"""The Kubernetes API of one site by its own client: connecting, and single requests whose every end is a value."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import incluster_config

from runwatch.config.model import Site
from runwatch.facts import Failure, FailureReason
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json, one_line

CONNECT_SECONDS = 2.0
READ_SECONDS = 5.0
BODY_SECONDS = 10.0  # from the headers to the end of one answer
PAGE_LIMIT = 500
EXPIRED_STATUS = 410
_CHUNK_BYTES = 256 * 1024
MAX_RETRY_AFTER_SECONDS = 300.0

_load: Any = config  # its functions have no types
_STATUS_REASONS = {
    401: FailureReason.AUTH,
    403: FailureReason.AUTH,
    404: FailureReason.NOT_FOUND,
    408: FailureReason.TIMEOUT,
    429: FailureReason.THROTTLED,
    504: FailureReason.TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object, as the API's paths name it; `group` is empty for the core's."""

    plural: str
    group: str = ""
    version: str = "v1"


PODS = Resource("pods")
JOBS = Resource("jobs", "batch")
JOBSETS = Resource("jobsets", "jobset.x-k8s.io", "v1alpha2")
WORKLOADS = Resource("workloads", "kueue.x-k8s.io", "v1beta2")
OLDER_WORKLOADS = Resource("workloads", "kueue.x-k8s.io", "v1beta1")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the API answered. `retry_after` is in seconds, None where it asks for no pause."""

    status: int
    body: bytes
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it is what was asked for."""
        return 200 <= self.status <= 299

    def failure(self, what: str) -> Failure:
        """Say in one line what was refused, without the server's own text: it names users."""
        reason = _STATUS_REASONS.get(self.status, FailureReason.OTHER)
        word = fields.text(_object(self.body), "reason")
        return Failure(
            reason,
            one_line(f"HTTP {self.status} {word}".rstrip(), what, limit=300),
            whole_source=reason is FailureReason.NOT_FOUND,
        )

    def json(self, what: str) -> Json | Failure:
        """Return the object in the body."""
        found = _object(self.body)
        return found or Failure(FailureReason.PARSE, f"{what}: the answer is no JSON object")


def _object(body: bytes) -> Json:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class _PluginErrors(logging.Filter):
    """The client logs what a failed credential plugin printed, which may be a credential, and goes on without one.

    This takes that text out, and tells whether it happened in this thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._threads: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass; a line of the client's config reader in words of our own."""
        if Path(record.pathname).parent == _CONFIG_READER:
            self._threads.add(threading.get_ident())
            record.msg, record.args = "Kubernetes: the credential plugin or provider of the kubeconfig failed", ()
            record.exc_info = record.exc_text = None
        return True

    def take(self) -> bool:
        """Whether a line of the reader came in this thread since this was asked last."""
        happened = threading.get_ident() in self._threads
        self._threads.discard(threading.get_ident())
        return happened


_CONFIG_READER = Path(incluster_config.__file__).parent
_plugin_errors = _PluginErrors()


class KubernetesApi:
    """Asks one API server. It connects at the first request, and anew after its credentials were refused.

    Args:
        site_name: whose requests are counted.
        site: context and namespace.
        count_request: counts one request.
        api_client: a client that is ready to be used; it stays the caller's.
    """

    def __init__(
        self, site_name: str, site: Site, count_request: Callable[[str], None], api_client: Any | None = None
    ) -> None:
        self._site_name = site_name
        self._site = site
        self._count_request = count_request
        self._is_own = api_client is None
        self._client = api_client
        self.namespace = site.namespace or ("default" if api_client is not None else "")

    def connect(self) -> Failure | None:
        """Read the credentials where that was not done yet."""
        if self._client is not None:
            return None
        made = _connect(self._site)
        if isinstance(made, Failure):
            return made
        self._client, self.namespace = made
        return None

    def page(self, resource: Resource, namespace: str, token: str, read_seconds: float) -> HttpAnswer | Failure:
        """Ask for one page of a listing; `token` is that of the page before, empty for the first.

        The first page asks for the newest state (no resource version: served from a quorum); the token of each page
        carries that version on, so that all pages show one moment.
        """
        wanted: dict[str, Any] = {"namespace": namespace, "limit": PAGE_LIMIT}
        if token:
            wanted["_continue"] = token
        if resource == PODS:
            return self._ask(lambda own: client.CoreV1Api(own).list_namespaced_pod, read_seconds, **wanted)
        if resource == JOBS:
            return self._ask(lambda own: client.BatchV1Api(own).list_namespaced_job, read_seconds, **wanted)
        wanted |= {"group": resource.group, "version": resource.version, "plural": resource.plural}
        return self._ask(lambda own: client.CustomObjectsApi(own).list_namespaced_custom_object, read_seconds, **wanted)

    def read_namespace(self, namespace: str, read_seconds: float) -> HttpAnswer | Failure:
        """Ask for the namespace itself: a listing of one that does not exist is empty, not refused."""
        return self._ask(lambda own: client.CoreV1Api(own).read_namespace, read_seconds, name=namespace)

    def pod_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, lines: int, limit_bytes: int
    ) -> HttpAnswer | Failure:
        """Ask for the last lines of a container's log, each behind the time at which it began."""
        wanted: dict[str, Any] = {"tail_lines": lines, "limit_bytes": limit_bytes, "previous": previous}
        wanted["timestamps"] = True
        if container:
            wanted["container"] = container
        return self._ask(
            lambda own: client.CoreV1Api(own).read_namespaced_pod_log,
            READ_SECONDS,
            name=pod,
            namespace=namespace,
            **wanted,
        )

    def close(self) -> None:
        """Close connections; a client that was given is left to its owner."""
        if self._client is not None and self._is_own:
            self._client.rest_client.pool_manager.clear()
            self._client = None

    def _ask(
        self, method: Callable[[Any], Callable[..., Any]], read_seconds: float, **wanted: Any
    ) -> HttpAnswer | Failure:
        refused = self.connect()
        if refused is not None:
            return refused
        self._count_request(self._site_name)
        try:
            response = method(self._client)(
                **wanted, _preload_content=False, _request_timeout=(CONNECT_SECONDS, read_seconds)
            )
            body = _read_whole(response, time.monotonic() + BODY_SECONDS)
        except client.ApiException as error:
            # The client's own text holds headers and body: only the status is passed on.
            response, body = error, _bytes(error.body)
            if not error.status:
                return Failure(FailureReason.NETWORK, "no TLS connection to the API server")
        except urllib3.exceptions.NewConnectionError:
            # To urllib3 a refused connection is one that timed out.
            return Failure(FailureReason.NETWORK, "the API server cannot be reached: no connection")
        except urllib3.exceptions.TimeoutError:
            return Failure(FailureReason.TIMEOUT, f"the API server did not answer in {read_seconds:g} s")
        except urllib3.exceptions.HTTPError as error:
            return Failure(FailureReason.NETWORK, f"the API server cannot be reached ({type(error).__name__})")
        except config.ConfigException:
            return Failure(FailureReason.AUTH, "the credentials could not be renewed")
        except (OSError, ValueError) as error:
            return Failure(FailureReason.OTHER, f"the request could not be made ({type(error).__name__})")
        if body is None:
            return Failure(FailureReason.TIMEOUT, "the API server's answer came too slowly")
        if response.status == 401 and self._is_own:
            self.close()
        return HttpAnswer(response.status, body, _retry_after(response.headers))


def _read_whole(response: Any, limit: float) -> bytes | None:
    """Read a body; None where it is not whole in time. A read timeout alone bounds only the pause between two bytes."""
    read_some = getattr(response, "read1", None)
    if read_some is None:
        whole: bytes = response.data
        return whole
    pieces: list[bytes] = []
    while piece := read_some(_CHUNK_BYTES):
        pieces.append(piece)
        if time.monotonic() > limit:
            response.close()
            return None
    response.release_conn()
    return b"".join(pieces)


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else str(body or "").encode()


def _retry_after(headers: Any) -> float | None:
    written = str((headers or {}).get("Retry-After", ""))
    return min(float(written), MAX_RETRY_AFTER_SECONDS) if written.isascii() and written.isdigit() else None


def _connect(site: Site) -> tuple[Any, str] | Failure:
    """Make a client.

    Where no context is named, the pod's service account is used if there is one; else the kubeconfig.
    """
    settings = client.Configuration()
    account = Path(incluster_config.SERVICE_TOKEN_FILENAME)
    paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
    logging.getLogger().addFilter(_plugin_errors)
    _plugin_errors.take()
    try:
        if site.context is None and account.is_file() and incluster_config.SERVICE_HOST_ENV_NAME in os.environ:
            where = "the pod's service account"
            _load.load_incluster_config(client_configuration=settings)
            namespace = _namespace_of_account(account)
        else:
            where = f"kubeconfig {paths}"
            _load.load_kube_config(paths, site.context, settings, persist_config=False)
            namespace = _namespace_of_context(paths, site.context)
    except config.ConfigException as error:
        return Failure(FailureReason.AUTH, f"{where}: {_harmless(str(error))}")
    except yaml.YAMLError as error:
        # The text of a YAML error shows the line, which may be a token.
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        return Failure(FailureReason.AUTH, f"{where}: no YAML" + ("" if line is None else f" (line {line + 1})"))
    except (OSError, TypeError, KeyError, ValueError, AttributeError) as error:
        return Failure(FailureReason.AUTH, f"{where}: cannot be used ({type(error).__name__})")
    if _plugin_errors.take():
        return Failure(FailureReason.AUTH, f"{where}: the credential plugin failed")
    settings.retries = False
    return client.ApiClient(settings), site.namespace or namespace or "default"


def _harmless(said: str) -> str:
    """What a credential plugin printed stays out: it may be a credential."""
    return "the credential plugin failed" if said.startswith("exec:") else one_line(said)


def _namespace_of_account(token_file: Path) -> str:
    path = token_file.with_name("namespace")
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _namespace_of_context(paths: str, wanted: str | None) -> str:
    contexts, current = _load.list_kube_config_contexts(paths)
    chosen = current if wanted is None else next(found for found in contexts if found["name"] == wanted)
    return str(chosen["context"].get("namespace") or "")
