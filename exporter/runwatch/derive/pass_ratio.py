"""When an RL job's pass ratio was low, and at which of its steps: a signal of the collapse rule.

History does not tell it, trials do. The ratio at a step is made from when each trial ended, so that a restart, or an
output for a time gone by, finds the same steps. A step is the job's newest from its own row until the next step's
row: the signal holds there when the ratio was low at any moment of that time, as the alert rule saw it then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

from runwatch.parsing.log_records import TrialResult
from runwatch.thresholds import RL_TRIAL_PASS_RATIO_LOW, RL_TRIAL_WINDOW_COUNT


@dataclass(frozen=True, slots=True)
class LowSpan:
    """A time, Unix seconds, in which the pass ratio was low: from `start` to just before `end`, infinite if it is."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step and when it was the newest one: from `since` until just before `until`, in Unix seconds.

    `since` is None where its rows have no time, `until` while it is the newest.
    """

    step: int
    since: float | None
    until: float | None


@dataclass(frozen=True, slots=True)
class PassRatioTimes:
    """What trials tell of the pass ratio over time.

    `spans` are in order and apart from one another, `low_now` tells whether the ratio of the newest trials is low, and
    after `known_until`, Unix seconds, nothing was confirmed.
    """

    spans: tuple[LowSpan, ...] = ()
    low_now: bool = False
    known_until: float = inf

    def low_at(self, step: TimedStep) -> bool:
        """Tell whether the ratio was low while a step was the newest one.

        A step that came when the trials had not answered for long is none: a blind source starts nothing new. Of one
        without a time only the present is known, while it is the newest.
        """
        if step.since is None:
            return self.low_now and step.until is None
        if step.since > self.known_until:
            return False
        if self.low_now and step.until is None:
            return True
        until = inf if step.until is None else step.until
        # The last span that began before the next step, or no later than the step itself.
        index = max(
            bisect_left(self.spans, until, key=lambda span: span.start),
            bisect_right(self.spans, step.since, key=lambda span: span.start),
        )
        return index > 0 and self.spans[index - 1].end > step.since

    def newest_low(self, steps: Sequence[TimedStep], above: int | None) -> int | None:
        """Return the newest of the steps at which the ratio was low.

        Args:
            steps: In ascending order.
            above: Only steps above this one are looked at.
        """
        if not self.spans:
            return None
        for step in reversed(steps):
            if above is not None and step.step <= above:
                return None
            if self.low_at(step):
                return step.step
        return None


def is_low(passed: int, scored: int) -> bool:
    """Tell whether hardly any of the last trials passed, over a full window of them."""
    return scored >= RL_TRIAL_WINDOW_COUNT and passed / scored < RL_TRIAL_PASS_RATIO_LOW


def low_spans(ordered: Sequence[TrialResult]) -> tuple[LowSpan, ...]:
    """Return when the pass ratio over the last `RL_TRIAL_WINDOW_COUNT` scored trials was low.

    Args:
        ordered: All scored trials by the time at which they ended, the newest last. Trials without a time are in no
            window: where they stand is not known.
    """
    timed = [(trial.finished, (trial.reward or 0.0) > 0) for trial in ordered if trial.finished is not None]
    spans: list[LowSpan] = []
    start: float | None = None
    passed = 0
    index = 0
    for time, together in groupby(timed, key=lambda pair: pair[0]):
        for _, passes in together:
            passed += passes
            if index >= RL_TRIAL_WINDOW_COUNT:
                passed -= timed[index - RL_TRIAL_WINDOW_COUNT][1]
            index += 1
        low = is_low(passed, min(index, RL_TRIAL_WINDOW_COUNT))
        if low and start is None:
            start = time
        elif not low and start is not None:
            spans.append(LowSpan(start, time))
            start = None
    return tuple(spans) if start is None else (*spans, LowSpan(start, inf))
