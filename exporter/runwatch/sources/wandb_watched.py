"""One watched run: what was read of it, and what a new answer of W&B adds. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason, HistoryRow, HistoryRun, HistoryUpdate
from runwatch.sources.wandb_budget import Backoff
from runwatch.sources.wandb_ranges import RangeReader, ServerPages
from runwatch.sources.wandb_requests import Ask, RunAnswer, RunPath
from runwatch.sources.wandb_runs import history_run, parse_config, parse_rows, visible_rows

_FEWEST_EXPORTED = 10
_LEAST_EXPORTED_PART = 0.01
_ROWS_OF_A_YOUNG_RUN = 50
"""Trainers write their configuration some time after the run began."""
_ANSWERS_PER_CONFIG = 30
"""A resumed run may write another one: it is fetched again now and then, not with every answer, for it may be large."""
_ENDED = frozenset({"finished", "failed", "killed", "crashed"})


@dataclass(frozen=True, slots=True)
class Taken:
    """What an answer came to. `outcome` is to be delivered; `more` tells that the run is to be asked again at once."""

    outcome: HistoryUpdate | Failure | None
    more: bool


@dataclass(slots=True)
class WatchedRun:
    """One run of one job.

    Args:
        path: Where it lives.
        page_url: The address of W&B's pages.
        pages: What the server was seen to give.
        backoff: Of this run alone, when it fails while others answer.
        at: Hide what was recorded after this time (Unix seconds).
        replaces: The job's history was read from elsewhere before, and that is void.
    """

    path: RunPath
    page_url: str
    pages: ServerPages
    backoff: Backoff
    at: float | None = None
    replaces: bool = False
    reader: RangeReader = field(init=False)
    last: RunAnswer | None = None
    config: dict[str, object] | None = None
    alone: bool = False
    complete: bool = False
    served_at: float = 0.0
    exported: list[HistoryRow] | None = None
    _settled: int | None = None
    _listed: int | None = None
    _reset_due: bool = False
    _restarted: bool = False
    _cut: bool = False
    _export_checked: bool = False
    _hidden: bool = False
    _answers: int = 0
    _unplaced: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reader = RangeReader(self.pages)
        self._reset_due = self.replaces

    @property
    def over(self) -> bool:
        """Whether W&B said that the run has ended (or crashed), when last asked."""
        return self.last is not None and self.last.state in _ENDED

    @property
    def needs_own_request(self) -> bool:
        """Whether it is in the middle of a long read, or broke a request that it shared."""
        return self.alone or bool(self.reader.pending)

    def begin_poll(self) -> None:
        """Start a new look."""
        self._restarted = False
        self._listed = self.reader.line_count

    def ask(self) -> Ask:
        """What to ask next."""
        low, high, samples = self.reader.next_range()
        early = not self.config or self.reader.rows_read < _ROWS_OF_A_YOUNG_RUN
        return Ask(self.path, low, high, samples, config=early or self._answers % _ANSWERS_PER_CONFIG == 0)

    def nothing_new(self, listed: RunAnswer) -> HistoryUpdate | Failure | None:
        """Compare with the project's listing.

        Returns:
            The outcome, without rows, where the listing shows that there is nothing to read; else None.
        """
        self._listed = listed.line_count
        before = self.last
        if not self.complete or before is None or listed.line_count is None or listed.line_count != self._settled:
            return None
        if listed.created != before.created or listed.state != before.state:
            return None
        self.last = listed
        return self._outcome([], malformed=0)

    def take(self, ask: Ask, answer: RunAnswer) -> Taken:
        """Take the answer to `ask`."""
        self.alone = False
        self.backoff.succeeded()
        if self._made_anew(answer):
            self.restart()
            self._restarted = True
            return Taken(None, more=True)
        self.last = answer
        self._answers += 1
        if ask.config and answer.config is not None:
            self.config = parse_config(answer.config)
        self.reader.line_count = answer.line_count
        rows, malformed = parse_rows(answer.rows)
        new_malformed = [text for text in malformed if text not in self._unplaced]
        # Whatever the server does with the limits, no row is delivered twice.
        rows = [row for row in rows if ask.low <= row.cursor < ask.high]
        kept = self.reader.take((ask.low, ask.high, ask.samples), [row.cursor for row in rows], len(malformed))
        if self.reader.void:
            self._reset_due, self.reader.void, self._unplaced = True, False, set()
        if not kept:
            self._cut = True
            return Taken(None, more=True)
        self.reader.rows_read -= len(malformed) - len(new_malformed)
        self._unplaced = set(malformed) if rows else self._unplaced | set(malformed)
        if self.at is not None and rows and rows[-1].time is not None and rows[-1].time > self.at:
            self.reader.pending.clear()
            self._hidden = True
        self.complete = not self.reader.pending
        if not self.complete:
            return Taken(self._outcome(rows, len(new_malformed)), more=True)
        self._settle()
        return Taken(self._outcome(rows, len(new_malformed)), more=False)

    def _made_anew(self, answer: RunAnswer) -> bool:
        if self.last is None or self._restarted:
            return False
        before, now = self.reader.line_count, answer.line_count
        fewer = before is not None and now is not None and now < before
        return fewer or (answer.created is not None and answer.created != self.last.created)

    def restart(self) -> None:
        """Forget every row: the run was made anew."""
        self._reset_due = self._reset_due or self.reader.rows_read > 0
        self.reader = RangeReader(self.pages)
        self.last, self.config, self.complete, self.exported = None, None, False, None
        self._settled, self._cut, self._export_checked = None, False, False
        self._unplaced = set()

    def _settle(self) -> None:
        reader = self.reader
        if self.needs_export:
            self.complete = False
        elif self._cut and not self._hidden:
            # Read again in small ranges, and there were no more rows: W&B counts lines that it does not give.
            reader.surplus += reader.missing()
        self._cut = False
        # A count that runs ahead of its rows must not hide them from the next look.
        self._settled = reader.line_count if reader.missing() == 0 else self._listed

    @property
    def needs_export(self) -> bool:
        """Whether many rows are counted that the raw query does not give: they may have been exported to files."""
        reader = self.reader
        if self._export_checked or self._hidden or reader.pending:
            return False
        return reader.missing() > max(_FEWEST_EXPORTED, _LEAST_EXPORTED_PART * (reader.line_count or 0))

    def take_export(self, rows: Sequence[HistoryRow]) -> HistoryUpdate | Failure:
        """Take all rows as the real client read them, exported files included."""
        reader = self.reader
        self._export_checked, self.exported, self.complete = True, None, True
        fresh: list[HistoryRow] = []
        if len(rows) > reader.rows_read:
            self._reset_due = self._reset_due or reader.rows_read > 0
            fresh = sorted(rows, key=lambda row: row.cursor)
            reader.rows_read = len(fresh)
            reader.cursor = max(reader.cursor, fresh[-1].cursor + 1)
        reader.surplus += reader.missing()
        self._settled = reader.line_count
        return self._outcome(fresh, malformed=0)

    def describe(self) -> HistoryRun | None:
        """The run as last heard of; None where it was made after `at` or never answered."""
        if self.last is None:
            return None
        return history_run(self.path, self.last, self.config or {}, self.page_url, self.at)

    def _outcome(self, rows: list[HistoryRow], malformed: int) -> HistoryUpdate | Failure:
        run = self.describe()
        if run is None:
            self.reader.pending.clear()
            self._hidden = True
            return Failure(FailureReason.NOT_FOUND, f"the run {self.path} did not exist yet at that time")
        reset, self._reset_due = self._reset_due, False
        return HistoryUpdate(run, visible_rows(rows, self.at), self.complete, reset, malformed)
