"""The attempts of an Iris job: what ended each of them, and when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runwatch.facts import Attempt, AttemptEnd
from runwatch.parsing.iris import KILLED_BY_USER, AttemptRecord, JobRecord, TaskRecord, one_line

ATTEMPT_ENDS: Mapping[str, AttemptEnd] = {
    "TASK_STATE_PENDING": AttemptEnd.RUNNING,
    "TASK_STATE_ASSIGNED": AttemptEnd.RUNNING,
    "TASK_STATE_BUILDING": AttemptEnd.RUNNING,
    "TASK_STATE_RUNNING": AttemptEnd.RUNNING,
    "TASK_STATE_SUCCEEDED": AttemptEnd.SUCCEEDED,
    "TASK_STATE_FAILED": AttemptEnd.FAILED,
    "TASK_STATE_UNSCHEDULABLE": AttemptEnd.FAILED,
    "TASK_STATE_PREEMPTED": AttemptEnd.PREEMPTED,
    # A lost worker: Iris counts it as a preemption, and on preemptible machines it is how one is seen.
    "TASK_STATE_WORKER_FAILED": AttemptEnd.PREEMPTED,
}
"""Iris's states of an attempt. KILLED and COSCHED_FAILED depend on what happened around them."""

_ENDS_BY_OTHERS = frozenset({"TASK_STATE_KILLED", "TASK_STATE_COSCHED_FAILED"})

_EVICTIONS = ("evictedduetopreempted", "terminationtarget", "workloadevicted", "disruptiontarget")
"""Kueue's and Kubernetes' words for a pod that was taken away, which Iris may record as a plain failure."""

_SAME_EVENT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Told:
    """An attempt, with the record of it and of the next one, its task, and when it was first seen ended."""

    attempt: Attempt
    record: AttemptRecord
    task: str
    follower: AttemptRecord | None
    seen: float | None

    @property
    def started_again(self) -> float | None:
        """When the task's next attempt started, Unix seconds."""
        return self.follower.started if self.follower is not None else None


def attempts_of(
    job: JobRecord,
    tasks: Iterable[TaskRecord],
    *,
    above_goes_on: bool = False,
    seen_ended: Mapping[str, float] | None = None,
) -> tuple[Attempt, ...]:
    """Return the attempts of a job's tasks, ordered by start.

    An attempt that ended before it started (lost while being placed) interrupted nothing and is left out.

    Args:
        job: the record that the tasks belong to.
        tasks: its tasks with all their attempts.
        above_goes_on: whether a job above this one is not over: Iris kills the children of a task that is preempted.
        seen_ended: for attempts by key whose end Iris did not record: when they were first seen ended, having been
            seen running before (Unix seconds).
    """
    told: list[_Told] = []
    for task in tasks:
        for index, record in enumerate(task.attempts):
            follower = task.attempts[index + 1] if index + 1 < len(task.attempts) else None
            attempt = _attempt(job, task, record, follower, seen_ended or {})
            if attempt is not None:
                seen = (seen_ended or {}).get(attempt.key)
                told.append(_Told(attempt, record, task.task_id, follower, seen))
    found: list[Attempt] = []
    undecided: list[tuple[Attempt, str]] = []
    recorded = sorted(
        ((one.record.finished, one) for one in told if one.record.finished is not None), key=lambda pair: pair[0]
    )
    for one in told:
        attempt, record = _ended_with_its_gang(one, recorded), one.record
        if record.state == "TASK_STATE_COSCHED_FAILED":
            undecided.append((attempt, record.error))
            continue
        if record.state == "TASK_STATE_KILLED":
            attempt = replace(attempt, end=_killed(job, record, one.follower is not None, above_goes_on))
        found.append(attempt)
    first_at: dict[float, tuple[str, AttemptEnd]] = {}
    for attempt in found:
        if attempt.ended is not None and attempt.end is not AttemptEnd.SUCCEEDED:
            first_at[attempt.ended] = min(
                (attempt.key, attempt.end), first_at.get(attempt.ended, (attempt.key, attempt.end))
            )
    times = sorted(first_at)
    decided = [replace(attempt, end=_end_of_gang(attempt, error, times, first_at)) for attempt, error in undecided]
    return tuple(sorted([*found, *decided], key=lambda attempt: (attempt.started or 0.0, attempt.key)))


def attempt_key(job: JobRecord, task_id: str, number: int) -> str:
    """Name an attempt for ever: task and number repeat when a name is submitted anew, with the time they do not."""
    submitted = job.identity.removeprefix(job.job_id)
    return f"{task_id}:{number}{submitted}"


def is_ended(record: AttemptRecord) -> bool:
    """Whether Iris calls an attempt terminal. One in a state that a newer Iris brought is so once it has an end."""
    if record.state in _ENDS_BY_OTHERS:
        return True
    end = ATTEMPT_ENDS.get(record.state)
    return record.finished is not None if end is None else end is not AttemptEnd.RUNNING


def exit_code_of(tasks: Iterable[TaskRecord], *, succeeded: bool) -> int | None:
    """Return the exit code of a job that is over: the job's own field is 0 whatever happened.

    Of several tasks that failed the first one's counts: the others may have been ended on its account.
    """
    if succeeded:
        return 0
    last = [task.attempts[-1] for task in tasks if task.attempts]
    told = [attempt for attempt in last if attempt.exit_code]
    told.sort(key=lambda attempt: (attempt.state != "TASK_STATE_FAILED", attempt.finished or float("inf")))
    return told[0].exit_code if told else None


def until(attempts: Sequence[Attempt], at: float) -> tuple[Attempt, ...]:
    """Return the attempts as they stood at a time (Unix seconds)."""
    started = [attempt for attempt in attempts if attempt.started is None or attempt.started <= at]
    return tuple(
        replace(attempt, ended=None, end=AttemptEnd.RUNNING, exit_code=None, detail="")
        if attempt.ended is not None and attempt.ended > at
        else attempt
        for attempt in started
    )


def _attempt(
    job: JobRecord,
    task: TaskRecord,
    record: AttemptRecord,
    follower: AttemptRecord | None,
    seen_ended: Mapping[str, float],
) -> Attempt | None:
    end = ATTEMPT_ENDS.get(record.state, AttemptEnd.UNKNOWN)
    if not is_ended(record) and follower is None:
        end = AttemptEnd.RUNNING
    if end is AttemptEnd.FAILED and _evicted(record):
        end = AttemptEnd.PREEMPTED
    # Iris stamps the start when the container is set up, so only a plain exit proves that one without a stamp ran.
    if record.started is None and record.state not in ("TASK_STATE_FAILED", "TASK_STATE_SUCCEEDED"):
        return None
    key = attempt_key(job, task.task_id, record.number)
    word = record.state.removeprefix("TASK_STATE_").lower().replace("_", " ")
    said = one_line(f"{word}: {record.reason or record.error}" if record.reason or record.error else word)
    ended, stand_in = (None, "") if end is AttemptEnd.RUNNING else _end_time(job, record, follower, seen_ended.get(key))
    code = record.exit_code if end in (AttemptEnd.FAILED, AttemptEnd.SUCCEEDED) else record.exit_code or None
    return Attempt(
        key=key,
        link=job.job_id,
        started=record.started,
        ended=ended,
        end=end,
        exit_code=None if end is AttemptEnd.RUNNING else code,
        detail=f"{said} ({stand_in})" if stand_in else said,
    )


def _end_time(
    job: JobRecord, record: AttemptRecord, follower: AttemptRecord | None, seen: float | None
) -> tuple[float | None, str]:
    """When an attempt ended; Iris leaves it out until the worker confirms, for preempted ones often for ever."""
    if record.finished is not None:
        return record.finished, ""
    if follower is not None and follower.started is not None:
        bound = follower.started if seen is None else min(seen, follower.started)
        return bound, "its end was not recorded, the next attempt's start stands for it"
    if seen is not None:
        return seen, "its end was not recorded, this is when it was first seen ended"
    if job.over and job.finished is not None:
        return job.finished, "its end was not recorded, the job's end stands for it"
    return None, "its end was not recorded"


def _ended_with_its_gang(one: _Told, recorded: Sequence[tuple[float, _Told]]) -> Attempt:
    """Give an attempt whose end was not recorded that of its gang, where Iris recorded it for another task.

    A gang falls together and is placed again together, which may take hours: the start of the next attempt would make
    a second event of the one. The tasks that Iris stops with it, on healthy workers, have their ends recorded.
    """
    attempt, bound = one.attempt, one.attempt.ended
    if one.record.finished is not None or bound is None or attempt.started is None:
        return attempt
    for index in range(bisect_right(recorded, bound, key=lambda pair: pair[0]) - 1, -1, -1):
        ended, other = recorded[index]
        if ended < attempt.started:
            break
        is_another = other.task != one.task and other.attempt.end is not AttemptEnd.SUCCEEDED
        if is_another and _may_be_of_one_gang(one, other, ended):
            said = attempt.detail.rpartition(" (")[0]
            return replace(attempt, ended=ended, detail=f"{said} (its end was not recorded, its gang's stands for it)")
    return attempt


def _may_be_of_one_gang(one: _Told, other: _Told, ended: float) -> bool:
    """Whether both tasks may have been placed again together after an end, as far as that is known."""
    again, other_again = one.started_again, other.started_again
    if one.seen is not None and (again is None or one.seen < again):
        together = other_again is None or other_again >= one.seen
        return together and one.seen - ended <= _SAME_EVENT_SECONDS
    return again is not None and (other_again is None or abs(other_again - again) <= _SAME_EVENT_SECONDS)


def _killed(job: JobRecord, record: AttemptRecord, followed: bool, above_goes_on: bool) -> AttemptEnd:
    if KILLED_BY_USER in record.error or job.error == KILLED_BY_USER:
        return AttemptEnd.PREEMPTED if followed else AttemptEnd.CANCELLED
    if followed or not job.over or above_goes_on:
        # Ended from outside and placed again, itself or with the job above it: a reclaim, a drain.
        return AttemptEnd.PREEMPTED
    if job.state == "JOB_STATE_FAILED":
        return AttemptEnd.FAILED
    return AttemptEnd.PREEMPTED if job.state == "JOB_STATE_WORKER_FAILED" else AttemptEnd.CANCELLED


def _end_of_gang(
    attempt: Attempt, error: str, times: Sequence[float], first_at: Mapping[float, tuple[str, AttemptEnd]]
) -> AttemptEnd:
    """A healthy task that was stopped because another one of its gang was: the cause is the other one's.

    `times` are those at which others ended, in order, `first_at` the first of each by key, and how it ended.
    """
    if attempt.ended is not None:
        index = bisect_left(times, attempt.ended)
        near = [(abs(time - attempt.ended), *first_at[time]) for time in times[max(0, index - 1) : index + 1]]
        distance, _, end = min(near, default=(float("inf"), "", AttemptEnd.UNKNOWN))
        if distance <= _SAME_EVENT_SECONDS:
            return end
    return AttemptEnd.FAILED if error.rstrip().endswith("failed") else AttemptEnd.UNKNOWN


def _evicted(record: AttemptRecord) -> bool:
    text = f"{record.error} {record.reason}".lower().replace(" ", "")
    return "oomkilled" not in text and any(word in text for word in _EVICTIONS)
