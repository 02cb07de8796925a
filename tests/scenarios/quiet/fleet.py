"""The quiet fleet: places that always hold a healthy job, of every bucket, site and kind of scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from tests.scenarios.quiet import training_jobs as training
from tests.scenarios.quiet import trial_jobs as trials
from tests.scenarios.quiet.healthy import DAY, HOUR, MINUTE, Healthy

Make = Callable[[str, float, Random], Healthy]

PLACES: tuple[tuple[str, int, Make], ...] = (
    ("steady", 7, training.steady),
    ("steady-slurm", 2, partial(training.steady, scheduler="slurm", site="leonardo")),
    ("preempted", 8, training.preempted),
    ("preempted-pods", 2, partial(training.preempted, scheduler="kubernetes", site="coreweave")),
    ("chain", 6, training.chain),
    ("two-hour-saves", 4, training.two_hour_saves),
    ("long-evaluations", 2, training.long_evaluations),
    ("without-wandb", 4, training.without_wandb),
    ("own-machine", 2, training.own_machine),
    ("rl-half-hours", 8, training.rl_half_hours),
    ("rl-quick", 4, training.rl_quick),
    ("rl-preempted", 4, training.rl_preempted),
    ("agentic-eval", 4, trials.agentic_eval),
    ("single-turn-eval", 3, trials.single_turn_eval),
    ("slurm-eval", 2, trials.slurm_eval),
    ("hard-eval", 2, trials.hard_eval),
    ("datagen", 4, trials.datagen),
    ("single-turn-datagen", 2, partial(trials.datagen, turns=1)),
    ("chunked-datagen", 2, partial(trials.datagen, chunks=3)),
    ("preempted-datagen", 2, trials.preempted_datagen),
    ("other", 2, trials.other),
)
"""The kinds of jobs, how many places each has, and what writes one: over 200 jobs on a day."""

_SEED = 20261
_OLDEST = 8 * HOUR  # how long before the fleet's time 0 its first jobs may have been submitted


def batch(days: float, number: int, batches: int) -> list[Healthy]:
    """Return the jobs of some days at each `batches`-th place, so that every batch has jobs of all kinds."""
    makers = [(kind, make) for kind, count, make in PLACES for _ in range(count)]
    places = range(number, len(makers), batches)
    return [job for place in places for job in _jobs_of(*makers[place], place, days)]


def _jobs_of(kind: str, make: Make, place: int, days: float) -> Iterator[Healthy]:
    """Yield the jobs of a place, one after the other, from before the fleet's time 0 until its end."""
    random = Random(f"{_SEED} {place}")
    start = -random.uniform(0, _OLDEST)
    number = 0
    while start < days * DAY:
        number += 1
        job = make(f"{kind}-{place}-{number}", start, random)
        if job.until > 0:
            yield job
        start = job.until - training.LINGER + random.uniform(5, 90) * MINUTE
