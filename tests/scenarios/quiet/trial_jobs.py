"""Healthy evals, datagen and other jobs: each function writes one from its start on."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.scenarios.quiet.healthy import HOUR, MINUTE, Healthy, Span, at, story_of
from tests.scenarios.quiet.training_jobs import LINGER, WAITS_FOR_NODES


def _job(
    run: str,
    kind: str,
    document: Mapping[str, object],
    *,
    start: float,
    over: float,
    spans: Mapping[str, tuple[Span, ...]] | None = None,
) -> Healthy:
    return Healthy(run, kind, start, over + LINGER, story_of(document, start, over + LINGER), spans or {})


def _placed(kind: str, start: float, runs: float, over: float, gang: int = 1) -> dict[str, object]:
    states = [
        {"from": at(start), "state": "pending", "waiting": "capacity"},
        {"from": at(runs), "state": "running"},
        {"from": at(over), "state": "succeeded", "exit_code": 0},
    ]
    return {"kind": kind, "gang": gang, "states": states}


def _engine(random: Random, since: float, until: float) -> dict[str, object]:
    """An inference engine that says each minute how many requests run; between waves it has none for some minutes."""
    events: list[dict[str, object]] = []
    now = since
    while now < until:
        busy = min(until, now + random.uniform(20, 60) * MINUTE)
        events.append({"from": at(now), "every": "1m", "until": at(busy), "running_requests": 12, "success": True})
        now = min(until, busy + MINUTE)
        idle = min(until, now + random.uniform(1, 6) * MINUTE)
        if now < idle:
            events.append({"from": at(now), "every": "1m", "until": at(idle), "running_requests": 0})
        now = idle + MINUTE
    # A sandbox provider refuses now and then.
    refused = {"from": at(since + 5 * MINUTE), "every": "25m", "until": at(until + 25 * MINUTE)}
    events.append({**refused, "auth_failure": True})
    return {"written": [[at(since), at(until)]], "events": events}


def _results(random: Random, since: float, until: float, *, count: int, turns: float) -> list[dict[str, object]]:
    """So many results at random times, the last of them at the end; a fifth ends at the agent's time limit."""
    times = sorted([random.uniform(since, until) for _ in range(count - 1)] + [until])
    return [
        {"at": at(time), "turns": turns, "reward": 0.0, "exception": "AgentTimeoutError"}
        if random.random() < 0.2
        else {"at": at(time), "turns": turns, "reward": 1.0 if random.random() < 0.6 else 0.0}
        for time in times
    ]


def _eval(
    run: str,
    kind: str,
    start: float,
    random: Random,
    *,
    hours: float,
    count: int,
    turns: float,
    scheduler: str,
    site: str,
) -> Healthy:
    runs = start + random.uniform(1, 90) * MINUTE
    since, until = runs + random.uniform(5, 15) * MINUTE, runs + hours * HOUR
    over = until + random.uniform(2, 10) * MINUTE
    results = _results(random, since, until, count=count, turns=turns)
    document = {
        "bucket": "eval",
        "site": site,
        "scheduler": _placed(scheduler, start, runs, over),
        "trials": {"target": count, "total": count, "finished": at(over - MINUTE), "results": results},
        "log": _engine(random, runs + MINUTE, until),
    }
    return _job(run, kind, document, start=start, over=over)


def agentic_eval(run: str, start: float, random: Random) -> Healthy:
    """An eval of agents with many turns."""
    hours, count = random.uniform(2, 6), random.choice([89, 120])
    return _eval(
        run, "agentic-eval", start, random, hours=hours, count=count, turns=14, scheduler="kubernetes", site="coreweave"
    )


def single_turn_eval(run: str, start: float, random: Random) -> Healthy:
    """An eval whose trials have one turn each."""
    return _eval(run, "single-turn-eval", start, random, hours=3, count=160, turns=1, scheduler="iris", site="marin")


def slurm_eval(run: str, start: float, random: Random) -> Healthy:
    """An eval on a SLURM site."""
    return _eval(run, "slurm-eval", start, random, hours=3, count=89, turns=20, scheduler="slurm", site="leonardo")


def hard_eval(run: str, start: float, random: Random) -> Healthy:
    """An eval of few, hard tasks: a result each 35 to 50 min."""
    runs = start + random.uniform(1, 30) * MINUTE
    times = [runs + 40 * MINUTE]
    times += [times[0] + 40 * MINUTE * i + random.uniform(-5, 5) * MINUTE for i in range(1, 12)]
    over = times[-1] + 5 * MINUTE
    document = {
        "bucket": "eval",
        "site": "coreweave",
        "scheduler": _placed("kubernetes", start, runs, over),
        "trials": {"target": 12, "results": [{"at": at(time), "turns": 90} for time in times]},
    }
    return _job(run, "hard-eval", document, start=start, over=over)


def datagen(run: str, start: float, random: Random, *, turns: float = 9, chunks: int = 0) -> Healthy:
    """Datagen that uploads its traces for an hour after its last trial."""
    runs = start + random.uniform(5, 60) * MINUTE
    since, until = runs + random.uniform(10, 30) * MINUTE, runs + random.uniform(4, 9) * HOUR
    uploaded = until + random.uniform(45, 75) * MINUTE
    over = uploaded + random.uniform(1, 10) * MINUTE
    count = random.choice([150, 250])
    results = _results(random, since, until, count=count, turns=turns)
    log = _engine(random, runs + MINUTE, until)
    events = log["events"]
    assert isinstance(events, list)
    events.append({"at": at(uploaded), "upload": "complete"})
    for number, result in enumerate(results if chunks else ()):
        result["chunk"] = 1 + number % chunks
        events.append({"at": result["at"], "chunk_write": 1 + number % chunks})
    log["written"] = [[at(runs + MINUTE), at(over)]]
    document = {
        "bucket": "datagen",
        "site": "coreweave",
        "labels": {"turns": "single"} if turns == 1 else {},
        "scheduler": _placed("kubernetes", start, runs, over, gang=2),
        "trials": {"target": count, "chunks": list(range(1, chunks + 1)), "results": results},
        "log": log,
    }
    kind = "single-turn-datagen" if turns == 1 else "chunked-datagen" if chunks else "datagen"
    return _job(run, kind, document, start=start, over=over)


def preempted_datagen(run: str, start: float, random: Random) -> Healthy:
    """Datagen on nodes that can be taken away: it waits minutes or hours for others, and goes on where it was."""
    states: list[dict[str, object]] = []
    results: list[dict[str, object]] = []
    waits: list[Span] = []
    now = start
    interrupted: float | None = None
    for part in range(3):
        states.append({"from": at(now), "state": "running"})
        until = now + random.uniform(2, 4) * HOUR
        first = now + 15 * MINUTE
        results += [{"at": at(first), "turns": 9}, *_results(random, first, until - MINUTE, count=80, turns=9)]
        if interrupted is not None:
            waits.append((interrupted, first))
        if part < 2:
            states.append({"from": at(until), "state": "preempted", "waiting": "capacity"})
            interrupted = until
            now = until + random.choice([random.uniform(1, 20), random.uniform(30, 180)]) * MINUTE
    over = until + 40 * MINUTE
    states.append({"from": at(over), "state": "succeeded", "exit_code": 0})
    document = {
        "bucket": "datagen",
        "site": "marin",
        "scheduler": {"kind": "iris", "gang": 2, "states": states},
        "trials": {"target": len(results), "results": results},
    }
    return _job(run, "preempted-datagen", document, start=start, over=over, spans={WAITS_FOR_NODES: tuple(waits)})


def other(run: str, start: float, random: Random) -> Healthy:
    """A job of no kind that is known: only its scheduler is read."""
    runs = start + random.uniform(1, 300) * MINUTE
    over = runs + random.uniform(0.1, 6) * HOUR
    kind, site = random.choice([("iris", "marin"), ("slurm", "jupiter"), ("kubernetes", "coreweave")])
    document = {"bucket": "other", "site": site, "scheduler": _placed(kind, start, runs, over)}
    return _job(run, "other", document, start=start, over=over)
