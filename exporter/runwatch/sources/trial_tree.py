"""One look at the folder of a job's trials: which job folders there are, and what each holds.

The root may be a job folder of Harbor, a folder of several, the experiment folder of a datagen job with its
`trace_jobs/`, that folder itself (with `chunk_NNN/<job>/` and `task_chunks/` in it, or job folders), or a run folder
of terminal-bench, or a folder of several.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason, TrialsFolder, TrialsUpdate
from runwatch.parsing.checkpoint_roots import Root
from runwatch.parsing.harbor_results import is_job_result, load_object
from runwatch.sources.folder_listing import Level, LookFailedError, ObjectStore
from runwatch.sources.trial_folders import (
    RESULT,
    RUN_RESULTS,
    FirstLookLimit,
    JobFolderLook,
    Memory,
    SeenJob,
    list_or_none,
    look_at_run,
    not_found,
    read_or_none,
    require_followed,
)

TRACE_JOBS = "trace_jobs"
TASK_CHUNKS = "task_chunks"
MOST_FOLDERS = 1000
"""A folder that is no job folder and holds more folders is no folder of jobs; the look fails and says so."""

_CHUNK = re.compile(r"chunk_(\d{1,9})")
_TRIAL_NAME = re.compile(r".+__[A-Za-z0-9]{7}", re.DOTALL)
_JOB_FILES = frozenset({"job.log", "lock.json", RESULT})
_RUN_FILES = frozenset({RUN_RESULTS, "run_metadata.json"})
_TRIAL_FOLDERS = frozenset({"agent", "verifier", "artifacts", "steps"})
_SAMPLES = 5


@dataclass(slots=True)
class TreeLook:
    """A look at everything below one root, as it goes on."""

    store: ObjectStore
    root: Root
    memory: Memory
    limit: FirstLookLimit
    at: float | None
    now: float
    folders: list[TrialsFolder] = field(default_factory=list)
    chunks: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _present: set[str] = field(default_factory=set)

    def look(self) -> TrialsUpdate:
        """Look once.

        Raises:
            LookFailedError: a folder could not be read, or there is nothing of a trial's (`not_found`).
        """
        self.memory.looks += 1
        level = self.store.list_level("")
        if level.is_empty:
            raise not_found(f"{self.root.address()} lists empty")
        base = ""
        require_followed(self.root, base, level, lambda name: name == TRACE_JOBS)
        if TRACE_JOBS in level.folders and not self._is_job("", level):
            below = list_or_none(self.store, TRACE_JOBS)
            base, level = (TRACE_JOBS, below) if below is not None else (base, level)
        if not self._take(base, level, None):
            self._look_into_jobs(base, level)
        if not self.folders and not self.chunks:
            raise not_found(f"{self.root.address()} holds no job folder of Harbor, and no trial")
        self.memory.jobs = {path: seen for path, seen in self.memory.jobs.items() if path in self._present}
        return TrialsUpdate(
            folders=tuple(sorted(self.folders, key=lambda folder: folder.path)),
            chunks=tuple(sorted(self.chunks)),
            caught_up=not self.limit.reached,
            notes=tuple(self.notes),
        )

    def _look_into_jobs(self, base: str, level: Level) -> None:
        """Look into a folder of job folders, or of chunks, each a folder of job folders."""
        self._check_size(base, level)
        require_followed(self.root, base, level, lambda name: _CHUNK.fullmatch(name) is not None)
        for name in sorted(level.folders):
            path = _joined(base, name)
            below = list_or_none(self.store, path)
            if below is None:
                continue
            matched = _CHUNK.fullmatch(name)
            if name == TASK_CHUNKS:
                self.chunks |= {int(number[1]) for folder in below.folders if (number := _CHUNK.fullmatch(folder))}
            elif matched is not None and not self._is_job(path, below):
                self.chunks.add(int(matched[1]))
                self._look_into_chunk(path, below, int(matched[1]))
            elif not self._take(path, below, None):
                self.notes.append(f"{self.root.address(path)} is no job folder: left out")

    def _look_into_chunk(self, base: str, level: Level, chunk: int) -> None:
        self._check_size(base, level)
        for name in sorted(level.folders):
            path = _joined(base, name)
            below = list_or_none(self.store, path)
            if below is not None and not self._take(path, below, chunk):
                self.notes.append(f"{self.root.address(path)} is no job folder: left out")

    def _take(self, path: str, level: Level, chunk: int | None) -> bool:
        """Look into a job or run folder; False when it is none."""
        if level.links_refused:
            names = ", ".join(sorted(level.links_refused)[:3])
            self.notes.append(f"{self.root.address(path)}: links that lead out of the root are not followed: {names}")
        require_followed(self.root, path, level, lambda name: name == RUN_RESULTS)
        if _RUN_FILES & set(level.objects):
            self._present.add(path)
            seen = self.memory.jobs.setdefault(path, SeenJob())
            self.folders.append(look_at_run(self.store, path, level, seen, at=self.at, chunk=chunk))
            return True
        if not self._is_job(path, level):
            return False
        require_followed(self.root, path, level, lambda name: _TRIAL_NAME.fullmatch(name) is not None)
        self._present.add(path)
        seen = self.memory.jobs.setdefault(path, SeenJob())
        look = JobFolderLook(
            self.store,
            self.root,
            path,
            level,
            seen,
            number=self.memory.looks,
            limit=self.limit,
            at=self.at,
            now=self.now,
        )
        self.folders.append(look.look(chunk))
        return True

    def _is_job(self, path: str, level: Level) -> bool:
        """Tell a job folder from a folder of job folders and from a trial, by what lies in it, else in its folders.

        Only the answer that a sample gave is remembered: names alone do not tell a trial from a job that is called
        `model__dataset`.
        """
        if _is_trial(level):
            return False
        if _JOB_FILES & set(level.objects):
            return True
        candidates = [name for name in sorted(level.folders) if _TRIAL_NAME.fullmatch(name)]
        if not candidates:
            return False
        known = self.memory.is_job.get(path)
        if known is None:
            known = self._sample(path, candidates[:_SAMPLES])
            if known is not None:
                self.memory.is_job[path] = known
        return bool(known)

    def _sample(self, path: str, names: list[str]) -> bool | None:
        """Tell by a few folders whether they are trials; None while they do not tell."""
        for name in names:
            below = list_or_none(self.store, _joined(path, name))
            if below is None:
                continue
            if _is_trial(below):
                return True
            if "job.log" in below.objects or any(_TRIAL_NAME.fullmatch(folder) for folder in below.folders):
                return False
            stat = below.objects.get(RESULT)
            content = None if stat is None else read_or_none(self.store, _joined(path, name, RESULT), stat)
            if content is None:
                continue
            try:
                return not is_job_result(load_object(content))
            except ValueError:
                continue
        return None

    def _check_size(self, path: str, level: Level) -> None:
        if len(level.folders) > MOST_FOLDERS:
            address = self.root.address(*filter(None, (path,)))
            text = f"{address} holds {len(level.folders)} folders and is no job folder: name the folder of the jobs"
            raise LookFailedError(Failure(FailureReason.OTHER, text))


def _is_trial(level: Level) -> bool:
    if "trial.log" in level.objects:
        return True
    holds_trials = any(_TRIAL_NAME.fullmatch(name) for name in level.folders)
    return bool(_TRIAL_FOLDERS & set(level.folders)) and "job.log" not in level.objects and not holds_trials


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))
