"""A small HTTP server that speaks the documented JSON of an Iris controller: for counting calls, and for failures."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler

from tests.http_serving import serving_http

PAGE = 500
LARGEST_OFFSET = 5000
HANG_SECONDS = 60.0
SUBMITTED = 1_795_970_000.0

Json = dict[str, object]


def stamp(seconds: float) -> Json:
    """A time as Iris sends it."""
    return {"epochMs": str(round(seconds * 1000))}


def job(job_id: str, state: str = "RUNNING", tasks: dict[str, int] | None = None, **more: object) -> Json:
    """One job of a listing."""
    counts = {"running": 1} if tasks is None else tasks
    return {
        "jobId": job_id,
        "state": f"JOB_STATE_{state}",
        "submittedAt": stamp(SUBMITTED),
        "startedAt": stamp(SUBMITTED + 1),
        "taskStateCounts": counts,
        "taskCount": sum(counts.values()),
        "cluster": "local",
        "peerStatus": "PEER_STATUS_NONE",
    } | more


def attempt(number: int, state: str, started: float, finished: float | None = None, **more: object) -> Json:
    """One attempt of a task; times are seconds after the submission."""
    times = {"startedAt": stamp(SUBMITTED + started)}
    if finished is not None:
        times["finishedAt"] = stamp(SUBMITTED + finished)
    return {"attemptId": number, "state": f"TASK_STATE_{state}", "exitCode": 0, "error": ""} | times | more


class IrisServer:
    """What the server holds and does. `calls` counts by method; `answers` replaces a method's answer.

    While `may_answer` is not set it hangs.
    """

    def __init__(self) -> None:
        self.jobs: list[Json] = []
        self.attempts: dict[str, list[Json]] = {}
        self.chips: Json = {}
        self.calls: Counter[str] = Counter()
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.headers: list[dict[str, str]] = []
        self.accepted: dict[str, str] | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.hidden: set[str] = set()
        self.url = ""

    def answer(self, method: str, message: Json) -> tuple[int, Json]:
        """The answer to one call."""
        if method == "ListJobs":
            return self._list_jobs(message)
        if method == "GetJobState":
            known = {str(entry["jobId"]): entry["state"] for entry in self.jobs}
            wanted = message["jobIds"]
            assert isinstance(wanted, list)
            return 200, {"states": {name: known[name] for name in wanted if name in known}}
        if method == "ListTasks":
            names = [name for name in self.attempts if name.rpartition("/")[0] == message["jobId"]]
            return 200, {"tasks": [self._task(name, newest=True) for name in names]}
        if method == "GetTaskStatus":
            name = str(message["taskId"])
            if name not in self.attempts:
                return 404, {"code": "not_found", "message": f"Task {name} not found"}
            return 200, {"task": self._task(name, newest=False), "jobResources": {"device": self.chips}}
        return 404, {}

    def _list_jobs(self, message: Json) -> tuple[int, Json]:
        query = message["query"]
        assert isinstance(query, dict)
        assert query.keys() <= {"jobIdPrefix", "offset", "limit"}
        if query["offset"] > LARGEST_OFFSET:
            return 400, {"code": "invalid_argument", "message": "exceeds MAX_LIST_JOBS_OFFSET=5000"}
        prefix, offset, limit = query["jobIdPrefix"], query["offset"], min(query["limit"], PAGE)
        found = [entry for entry in self.jobs if str(entry.get("jobId", "")).startswith(prefix)]
        page = [entry for entry in found[offset : offset + limit] if entry.get("jobId") not in self.hidden]
        return 200, {"jobs": page, "totalCount": len(found), "hasMore": offset + limit < len(found)}

    def _task(self, name: str, *, newest: bool) -> Json:
        attempts = self.attempts[name]
        shown = attempts[-1:] if newest else attempts
        return {"taskId": name, "currentAttemptId": len(attempts) - 1, "attempts": shown, "state": "TASK_STATE_RUNNING"}


@contextmanager
def serving_iris() -> Iterator[IrisServer]:
    """Run the server on a free loopback port."""
    state = IrisServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            service, _, method = self.path.rpartition("/")
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.calls[method] += 1
            state.headers.append(dict(self.headers.items()))
            state.may_answer.wait(HANG_SECONDS)
            status, body = state.answers.get(method, (0, b""))
            if state.accepted is not None and not state.accepted.items() <= dict(self.headers.items()).items():
                status, body = (
                    401,
                    json.dumps({"code": "unauthenticated", "message": self.headers.as_string()}).encode(),
                )
            if not status:
                known = service == "/iris.cluster.ControllerService"
                status, reply = state.answer(method, message) if known else (404, {})
                body = json.dumps(reply).encode()
            with suppress(ConnectionError):  # who was kept waiting has gone
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with serving_http(Handler) as url:
        state.url = url
        try:
            yield state
        finally:
            state.may_answer.set()
