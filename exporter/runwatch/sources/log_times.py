"""When the rows of a log were written, where they carry no stamp of their own.

A progress bar counts seconds since its start, so all rows of one attempt have their times once the start is known.
Two things tell it, and the first is the better:

- the last stamped line before the bar is drawn at 0: a trainer's banner stands right before it, so this is exact to
  some seconds;
- a bar was written before the file was last written, and before a stamped line that follows it: the start is not
  after (that time - what the bar said). It is exact while the bar is the newest thing in the file, and where a line
  with a stamp, such as that of a saved checkpoint, comes right behind it.

An attempt that another follows in the same file ended before that one began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from runwatch.parsing.log_records import LogRow

LATE_ANCHOR_SECONDS = 300.0
"""An attempt's start that turns out to be so much too late is worth reading the log again: below, no gap is made or
hidden by it."""

_STAMP_TOLERANCE_SECONDS = 2.0  # bars count whole seconds
_SPACING_SECONDS = 10.0
"""How far rows must lie apart to have times of their own, so that a bar's whole seconds do not distort durations; 20 of
it is below the floor of the gap threshold. In the first half minute a third of what has passed is enough."""
_SAME_START_SECONDS = 60.0


def is_another_start(before: LogRow, row: LogRow) -> bool:
    """Tell whether the trainer was started again between the last row of one file and the first of the next.

    A log that was cut in two goes on with its bar's seconds; rows without such seconds are of another start.
    """
    if before.elapsed is None or row.elapsed is None or row.elapsed < before.elapsed:
        return True
    if before.time is None or row.time is None:
        return False
    return row.time - row.elapsed - (before.time - before.elapsed) > _SAME_START_SECONDS


@dataclass(slots=True)
class _Attempt:
    began: float | None = None
    latest: float = math.inf
    last_elapsed: float = 0.0
    start: float | None = None


class AttemptClocks:
    """The starts of the attempts in one file. Rows and stamped lines are noted in the order of the file."""

    def __init__(self) -> None:
        self._attempts: dict[int, _Attempt] = {}
        self._newest: int | None = None
        self._stamp: float | None = None
        self._began: float | None = None
        self._last_timed: tuple[int, int, float] | None = None
        self.too_late = False

    def note_stamp(self, stamp: float) -> None:
        """Note a line with a stamp of its own."""
        self._stamp = stamp
        if self._newest is not None:
            attempt = self._attempts[self._newest]
            attempt.latest = min(attempt.latest, stamp - attempt.last_elapsed)

    def note_bar_at_zero(self) -> None:
        """Note that the bar of a new attempt is drawn for the first time."""
        self._began = self._stamp

    def note_elapsed(self, attempt: int, elapsed: float) -> None:
        """Note a row whose attempt's bar says so many seconds."""
        known = self._attempts.get(attempt)
        if known is None:
            known = self._attempts[attempt] = _Attempt(began=self._began)
            self._began = None
        known.last_elapsed = elapsed
        self._newest = attempt

    def settle(self, modified: float) -> None:
        """Tell the starts, after everything that was in the file at its last change was noted.

        Args:
            modified: that time in Unix seconds; infinite where it is not known.
        """
        end = modified
        for number in sorted(self._attempts, reverse=True):
            attempt = self._attempts[number]
            attempt.latest = min(attempt.latest, end - attempt.last_elapsed)
            if attempt.start is None and math.isfinite(attempt.latest):
                is_exact = attempt.began is not None and attempt.began <= attempt.latest + _STAMP_TOLERANCE_SECONDS
                attempt.start = min(attempt.latest, attempt.began or math.inf) if is_exact else attempt.latest
            elif attempt.start is None:
                attempt.start = attempt.began
            elif attempt.latest < attempt.start - LATE_ANCHOR_SECONDS:
                self.too_late = True
            if attempt.start is not None:
                end = attempt.start

    def is_worth_a_time(self, attempt: int, row: LogRow) -> bool:
        """Tell whether a row lies far enough behind the last one that was given a time, and note that it has one.

        Bars count whole seconds: of steps that take about one, each would seem to take one, two or none. Rows of one
        step have one time.
        """
        elapsed = row.elapsed or 0.0
        last = self._last_timed
        if last is not None and last[0] == attempt and last[1] != row.step:
            spacing = min(max(elapsed / 3, 1.0), _SPACING_SECONDS)
            if 0 <= elapsed - last[2] < spacing:
                return False
        if last is None or last[:2] != (attempt, row.step):
            self._last_timed = (attempt, row.step, elapsed)
        return True

    def time(self, attempt: int, elapsed: float, modified: float) -> float | None:
        """Return when a row was written, never after the file was. `settle` comes first."""
        known = self._attempts.get(attempt)
        if known is None or known.start is None:
            return None
        return min(known.start + elapsed, modified)
