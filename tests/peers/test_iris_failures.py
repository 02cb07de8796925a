"""What the Iris source makes of controllers that refuse, fail, hang or are none, and of its tokens."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runwatch.facts import Failure, FailureReason, SchedulerState
from tests.e2e.running_server import eventually
from tests.peers.iris_server import HANG_SECONDS, IrisServer, attempt, job, serving_iris
from tests.peers.iris_watch import SITE, watch_iris

JOB = "/u1/a"


@pytest.fixture
def server() -> Iterator[IrisServer]:
    with serving_iris() as state:
        state.jobs = [job(JOB)]
        state.attempts = {f"{JOB}/0": [attempt(0, "RUNNING", 1)]}
        yield state


def connect(code: str) -> bytes:
    return json.dumps({"code": code, "message": "as it is"}).encode()


@pytest.mark.parametrize(
    ("status", "body", "reason", "whole_source"),
    [
        (401, connect("unauthenticated"), FailureReason.AUTH, False),
        (403, connect("permission_denied"), FailureReason.AUTH, False),
        (429, connect("resource_exhausted"), FailureReason.THROTTLED, False),
        (504, connect("deadline_exceeded"), FailureReason.TIMEOUT, False),
        (503, connect("unavailable"), FailureReason.NETWORK, False),
        (500, connect("internal"), FailureReason.OTHER, False),
        (404, b"Not Found", FailureReason.NOT_FOUND, True),
        (404, b"", FailureReason.NOT_FOUND, True),
        (403, b"<html>no</html>", FailureReason.AUTH, False),
        (302, b"", FailureReason.AUTH, False),
        (429, b"", FailureReason.THROTTLED, False),
        (502, b"<html>bad gateway</html>", FailureReason.NETWORK, False),
        (504, b"", FailureReason.TIMEOUT, False),
        (418, b"", FailureReason.OTHER, False),
        (200, b"<html>hello</html>", FailureReason.PARSE, False),
        (200, b"[]", FailureReason.PARSE, False),
        (200, b'{"jobs": [', FailureReason.PARSE, False),
        (200, b"[" * 100_000, FailureReason.PARSE, False),
        (200, b'{"hasMore": true}', FailureReason.PARSE, False),
    ],
)
def test_each_refusal_has_its_reason(
    server: IrisServer, status: int, body: bytes, reason: FailureReason, whole_source: bool
) -> None:
    with watch_iris(server.url) as watch:
        before = watch.facts(JOB)
        server.answers["ListJobs"] = (status, body)
        failure = watch.failure(JOB)
        assert (failure.reason, failure.whole_source, failure.is_answer) == (reason, whole_source, False)
        assert "\n" not in failure.detail
        server.answers.clear()
        assert watch.facts(JOB).attempts == before.attempts


def test_a_failing_controller_is_asked_once_a_poll(server: IrisServer) -> None:
    server.answers["ListJobs"] = (503, connect("unavailable"))
    with watch_iris(server.url) as watch:
        outcomes = watch.outcomes([f"/user{number}/a" for number in range(20)])
        assert {o.reason for o in outcomes.values() if isinstance(o, Failure)} == {FailureReason.NETWORK}
        assert (len(outcomes), server.calls["ListJobs"]) == (20, 1)


def test_a_port_where_nobody_listens() -> None:
    with serving_iris() as state:
        url = state.url
    with watch_iris(url) as watch:
        assert watch.failure(JOB).reason is FailureReason.NETWORK


def test_a_controller_that_hangs_costs_no_more_than_the_deadline(server: IrisServer) -> None:
    server.may_answer.clear()
    with watch_iris(server.url, deadline_seconds=0.5) as watch:
        for _ in range(2):
            began = time.monotonic()
            assert watch.failure(JOB).reason is FailureReason.TIMEOUT
            assert time.monotonic() - began < HANG_SECONDS / 4
        server.may_answer.set()
        assert watch.readable(JOB).state is SchedulerState.RUNNING


def test_a_look_that_waits_behind_a_hanging_one_ends_when_the_source_is_closed(server: IrisServer) -> None:
    """As when the exporter is stopped: no fault of its own, and no job is told to be gone."""
    server.may_answer.clear()
    with watch_iris(server.url) as watch, ThreadPoolExecutor(2) as threads:
        searching = threads.submit(watch.source.find, SITE, ".*")
        eventually(lambda: server.calls.total() > 0, "the search is under way", 60)
        waiting = threads.submit(watch.failure, JOB)
        time.sleep(0.3)
        watch.source.close()
        server.may_answer.set()
        assert waiting.result(60).reason is FailureReason.OTHER
        assert isinstance(searching.result(60), Failure)


@pytest.mark.parametrize("bad", ["a", "u1/a", "/u1", "/u1/", "//a", "/u1/a/", "1234567"])
def test_a_bad_id_is_not_asked_for(server: IrisServer, bad: str) -> None:
    with watch_iris(server.url) as watch:
        failure = watch.failure(bad)
        assert (failure.reason, server.calls.total()) == (FailureReason.OTHER, 0)
        assert repr(bad) in failure.detail
        lines = watch.source.log_tail(bad, 5)
        assert isinstance(lines, Failure)


def test_entries_that_cannot_be_read_cost_only_themselves(server: IrisServer) -> None:
    server.jobs = [{"state": "JOB_STATE_RUNNING"}, {"jobId": 7}, *server.jobs, job("/u1/ab", state="NEW_IN_2027")]
    server.answers["ListJobs"] = (200, json.dumps({"jobs": server.jobs, "hasMore": False, "new": 1}).encode())
    with watch_iris(server.url) as watch:
        assert watch.facts(JOB).state is SchedulerState.RUNNING
        assert watch.facts("/u1/ab").state is SchedulerState.UNKNOWN


@pytest.mark.parametrize("header", ["Authorization", "Proxy-Authorization"])
def test_a_token_from_a_file_is_read_again_when_it_is_refused(server: IrisServer, tmp_path: Path, header: str) -> None:
    file = tmp_path / "token"
    file.write_text("first-secret\n")
    server.accepted = {header: "Bearer first-secret"}
    with watch_iris(server.url, token_file=file, token_header=header) as watch:
        assert watch.facts(JOB).state is SchedulerState.RUNNING
        server.accepted = {header: "Bearer second-secret"}
        file.write_text("second-secret")
        assert watch.facts(JOB).state is SchedulerState.RUNNING
        server.accepted = {header: "Bearer third-secret"}
        failure = watch.failure(JOB)
        # This controller repeats the whole header that it refuses.
        assert failure.reason is FailureReason.AUTH
        assert "second-secret" not in failure.detail
        file.unlink()
        failure = watch.failure(JOB)
        assert (failure.reason, failure.detail) == (
            FailureReason.AUTH,
            "cannot read token_file: No such file or directory",
        )


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"\xff\xfe", b"<html>\n<body>", b"x" * 70_000])
def test_what_is_no_token_is_not_sent(server: IrisServer, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with watch_iris(server.url, token_file=file) as watch:
        assert watch.failure(JOB).reason is FailureReason.AUTH
        assert server.calls.total() == 0


def test_a_token_from_a_command(server: IrisServer, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('x'); import sys; print(sys.argv[1])"
    command = (sys.executable, "-c", code, "se;cret$(x)")
    server.accepted = {"Authorization": "Bearer se;cret$(x)"}
    now = time.time()
    with watch_iris(server.url, token_command=command, clock=lambda: now) as watch:
        for _ in range(2):
            assert watch.facts(JOB).state is SchedulerState.RUNNING
        assert runs.read_text() == "x"
        now += 301
        watch.facts(JOB)
        assert runs.read_text() == "xx"


@pytest.mark.parametrize(
    ("code", "seconds", "said"),
    [
        ("import sys; print('secret'); sys.exit('secret')", 30.0, "token_command failed with exit code 1"),
        ("pass", 30.0, "token_command printed nothing"),
        ("import time; time.sleep(60)", 1.0, "token_command did not end within"),
        # Leaves a process behind that holds its output open.
        (
            "import subprocess; print(1, 2); subprocess.Popen(['sleep', '3'])",
            30.0,
            "token_command printed something that is no",
        ),
    ],
)
def test_a_token_command_that_fails(server: IrisServer, code: str, seconds: float, said: str) -> None:
    with watch_iris(server.url, token_command=(sys.executable, "-c", code), deadline_seconds=seconds) as watch:
        failure = watch.failure(JOB)
        assert failure.reason is FailureReason.AUTH
        assert failure.detail.startswith(said)
        assert "secret" not in failure.detail
        assert server.calls.total() == 0


def test_a_token_command_that_is_not_there(server: IrisServer, tmp_path: Path) -> None:
    with watch_iris(server.url, token_command=(str(tmp_path / "nothing"),)) as watch:
        assert watch.failure(JOB).detail == "cannot run token_command: No such file or directory"


def test_without_a_token_none_is_sent(server: IrisServer) -> None:
    with watch_iris(server.url) as watch:
        watch.facts(JOB)
    assert server.headers
    assert not any("authorization" in name.lower() for headers in server.headers for name in headers)
