"""What the reader makes of a storage service that refuses, hangs, or answers garbage: always a typed failure."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest

from runwatch.facts import Checkpoint, CheckpointListing, Failure, FailureReason
from runwatch.fleet import Job
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.gcs import GcsConnection
from tests.http_serving import serving_http
from tests.peers.gcs_server import client_of

JSON = "application/json"
TIMEOUT = 0.4


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    kind: str = JSON
    hang: bool = False
    declared_length: int | None = None


def listing(names: dict[str, str] | None = None, folders: tuple[str, ...] = (), token: str = "") -> Answer:
    items = [{"name": name, "size": "77", "updated": updated} for name, updated in (names or {}).items()]
    value: dict[str, object] = {"kind": "storage#objects", "items": items, "prefixes": list(folders)}
    if token:
        value["nextPageToken"] = token
    return Answer(200, json.dumps(value).encode())


def refusal(status: int) -> Answer:
    return Answer(status, json.dumps({"error": {"code": status, "message": "as told"}}).encode())


@dataclass
class Service:
    """Answers each request as `respond` says; listings are asked for with the prefix and the page's token."""

    respond: Callable[[str, str], Answer]
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)


@contextmanager
def running(respond: Callable[[str, str], Answer]) -> Iterator[Service]:
    service = Service(respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            asked = (query.get("prefix", [urlsplit(self.path).path])[0], query.get("pageToken", [""])[0])
            service.asked.append(asked)
            answer = service.respond(*asked)
            if answer.hang:
                service.release.wait(30)
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(answer.declared_length or len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.declared_length is not None:
                service.release.wait(30)
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    with serving_http(Handler) as url:
        service.url = url
        try:
            yield service
        finally:
            service.release.set()


def look(service: Service, *roots: str) -> CheckpointListing | Failure:
    with client_of(service.url) as client:
        reader = CheckpointReader(lambda site: None, connect_buckets=lambda: GcsConnection(client, timeout=TIMEOUT))
        return reader.read(Job(run="r", bucket="sft", checkpoints=roots))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(401), FailureReason.AUTH),
        (refusal(403), FailureReason.AUTH),
        (refusal(404), FailureReason.NOT_FOUND),
        (refusal(429), FailureReason.THROTTLED),
        (refusal(500), FailureReason.NETWORK),
        (refusal(503), FailureReason.NETWORK),
        (refusal(400), FailureReason.OTHER),
        (Answer(200, b"<html>Sign in</html>", "text/html"), FailureReason.PARSE),
        (Answer(200, b'{"items": [{"name"'), FailureReason.PARSE),
        (Answer(200, b"[]"), FailureReason.PARSE),
        (Answer(200, b'"text"'), FailureReason.PARSE),
        (Answer(200, b'{"items": [{"size": "1"}]}'), FailureReason.PARSE),
        (Answer(200, b'{"items": [{"name": "run/a", "size": "1", "updated": "yesterday"}]}'), FailureReason.PARSE),
        (Answer(200, b"", hang=True), FailureReason.TIMEOUT),
        (Answer(200, b'{"items": [', declared_length=9999), FailureReason.TIMEOUT),
    ],
)
def test_a_listing_that_fails_is_a_typed_failure_after_one_request(answer: Answer, reason: FailureReason) -> None:
    with running(lambda prefix, token: answer) as service:
        started = time.monotonic()
        outcome = look(service, "gs://bucket/run")
        elapsed = time.monotonic() - started
    assert isinstance(outcome, Failure)
    assert outcome.reason is reason
    assert "gs://bucket/run" in outcome.detail
    assert "\n" not in outcome.detail
    assert len(service.asked) == 1
    assert elapsed < 10


def test_a_refused_connection_is_a_network_failure() -> None:
    with running(lambda prefix, token: refusal(500)) as service:
        pass
    outcome = look(service, "gs://bucket/run")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NETWORK


def test_one_failing_root_fails_the_whole_look() -> None:
    def respond(prefix: str, token: str) -> Answer:
        if prefix.startswith("temporary/"):
            return refusal(403)
        if prefix == "permanent/":
            return listing(folders=("permanent/step-5/",))
        if prefix == "permanent/step-5/":
            return listing({"permanent/step-5/metadata.json": "2026-01-01T00:00:00Z"})
        return Answer(200, b'{"step": 5, "timestamp": "2026-01-01T00:00:00"}')

    with running(respond) as service:
        alone = look(service, "gs://bucket/permanent")
        both = look(service, "gs://bucket/permanent", "gs://bucket/temporary")
    assert isinstance(alone, CheckpointListing)
    assert [(checkpoint.step, checkpoint.complete) for checkpoint in alone.checkpoints] == [(5, True)]
    assert isinstance(both, Failure)
    assert both.reason is FailureReason.AUTH


@pytest.mark.parametrize("failing", ["run/step-7/", "/download/storage/v1/b/bucket/o/run%2Fstep-7%2Fmetadata.json"])
def test_a_failure_below_the_root_fails_the_look_too(failing: str) -> None:
    def respond(prefix: str, token: str) -> Answer:
        if prefix == failing:
            return refusal(429)
        if prefix == "run/":
            return listing(folders=("run/step-7/",))
        return listing({"run/step-7/metadata.json": "2026-01-01T00:00:00Z"})

    with running(respond) as service:
        outcome = look(service, "gs://bucket/run")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.THROTTLED


def test_a_marker_that_is_deleted_between_listing_and_reading_is_skipped() -> None:
    def respond(prefix: str, token: str) -> Answer:
        match prefix:
            case "run/":
                return listing(folders=("run/step-7/", "run/step-8/"))
            case "run/step-7/" | "run/step-8/":
                return listing({f"{prefix}metadata.json": "2026-01-01T00:00:00Z"})
        if "step-8" in prefix:
            return refusal(404)
        return Answer(200, b'{"step": 7, "timestamp": "2026-01-01T00:00:00"}')

    with running(respond) as service:
        outcome = look(service, "gs://bucket/run")
    assert isinstance(outcome, CheckpointListing)
    assert [checkpoint.step for checkpoint in outcome.checkpoints] == [7]


def test_a_listing_of_several_pages_is_read_to_its_end_and_each_page_is_counted() -> None:
    def respond(prefix: str, token: str) -> Answer:
        match prefix, token:
            case "run/", "":
                return listing(folders=("run/step-10/",), token="second")
            case "run/", "second":
                return listing({"run/.executor_info": "2026-01-01T00:00:00Z"}, folders=("run/step-9/",))
            case "run/step-9/", _:
                return listing({"run/step-9/metadata.json": "2026-01-02T00:00:00.250Z"})
            case "run/step-10/", _:
                return listing(folders=("run/step-10/d/",))
        return Answer(200, b'{"step": 9, "timestamp": "1999-01-01T00:00:00", "is_temporary": true}')

    requests: list[str] = []
    with running(respond) as service, client_of(service.url) as client:
        reader = CheckpointReader(requests.append, connect_buckets=lambda: GcsConnection(client, timeout=5.0))
        outcome = reader.read(Job(run="r", bucket="sft", site="s", checkpoints=("gs://bucket/run",)))
    assert isinstance(outcome, CheckpointListing)
    assert outcome.checkpoints == (
        Checkpoint(
            step=9,
            root="gs://bucket/run",
            path="gs://bucket/run/step-9",
            complete=True,
            evidence="metadata.json: step 9, temporary",
            saved_at=1767312000.25,  # 2026-01-02T00:00:00.250Z, the object's time
            kind="temporary",
            layout="levanter",
        ),
        Checkpoint(
            step=10,
            root="gs://bucket/run",
            path="gs://bucket/run/step-10",
            complete=False,
            evidence="no metadata.json: being written, aborted, or being deleted",
            layout="levanter",
        ),
    )
    assert len(requests) == len(service.asked) == 5


def test_a_change_of_an_objects_metadata_is_no_new_save() -> None:
    """The service moves `updated` on when a lifecycle rule changes an old object's storage class."""
    state = {"name": "run/step-9/metadata.json", "size": "77", "timeCreated": "2026-01-02T00:00:00Z"}
    state["updated"] = "2026-02-01T00:00:00Z"

    def respond(prefix: str, token: str) -> Answer:
        match prefix:
            case "run/":
                return listing(folders=("run/step-9/",))
            case "run/step-9/":
                return Answer(200, json.dumps({"items": [state]}).encode())
        return Answer(200, b'{"step": 9, "timestamp": "2026-01-02T00:00:00"}')

    with running(respond) as service:
        outcome = look(service, "gs://bucket/run")
    assert isinstance(outcome, CheckpointListing)
    assert [checkpoint.saved_at for checkpoint in outcome.checkpoints] == [1767312000.0]  # 2026-01-02T00:00:00Z


def test_no_credentials_are_an_auth_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", f"{tmp_path}/missing.json")
    reader = CheckpointReader(lambda site: None)
    outcome = reader.read(Job(run="r", bucket="sft", checkpoints=("gs://bucket/run",)))
    reader.close()
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.AUTH
