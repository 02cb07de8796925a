"""From Iris's records of a job and its tasks to what the exporter knows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runwatch.facts import Attempt, AttemptEnd, SchedulerFacts, SchedulerState
from runwatch.parsing.iris import Accelerators, JobRecord, TaskRecord, scheduler_state, task_counts, waiting_word
from runwatch.parsing.iris_attempts import attempts_of, exit_code_of, until
from runwatch.parsing.iris_selection import Selection, killed_from_above, selected_state

_ENDED = frozenset({SchedulerState.SUCCEEDED, SchedulerState.FAILED, SchedulerState.KILLED})
_INTERRUPTED = frozenset({AttemptEnd.PREEMPTED, AttemptEnd.FAILED, AttemptEnd.UNKNOWN})
_SURVIVED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """What was read of the tasks of one submission.

    `whole` tells that each task's whole attempt chain was read and nothing moved since; `trouble` why it is not so.
    `seen_ended`: see `attempts_of`.
    """

    tasks: tuple[TaskRecord, ...] = ()
    whole: bool = False
    trouble: str = ""
    accelerators: Accelerators | None = None
    seen_ended: Mapping[str, float] = field(default_factory=dict)


TasksOf = Callable[[JobRecord], KnownTasks]


def job_facts(
    selection: Selection,
    tasks_of: TasksOf,
    *,
    now: float,
    at: float | None = None,
    hide_today: bool = False,
    peak_memory_bytes: float | None = None,
    clock_skew: float | None = None,
) -> SchedulerFacts:
    """Make the facts of a selected job.

    Attempts are complete from the record's submission on, for a child that the coordinator submits anew under one name
    replaces its predecessor, attempts and all. Where they could not be read to the end they are complete from no time
    before now, so that no gap counts as unexplained on their account.

    Args:
        selection: the records.
        tasks_of: what was read of the tasks of a record.
        now: Unix seconds.
        at: leave out what began or ended later than this.
        hide_today: leave out what is true only of now.
        peak_memory_bytes: of the largest task.
        clock_skew: the controller's clock minus ours, seconds.
    """
    job, root = selection.job, selection.root
    known = tasks_of(job)
    state, detail = selected_state(selection)
    attempts = _attempts(selection, tasks_of)
    whole = known.whole and (selection.above is None or tasks_of(selection.above).whole)
    starts = [link.started for link in (*selection.links, job) if link.started is not None]
    chips = known.accelerators
    facts = SchedulerFacts(
        scheduler_job=job.job_id,
        state=state,
        detail=detail if whole or not known.trouble else f"{detail}; not all attempts are read: {known.trouble}",
        identity=root.identity,
        submitted=root.submitted,
        started=min(starts, default=None),
        attempts=attempts,
        covered_from=job.submitted if whole else now,
        links=tuple(link.job_id for link in selection.links),
        accelerators=chips.count * job.task_count if chips is not None and job.task_count else None,
        accelerator_type=chips.kind if chips is not None else "",
        clock_skew=clock_skew,
    )
    if at is not None:
        started = facts.started if facts.started is not None and facts.started <= at else None
        facts = replace(facts, attempts=until(attempts, at), started=started)
    if hide_today:
        return replace(facts, state=SchedulerState.UNKNOWN, detail="Iris tells only of today")
    if state is SchedulerState.UNKNOWN:
        return facts
    over = state in _ENDED
    return replace(
        facts,
        ended=_ended(selection) if over else None,
        exit_code=exit_code_of(known.tasks, succeeded=state is SchedulerState.SUCCEEDED) if over else None,
        waiting=_waiting(selection, state, known),
        # A coordinator's own task is none of the gang that is to come.
        tasks=None if selection.waits_for_child else task_counts(job),
        tasks_expected=None if selection.waits_for_child else job.task_count or None,
        preemptions=job.preemptions,
        failures=job.failures,
        peak_memory_bytes=peak_memory_bytes,
    )


def _ended(selection: Selection) -> float | None:
    job, above = selection.job, selection.above
    if above is not None and above.over and killed_from_above(job):
        return above.finished or job.finished
    return job.finished


def _waiting(selection: Selection, state: SchedulerState, known: KnownTasks) -> str:
    if selection.waits_for_child and state is SchedulerState.RUNNING:
        return "setup"
    if selection.job.over:
        # Killed with the job above it, which waits now, or sets the next child up.
        above = selection.above
        return "" if state in _ENDED or above is None else waiting_word(above, scheduler_state(above)[0]) or "setup"
    return waiting_word(selection.job, state, [task.message for task in known.tasks if task.message])


def _attempts(selection: Selection, tasks_of: TasksOf) -> tuple[Attempt, ...]:
    above = selection.above
    goes_on = above is not None and not above.over
    below: list[Attempt] = []
    for link in selection.links or (selection.job,):
        known = tasks_of(link)
        below += attempts_of(link, known.tasks, above_goes_on=goes_on, seen_ended=known.seen_ended)
    if above is not None:
        known = tasks_of(above)
        own = attempts_of(above, known.tasks, seen_ended=known.seen_ended)
        below += [attempt for attempt in own if _took_the_job_along(attempt, own, below)]
    return tuple(sorted(below, key=lambda attempt: (attempt.started or 0.0, attempt.key)))


def _took_the_job_along(attempt: Attempt, attempts_above: Sequence[Attempt], below: Sequence[Attempt]) -> bool:
    """Whether an attempt of the job above ended before that job did, and no attempt of the child outlived it.

    The child that it took along may be replaced by now, so that nothing else tells of the interruption.
    """
    if attempt.end not in _INTERRUPTED or attempt.ended is None:
        return False
    task = attempt.key.rpartition(":")[0]
    later = [
        other for other in attempts_above if other.key.rpartition(":")[0] == task and _start(other) > _start(attempt)
    ]
    ended = attempt.ended
    outlived = any(
        _start(child) < ended and (child.ended is None or child.ended > ended + _SURVIVED_SECONDS) for child in below
    )
    return bool(later) and not outlived


def _start(attempt: Attempt) -> float:
    return attempt.started if attempt.started is not None else 0.0
