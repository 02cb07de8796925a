"""Every logged row comes out, once, whatever the steps look like and however the server samples."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from runwatch.facts import HistoryEnd
from tests.peers.wandb_fixtures import START, MakeWatch
from tests.peers.wandb_server import WandbServer
from tests.peers.wandb_server_runs import PeerRun

GAP_MINUTES = (6, 9, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90)


def make_run(server: WandbServer, name: str = "a", **fields: object) -> PeerRun:
    run = PeerRun("entity", "project", name, **fields)  # type: ignore[arg-type]
    return server.add(run)


def log_steps(run: PeerRun, steps: range) -> None:
    for step in steps:
        run.log({"_step": step, "_timestamp": START + 8.0 * step, "train/loss": 2.0})


def log_gaps(run: PeerRun, steps: int = 29_945) -> None:
    """Steps of 8 s, 5 % either way, with twelve gaps: 7.2 h of them in all."""
    chance = random.Random(7)
    gaps = {(i + 1) * steps // 13: 60.0 * minutes for i, minutes in enumerate(GAP_MINUTES)}
    now = START
    for step in range(steps):
        now += gaps[step] if step in gaps else 8.0 * chance.uniform(0.95, 1.05)
        run.log({"_step": step, "_timestamp": now, "train/loss": 2.0, "global_step": step})


def test_a_long_run_comes_out_whole_though_the_server_samples(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    log_gaps(make_run(wandb_server))
    told: list[str] = []
    watch = watch_wandb(progress=told.append)
    requests = watch.poll("a")
    rows = watch.seen.rows("a")
    assert [row.cursor for row in rows] == list(range(29_945))
    times = [row.time for row in rows if row.time is not None]
    intervals = [after - before for before, after in pairwise(times)]
    assert sorted(round(x / 60) for x in intervals if x > 300) == list(GAP_MINUTES)
    assert sum(x for x in intervals if x > 300) == pytest.approx(7.2 * 3600, abs=1)
    # One to try the key, one to see where rows lie, three pages.
    assert requests == 5
    pages = watch.seen.outcomes["a"]
    assert [page.caught_up for page in pages] == [False, False, True]  # type: ignore[union-attr]
    assert told == [
        "a: 10,000 of about 29,945 rows read from W&B",
        "a: 20,000 of about 29,945 rows read from W&B",
    ]
    assert rows[5].trainer_step == 5


@pytest.mark.parametrize("cap", [499, 500, 700, 1_000, 9_000])
def test_a_server_that_gives_fewer_rows_than_asked_for_hides_none(
    wandb_server: WandbServer, watch_wandb: MakeWatch, cap: int
) -> None:
    run = make_run(wandb_server)
    rows = 12_345 if cap > 1_000 else 4_321
    log_steps(run, range(rows))
    wandb_server.sample_cap = cap
    wandb_server.samples_uniformly = cap == 700
    watch = watch_wandb()
    requests = watch.poll("a")
    assert watch.seen.update("a").caught_up
    assert watch.seen.steps("a") == list(range(rows))
    assert requests < 4 * rows / cap + 12


def test_a_server_that_cuts_answers_off_hides_none(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = make_run(wandb_server)
    log_steps(run, range(3_000))

    def first_rows(run: PeerRun, low: int, high: int, samples: int) -> list[str]:
        first, last = run.between(low, high)
        return run.lines[first:last][: min(samples, 400)]

    wandb_server.history = first_rows  # type: ignore[method-assign]
    watch = watch_wandb()
    watch.poll("a")
    assert watch.seen.steps("a") == list(range(3_000))
    assert watch.seen.update("a").caught_up


@pytest.mark.parametrize(
    ("steps", "most_requests"),
    [
        (range(0), 1),
        (range(1), 1),
        (range(500), 2),
        (range(501), 2),
        (range(61_000_000, 61_030_000), 6),
        (range(0, 1_000_000, 500), 2),
        (range(7, 30_000_000, 997), 8),
        (range(2**52, 2**52 + 5), 1),
    ],
    ids=["none", "one", "500", "501", "first-step-61M", "every-500", "30k-sparse", "huge-steps"],
)
def test_steps_may_begin_anywhere_and_lie_any_distance_apart(
    wandb_server: WandbServer, watch_wandb: MakeWatch, steps: range, most_requests: int
) -> None:
    log_steps(make_run(wandb_server), steps)
    watch = watch_wandb()
    requests = watch.poll("a") - 1  # the key is tried
    assert watch.seen.steps("a") == list(steps)
    assert watch.seen.update("a").caught_up
    assert requests <= most_requests


@pytest.mark.parametrize("uniform", [False, True])
def test_bursts_of_steps_among_wide_ones(wandb_server: WandbServer, watch_wandb: MakeWatch, uniform: bool) -> None:
    wandb_server.samples_uniformly = uniform
    run = make_run(wandb_server)
    steps = [*range(0, 4_000_000, 1_000), *range(4_000_000, 4_015_000), *range(4_015_000, 9_000_000, 5_000)]
    for step in steps:
        run.log({"_step": step, "_timestamp": START + step})
    watch = watch_wandb()
    requests = watch.poll("a")
    assert watch.seen.steps("a") == steps
    assert requests < 20


def test_each_later_poll_brings_only_the_new_rows(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = make_run(wandb_server)
    log_steps(run, range(100))
    watch = watch_wandb()
    watch.poll("a")
    for poll in range(1, 6):
        wandb_server.rows_sent = 0
        log_steps(run, range(100 + 7 * (poll - 1), 100 + 7 * poll))
        assert watch.poll("a") == 1
        assert wandb_server.rows_sent == 7
        assert [row.cursor for row in watch.seen.update("a").rows] == list(range(93 + 7 * poll, 100 + 7 * poll))
    log_steps(run, range(135, 2_000))
    watch.poll("a")
    assert watch.seen.steps("a") == list(range(2_000))


def test_a_count_that_runs_ahead_of_its_rows_loses_none_and_costs_little(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    run = make_run(wandb_server)
    watch = watch_wandb()
    requests = 0
    for poll in range(30):
        log_steps(run, range(7 * poll, 7 * poll + 7))
        run.line_count = len(run.steps) + 3
        requests += watch.poll("a")
    assert watch.seen.steps("a") == list(range(210))
    assert requests <= 30 + 1 + 6


def test_values_of_any_kind_and_rows_that_cannot_be_read(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = make_run(wandb_server)
    run.log_text(0, '{"_step": 0, "_timestamp": 1760000001.5, "loss": "NaN", "grad": Infinity, "lr": 1e-3}')
    run.log_text(1, '{"_step": 1, "_timestamp": 1760000002, "loss": NaN, "note": "text", "flag": true, "none": null}')
    run.log_text(2, '{"_step": 2, broken')
    run.log_text(3, '{"_step": 3, "_timestamp": 1760000003, "big": 12345678901234567891, "h": {"_type": "histogram"}}')
    run.log_text(4, '"no object"')
    watch = watch_wandb()
    watch.poll("a")
    update = watch.seen.update("a")
    assert [row.cursor for row in update.rows] == [0, 1, 3]
    assert update.malformed == 2
    first, second, third = (dict(row.values) for row in update.rows)
    assert math.isnan(first["loss"]) and math.isinf(first["grad"]) and first["lr"] == 1e-3
    assert second.keys() == {"loss"} and math.isnan(second["loss"])
    assert third == {"big": 12345678901234567891.0}
    # The last line has no step and is sent again with every answer: it counts once.
    watch.poll("a")
    assert watch.seen.update("a").malformed == 0
    run.log({"_step": 5, "_timestamp": START})
    watch.poll("a")
    assert [row.cursor for row in watch.seen.update("a").rows] == [5]
    assert watch.seen.update("a").malformed == 0


def test_a_run_made_anew_voids_what_came_before(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    log_steps(make_run(wandb_server, created_at=START), range(50))
    watch = watch_wandb()
    watch.poll("a")
    log_steps(make_run(wandb_server, created_at=START + 5_000), range(60))
    assert watch.poll("a") == 2
    assert watch.seen.update("a").reset
    assert watch.seen.steps("a") == list(range(60))
    log_steps(make_run(wandb_server, created_at=START + 5_000), range(10))
    watch.poll("a")
    assert watch.seen.update("a").reset
    assert watch.seen.steps("a") == list(range(10))
    watch.poll("a")
    assert not watch.seen.update("a").reset
    assert watch.seen.steps("a") == list(range(10))


def test_a_long_first_read_goes_on_where_the_budget_ended(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    log_steps(make_run(wandb_server), range(29_945))
    watch = watch_wandb(requests_per_minute=3, deadline_seconds=15)
    watch.poll("a")
    assert len(watch.seen.steps("a")) == 10_000
    assert not watch.seen.update("a").caught_up
    watch.poll("a")
    assert watch.seen.steps("a") == list(range(29_945))
    assert watch.seen.update("a").caught_up


def test_long_first_reads_leave_the_runs_that_are_read_observed(
    wandb_server: WandbServer, watch_wandb: MakeWatch
) -> None:
    long = [f"long-{number}" for number in range(6)]
    for name in long:
        log_steps(make_run(wandb_server, name), range(30_000))
    small = make_run(wandb_server, "small")
    log_steps(small, range(5))
    watch = watch_wandb(requests_per_minute=4, deadline_seconds=12)
    polls = 0
    while polls < 2 or not all(watch.seen.steps(name) == list(range(30_000)) for name in long):
        watch.poll("small", *long)
        polls += 1
        # Of 4 requests a poll one is enough for it, the others go to the pages: 24 of them, or 18 of a survey's rest.
        assert watch.seen.update("small").caught_up
        assert watch.seen.steps("small") == small.steps
        log_steps(small, range(4 + polls, 5 + polls))
        assert polls < 12


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("finished", HistoryEnd.SUCCEEDED),
        ("failed", HistoryEnd.FAILED),
        ("killed", HistoryEnd.KILLED),
        ("crashed", None),
        ("running", None),
        ("preempted", None),
    ],
)
def test_what_is_said_of_the_run(
    wandb_server: WandbServer, watch_wandb: MakeWatch, state: str, end: HistoryEnd | None
) -> None:
    config = '{"trainer": {"value": {"num_train_steps": 9}}, "plain": 3, "_wandb": {"value": {"t": 1}}}'
    make_run(wandb_server, state=state, created_at=START, heartbeat_at=START + 99, config=config)
    watch = watch_wandb()
    watch.poll("a")
    run = watch.seen.update("a").run
    assert (run.state, run.end, run.created, run.heartbeat) == (state, end, START, START + 99)
    assert run.ended_at == (START + 99 if end else None)
    assert run.config == {"trainer": {"num_train_steps": 9}, "plain": 3}
    assert run.name == "entity/project/a"
    assert run.url == f"{wandb_server.url}/entity/project/runs/a"
    assert run.drops_replayed_steps


def test_a_configuration_that_comes_late_or_changes_is_seen(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = make_run(wandb_server, config=None)
    watch = watch_wandb()
    watch.poll("a")
    assert watch.seen.update("a").run.config == {}
    run.config = '{"batch": {"value": 64}}'
    watch.poll("a")
    assert watch.seen.update("a").run.config == {"batch": 64}
    log_steps(run, range(100))
    run.config = '{"batch": {"value": 128}}'
    for _poll in range(35):
        watch.poll("a")
    assert watch.seen.update("a").run.config == {"batch": 128}


def test_a_time_in_the_past_hides_what_came_after(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    run = make_run(wandb_server, state="finished", created_at=START, heartbeat_at=START + 800)
    log_steps(run, range(100))
    watch = watch_wandb(at=START + 80)
    watch.poll("a")
    assert watch.seen.steps("a") == list(range(11))  # 8 s a step: step 10 is at that very second
    then = watch.seen.update("a").run
    assert (then.state, then.end, then.ended_at, then.heartbeat) == ("running", None, None, None)
    after = watch_wandb(at=START + 800)
    after.poll("a")
    assert len(after.seen.steps("a")) == 100
    assert after.seen.update("a").run.end is HistoryEnd.SUCCEEDED
    before = watch_wandb(at=START - 1)
    before.poll("a")
    assert before.seen.failure("a").reason == "not_found"
