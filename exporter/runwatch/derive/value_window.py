"""The latest value of one logged quantity, and how it compares with the values logged before it."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

RATIO_DECIMALS = 12
"""Ratios are rounded: in binary 2.1 / 1.4 is above 1.5, and 1.3 / 1.0 - 1 above 0.30, and neither passes a limit."""


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """One logged value and where it came from: its key, its row's cursor, step and Unix time."""

    value: float
    key: str
    cursor: int
    step: int | None
    time: float | None


@dataclass(frozen=True, slots=True)
class WindowRatio:
    """A value divided by the median of the window of values logged before it."""

    ratio: float
    logged: LoggedValue
    median: float

    @property
    def time(self) -> float | None:
        """The row's Unix time."""
        return self.logged.time


class LatestValue:
    """Follows one quantity: its latest value and its latest finite value."""

    def __init__(self) -> None:
        self.latest: LoggedValue | None = None
        self.latest_finite: LoggedValue | None = None

    def add(self, logged: LoggedValue) -> None:
        """Take the next logged value."""
        self.latest = logged
        if math.isfinite(logged.value):
            self.latest_finite = logged


class ValueWindow(LatestValue):
    """Also compares each value with the median of a window of the `size` values before it.

    Windows count logged finite values, not step numbers, and give no ratio until they are full. A ratio is kept for
    the last `ratio_count` values and, beyond that, while its row is at most `recent_seconds` older than the newest.
    A value that has no ratio (the median of its window is 0) ends the row of last values: those before it go.
    """

    def __init__(self, size: int, *, ratio_count: int = 1, recent_seconds: float = 0.0) -> None:
        super().__init__()
        self._size = size
        self._ratio_count = ratio_count
        self._recent_seconds = recent_seconds
        self._window: deque[float] = deque()
        self._sorted: list[float] = []
        self._ratios: deque[WindowRatio] = deque()

    def add(self, logged: LoggedValue) -> None:
        """Take the next logged value."""
        super().add(logged)
        if not math.isfinite(logged.value):
            return
        if len(self._window) == self._size:
            self._note_ratio(logged)
            oldest = self._window.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._window.append(logged.value)
        insort(self._sorted, logged.value)

    def ratios(self) -> tuple[WindowRatio, ...]:
        """Return the kept ratios, oldest first; empty while the latest value is not finite (it has no ratio)."""
        if self.latest is None or not math.isfinite(self.latest.value):
            return ()
        return tuple(self._ratios)

    def _note_ratio(self, logged: LoggedValue) -> None:
        middle = self._size // 2
        median = self._sorted[middle]
        if self._size % 2 == 0:
            median = (self._sorted[middle - 1] + median) / 2
        if median == 0 or not math.isfinite(logged.value / median):
            self._ratios = deque(ratio for ratio in self._ratios if self._is_recent(ratio, logged.time))
            return
        self._ratios.append(WindowRatio(round(logged.value / median, RATIO_DECIMALS), logged, median))
        while len(self._ratios) > self._ratio_count and not self._is_recent(self._ratios[0], logged.time):
            self._ratios.popleft()

    def _is_recent(self, ratio: WindowRatio, newest: float | None) -> bool:
        if ratio.time is None or newest is None:
            return False
        # A clock that was set back leaves rows dated hours after the newest: they are no more recent than old ones.
        return abs(newest - ratio.time) <= self._recent_seconds
