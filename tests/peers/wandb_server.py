"""A stand-in for W&B's API: a GraphQL server on loopback that executes any valid query and samples as W&B does.

The real wandb client works against it unmodified. Faults are injected by `fault`, which sees each request's document
before it is executed.
"""

# ruff: noqa: N802, N803 - resolvers carry the names of the schema
from __future__ import annotations

import base64
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from graphql import GraphQLError, GraphQLResolveInfo, build_schema, graphql_sync, parse, validate

from tests.peers.wandb_server_runs import PeerRun, iso, matches, sampled

KEY = "k" * 40
SCHEMA = build_schema((Path(__file__).parent / "wandb_schema.graphql").read_text())
DEFAULT_SAMPLES = 500


@dataclass(frozen=True)
class Fault:
    """What is answered in place of the query's result. `hang` is in seconds and comes first."""

    status: int = 200
    body: bytes = b'{"errors":[{"message":"injected"}]}'
    headers: tuple[tuple[str, str], ...] = ()
    hang: float = 0.0


@dataclass(frozen=True)
class Request:
    """One GraphQL request, as it came."""

    operation: str
    document: str
    variables: dict[str, Any]

    def asks(self, text: str) -> bool:
        """Whether the document or any variable holds the text."""
        return text in self.document or text in json.dumps(self.variables)


class WandbServer:
    """Runs in threads of this process until `close`. `requests` holds every GraphQL request that came.

    `sample_cap` is the most rows that one `history` gives, whatever is asked. How the service chooses them is unknown,
    so `samples_uniformly` is a second way. `poisoned` runs raise inside their resolver: their alias is null with an
    error beside it, as GraphQL has it.
    """

    def __init__(self, seed: int = 1) -> None:
        self.runs: dict[str, PeerRun] = {}
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Fault | None] = lambda _request: None
        self.sample_cap: int | None = None
        self.samples_uniformly = False
        self.poisoned: set[str] = set()
        self.key = KEY
        self.rows_sent = 0
        self._chance = random.Random(seed)
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"peer": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; requests that hang are let go."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def add(self, run: PeerRun) -> PeerRun:
        """Serve this run too."""
        self.runs[run.path] = run
        return run

    def count(self, text: str = "") -> int:
        """How many GraphQL requests held the text in their document or variables."""
        return sum(request.asks(text) for request in self.requests)

    def operations(self) -> Counter[str]:
        """How many requests came by the name of their operation."""
        return Counter(request.operation for request in self.requests)

    def rest(self, seconds: float) -> None:
        """Sleep, but not beyond `close`."""
        self._closing.wait(seconds)

    def history(self, run: PeerRun, low: int, high: int, samples: int) -> list[str]:
        """Rows with low <= step < high, sampled when there are more than `samples` (or than the server's cap)."""
        first, last = run.between(low, high)
        limit = samples if self.sample_cap is None else min(samples, self.sample_cap)
        rows = sampled(run.lines[first:last], limit, self._chance, uniform=self.samples_uniformly)
        self.rows_sent += len(rows)
        return rows

    def answer(self, request: Request) -> bytes:
        """The GraphQL answer as bytes: any valid document is executed."""
        document = parse(request.document)
        errors = validate(SCHEMA, document)
        if errors:
            return json.dumps({"errors": [error.formatted for error in errors]}).encode()
        result = graphql_sync(
            SCHEMA,
            request.document,
            root_value=_Root(self),
            variable_values=request.variables,
            operation_name=request.operation or None,
        )
        return json.dumps(result.formatted, allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    peer: WandbServer
    protocol_version = "HTTP/1.1"
    # A small answer must not wait for the client's delayed acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """The tests look at `requests`; nothing goes to stderr."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path != "/graphql":
            return self._send(404, b"{}")
        expected = "Basic " + base64.b64encode(f"api:{self.peer.key}".encode()).decode()
        payload = json.loads(body)
        document = payload["query"]
        operation = payload.get("operationName") or ""
        if not operation:
            words = document.replace("#graphql", " ").replace("(", " ").replace("{", " ").split()
            operation = words[1] if words[0] == "query" else ""
        request = Request(operation, document, payload.get("variables") or {})
        self.peer.requests.append(request)
        fault = self.peer.fault(request)
        if fault is not None:
            self.peer.rest(fault.hang)
            return self._send(fault.status, fault.body, fault.headers)
        if self.headers.get("Authorization") != expected:
            return self._send(401, b'{"errors":[{"message":"user is not logged in"}]}')
        return self._send(200, self.peer.answer(request))

    def do_GET(self) -> None:
        run = self.peer.runs.get(self.path.removeprefix("/file/").removesuffix(".parquet"))
        if run is None or run.parquet is None:
            return self._send(404, b"")
        span = self.headers.get("Range", "")
        if not span.startswith("bytes="):
            return self._send(200, run.parquet)
        start, _, end = span.removeprefix("bytes=").partition("-")
        total = len(run.parquet)
        first = int(start) if start else max(0, total - int(end))
        last = min(int(end), total - 1) if start and end else total - 1
        return self._send(206, run.parquet[first : last + 1], (("Content-Range", f"bytes {first}-{last}/{total}"),))

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


class _Root:
    """The query's root: graphql-core calls attributes that can be called with (info, **arguments)."""

    def __init__(self, peer: WandbServer) -> None:
        self._peer = peer
        self.serverInfo = {"features": []}
        self.viewer = {
            "id": "user-1",
            "entity": "u1",
            "username": "u1",
            "email": "u1@example.com",
            "name": "U One",
            "admin": False,
            "flags": "{}",
            "teams": {"edges": []},
        }

    def project(self, _info: GraphQLResolveInfo, name: str | None = None, entityName: str | None = None) -> Any:
        runs = [run for run in self._peer.runs.values() if (run.entity, run.project) == (entityName, name)]
        return _Project(self._peer, runs, name, entityName) if runs else None


class _Project:
    def __init__(self, peer: WandbServer, runs: list[PeerRun], name: str | None, entity: str | None) -> None:
        self._peer, self._runs = peer, runs
        self.id, self.internalId, self.name, self.entityName, self.readOnly = "project-1", "17", name, entity, False

    def _filtered(self, filters: str | None) -> list[PeerRun]:
        wanted = json.loads(filters) if filters else {}
        return [run for run in self._runs if matches(run, wanted)]

    def runCount(self, _info: GraphQLResolveInfo, filters: str | None = None) -> int:
        return len(self._filtered(filters))

    def run(self, _info: GraphQLResolveInfo, name: str) -> Any:
        found = next((run for run in self._runs if run.name == name), None)
        return _Run(self._peer, found) if found else None

    def runs(
        self,
        _info: GraphQLResolveInfo,
        filters: str | None = None,
        after: str | None = None,
        first: int = 50,
        order: str | None = None,
    ) -> Any:
        found = sorted(self._filtered(filters), key=lambda run: run.created_at, reverse=(order or "").startswith("-"))
        start = int(after) if after else 0
        page = found[start : start + first]
        edges = [{"node": _Run(self._peer, run), "cursor": str(start + i + 1)} for i, run in enumerate(page)]
        more = start + len(page) < len(found)
        return {"edges": edges, "pageInfo": {"hasNextPage": more, "endCursor": str(start + len(page))}}


class _Run:
    def __init__(self, peer: WandbServer, run: PeerRun) -> None:
        self._peer, self._run = peer, run
        self.id, self.projectId, self.name = f"id-{run.name}", "17", run.name
        self.displayName, self.state, self.config = run.display_name or run.name, run.state, run.config
        self.createdAt, self.heartbeatAt = iso(run.created_at), iso(run.heartbeat_at)
        self.historyLineCount, self.readOnly, self.tags, self.fileCount = run.claimed_lines, False, [], 0
        self.summaryMetrics, self.systemMetrics = "{}", "{}"
        self.user = {"id": "user-1", "name": run.username, "username": run.username}

    def historyKeys(self, _info: GraphQLResolveInfo) -> Any:
        if not self._run.steps:
            return None
        return {"lastStep": self._run.steps[-1], "sets": [], "keys": {}}

    def history(
        self, _info: GraphQLResolveInfo, minStep: Any = None, maxStep: Any = None, samples: int = DEFAULT_SAMPLES
    ) -> list[str]:
        if self._run.path in self._peer.poisoned:
            raise GraphQLError("internal error while reading this run")
        low = int(minStep) if minStep is not None else 0
        high = int(maxStep) if maxStep is not None else 2**62
        return self._peer.history(self._run, low, high, samples)

    def sampledHistory(self, _info: GraphQLResolveInfo, specs: list[str]) -> list[list[Any]]:
        answers = []
        for spec in map(json.loads, specs):
            low, high = spec.get("minStep", 0), spec.get("maxStep", 2**62)
            first, last = self._run.between(low, high + 1)
            keys = dict.fromkeys(spec["keys"])
            rows = [json.loads(line) for line in self._run.lines[first:last]]
            full = [json.dumps({key: row[key] for key in keys}) for row in rows if all(key in row for key in keys)]
            answers.append([json.loads(line) for line in sampled(full, spec["samples"], random.Random(1))])
        return answers

    def events(self, _info: GraphQLResolveInfo, samples: int = DEFAULT_SAMPLES) -> list[str]:
        return []

    def parquetHistory(self, _info: GraphQLResolveInfo, liveKeys: list[str]) -> Any:
        urls = [f"{self._peer.url}/file/{self._run.path}.parquet"] if self._run.parquet else []
        first, _last = self._run.between(0, 2**62)
        live = [{"_step": float(step)} for step in self._run.steps[first : first + 1]]
        return {"parquetUrls": urls, "liveData": live}


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
