"""Watches the whole quiet fleet for some days, its batches on two cores, and says what fired."""

from __future__ import annotations

import math
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.scenarios.judge import rule_files
from tests.scenarios.quiet.fleet import batch
from tests.scenarios.quiet.listed import Judged, judged
from tests.scenarios.quiet.watching import Fired, watch

CORES = 2
_DAYS_IN_MEMORY = 2  # so many days of a half of the fleet are held at once, in each of two processes


@dataclass(frozen=True, slots=True)
class QuietDays:
    """What was watched, and what fired of it."""

    jobs: int
    evaluations: int
    fired: tuple[Fired, ...]
    judged: Judged


def watch_fleet(days: float, step: float) -> QuietDays:
    """Watch the fleet for some days, with a look, a scrape and an evaluation each `step` seconds.

    Raises:
        RuntimeError: promtool failed.
    """
    batches = CORES * max(1, math.ceil(days / _DAYS_IN_MEMORY))
    watched = partial(_watch_batch, days, step, batches)
    # Started anew, not forked: whoever calls this may run threads.
    with ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        parts = list(pool.map(watched, range(batches)))
    return QuietDays(
        sum(part.jobs for part in parts),
        parts[0].evaluations,
        tuple(sorted((alert for part in parts for alert in part.fired), key=lambda alert: alert.first)),
        Judged(
            tuple(line for part in parts for line in part.judged.unlisted),
            frozenset(row for part in parts for row in part.judged.used),
        ),
    )


def _watch_batch(days: float, step: float, batches: int, number: int) -> QuietDays:
    jobs = batch(days, number, batches)
    with tempfile.TemporaryDirectory() as folder:
        fired = watch(jobs, days, step, rule_files(), Path(folder))
    return QuietDays(len(jobs), round(days * 86400 / step) + 1, tuple(fired), judged(fired, jobs, days, step))
