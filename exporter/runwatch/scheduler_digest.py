"""What is kept of one job's scheduler over many polls: attempts it has forgotten, and when it was read at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runwatch.derive.attempts import OVER_STATES, SchedulerView, SeenAttempt, Span
from runwatch.facts import Attempt, AttemptEnd, SchedulerFacts, SchedulerState
from runwatch.thresholds import CLOCK_SLACK_SECONDS, COVERAGE_INTERVALS

ATTEMPTS_KEPT = 5000
_TASKLESS_STATES = frozenset({SchedulerState.PENDING, SchedulerState.PREEMPTED, SchedulerState.NO_TASKS})
_SAYS_NO_MORE = frozenset({SchedulerState.GONE, SchedulerState.UNKNOWN})
_TASK_AND_NUMBER = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)

_ENDS_WITH_JOB = {
    SchedulerState.SUCCEEDED: AttemptEnd.SUCCEEDED,
    SchedulerState.FAILED: AttemptEnd.FAILED,
    SchedulerState.KILLED: AttemptEnd.CANCELLED,
    SchedulerState.TIMEOUT: AttemptEnd.WALL_TIME,
}


@dataclass(slots=True)
class _Kept:
    attempt: Attempt
    submission: int
    end_seen: float | None = None  # when it was first seen to have ended, or to be gone
    running_seen: float | None = None  # when it was last seen to run

    def may_end_by(self, time: float, now: float) -> bool:
        """Whether what happened at a time can have ended it between the look that saw it run last, and now."""
        if self.running_seen is None or (self.attempt.started is not None and time < self.attempt.started):
            return False
        return self.running_seen - CLOCK_SLACK_SECONDS <= time <= now + CLOCK_SLACK_SECONDS

    @property
    def order(self) -> tuple[float, str]:
        start = self.attempt.started if self.attempt.started is not None else self.attempt.ended
        return (start if start is not None else float("-inf"), self.attempt.key)


class SchedulerDigest:
    """Takes the facts of one job's scheduler poll by poll and answers with a `SchedulerView`.

    A resubmission under the same name, a new child and a new link are all the same run, so a change of identity drops
    nothing: attempts of the older one that were not seen to end have ended by then.

    Args:
        interval: seconds between two polls; answers further apart than three of them may have missed attempts.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._facts: SchedulerFacts | None = None
        self._observed: float | None = None
        self._kept: dict[str, _Kept] = {}
        self._submission = 0
        self._identity = ""
        self._state_since: float | None = None
        self._told: float | None = None  # the latest answer that told of attempts, if the very last one did
        self._attempts_known = False
        self._coverage: list[Span] = []
        self._suspended: list[Span] = []
        self._view: SchedulerView | None = None

    def add(self, facts: SchedulerFacts, now: float) -> None:
        """Take what the scheduler answered at `now`, Unix seconds."""
        self._view = None
        if self._has_ended and facts.state in _SAYS_NO_MORE:
            # Schedulers drop the records of jobs that are over; the end that was seen stays true.
            self._observed = now
            return
        is_another = bool(facts.identity and self._identity and facts.identity != self._identity)
        if is_another:
            self._submission += 1
            self._end_older(facts.submitted, now)
        self._identity = facts.identity or self._identity
        if is_another or self._facts is None or self._facts.state is not facts.state or self._may_have_had_tasks(now):
            self._state_since = now
        was_suspended = self._facts is not None and self._facts.suspended
        before, self._facts, self._observed = self._observed, facts, now
        self._keep(facts.attempts, now)
        told = _tells_attempts(facts)
        # An answer that does not reach back to the one before may just not have been read whole.
        reaches_back = facts.covered_from is None or (before is not None and facts.covered_from <= before)
        if told and reaches_back:
            self._note_lost(facts, now)
        self._attempts_known = self._attempts_known or _knows_interruptions(facts, now, self.interval)
        self._note_coverage(facts.covered_from, now, told)
        if facts.suspended or was_suspended:
            self._suspended = _merged([*self._suspended, Span(now if before is None else min(before, now), now)])
        self._bound()

    def view(self, now: float) -> SchedulerView | None:
        """Return what is known, None while the scheduler never answered; worked out once between two answers.

        An answer that came after `now` (Unix seconds) counts as one of now.
        """
        if self._facts is None or self._observed is None:
            return None
        if self._view is None:
            self._view = self._make_view(self._facts, self._observed)
        return self._view if self._observed <= now else replace(self._view, observed=now)

    def _make_view(self, facts: SchedulerFacts, observed: float) -> SchedulerView:
        return SchedulerView(
            facts=facts,
            observed=observed,
            attempts=self._attempts(facts),
            attempts_known=self._attempts_known,
            coverage=tuple(self._coverage),
            suspended=tuple(self._suspended),
            state_since=self._state_since,
        )

    def _may_have_had_tasks(self, now: float) -> bool:
        """Whether a job that is without tasks again may have had some while nobody could look."""
        if self._facts is None or self._facts.state is not SchedulerState.NO_TASKS or self._observed is None:
            return False
        return now - self._observed > COVERAGE_INTERVALS * self.interval

    @property
    def _has_ended(self) -> bool:
        return self._facts is not None and self._facts.state in OVER_STATES - {SchedulerState.GONE}

    @property
    def observed(self) -> float | None:
        """When the scheduler last answered for this job, Unix seconds."""
        return self._observed

    def _end_older(self, submitted: float | None, now: float) -> None:
        ended_by = now if submitted is None else min(submitted, now)
        for kept in self._kept.values():
            if kept.end_seen is None:
                kept.end_seen = ended_by

    def _keep(self, attempts: Iterable[Attempt], now: float) -> None:
        for shown in attempts:
            kept, attempt = self._kept.get(shown.key), shown
            if kept is not None and shown.started is None and kept.submission == self._submission:
                # A container that was lost has no time of start any more; what was told of it stays true.
                attempt = replace(shown, started=kept.attempt.started)
            if kept is None or kept.attempt.started != attempt.started:
                kept = self._kept[attempt.key] = _Kept(attempt, self._submission)
            kept.attempt = attempt
            if attempt.end is AttemptEnd.RUNNING:
                kept.end_seen, kept.running_seen = None, now
            elif kept.end_seen is None:
                kept.end_seen = now

    def _note_lost(self, facts: SchedulerFacts, now: float) -> None:
        """Note attempts that are shown no more. All that ran since `covered_from` are shown, so they ended before.

        Where the whole gang was told to stop since they were last seen to run, that ended them.
        """
        shown, covered_from = {attempt.key for attempt in facts.attempts}, facts.covered_from
        for key, kept in self._kept.items():
            if key in shown or kept.end_seen is not None:
                continue
            seen = kept.running_seen
            stop = next((stop for stop in facts.stops if kept.may_end_by(stop.time, now)), None)
            if stop is not None:
                kept.attempt = replace(kept.attempt, ended=stop.time, end=stop.end, detail=stop.detail)
            ended_before = covered_from is not None and seen is not None and seen <= covered_from
            kept.end_seen = covered_from if ended_before else now

    def _note_coverage(self, covered_from: float | None, now: float, told: bool) -> None:
        if not told:
            self._told = None
            return
        start = now
        if covered_from is not None:
            start = min(covered_from, now)  # what it says of itself counts, also that it covers less than was polled
        elif self._told is not None and now - self._told <= COVERAGE_INTERVALS * self.interval:
            start = self._told
        self._told = now
        self._coverage = _merged([*self._coverage, Span(start, now)])

    def _bound(self) -> None:
        """Drop the oldest attempts beyond the limit; what was dropped is no longer covered."""
        self._suspended = self._suspended[-ATTEMPTS_KEPT:]
        excess = len(self._kept) - ATTEMPTS_KEPT
        if excess <= 0:
            return
        oldest = sorted(self._kept.items(), key=lambda item: item[1].order)[:excess]
        latest = max((k.attempt.ended or k.attempt.started or k.end_seen or 0.0) for _, k in oldest)
        for key, _ in oldest:
            del self._kept[key]
        self._coverage = [Span(max(s.start, latest), s.end) for s in self._coverage if s.end > latest]

    def _attempts(self, facts: SchedulerFacts) -> tuple[SeenAttempt, ...]:
        ordered = sorted(self._kept.values(), key=lambda kept: kept.order)
        starts = _starts_by_task(ordered)
        return tuple(_resolve(kept, starts, facts, self._state_since) for kept in ordered)


def _tells_attempts(facts: SchedulerFacts) -> bool:
    """Whether an answer tells of the attempts that there are, be it that there are none."""
    return bool(facts.attempts) or facts.covered_from is not None or facts.state in _TASKLESS_STATES | OVER_STATES


def _knows_interruptions(facts: SchedulerFacts, now: float, interval: float) -> bool:
    """Whether an answer tells how often the job was interrupted: none is no answer where attempts were not read."""
    covers = facts.covered_from is not None and now - facts.covered_from > interval
    return bool(facts.attempts) or covers or facts.state is SchedulerState.PENDING


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _task_and_number(key: str) -> tuple[str, int] | None:
    matched = _TASK_AND_NUMBER.fullmatch(key)
    return (matched[1], int(matched[2])) if matched is not None else None


def _starts_by_task(ordered: Sequence[_Kept]) -> dict[str, list[tuple[int, float]]]:
    starts: dict[str, list[tuple[int, float]]] = {}
    for kept in ordered:
        named = _task_and_number(kept.attempt.key)
        if named is not None and kept.attempt.started is not None:
            starts.setdefault(named[0], []).append((named[1], kept.attempt.started))
    return starts


def _resolve(
    kept: _Kept, starts: dict[str, list[tuple[int, float]]], facts: SchedulerFacts, state_since: float | None
) -> SeenAttempt:
    """Say when and how an attempt ended, as far as anything tells."""
    attempt, ended, end, exact = kept.attempt, kept.attempt.ended, kept.attempt.end, True
    if ended is None and kept.end_seen is not None:
        ended, exact = _ended_by(kept, starts), False
    if end is AttemptEnd.RUNNING and _ends_with_job(kept, facts, state_since):
        # Its own end was not asked for again once the job was over.
        ended = facts.ended if facts.ended is not None else state_since
        exact = facts.ended is not None
        end = _ENDS_WITH_JOB.get(facts.state, AttemptEnd.UNKNOWN)
    elif end is AttemptEnd.RUNNING and ended is not None:
        end = attempt.end_if_lost
    if ended is not None and attempt.started is not None:
        ended = max(ended, attempt.started)
    return SeenAttempt(
        attempt.key,
        attempt.link,
        kept.submission,
        attempt.started,
        ended,
        end,
        attempt.exit_code,
        attempt.detail,
        exact,
        kept.running_seen,
    )


def _ends_with_job(kept: _Kept, facts: SchedulerFacts, state_since: float | None) -> bool:
    if facts.state not in OVER_STATES or kept.attempt.link != facts.scheduler_job:
        return False
    return kept.end_seen is None or (state_since is not None and kept.end_seen >= state_since)


def _ended_by(kept: _Kept, starts: dict[str, list[tuple[int, float]]]) -> float | None:
    """Return the earliest moment by which the attempt had ended: it was seen so, or its task had started again."""
    bounds = [kept.end_seen] if kept.end_seen is not None else []
    named = _task_and_number(kept.attempt.key)
    started = kept.attempt.started
    if named is not None:
        bounds += [
            start
            for number, start in starts.get(named[0], ())
            if number > named[1] and (started is None or start >= started)
        ]
    return min(bounds, default=None)
