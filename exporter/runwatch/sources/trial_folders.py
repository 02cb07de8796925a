"""One look at one job folder: its own result, and the trial folders directly in it.

A finished trial is read once. It may still change under its name: Harbor deletes the folder of a trial that it tries
again, and people grade anew. So trials that ended with an exception are looked at again for a while (a retry begins
within a minute), and all others in turn, a few a look.

Harbor writes a result in place. One that does not read as JSON is tried again at the next look, with its former
content kept meanwhile; only after `UNREADABLE_AFTER_LOOKS` it is called unreadable.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason, PrintedMean, TrialsFolder
from runwatch.parsing.checkpoint_roots import Root
from runwatch.parsing.harbor_results import (
    JobResult,
    count_agent_steps,
    load_object,
    parse_job_result,
    parse_run_results,
    parse_trial_result,
    printable,
    with_turns,
)
from runwatch.parsing.log_records import TrialResult
from runwatch.sources.folder_listing import READ_LIMIT_BYTES, Level, LookFailedError, ObjectStat, ObjectStore

RESULT = "result.json"
RUN_RESULTS = "results.json"
UNREADABLE_AFTER_LOOKS = 3
VERIFIED_A_LOOK = 20
RETRY_WATCH_SECONDS = 600.0
RETRIES_WATCHED_A_LOOK = 50
WAITING_A_LOOK = 1000
"""Trial folders without a result that one look goes into again."""

_TRAJECTORY = "trajectory.json"
_TRAJECTORY_PART = "trajectory.cont-"


@dataclass(slots=True)
class FirstLookLimit:
    """How many trial folders one look may go into for the first time, and until when."""

    left: int
    until: float
    monotonic: Callable[[], float]
    reached: bool = False

    def take(self) -> bool:
        """Take one; False, from then on, when there is none left."""
        if self.reached or self.left <= 0 or self.monotonic() >= self.until:
            self.reached = True
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class SeenTrial:
    """What is known of one trial folder. `looked` is the number of the latest look into it, `stat` of what was read."""

    looked: int
    stat: ObjectStat | None = None
    result: TrialResult | None = None
    broken: int = 0


@dataclass(slots=True)
class SeenJob:
    """What is known of one job folder (or of one run folder: `run` is its results)."""

    trials: dict[str, SeenTrial] = field(default_factory=dict)
    stat: ObjectStat | None = None
    job: JobResult | None = None
    run: TrialsFolder | None = None


@dataclass(slots=True)
class Memory:
    """What former looks at one job left, by path below the root at address `root`. It saves requests."""

    root: str
    looks: int = 0
    jobs: dict[str, SeenJob] = field(default_factory=dict)
    is_job: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class JobFolderLook:
    """A look at one job folder, of which `level` is the listing."""

    store: ObjectStore
    root: Root
    path: str
    level: Level
    seen: SeenJob
    number: int
    limit: FirstLookLimit
    at: float | None
    now: float

    def look(self, chunk: int | None) -> TrialsFolder:
        """Return what the folder holds now.

        Raises:
            LookFailedError: the store could not be read.
        """
        self._read_job_result()
        names = set(self.level.folders)
        trials = self.seen.trials
        for name in [name for name in trials if name not in names]:
            del trials[name]
        for name in self._again():
            self._look_into(name)
        for name in sorted(names - trials.keys()):
            if not self.limit.take():
                break
            self._look_into(name)
        results = tuple(
            seen.result for _, seen in sorted(trials.items()) if seen.result is not None and not self._unreadable(seen)
        )
        unreadable = sum(map(self._unreadable, trials.values()))
        job = self.seen.job
        times = [result.finished for result in results if result.finished is not None]
        if self.seen.stat is not None and job is not None:
            times.append(self.seen.stat.updated)
        return TrialsFolder(
            path=self.path,
            results=results,
            running=len(trials) - len(results) - unreadable,
            unreadable=unreadable,
            total=job.total if job is not None else None,
            finished=job is not None and job.finished,
            changed=max(times, default=None),
            chunk=chunk,
            means=job.means if job is not None else (),
            missing_counts_as_zero=job is not None and job.missing_counts_as_zero,
        )

    def _again(self) -> Iterable[str]:
        """Yield the known trials that are looked at again: those that wait, and of the others a few."""
        waiting: list[tuple[int, str]] = []
        retried: list[tuple[int, str]] = []
        settled: list[tuple[int, str]] = []
        for name, seen in self.seen.trials.items():
            if seen.result is None or seen.broken:
                waiting.append((seen.looked, name))
            elif seen.result.exception and self._is_recent(seen.result.finished):
                retried.append((seen.looked, name))
            else:
                settled.append((seen.looked, name))
        for group, most in ((waiting, WAITING_A_LOOK), (retried, RETRIES_WATCHED_A_LOOK), (settled, VERIFIED_A_LOOK)):
            yield from (name for _, name in heapq.nsmallest(most, group))

    def _is_recent(self, written: float | None) -> bool:
        return written is not None and self.now - written < RETRY_WATCH_SECONDS

    @staticmethod
    def _unreadable(seen: SeenTrial) -> bool:
        return seen.broken >= UNREADABLE_AFTER_LOOKS

    def _path(self, *parts: str) -> str:
        return "/".join(filter(None, (self.path, *parts)))

    def _is_hidden(self, stat: ObjectStat) -> bool:
        return self.at is not None and stat.updated > self.at

    def _look_into(self, name: str) -> None:
        level = list_or_none(self.store, self._path(name))
        if level is None:  # deleted since the job folder was listed
            self.seen.trials.pop(name, None)
            return
        require_followed(self.root, self._path(name), level, lambda file: file == RESULT)
        known = self.seen.trials.get(name)
        stat = level.objects.get(RESULT)
        if stat is None or self._is_hidden(stat):
            self.seen.trials[name] = SeenTrial(self.number)
            return
        if known is not None and known.stat == stat and not known.broken:
            known.looked = self.number
            return
        result = self._read_trial(name, stat, level)
        if result is not None:
            self.seen.trials[name] = SeenTrial(self.number, stat, result)
            return
        kept = known if known is not None else SeenTrial(self.number)
        kept.looked = self.number
        kept.broken += 1
        self.seen.trials[name] = kept

    def _read_trial(self, name: str, stat: ObjectStat, level: Level) -> TrialResult | None:
        content = read_or_none(self.store, self._path(name, RESULT), stat)
        if content is None:
            return None
        try:
            result = parse_trial_result(load_object(content), name, stat.updated)
        except ValueError:
            return None
        if result.agent_ran and result.turns is None and "agent" in level.folders:
            turns = self._turns_of_trajectory(name)
            return result if turns is None else with_turns(result, turns)
        return result

    def _turns_of_trajectory(self, name: str) -> int | None:
        level = list_or_none(self.store, self._path(name, "agent"))
        if level is None or _TRAJECTORY not in level.objects:
            return None
        parts = [part for part in level.objects if part == _TRAJECTORY or part.startswith(_TRAJECTORY_PART)]
        if sum(level.objects[part].size for part in parts) > READ_LIMIT_BYTES:
            return None
        turns = 0
        for part in parts:
            content = read_or_none(self.store, self._path(name, "agent", part), level.objects[part])
            if content is None:
                return None
            try:
                turns += count_agent_steps(content)
            except ValueError:
                return None
        return turns

    def _read_job_result(self) -> None:
        """Read the job's own result where it changed. One that is half written leaves the former in force."""
        stat = self.level.objects.get(RESULT)
        if stat is None or self._is_hidden(stat):
            self.seen.stat, self.seen.job = None, None
            return
        if stat == self.seen.stat:
            return
        content = read_or_none(self.store, self._path(RESULT), stat)
        if content is None:
            return
        try:
            self.seen.job = parse_job_result(load_object(content))
        except ValueError:
            return
        self.seen.stat = stat


def look_at_run(
    store: ObjectStore, path: str, level: Level, seen: SeenJob, *, at: float | None, chunk: int | None
) -> TrialsFolder:
    """Look at a run folder of terminal-bench 0.2: its `results.json` holds all trials that ended, and no other does.

    It is written anew with each trial, so of a time before it was written last nothing can be told. While it is half
    written what was read before stays in force.

    Raises:
        LookFailedError: the store could not be read, or the file is too large or was never yet readable.
    """
    empty = TrialsFolder(path=path, results=(), chunk=chunk)
    stat = level.objects.get(RUN_RESULTS)
    if stat is None or (at is not None and stat.updated > at):
        seen.stat, seen.run = None, None
        return empty
    if stat == seen.stat and seen.run is not None:
        return seen.run
    address = "/".join(filter(None, (path, RUN_RESULTS)))
    if stat.size > READ_LIMIT_BYTES:
        text = f"{printable(address)} is too large to be read: {stat.size} bytes"
        raise LookFailedError(Failure(FailureReason.OTHER, text))
    content = read_or_none(store, address, stat)
    if content is None:
        return seen.run or empty
    try:
        trials, unreadable, accuracy = parse_run_results(load_object(content), stat.updated)
    except ValueError as error:
        if seen.run is None:  # to say that no trial ended would be a guess
            text = f"{printable(address)} is not readable JSON (being written, or cut off)"
            raise LookFailedError(Failure(FailureReason.PARSE, text)) from error
        return seen.run
    seen.stat = stat
    seen.run = TrialsFolder(
        path=path,
        results=tuple(trials.values()),
        unreadable=unreadable,
        changed=stat.updated,
        chunk=chunk,
        means=() if accuracy is None else (PrintedMean("accuracy", accuracy),),
        missing_counts_as_zero=True,
    )
    return seen.run


def require_followed(root: Root, path: str, level: Level, holds_results: Callable[[str], bool]) -> None:
    """Refuse to count without what a link out of the root may hold.

    Args:
        root: where the look began.
        path: the folder that was listed, below the root.
        level: its listing.
        holds_results: whether results lie in, or below, what has this name.

    Raises:
        LookFailedError: such a name is a link that leads out of the root.
    """
    hidden = next((name for name in sorted(level.links_refused) if holds_results(name)), None)
    if hidden is not None:
        address = printable(root.address(*filter(None, (path, hidden))))
        text = f"{address} is a link that leads out of the root: not followed, so results are missing"
        raise LookFailedError(Failure(FailureReason.OTHER, text))


def list_or_none(store: ObjectStore, path: str) -> Level | None:
    """List a folder; None when it is gone. Raises `LookFailedError` for every other failure."""
    try:
        return store.list_level(path)
    except LookFailedError as failed:
        if failed.failure.reason is not FailureReason.NOT_FOUND:
            raise
        return None


def read_or_none(store: ObjectStore, path: str, stat: ObjectStat) -> bytes | None:
    """Read an object; None when it is gone or too large. Raises `LookFailedError` for every other failure."""
    if stat.size > READ_LIMIT_BYTES:
        return None
    try:
        return store.read_small(path)
    except LookFailedError as failed:
        if failed.failure.reason is not FailureReason.NOT_FOUND:
            raise
        return None


def not_found(text: str) -> LookFailedError:
    """Return the failure of a root that holds nothing of this kind."""
    return LookFailedError(Failure(FailureReason.NOT_FOUND, text))
