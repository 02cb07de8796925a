"""Exact medians of many durations in little memory.

A run of a million steps has a few hundred distinct durations when they are counted by whole milliseconds, so the
counts cost kilobytes where the values would cost tens of megabytes, and adding one is O(1).
"""

from __future__ import annotations

from collections.abc import Iterable

_NANOSECONDS_PER_SECOND = 1_000_000_000
_MICROSECOND = 1_000
_MILLISECOND = 1_000_000
_DECIDE_AT_COUNT = 1_000
_MILLISECONDS_FROM_SECONDS = 0.1
_MICROSECONDS_FROM_SECONDS = 0.0001


class IntervalCounts:
    """Counts of durations in seconds, for their median.

    The median is exact to one nanosecond below 1,000 values, and for runs whose median is then below 0.1 ms (they count
    tokens as steps); to one microsecond where it is below 100 ms, else to one millisecond. The unit is chosen once, at
    the 1,000th value, so that how the values were paged in changes nothing.
    """

    __slots__ = ("_counts", "_total", "_unit")

    def __init__(self, durations: Iterable[float] = ()) -> None:
        self._counts: dict[int, int] = {}
        self._total = 0
        self._unit = 1  # nanoseconds
        for duration in durations:
            self.add(duration)

    def __len__(self) -> int:
        return self._total

    def add(self, seconds: float) -> None:
        """Count one duration."""
        key = round(seconds * _NANOSECONDS_PER_SECOND / self._unit)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._total += 1
        if self._total == _DECIDE_AT_COUNT:
            self._choose_unit()

    def median(self) -> float | None:
        """Return the median in seconds, or None when there is no value."""
        if not self._total:
            return None
        lower_rank = (self._total - 1) // 2
        upper_rank = self._total // 2
        seen = 0
        lower: int | None = None
        for key in sorted(self._counts):
            seen += self._counts[key]
            if lower is None and seen > lower_rank:
                lower = key
            if seen > upper_rank:
                return ((lower if lower is not None else key) + key) / 2 * self._unit / _NANOSECONDS_PER_SECOND
        return None

    def _choose_unit(self) -> None:
        median = self.median()
        if median is None or median < _MICROSECONDS_FROM_SECONDS:
            return
        unit = _MILLISECOND if median >= _MILLISECONDS_FROM_SECONDS else _MICROSECOND
        fine, self._counts, self._unit = self._counts, {}, unit
        for key, count in fine.items():
            coarse = round(key / unit)
            self._counts[coarse] = self._counts.get(coarse, 0) + count


class RateCounts:
    """Counts of rates (tokens a second) by 0.1 %, for their median: the trainer's own figure has too many values."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[float, int] = {}
        self._total = 0

    def add(self, rate: float) -> None:
        """Count one rate; it is rounded to four significant digits."""
        key = float(f"{rate:.4g}")
        self._counts[key] = self._counts.get(key, 0) + 1
        self._total += 1

    def __len__(self) -> int:
        return self._total

    def median(self) -> float | None:
        """Return the median, or None when there is no value."""
        seen = 0
        lower: float | None = None
        for key in sorted(self._counts):
            seen += self._counts[key]
            if lower is None and seen > (self._total - 1) // 2:
                lower = key
            if lower is not None and seen > self._total // 2:
                return (lower + key) / 2
        return None
