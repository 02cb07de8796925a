"""Small words to write down what a scheduler said, poll by poll. Times are seconds after `T0`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runwatch.derive.attempts import SchedulerView
from runwatch.facts import Attempt, AttemptEnd, SchedulerFacts, SchedulerState
from runwatch.scheduler_digest import SchedulerDigest

T0 = 1_790_000_000.0
HOUR = 3600.0
LATER = 1000 * HOUR

RUNNING, SUCCEEDED, PREEMPTED = AttemptEnd.RUNNING, AttemptEnd.SUCCEEDED, AttemptEnd.PREEMPTED
FAILED, WALL_TIME, CANCELLED, UNKNOWN = (
    AttemptEnd.FAILED,
    AttemptEnd.WALL_TIME,
    AttemptEnd.CANCELLED,
    AttemptEnd.UNKNOWN,
)


def attempt(
    task: str,
    number: int,
    started: float | None,
    ended: float | None = None,
    end: AttemptEnd = RUNNING,
    *,
    link: str = "/u/job",
    exit_code: int | None = None,
    detail: str = "",
) -> Attempt:
    """One start of a task; times are seconds after `T0`."""
    return Attempt(
        f"{link}/{task}/{number}",
        link,
        None if started is None else T0 + started,
        None if ended is None else T0 + ended,
        end,
        exit_code,
        detail,
    )


def gang(
    number: int,
    started: float,
    ended: float | None = None,
    end: AttemptEnd = RUNNING,
    *,
    tasks: int = 8,
    stagger: float = 1.0,
    link: str = "/u/job",
) -> list[Attempt]:
    """One start of every task of a gang, each ending `stagger` seconds after the one before."""
    return [
        attempt(f"task{i}-", number, started + i * 0.5, None if ended is None else ended + i * stagger, end, link=link)
        for i in range(tasks)
    ]


def facts(
    attempts: Sequence[Attempt] = (),
    state: SchedulerState = SchedulerState.RUNNING,
    *,
    scheduler_job: str = "/u/job",
    **others: object,
) -> SchedulerFacts:
    """What a scheduler says; the other fields of `SchedulerFacts` by name, their times as they are."""
    return SchedulerFacts(scheduler_job, state, attempts=tuple(attempts), **others)  # type: ignore[arg-type]


def view_of(*polls: tuple[float, SchedulerFacts], interval: float = 60.0) -> SchedulerView:
    """What is known after these polls, each at its seconds after `T0`."""
    digest = SchedulerDigest(interval)
    for time, said in polls:
        digest.add(said, T0 + time)
    seen = digest.view(T0 + LATER)
    assert seen is not None
    return seen


def polled(said: SchedulerFacts, times: Iterable[float]) -> list[tuple[float, SchedulerFacts]]:
    """The same answer at each of these times."""
    return [(time, said) for time in times]
