"""The attempts of an Iris job: what ended each of them, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

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

_EVICTIONS = ("evictedduetopreempted", "terminationtarget", "workloadevicted", "disruptiontarget")
"""Kueue's and Kubernetes' words for a pod that was taken away, which Iris may record as a plain failure."""

_SAME_EVENT_SECONDS = 600.0


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
    found: list[Attempt] = []
    undecided: list[tuple[Attempt, str]] = []
    for task in tasks:
        for index, record in enumerate(task.attempts):
            follower = task.attempts[index + 1] if index + 1 < len(task.attempts) else None
            attempt = _attempt(job, task, record, follower, seen_ended or {})
            if attempt is None:
                continue
            if record.state == "TASK_STATE_COSCHED_FAILED":
                undecided.append((attempt, record.error))
                continue
            if record.state == "TASK_STATE_KILLED":
                attempt = replace(attempt, end=_killed(job, record, follower is not None, above_goes_on))
            found.append(attempt)
    decided = [replace(attempt, end=_end_of_gang(attempt, error, found)) for attempt, error in undecided]
    return tuple(sorted([*found, *decided], key=lambda attempt: (attempt.started or 0.0, attempt.key)))


def attempt_key(job: JobRecord, task_id: str, number: int) -> str:
    """Name an attempt for ever: task and number repeat when a name is submitted anew, with the time they do not."""
    submitted = job.identity.removeprefix(job.job_id)
    return f"{task_id}:{number}{submitted}"


def is_ended(record: AttemptRecord) -> bool:
    """Whether Iris calls an attempt terminal."""
    return ATTEMPT_ENDS.get(record.state) is not AttemptEnd.RUNNING


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


def _killed(job: JobRecord, record: AttemptRecord, followed: bool, above_goes_on: bool) -> AttemptEnd:
    if KILLED_BY_USER in record.error or job.error == KILLED_BY_USER:
        return AttemptEnd.PREEMPTED if followed else AttemptEnd.CANCELLED
    if followed or not job.over or above_goes_on:
        # Ended from outside and placed again, itself or with the job above it: a reclaim, a drain.
        return AttemptEnd.PREEMPTED
    if job.state == "JOB_STATE_FAILED":
        return AttemptEnd.FAILED
    return AttemptEnd.PREEMPTED if job.state == "JOB_STATE_WORKER_FAILED" else AttemptEnd.CANCELLED


def _end_of_gang(attempt: Attempt, error: str, others: Sequence[Attempt]) -> AttemptEnd:
    """A healthy task that was stopped because another one of its gang was: the cause is the other one's."""
    near = [
        (abs(other.ended - attempt.ended), other.key, other.end)
        for other in others
        if other.ended is not None and attempt.ended is not None and other.end is not AttemptEnd.SUCCEEDED
    ]
    nearest = min(near, default=None)
    if nearest is not None and nearest[0] <= _SAME_EVENT_SECONDS:
        return nearest[2]
    return AttemptEnd.FAILED if error.rstrip().endswith("failed") else AttemptEnd.UNKNOWN


def _evicted(record: AttemptRecord) -> bool:
    text = f"{record.error} {record.reason}".lower().replace(" ", "")
    return "oomkilled" not in text and any(word in text for word in _EVICTIONS)
