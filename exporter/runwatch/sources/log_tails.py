"""Following a log of which an interface gives only the last lines: what is new is what the overlap leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runwatch.facts import Failure, FailureReason
from runwatch.sources.log_files import LogFile
from runwatch.sources.log_follower import LogNews, LogPage, LogPortion, PageStart

TAIL_LINES = 5000


@dataclass(frozen=True, slots=True)
class TailLine:
    """A line; when it was written (Unix seconds) and which process of the gang wrote it, where the interface tells."""

    text: str
    time: float | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest lines of a log; `is_whole` tells whether these are all there are."""

    lines: Sequence[str | TailLine]
    is_whole: bool


FetchTail = Callable[[int], Tail | Failure]
"""Fetches so many of the newest lines, or fewer."""


class TailFollower:
    """Follows one job's log by its tails.

    Args:
        name: what the log is called in notes.
        max_lines: how many lines one fetch asks for.
        clock: the time now, Unix seconds: a tail has no other time of its own.
    """

    def __init__(self, name: str, *, max_lines: int = TAIL_LINES, clock: Callable[[], float] = time.time) -> None:
        self._name = name
        self._max_lines = max_lines
        self._clock = clock
        self._before: tuple[str, ...] | None = None
        self._generation = 0
        self._size = 0
        self._changed: float | None = None
        self._changed_is_known = False

    def look(self, fetch: FetchTail) -> LogNews | Failure:
        """Fetch the tail and return its new lines. One that is shorter than the one before is fetched once more."""
        tail = fetch(self._max_lines)
        if not isinstance(tail, Failure) and len(tail.lines) < max(len(self._before or ()), 1):
            tail = fetch(self._max_lines)
        if isinstance(tail, Failure):
            return tail
        if not tail.lines and self._before:
            return Failure(
                FailureReason.OTHER, f"{self._name}: no lines came back, twice, where there were some before"
            )
        lines = tuple(TailLine(line) if isinstance(line, str) else line for line in tail.lines)
        return self._news(lines, is_whole=tail.is_whole)

    def _news(self, lines: tuple[TailLine, ...], *, is_whole: bool) -> LogNews:
        texts = tuple(line.text for line in lines)
        before, self._before = self._before, texts
        if before is None:
            return self._page(lines, PageStart.BEGINS if is_whole else PageStart.SKIPS)
        known = overlap(before, texts) or overlap(before[:-1], texts)  # the last line may have grown
        if known:
            return self._page(lines[known:], PageStart.CONTINUES)
        if before and is_whole:
            self._generation += 1  # nothing of the old: another container's log
            self._size = 0
            return self._page(lines, PageStart.BEGINS)
        return self._page(lines, PageStart.SKIPS if before else PageStart.CONTINUES)

    def _page(self, lines: Sequence[TailLine], start: PageStart) -> LogNews:
        portions = tuple(
            LogPortion(f"{line.text}\n".encode("utf-8", "replace"), line.time, line.rank) for line in lines
        )
        if start is PageStart.SKIPS:
            portions = (LogPortion(b"\n"), *portions)  # it begins at a line, which is none to drop
        data = b"".join(portion.data for portion in portions)
        self._size += len(data)
        times = [line.time for line in lines if line.time is not None]
        if lines:
            # The lines of a first look may be of any age; those of a later one came since the look before.
            # So may one behind the last that has a time: a bar that was redrawn in its line.
            newest_is_timed = lines[-1].time is not None
            self._changed_is_known = newest_is_timed or self._changed is not None
            self._changed = max(times) if newest_is_timed else self._clock()
        changed = self._clock() if self._changed is None else self._changed
        file = LogFile(self._name, (0, self._generation), self._size, changed, self._changed_is_known)
        page = LogPage(file, data, start, portions)
        pages = (page,) if lines or start is PageStart.BEGINS else ()
        return LogNews(pages, (file,))


def overlap(before: Sequence[str], lines: Sequence[str]) -> int:
    """Return how many of the first of `lines` are the last of `before`: the most that fit. Takes linear time."""
    if not before or not lines:
        return 0
    # The prefix function of Knuth, Morris and Pratt, run over `lines` and then over the end of `before`.
    borders = [0] * len(lines)
    length = 0
    for place in range(1, len(lines)):
        while length and lines[place] != lines[length]:
            length = borders[length - 1]
        if lines[place] == lines[length]:
            length += 1
        borders[place] = length
    matched = 0
    for line in before[-len(lines) :]:
        if matched == len(lines):
            matched = borders[matched - 1]
        while matched and line != lines[matched]:
            matched = borders[matched - 1]
        if line == lines[matched]:
            matched += 1
    return matched
