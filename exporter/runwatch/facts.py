"""What was seen of a job: the records that sources return and derivations read.

A failed look is a value (`Failure`), never an exception and never an empty fact: "could not look" must not become
"is idle", "is gone" or zero. All times are Unix seconds, all steps are the trainer's own counter unless a field
says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class SourceKind(StrEnum):
    """Where facts come from: the values of the label `source`."""

    SCHEDULER = "scheduler"
    HISTORY = "history"
    CHECKPOINTS = "checkpoints"
    TRIALS = "trials"
    LOG = "log"


class FailureReason(StrEnum):
    """Why a look failed: the values of the label `reason`."""

    TIMEOUT = "timeout"
    AUTH = "auth"
    THROTTLED = "throttled"
    NOT_FOUND = "not_found"
    NETWORK = "network"
    PARSE = "parse"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Failure:
    """A look that failed.

    `detail` is one line for people (log, `explain`); it never holds a secret and never becomes a label.
    `not_found` about one job is an answer: the source is up. `whole_source` is set where the upstream as a whole
    answered so (a wrong address that says 404 to everything), which is no answer about any job.
    """

    reason: FailureReason
    detail: str
    whole_source: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether the upstream could be read and said that this job's facts are not there."""
        return self.reason is FailureReason.NOT_FOUND and not self.whole_source


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One logged row of a run's history.

    `cursor` orders rows in their source (W&B's `_step`); it is the step only where the trainer logs none of its
    own. `trainer_step` is `trainer/global_step`, `train/global_step` or `global_step`. `values` holds every numeric
    value of the row under its full key, NaN and infinities included; what is not a number is left out.
    """

    cursor: int
    time: float | None
    trainer_step: int | None
    values: Mapping[str, float]


class HistoryEnd(StrEnum):
    """How a history says that its run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """What a history says of the run as a whole, beside its rows.

    `state` is the upstream's own word (`running`, `finished`, `crashed`, ...; "" where there is none).
    `heartbeat` is when the run last spoke to its tracker. `end` is set only where the run itself said that it
    ended: W&B's `crashed` is the server's guess after five minutes of silence and is no end.
    `drops_replayed_steps` is true for W&B: rows below the highest step ever sent are never written.
    """

    state: str = ""
    heartbeat: float | None = None
    created: float | None = None
    end: HistoryEnd | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    name: str = ""
    url: str = ""
    drops_replayed_steps: bool = False


@dataclass(frozen=True, slots=True)
class HistoryUpdate:
    """New rows of one history, in the order of their source, each row delivered exactly once.

    `reset` tells that everything delivered before is void (the file was rewritten, the run was made anew): the
    digest starts again with these rows. `caught_up` is false while more rows wait at the source (a long first
    read): the job has no progress series until one update was caught up. `malformed` counts the rows or lines of
    this update that could not be read.
    """

    run: HistoryRun
    rows: Sequence[HistoryRow]
    caught_up: bool = True
    reset: bool = False
    malformed: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint folder.

    `saved_at` is the time of the commit marker's object, never a time written inside it (Levanter's is naive local
    time); None while partial. `kind` is "permanent", "temporary" or "" where the layout does not say.
    `evidence` says in one line why it is complete or partial.
    """

    step: int
    root: str
    path: str
    complete: bool
    evidence: str
    saved_at: float | None = None
    kind: str = ""
    layout: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointListing:
    """Every checkpoint folder below all roots of a job, and notes for `explain` (an empty root beside a full one)."""

    checkpoints: tuple[Checkpoint, ...]
    notes: tuple[str, ...] = ()


class InterruptionCause(StrEnum):
    """Why an attempt ended before its job did: the values of the label `cause` of interruptions."""

    PREEMPTION = "preemption"
    FAILURE = "failure"
    CHAIN = "chain"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Interruption:
    """The end of an attempt before the job's end: one event, however many tasks it hits."""

    time: float
    cause: InterruptionCause
    detail: str = ""


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
    chain differ in it.
    """

    key: str
    link: str
    started: float | None
    ended: float | None
    end: AttemptEnd
    exit_code: int | None = None
    detail: str = ""


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
    job is read without a break counts). `interruption_counts_known` is false where attempts were not asked for.
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
    successor: Successor | None = None
    links: tuple[str, ...] = ()
    peak_memory_bytes: float | None = None
    accelerators: int | None = None
    accelerator_type: str = ""
    log_paths: tuple[str, ...] = ()
    clock_skew: float | None = None


@dataclass(frozen=True, slots=True)
class FoundSchedulerJob:
    """A job that a listing of a scheduler showed, for discovery. `name` is what `discover.match` is matched with."""

    scheduler_job: str
    name: str
    state: SchedulerState
    submitted: float | None
    owner: str = ""
    child: str = ""
