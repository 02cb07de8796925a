"""What the records of one `.wandb` file say of its run.

The records are protobuf messages (`wandb.proto.wandb_internal_pb2.Record`) of the wandb client, which is imported
only when the first record is read: that takes most of a second.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from runwatch.facts import HistoryRow
from runwatch.parsing.history_rows import MalformedRow, parse_row


class RunRecords:
    """Takes the records of one `.wandb` file in order, and keeps what they say of the run as a whole.

    One file is one process of the run: a resumed run writes a new file.

    Args:
        at: Take nothing that is later than this (Unix seconds). A record without a time of its own is as late as the
            one before it.

    Attributes:
        begun: The record that opens the run was seen.
        name: The run's display name, "" while unknown.
        started: When the process began its run.
        newest_time: The newest time in any record: rows, samples of the system's state, console output.
        config: What was given to `wandb.init` and to later updates, without W&B's own entry.
        exit_code: The process's exit code, once its exit was recorded.
        ended_at: When it exited: its start plus the recorded run time, or `newest_time` where that is later.
        preempting: The run said of itself that it is being preempted (`run.mark_preempting()`).
    """

    def __init__(self, *, at: float | None = None) -> None:
        self._at = at
        self._hidden = False
        self.begun = False
        self.name = ""
        self.started: float | None = None
        self.newest_time: float | None = None
        self.config: dict[str, object] = {}
        self.exit_code: int | None = None
        self.ended_at: float | None = None
        self.preempting = False

    def add(self, data: bytes) -> HistoryRow | None:
        """Take one record.

        Returns:
            The row, if the record is one and is not hidden.

        Raises:
            MalformedRow: The record is no protobuf message, or a row or value in it cannot be read.
        """
        record = _parse(data)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            return self._add_history(record.history)
        if kind == "run":
            self._add_run(record.run)
        elif kind == "stats":
            self._see(_seconds(record.stats.timestamp))
        elif kind == "output_raw":
            self._see(_seconds(record.output_raw.timestamp))
        elif kind == "config" and not self._hidden:
            self._update_config(record.config)
        elif kind == "preempting" and not self._hidden:
            self.preempting = True
        elif kind == "exit":
            self._add_exit(record.exit)
        return None

    def _see(self, time: float | None) -> bool:
        """Note a record's time, and say whether the record may be seen."""
        if time is None:
            return not self._hidden
        if self._at is not None and time > self._at:
            self._hidden = True
            return False
        self.newest_time = time if self.newest_time is None else max(self.newest_time, time)
        return True

    def _add_history(self, history: Any) -> HistoryRow | None:
        logged: dict[str, object] = {}
        for item in history.item:
            _put(logged, tuple(item.nested_key) or (item.key,), _item_value(item))
        if "_step" not in logged and history.HasField("step"):
            logged["_step"] = history.step.num
        row = parse_row(logged)
        return row if self._see(row.time) else None

    def _add_run(self, run: Any) -> None:
        started = _seconds(run.start_time)
        if not self._see(started):
            return
        self.begun = True
        self.started = started
        self.name = run.display_name
        self._update_config(run.config)

    def _update_config(self, config: Any) -> None:
        for item in config.update:
            path = tuple(item.nested_key) or (item.key,)
            if path[0] != "_wandb":
                _put(self.config, path, _json_value(item.value_json))
        for item in config.remove:
            _remove(self.config, tuple(item.nested_key) or (item.key,))

    def _add_exit(self, exit_record: Any) -> None:
        if exit_record.not_complete:
            return
        times = [self.newest_time] if self.newest_time is not None else []
        if self.started is not None:
            times.append(self.started + exit_record.runtime)
        ended_at = max(times, default=None)
        if self._hidden or (self._at is not None and ended_at is not None and ended_at > self._at):
            return
        self.exit_code = exit_record.exit_code
        self.ended_at = ended_at


@functools.cache
def _messages() -> tuple[Any, type[Exception]]:
    record = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    return record, importlib.import_module("google.protobuf.message").DecodeError


def _parse(data: bytes) -> Any:
    record_type, decode_error = _messages()
    record = record_type()
    try:
        record.ParseFromString(data)
    except decode_error:
        raise MalformedRow("not a protobuf record of the wandb client") from None
    return record


def _seconds(timestamp: Any) -> float | None:
    """Convert a protobuf timestamp; one that was never set is None, not 1970."""
    seconds: float = timestamp.seconds + timestamp.nanos / 1e9
    return seconds if seconds > 0 else None


def _json_value(text: str) -> object:
    """Read one value of a record. Bare NaN and infinities are numbers: the client writes them so."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedRow("a value that is not JSON") from None


def _item_value(item: Any) -> object:
    """Read an item's value: JSON text, or the typed field that newer clients may write."""
    if item.value_json:
        return _json_value(item.value_json)
    typed = item.WhichOneof("value")
    if typed is None or typed == "none":
        return None
    value = getattr(item, typed)
    return _json_value(value) if typed == "json" else value


def _put(mapping: dict[str, object], path: Sequence[str], value: object) -> None:
    """Set a nested value; the file holds one item for each leaf."""
    *parents, last = path
    target = _descend(mapping, parents)
    target[last] = value


def _descend(mapping: dict[str, object], parents: Iterable[str]) -> dict[str, object]:
    for key in parents:
        child = mapping.get(key)
        if not isinstance(child, dict):
            child = mapping[key] = {}
        mapping = child
    return mapping


def _remove(mapping: dict[str, object], path: Sequence[str]) -> None:
    *parents, last = path
    _descend(mapping, parents).pop(last, None)
