"""History from the directories that the wandb client writes with `WANDB_MODE=offline`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from runwatch.facts import Failure, FailureReason, HistoryEnd, HistoryRow, HistoryRun, HistoryUpdate
from runwatch.fleet import Job
from runwatch.parsing.history_rows import MalformedRow
from runwatch.parsing.wandb_run_records import RunRecords
from runwatch.parsing.wandb_transaction_log import BLOCK_BYTES, LogExtract, NotTransactionLogError, read_records
from runwatch.sources.file_roots import ANYWHERE, FileRoots
from runwatch.sources.regular_file import file_failure

MAX_READ_BYTES = 8 * 1024 * 1024
MAX_RECORD_BYTES = 256 * 1024 * 1024

_RUN_DIRECTORY = re.compile(r"(?:offline-)?run-(?P<stamp>\d{8}_\d{6})-(?P<id>.+)")
_LOG_FILE = re.compile(r"run-.+\.wandb")


class _RewrittenError(Exception):
    """A file is shorter than what was read of it, or is another file by now."""


@dataclass(slots=True)
class _LogFile:
    path: Path
    records: RunRecords
    identity: tuple[int, int] | None = None
    position: int = 0
    unreadable: bool = False
    gave_rows: bool = False
    suspect_at: int | None = None
    suspect_counted: bool = False


@dataclass(slots=True)
class _RunState:
    """All files of the run that a job follows. `reset_due`: what was delivered before is void, and was not said yet."""

    directory: Path
    file_name: str
    files: dict[Path, _LogFile] = field(default_factory=dict)
    reset_due: bool = False


@dataclass(slots=True)
class _Page:
    budget: int
    rows: list[HistoryRow] = field(default_factory=list)
    malformed: int = 0
    caught_up: bool = True


class WandbOfflineReader:
    """Reads the `wandb_offline` history of jobs; keeps one position a file.

    The directory is that of one run (it holds `run-<id>.wandb`), or one above such directories: then the run of the
    newest is read, from all directories of its id in the order of their time stamps, since a resumed run writes a
    new one. There the rows of a replay are present: the client drops a lower step only within one process.

    Different jobs may be read from different threads at a time.

    Args:
        at: Hide rows, ends and whole attempts that are later than this (Unix seconds).
        max_read_bytes: How much one read takes; the rest waits for the next (`caught_up` is false then).
        roots: The folders that may be read.
    """

    def __init__(
        self, *, at: float | None = None, max_read_bytes: int = MAX_READ_BYTES, roots: FileRoots = ANYWHERE
    ) -> None:
        self._at = at
        self._roots = roots
        self._max_read_bytes = max_read_bytes
        self._states: dict[str, _RunState] = {}

    def read(self, job: Job) -> HistoryUpdate | Failure:
        """Read what was written to a job's files since the last read."""
        directory = next((s.wandb_offline for s in job.history if s.wandb_offline is not None), None)
        if directory is None:
            return Failure(FailureReason.NOT_FOUND, "the job names no wandb_offline history")
        try:
            self._roots.require(directory)
            paths = find_log_files(directory)
        except OSError as error:
            return file_failure(error, directory)
        if not paths:
            return Failure(FailureReason.NOT_FOUND, f"{directory} holds no run-*.wandb and no offline-run-*/")
        state = self._state_of(job.run, directory, paths[-1].name)
        try:
            return self._read_files(state, paths)
        except _RewrittenError:
            state.files.clear()
            state.reset_due = True
        try:
            return self._read_files(state, paths)
        except _RewrittenError:
            return Failure(FailureReason.OTHER, f"{directory}: files are being replaced")

    def forget(self, run: str) -> None:
        """Drop the positions in a job's files."""
        self._states.pop(run, None)

    def _state_of(self, run: str, directory: Path, file_name: str) -> _RunState:
        state = self._states.get(run)
        if state is None or (state.directory, state.file_name) != (directory, file_name):
            state = _RunState(directory, file_name, reset_due=state is not None)
            self._states[run] = state
        return state

    def _read_files(self, state: _RunState, paths: list[Path]) -> HistoryUpdate | Failure:
        page = _Page(budget=self._max_read_bytes)
        for path in paths:
            file = state.files.setdefault(path, _LogFile(path, RunRecords(at=self._at)))
            try:
                self._read_file(file, page, is_first=path == paths[0])
            except (OSError, NotTransactionLogError) as error:
                if isinstance(error, NotTransactionLogError) and path != paths[-1]:
                    # An attempt whose file was spoilt as its machine died must not hide the attempts after it.
                    page.malformed += not file.unreadable
                    file.unreadable = True
                    continue
                if not page.rows and not page.malformed:
                    return (
                        file_failure(error, path)
                        if isinstance(error, OSError)
                        else Failure(FailureReason.PARSE, f"{path}: {error}")
                    )
                # What other files gave is delivered first; the next read meets the fault again.
                page.caught_up = False
            if not page.caught_up:
                break
        reset, state.reset_due = state.reset_due, False
        run = _describe([state.files[path].records for path in sorted(state.files, key=_age)])
        if not page.caught_up:
            # What is not read yet may be an attempt after the end that was seen.
            run = replace(run, end=None, ended_at=None, exit_code=None)
        return HistoryUpdate(run, page.rows, caught_up=page.caught_up, reset=reset, malformed=page.malformed)

    def _read_file(self, file: _LogFile, page: _Page, *, is_first: bool) -> None:
        with self._roots.open(file.path) as opened:
            status = os.fstat(opened.fileno())
            identity = (status.st_dev, status.st_ino)
            if file.identity not in (None, identity) or status.st_size < file.position:
                raise _RewrittenError
            wanted = max(page.budget, 1)
            while True:
                opened.seek(file.position)
                data = opened.read(wanted)
                extract = read_records(data, file.position)
                if len(data) < wanted or extract.position > file.position or extract.records:
                    break
                # One record is larger than what was read of it.
                if wanted >= MAX_RECORD_BYTES:
                    extract = LogExtract([], (file.position // BLOCK_BYTES + 1) * BLOCK_BYTES, corrupt=1)
                    break
                wanted = min(2 * wanted, MAX_RECORD_BYTES)
        file.identity = identity
        page.budget -= len(data)
        page.caught_up = len(data) < wanted
        page.malformed += _newly_corrupt(file, extract)
        file.position = extract.position
        for record in extract.records:
            try:
                row = file.records.add(record)
            except MalformedRow:
                page.malformed += 1
                continue
            if row is not None:
                # Each file is one process of the run.
                page.rows.append(replace(row, begins_attempt=not (is_first or file.gave_rows)))
                file.gave_rows = True


def find_log_files(directory: Path) -> list[Path]:
    """Find the transaction logs of the newest run in or below a directory, oldest first.

    Looked at are the directory itself, its `offline-run-<time>-<id>/` and `run-<time>-<id>/`, and those in its
    `wandb/`, which the client makes below the directory that it is told.

    Raises:
        OSError: A directory cannot be listed.
    """
    entries = sorted(entry.name for entry in directory.iterdir())
    own = [directory / name for name in entries if _LOG_FILE.fullmatch(name)]
    if own:
        return [max(own, key=lambda path: path.stat().st_mtime)]
    found: list[Path] = []
    runs = [match for name in entries if (match := _RUN_DIRECTORY.fullmatch(name))]
    for match in sorted(runs, key=lambda match: (match["stamp"], match[0]), reverse=True):
        path = directory / match[0] / f"run-{match['id']}.wandb"
        if (not found or found[0].name == path.name) and _exists(path):
            found.insert(0, path)
    if found or "wandb" not in entries or directory.name == "wandb":
        return found
    return find_log_files(directory / "wandb")


def _exists(path: Path) -> bool:
    """Tell "not there" from "could not look", which raises."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _age(path: Path) -> tuple[str, str]:
    match = _RUN_DIRECTORY.fullmatch(path.parent.name)
    return (match["stamp"] if match else "", str(path))


def _newly_corrupt(file: _LogFile, extract: LogExtract) -> int:
    """Count broken places, each once: one at the file's end counts when a second look still finds it."""
    corrupt = extract.corrupt
    if corrupt and file.suspect_counted:
        corrupt -= 1
    suspect_at = extract.position if extract.suspect else None
    if suspect_at != file.suspect_at:
        file.suspect_counted = False
    elif suspect_at is not None and not file.suspect_counted:
        file.suspect_counted = True
        corrupt += 1
    file.suspect_at = suspect_at
    return corrupt


def _describe(attempts: list[RunRecords]) -> HistoryRun:
    """Put together what the files of one run say, oldest first: the newest attempt decides whether it has ended."""
    known = [attempt for attempt in attempts if attempt.begun]
    if not known:
        return HistoryRun()
    newest = known[-1]
    preempted = newest.preempting and newest.exit_code != 0
    end = None
    if newest.exit_code is not None and not preempted:
        end = HistoryEnd.SUCCEEDED if newest.exit_code == 0 else HistoryEnd.FAILED
    return HistoryRun(
        state="preempting" if preempted else "",
        heartbeat=max((a.newest_time for a in known if a.newest_time is not None), default=None),
        created=known[0].started,
        end=end,
        ended_at=newest.ended_at if end is not None else None,
        exit_code=newest.exit_code,
        config=dict(newest.config),
        name=newest.name,
    )
