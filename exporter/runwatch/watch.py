"""The jobs that are watched and the sources they are asked of: what `serve` does for ever, the other commands once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from weakref import WeakKeyDictionary

from runwatch.catalogue import ENDED_STATES
from runwatch.config.model import Config
from runwatch.contained import Contained
from runwatch.derive.job import measure_job
from runwatch.derive.links import NO_PAGES, SitePages
from runwatch.facts import Failure, FailureReason, HistoryUpdate, LogFacts, SchedulerFacts, SourceKind
from runwatch.fleet import Job
from runwatch.job_record import JobRecord
from runwatch.measurements import JobReport
from runwatch.remembered import Remembered
from runwatch.rounds import Rounds
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Outcome, Source
from runwatch.telemetry import Telemetry
from runwatch.thresholds import AT_IS_NOW_SECONDS

_LOG_PATHS = "log_paths"


class Watch:
    """Holds a record for each job, polls sources into them and derives reports from them.

    Args:
        config: intervals, `stale_after` and `linger` are read from it.
        telemetry: where polls, failures and requests are counted.
        at: fixes "now" (Unix seconds), for output that can be reproduced.
        clock: the time now, Unix seconds.
        monotonic: seconds that no correction of the clock changes, for how long things take.
        remembered: keeps what schedulers forget.
    """

    def __init__(
        self,
        config: Config,
        telemetry: Telemetry,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        remembered: Remembered | None = None,
    ) -> None:
        self._config = config
        self._telemetry = telemetry
        self._at = at
        self._clock = clock
        self._monotonic = monotonic
        self._rounds = Rounds()
        self._remembered = remembered
        self._lock = threading.Lock()
        self._records: dict[str, JobRecord] = {}
        self._over: set[str] = set()
        self._to_forget: WeakKeyDictionary[Source, set[str]] = WeakKeyDictionary()
        self._used: set[tuple[SourceKind, str]] = set()
        self._last_success: dict[tuple[SourceKind, str], float] = {}
        self._blind: frozenset[tuple[SourceKind, str]] = frozenset()
        self.unmeasured: frozenset[str] = frozenset()
        self.health: Mapping[tuple[SourceKind, str], Failure | bool] = {}

    def now(self) -> float:
        """Return the time that this output is made for, Unix seconds."""
        return self._at if self._at is not None else self._clock()

    def intervals(self, site: str) -> dict[str, float]:
        """Return the seconds between two looks of each source at a job of this site."""
        return {kind.value: self._rounds.interval(kind, site, self._config.interval(kind)) for kind in SourceKind}

    def set_jobs(self, config: Config, jobs: Iterable[Job]) -> None:
        """Watch exactly these jobs from now on. What is known of an unchanged job is kept."""
        with self._lock:
            self._config = config
            records: dict[str, JobRecord] = {}
            for job in jobs:
                known = self._records.get(job.run)
                keeps = known is not None and (known.job == job or known.take_over(job, self.now()))
                records[job.run] = known if known is not None and keeps else JobRecord(job, self.now())
            dropped = tuple(run for run, record in self._records.items() if records.get(run) is not record)
            self._records = records
            for forgotten in self._to_forget.values():
                forgotten.update(dropped)
            # Under the lock, so that no outcome that comes late makes the series of a run that is gone.
            for run in dropped:
                self._telemetry.forget_run(run)
        buckets = {record.job.bucket for record in records.values()}
        self._telemetry.set_jobs(
            {bucket: sum(1 for r in records.values() if r.job.bucket == bucket) for bucket in buckets}
        )

    def records(self) -> Sequence[JobRecord]:
        """The records of all watched jobs."""
        with self._lock:
            return list(self._records.values())

    def log_paths(self, job: Job) -> tuple[str, ...]:
        """Where the job's scheduler says that its log is, or said before it forgot; nothing while it was not read."""
        with self._lock:
            record = self._records.get(job.run)
        paths = record.log_paths if record is not None else ()
        if self._remembered is None:
            return paths
        if not paths:
            return self._remembered.recall(job.site, job.scheduler_job, _LOG_PATHS)
        self._remembered.remember(job.site, job.scheduler_job, _LOG_PATHS, paths)
        return paths

    def poll(
        self,
        binding: SourceBinding,
        only: Callable[[JobRecord], bool] | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let a source look once at all of its jobs, or at those that `only` admits.

        What it delivers once `is_wanted` says no, because another source has taken its place, is dropped. A source
        that ends by a fault of its own has failed to look at every job that it gave no outcome for.
        """
        # One lock for both: a record made after this must not meet the cursor of the one it replaced.
        with self._lock:
            forgotten = self._to_forget.get(binding.source, set())
            self._to_forget[binding.source] = set()
            records = list(self._records.values())
        for run in sorted(forgotten):
            binding.source.forget(run)
        positions: dict[str, tuple[JobRecord, int]] = {}
        for record in records:
            position = binding.position(record.job)
            if position is not None and record.wants(binding.source.kind, position) and (only is None or only(record)):
                positions[record.job.run] = (record, position)
        kind = binding.source.kind
        started = self._monotonic()
        finished: dict[str, float] = {}
        read: dict[str, float] = {}
        answered: set[str] = set()

        def deliver(job: Job, outcome: Outcome) -> None:
            answered.add(job.run)
            record, position = positions[job.run]
            age = 0.0 if isinstance(outcome, Failure | SchedulerFacts) else outcome.age
            is_taken = record.apply(
                kind,
                outcome,
                self.now() - age,
                position=position,
                interval=self._rounds.interval(kind, job.site, self._config.interval(kind)),
                source=binding.source,
                is_wanted=is_wanted,
            )
            if not is_taken:
                return
            finished[job.site] = self._monotonic() - started
            if isinstance(outcome, Failure):
                self._telemetry.count_error(kind, job.site, outcome.reason)
            if _was_read(outcome):
                read[job.run] = self._monotonic()
                before = self._last_success.get((kind, job.site), -math.inf) if age else -math.inf
                self._last_success[kind, job.site] = max(self.now() - age, before)
            with self._lock:
                if self._records.get(job.run) is record:
                    self._count_lines(record, outcome)

        jobs = [record.job for record, _ in positions.values()]
        with Contained(f"polling {binding.name}") as polled:
            binding.source.poll(jobs, deliver)
        for job in jobs if polled.error is not None else ():
            if job.run not in answered:
                deliver(job, Failure(FailureReason.OTHER, f"the look failed: {type(polled.error).__name__}"))
        sites = {run: record.job.site for run, (record, _) in positions.items()}
        self._rounds.polled(binding.name, kind, sites, read, whole=only is None)
        for site, seconds in sorted(finished.items()):
            self._telemetry.observe_poll(kind, site, seconds)
        self.note_health()

    def _count_lines(self, record: JobRecord, outcome: Outcome) -> None:
        if isinstance(outcome, HistoryUpdate | Failure) and outcome.malformed:
            self._telemetry.add_malformed(record.job.run, outcome.malformed)
        if isinstance(outcome, LogFacts):
            self._telemetry.set_log_lines_unparsed(record.job.run, outcome.unparsed)

    def is_reading(self, binding: SourceBinding) -> bool:
        """Tell whether a first read of this source goes on for any job."""
        return any(
            record.reading and not record.failing(position)
            for record in self.records()
            if (position := binding.position(record.job)) is not None and binding.history_key
        )

    def note_blind(self, blind: Iterable[tuple[SourceKind, str]]) -> None:
        """Take which sources could not be looked at for jobs, by their sites, in place of those before."""
        self._blind = frozenset(blind)
        self.note_health()

    def note_health(self) -> None:
        """Tell for each source and site whether at least one of its jobs that are not over could be read.

        `health` has the same, with one failure of those that were seen where it is down, and False where none was.
        Where jobs are looked for in vain and none is known, none could be read: how many there are nobody can say.

        Done for all sources at once: what one source says of a job's end decides whether another still counts, and a
        job whose history was not tried yet counts for none.
        """
        outcomes: dict[tuple[SourceKind, str], list[Failure | bool]] = {}
        for record in self.records():
            over = record.ended or record.job.run in self._over
            for kind in record.sources() if not (over or record.may_have_ended) else ():
                outcome = record.latest_outcome(kind)
                if outcome is not None:
                    outcomes.setdefault((kind, record.job.site), []).append(outcome)
        for place in self._blind:
            outcomes.setdefault(place, [False])
        with self._lock:
            gone = self._used - set(outcomes)
            self._used = set(outcomes)
        for kind, site in sorted(gone):
            self._telemetry.drop_source(kind, site)
        health: dict[tuple[SourceKind, str], Failure | bool] = {}
        for (kind, site), seen in sorted(outcomes.items()):
            is_up = any(_was_read(outcome) for outcome in seen)
            failure = next((outcome for outcome in seen if isinstance(outcome, Failure)), False)
            health[kind, site] = True if is_up else failure
            self._telemetry.set_source_up(kind, site, is_up)
            self._telemetry.set_interval(kind, site, self._rounds.interval(kind, site, self._config.interval(kind)))
            if (kind, site) in self._last_success:
                # Of a clock that was set back no success lies in the future.
                self._last_success[kind, site] = min(self._last_success[kind, site], self.now())
                self._telemetry.set_last_success(kind, site, self._last_success[kind, site])
        self.health = health

    def reports(self, *, apart: bool = False) -> list[JobReport]:
        """Derive the reports of all jobs but those that ended longer than `linger` ago, by run name.

        Args:
            apart: One job's derivation may fail without those of the others: it is left out, and named in
                `unmeasured` until the next call.
        """
        now = self.now()
        intervals: dict[str, dict[str, float]] = {}
        only_past = self._clock() - now > AT_IS_NOW_SECONDS
        over: set[str] = set()
        unmeasured: set[str] = set()
        reports = []
        for record in sorted(self.records(), key=lambda record: record.job.run):
            view = record.view(now, self._config.stale_after, only_past=only_past)
            run, site = record.job.run, record.job.site
            view = replace(view, pages=self._pages(site))
            if site not in intervals:
                intervals[site] = self.intervals(site)
            report: JobReport | None = None
            with Contained(f"deriving {run}", is_known=run in self.unmeasured) if apart else nullcontext():
                report = measure_job(view, now, intervals[site])
            if report is None:
                unmeasured.add(run)
                continue
            end = report.measurements.get("mljob_end_timestamp_seconds")
            # The end of a link is not the run's while the next one waits.
            goes_on = bool(report.measurements.family("mljob_successor"))
            if report.measurements.one_hot("mljob_state") in ENDED_STATES and not goes_on:
                over.add(report.run)
            if end is None or goes_on or now - end <= self._config.linger:
                reports.append(report)
        # Logs and trials tell of ends too, which only the whole record of a job shows.
        self._over = over
        self.unmeasured = frozenset(unmeasured)
        self.note_health()
        return reports

    def _pages(self, site: str) -> SitePages:
        known = self._config.sites.get(site)
        return NO_PAGES if known is None else SitePages(known.job_page or "", known.checkpoint_page or "")

    def failures(self) -> list[tuple[str, SourceKind, Failure]]:
        """Every look that failed most recently: the run, the kind of source and why."""
        found = []
        for record in self.records():
            view = record.view(self.now(), self._config.stale_after)
            for kind, failures in sorted(view.failures.items()):
                if record.latest_outcome(kind) is not True:
                    found += [(record.job.run, kind, failure) for failure in failures]
        return found


def _was_read(outcome: Outcome | bool) -> bool:
    return outcome.is_answer if isinstance(outcome, Failure) else outcome is not False
