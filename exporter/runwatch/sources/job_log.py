"""What one job's logs said so far: pages of bytes go in, rows of its history and facts come out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from runwatch.facts import HistoryEnd, HistoryRow, HistoryRun, HistoryUpdate, IgnoredLines, LogFacts
from runwatch.parsing.benign import BenignLines
from runwatch.parsing.engine_lines import EngineLines, generation_end
from runwatch.parsing.harbor_console import HarborConsole
from runwatch.parsing.log_lines import LogSplitter
from runwatch.parsing.log_records import LogFragment, LogRow
from runwatch.sources.log_files import LogFile
from runwatch.sources.log_follower import LogNews, LogPage, LogPortion, PageStart
from runwatch.sources.log_parsers import NOTHING_TOLD, FailureParser, LogParsers, Told, TrainerParser, told_by
from runwatch.sources.log_times import AttemptClocks, is_another_start

MAX_FAILURES = 50
_MOST_BARS = 100
_BAR_AT_ZERO = re.compile(r"\| *\d{1,12}/(\d{1,12}) \[00:00<\?", re.ASCII)
"""The first drawing of a progress bar: its rest is not known yet. It need not begin at step 0."""
_ENDS_A_CHUNK = frozenset({"wall_time", "cancelled"})
"""Failures by SLURM's own word after which nothing of a chunk's task goes on. A preempted one may begin again."""

_BEGINS = re.compile(r"\*{5} Running training \*{5}|Progress on:train -/", re.ASCII)
"""What else stands where a trainer begins: Hugging Face's banner, and the first line of Levanter's bar."""
_BEGAN_SECONDS = 60.0
"""A first row whose bar counted longer than this was not the first, where no beginning stands before it."""
_ZONE_SECONDS = 900.0
_LAST_STAMP_SECONDS = 60.0  # a stamp so shortly before the last row still tells when the trainer ended


@dataclass(slots=True)
class _Link:
    """One file, from its beginning or from where it was cut: a link of the chain."""

    file: LogFile
    splitter: LogSplitter
    trainer: TrainerParser
    failure_lines: FailureParser
    clocks: AttemptClocks
    first_attempt: int
    stamp: float | None = None
    read_until: float | None = None
    written: float | None = None  # when the line that is read now was, where who keeps the log tells that
    rows: int = 0
    newest_step: tuple[int, int] | None = None
    chunk: int | None = None
    chunk_completed: bool | None = None
    told_by_then: Told = NOTHING_TOLD  # where what came later is hidden
    begins: bool = False
    totals_at_zero: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Untimed:
    link: _Link
    row: LogRow
    attempt: int


class JobLog:
    """Takes what looks at a job's logs brought, and answers with its history and its facts.

    Files are links of one chain in the order of their first reading: one job, whose steps may go back.
    """

    def __init__(self, parsers: LogParsers) -> None:
        self._parsers = parsers
        self._links: dict[tuple[int, int], _Link] = {}
        self._benign = BenignLines(parsers.benign, parsers.site)
        self._engine = EngineLines()
        self._console = HarborConsole()
        self._rows: list[HistoryRow] = []
        self._batch: list[_Untimed] = []
        self._touched: list[_Link] = []
        self._last_untimed: _Untimed | None = None
        self._last_given: _Untimed | None = None
        self.rows_given = 0
        self._is_void = False
        self._cursor = 0
        self._attempts = 0
        self._latest_time: float | None = None
        self._saw_hidden_row = False
        self._starts_mid_run = False
        self._first_stamp: float | None = None
        self._newest_stamp: float | None = None
        self._unparsed_before = 0
        self._dropped_before = 0
        self._files: tuple[LogFile, ...] = ()
        self._caught_up = False
        self._compressed: tuple[str, ...] = ()

    @property
    def times_are_wrong(self) -> bool:
        """Whether an attempt turned out to have begun long before what its rows were timed by: read all again."""
        return any(link.clocks.too_late for link in self._links.values())

    def take(self, news: LogNews) -> None:
        """Take what one look brought."""
        self._files = news.files
        if news.compressed and not self._caught_up:
            # Later ones were read before they were compressed.
            self._starts_mid_run = True
            self._compressed += news.compressed
        self._caught_up = news.caught_up
        for page in news.pages:
            self._take_page(page)
        for link in self._touched:
            link.clocks.settle(link.file.modified if link.file.modified_is_known else math.inf)
            if link.file.modified_is_known:
                link.read_until = link.file.modified
        self._touched.clear()
        batch, self._batch = self._batch, []
        for untimed in batch:
            self._give(untimed)

    def _take_page(self, page: LogPage) -> None:
        link = self._links.get(page.file.identity)
        if link is None or page.start is PageStart.BEGINS:
            link = self._begin(page.file)
        if page.start is PageStart.SKIPS:
            self._skip(link)
        link.file = page.file
        link.splitter.written_at(page.file.modified)
        for portion in page.portions or (LogPortion(page.data),):
            link.written = portion.time
            for fragment in link.splitter.feed(portion.data):
                own = fragment if fragment.rank is not None else replace(fragment, rank=portion.rank)
                self._take_fragment(link, own)
            if portion.time is not None:
                link.clocks.note_stamp(portion.time)
        self._touch(link)

    def _touch(self, link: _Link) -> None:
        if not any(known is link for known in self._touched):
            self._touched.append(link)

    def _begin(self, file: LogFile) -> _Link:
        last = next(reversed(self._links.values()), None)
        if last is not None:
            for fragment in last.splitter.finish():
                self._take_fragment(last, fragment)
            self._take_rows(last, last.trainer.finish())
            self._touch(last)
        old = self._links.pop(file.identity, None)
        if old is not None:
            self._unparsed_before += self._told(old).unparsed
            self._dropped_before += old.splitter.dropped_bytes
        link = _Link(
            file=file,
            splitter=LogSplitter(zone=self._parsers.zone, file_time=file.modified),
            trainer=self._parsers.make_trainer(),
            failure_lines=self._parsers.make_failures(),
            clocks=AttemptClocks(),
            first_attempt=self._attempts,
        )
        self._links[file.identity] = link
        return link

    def _skip(self, link: _Link) -> None:
        """Something was left out: what came before tells nothing of the rows that follow but the banners."""
        link.splitter = LogSplitter(zone=self._parsers.zone, file_time=link.file.modified, starts_mid_line=True)
        link.clocks = AttemptClocks()
        link.stamp = None
        link.failure_lines = self._parsers.make_failures()
        link.trainer.skip()
        self._starts_mid_run = True
        self._is_void = self._is_void or self.rows_given > 0
        self._rows.clear()
        self._batch.clear()
        self._last_untimed = self._last_given = None
        self._latest_time = None

    def _take_fragment(self, link: _Link, fragment: LogFragment) -> None:
        if fragment.time is not None:
            link.stamp = fragment.time
            link.clocks.note_stamp(fragment.time)
            if self._first_stamp is None:
                self._first_stamp = fragment.time
            self._newest_stamp = max(fragment.time, self._newest_stamp or fragment.time)
        is_hidden = self._take_line(link, fragment)
        if fragment.bar and (zero := _BAR_AT_ZERO.search(fragment.text)) is not None:
            total = link.trainer.total_steps
            if len(link.totals_at_zero) < _MOST_BARS:
                link.totals_at_zero.add(int(zero[1]))
            if total is None or int(zero[1]) == total:
                link.clocks.note_bar_at_zero()
        if self._attempts == 0 and not link.begins:
            link.begins = _BEGINS.search(fragment.text) is not None
        rows = link.trainer.feed((fragment,))
        self._take_rows(link, rows)
        if self._parsers.at is not None and not is_hidden:
            link.told_by_then = told_by(link.trainer)
        position = link.trainer.position
        if position is not None and link.newest_step != (position.attempt, position.step):
            self._take_rows(link, (position,))  # a bar moves with every step, metrics come once in several

    def _take_line(self, link: _Link, fragment: LogFragment) -> bool:
        """Take a line for all but its steps; tells whether it is hidden."""
        time = self._time_of_line(link, fragment)
        if self._parsers.at is not None and time is not None and time > self._parsers.at:
            return True
        known = fragment if link.written is None or fragment.time is not None else replace(fragment, time=link.written)
        link.failure_lines.feed((known,))
        self._console.take(fragment.text)
        if fragment.bar:
            return False
        self._benign.take(fragment.text, time)
        chunk = self._engine.take(fragment, time, chunk=link.chunk)
        if chunk is not None:
            link.chunk, link.chunk_completed = chunk, None
        elif (completed := generation_end(fragment.text)) is not None:
            link.chunk_completed = completed
        return False

    def _time_of_line(self, link: _Link, fragment: LogFragment) -> float | None:
        """A line without a stamp is not older than the stamp before it, nor than the look that did not see it yet."""
        if fragment.time is not None or link.written is not None:
            return link.written if fragment.time is None else fragment.time
        known = [time for time in (link.stamp, link.read_until) if time is not None]
        return max(known, default=None)

    def _take_rows(self, link: _Link, rows: Sequence[LogRow]) -> None:
        for row in rows:
            if self._attempts == 0 and _lacks_beginning(link, row):
                self._starts_mid_run = True
            link.rows += 1
            link.newest_step = (row.attempt, row.step)
            attempt = link.first_attempt + row.attempt
            self._attempts = max(self._attempts, attempt + 1)
            if row.elapsed is not None:
                link.clocks.note_elapsed(attempt, row.elapsed)
            is_undated = row.time is None and row.elapsed is None
            self._batch.append(_Untimed(link, replace(row, time=link.written) if is_undated else row, attempt))

    def _give(self, untimed: _Untimed) -> None:
        row, link = untimed.row, untimed.link
        if self._last_untimed is not None and self._last_untimed.attempt != untimed.attempt:
            # The last step of an attempt needs its time after all: what is new is told by it.
            self._add(replace(self._last_untimed.row, values={}), self._time_by_bar(self._last_untimed))
            self._last_untimed = None
        time = row.time
        if time is None and row.elapsed is not None:
            is_timed = link.clocks.is_worth_a_time(untimed.attempt, row)
            time = self._time_by_bar(untimed) if is_timed else None
            self._last_untimed = None if is_timed else untimed
        before, self._last_given = self._last_given, untimed
        begins = before is not None and before.attempt != untimed.attempt
        if before is not None and before.link is not link:
            begins = is_another_start(before.row, row)
        self._add(row, time, begins_attempt=begins)

    def _time_by_bar(self, untimed: _Untimed) -> float | None:
        elapsed, link = untimed.row.elapsed, untimed.link
        return None if elapsed is None else link.clocks.time(untimed.attempt, elapsed, link.file.modified)

    def _add(self, row: LogRow, time: float | None, *, begins_attempt: bool = False) -> None:
        if self._is_hidden(time):
            self._saw_hidden_row = True
            return
        if time is not None:
            self._latest_time = time
        self._cursor += 1
        self._rows.append(HistoryRow(self._cursor, time, row.step, row.values, begins_attempt=begins_attempt))

    def _is_hidden(self, time: float | None) -> bool:
        if self._parsers.at is None:
            return False
        return self._saw_hidden_row if time is None else time > self._parsers.at

    def history(self) -> HistoryUpdate:
        """Return the rows that were not given before, and what the log says of the run as a whole.

        How many lines could not be read stands in the facts, for whichever history the job has.
        """
        rows, self._rows = self._rows, []
        reset, self._is_void = self._is_void, False
        self.rows_given = len(rows) if reset else self.rows_given + len(rows)
        return HistoryUpdate(self._run(), rows, caught_up=self._caught_up, reset=reset)

    def drop_rows(self) -> None:
        """Let go of rows that nobody asks for, as if they were given: the job's history is not this log."""
        self.history()

    def _run(self) -> HistoryRun:
        newest = next(reversed(self._links.values()), None)
        totals = (self._told(link).total_steps for link in reversed(self._links.values()))
        total = next((total for total in totals if total is not None), None)
        ended = self._visible(self._end_of(newest)) if newest is not None and newest.trainer.completed else None
        return HistoryRun(
            heartbeat=self._visible(self._last_write()),
            created=self._visible(self._first_stamp),
            end=HistoryEnd.SUCCEEDED if ended is not None else None,
            ended_at=ended,
            config={} if total is None else {"num_train_steps": total},
            starts_mid_run=self._starts_mid_run,
        )

    def _end_of(self, link: _Link) -> float | None:
        """When a trainer that is done wrote its last: a copied file is as old as its copy, its stamps are not."""
        newest_row = self._latest_time
        if link.stamp is not None and (newest_row is None or link.stamp > newest_row - _LAST_STAMP_SECONDS):
            return max(link.stamp, newest_row or link.stamp)
        return link.file.modified

    def facts(self) -> LogFacts:
        """Return what the logs say beside their steps."""
        signals = self._engine.signals()
        newest = next(reversed(self._links.values()), None)
        failures = () if newest is None else newest.failure_lines.failures
        chunk_writes, failed_chunks = self._chunks()
        return LogFacts(
            files=tuple(file.path for file in self._files),
            last_write=self._visible(self._last_write()),
            running_requests=signals.running_requests,
            running_requests_time=signals.running_time,
            last_success=signals.last_success,
            auth_failures=signals.auth_failures,
            auth_failures_without_time=signals.auth_failures_without_time,
            api_base_public=signals.api_base_public,
            api_base_host=signals.api_base_host,
            tunnel_up=signals.tunnel,
            upload_complete=signals.upload_complete,
            upload_time=signals.upload_time,
            chunk=signals.chunk,
            chunks=signals.chunks,
            chunk_completed=signals.chunk_completed,
            chunk_last_writes=chunk_writes,
            failed_chunks=failed_chunks,
            failures=tuple(f for f in failures if not self._benign.covers(f.text))[:MAX_FAILURES],
            completed=newest is not None and newest.trainer.completed,
            ignored=tuple(IgnoredLines(c.reason, c.count, c.example, c.fault) for c in self._benign.counts()),
            unparsed=self._unparsed(),
            notes=tuple(self._notes(newest)),
            console=self._console.progress,
            uploaded_chunks=signals.uploaded_chunks,
            caught_up=self._caught_up,
        )

    def _chunks(self) -> tuple[dict[int, float], frozenset[int]]:
        """Return when the newest log of each chunk was written, and which of these logs end in the chunk's failure."""
        newest: dict[int, tuple[float, bool]] = {}
        for link in self._links.values():
            written = self._visible(link.file.modified)
            if link.chunk is None or written is None:
                continue
            stopped = any(failure.reason in _ENDS_A_CHUNK for failure in link.failure_lines.failures)
            failed = stopped if link.chunk_completed is None else not link.chunk_completed
            if link.chunk not in newest or written >= newest[link.chunk][0]:
                newest[link.chunk] = (written, failed)
        writes = {chunk: written for chunk, (written, _) in newest.items()}
        return writes, frozenset(chunk for chunk, (_, failed) in newest.items() if failed)

    def _told(self, link: _Link) -> Told:
        if self._parsers.at is None:
            return told_by(link.trainer)
        # Without stamps it is its rows that tell when a log was written.
        nothing_yet = self._saw_hidden_row and self._cursor == 0 and self._visible(self._first_stamp) is None
        return NOTHING_TOLD if nothing_yet else link.told_by_then

    def _unparsed(self) -> int:
        return self._unparsed_before + sum(self._told(link).unparsed for link in self._links.values())

    def _last_write(self) -> float | None:
        known = max((file.modified for file in self._files if file.modified_is_known), default=None)
        return self._newest_stamp if known is None else known

    def _visible(self, time: float | None) -> float | None:
        return None if time is None or (self._parsers.at is not None and time > self._parsers.at) else time

    def _notes(self, newest: _Link | None) -> list[str]:
        notes = []
        if newest is not None and (told := self._told(newest)).format:
            notes.append(f"steps are read as {told.format}")
        if self._compressed:
            notes.append(f"compressed and not read: {', '.join(self._compressed)}: nothing is known of what is in it")
        elif self._starts_mid_run:
            notes.append("the log is not read from the run's beginning (too long, or rotated): nothing is known before")
        dropped = self._dropped_before + sum(link.splitter.dropped_bytes for link in self._links.values())
        if dropped:
            notes.append(f"{dropped} bytes of lines longer than 64 KiB were not looked at")
        last_write = self._last_write()
        if last_write is not None and self._newest_stamp is not None:
            ahead = self._newest_stamp - last_write
            if ahead > _ZONE_SECONDS:
                notes.append(f"stamps are {ahead:.0f} s ahead of the file's time: is the site's timezone right?")
        return notes


def _lacks_beginning(link: _Link, row: LogRow) -> bool:
    """Tell of the first row of a log whether what came before it is gone, as where old files are taken away."""
    if row.elapsed is None or row.elapsed <= _BEGAN_SECONDS or link.begins:
        return False
    return link.trainer.total_steps not in link.totals_at_zero
