"""Interruptions: attempts of a gang that ended before the job did, each event once, however many tasks it hit.

A scheduler's own sums count per task (a gang of eight preempted once reads 8, and some add a user's cancel), so they
say nothing of how often the gang was stopped. Attempts in time do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.derive.attempts import SchedulerView, SeenAttempt
from runwatch.facts import AttemptEnd, InterruptionCause
from runwatch.thresholds import CLOCK_SLACK_SECONDS, INTERRUPTION_SPAN_SECONDS, INTERRUPTION_TOGETHER_SECONDS

_RANKED_CAUSES: tuple[tuple[AttemptEnd, InterruptionCause], ...] = (
    (AttemptEnd.PREEMPTED, InterruptionCause.PREEMPTION),
    (AttemptEnd.WALL_TIME, InterruptionCause.CHAIN),
    (AttemptEnd.FAILED, InterruptionCause.FAILURE),
    (AttemptEnd.UNKNOWN, InterruptionCause.UNKNOWN),
)
"""What decides where the tasks of one event ended in different ways.

A task that is preempted, or stopped at the limit, makes the others of its gang fail, often before its own end is
recorded (a grace period passes first); no scheduler preempts because a task failed. So those two win over failures,
whatever came first. Tasks that were cancelled or succeeded beside it decide nothing.
"""


@dataclass(frozen=True, slots=True)
class GangInterruption:
    """One interruption: `time` is the earliest end in it, `last_end` the latest, in Unix seconds.

    `attempts` counts the attempts that ended, `reason` is the scheduler's own words for the one that decided (equal
    reasons twice are no chance), `time_is_exact` is false where the scheduler lost when that attempt ended.
    """

    time: float
    last_end: float
    cause: InterruptionCause
    attempts: int
    reason: str
    time_is_exact: bool = True


def interruptions(view: SchedulerView) -> tuple[GangInterruption, ...]:
    """Return every interruption of a job in the order of time.

    An end counts when the job went on: a later attempt started, or the job is not over, or a next link of its chain
    can start. The end of the job itself is none, and neither is a cancel after which nothing started again.
    """
    starts = sorted(((a.started, a.key, a) for a in view.attempts if a.started is not None), key=lambda s: s[:2])
    events = (_judge(members, view, starts) for members in _together(view.attempts))
    return tuple(event for event in events if event is not None)


_Ended = tuple[float, SeenAttempt]
_Start = tuple[float, str, SeenAttempt]


def _together(attempts: Sequence[SeenAttempt]) -> list[list[_Ended]]:
    """Group ended attempts into events: ends shortly after one another, of attempts that began before the event.

    An attempt that began after the last end of an event belongs to the next start of the gang, however short it
    lived: a crash loop of 30 s is many interruptions. One whose end the scheduler lost belongs to the first event that
    it may have ended with, if nothing started again in between.
    """
    ended = sorted(((a.ended, a) for a in attempts if a.ended is not None), key=lambda pair: (pair[0], pair[1].key))
    groups = _grouped([pair for pair in ended if pair[1].end_is_exact])
    starts = sorted(attempt.started for attempt in attempts if attempt.started is not None)
    alone: list[_Ended] = []
    for bound, attempt in (pair for pair in ended if not pair[1].end_is_exact):
        group = next((group for group in groups if _may_have_ended_with(bound, attempt, group[0][0], starts)), None)
        if group is not None:
            group.append((group[-1][0], attempt))
        else:
            alone.append((bound, attempt))
    return sorted([*groups, *_grouped(alone)], key=lambda group: group[0][0])


def _grouped(ended: Sequence[_Ended]) -> list[list[_Ended]]:
    groups: list[list[_Ended]] = []
    for time, attempt in ended:
        group = groups[-1] if groups else None
        if group is not None and _joins(time, attempt, first=group[0][0], last=group[-1][0]):
            group.append((time, attempt))
        else:
            groups.append([(time, attempt)])
    return groups


def _may_have_ended_with(bound: float, attempt: SeenAttempt, event: float, starts: Sequence[float]) -> bool:
    started = attempt.started if attempt.started is not None else event
    after = started if attempt.running_seen is None else max(started, attempt.running_seen - CLOCK_SLACK_SECONDS)
    if not after <= event <= bound + INTERRUPTION_TOGETHER_SECONDS:
        return False
    # The tasks of one gang start within a while of one another: those starts are none in between.
    return bisect_right(starts, after + INTERRUPTION_TOGETHER_SECONDS) >= bisect_left(starts, event)


def _joins(time: float, attempt: SeenAttempt, *, first: float, last: float) -> bool:
    if time - last > INTERRUPTION_TOGETHER_SECONDS or time - first > INTERRUPTION_SPAN_SECONDS:
        return False
    return attempt.started is None or attempt.started < last or attempt.started == time == first


def _judge(members: Sequence[_Ended], view: SchedulerView, starts: Sequence[_Start]) -> GangInterruption | None:
    first, last = members[0][0], members[-1][0]
    ends = {attempt.end for _, attempt in members}
    ranked = next(((end, cause) for end, cause in _RANKED_CAUSES if end in ends), None)
    keys = {attempt.key for _, attempt in members}
    following = _next_start(starts, keys, first)
    if ranked is not None:
        end, cause = ranked
        if following is None and not _was_to_go_on(view, last, cause):
            return None
        return _event(members, end, cause)
    # Only cancelled or succeeded: a task of many that is done, unless the gang was down and then started again.
    if following is None or _any_ran_across(view.attempts, first, last, keys):
        return None
    newest = members[-1][1]
    if AttemptEnd.CANCELLED in ends:
        return _event(members, AttemptEnd.CANCELLED, InterruptionCause.UNKNOWN)
    if following.submission != newest.submission and following.link == newest.link:
        return _event(members, AttemptEnd.SUCCEEDED, InterruptionCause.UNKNOWN)
    if following.link != newest.link:
        # A link that saved and left in time, before the limit would have stopped it.
        return _event(members, AttemptEnd.SUCCEEDED, InterruptionCause.CHAIN)
    return None


def _next_start(starts: Sequence[_Start], keys: set[str], time: float) -> SeenAttempt | None:
    """Return the first attempt that started when the event had begun."""
    for index in range(bisect_left(starts, time, key=lambda start: start[0]), len(starts)):
        started, key, attempt = starts[index]
        if started > time or key not in keys:
            return attempt
    return None


def _any_ran_across(attempts: Sequence[SeenAttempt], first: float, last: float, keys: set[str]) -> bool:
    return any(
        a.key not in keys
        and a.started is not None
        and a.started < first
        and (a.ended is None or a.ended > last + INTERRUPTION_TOGETHER_SECONDS)
        for a in attempts
    )


def _was_to_go_on(view: SchedulerView, last_end: float, cause: InterruptionCause) -> bool:
    """Tell whether the job was to go on after an event that no start has followed yet."""
    if view.over is False:
        return True
    if view.over is None:
        return cause is InterruptionCause.PREEMPTION
    ended = view.facts.ended if view.facts is not None else None
    preempted_and_never_placed_again = ended is not None and ended - last_end > INTERRUPTION_TOGETHER_SECONDS
    return cause is InterruptionCause.PREEMPTION and preempted_and_never_placed_again


def _event(members: Sequence[_Ended], decisive: AttemptEnd, cause: InterruptionCause) -> GangInterruption:
    first = members[0]
    deciding = [attempt for _, attempt in members if attempt.end is decisive]
    reason = next((a.detail for a in deciding if a.detail), decisive.value)
    code = next((a.exit_code for a in deciding if a.exit_code), None)
    if code is not None:
        reason = f"{reason}, exit {code}"
    return GangInterruption(first[0], members[-1][0], cause, len(members), reason, first[1].end_is_exact)
