"""The real wandb client beside the polls: login, discovery, exported history, and its death."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import wandb

from runwatch.facts import Failure, FailureReason, HistoryUpdate
from runwatch.sources.wandb_login import WandbLogin
from tests.peers.wandb_fixtures import START, MakeWatch, Watch
from tests.peers.wandb_server import KEY, Fault, Request, WandbServer
from tests.peers.wandb_server_runs import PeerRun


def add_run(server: WandbServer, name: str, rows: int = 3, **fields: object) -> PeerRun:
    run = server.add(PeerRun("entity", "project", name, **fields))  # type: ignore[arg-type]
    for step in range(rows):
        run.log({"_step": step, "_timestamp": START + step, "loss": 1.0})
    return run


def core_of_this_process() -> int:
    """The wandb-core that this process started last."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    return max(int(line.split()[0]) for line in listed.stdout.splitlines() if "wandb-core" in line)


def sizes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def folder_of(watch: Watch) -> Path:
    return watch.source._login.client.folder


def test_the_unmodified_client_works_against_the_stand_in(
    wandb_server: WandbServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (("WANDB_ERROR_REPORTING", "false"), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "runs"))
    add_run(wandb_server, "a", rows=2_500, config='{"lr": {"value": 3}}')
    add_run(wandb_server, "b", state="finished")
    api = wandb.Api(overrides={"base_url": wandb_server.url}, api_key=KEY, timeout=10)
    try:
        run = api.run("entity/project/a")
        assert (run.state, run.config, run.lastHistoryStep) == ("running", {"lr": 3}, 2_499)
        assert len(run.history(pandas=False)) == 500
        assert len(run.history(samples=70, keys=["loss"], pandas=False)) == 70
        assert [row["_step"] for row in run.scan_history(use_cache=False)] == list(range(2_500))
        assert len(list(run.scan_history(keys=["loss"], min_step=2_000, use_cache=False))) == 500
        assert [found.id for found in api.runs("entity/project", {"state": "finished"})] == ["b"]
    finally:
        wandb.teardown()


def test_the_client_logs_in_once_and_leaves_the_environment_alone(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    add_run(wandb_server, "a")
    before = {name: os.environ[name] for name in os.environ if name != "WANDB_SERVICE"}
    watch = watch_wandb(client=True)
    for _poll in range(3):
        watch.poll("a")
    assert wandb_server.operations() == {"RunwatchViewer": 1, "Viewer": 1, "RunwatchRuns": 3}
    # The client itself notes there where its process listens.
    assert {name: os.environ[name] for name in os.environ if name != "WANDB_SERVICE"} == before
    folder = folder_of(watch)
    assert folder.exists()
    watch.source.close()
    assert not folder.exists()


def test_the_key_may_come_from_the_environment_or_from_wandb_login(
    wandb_server: WandbServer, watch_wandb: MakeWatch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    add_run(wandb_server, "a")
    for variable in ("OUR_KEY", "WANDB_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    netrc = tmp_path / "netrc"
    monkeypatch.setenv("NETRC", str(netrc))
    watch = watch_wandb()
    monkeypatch.setattr(watch.source._login, "_settings", watch.source._settings.model_copy(
        update={"api_key_file": None, "api_key_env": "OUR_KEY"}
    ))  # fmt: skip
    watch.poll("a", minutes=10)
    assert watch.seen.failure("a").reason == "auth"
    assert "OUR_KEY" in watch.seen.failure("a").detail
    netrc.write_text(f"machine {wandb_server.url.removeprefix('http://')}\n  login user\n  password {KEY}\n")
    netrc.chmod(0o600)
    watch.poll("a")
    assert watch.seen.steps("a") == [0, 1, 2]
    monkeypatch.setenv("OUR_KEY", "w" * 40)
    watch_failure = Failure(FailureReason.AUTH, "a key was refused")
    watch.source._login.doubt(watch_failure)
    watch.poll("a")
    assert watch.seen.failure("a").reason == "auth"  # the variable wins, and this server does not know it


def test_a_login_that_fails_in_the_client_does_not_stop_the_polls(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    add_run(wandb_server, "a")
    wandb_server.fault = lambda request: Fault(hang=30) if request.operation == "Viewer" else None
    watch = watch_wandb(client=True, deadline_seconds=4.5)
    began = time.monotonic()
    watch.poll("a")
    assert time.monotonic() - began < 25  # the login hangs for longer
    assert watch.seen.steps("a") == [0, 1, 2]


def test_discovery_lists_a_project_as_it_is_now(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    for index in range(130):
        add_run(wandb_server, f"r{index:03}", rows=0, created_at=START + index, display_name=f"Run {index}")
    add_run(wandb_server, "done", state="finished", username="u2", created_at=START + 1_000)
    watch = watch_wandb(client=True)
    found = watch.source.discover("entity/project", "running")
    assert not isinstance(found, Failure)
    assert [run.name for run in found] == [f"r{index:03}" for index in range(130)]
    first = found[0]
    assert (first.path, first.display_name, first.state) == ("entity/project/r000", "Run 0", "running")
    assert (first.created, first.user) == (START, "u1")
    everything = watch.source.discover("entity/project", None)
    assert not isinstance(everything, Failure)
    assert len(everything) == 131
    wandb_server.runs["entity/project/r000"].state = "crashed"
    again = watch.source.discover("entity/project", "running")
    assert not isinstance(again, Failure)
    assert len(again) == 129
    assert not (folder_of(watch) / "runs").exists()


def test_discovery_finds_what_ended_lately_and_leaves_out_what_ended_long_ago(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    since = START + 500_000
    for name, state, heartbeat in (
        ("runs", "running", since - 100_000),
        ("ended-lately", "finished", since + 1),
        ("crashed-lately", "crashed", since + 1),
        ("ended-long-ago", "finished", since - 1),
    ):
        add_run(wandb_server, name, state=state, heartbeat_at=heartbeat)
    watch = watch_wandb(client=True)
    for state in ("running", None):
        found = watch.source.discover("entity/project", state, active_since=since)
        assert not isinstance(found, Failure)
        assert {run.name for run in found} == {"runs", "ended-lately", "crashed-lately"}, state


@pytest.mark.parametrize(
    ("project", "fault", "reason"),
    [
        ("entity/none", None, "not_found"),
        ("none", None, "other"),
        ("entity/project", Fault(401), "auth"),
        ("entity/project", Fault(429), "throttled"),
        ("entity/project", Fault(500), "other"),
        ("entity/project", Fault(200, b"<html>"), "parse"),
        ("entity/project", Fault(hang=30), "timeout"),
    ],
)
def test_discovery_that_fails_is_typed(
    wandb_server: WandbServer, watch_wandb: MakeWatch, project: str, fault: Fault | None, reason: str
) -> None:
    add_run(wandb_server, "a")
    wandb_server.fault = lambda request: fault if request.operation == "Runs" else None
    watch = watch_wandb(client=True, deadline_seconds=4)
    began = time.monotonic()
    found = watch.source.discover(project, None)
    assert time.monotonic() - began < 25  # a request hangs for longer
    assert isinstance(found, Failure)
    assert found.reason == reason
    assert KEY not in found.detail


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_core_that_was_killed_is_started_anew(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = add_run(wandb_server, "a")
    watch = watch_wandb(client=True)
    watch.poll("a")
    assert not isinstance(watch.source.discover("entity/project", None), Failure)
    for step in (3, 5):
        os.kill(core_of_this_process(), signal.SIGKILL)
        run.log({"_step": step, "_timestamp": START + step})
        # Polls do not need it; the next listing says that it died, the next but one is right.
        watch.poll("a")
        assert watch.seen.steps("a")[-1] == step
        died = watch.source.discover("entity/project", None)
        assert isinstance(died, Failure)
        assert "died" in died.detail
        run.log({"_step": step + 1, "_timestamp": START + step})
        watch.poll("a")
        found = watch.source.discover("entity/project", None)
        assert not isinstance(found, Failure), found
        assert [one.name for one in found] == ["a"]
    assert watch.seen.steps("a") == [0, 1, 2, 3, 4, 5, 6]
    # The client drops the dead process without waiting for it, which Python remarks on: here, not in a later test.
    gc.collect()


def test_a_thousand_polls_of_a_server_that_fails_for_ever_leave_nothing_behind(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    names = [f"r{index}" for index in range(5)]
    for name in names:
        add_run(wandb_server, name)
    watch = watch_wandb(client=True, deadline_seconds=5)
    watch.poll(*names)
    assert not isinstance(watch.source.discover("entity/project", None), Failure)
    before = sizes(folder_of(watch))
    assert before  # the client's own log, at least
    wandb_server.fault = lambda _request: Fault(500)
    slowest = 0.0
    for _poll in range(1_000):
        began = time.monotonic()
        watch.poll(*names, minutes=5)
        slowest = max(slowest, time.monotonic() - began)
        assert isinstance(watch.source.discover("entity/project", None), Failure)
    assert {watch.seen.failure(name).reason for name in names} == {"other"}
    assert slowest < 25
    assert sizes(folder_of(watch)) == before
    # Discovery alone, when it alone fails, is never what fills the log either.
    wandb_server.fault = lambda _request: None
    watch.clock.now += 3_600
    watch.poll(*names)
    assert all(isinstance(watch.seen.last(name), HistoryUpdate) for name in names)


def test_rows_that_only_the_exported_files_hold_are_read_by_the_client(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    run = add_run(wandb_server, "a", rows=3_000, state="finished")
    run.exported_below = 2_000
    # Written by pyarrow: _step 0 to 1,999, _timestamp START + _step, loss 1.0.
    run.parquet = (Path(__file__).parents[1] / "data" / "wandb" / "exported.parquet").read_bytes()
    watch = watch_wandb(client=True)
    watch.poll("a")
    assert watch.seen.steps("a") == list(range(3_000))
    assert watch.seen.update("a").caught_up
    assert [row.values["loss"] for row in watch.seen.rows("a")] == [1.0] * 3_000
    watch.poll("a")
    assert watch.seen.update("a").rows == []
    assert "HistoryPage" in wandb_server.operations()


def test_rows_that_nothing_gives_are_not_waited_for_for_ever(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = add_run(wandb_server, "a", rows=300)
    run.line_count = 400
    watch = watch_wandb(client=True)
    watch.poll("a")
    assert watch.seen.steps("a") == list(range(300))
    assert watch.seen.update("a").caught_up
    assert watch.poll("a") == 1


def test_exported_rows_that_cannot_be_read_are_a_failure_and_no_short_history(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    run = add_run(wandb_server, "a", rows=3_000, state="finished")
    run.exported_below = 2_000

    def fault(request: Request) -> Fault | None:
        return Fault(500) if request.operation in ("RunParquetHistory", "HistoryPage") else None

    wandb_server.fault = fault
    watch = watch_wandb(client=True)
    watch.poll("a")
    assert isinstance(watch.seen.last("a"), Failure)
    assert not any(isinstance(one, HistoryUpdate) and one.caught_up for one in watch.seen.outcomes["a"])


def test_the_login_keeps_its_key_to_itself(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    watch = watch_wandb()
    assert isinstance(watch.source._login, WandbLogin)
    assert KEY not in repr(watch.source._login.__dict__.get("_settings"))
