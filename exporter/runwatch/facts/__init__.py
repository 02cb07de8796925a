"""What was seen of a job: the records that sources return and derivations read.

A failed look is a value (`Failure`), never an exception and never an empty fact: "could not look" must not become
"is idle", "is gone" or zero. All times are Unix seconds, all steps are the trainer's own counter unless a field
says otherwise.
"""

from __future__ import annotations

from runwatch.facts.checkpoints import Checkpoint, CheckpointListing, TrainerFacts
from runwatch.facts.history import HistoryEnd, HistoryRow, HistoryRun, HistoryUpdate
from runwatch.facts.logs import IgnoredLines, LogFacts
from runwatch.facts.looks import Failure, FailureReason, SourceKind
from runwatch.facts.scheduler import (
    Attempt,
    AttemptEnd,
    FoundSchedulerJob,
    GangStop,
    InterruptionCause,
    SchedulerFacts,
    SchedulerState,
    Successor,
    TaskCounts,
)
from runwatch.facts.trials import PrintedMean, TrialsFolder, TrialsUpdate

__all__ = [
    "Attempt",
    "AttemptEnd",
    "Checkpoint",
    "CheckpointListing",
    "Failure",
    "FailureReason",
    "FoundSchedulerJob",
    "GangStop",
    "HistoryEnd",
    "HistoryRow",
    "HistoryRun",
    "HistoryUpdate",
    "IgnoredLines",
    "InterruptionCause",
    "LogFacts",
    "PrintedMean",
    "SchedulerFacts",
    "SchedulerState",
    "SourceKind",
    "Successor",
    "TaskCounts",
    "TrainerFacts",
    "TrialsFolder",
    "TrialsUpdate",
]
