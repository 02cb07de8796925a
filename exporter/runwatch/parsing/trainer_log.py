"""The log of whichever trainer a job runs, recognised by its content."""

from __future__ import annotations

from collections.abc import Iterable

from runwatch.parsing.hugging_face_log import HuggingFaceLogParser
from runwatch.parsing.levanter_log import LevanterLogParser
from runwatch.parsing.log_records import LogFragment, LogRow
from runwatch.parsing.skyrl_lines import is_training_bar
from runwatch.parsing.skyrl_log import SkyrlLogParser

_FormatParser = HuggingFaceLogParser | SkyrlLogParser | LevanterLogParser


class TrainerLogParser:
    """Takes a log's fragments in any portions and gives its rows; its state is small, however long the log.

    The format is settled by the first line that only its trainer writes (its own bar, or metrics with their step), and
    stays, unless SkyRL's own bar is drawn in Ray later. Steps may go back: a resumed run does steps again, and the row
    that comes later in the log counts.
    """

    def __init__(self) -> None:
        self._hugging_face = HuggingFaceLogParser()
        self._skyrl = SkyrlLogParser()
        self._levanter = LevanterLogParser()
        self._settled: _FormatParser | None = None

    def feed(self, fragments: Iterable[LogFragment]) -> list[LogRow]:
        """Take the next fragments and return the rows that they complete, in the order of the log."""
        rows: list[LogRow] = []
        for fragment in fragments:
            if fragment.actor and fragment.bar and self._settled is not self._skyrl and is_training_bar(fragment.text):
                self._settled = self._skyrl  # what came before was printed by an agent that trained something
            row = self._settled.feed(fragment) if self._settled is not None else self._settle(fragment)
            if row is not None:
                rows.append(row)
        return rows

    def skip(self) -> None:
        """Note that a part of the log was left out between what was fed and what will be (its middle, when it is long).

        Metrics and the bar that tells their step may stand on both sides of the gap; they are not put together.
        """
        for parser in (self._hugging_face, self._skyrl, self._levanter):
            parser.skip()

    def finish(self) -> list[LogRow]:
        """Return what the log breaks off in, once nothing more will come."""
        return self._settled.finish() if self._settled is not None else []

    @property
    def format(self) -> str:
        """`hugging_face`, `skyrl`, `levanter`, or "" while not recognised."""
        return self._settled.name if self._settled is not None else ""

    @property
    def total_steps(self) -> int | None:
        """How many steps there will be, as the trainer says; None while it did not, or where it shortens the number."""
        return self._settled.total_steps if self._settled is not None else None

    @property
    def position(self) -> LogRow | None:
        """The newest step by its place in the log, without values.

        The bar moves with every step, rows come once in `logging_steps`. A bar at 0 is no position.
        """
        return self._settled.position if self._settled is not None else None

    @property
    def attempt(self) -> int:
        """How many starts of the trainer the log showed before the present one."""
        return self._settled.attempt if self._settled is not None else 0

    @property
    def unparsed(self) -> int:
        """How many lines look like metrics of the recognised format and gave no row."""
        return self._settled.unparsed if self._settled is not None else 0

    @property
    def completed(self) -> bool:
        """The trainer said that the present start of it came to its end."""
        return self._settled.completed if self._settled is not None else False

    def _settle(self, fragment: LogFragment) -> LogRow | None:
        parsers: list[_FormatParser] = [self._hugging_face, self._levanter]
        # Examples that LLaMA-Factory prints of its data may hold another trainer's log. SkyRL itself runs in Ray.
        if fragment.actor or not self._hugging_face.hinted:
            parsers.append(self._skyrl)
        for parser in parsers:
            row = parser.feed(fragment)
            if parser.recognised:
                self._settled = parser
                return row
        return None
