"""Looking at a job's checkpoint folders: which are there, which are complete, and since when.

A look in which the newest complete checkpoint fell back is made a second time at once: a rotation may have gone on
meanwhile. What one look costs: one delimited listing of each root and of its `checkpoints/` folder, one of each step
folder that is new, partial, or the newest complete one there (of SkyRL's one more for each folder of its ranks' parts),
the content of the newest commit markers, and the end of a `trainer_log.jsonl` below a root when it was written anew. A
complete folder that was seen before is not listed again while its parent still shows it, save one in turn and the
newest: that one carries the exported step and time, and may be written anew after a rollback or lose its marker to a
bucket's expiry rule.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runwatch.facts import Checkpoint, CheckpointListing, Failure, FailureReason, TrainerFacts
from runwatch.facts.checkpoints import newest_complete
from runwatch.fleet import Job
from runwatch.parsing.checkpoint_layouts import foreign_checkpoint
from runwatch.parsing.checkpoint_roots import Root, parse_root
from runwatch.sources.checkpoint_folders import FolderLook, Horizon, Memory
from runwatch.sources.file_roots import ANYWHERE, FileRoots
from runwatch.sources.folder_listing import BucketOpener, Level, LookFailedError, ObjectStore
from runwatch.sources.protocol import CountRequest
from runwatch.sources.store_opener import StoreOpener, google_cloud
from runwatch.sources.trainer_log_end import TrainerLog, look_at_trainer_log
from runwatch.thresholds import AT_IS_NOW_SECONDS

CHECKPOINTS_FOLDER = "checkpoints"
_EXECUTOR_NAMES = (".executor_info", ".executor_status")


class CheckpointReader:
    """Looks at one job at a time and remembers what need not be looked at again.

    Looks at different jobs may run in different threads; two looks at one job may not.
    """

    def __init__(
        self,
        count_request: CountRequest,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        connect_buckets: Callable[[], BucketOpener] = google_cloud,
        roots: FileRoots = ANYWHERE,
    ) -> None:
        """Make a reader.

        Args:
            count_request: called with the job's site for each request, folder listing or file opened.
            at: hide what was written after this time (Unix seconds).
            clock: Unix seconds now.
            connect_buckets: called once, when the first `gs://` root is looked at.
            roots: the folders of this machine that may be read.
        """
        self._at = at
        self._clock = clock
        self._stores = StoreOpener(count_request, connect_buckets, roots)
        self._memory: dict[str, Memory] = {}

    def read(self, job: Job) -> CheckpointListing | Failure:
        """Look once at every root of a job.

        Any root that could not be looked at fails the whole look: the newest checkpoint may lie there. A root that
        lists empty, is not there, or can hold no checkpoints by its name is a note beside a root that has content, and
        `not_found` when none has.
        """
        try:
            roots = [parse_root(text) for text in job.checkpoints]
        except ValueError as error:
            return Failure(FailureReason.OTHER, str(error))
        if not roots:
            return Failure(FailureReason.NOT_FOUND, "the job has no checkpoint roots")
        unlisted = next((root for root in roots if "*" in root.path), None)
        if unlisted is not None:
            text = f"{unlisted.address()}: what its * stands for could not be looked for, so the newest is not known"
            return Failure(FailureReason.OTHER, text)
        memory = self._memory.setdefault(job.run, Memory())
        outcome = self._look(memory, roots, job.site)
        if isinstance(outcome, CheckpointListing) and _fell_behind(memory, outcome):
            outcome = self._look(memory, roots, job.site)
        if isinstance(outcome, CheckpointListing):
            newest = newest_complete(outcome.checkpoints)
            memory.newest_step = newest.step if newest is not None else None
        return outcome

    def _look(self, memory: Memory, roots: list[Root], site: str) -> CheckpointListing | Failure:
        named = frozenset(_where(root.path) for root in roots if root.bucket is None)
        memory.looks += 1
        look = _JobLook(memory, self._horizon(), named)
        try:
            for root in roots:
                look.look_at(root, self._stores.open(root, site))
        except LookFailedError as failed:
            return failed.failure
        return look.finish(len(roots))

    def forget(self, run: str) -> None:
        """Drop what is remembered of a job."""
        self._memory.pop(run, None)

    def close(self) -> None:
        """Release connections."""
        self._stores.close()

    def _horizon(self) -> Horizon:
        if self._at is None:
            return Horizon()
        return Horizon(self._at, hides_undated=self._at < self._clock() - AT_IS_NOW_SECONDS)


@dataclass(slots=True)
class _JobLook:
    """One look at all roots of one job, as it goes on."""

    memory: Memory
    horizon: Horizon
    named: frozenset[Path] = frozenset()
    """Where the roots of a file system really lie."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    trainer_logs: list[TrainerLog] = field(default_factory=list)
    not_looked_into: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Addresses of what may be checkpoints in layouts that cannot be judged."""

    def look_at(self, root: Root, store: ObjectStore) -> None:
        """Look at one root. Raises `LookFailedError` when it could not be."""
        if _place(root) in self.folders:  # listed as another root's checkpoints folder, or named twice
            return
        try:
            level = store.list_level("")
        except LookFailedError as failed:
            if failed.failure.reason is not FailureReason.NOT_FOUND:
                raise
            self.empty.append(failed.failure.detail)
            return
        if level.is_empty:
            self.empty.append(f"{root.address()} lists empty")
            return
        if root.is_export_folder:
            self.empty.append(f"{root.address()} holds exports, no checkpoints: name the folder above it")
            return
        trainer_log = look_at_trainer_log(
            store, root, level, memory=self.memory, horizon=self.horizon, notes=self.notes
        )
        if trainer_log is not None:
            self.trainer_logs.append(trainer_log)
        before = len(self.checkpoints)
        self._look_into(root, store, "", level)
        below = root.address(CHECKPOINTS_FOLDER)
        if CHECKPOINTS_FOLDER in level.links_refused and not self._looks_into(_where(below)):
            raise LookFailedError(_hidden_behind(below))
        if CHECKPOINTS_FOLDER in level.folders and _place(root, CHECKPOINTS_FOLDER) not in self.folders:
            self._look_below(root, store)
        if len(self.checkpoints) > before:
            return
        if root.is_step_folder:
            self.empty.append(f"{root.address()} is a checkpoint itself: name the folder above it")
        else:
            only_executor = all(name.startswith(_EXECUTOR_NAMES) for name in (*level.objects, *level.folders))
            why = "only the executor's own files, still before its first checkpoint" if only_executor else "none yet"
            self.notes.append(f"{root.address()} was read and holds no checkpoint folder: {why}")

    def _look_below(self, root: Root, store: ObjectStore) -> None:
        try:
            level = store.list_level(CHECKPOINTS_FOLDER)
        except LookFailedError as failed:
            if failed.failure.reason is not FailureReason.NOT_FOUND:
                raise
            return  # deleted since the root was listed
        self._look_into(root, store, CHECKPOINTS_FOLDER, level)

    def _look_into(self, root: Root, store: ObjectStore, folder: str, level: Level) -> None:
        self.folders.add(_place(root, folder))
        foreign = foreign_checkpoint((*level.folders, *level.objects, *level.links_refused))
        if foreign is not None:
            self.foreign.append(root.address(*filter(None, (folder, foreign))))
        look = FolderLook(store, root, folder, level, self.memory, self.horizon)
        self.checkpoints += look.checkpoints()
        self.notes += look.notes
        self.not_looked_into += look.not_looked_into
        self.refused += [(step, path) for step, path in look.refused if not self._looks_into(_where(path).parent)]

    def _looks_into(self, folder: Path) -> bool:
        """Tell whether a folder to which a link leads is looked at all the same, as a root or below one."""
        return folder in self.named or (folder.name == CHECKPOINTS_FOLDER and folder.parent in self.named)

    def finish(self, roots: int) -> CheckpointListing | Failure:
        """Return what was seen, and forget the folders that are there no more."""
        if len(self.empty) == roots:
            return Failure(FailureReason.NOT_FOUND, "; ".join(self.empty))
        newest = newest_complete(self.checkpoints)
        for step, path in self.refused:
            if newest is None or step > newest.step:
                return _hidden_behind(path)
            self.notes.append(f"{path} is a link that leads out of the root: not followed")
        if self.foreign and not self.checkpoints:
            return _of_no_known_layout(self.foreign[0])
        self.notes += [f"{path}: a checkpoint of no known layout is left out" for path in self.foreign]
        present = {checkpoint.path for checkpoint in self.checkpoints}
        self.memory.folders = {path: seen for path, seen in self.memory.folders.items() if path in present}
        ordered = sorted(self.checkpoints, key=lambda checkpoint: (checkpoint.step, checkpoint.path))
        newest_log = max(self.trainer_logs, key=lambda log: log.updated, default=None)
        completed = newest_log is not None and newest_log.end.completed
        return CheckpointListing(
            tuple(ordered),
            (*self.notes, *self.empty),
            trainer=self._trainer(),
            completed=completed,
            completed_at=newest_log.updated if newest_log is not None and completed else None,
            trainer_log=newest_log.evidence if newest_log is not None else "",
            not_looked_into=self.not_looked_into,
        )

    def _trainer(self) -> TrainerFacts | None:
        """Return what the marker of the newest complete checkpoint says of the trainer."""
        newest = newest_complete(self.checkpoints)
        seen = self.memory.folders.get(newest.path) if newest is not None else None
        return seen.reading.trainer if seen is not None and seen.reading is not None else None


def _fell_behind(memory: Memory, found: CheckpointListing) -> bool:
    """Tell whether the newest complete one is older than that of the look before.

    A trainer that saves and then deletes the one before, while folders are listed one after the other, shows neither:
    the new one was not there yet when its folder was listed, the old one was gone when it was looked into.
    """
    newest = newest_complete(found.checkpoints)
    return memory.newest_step is not None and (newest is None or newest.step < memory.newest_step)


def _place(root: Root, folder: str = "") -> str:
    """Return one name for a folder, however it is written and whatever links lead to it."""
    address = root.address(*filter(None, (folder,)))
    return address if root.bucket is not None else str(_where(address))


def _where(path: str) -> Path:
    return Path(os.path.realpath(path))


def _hidden_behind(path: str) -> Failure:
    why = "not followed, so the newest checkpoint is not known: name where it leads as a root"
    return Failure(FailureReason.OTHER, f"{path} is a link that leads out of the root: {why}")


def _of_no_known_layout(path: str) -> Failure:
    why = "of no known layout (step-N, checkpoint-N, global_step_N), so whether one is complete is not known"
    # The store answered: it is no fault of the source, but of this job's root.
    return Failure(FailureReason.NOT_FOUND, f"{path} looks like a checkpoint {why}")
