"""Results of Harbor's trials."""

from __future__ import annotations

from dataclasses import dataclass

from runwatch.parsing.log_records import TrialResult


@dataclass(frozen=True, slots=True)
class PrintedMean:
    """A mean that Harbor prints itself. `evaluation` names agent, model and dataset, for people."""

    evaluation: str
    value: float


@dataclass(frozen=True, slots=True)
class TrialsFolder:
    """One job folder of Harbor, or one run folder of terminal-bench, and the trials in it that ended.

    `path` is relative to the root that the config names ("" for the root itself), `chunk` the number of the datagen
    chunk that it belongs to. `running` counts trial folders without a result, `unreadable` results that could not be
    read at several looks in a row: they are in no other number. `total` is how many trials there will be, `finished`
    whether the job wrote that it ended (a crash leaves that out). `changed` is when a result or the job's own result
    was last written, Unix seconds by the store's clock. `means` are those that Harbor prints, in which a trial without
    a reward counts as 0 where `missing_counts_as_zero`.
    """

    path: str
    results: tuple[TrialResult, ...]
    running: int = 0
    unreadable: int = 0
    total: int | None = None
    finished: bool = False
    changed: float | None = None
    chunk: int | None = None
    means: tuple[PrintedMean, ...] = ()
    missing_counts_as_zero: bool = False


@dataclass(frozen=True, slots=True)
class TrialsUpdate:
    """All trials of a job that have a result now, whole: an update replaces the one before it.

    `chunks` are the numbers of all datagen chunks there will be, empty where the work is not in chunks. `caught_up` is
    false while results that were never looked at wait (a long first read): nothing is to be measured until it is true.
    `age` tells how many seconds ago the look began, where it was too slow to be delivered at once.
    """

    folders: tuple[TrialsFolder, ...]
    chunks: tuple[int, ...] = ()
    caught_up: bool = True
    notes: tuple[str, ...] = ()
    age: float = 0.0
