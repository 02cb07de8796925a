"""What a scheduler says of a job, its tasks and their attempts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InterruptionCause(StrEnum):
    """Why an attempt ended before its job did: the values of the label `cause` of interruptions."""

    PREEMPTION = "preemption"
    FAILURE = "failure"
    CHAIN = "chain"
    UNKNOWN = "unknown"


class SchedulerState(StrEnum):
    """What a scheduler says of a job, in the words of `mljob_state`; one table in the docs maps its own words to these.

    `PREEMPTED`: it ran, and waits to be placed again. `NO_TASKS`: it counts as running, yet has no task, pod or step
    (how long that is borne is the derivation's matter). `GONE`: the scheduler answered and has no record of the job.
    `UNKNOWN`: it answered with a state that tells neither way.
    """

    PENDING = "pending"
    RUNNING = "running"
    PREEMPTED = "preempted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    KILLED = "killed"
    NO_TASKS = "no_tasks"
    GONE = "gone"
    UNKNOWN = "unknown"


class AttemptEnd(StrEnum):
    """How one attempt of one task (or one link of a restart chain) ended; RUNNING while it has not."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PREEMPTED = "preempted"
    FAILED = "failed"
    WALL_TIME = "wall_time"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of one task. Times are Unix seconds; `ended` is None while it runs, or where the scheduler lost it.

    `key` names the attempt uniquely and for ever (task and number, pod uid, SLURM job id and restart count), so that
    what a scheduler forgets can be kept. `link` is the scheduler's id of the job it belongs to: links of one restart
    chain differ in it. `end_if_lost` is how one that runs ended, should the scheduler show it no more at the next look:
    it was already being stopped, and `detail` says why.
    """

    key: str
    link: str
    started: float | None
    ended: float | None
    end: AttemptEnd
    exit_code: int | None = None
    detail: str = ""
    end_if_lost: AttemptEnd = AttemptEnd.UNKNOWN


@dataclass(frozen=True, slots=True)
class GangStop:
    """The whole gang was told to stop, Unix seconds: what ended soon after it ended because of it."""

    time: float
    end: AttemptEnd
    detail: str


@dataclass(frozen=True, slots=True)
class Successor:
    """The next link of a restart chain. `can_start` is false where its dependency can never be met."""

    scheduler_job: str
    running: bool
    can_start: bool


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Tasks of the gang now."""

    running: int = 0
    pending: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class SchedulerFacts:
    """What a scheduler says of one job now.

    `scheduler_job` is the id of the record that the facts are of (the newest training child, the newest link that
    started). `identity` changes when the same name is submitted anew. `preemptions` and `failures` are the
    scheduler's own sums (never compared with gaps). `waiting` is a word of `mljob_waiting` or "". `attempts` are all
    that the scheduler still shows, `covered_from` since when (Unix seconds) they are complete: the interruptions of
    an interval before it are not known; None when the scheduler shows only the present (then the time since this
    job is read without a break counts). `suspended` tells that its tasks are stopped where they are, for the good of
    another job, and go on later: no attempt ends by that. `stops` are the times at which the whole gang was told to
    stop, as far as they are still known.
    """

    scheduler_job: str
    state: SchedulerState
    detail: str = ""
    identity: str = ""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    waiting: str = ""
    tasks: TaskCounts | None = None
    tasks_expected: int | None = None
    preemptions: int | None = None
    failures: int | None = None
    attempts: tuple[Attempt, ...] = ()
    covered_from: float | None = None
    suspended: bool = False
    stops: tuple[GangStop, ...] = ()
    successor: Successor | None = None
    links: tuple[str, ...] = ()
    peak_memory_bytes: float | None = None
    accelerators: int | None = None
    accelerator_type: str = ""
    log_paths: tuple[str, ...] = ()
    clock_skew: float | None = None


@dataclass(frozen=True, slots=True)
class FoundSchedulerJob:
    """A job that a listing of a scheduler showed, for discovery. `name` is what `discover.match` is matched with.

    `links` are the ids of all links of its restart chain where the scheduler shows them, `ended` is when it ended
    (None while it has not, or where the listing does not tell).
    """

    scheduler_job: str
    name: str
    state: SchedulerState
    submitted: float | None
    owner: str = ""
    child: str = ""
    ended: float | None = None
    links: tuple[str, ...] = ()
