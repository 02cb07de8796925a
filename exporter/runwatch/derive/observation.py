"""When sources last confirmed their facts, and which of them are blind now.

Ages of what a job does are measured against these times, never against the clock: a blind exporter must not report a
stall. Blindness itself is measured by the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from runwatch import thresholds
from runwatch.catalogue import ENDED_STATES
from runwatch.facts import SourceKind
from runwatch.figures import duration
from runwatch.measurements import Intervals, JobReport, Measurements


@dataclass(frozen=True, slots=True)
class Blindness:
    """A source of a job that has not confirmed its facts for too long. `age` is in seconds."""

    source: str
    age: float
    ever_read: bool

    @property
    def text(self) -> str:
        """The words of the Trend column."""
        if self.ever_read:
            return f"{self.source} not read for {duration(self.age)}"
        return f"{self.source} never read, asked for {duration(self.age)}"


def has_ended(measurements: Measurements) -> bool:
    """Tell whether the job is over."""
    return measurements.one_hot("mljob_state") in ENDED_STATES


def is_asked(measurements: Measurements) -> bool:
    """Tell whether its sources matter still: the job is not over, or it is and the next link of its chain waits."""
    return not has_ended(measurements) or bool(measurements.family("mljob_successor"))


def observed(measurements: Measurements, source: SourceKind) -> float | None:
    """Return when a source last answered for the job, or None when it never did."""
    return measurements.get("mljob_observed_timestamp_seconds", source=source.value)


def latest_answer(measurements: Measurements) -> float | None:
    """Return when any source last answered for the job, or None when none ever did."""
    return max(measurements.family("mljob_observed_timestamp_seconds").values(), default=None)


def observed_progress(measurements: Measurements) -> float | None:
    """Return the time that a stall is measured against: the older of the history's and the scheduler's.

    None while no history was read.
    """
    history = observed(measurements, SourceKind.HISTORY)
    scheduler = observed(measurements, SourceKind.SCHEDULER)
    if history is None or scheduler is None:
        return history
    return min(history, scheduler)


def observed_results(measurements: Measurements) -> float | None:
    """Return the time that a lack of results is measured against: the older of the trials' and the scheduler's.

    None while no trials were read.
    """
    trials = observed(measurements, SourceKind.TRIALS)
    scheduler = observed(measurements, SourceKind.SCHEDULER)
    if trials is None or scheduler is None:
        return trials
    return min(trials, scheduler)


def blind_limit(source: str, intervals: Intervals) -> float:
    """Return after how many seconds without an answer a source counts as blind."""
    interval = intervals.get(source, thresholds.DEFAULT_INTERVAL_SECONDS)
    return max(thresholds.BLIND_FLOOR_SECONDS, thresholds.BLIND_INTERVALS * interval)


def blind_sources(report: JobReport, now: float) -> tuple[Blindness, ...]:
    """Return the job's sources that are blind now, the longest first. None for a job that is over."""
    return blind_by(report.measurements, now, report.intervals)


def blind_by(measurements: Measurements, now: float, intervals: Intervals) -> tuple[Blindness, ...]:
    """Return the same of a job of which there is no report yet."""
    if not is_asked(measurements):
        return ()
    found = []
    answered = measurements.family("mljob_observed_timestamp_seconds")
    for (source,), time in answered.items():
        if now - time > blind_limit(source, intervals):
            found.append(Blindness(source, now - time, ever_read=True))
    for (source,), since in measurements.family("mljob_source_configured_timestamp_seconds").items():
        if (source,) not in answered and now - since > thresholds.NEVER_READ_SECONDS:
            found.append(Blindness(source, now - since, ever_read=False))
    return tuple(sorted(found, key=lambda blindness: (-blindness.age, blindness.source)))
