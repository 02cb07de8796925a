"""One look at the step folders that lie directly in one folder: which objects they hold, and what that means.

Bounds: the newest `FULL_WINDOW` step folders of a folder are looked into. Older ones are not: how many
are complete is not known then, and a note says so. Only while none of the newer is complete does the look go further
down, to `LOOK_LIMIT`, and fails there rather than say that nothing is complete.

A complete folder below the newest complete one is listed once and then believed while its parent shows it, until its
turn to be listed again comes: one a look. It may have lost its marker and stayed (a deletion cut off in the middle).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runwatch.facts import Checkpoint, Failure, FailureReason
from runwatch.parsing.checkpoint_layouts import (
    SKYRL_ASYNC_STATE,
    SKYRL_COMMIT,
    SKYRL_LATEST,
    SKYRL_STATE,
    STEP_MARKERS,
    Layout,
    MarkerReading,
    SkyrlParent,
    StepFolder,
    content_marker,
    judge,
    newest_first,
    parse_latest_step,
    read_marker,
)
from runwatch.parsing.checkpoint_payloads import RANK_FOLDERS, empty_object, holds_data, lacking_payload
from runwatch.parsing.checkpoint_roots import Root
from runwatch.parsing.trainer_log_jsonl import TrainerLogEnd
from runwatch.sources.folder_listing import READ_LIMIT_BYTES, Level, LookFailedError, ObjectStat, ObjectStore

FULL_WINDOW = 200
LOOK_LIMIT = 1600
VERIFIED_COMPLETE = 8
"""From the newest down, commit markers are read until so many were found good; below, their presence decides. One
would do for the newest step: the others give Levanter's kinds, which the interval between checkpoints needs."""


@dataclass(slots=True)
class SeenFolder:
    """What lies directly in one step folder, as the look of number `looked` saw it. `first_written` is its oldest
    object's time, None when it has none; `lacking` says what of its data is empty or missing."""

    markers: Mapping[str, ObjectStat]
    first_written: float | None
    looked: int
    lacking: str = ""
    reading: MarkerReading | None = None
    complete: bool = False


@dataclass(slots=True)
class Memory:
    """What former looks at one job left, by address. It saves requests. `newest_step` is the newest complete one's."""

    looks: int = 0
    newest_step: int | None = None
    folders: dict[str, SeenFolder] = field(default_factory=dict)
    trainer_logs: dict[str, tuple[ObjectStat, TrainerLogEnd]] = field(default_factory=dict)
    latest_files: dict[str, tuple[ObjectStat, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Horizon:
    """The time after which nothing is seen (None: no such time).

    A folder without objects of its own has no time. It is hidden from a look at the past, which cannot know whether
    it was there.
    """

    at: float | None = None
    hides_undated: bool = False

    def markers(self, seen: SeenFolder) -> dict[str, float] | None:
        """Return the times of the markers there were, or None when the folder was not there."""
        if seen.first_written is None and self.hides_undated:
            return None
        if self.at is not None and seen.first_written is not None and seen.first_written > self.at:
            return None
        return {
            name: status.updated
            for name, status in seen.markers.items()
            if self.at is None or status.updated <= self.at
        }


@dataclass(slots=True)
class FolderLook:
    """A look at the step folders in `folder` ("" or "checkpoints") of one root, of which `level` is the listing."""

    store: ObjectStore
    root: Root
    folder: str
    level: Level
    memory: Memory
    horizon: Horizon
    notes: list[str] = field(default_factory=list)
    not_looked_into: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Step and address of what may be a checkpoint and was not followed: a link that leads out of the root."""

    _looked: dict[str, SeenFolder | None] = field(default_factory=dict)

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoint folders, the highest step first.

        Raises:
            LookFailedError: the store could not be read.
        """
        self.refused += [(step.step, self._address(step.name)) for step in newest_first(self.level.links_refused)]
        steps = newest_first(self.level.folders)
        self._verify_an_older_one(steps[:FULL_WINDOW])
        window = FULL_WINDOW
        while True:
            found = self._judge_with_newest_confirmed(steps[:window])
            if window >= len(steps) or any(checkpoint.complete for checkpoint in found):
                break
            if window >= LOOK_LIMIT:
                text = f"{self._address()}: none of the newest {window} checkpoint folders is complete; gave up there"
                raise LookFailedError(Failure(FailureReason.OTHER, text))
            window = min(2 * window, LOOK_LIMIT)
        self.not_looked_into = max(len(steps) - window, 0)
        if self.not_looked_into:
            self.notes.append(
                f"{self._address()}: the {self.not_looked_into} oldest of {len(steps)} checkpoint folders were not "
                "looked into: how many there are of each kind is not known"
            )
        return found

    def _address(self, *parts: str) -> str:
        return self.root.address(*filter(None, (self.folder, *parts)))

    def _path(self, *parts: str) -> str:
        return "/".join(filter(None, (self.folder, *parts)))

    def _verify_an_older_one(self, steps: list[StepFolder]) -> None:
        """List one of those believed complete anew, each in its turn. The newest is listed in any case."""
        known = [(step, self.memory.folders.get(self._address(step.name))) for step in steps]
        believed = [(seen.looked, step.step, step, seen) for step, seen in known if seen is not None and seen.complete]
        if len(believed) > 1:
            _, _, step, seen = min(believed[1:], key=lambda entry: entry[:2])
            self._looked[self._address(step.name)] = self._list_step(step, seen)

    def _judge_with_newest_confirmed(self, steps: list[StepFolder]) -> list[Checkpoint]:
        """Judge, and list the newest complete one in this very look: its step and time are what is exported."""
        while True:
            found = self._judge_all(steps)
            newest = next((checkpoint for checkpoint in found if checkpoint.complete), None)
            if newest is None or newest.path in self._looked:
                return found
            step = next(step for step in steps if self._address(step.name) == newest.path)
            self._looked[newest.path] = self._list_step(step, self.memory.folders.get(newest.path))

    def _judge_all(self, steps: list[StepFolder]) -> list[Checkpoint]:
        there = [(step, seen) for step in steps if (seen := self._look_into(step)) is not None]
        parent = self._skyrl_parent(there)
        found: list[Checkpoint] = []
        verified = 0
        for step, seen in there:
            markers = self.horizon.markers(seen)
            if markers is None:
                continue
            marker = content_marker(step, markers)
            verifies = verified < VERIFIED_COMPLETE
            if marker is not None and verifies and not self._read_content(step, seen, marker):
                continue
            # What an earlier look read is left out below the limit: a fresh start must come to the same numbers.
            judgement = judge(step, markers, seen.reading if verifies else None, parent, seen.lacking)
            seen.complete = judgement.complete
            verified += judgement.complete
            found.append(
                Checkpoint(
                    step=step.step,
                    root=self.root.address(),
                    path=self._address(step.name),
                    complete=judgement.complete,
                    evidence=judgement.evidence,
                    saved_at=judgement.saved_at,
                    kind=judgement.kind,
                    layout=step.layout.value,
                )
            )
        return found

    def _look_into(self, step: StepFolder) -> SeenFolder | None:
        """Return what a step folder holds; None when it is gone since its parent was listed, or cannot be told."""
        address = self._address(step.name)
        known = self.memory.folders.get(address)
        if address not in self._looked:
            if known is not None and known.complete:
                return known
            self._looked[address] = self._list_step(step, known)
        return self._looked[address]

    def _list_step(self, step: StepFolder, known: SeenFolder | None) -> SeenFolder | None:
        address = self._address(step.name)
        try:
            level = self.store.list_level(self._path(step.name))
        except LookFailedError as failed:
            if failed.failure.reason is not FailureReason.NOT_FOUND:
                raise
            self.memory.folders.pop(address, None)
            return None
        refused = STEP_MARKERS.intersection(level.links_refused)
        if refused:
            self.refused.append((step.step, self._address(step.name, min(refused))))
            self.memory.folders.pop(address, None)
            return None
        markers = {name: status for name, status in level.objects.items() if name in STEP_MARKERS}
        first = min((status.updated for status in level.objects.values()), default=None)
        unchanged = known is not None and known.markers == markers
        reading = known.reading if known is not None and unchanged else None
        seen = SeenFolder(markers, first, self.memory.looks, self._lacking(step, level), reading)
        self.memory.folders[address] = seen
        return seen

    def _lacking(self, step: StepFolder, level: Level) -> str:
        """Say what a step folder that may be complete lacks. The parts of SkyRL's ranks lie one level below it."""
        sizes = _sizes(level)
        markers = STEP_MARKERS.intersection(sizes)
        if step.layout is Layout.LEVANTER or SKYRL_COMMIT in markers or not markers:
            return empty_object({name: sizes[name] for name in markers}, data_is_there=False)
        below: dict[str, dict[str, int | None]] = {}
        for folder in sorted(RANK_FOLDERS.intersection(level.folders)) if step.layout is Layout.SKYRL else ():
            parts = self._list_parts(step, folder)
            if parts is None:
                return f"{folder} is gone"
            below[folder] = parts
        is_there = any(map(holds_data, (sizes, *below.values())))
        lacking = lacking_payload(sizes, level.folders, data_is_there=is_there)
        for folder, parts in below.items():
            if not lacking and (lacking := lacking_payload(parts, data_is_there=is_there)):
                lacking = f"in {folder} {lacking}"
        return lacking

    def _list_parts(self, step: StepFolder, folder: str) -> dict[str, int | None] | None:
        try:
            return _sizes(self.store.list_level(self._path(step.name, folder)))
        except LookFailedError as failed:
            if failed.failure.reason is not FailureReason.NOT_FOUND:
                raise
            return None  # deleted since the step folder was listed

    def _read_content(self, step: StepFolder, seen: SeenFolder, marker: str) -> bool:
        """Read a marker unless that was done; return False when it is gone since its folder was listed."""
        if seen.reading is not None and seen.reading.valid:
            return True
        if seen.markers[marker].size > READ_LIMIT_BYTES:
            self.notes.append(f"{self._address(step.name, marker)} is too large to be read: its presence counts")
            return True
        try:
            content = self.store.read_small(self._path(step.name, marker))
        except LookFailedError as failed:
            if failed.failure.reason is not FailureReason.NOT_FOUND:
                raise
            return False
        seen.reading = read_marker(step, content)
        return True

    def _skyrl_parent(self, there: list[tuple[StepFolder, SeenFolder]]) -> SkyrlParent:
        skyrl = [seen for step, seen in there if step.layout is Layout.SKYRL]
        if not any(SKYRL_STATE in seen.markers and SKYRL_COMMIT not in seen.markers for seen in skyrl):
            return SkyrlParent()
        is_async = any(SKYRL_ASYNC_STATE in seen.markers for seen in skyrl)
        return SkyrlParent(self._latest_step(), is_async)

    def _latest_step(self) -> int | None:
        """Return the number in the latest file. With a horizon too: what it says now was committed by its own time,
        and the step folders' times tell the rest."""
        if SKYRL_LATEST in self.level.links_refused:
            text = f"{self._address(SKYRL_LATEST)} is a link that leads out of the root: not followed"
            raise LookFailedError(Failure(FailureReason.OTHER, text))
        status = self.level.objects.get(SKYRL_LATEST)
        if status is None:
            return None
        address = self._address(SKYRL_LATEST)
        known = self.memory.latest_files.get(address)
        if known is not None and known[0] == status:
            return known[1]
        try:
            content = self.store.read_small(self._path(SKYRL_LATEST))
            latest = parse_latest_step(content)
        except LookFailedError as failed:
            if failed.failure.reason is not FailureReason.NOT_FOUND:
                raise
            return None
        except ValueError as error:
            raise LookFailedError(Failure(FailureReason.PARSE, f"{self._address()}: {error}")) from error
        self.memory.latest_files[address] = (status, latest)
        return latest


def _sizes(level: Level) -> dict[str, int | None]:
    """Return every object with its bytes. Those behind a link that was not followed are there, of unknown size."""
    return {name: status.size for name, status in level.objects.items()} | dict.fromkeys(level.links_refused)
