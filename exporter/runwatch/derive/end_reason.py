"""Why a job ended, as far as its scheduler, its own word and its log tell: the reason of `mljob_end_reason`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runwatch.derive.attempts import SchedulerView, SeenAttempt
from runwatch.derive.interruptions import GangInterruption
from runwatch.derive.phase import newest_start
from runwatch.derive.state import JobState
from runwatch.facts import AttemptEnd, InterruptionCause, LogFacts
from runwatch.parsing.failures import most_telling
from runwatch.thresholds import CLOCK_SLACK_SECONDS, INTERRUPTION_TOGETHER_SECONDS

_BY_STATE = {"succeeded": "completed", "timeout": "wall_time", "killed": "cancelled"}
_OUT_OF_MEMORY = re.compile(r"oomkilled|out[_ -]of[_ -]memory|\boom\b", re.IGNORECASE)
_NODE = re.compile(r"node_fail|boot_fail|node ?(?:lost|failure|shutdown)|nodelost|worker[_ ]failed", re.IGNORECASE)
_SIGNALS = {9: "sigkill", 15: "sigterm"}
_SIGNAL_BASE = 128
"""A shell reports a process that a signal ended as 128 + the signal's number."""

_CAUSES_NAMED_BY_THE_SCHEDULER = frozenset({"out_of_memory", "preempted", "node"})
"""What a scheduler knows better than the process that it happened to."""


def end_reason(state: JobState, view: SchedulerView | None, log: LogFacts | None = None) -> str | None:
    """Return the reason, None while the job is not over.

    A failure is named by what the scheduler says of it and of the attempts that ended last: memory before the signal
    that it leads to, a preemption and a node before what they made of the process. Where it knows none of these, the
    log tells what led to the signal or the exit code; of the failures in it those of the newest attempt count.
    """
    if not state.over:
        return None
    if state.state in _BY_STATE:
        return _BY_STATE[state.state]
    by_scheduler = _by_scheduler(state, view) if state.state != "vanished" else "unknown"
    if by_scheduler in _CAUSES_NAMED_BY_THE_SCHEDULER or log is None:
        return by_scheduler
    started = newest_start(view) if view is not None else None
    since = started - CLOCK_SLACK_SECONDS if started is not None else None
    failure = most_telling([f for f in log.failures if since is None or f.time is None or f.time >= since])
    if failure is None:
        return by_scheduler
    is_signal = failure.reason in _SIGNALS.values()
    return by_scheduler if is_signal and by_scheduler != "unknown" else failure.reason


def _by_scheduler(state: JobState, view: SchedulerView | None) -> str:
    last = _last_ended(view.attempts) if view is not None else []
    texts = [attempt.detail for attempt in last if attempt.end is not AttemptEnd.CANCELLED]
    if view is not None and view.facts is not None:
        texts.append(view.facts.detail)
    if any(_OUT_OF_MEMORY.search(text) for text in texts):
        return "out_of_memory"
    if any(attempt.end is AttemptEnd.PREEMPTED for attempt in last):
        return "preempted"
    if any(_NODE.search(text) for text in texts):
        return "node"
    codes = [state.exit_code, *(a.exit_code for a in last if a.end is AttemptEnd.FAILED)]
    return next((name for code in codes if (name := _signal_of(code)) is not None), "unknown")


_NOT_KNOWN = ""


def failed_alike(state: JobState, view: SchedulerView | None, events: Sequence[GangInterruption]) -> str | None:
    """Return the one reason with which the last two ends of the job failed: the same failure again is not transient.

    None where they differ, where one of them was no failure, or where the scheduler gives no reason.
    """
    older, newest = _newest_two_ends(state, view, events) or (None, None)
    return newest or None if older == newest else None


def failures_ended_alike(
    state: JobState, view: SchedulerView | None, events: Sequence[GangInterruption]
) -> bool | None:
    """Tell whether the last two ends of the job's attempts were one and the same failure, by words and exit code.

    None with fewer than two ends, where neither was a failure, or where the scheduler does not say how one came about.
    """
    ends = _newest_two_ends(state, view, events)
    if ends is None or _NOT_KNOWN in ends or ends == (None, None):
        return None
    return ends[0] == ends[1]


def _newest_two_ends(
    state: JobState, view: SchedulerView | None, events: Sequence[GangInterruption]
) -> tuple[str | None, str | None] | None:
    """Return for the last two ends, the newest last, the reason of each; None for one that was no failure."""
    if view is None:
        return None
    ends = [_reason_of(event) for event in events[-2:]]
    if state.over:
        ends.append(_reason_of_the_last(state, view))
    return (ends[-2], ends[-1]) if len(ends) >= 2 else None


def _reason_of(event: GangInterruption) -> str | None:
    if event.cause is InterruptionCause.UNKNOWN:
        return _NOT_KNOWN
    return _told(event.reason) if event.cause is InterruptionCause.FAILURE else None


def _reason_of_the_last(state: JobState, view: SchedulerView) -> str | None:
    """Return the newest end's reason in the words of an interruption's."""
    if state.state != "failed":
        return _NOT_KNOWN if state.state == "vanished" else None
    last = _last_ended(view.attempts)
    if any(attempt.end in {AttemptEnd.PREEMPTED, AttemptEnd.WALL_TIME} for attempt in last):
        return None
    failed = [attempt for attempt in last if attempt.end is AttemptEnd.FAILED]
    reason = next((attempt.detail for attempt in failed if attempt.detail), AttemptEnd.FAILED.value)
    code = next((attempt.exit_code for attempt in failed if attempt.exit_code), None)
    return _told(reason if code is None else f"{reason}, exit {code}")


def _told(reason: str) -> str:
    """Return a failure's reason, nothing where the scheduler says no more than that it failed."""
    return _NOT_KNOWN if reason == AttemptEnd.FAILED.value else reason


def _signal_of(code: int | None) -> str | None:
    if code is None:
        return None
    return _SIGNALS.get(-code if code < 0 else code - _SIGNAL_BASE)


def _last_ended(attempts: Sequence[SeenAttempt]) -> list[SeenAttempt]:
    newest = max((a.ended for a in attempts if a.ended is not None), default=None)
    if newest is None:
        return []
    return [a for a in attempts if a.ended is not None and newest - a.ended <= INTERRUPTION_TOGETHER_SECONDS]
