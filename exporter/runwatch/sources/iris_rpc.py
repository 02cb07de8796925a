"""Connect-JSON over HTTP to an Iris controller: one call, one typed answer.

The protocol (connectrpc.com/docs/protocol, unary): POST of a JSON object; 200 with the reply, or another status with
`{"code": …, "message": …}`. A status without such a body comes from something else than the service.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from runwatch.facts import Failure, FailureReason
from runwatch.parsing.iris import one_line
from runwatch.sources.iris_credentials import IrisCredentials

CONTROLLER = "iris.cluster.ControllerService"
LOGS = "proxy/system.log-server/finelog.logging.LogService"
STATS = "proxy/system.log-server/finelog.stats.StatsService"

REQUEST_SECONDS = 8.0
"""How long one call may take: a controller under load stalls for minutes, and the poll must end before."""

CONNECTIONS = 4
_LARGEST_REPLY = 64 * 2**20

_REASONS: Mapping[str, FailureReason] = {
    "unauthenticated": FailureReason.AUTH,
    "permission_denied": FailureReason.AUTH,
    "not_found": FailureReason.NOT_FOUND,
    "resource_exhausted": FailureReason.THROTTLED,
    "deadline_exceeded": FailureReason.TIMEOUT,
    "unavailable": FailureReason.NETWORK,
}


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of a 200. `clock_skew` is the controller's clock minus ours, in seconds, to about a second."""

    body: Mapping[str, object]
    clock_skew: float | None


class IrisClient:
    """Pooled connections to one controller. `call` may be used from several threads.

    Args:
        controller: base address, `http` or `https`.
        credentials: the token.
        count_request: called before each request.
        clock: Unix seconds.
    """

    def __init__(
        self,
        controller: str,
        credentials: IrisCredentials,
        count_request: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._base = controller.rstrip("/")
        self._credentials, self._count_request, self._clock = credentials, count_request, clock
        self._http = httpx.Client(
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            headers={"User-Agent": "runwatch"},
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(self, service: str, method: str, message: Mapping[str, object], until: float) -> Reply | Failure:
        """Call a method.

        Args:
            service: path of the service, as `CONTROLLER`.
            method: its name.
            message: the request, as JSON.
            until: when the answer must be there, on `time.monotonic`; one call never takes `REQUEST_SECONDS`.
        """
        answer = self._call_once(service, method, message, until)
        refused = isinstance(answer, Failure) and answer.reason is FailureReason.AUTH
        if not refused or not self._credentials.configured:
            return answer
        self._credentials.refused()
        return self._call_once(service, method, message, until)

    def _call_once(self, service: str, method: str, message: Mapping[str, object], until: float) -> Reply | Failure:
        headers = self._credentials.headers(until - time.monotonic())
        if isinstance(headers, Failure):
            return headers
        seconds = min(REQUEST_SECONDS, until - time.monotonic())
        if seconds <= 0:
            return Failure(FailureReason.TIMEOUT, "no time was left to ask the controller")
        answer = self._send(f"{self._base}/{service}/{method}", message, headers, seconds)
        if isinstance(answer, Reply):
            return answer
        # A proxy may well quote the header that it refuses.
        detail = answer.detail
        for secret in headers.values():
            detail = detail.replace(secret.removeprefix("Bearer "), "***")
        return Failure(answer.reason, f"{method}: {detail}", answer.whole_source)

    def _send(
        self, url: str, message: Mapping[str, object], headers: Mapping[str, str], seconds: float
    ) -> Reply | Failure:
        until = time.monotonic() + seconds
        slow = Failure(FailureReason.TIMEOUT, f"no whole answer from the controller within {seconds:.1f} s")
        self._count_request()
        try:
            with self._http.stream("POST", url, json=message, headers=headers, timeout=seconds) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > until:
                        return slow
                    if len(body) > _LARGEST_REPLY:
                        return Failure(FailureReason.PARSE, "the controller's answer is larger than 64 MiB")
        except httpx.TimeoutException:
            return slow
        except httpx.InvalidURL:
            return Failure(FailureReason.OTHER, "the site's controller is no URL", whole_source=True)
        except httpx.DecodingError:
            return Failure(FailureReason.PARSE, "the controller's answer cannot be decompressed")
        except httpx.HTTPError as error:
            return Failure(FailureReason.NETWORK, f"cannot reach the controller: {type(error).__name__}")
        if response.status_code != httpx.codes.OK:
            return refusal(response.status_code, bytes(body), retry_after="Retry-After" in response.headers)
        reply = _object(bytes(body))
        if reply is None:
            return Failure(FailureReason.PARSE, "the controller's answer is no JSON object")
        return Reply(reply, self._skew(response.headers.get("Date")))

    def _skew(self, date: str | None) -> float | None:
        if date is None:
            return None
        try:
            moment = parsedate_to_datetime(date)
        except ValueError:
            return None
        return None if moment.tzinfo is None else moment.timestamp() - self._clock()


def refusal(status: int, body: bytes, *, retry_after: bool = False) -> Failure:
    """What a status other than 200 means.

    `not_found` by the service is an answer about a job. A 404 without the service's words means that there is no such
    service at that address, which is no answer about any job.
    """
    told = _object(body)
    code = told.get("code") if told is not None else None
    if told is not None and isinstance(code, str):
        message = told.get("message")
        said = one_line(f"{code}: {message}" if isinstance(message, str) and message else code)
        return Failure(_REASONS.get(code, FailureReason.OTHER), said)
    said = f"HTTP {status} without an Iris answer"
    if status == 404:
        return Failure(FailureReason.NOT_FOUND, f"{said}: no Iris controller at this address", whole_source=True)
    if status in (401, 403, 407):
        return Failure(FailureReason.AUTH, said)
    if 300 <= status < 400:
        return Failure(FailureReason.AUTH, f"{said}: a redirect, as to a login page")
    if status == 429 or (status == 503 and retry_after):
        return Failure(FailureReason.THROTTLED, said)
    if status in (408, 504):
        return Failure(FailureReason.TIMEOUT, said)
    if status in (502, 503):
        return Failure(FailureReason.NETWORK, f"{said}: the controller behind it is not reached")
    return Failure(FailureReason.OTHER, said)


def _object(body: bytes) -> Mapping[str, object] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
