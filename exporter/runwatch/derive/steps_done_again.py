"""How many steps were done again, where a history shows steps going back.

Needs no times: a log's bar tells of every step, while only some of its rows have a time of their own.
"""

from __future__ import annotations


class StepsDoneAgain:
    """Takes the step of one row after another, in the order they were logged; `count` is the number so far."""

    __slots__ = ("_high_water", "_previous", "_usual_distance", "count")

    def __init__(self) -> None:
        self.count = 0
        self._previous: int | None = None
        self._high_water: int | None = None
        self._usual_distance = 1

    def add(self, step: int, *, restarted: bool = False) -> None:
        """Take the next row's step.

        Args:
            step: its number.
            restarted: the run was started again since the row before: the same step is not only logged twice then.
        """
        previous, self._previous = self._previous, step
        high = self._high_water
        if high is None or previous is None:
            self._high_water = step
        elif step > high:
            self.count += high - previous
            self._usual_distance = step - high
            self._high_water = step
        elif step < previous or (step == previous and restarted):
            # The steps between the checkpoint and this row were done again too; how many is not logged. Rows come at
            # a usual distance, so that many.
            self.count += min(self._usual_distance, step + 1)
        else:
            self.count += step - previous
