"""Healthy training jobs: each function writes one from its start on, at most until the fleet's end."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.scenarios.quiet.healthy import DAY, HOUR, MINUTE, Healthy, Span, at, story_of
from tests.scenarios.quiet.training import Rhythm, Training

WAITS_FOR_NODES = "waits for nodes, and makes no new step until it has them"
LONG_EVALUATION = "an evaluation of 12 min ended within the hour"

LINGER = 2 * HOUR  # how long the config holds a job after its end
_ROWS_END_BEFORE = 20.0  # a preempted trainer's last row is some seconds older than its end


def _sft_values(random: Random) -> Mapping[str, float]:
    return {
        "train/loss": random.uniform(1.8, 2.2),
        "grad/norm/total": random.lognormvariate(-0.9, 0.25),
        "throughput/tokens_per_second": random.uniform(0.9e6, 1.1e6),
    }


def _job(
    run: str,
    kind: str,
    training: Training,
    *,
    site: str,
    since: float,
    over: float,
    scheduler: str = "",
    origin: str = "wandb",
    bucket: str = "sft",
    target_known: bool = True,
    succeeded: float | None = None,
    spans: Mapping[str, tuple[Span, ...]] | None = None,
    more: Mapping[str, object] | None = None,
) -> Healthy:
    history: dict[str, object] = {
        "origin": origin,
        "created": training.alive[0][0],
        "alive": training.alive,
        "steps": training.steps,
        "config": {"trainer": {"num_train_steps": training.target}} if target_known else {},
    }
    if succeeded is not None:
        history["end"] = {"at": at(succeeded), "how": "succeeded"}
    document: dict[str, object] = {"bucket": bucket, "site": site, "history": [history], **(more or {})}
    if training.rhythm.save_every:
        document["checkpoints"] = training.saves
    if scheduler:
        document["scheduler"] = {"kind": scheduler, "gang": 4, "states": training.states}
    until = over + LINGER
    return Healthy(run, kind, since, until, story_of(document, since, until), spans or {})


def _finish(training: Training, done: float, export: float, *, scheduler: bool = True) -> float:
    """Let the last step be followed by an export; return when the job succeeds."""
    over = done + export
    training.stay_alive(over)
    if scheduler:
        training.stop(over + 30, "succeeded", exit_code=0)
    return over


def _steps_for(hours: float, rhythm: Rhythm) -> int:
    return int(hours * HOUR / rhythm.step)


def steady(run: str, start: float, random: Random, scheduler: str = "iris", site: str = "marin") -> Healthy:
    """A fine-tune with evaluations of some minutes between steps, saves, and an export of up to an hour."""
    rhythm = Rhythm(random.choice([12, 20, 30]), random.choice([20, 30, 60]) * MINUTE, 60, 40 * MINUTE, 200)
    training = Training(random, rhythm, _sft_values, _steps_for(random.uniform(5, 16), rhythm))
    training.states.append({"from": at(start), "state": "pending", "waiting": "capacity"})
    runs = start + random.uniform(1, 180) * MINUTE
    done = training.attempt(runs, random.uniform(8, 40) * MINUTE, float("inf"))
    over = _finish(training, done, random.uniform(20, 65) * MINUTE)
    return _job(run, "steady", training, site=site, since=start, over=over, scheduler=scheduler, succeeded=over)


def without_wandb(run: str, start: float, random: Random) -> Healthy:
    """A fine-tune on Kubernetes that is read from JSON lines; it validates each half hour."""
    rhythm = Rhythm(random.choice([10, 15, 40]), 30 * MINUTE, 45, 30 * MINUTE, 120)
    training = Training(random, rhythm, _sft_values, _steps_for(random.uniform(4, 12), rhythm))
    done = training.attempt(start, random.uniform(4, 30) * MINUTE, float("inf"))
    over = _finish(training, done, random.uniform(10, 40) * MINUTE)
    return _job(
        run,
        "without-wandb",
        training,
        site="coreweave",
        since=start,
        over=over,
        scheduler="kubernetes",
        origin="jsonl",
        succeeded=over,
    )


def own_machine(run: str, start: float, random: Random) -> Healthy:
    """A run on somebody's own machine: no scheduler, its JSON lines alone."""
    rhythm = Rhythm(random.choice([6, 25]))
    training = Training(random, rhythm, _sft_values, _steps_for(random.uniform(3, 8), rhythm))
    done = training.attempt(start, random.uniform(2, 10) * MINUTE, float("inf"))
    over = _finish(training, done, 3 * MINUTE, scheduler=False)
    return _job(run, "own-machine", training, site="none", since=start, over=over, origin="jsonl", succeeded=over)


def two_hour_saves(run: str, start: float, random: Random) -> Healthy:
    """A pre-training run that saves each two hours, which only its folders tell, and has no end in sight."""
    rhythm = Rhythm(random.choice([20, 60]), 2 * HOUR, 150)
    training = Training(random, rhythm, _sft_values, 1_000_000)
    until = start + random.uniform(14, 40) * HOUR
    training.attempt(start, random.uniform(15, 40) * MINUTE, until - _ROWS_END_BEFORE)
    training.stop(until, "killed")
    return _job(run, "two-hour-saves", training, site="coreweave", since=start, over=until, scheduler="kubernetes")


def long_evaluations(run: str, start: float, random: Random) -> Healthy:
    """Steps of 10 s, and each three hours an evaluation of 12 min that nothing in the history tells of."""
    rhythm = Rhythm(10, 30 * MINUTE, 40, 3 * HOUR, 12 * MINUTE)
    training = Training(random, rhythm, _sft_values, _steps_for(random.uniform(8, 14), rhythm))
    done = training.attempt(start, random.uniform(10, 20) * MINUTE, float("inf"))
    over = _finish(training, done, 15 * MINUTE)
    told = tuple((end, end + HOUR) for _, end in training.evaluations)
    return _job(
        run,
        "long-evaluations",
        training,
        site="marin",
        since=start,
        over=over,
        scheduler="iris",
        succeeded=over,
        spans={LONG_EVALUATION: told},
    )


def preempted(run: str, start: float, random: Random, scheduler: str = "iris", site: str = "marin") -> Healthy:
    """Preempted each few hours; it waits minutes or hours for nodes, and does the steps since its save again."""
    rhythm = Rhythm(random.choice([10, 20, 30]), random.choice([20, 30, 60]) * MINUTE, 60, HOUR, 120)
    training = Training(random, rhythm, _sft_values, _steps_for(random.uniform(6, 14), rhythm))
    return _interrupted(run, start, training, kind="preempted", scheduler=scheduler, site=site)


def _interrupted(
    run: str, start: float, training: Training, *, kind: str, scheduler: str, site: str, bucket: str = "sft"
) -> Healthy:
    random, is_rl = training.random, bucket == "rl"
    waits: list[Span] = []
    now, last = start, start + 3 * DAY
    interrupted: float | None = None
    while True:
        bringup = (random.uniform(30, 70) if is_rl else random.uniform(6, 35)) * MINUTE
        until = now + bringup + random.uniform(3, 8) * HOUR
        if until >= last:
            until = float("inf")
        done = training.attempt(now, bringup, until - _ROWS_END_BEFORE)
        if interrupted is not None:
            waits.append((interrupted, training.new_step_at if training.new_step_at is not None else until))
        if training.step >= training.target:
            break
        training.stop(until, "preempted", waiting="capacity")
        interrupted = until
        now = until + random.choice([random.uniform(1, 15), random.uniform(20, 60), random.uniform(60, 300)]) * MINUTE
    over = _finish(training, done, random.uniform(10, 50) * MINUTE)
    return _job(
        run,
        kind,
        training,
        site=site,
        since=start,
        over=over,
        scheduler=scheduler,
        bucket=bucket,
        succeeded=over,
        spans={WAITS_FOR_NODES: tuple(waits)},
    )


def chain(run: str, start: float, random: Random) -> Healthy:
    """A SLURM chain of links of 6 h, read from its log: each waits minutes or hours for nodes behind the one before."""
    rhythm = Rhythm(random.choice([15, 30]), HOUR, 60)
    training = Training(random, rhythm, _sft_values, _steps_for(random.uniform(10, 20), rhythm))
    number = random.randrange(1000, 900000)
    training.states.append({"from": at(start), "state": "pending", "link": str(number), "waiting": "priority"})
    now = start + random.uniform(1, 240) * MINUTE
    while True:
        limit = now + 6 * HOUR
        bringup = random.uniform(5, 25) * MINUTE
        done = training.attempt(now, bringup, limit - _ROWS_END_BEFORE, link=str(number))
        if training.step >= training.target:
            break
        successor = {"scheduler_job": str(number + 1)}
        training.stop(limit, "timeout", link=str(number), successor=successor)
        number += 1
        now = limit + random.choice([random.uniform(1, 20), random.uniform(40, 240)]) * MINUTE
    over = done + random.uniform(5, 30) * MINUTE
    training.stop(over, "succeeded", link=str(number), exit_code=0)
    return _job(
        run,
        "chain",
        training,
        site=random.choice(["leonardo", "jupiter"]),
        since=start,
        over=over,
        scheduler="slurm",
        origin="log",
        succeeded=over,
    )


def _rl_values(random: Random) -> Mapping[str, float]:
    log_ratio = random.uniform(0.009, 0.013)
    return {
        "reward/avg_raw_reward": random.uniform(0.3, 0.5),
        "policy/policy_loss": random.uniform(-0.02, 0.03),
        "policy/policy_entropy": random.uniform(0.45, 0.55),
        "policy/raw_grad_norm": random.uniform(0.3, 0.55),
        "policy/log_ratio_abs_mean": log_ratio,
        "policy/log_ratio_abs_max": 30 * log_ratio,
        "policy/ppo_clip_ratio": random.uniform(0.002, 0.007),
        "tis/imp_ratio_mean": random.uniform(0.98, 1.1),
        "tis/imp_ratio_capped_fraction": 0.0,
        "tis/log_ratio_abs_mean": random.uniform(0.02, 0.04),
    }


def rl_half_hours(run: str, start: float, random: Random) -> Healthy:
    """RL with steps of half an hour, the first of them done 57 to 88 min after its start; each fifth is saved."""
    rhythm = Rhythm(random.choice([27, 30, 33]) * MINUTE, 150 * MINUTE, 3 * MINUTE)
    training = Training(random, rhythm, _rl_values, _steps_for(random.uniform(12, 40), rhythm))
    done = training.attempt(start, random.uniform(30, 55) * MINUTE, float("inf"))
    over = _finish(training, done, random.uniform(5, 30) * MINUTE)
    return _rl(run, "rl-half-hours", training, start=start, over=over)


def rl_quick(run: str, start: float, random: Random) -> Healthy:
    """RL with steps of some minutes, an evaluation of a quarter of an hour each three hours, trials in its folders."""
    rhythm = Rhythm(random.choice([3, 5, 8]) * MINUTE, HOUR, MINUTE, 3 * HOUR, 15 * MINUTE)
    training = Training(random, rhythm, _rl_values, _steps_for(random.uniform(6, 14), rhythm))
    done = training.attempt(start, random.uniform(15, 60) * MINUTE, float("inf"))
    over = _finish(training, done, random.uniform(5, 30) * MINUTE)
    results = []
    for row in training.steps:
        for reward in (0.0, 1.0):
            each = {"every": row["every"], "count": row["count"], "together": 2, "reward": reward}
            results.append({"from": row["from"], **each})
    return _rl(run, "rl-quick", training, start=start, over=over, more={"trials": {"results": results}})


def _rl(
    run: str, kind: str, training: Training, *, start: float, over: float, more: Mapping[str, object] | None = None
) -> Healthy:
    return _job(
        run,
        kind,
        training,
        site="marin",
        since=start,
        over=over,
        scheduler="iris",
        bucket="rl",
        succeeded=over,
        more=more,
    )


def rl_preempted(run: str, start: float, random: Random) -> Healthy:
    """RL that is preempted each few hours and begins again from its newest save."""
    rhythm = Rhythm(random.choice([6, 15]) * MINUTE, HOUR, 2 * MINUTE)
    training = Training(random, rhythm, _rl_values, _steps_for(random.uniform(8, 16), rhythm))
    return _interrupted(run, start, training, kind="rl-preempted", scheduler="iris", site="marin", bucket="rl")
