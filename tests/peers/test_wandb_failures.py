"""Whatever W&B does, each job gets a typed outcome in time, and a broken run delays nobody."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from runwatch.facts import Failure, HistoryUpdate
from tests.peers.wandb_fixtures import START, MakeWatch, Watch
from tests.peers.wandb_server import Fault, Request, WandbServer
from tests.peers.wandb_server_runs import PeerRun


def make_runs(server: WandbServer, count: int, rows: int = 3) -> list[str]:
    names = [f"run-{index:02}" for index in range(count)]
    for name in names:
        run = server.add(PeerRun("entity", "project", name))
        for step in range(rows):
            run.log({"_step": step, "_timestamp": START + step})
    return names


def grow(server: WandbServer) -> None:
    """One new row for every run."""
    for run in server.runs.values():
        step = len(run.steps)
        run.log({"_step": step, "_timestamp": START + step})


def only_runs(fault: Fault) -> Callable[[Request], Fault | None]:
    """The fault for all but the trial of the key."""
    return lambda request: fault if request.operation != "RunwatchViewer" else None


HANG_SECONDS = 60.0
KINDS = [
    (Fault(401), "auth"),
    (Fault(403), "auth"),
    (Fault(404), "not_found"),
    (Fault(429), "throttled"),
    (Fault(500), "other"),
    (Fault(503), "other"),
    (Fault(503, headers=(("Retry-After", "7"),)), "throttled"),
    (Fault(504), "timeout"),
    (Fault(200, b"<html>welcome</html>"), "parse"),
    (Fault(200, b"[1, 2]"), "parse"),
    (Fault(200, b'{"data": null}'), "parse"),
    (Fault(200, b'{"data": null, "errors": [{"message": "rate limit exceeded"}]}'), "throttled"),
    (Fault(200, b'{"data": null, "errors": [{"message": "boom"}]}'), "other"),
    (Fault(hang=HANG_SECONDS), "timeout"),
]


def deadline_for(fault: Fault) -> float:
    """Seconds of a poll: few where they must go by, and enough for a busy machine where an answer comes."""
    return 1.5 if fault.hang else 20.0


def poll_until_read(watch: Watch, *names: str) -> None:
    """Poll until every job was read: a busy machine may need longer than one deadline for it."""
    for _ in range(5):
        watch.poll(*names)
        if all(isinstance(watch.seen.last(name), HistoryUpdate) for name in names):
            return


@pytest.mark.parametrize(("fault", "reason"), KINDS)
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_service_that_fails_is_a_typed_failure_of_every_job(
    wandb_server: WandbServer, watch_wandb: MakeWatch, fault: Fault, reason: str, jobs: int
) -> None:
    names = make_runs(wandb_server, jobs)
    watch = watch_wandb(deadline_seconds=deadline_for(fault))
    poll_until_read(watch, *names)
    wandb_server.fault = lambda _request: fault
    grow(wandb_server)
    began = time.monotonic()
    watch.poll(*names, minutes=20)
    assert time.monotonic() - began < HANG_SECONDS / 2
    assert [watch.seen.failure(name).reason for name in names] == [reason] * jobs
    # It comes back, and nothing was lost or given twice.
    wandb_server.fault = lambda _request: None
    poll_until_read(watch, *names)
    assert [watch.seen.steps(name) for name in names] == [[0, 1, 2, 3]] * jobs
    assert all(watch.seen.update(name).caught_up for name in names)


@pytest.mark.parametrize(("fault", "reason"), KINDS)
def test_a_first_poll_that_fails_is_typed_too(
    wandb_server: WandbServer, watch_wandb: MakeWatch, fault: Fault, reason: str
) -> None:
    (name,) = make_runs(wandb_server, 1)
    wandb_server.fault = lambda _request: fault
    watch = watch_wandb(deadline_seconds=deadline_for(fault))
    watch.poll(name, minutes=20)
    assert watch.seen.failure(name).reason == reason
    wandb_server.fault = lambda _request: None
    poll_until_read(watch, name)
    assert watch.seen.steps(name) == [0, 1, 2]


def test_nobody_listening_is_a_network_failure(watch_wandb: MakeWatch) -> None:
    gone = WandbServer()
    gone.close()
    watch = watch_wandb(base_url=gone.url)
    watch.poll("a")
    assert watch.seen.failure("a").reason == "network"


def test_a_wrong_key_is_an_auth_failure_and_never_shown(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    wandb_server.key = "q" * 40
    watch = watch_wandb()
    watch.poll("a")
    failure = watch.seen.failure("a")
    assert failure.reason == "auth"
    assert "kkkk" not in failure.detail


def test_no_key_at_all_says_what_to_do(watch_wandb: MakeWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watch_wandb()
    file = watch.source._settings.api_key_file
    assert file is not None
    file.unlink()
    watch.poll("a")
    assert watch.seen.failure("a").reason == "auth"
    assert "api_key_file" in watch.seen.failure("a").detail


def test_an_unknown_run_is_not_found_and_the_others_are_read(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 3)
    watch = watch_wandb()
    for _poll in range(3):
        watch.poll(*names, "nobody")
        assert watch.seen.failure("nobody").reason == "not_found"
        assert all(isinstance(watch.seen.last(name), HistoryUpdate) for name in names)


def test_a_path_that_is_none_is_told_apart(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    (name,) = make_runs(wandb_server, 1)
    watch = watch_wandb()
    watch.poll(name, "a/b/c/d")
    assert watch.seen.failure("a/b/c/d").reason == "other"
    assert watch.seen.steps(name) == [0, 1, 2]


def answered(watch: Watch, names: list[str]) -> list[str]:
    return [name for name in names if isinstance(watch.seen.last(name), HistoryUpdate)]


@pytest.mark.parametrize("fault", [Fault(500), Fault(200, b"garbage"), Fault(400)])
def test_a_run_that_breaks_every_request_it_is_in_is_found_out(
    wandb_server: WandbServer, watch_wandb: MakeWatch, fault: Fault
) -> None:
    names = make_runs(wandb_server, 20)
    wandb_server.fault = lambda request: fault if request.asks("run-07") else None
    watch = watch_wandb()
    first = watch.poll(*names, minutes=0.5)
    healthy = [name for name in names if name != "run-07"]
    assert answered(watch, names) == healthy
    assert isinstance(watch.seen.last("run-07"), Failure)
    # 20, a question whether the service lives, then 10 10 5 5 3 2 2 1 1 1 and a few more.
    assert first <= 1 + 1 + 1 + 10
    # While it is left alone it costs nothing; asked again it is asked alone.
    grow(wandb_server)
    assert watch.poll(*names) == 2
    assert answered(watch, names) == healthy
    watch.poll(*names, minutes=10)
    wandb_server.fault = lambda _request: None
    watch.poll(*names, minutes=10)
    assert all(watch.seen.steps(name) == [0, 1, 2, 3] for name in names)


def test_an_error_inside_one_run_is_its_own(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 20)
    wandb_server.poisoned = {"entity/project/run-03"}
    watch = watch_wandb()
    assert watch.poll(*names) == 2  # the key's trial, and one request for all
    assert watch.seen.failure("run-03").reason == "other"
    assert len(answered(watch, names)) == 19
    assert watch.poll(*names, minutes=2) <= 2
    assert len(answered(watch, names)) == 19


def test_a_run_that_hangs_delays_nobody(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 6)
    wandb_server.fault = lambda request: Fault(hang=30) if request.asks("run-01") else None
    watch = watch_wandb(deadline_seconds=3)
    began = time.monotonic()
    watch.poll(*names, minutes=3)
    assert time.monotonic() - began < 20  # a request hangs for longer
    grow(wandb_server)
    healthy = [name for name in names if name != "run-01"]
    for _ in range(5):
        watch.poll(*names, minutes=3)
        if answered(watch, names) == healthy:
            break
    assert answered(watch, names) == healthy
    assert watch.seen.failure("run-01").reason == "timeout"


def test_a_page_that_the_end_of_the_poll_cuts_short_is_no_failure_of_its_run(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    (name,) = make_runs(wandb_server, 1)
    run = wandb_server.runs[f"entity/project/{name}"]
    for step in range(3, 60_000):
        run.log({"_step": step})
    wandb_server.sample_cap = 1_000
    watch = watch_wandb(deadline_seconds=3)
    began = time.monotonic()

    def slow_and_then_silent(_request: Request) -> Fault | None:
        # A request may take a third of the deadline: one that begins after 2.2 s has less.
        if time.monotonic() - began > 2.2:
            return Fault(hang=30)
        wandb_server.rest(0.2)
        return None

    wandb_server.fault = slow_and_then_silent
    watch.poll(name, "nobody")
    read = len(watch.seen.steps(name))
    assert 0 < read < 60_000
    assert not watch.seen.update(name).caught_up
    began = time.monotonic()
    watch.poll(name, "nobody")
    assert len(watch.seen.steps(name)) > read
    assert not watch.seen.update(name).caught_up


@pytest.mark.parametrize(("status", "header"), [(429, "90"), (503, "90"), (429, "Thu, 01 Jan 2026 00:01:30 GMT")])
def test_retry_after_is_kept(wandb_server: WandbServer, watch_wandb: MakeWatch, status: int, header: str) -> None:
    (name,) = make_runs(wandb_server, 1)
    watch = watch_wandb()
    watch.clock.now = 1_767_225_600.0 - 60.0  # 2025-12-31 23:59:00 UTC; a poll takes a minute of it
    watch.poll(name)
    wandb_server.fault = lambda _request: Fault(status, headers=(("Retry-After", header),))
    assert watch.poll(name, minutes=1) == 1
    wandb_server.fault = lambda _request: None
    assert watch.poll(name, minutes=0.4) == 0
    assert watch.seen.failure(name).reason == "throttled"
    assert watch.poll(name, minutes=0.2) == 0
    assert watch.poll(name) == 1
    assert isinstance(watch.seen.last(name), HistoryUpdate)


def test_failures_in_a_row_are_asked_ever_more_seldom(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    (name,) = make_runs(wandb_server, 1)
    watch = watch_wandb()
    watch.poll(name)
    wandb_server.fault = only_runs(Fault(500))
    # A poll a second for ten minutes: 5, 10, 20, 40, 80, 160 and then 300 s between tries.
    asked = sum(watch.poll(name, minutes=1 / 60) for _second in range(600))
    assert asked == 7
    assert watch.seen.failure(name).reason == "other"
    assert len(watch.seen.outcomes[name]) == 601


def test_all_jobs_share_one_budget(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 60)
    watch = watch_wandb(requests_per_minute=3, deadline_seconds=15)
    # One request for the key and two for forty of the sixty runs; the rest waits for the next minute.
    assert watch.poll(*names, minutes=0.5) == 3
    waiting = [name for name in names if isinstance(watch.seen.last(name), Failure)]
    assert len(waiting) == 20
    assert {watch.seen.failure(name).reason for name in waiting} == {"throttled"}
    # Half a minute allows one request: those that waited come first.
    assert watch.poll(*names) == 1
    assert all(isinstance(watch.seen.last(name), HistoryUpdate) for name in waiting)
    assert len(watch.seen.sent) == 4
