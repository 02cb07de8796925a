"""Following a log of which an interface gives only the last lines: what is new is what the overlap leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from runwatch.facts import Failure, FailureReason
from runwatch.sources.log_files import LogFile
from runwatch.sources.log_follower import LogNews, LogPage, PageStart

TAIL_LINES = 5000

FetchTail = Callable[[int], Sequence[str] | Failure]
"""Fetches at most so many of the newest lines."""


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
        lines = fetch(self._max_lines)
        if not isinstance(lines, Failure) and len(lines) < max(len(self._before or ()), 1):
            lines = fetch(self._max_lines)
        if isinstance(lines, Failure):
            return lines
        if not lines and self._before:
            return Failure(
                FailureReason.OTHER, f"{self._name}: no lines came back, twice, where there were some before"
            )
        return self._news(tuple(lines))

    def _news(self, lines: tuple[str, ...]) -> LogNews:
        before, self._before = self._before, lines
        if before is None:
            start = PageStart.BEGINS if len(lines) < self._max_lines else PageStart.SKIPS
            return self._page(lines, start)
        known = overlap(before, lines) or overlap(before[:-1], lines)  # the last line may have grown
        if known:
            return self._page(lines[known:], PageStart.CONTINUES)
        if len(lines) < min(len(before), self._max_lines):
            self._generation += 1  # shorter, and nothing of the old: another container's log
            self._size = 0
            return self._page(lines, PageStart.BEGINS)
        return self._page(lines, PageStart.SKIPS if before else PageStart.CONTINUES)

    def _page(self, lines: Sequence[str], start: PageStart) -> LogNews:
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        if start is PageStart.SKIPS:
            data = b"\n" + data  # it begins at a line, which is none to drop
        self._size += len(data)
        if lines:
            # The lines of a first look may be of any age; those of a later one came since the look before.
            self._changed_is_known = self._changed is not None
            self._changed = self._clock()
        changed = self._clock() if self._changed is None else self._changed
        file = LogFile(self._name, (0, self._generation), self._size, changed, self._changed_is_known)
        pages = (LogPage(file, data, start),) if lines or start is PageStart.BEGINS else ()
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
