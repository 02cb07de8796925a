"""When the first new step after a given time was logged, in little memory.

An attempt that began days ago still has to be told when its first new step came. All times of a run of a million steps
would cost megabytes a job, so the newest are kept, and of the older ones only the long intervals: a restart lies in
one of those.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

_RECENT_KEPT = 512
_LONG_KEPT = 1024
_LONG_SECONDS = 30.0
_LONG_FACTOR = 2.0
_USUAL_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class NewSteps:
    """Times of new steps, Unix seconds, ascending: the first of all, the newest, and the long intervals before those.

    `usual` is the median interval in seconds, None while it is not known.
    """

    first: float | None = None
    recent: tuple[float, ...] = ()
    long_intervals: tuple[tuple[float, float], ...] = ()
    usual: float | None = None

    def first_at_or_after(self, time: float) -> float | None:
        """Return when the first new step at or after `time` was logged, or None while there is none.

        Exact within the newest 512 new steps, and wherever the interval that holds `time` is a long one. Else that
        interval was an ordinary one: the answer is one usual interval after `time`, right to within that.
        """
        if not self.recent or self.first is None or time > self.recent[-1]:
            return None
        if time <= self.first:
            return self.first
        if time > self.recent[0]:
            return self.recent[bisect_left(self.recent, time)]
        found = next((end for start, end in reversed(self.long_intervals) if start < time <= end), None)
        return found if found is not None else min(time + (self.usual or 0.0), self.recent[0])


class NewStepTimes:
    """Takes the times of new steps, ascending."""

    __slots__ = ("_first", "_long", "_recent", "_usual")

    def __init__(self) -> None:
        self._first: float | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT_KEPT)
        self._long: list[tuple[float, float]] = []
        self._usual: float | None = None

    def add(self, time: float) -> None:
        """Take the time of the next new step."""
        if self._first is None:
            self._first = time
        if self._recent:
            self._note(self._recent[-1], time)
        self._recent.append(time)

    def set_back(self, time: float) -> None:
        """Take the time of the next new step by a clock that was set back: what it has not reached yet is dropped."""
        while self._recent and self._recent[-1] > time:
            self._recent.pop()
        self._long = [interval for interval in self._long if interval[1] <= time]
        self._first = time if self._first is None else min(self._first, time)
        self._recent.append(time)

    def _note(self, start: float, end: float) -> None:
        seconds = end - start
        if self._usual is None:
            self._usual = seconds
        if seconds >= _LONG_SECONDS and seconds >= _LONG_FACTOR * self._usual:
            self._long.append((start, end))
            if len(self._long) > 2 * _LONG_KEPT:
                longest = sorted(self._long, key=lambda interval: interval[0] - interval[1])[:_LONG_KEPT]
                self._long = sorted(longest)
            return
        self._usual += _USUAL_WEIGHT * (seconds - self._usual)

    def snapshot(self, usual: float | None) -> NewSteps:
        """Return what is kept now."""
        return NewSteps(self._first, tuple(self._recent), tuple(self._long), usual)
