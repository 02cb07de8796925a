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
    """Why an attempt ended before its job did."""

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
