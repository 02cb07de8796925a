"""Attempts of a gang, put together from all polls: what a scheduler forgot since then is among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runwatch.facts import AttemptEnd, SchedulerFacts, SchedulerState

OVER_STATES = frozenset(
    {
        SchedulerState.SUCCEEDED,
        SchedulerState.FAILED,
        SchedulerState.TIMEOUT,
        SchedulerState.KILLED,
        SchedulerState.GONE,
    }
)
"""What a scheduler says of a job that is over."""


@dataclass(frozen=True, slots=True)
class SeenAttempt:
    """One start of one task, as far as all polls together tell. Times are Unix seconds.

    `ended` is None only while it runs. Where the scheduler lost that time it is the earliest moment by which the
    attempt is known to have ended, and `end_is_exact` is false; `running_seen` is when a poll last saw it run (by this
    machine's clock). `submission` counts how often the job had been
    submitted anew under its name when the attempt was first seen.
    """

    key: str
    link: str
    submission: int
    started: float | None
    ended: float | None
    end: AttemptEnd
    exit_code: int | None = None
    detail: str = ""
    end_is_exact: bool = True
    running_seen: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A closed interval of time, Unix seconds."""

    start: float
    end: float

    def contains(self, start: float, end: float) -> bool:
        """Whether the whole of the other interval lies in this one."""
        return self.start <= start and end <= self.end


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """What is known of a job from its scheduler.

    `facts` are the latest answer's, given at `observed`; None where the present is hidden (an output for a time gone
    by), and then only `attempts` and `coverage` count. `attempts_known` is false where no answer told of attempts.
    `coverage` holds the intervals in which no attempt can have been missed, `suspended` those in which the gang was at
    some time stopped where it was, to go on later (each from the look before to the look after). `state_since` is when
    the state of `facts` was first answered without another in between. `was_over` tells whether the job had ended by
    the time that an output is made for, where `facts` are hidden.
    """

    facts: SchedulerFacts | None
    observed: float
    attempts: tuple[SeenAttempt, ...] = ()
    attempts_known: bool = False
    coverage: tuple[Span, ...] = ()
    suspended: tuple[Span, ...] = ()
    state_since: float | None = None
    was_over: bool | None = None

    def covers(self, start: float, end: float) -> bool:
        """Whether no attempt of that interval can have been missed."""
        return any(span.contains(start, end) for span in self.coverage)

    @property
    def over(self) -> bool | None:
        """Whether the scheduler says that the job is over, with no later link to come; None where it does not say."""
        if self.facts is None:
            return self.was_over
        if self.facts.state is SchedulerState.UNKNOWN:
            return None
        return self.facts.state in OVER_STATES and not successor_goes_on(self.facts)

    def as_of(self, time: float) -> SchedulerView:
        """Hide everything after a time: attempts up to then stay, what the scheduler says of the present does not."""
        attempts = [a for a in self.attempts if a.started is None or a.started <= time]
        then = tuple(
            replace(a, ended=None, end=AttemptEnd.RUNNING, exit_code=None, detail="", end_is_exact=True)
            if a.ended is not None and a.ended > time
            else a
            for a in attempts
        )
        spans, suspended = (
            tuple(Span(span.start, min(span.end, time)) for span in kept if span.start <= time)
            for kept in (self.coverage, self.suspended)
        )
        over = self.over
        if over and self.facts is not None:
            over = None if self.facts.ended is None else self.facts.ended <= time
        return SchedulerView(None, min(self.observed, time), then, self.attempts_known, spans, suspended, was_over=over)


def successor_goes_on(facts: SchedulerFacts) -> bool:
    """Whether the next link of the chain runs or can still start."""
    return facts.successor is not None and (facts.successor.running or facts.successor.can_start)


def gang_start(attempts: Sequence[SeenAttempt]) -> float | None:
    """Return when the newest attempt of the gang started, None where no attempt has.

    A gang has started with the first of its tasks: the earliest start among the tasks that were up when the newest of
    them started.
    """
    started = [(a.started, a.ended) for a in attempts if a.started is not None]
    if not started:
        return None
    newest = max(start for start, _ in started)
    return min(start for start, ended in started if start == newest or ended is None or ended > newest)
