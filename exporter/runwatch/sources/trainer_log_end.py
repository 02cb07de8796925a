"""Where a root's `trainer_log.jsonl` ends: LLaMA-Factory writes it into its output folder, beside the checkpoints.

It costs one request when the file's size or time changed, and none else. Only its end is used, and only to confirm that
every step is done; `parsing.trainer_log_jsonl` says why nothing else is taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from runwatch.facts import FailureReason
from runwatch.parsing.checkpoint_roots import Root
from runwatch.parsing.trainer_log_jsonl import TrainerLogEnd, read_end
from runwatch.sources.checkpoint_folders import Horizon, Memory
from runwatch.sources.folder_listing import Level, LookFailedError, ObjectStore

TRAINER_LOG = "trainer_log.jsonl"
TAIL_BYTES = 64 * 1024
"""A line has some hundred bytes; only the last one counts."""

_PASSING = frozenset({FailureReason.TIMEOUT, FailureReason.NETWORK, FailureReason.THROTTLED})
"""These fail the whole look, which is made again. Any other is the file's own and must not hide the checkpoints."""


@dataclass(frozen=True, slots=True)
class TrainerLog:
    """One `trainer_log.jsonl`: where it lies, when it was written (Unix seconds), and how it ends."""

    address: str
    updated: float
    end: TrainerLogEnd

    @property
    def evidence(self) -> str:
        """One line for `explain`."""
        if self.end.step is None:
            return f"{self.address} holds no line with a step: it confirms nothing"
        where = f"{self.address} ends at step {self.end.step} of {self.end.total}"
        return f"{where}: every step is done" if self.end.completed else f"{where}: it confirms no end"


def look_at_trainer_log(
    store: ObjectStore, root: Root, level: Level, *, memory: Memory, horizon: Horizon, notes: list[str]
) -> TrainerLog | None:
    """Return how the file directly below a root ends; None where there is none, or it could not be read.

    Args:
        store: reads below the root.
        root: where to look.
        level: the root's listing.
        memory: what former looks left; it is kept up to date here.
        horizon: what was written after it is not read: nobody knows what the file held before.
        notes: takes a line where there is a file that was not read.

    Raises:
        LookFailedError: the store could not be asked just now.
    """
    address = root.address(TRAINER_LOG)
    status = level.objects.get(TRAINER_LOG)
    if status is None:
        memory.trainer_logs.pop(address, None)
        return None
    if horizon.at is not None and status.updated > horizon.at:
        notes.append(f"{address} was written later: what it held then is not known")
        return None
    known = memory.trainer_logs.get(address)
    if known is not None and known[0] == status:
        return TrainerLog(address, status.updated, known[1])
    try:
        content = store.read_tail(TRAINER_LOG, TAIL_BYTES) if status.size else b""
    except LookFailedError as failed:
        if failed.failure.reason in _PASSING:
            raise
        if failed.failure.reason is not FailureReason.NOT_FOUND:  # that is deleted since the root was listed
            notes.append(f"{address} was not read, so it confirms no end: {failed.failure.detail}")
        return None
    end = read_end(_whole_lines(content))
    memory.trainer_logs[address] = (status, end)
    return TrainerLog(address, status.updated, end)


def _whole_lines(tail: bytes) -> list[bytes]:
    """Split a tail into lines, without the first of a tail that may begin inside a line."""
    lines = tail.split(b"\n")
    return lines[1:] if len(tail) >= TAIL_BYTES else lines
