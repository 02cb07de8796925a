"""What a job's log is read with, and what its trainer's parser tells beside the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Protocol

from runwatch.parsing.benign import BenignPattern
from runwatch.parsing.log_records import LogFailure, LogFragment, LogRow


class TrainerParser(Protocol):
    """Reads steps out of a trainer's log: `parsing.trainer_log.TrainerLogParser`."""

    def skip(self) -> None:
        """Note that a part of the log was left out: nothing is put together from both sides of it."""

    @property
    def total_steps(self) -> int | None:
        """How many steps there will be, as the log says."""

    @property
    def format(self) -> str:
        """The name of the format that was recognised, "" while none was."""

    @property
    def position(self) -> LogRow | None:
        """The newest step by its place in the log, without values."""

    @property
    def unparsed(self) -> int:
        """Lines that look like metrics and could not be read."""

    @property
    def completed(self) -> bool:
        """Whether the trainer said that it is done."""

    def feed(self, fragments: Sequence[LogFragment]) -> list[LogRow]:
        """Take the next fragments and return the rows that are complete."""

    def finish(self) -> list[LogRow]:
        """Return what the log breaks off in."""


class FailureParser(Protocol):
    """Finds the lines that tell how a job ended: `parsing.failures.FailureFinder`."""

    @property
    def failures(self) -> Sequence[LogFailure]:
        """Those that nothing after them contradicts, in the order of the log."""

    def feed(self, fragments: Sequence[LogFragment]) -> Sequence[LogFailure]:
        """Take the next fragments."""


@dataclass(frozen=True, slots=True)
class LogParsers:
    """What a job's log is read with. The makers are called once a file.

    `zone` is that of stamps which name none, `at` (Unix seconds) hides what was written later.
    """

    make_trainer: Callable[[], TrainerParser]
    make_failures: Callable[[], FailureParser]
    benign: Sequence[BenignPattern]
    zone: tzinfo
    site: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a trainer's log said beside its rows, up to some line of it."""

    total_steps: int | None = None
    unparsed: int = 0
    format: str = ""


NOTHING_TOLD = Told()


def told_by(trainer: TrainerParser) -> Told:
    """Return what a parser tells now."""
    return Told(trainer.total_steps, trainer.unparsed, trainer.format)
