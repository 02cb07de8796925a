"""How many requests a poll costs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from runwatch.config.model import HistorySource
from runwatch.fleet import Job
from tests.peers.wandb_fixtures import START, MakeWatch
from tests.peers.wandb_server import Fault, WandbServer
from tests.peers.wandb_server_runs import PeerRun


def make_runs(server: WandbServer, count: int, project: str = "project", state: str = "running") -> list[str]:
    names = [f"{state}-{index:03}" for index in range(count)]
    for name in names:
        log(server.add(PeerRun("entity", project, name, state=state)))
    return names


def log(run: PeerRun) -> None:
    run.log({"_step": len(run.steps), "_timestamp": START + len(run.steps)})


def grow(server: WandbServer, names: Iterable[str]) -> None:
    for name in names:
        log(server.runs[f"entity/project/{name}"])


def test_one_running_job_costs_one_request_a_poll(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 1)
    watch = watch_wandb()
    watch.poll(*names)
    for _poll in range(10):
        grow(wandb_server, names)
        assert watch.poll(*names) == 1
        assert len(watch.seen.update(names[0]).rows) == 1
    assert watch.poll(*names) == 1
    assert watch.seen.update(names[0]).rows == []
    assert watch.seen.sent == ["desk"] * 13  # counted, every one, for the job's site


def test_twenty_runs_share_a_request(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 100)
    watch = watch_wandb()
    assert watch.poll(*names) == 1 + 5
    grow(wandb_server, names)
    # One listing, and five requests for a hundred runs with new rows.
    assert watch.poll(*names) == 6
    assert all(watch.seen.steps(name) == [0, 1] for name in names)


def test_a_listing_without_new_rows_is_all_that_is_asked(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 30)
    watch = watch_wandb()
    watch.poll(*names)
    before = wandb_server.count("history(")
    for _poll in range(5):
        assert watch.poll(*names) == 1
    assert wandb_server.count("history(") == before
    assert all(watch.seen.update(name).caught_up for name in names)
    assert all(len(watch.seen.outcomes[name]) == 6 for name in names)
    # Of thirty, one moves: it alone is asked.
    grow(wandb_server, names[7:8])
    wandb_server.rows_sent = 0
    assert watch.poll(*names) == 2
    assert wandb_server.rows_sent == 1
    assert watch.seen.steps(names[7]) == [0, 1]


def test_the_listing_moves_the_heartbeat_and_a_new_state_is_seen(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    names = make_runs(wandb_server, 3)
    watch = watch_wandb()
    watch.poll(*names)
    wandb_server.runs[f"entity/project/{names[0]}"].heartbeat_at = START + 777
    wandb_server.runs[f"entity/project/{names[1]}"].state = "finished"
    watch.poll(*names)
    assert watch.seen.update(names[0]).run.heartbeat == START + 777
    assert watch.seen.update(names[1]).run.state == "finished"


@pytest.mark.parametrize(("running", "finished"), [(1, 0), (1, 1), (1, 5), (2, 0), (2, 3), (3, 40), (0, 4), (25, 0)])
def test_never_more_requests_than_running_jobs(
    wandb_server: WandbServer, watch_wandb: MakeWatch, running: int, finished: int
) -> None:
    alive = make_runs(wandb_server, running)
    names = [*alive, *make_runs(wandb_server, finished, state="finished")]
    watch = watch_wandb()
    watch.poll(*names)
    for _poll in range(3):
        grow(wandb_server, alive)
        assert watch.poll(*names) <= max(1, running)
        assert all(len(watch.seen.update(name).rows) == 1 for name in alive)


def test_runs_of_several_projects_share_a_request(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    jobs = []
    for project in ("one", "two", "three"):
        log(wandb_server.add(PeerRun("entity", project, "same")))
        history = (HistorySource(wandb=f"entity/{project}/same"),)
        jobs.append(Job(run=project, bucket="rl", site=project, history=history))
    watch = watch_wandb()
    watch.source.poll(jobs, watch.seen.deliver)
    assert len(wandb_server.requests) == 2
    assert [watch.seen.update(job.run).run.name for job in jobs] == [
        "entity/one/same",
        "entity/two/same",
        "entity/three/same",
    ]


def test_a_server_that_refuses_large_requests_gets_smaller_ones(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    names = make_runs(wandb_server, 40)
    wandb_server.fault = lambda request: Fault(413) if request.document.count("history(") > 6 else None
    watch = watch_wandb()
    watch.poll(*names)
    assert all(watch.seen.update(name).caught_up for name in names)
    grow(wandb_server, names)
    assert watch.poll(*names) == 1 + 8  # the listing, and five runs a request
    assert all(watch.seen.steps(name) == [0, 1] for name in names)


def test_a_broken_listing_does_not_hide_the_runs(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 4)
    watch = watch_wandb()
    watch.poll(*names)
    grow(wandb_server, names)
    wandb_server.fault = lambda request: Fault(500) if request.operation == "RunwatchListing" else None
    watch.poll(*names)
    assert all(watch.seen.steps(name) == [0, 1] for name in names)


def test_a_job_that_is_forgotten_is_read_anew(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    names = make_runs(wandb_server, 1)
    watch = watch_wandb()
    watch.poll(*names)
    watch.source.forget(names[0])
    watch.poll(*names)
    assert [row.cursor for row in watch.seen.update(names[0]).rows] == [0]


def test_a_job_that_moves_to_another_run_starts_again(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    make_runs(wandb_server, 2)
    watch = watch_wandb()
    for name, reset in (("running-000", False), ("running-001", True)):
        moved = Job(run="mine", bucket="sft", history=(HistorySource(wandb=f"entity/project/{name}"),))
        watch.source.poll([moved], watch.seen.deliver)
        assert watch.seen.update("mine").reset is reset
    assert watch.seen.steps("mine") == [0]
