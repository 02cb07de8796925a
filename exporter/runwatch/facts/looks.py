"""Which kinds of source there are, and a look that failed."""

from __future__ import annotations

from dataclasses import dataclass
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
    `malformed` counts the rows or lines that could not be read.
    """

    reason: FailureReason
    detail: str
    whole_source: bool = False
    malformed: int = 0

    @property
    def is_answer(self) -> bool:
        """Whether the upstream could be read and said that this job's facts are not there."""
        return self.reason is FailureReason.NOT_FOUND and not self.whole_source
