"""Looking at everything once: what `metrics`, `tables`, `line` and `explain` do."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from runwatch.config.model import Config
from runwatch.discovery import Finders, FleetFinder
from runwatch.facts import Failure, SourceKind
from runwatch.job_record import JobRecord
from runwatch.measurements import JobReport
from runwatch.remembered import Remembered
from runwatch.sources.binding import SourceBinding
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch

_log = logging.getLogger(__name__)

_STANDSTILL_POLLS = 3  # a first read that brings no row in so many polls is given up
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at everything gave.

    `failed` names each look that failed or did not come to its end, one line each. `may_lack_jobs` is whether a place
    where jobs are found was among them. `no_longer_shown` are the runs that ended longer than `linger` ago.
    """

    reports: list[JobReport]
    failed: tuple[str, ...]
    may_lack_jobs: bool
    no_longer_shown: frozenset[str]
    now: float
    telemetry: Telemetry


def look_once(config: Config, *, at: float | None, progress: Callable[[str], None], runs: Collection[str] = ()) -> Look:
    """Read every source of every job to its end, as far as it goes, and derive the reports.

    Args:
        config: what to look at.
        at: fixes "now" (Unix seconds) and hides what was recorded later.
        progress: is told of long reads, one line at a time.
        runs: the jobs that are read, where not all are wanted; of the others only their names are known.
    """
    telemetry = Telemetry()
    # A look leaves no trace: what a running exporter remembers is read and not written.
    remembered = Remembered(config.state_file, config.linger, writes=False)
    watch = Watch(config, telemetry, at=at, remembered=remembered)
    sources = SourceSet(telemetry, at=at, progress=progress, log_paths=watch.log_paths)
    try:
        not_found = _find_jobs(config, watch, sources, FleetFinder(telemetry, remembered, at=at), telemetry)
        bindings = sources.bindings(config, [record.job for record in watch.records()])
        _poll_all(watch, bindings, progress, lambda record: not runs or record.job.run in runs)
        reports = watch.reports()
        telemetry.set_reload(True, watch.now())
        failed = [f"{run}: {kind.value}: {f.reason.value}: {f.detail}" for run, kind, f in watch.failures()]
        failed += [
            f"{record.job.run}: {kind.value}: not read to its end, so nothing of it is shown"
            for record in watch.records()
            for kind in record.unfinished_sources
        ]
        return Look(
            reports=reports,
            failed=(*not_found, *failed),
            may_lack_jobs=bool(not_found),
            no_longer_shown=frozenset(record.job.run for record in watch.records()) - {r.run for r in reports},
            now=watch.now(),
            telemetry=telemetry,
        )
    finally:
        sources.close()


def _find_jobs(
    config: Config, watch: Watch, sources: SourceSet, finder: FleetFinder, telemetry: Telemetry
) -> list[str]:
    failures: tuple[Failure, ...] = ()
    try:
        fleet = finder.current(config, watch.now())
        sources.bindings(config, fleet.jobs)
        if config.discover:
            finders = Finders(wandb=sources.runs_finder, schedulers=sources.scheduler_finders)
            fleet, failures = finder.look(config, finders, watch.now())
    finally:
        finder.close()
    telemetry.set_jobs_dropped(fleet.dropped)
    watch.set_jobs(config, fleet.jobs)
    watch.note_blind(finder.blind)
    return [f"discovery: {failure.reason.value}: {failure.detail}" for failure in failures]


def _poll_all(
    watch: Watch,
    bindings: Sequence[SourceBinding],
    progress: Callable[[str], None],
    is_asked: Callable[[JobRecord], bool],
) -> None:
    """Poll all sources side by side; a job whose first history fails is then asked of its next.

    Schedulers come before all others: they tell where logs are.
    """
    asked = [record for record in watch.records() if is_asked(record)]
    bindings = [b for b in bindings if any(b.position(record.job) is not None for record in asked)]
    for is_first in (True, False):
        threads = [
            threading.Thread(
                target=_poll_to_the_end, args=(watch, binding, progress, is_asked), name=f"poll-{binding.name}"
            )
            for binding in bindings
            if (binding.source.kind is SourceKind.SCHEDULER) is is_first
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    longest = max((len(record.job.history) for record in asked), default=0)
    for position, binding in itertools.product(range(1, longest), bindings):
        after_others = [record for record in asked if _is_next(binding, position, record)]
        if after_others:
            _poll_to_the_end(watch, binding, progress, partial(_is_among, after_others))


def _is_next(binding: SourceBinding, position: int, record: JobRecord) -> bool:
    """Whether a job is to be asked of this source as its history at `position`, since all before it failed."""
    return binding.position(record.job) == position and record.wants(binding.source.kind, position)


def _is_among(records: Sequence[JobRecord], record: JobRecord) -> bool:
    return any(record is each for each in records)


def _has_more(binding: SourceBinding, record: JobRecord) -> bool:
    position = binding.position(record.job)
    return position is not None and record.is_unfinished(binding.source.kind, position)


def _poll_to_the_end(
    watch: Watch,
    binding: SourceBinding,
    progress: Callable[[str], None],
    only: Callable[[JobRecord], bool],
) -> None:
    """Poll until every job is read to its end, or several polls in a row brought nothing more."""
    kind = binding.source.kind
    watch.poll(binding, only)
    standstill = 0
    while any(_has_more(binding, record) for record in watch.records()) and standstill < _STANDSTILL_POLLS:
        before = sum(record.count_read(kind) for record in watch.records())
        watch.poll(binding, lambda record: _has_more(binding, record))
        after = sum(record.count_read(kind) for record in watch.records())
        standstill = 0 if after > before else standstill + 1
        if standstill:
            time.sleep(_PAUSE_SECONDS)
        progress(f"{binding.name}: {after:,} {'results' if kind is SourceKind.TRIALS else 'rows'} read, more wait")
