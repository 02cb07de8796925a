"""What caused each gap: the interruption that falls in it, as far as the scheduler was read.

Rules (`docs/rules.md`): an interruption explains the gap that it lies in. Clocks of scheduler and trainer may be 90 s
apart, and the last rows before an interruption may not have been logged, so one that lies a little outside explains
the nearest gap that none lies in. `unexplained` is a claim: the scheduler was read for the whole interval and shows
nothing, while nothing was logged either. Where that cannot be claimed the cause is `unknown`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.derive.attempts import SchedulerView
from runwatch.derive.interruptions import GangInterruption
from runwatch.derive.step_timeline import StepInterval, gap_threshold_of
from runwatch.facts import InterruptionCause
from runwatch.thresholds import CLOCK_SLACK_SECONDS, LOGGING_DELAY_INTERVALS

UNEXPLAINED = "unexplained"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExplainedGap:
    """A closed gap, its cause (of `GAP_CAUSES`), why in words, and the interruptions in it, earliest first.

    The earliest interruption in the gap gives the cause: it is what stopped the steps (the earliest of those whose time
    the scheduler kept, where there are such). A gap without one in which the gang was suspended for another job is of
    cause `preemption` too; its attempts went on.
    """

    gap: StepInterval
    cause: str
    why: str
    interruptions: tuple[GangInterruption, ...] = ()


def explain_gaps(
    gaps: Sequence[StepInterval],
    interruptions: Sequence[GangInterruption],
    view: SchedulerView,
    interval_median: float | None,
    ahead_seconds: float = 0.0,
) -> tuple[ExplainedGap, ...]:
    """Give each gap its cause.

    Args:
        gaps: closed gaps in the order of their steps; they overlap only where a clock was set back between them.
        interruptions: in the order of time.
        view: what is known from the scheduler, for when it was read and which attempts it shows.
        interval_median: median seconds between logged steps, for rows that an interruption kept from being logged.
        ahead_seconds: by how much the trainer's clock is known to be ahead; its gaps seem to begin as much later.
    """
    before = CLOCK_SLACK_SECONDS + ahead_seconds
    if interval_median is not None:
        before = max(before, LOGGING_DELAY_INTERVALS * interval_median)
    in_time = sorted(range(len(gaps)), key=lambda index: gaps[index].end)
    matched = dict(zip(in_time, _match([gaps[index] for index in in_time], interruptions, before), strict=True))
    silent = gap_threshold_of(interval_median)
    return tuple(_explain(gap, matched[index], view, silent, before) for index, gap in enumerate(gaps))


def _match(
    gaps: Sequence[StepInterval], interruptions: Sequence[GangInterruption], before: float
) -> list[list[GangInterruption]]:
    """Give each gap its interruptions: those that lie in it, then those nearby that lie in none."""
    inside: list[list[GangInterruption]] = [[] for _ in gaps]
    outside: list[GangInterruption] = []
    ends = [gap.end for gap in gaps]
    for event in interruptions:
        # Two gaps that follow one another share a moment: an event right then lies in both.
        first = bisect_left(ends, event.time)
        holding = [i for i in range(first, min(first + 2, len(gaps))) if gaps[i].start <= event.time <= gaps[i].end]
        for index in holding:
            inside[index].append(event)
        if not holding:
            outside.append(event)
    matched = [list(events) for events in inside]
    for event in outside:
        near = _nearest(gaps, inside, ends, event.time, before)
        if near is not None:
            matched[near].append(event)
    return matched


def _nearest(
    gaps: Sequence[StepInterval],
    inside: Sequence[Sequence[GangInterruption]],
    ends: Sequence[float],
    time: float,
    before: float,
) -> int | None:
    """Return which gap begins or ended near enough, one that no interruption lies in before any other."""
    following = bisect_left(ends, time)
    candidates = []
    if following < len(gaps) and 0 < gaps[following].start - time <= before:
        candidates.append((bool(inside[following]), gaps[following].start - time, following))
    if following > 0 and 0 < time - ends[following - 1] <= CLOCK_SLACK_SECONDS:
        candidates.append((bool(inside[following - 1]), time - ends[following - 1], following - 1))
    return min(candidates)[2] if candidates else None


def _explain(
    gap: StepInterval, found: list[GangInterruption], view: SchedulerView, silent: float | None, before: float
) -> ExplainedGap:
    if found:
        # One whose time the scheduler lost may have come earlier or later: those with a time of their own come first.
        events = tuple(sorted(found, key=lambda e: (not gap.start <= e.time <= gap.end, not e.time_is_exact, e.time)))
        cause = events[0].cause.value
        return ExplainedGap(gap, cause, f"the scheduler shows: {events[0].reason}", events)
    if any(span.start <= gap.end and span.end >= gap.start - before for span in view.suspended):
        return ExplainedGap(gap, InterruptionCause.PREEMPTION.value, "the scheduler shows it suspended for another job")
    if not view.covers(gap.start, gap.end):
        return ExplainedGap(gap, UNKNOWN, "the scheduler was not read for all of it")
    if any(a.started is not None and gap.start < a.started <= gap.end for a in view.attempts):
        return ExplainedGap(gap, UNKNOWN, "an attempt started in it, and what came before did not end as interrupted")
    if silent is not None and gap.longest_silence is not None and gap.longest_silence <= silent:
        return ExplainedGap(gap, UNKNOWN, "older steps were logged again all the while, and nothing was interrupted")
    return ExplainedGap(gap, UNEXPLAINED, "the scheduler was read for all of it and shows no interruption")
