"""How an RL step compares with the ten logged values before it, and which signals of the collapse rule hold there.

Pure functions of one step's figures. A signal whose figures were not measured does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from runwatch.derive.value_window import RATIO_DECIMALS
from runwatch.thresholds import (
    RL_ENTROPY_DEVIATION,
    RL_GRAD_NORM_LIMIT,
    RL_GRAD_NORM_WINDOW_RATIO,
    RL_LOG_RATIO_MAX_WINDOW_RATIO,
    RL_LOG_RATIO_MEAN_WINDOW_RATIO,
    RL_WINDOW,
    SUBSTANCE_MINIMUM,
)


class CollapseSignal(StrEnum):
    """The signals of the collapse rule. Each counts once, however many of its conditions hold.

    History tells all but the pass ratio, which is told by trials (`runwatch.derive.pass_ratio`).
    """

    GRAD_NORM = "grad_norm"
    ENTROPY = "entropy"
    LOG_RATIO = "log_ratio"
    PASSED_TRIALS = "pass_ratio"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A step's value beside the window before it.

    `baseline` is the window's median or mean, None until the window is full. `ratio` is latest / baseline (for the
    entropy minus 1), None where there is no baseline, or one that is not above 0.
    """

    latest: float
    baseline: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class StepFigures:
    """The figures of one step that the collapse rule looks at; None for what that step did not log as a number."""

    grad_norm: Comparison | None = None
    grad_norm_last2_min: float | None = None
    entropy: Comparison | None = None
    log_ratio_mean: Comparison | None = None
    log_ratio_max: Comparison | None = None


def _compare(latest: float, baseline: float, minus: float = 0.0) -> Comparison:
    if not math.isfinite(baseline):
        return Comparison(latest)
    if baseline <= 0:
        return Comparison(latest, baseline)
    ratio = latest / baseline - minus
    return Comparison(latest, baseline, round(ratio, RATIO_DECIMALS) if math.isfinite(ratio) else None)


def compare_with_median(latest: float, before: Sequence[float]) -> Comparison:
    """Compare a value with the median of the `RL_WINDOW` values logged before it.

    Args:
        latest: The step's value, finite.
        before: The finite values logged before it, oldest first. Values that are not finite are never in a window:
            they have no median.
    """
    if len(before) < RL_WINDOW:
        return Comparison(latest)
    return _compare(latest, median(before[-RL_WINDOW:]))


def compare_with_mean(latest: float, before: Sequence[float]) -> Comparison:
    """Compare a value with the mean of the `RL_WINDOW` values logged before it; the ratio is latest / mean - 1."""
    if len(before) < RL_WINDOW:
        return Comparison(latest)
    return _compare(latest, sum(before[-RL_WINDOW:]) / RL_WINDOW, minus=1.0)


def _above(value: float | None, limit: float) -> bool:
    return value is not None and value > limit


def _grad_norm_holds(figures: StepFigures) -> bool:
    if _above(figures.grad_norm_last2_min, RL_GRAD_NORM_LIMIT):
        return True
    grad_norm = figures.grad_norm
    return (
        grad_norm is not None
        and grad_norm.latest >= SUBSTANCE_MINIMUM
        and _above(grad_norm.ratio, RL_GRAD_NORM_WINDOW_RATIO)
    )


def _entropy_holds(figures: StepFigures) -> bool:
    deviation = figures.entropy.ratio if figures.entropy else None
    return deviation is not None and abs(deviation) > RL_ENTROPY_DEVIATION


def _log_ratio_holds(figures: StepFigures) -> bool:
    mean, maximum = figures.log_ratio_mean, figures.log_ratio_max
    if mean is None or maximum is None or maximum.ratio is None:
        return False
    return (
        mean.latest >= SUBSTANCE_MINIMUM
        and _above(mean.ratio, RL_LOG_RATIO_MEAN_WINDOW_RATIO)
        and maximum.ratio <= RL_LOG_RATIO_MAX_WINDOW_RATIO
    )


_RULES = {
    CollapseSignal.GRAD_NORM: _grad_norm_holds,
    CollapseSignal.ENTROPY: _entropy_holds,
    CollapseSignal.LOG_RATIO: _log_ratio_holds,
}


def signals_that_hold(figures: StepFigures) -> frozenset[CollapseSignal]:
    """Return the signals that hold at a step, as far as history tells."""
    return frozenset(signal for signal, holds in _RULES.items() if holds(figures))
