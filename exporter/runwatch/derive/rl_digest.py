"""What is kept of an RL job's history: bounded, fed row by row, the same however the rows of a step are split.

A step that comes after higher ones means that the job went on from an older checkpoint: the policy that made the
steps from there on no longer exists, so they leave the windows and the collapse steps before the new row is taken.
Only rows with values of a step do that; an eval at the resumed step and timings belong to no policy update.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runwatch.derive.pass_ratio import TimedStep
from runwatch.derive.rl_keys import (
    ENTROPY_KEYS,
    EVAL_SCORE_KEYS,
    GRAD_NORM_KEYS,
    LEARNING_RATE_KEYS,
    LOG_RATIO_MAX_KEYS,
    LOG_RATIO_MEAN_KEYS,
    REWARD_KEYS,
    ROLLOUTS_KEYS,
    STEP_DEFINING_KEYS,
    TIMING_PREFIX,
    MeasuredStep,
    first_logged,
    is_step_key,
    leave_out_unmeasured,
)
from runwatch.derive.rl_signals import StepFigures, compare_with_mean, compare_with_median, signals_that_hold
from runwatch.facts import HistoryRow
from runwatch.thresholds import RL_COLLAPSE_SIGNALS, RL_WINDOW

VALUES_KEPT = 512  # of each key with a window: a rollback may void hundreds of steps and the window is still full
RECORDS_KEPT = 64  # whole steps, for the values of the step before a rollback
COLLAPSE_STEPS_KEPT = 1000
ONE_SIGNAL_SHORT_KEPT = 2000  # not only the newest: what trials tell of a step may change as long as they come
TIMING_PARTS_KEPT = 64  # every part is a series; SkyRL has about 20
RECENT_REWARDS = 5


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """A value with the key it was logged under and its step."""

    key: str
    value: float
    step: int


@dataclass(frozen=True, slots=True)
class RLSummary:
    """What an RL job's measurements are made from.

    `step` is the newest step at which a value of `STEP_DEFINING_KEYS` was measured (NaN counts: it was logged), None
    before there is one. `values` and `figures` are that step's, `since` is when its first row was logged, Unix seconds.
    `collapse_step` is the newest step at which history alone shows that the collapse rule held, `one_signal_short` are
    those, ascending, at which a low pass ratio would have made it hold. `timings` holds the newest value of each part,
    `timing_parts_left_out` how many parts were over the limit. `recent_rewards` are the last five steps' finite
    rewards, oldest first, `recent_rollouts` over how many rollouts each is the mean, None where it was not logged.
    """

    step: int | None = None
    values: MeasuredStep = field(default_factory=lambda: MeasuredStep({}))
    figures: StepFigures = field(default_factory=StepFigures)
    since: float | None = None
    collapse_step: int | None = None
    one_signal_short: tuple[TimedStep, ...] = ()
    timings: Mapping[str, LoggedValue] = field(default_factory=dict)
    timing_parts_left_out: int = 0
    learning_rate: LoggedValue | None = None
    eval_score: LoggedValue | None = None
    recent_rewards: tuple[float, ...] = ()
    recent_rollouts: tuple[float | None, ...] = ()


def completed_by(told: RLSummary, before: RLSummary) -> RLSummary:
    """Complete what a history tells that is read in another's place, such as a log, by what the other told last.

    Where it tells no RL values at all, those of the other stay. Where it tells some, a collapse that the other showed
    at one of the steps before is not forgotten, unless the step was taken back since.
    """
    if told.step is None:
        return before
    held, known = before.collapse_step, told.collapse_step
    if held is None or held > told.step or (known is not None and known >= held):
        return told
    return replace(told, collapse_step=held)


class _Series:
    """The last finite values of one quantity with their steps, ascending, one value a step."""

    __slots__ = ("_steps", "_values", "keys")

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._steps: list[int] = []
        self._values: list[float] = []

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Set the value of the newest step anew, or take it away; what is held of later steps goes."""
        start = bisect_left(self._steps, step)
        del self._steps[start:]
        del self._values[start:]
        logged = first_logged(values, self.keys)
        if logged is None or not math.isfinite(logged[1]):
            return
        self._steps.append(step)
        self._values.append(logged[1])
        if len(self._steps) > VALUES_KEPT:
            del self._steps[0]
            del self._values[0]

    def at(self, step: int) -> float | None:
        return self._values[-1] if self._steps and self._steps[-1] == step else None

    def before_latest(self) -> list[float]:
        return self._values[-1 - RL_WINDOW : -1]

    def beside(self, other: _Series, count: int) -> tuple[float | None, ...]:
        """Return its value at each of the last steps of another series, None where it has none there."""
        own = dict(zip(self._steps, self._values, strict=True))
        return tuple(own.get(step) for step in other._steps[-count:])

    def last(self, count: int) -> tuple[float, ...]:
        return tuple(self._values[-count:])


@dataclass(slots=True)
class _Record:
    """A whole step. `since` is the time of the row that made it the newest one, Unix seconds."""

    step: int
    values: dict[str, float]
    since: float | None = None


class RLDigest:
    """Takes the rows of one RL job in the order of their source and tells what holds now."""

    def __init__(self) -> None:
        self._records: list[_Record] = []
        self._collapse_steps: list[int] = []
        self._one_signal_short: list[TimedStep] = []
        self._grad_norm = _Series(GRAD_NORM_KEYS)
        self._entropy = _Series(ENTROPY_KEYS)
        self._log_ratio_mean = _Series(LOG_RATIO_MEAN_KEYS)
        self._log_ratio_max = _Series(LOG_RATIO_MAX_KEYS)
        self._reward = _Series(REWARD_KEYS)
        self._rollouts = _Series(ROLLOUTS_KEYS)
        self._series = (
            *(self._grad_norm, self._entropy, self._log_ratio_mean, self._log_ratio_max),
            *(self._reward, self._rollouts),
        )
        self._timings: dict[str, LoggedValue] = {}
        self._timing_parts_left_out: set[str] = set()
        self._begins_attempt = False
        self._learning_rate: LoggedValue | None = None
        self._eval_score: LoggedValue | None = None

    def add(self, row: HistoryRow, step: int) -> None:
        """Take one row, whose step the caller has found."""
        self._begins_attempt = self._begins_attempt or row.begins_attempt
        self._learning_rate = _latest_finite(row, LEARNING_RATE_KEYS, step) or self._learning_rate
        self._eval_score = _latest_finite(row, EVAL_SCORE_KEYS, step) or self._eval_score
        values: dict[str, float] = {}
        for key, value in row.values.items():
            if key.startswith(TIMING_PREFIX):
                self._add_timing(key, value, step)
            elif is_step_key(key):
                values[key] = value
        if not values:
            return
        begins_attempt, self._begins_attempt = self._begins_attempt, False
        # A step that is done again is not the one that was done before, also where it was the newest.
        if self._records and (step < self._records[-1].step or begins_attempt):
            while self._records and self._records[-1].step >= step:
                self._records.pop()
        if self._records and step == self._records[-1].step:
            self._records[-1].values.update(values)
        else:
            self._records.append(_Record(step, values))
            del self._records[:-RECORDS_KEPT]
        self._judge(self._records[-1], row.time)

    def summary(self) -> RLSummary:
        """Return what holds now."""
        record, values = self._newest_measured_step()
        step = record.step if record is not None else None
        return RLSummary(
            step=step,
            values=values,
            figures=self._figures(step) if step is not None else StepFigures(),
            since=record.since if record is not None else None,
            collapse_step=self._collapse_steps[-1] if self._collapse_steps else None,
            one_signal_short=tuple(self._one_signal_short),
            timings=dict(self._timings),
            timing_parts_left_out=len(self._timing_parts_left_out),
            learning_rate=self._learning_rate,
            eval_score=self._eval_score,
            recent_rewards=self._reward.last(RECENT_REWARDS),
            recent_rollouts=self._rollouts.beside(self._reward, RECENT_REWARDS),
        )

    def _add_timing(self, key: str, value: float, step: int) -> None:
        part = key.removeprefix(TIMING_PREFIX)
        if not part:
            return
        if part in self._timings or len(self._timings) < TIMING_PARTS_KEPT:
            self._timings[part] = LoggedValue(key, value, step)
        elif len(self._timing_parts_left_out) < TIMING_PARTS_KEPT:
            self._timing_parts_left_out.add(part)

    def _judge(self, record: _Record, time: float | None) -> None:
        """Bring series and collapse steps in line with the newest record.

        Whatever they hold of its step (a row before this one) and of later steps (before a rollback) is taken away.
        """
        measured = leave_out_unmeasured(record.values).values
        for series in self._series:
            series.put(record.step, measured)
        while self._collapse_steps and self._collapse_steps[-1] >= record.step:
            self._collapse_steps.pop()
        while self._one_signal_short and self._one_signal_short[-1].step >= record.step:
            self._one_signal_short.pop()
        if first_logged(measured, STEP_DEFINING_KEYS) is not None:
            record.since = time if record.since is None else record.since
            self._end_step_before(record.since)
        missing = RL_COLLAPSE_SIGNALS - len(signals_that_hold(self._figures(record.step)))
        if missing <= 0:
            self._collapse_steps.append(record.step)
            del self._collapse_steps[:-COLLAPSE_STEPS_KEPT]
        elif missing == 1:
            self._one_signal_short.append(TimedStep(record.step, record.since, None))
            del self._one_signal_short[:-ONE_SIGNAL_SHORT_KEPT]

    def _end_step_before(self, time: float | None) -> None:
        """Note when a next step came. Where its row has no time, the step before it counts at its own time alone."""
        if not self._one_signal_short or self._one_signal_short[-1].until is not None:
            return
        newest = self._one_signal_short[-1]
        until = time if time is not None else newest.since
        self._one_signal_short[-1] = TimedStep(newest.step, newest.since, -math.inf if until is None else until)

    def _newest_measured_step(self) -> tuple[_Record | None, MeasuredStep]:
        for record in reversed(self._records):
            measured = leave_out_unmeasured(record.values)
            if first_logged(measured.values, STEP_DEFINING_KEYS) is not None:
                return record, MeasuredStep(dict(measured.values), measured.left_out)
        return None, MeasuredStep({})

    def _figures(self, step: int) -> StepFigures:
        grad_norm, entropy = self._grad_norm.at(step), self._entropy.at(step)
        mean, maximum = self._log_ratio_mean.at(step), self._log_ratio_max.at(step)
        last_two = self._grad_norm.last(2)
        return StepFigures(
            grad_norm=None if grad_norm is None else compare_with_median(grad_norm, self._grad_norm.before_latest()),
            grad_norm_last2_min=min(last_two) if grad_norm is not None and len(last_two) == 2 else None,
            entropy=None if entropy is None else compare_with_mean(entropy, self._entropy.before_latest()),
            log_ratio_mean=None if mean is None else compare_with_median(mean, self._log_ratio_mean.before_latest()),
            log_ratio_max=None
            if maximum is None
            else compare_with_median(maximum, self._log_ratio_max.before_latest()),
        )


def _latest_finite(row: HistoryRow, keys: tuple[str, ...], step: int) -> LoggedValue | None:
    logged = first_logged(row.values, keys)
    if logged is None or not math.isfinite(logged[1]):
        return None
    return LoggedValue(logged[0], logged[1], step)
