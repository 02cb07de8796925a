"""Looking at everything once: what `metrics`, `tables`, `line` and `explain` do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runwatch.config.model import Config
from runwatch.derive.observation import Intervals
from runwatch.discovery import WandbDiscovery
from runwatch.facts import Failure
from runwatch.fleet import assemble_fleet
from runwatch.measurements import JobReport
from runwatch.sources.binding import SourceBinding
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch

_log = logging.getLogger(__name__)

_STANDSTILL_POLLS = 3  # a first read that brings no row in so many polls is given up
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at everything gave. `failed` names each look that failed, one line each."""

    reports: list[JobReport]
    failed: tuple[str, ...]
    now: float
    intervals: Intervals
    telemetry: Telemetry


def look_once(config: Config, *, at: float | None, progress: Callable[[str], None]) -> Look:
    """Read every source of every job to its end, as far as it goes, and derive the reports.

    Args:
        config: what to look at.
        at: fixes "now" (Unix seconds) and hides what was recorded later.
        progress: is told of long reads, one line at a time.
    """
    telemetry = Telemetry()
    watch = Watch(config, telemetry, at=at)
    sources = SourceSet(telemetry, at=at, progress=progress)
    try:
        failed = _discover(config, watch, sources, telemetry)
        bindings = sources.bindings(config, [record.job for record in watch.records()])
        _poll_all(watch, bindings, progress)
        reports = watch.reports()
        telemetry.set_reload(True, watch.now())
        failed += [f"{run}: {kind.value}: {f.reason.value}: {f.detail}" for run, kind, f in watch.failures()]
        return Look(reports, tuple(failed), watch.now(), watch.intervals, telemetry)
    finally:
        sources.close()


def _discover(config: Config, watch: Watch, sources: SourceSet, telemetry: Telemetry) -> list[str]:
    fleet = assemble_fleet(config)
    failures: tuple[Failure, ...] = ()
    sources.bindings(config, fleet.jobs)
    if sources.wandb is not None and any(entry.wandb for entry in config.discover):
        found, failures = WandbDiscovery(telemetry).look(config, sources.wandb, watch.now())
        fleet = assemble_fleet(config, found)
    telemetry.set_jobs_dropped(fleet.dropped)
    watch.set_jobs(config, fleet.jobs)
    return [f"discovery: {failure.reason.value}: {failure.detail}" for failure in failures]


def _poll_all(watch: Watch, bindings: Sequence[SourceBinding], progress: Callable[[str], None]) -> None:
    """Poll all sources side by side; a job whose first history fails is then asked of its next."""
    threads = [
        threading.Thread(target=_poll_to_the_end, args=(watch, binding, progress), name=f"poll-{binding.name}")
        for binding in bindings
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for binding in bindings:
        untried = {
            record.job.run
            for record in watch.records()
            if (position := binding.position(record.job)) and record.wants_history(position)
        }
        if untried:
            watch.poll(binding, lambda record, runs=untried: record.job.run in runs)  # type: ignore[misc]


def _poll_to_the_end(watch: Watch, binding: SourceBinding, progress: Callable[[str], None]) -> None:
    watch.poll(binding)
    standstill = 0
    while watch.is_reading(binding) and standstill < _STANDSTILL_POLLS:
        before = sum(record.rows_read for record in watch.records())
        watch.poll(binding, lambda record: record.reading)
        after = sum(record.rows_read for record in watch.records())
        standstill = 0 if after > before else standstill + 1
        if standstill:
            time.sleep(_PAUSE_SECONDS)
        progress(f"{binding.name}: {after:,} rows read, more wait")
