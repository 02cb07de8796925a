"""History from a file of JSON lines, one logged row a line, read on from where the last read ended."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from runwatch.facts import Failure, FailureReason, HistoryRow, HistoryRun, HistoryUpdate
from runwatch.fleet import Job
from runwatch.parsing.history_rows import MalformedRow, parse_json_line, parse_row, whole_number
from runwatch.sources.file_roots import ANYWHERE, FileRoots
from runwatch.sources.regular_file import file_failure

MAX_READ_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024

_HEADER_LINES = 10
"""A file of so many objects of which none is a row has no rows to come: its lines are something else."""

_FINGERPRINT_BYTES = 256
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class _Position:
    """How far one file was read.

    `offset` is where the first line begins that was not read yet. `line_is_taken`: it is only the end of a line whose
    object was read, complete, before its newline was there. `fingerprint` holds the bytes just before it: a
    file that was written anew in place, and is longer already, shows there. `no_objects` counts the lines that are no
    JSON object, `no_rows` the objects that are no row.
    """

    path: Path
    identity: tuple[int, int] | None = None
    offset: int = 0
    fingerprint: bytes = b""
    lines: int = 0
    inside_long_line: bool = False
    line_is_taken: bool = False
    saw_hidden_row: bool = False
    saw_row: bool = False
    no_objects: int = 0
    no_rows: int = 0
    newest_row_time: float | None = None


@dataclass(slots=True)
class _Page:
    rows: list[HistoryRow] = field(default_factory=list)
    malformed: int = 0


class JsonLinesReader:
    """Reads the `jsonl` history of jobs; keeps one position a job.

    A row's cursor is the number of its line, from 1. Its step is the trainer's own or, where the trainer logs none,
    `_step`; a line with neither is malformed. A file that holds lines and yet no row is a failure: it is not known that
    the run made no step. Different jobs may be read from different threads at a time.

    Args:
        at: Hide rows whose time is later than this (Unix seconds), and after such a row those without a time and the
            lines that cannot be read.
        max_read_bytes: How much one read takes; the rest waits for the next (`caught_up` is false then).
        max_line_bytes: Longer lines are counted as malformed and skipped.
        roots: The folders that may be read.
    """

    def __init__(
        self,
        *,
        at: float | None = None,
        max_read_bytes: int = MAX_READ_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
        roots: FileRoots = ANYWHERE,
    ) -> None:
        if not 0 < max_line_bytes < max_read_bytes:
            raise ValueError("max_line_bytes must be positive and below max_read_bytes")
        self._at = at
        self._max_read_bytes = max_read_bytes
        self._max_line_bytes = max_line_bytes
        self._roots = roots
        self._positions: dict[str, _Position] = {}

    def read(self, job: Job) -> HistoryUpdate | Failure:
        """Read the lines of a job's file that are complete and were not read before."""
        path = next((source.jsonl for source in job.history if source.jsonl is not None), None)
        if path is None:
            return Failure(FailureReason.NOT_FOUND, "the job names no jsonl history")
        try:
            with self._roots.open(path) as file:
                return self._read_open(job.run, path, file)
        except OSError as error:
            return file_failure(error, path)

    def forget(self, run: str) -> None:
        """Drop the position in a job's file."""
        self._positions.pop(run, None)

    def _read_open(self, run: str, path: Path, file: BinaryIO) -> HistoryUpdate | Failure:
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        position = self._positions.get(run)
        reset = position is not None and not _continues(position, path, identity, file)
        if position is None or reset:
            position = _Position(path=path)
        # The stored position changes only after the whole read went well.
        position = replace(position, identity=identity)
        file.seek(position.offset)
        data = file.read(self._max_read_bytes)
        page = self._take_lines(position, data)
        self._positions[run] = position
        caught_up = len(data) < self._max_read_bytes
        is_something_else = position.no_objects > 0 or position.no_rows >= _HEADER_LINES
        if caught_up and is_something_else and not position.saw_row:
            text = f"{path}: none of its {position.lines} lines is a row: a JSON object with a step under _step or the "
            return Failure(FailureReason.PARSE, f"{text}trainer's own key", malformed=page.malformed)
        return HistoryUpdate(
            run=HistoryRun(heartbeat=self._heartbeat(position, status.st_mtime)),
            rows=page.rows,
            caught_up=caught_up,
            reset=reset,
            malformed=page.malformed,
        )

    def _take_lines(self, position: _Position, data: bytes) -> _Page:
        """Parse the complete lines of the data and move the position behind them."""
        page = _Page()
        taken = 0
        if position.line_is_taken:
            rest, newline, _ = data.partition(b"\n")
            taken = len(rest) + len(newline)
            page.malformed += bool(rest.strip()) and not position.saw_hidden_row
            position.line_is_taken = not newline
        while (end := data.find(b"\n", taken)) >= 0:
            line, taken = data[taken:end], end + 1
            position.lines += 1
            if position.inside_long_line:
                position.inside_long_line = False
                continue
            self._take_line(position, line, page)
        if position.inside_long_line or position.line_is_taken or self._take_last_line(position, data[taken:], page):
            taken = len(data)
        elif len(data) - taken > self._max_line_bytes:
            page.malformed += not position.saw_hidden_row
            position.inside_long_line = True
            taken = len(data)
        position.offset += taken
        position.fingerprint = (position.fingerprint + data[max(0, taken - _FINGERPRINT_BYTES) : taken])[
            -_FINGERPRINT_BYTES:
        ]
        return page

    def _take_last_line(self, position: _Position, line: bytes, page: _Page) -> bool:
        """Take a line that has no newline yet, and may never get one, where its object is complete."""
        if not line.rstrip().endswith(b"}") or len(line) > self._max_line_bytes or not _is_object(line):
            return False
        position.lines += 1
        position.line_is_taken = True
        self._take_line(position, line, page)
        return True

    def _take_line(self, position: _Position, line: bytes, page: _Page) -> None:
        if len(line) > self._max_line_bytes:
            page.malformed += not position.saw_hidden_row
            return
        if position.lines == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            return
        try:
            row = _parse_line(line, position.lines)
        except MalformedRow:
            page.malformed += not position.saw_hidden_row
            if _is_object(line):
                position.no_rows += 1
            else:
                position.no_objects += 1
            return
        position.saw_row = True
        if self._is_hidden(row, position):
            position.saw_hidden_row = True
            return
        if row.time is not None:
            position.newest_row_time = max(row.time, position.newest_row_time or row.time)
        page.rows.append(row)

    def _is_hidden(self, row: HistoryRow, position: _Position) -> bool:
        if self._at is None:
            return False
        return position.saw_hidden_row if row.time is None else row.time > self._at

    def _heartbeat(self, position: _Position, modified: float) -> float | None:
        """The newest row's own time; the file's only where no row has one: a copied file is as old as its copy."""
        if position.newest_row_time is not None:
            return position.newest_row_time
        if self._at is not None and modified > self._at:
            return None
        return modified


def _continues(position: _Position, path: Path, identity: tuple[int, int], file: BinaryIO) -> bool:
    if position.path != path or position.identity != identity:
        return False
    file.seek(position.offset - len(position.fingerprint))
    return file.read(len(position.fingerprint)) == position.fingerprint


def _is_object(line: bytes) -> bool:
    try:
        parse_json_line(line)
    except MalformedRow:
        return False
    return True


def _parse_line(line: bytes, number: int) -> HistoryRow:
    logged = parse_json_line(line)
    row = parse_row(logged, cursor=number)
    step = whole_number(logged.get("_step"))
    if row.trainer_step is None and step is None:
        raise MalformedRow("no step: expected a whole number, 0 or more, under _step or the trainer's own key")
    return replace(row, tracker_step=step)
