"""Which steps to ask for next, so that no answer is a sample: pure arithmetic, no I/O.

W&B's `history(minStep, maxStep, samples)` gives every row of the range when there are not more than `samples` of
them, and a random sample of `samples` rows otherwise, without a word. How many rows lie in a range is not known before
it is asked, steps may begin anywhere and be any distance apart, and a server may give fewer than `samples` on its own.
So each answer is judged: complete, or a sample. A sample is never kept as rows; it only shows where rows lie, and so
where to cut the range.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from runwatch.sources.wandb_requests import LAST_STEP

SURVEY_ROWS = 500
"""Asked of each run in a poll: W&B's own default. More new rows than this are read range by range."""

PAGE_ROWS = 10_000
"""Asked of one range in a long read."""

_SMALLEST_LIMIT = 100
"""A smaller answer is not taken for a server's limit: it would make every long read slow."""

_FEWEST_CONTIGUOUS = 8
_FILL = 0.7
"""Part of a page that a range of uneven steps is meant to fill: the rest is for the survey's error."""


@dataclass(slots=True)
class ServerPages:
    """What one server was seen to give: shared by all runs on it.

    `size` is how many rows to ask for; `proven` the most that ever came in one answer. An answer below `proven` and
    below what was asked for was not cut by the server.
    """

    size: int = PAGE_ROWS
    proven: int = 0


@dataclass(slots=True)
class RangeReader:
    """How far one run's history was read.

    `cursor` is the first step not read yet, `rows_read` how many rows were kept. `line_count` is W&B's own count of the
    run's lines, when last heard; `surplus` by how much it is known to exceed the rows that can be read.

    In a long read an answer below what was asked for is trusted at first, and W&B's own count proves it at the end.
    Where the count says that rows are missing, or the server's limit shows meanwhile, everything is `void` and read
    again with no such trust; the owner takes note and sets `void` back.
    """

    pages: ServerPages
    cursor: int = 0
    rows_read: int = 0
    line_count: int | None = None
    surplus: int = 0
    pending: deque[tuple[int, int]] = field(default_factory=deque)
    void: bool = False
    _trusting: bool = True
    _unproven: bool = False

    def next_range(self) -> tuple[int, int, int]:
        """The next range to ask for.

        Returns:
            First step, step after the last, and the number of samples.
        """
        if self.pending:
            low, high = self.pending[0]
            return low, high, self.pages.size
        return self.cursor, LAST_STEP, min(SURVEY_ROWS, self.pages.size)

    def missing(self, new: int = 0) -> int:
        """How many more rows than were read (and `new`) there must be by W&B's own count; 0 where it is not known."""
        if self.line_count is None:
            return 0
        return max(0, self.line_count - self.surplus - self.rows_read - new)

    def take(self, asked: tuple[int, int, int], steps: Sequence[int], unplaced: int) -> bool:
        """Judge an answer and move on.

        Args:
            asked: What `next_range` gave.
            steps: `_step` of each row of the answer that has one, ascending.
            unplaced: How many rows of it have no readable step.

        Returns:
            Whether the rows are all the rows from the range's start to the last of them, and are to be kept.
        """
        low, high, samples = asked
        count = len(steps) + unplaced
        if self.pending:
            self.pending.popleft()
        known_limit = self.pages.proven
        self.pages.proven = max(known_limit, count)
        if not self._may_be_cut(asked, count, known_limit):
            self._keep(steps, count)
            if self._unproven and not self.pending and self.missing() > 0:
                self._start_over()
                return False
            return True
        if samples > count == known_limit >= _SMALLEST_LIMIT:
            # The same number came twice where more was asked for: that is the server's own limit.
            self.pages.size = count
            if self._unproven:
                self._start_over()
                return False
        if _contiguous(steps, count):
            self._keep(steps, count)
            if steps[-1] + 1 < high:
                self.pending.appendleft((steps[-1] + 1, high))
            return True
        if samples < self.pages.size and not self.pending and count < self.missing() <= _FILL * self.pages.size:
            self.pending.appendleft((low, high))
            return False
        bounds = self._bounds(low, high, steps, count)
        if not bounds:
            self._keep(steps, count)
            return True
        self.pending.extendleft(reversed(list(itertools.pairwise([low, *bounds, high]))))
        return False

    def _may_be_cut(self, asked: tuple[int, int, int], count: int, known_limit: int) -> bool:
        low, high, samples = asked
        if count == 0 or high - low <= 1:
            return False
        if count >= samples:
            return high - low > count
        if count < known_limit:
            return False
        if samples > SURVEY_ROWS and self._trusting and self.line_count is not None and count != known_limit:
            self._unproven = True
            return False
        return bool(self.pending) or self.missing(count) > 0

    def _start_over(self) -> None:
        self.cursor, self.rows_read, self.void = 0, 0, True
        self.pending.clear()
        self._trusting, self._unproven = False, False

    def _keep(self, steps: Sequence[int], count: int) -> None:
        self.rows_read += count
        if not self.pending and self.missing() == 0:
            self._unproven = False
        if steps:
            self.cursor = max(self.cursor, steps[-1] + 1)

    def _bounds(self, low: int, high: int, steps: Sequence[int], count: int) -> list[int]:
        """Where to cut [low, high), shown by a sample of its rows: ascending, each strictly inside."""
        if not steps:
            return _inside([low + (high - low) // 2], low, high)
        size = self.pages.size
        first, last = steps[0], steps[-1]
        # Only of the whole rest is it known how many rows it holds.
        rows = self.missing() if not self.pending else 0
        bounds: list[int] = []
        if rows > count and last - first < 1.3 * rows:
            # Nearly one row a step: a range not wider than a page cannot be a sample.
            start = low if first - low < size else first
            bounds = [start, *range(start + size, last + 1, size)]
        elif rows > count:
            stride = max(1, int(_FILL * size * len(steps) / rows))
            bounds = list(steps[stride::stride])
        return (
            _inside(bounds, low, high)
            or _inside([steps[len(steps) // 2]], low, high)
            or _inside([first + 1, last], low, high)[:1]
            or _inside([low + 1], low, high)
        )


def _contiguous(steps: Sequence[int], count: int) -> bool:
    """Whether these are rows of consecutive steps, each once: no random sample of more rows looks like that."""
    if count < _FEWEST_CONTIGUOUS or len(steps) != count:
        return False
    return all(after - before == 1 for before, after in itertools.pairwise(steps))


def _inside(bounds: Sequence[int], low: int, high: int) -> list[int]:
    return sorted({bound for bound in bounds if low < bound < high})
