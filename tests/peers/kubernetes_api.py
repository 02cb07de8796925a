"""A stand-in for a Kubernetes API server, on loopback: listings in pages, selectors, Status bodies, pod logs.

The real `kubernetes` client works against it unmodified. It serves the snapshot of a listing's first page to all of its
pages, as etcd does, and answers 410 once that snapshot is compacted. Faults are injected by `fault`, which sees each
request before it is answered.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

Object = dict[str, Any]

LIST_KINDS = {"pods": "PodList", "jobs": "JobList", "jobsets": "JobSetList", "workloads": "WorkloadList"}
BUILT_IN = frozenset({"pods", "jobs"})


@dataclass(frozen=True)
class Fault:
    """What is answered in place of the real answer. `hang` is in seconds and comes first; `drip` sends bytes slowly."""

    status: int = 200
    body: bytes | None = None
    reason: str = "Injected"
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    drip: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Asked:
    """One request, as it came."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def plural(self) -> str:
        """The kind of object that was asked for."""
        return next((part for part in self.path.split("/") if part in LIST_KINDS), "namespace")


def status(code: int, reason: str, message: str, **headers: str) -> Response:
    """A failure as the API server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return JSONResponse(body, code, headers)


class KubernetesApiServer:
    """Runs in a thread of this process until `close`. `requests` holds every request that came.

    Lines of a log were written `log_line_seconds` after one another, the first at `log_begins` (Unix seconds).
    `forbidden` are plurals that answer 403; `installed` are the custom resources that there are, as plural to version.
    `compact_after` of a listing is how many pages are served before its snapshot is compacted (once for each number).
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}
        self.namespaces = {"runs"}
        self.logs: dict[tuple[str, str, bool], list[str]] = {}
        self.log_begins = 1_790_000_000.0
        self.log_line_seconds = 1.0
        self.requests: list[Asked] = []
        self.forbidden: set[str] = set()
        self.installed: dict[str, str] = {"jobsets": "v1alpha2", "workloads": "v1beta2"}
        self.compact_after: list[int] = []
        self.fault: Callable[[Asked], Fault | None] = lambda _asked: None
        self.on_request: Callable[[Asked], None] = lambda _asked: None
        self._version = 1000
        self._snapshots: dict[str, list[Object]] = {}
        self._closing = threading.Event()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        routes = [
            Route("/api/v1/namespaces/{namespace}", self._namespace),
            Route("/api/v1/namespaces/{namespace}/{plural}", self._list),
            Route("/api/v1/namespaces/{namespace}/pods/{name}/log", self._log),
            Route("/apis/{group}/{version}/namespaces/{namespace}/{plural}", self._list),
        ]
        settings = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off", ws="none")
        self._server = uvicorn.Server(settings)
        self._listener = listener
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def close(self) -> None:
        """Stop serving; requests that hang are let go."""
        self._closing.set()
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()
        self._listener.close()

    def put(self, plural: str, record: Object) -> Object:
        """Serve an object; one of the same name is replaced."""
        self._version += 1
        record["metadata"]["resourceVersion"] = str(self._version)
        key = (record["metadata"]["namespace"], record["metadata"]["name"])
        self.objects.setdefault(plural, {})[key] = record
        return record

    def remove(self, plural: str, name: str, namespace: str = "runs") -> None:
        """Serve an object no more."""
        del self.objects[plural][(namespace, name)]

    def counts(self) -> Counter[str]:
        """How many requests came, by what was asked for."""
        return Counter(asked.plural for asked in self.requests)

    def _heard(self, request: Request) -> Response | None:
        asked = Asked(request.url.path, dict(request.query_params), dict(request.headers))
        self.requests.append(asked)
        self.on_request(asked)
        fault = self.fault(asked)
        if fault is None:
            if asked.plural in self.forbidden:
                message = f'{asked.plural} is forbidden: User "runwatch" cannot list resource'
                return status(403, "Forbidden", message)
            return None
        if fault.drip:
            return StreamingResponse(self._slowly(), media_type="application/json")
        self._closing.wait(fault.hang)
        if fault.cut:
            return Response(b'{"items": [', headers={"content-length": "100000"})
        if fault.body is not None:
            return Response(fault.body, fault.status, fault.headers)
        return status(fault.status, fault.reason, "injected: token=s3cr3t", **fault.headers)

    def _slowly(self) -> Any:
        while not self._closing.wait(0.1):
            yield b" "

    def _namespace(self, request: Request) -> Response:
        answer = self._heard(request)
        if answer is not None:
            return answer
        name = request.path_params["namespace"]
        if name not in self.namespaces:
            return status(404, "NotFound", f'namespaces "{name}" not found')
        return JSONResponse({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    def _list(self, request: Request) -> Response:
        answer = self._heard(request)
        if answer is not None:
            return answer
        plural, query = request.path_params["plural"], request.query_params
        if plural not in BUILT_IN and self.installed.get(plural) != request.path_params["version"]:
            return PlainTextResponse("404 page not found\n", 404)
        limit = int(query.get("limit") or 0)
        if token := query.get("continue"):
            if query.get("resourceVersion"):
                return status(400, "BadRequest", "resource version may not be set with a continue token")
            version, offset = json.loads(base64.b64decode(token))
            if self.compact_after and offset >= self.compact_after[0] * limit:
                self.compact_after.pop(0)
                del self._snapshots[version]
            if version not in self._snapshots:
                return status(410, "Expired", "The provided continue parameter is too old")
        else:
            version, offset = str(self._version), 0
            self._snapshots[version] = self._selected(plural, request.path_params["namespace"], query)
        return JSONResponse(self._page(plural, version, offset, limit))

    def _page(self, plural: str, version: str, offset: int, limit: int) -> Object:
        found = self._snapshots[version]
        page = found[offset : offset + limit] if limit else found
        metadata: Object = {"resourceVersion": version}
        left = len(found) - offset - len(page)
        if left:
            token = json.dumps([version, offset + len(page)]).encode()
            metadata |= {"continue": base64.b64encode(token).decode(), "remainingItemCount": left}
        return {"kind": LIST_KINDS[plural], "apiVersion": "v1", "metadata": metadata, "items": page or None}

    def _selected(self, plural: str, namespace: str, query: Any) -> list[Object]:
        labels = dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair)
        wanted = dict(pair.split("=", 1) for pair in query.get("fieldSelector", "").split(",") if pair)
        return [
            record
            for (where, _), record in sorted(self.objects.get(plural, {}).items())
            if where == namespace
            and labels.items() <= record["metadata"].get("labels", {}).items()
            and all(_at(record, path) == value for path, value in wanted.items())
        ]

    def _log(self, request: Request) -> Response:
        answer = self._heard(request)
        if answer is not None:
            return answer
        query = request.query_params
        previous = query.get("previous", "").lower() == "true"
        lines = self.logs.get((request.path_params["namespace"], request.path_params["name"], previous))
        if lines is None:
            return status(404, "NotFound", "pods not found")
        if query.get("timestamps", "").lower() == "true":
            times = (self.log_begins + number * self.log_line_seconds for number in range(len(lines)))
            # Nanoseconds, as kubelets write them.
            stamps = (datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z") for time in times)
            lines = [f"{stamp} {line}" for stamp, line in zip(stamps, lines, strict=True)]
        tail, limit = int(query.get("tailLines") or 0), int(query.get("limitBytes") or 0)
        body = "".join(f"{line}\n" for line in (lines[-tail:] if tail else lines)).encode()
        return Response(body[:limit] if limit else body, media_type="text/plain")


def _at(record: Object, path: str) -> str:
    found: Any = record
    for key in path.split("."):
        found = found.get(key, {})
    return str(found)
