"""The collapse signals at, just below and just above each threshold; all figures worked out by hand."""

from __future__ import annotations

import pytest

from runwatch.derive.rl_signals import (
    CollapseSignal,
    Comparison,
    StepFigures,
    compare_with_mean,
    compare_with_median,
    signals_that_hold,
)

GRAD_NORM, ENTROPY, LOG_RATIO = CollapseSignal.GRAD_NORM, CollapseSignal.ENTROPY, CollapseSignal.LOG_RATIO


def held(**figures: object) -> set[CollapseSignal]:
    return set(signals_that_hold(StepFigures(**figures)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("last2", "holds"), [(0.999999, False), (1.0, False), (1.000001, True)])
def test_grad_norm_of_two_steps(last2: float, holds: bool) -> None:
    assert held(grad_norm=Comparison(2.0), grad_norm_last2_min=last2) == ({GRAD_NORM} if holds else set())


@pytest.mark.parametrize(
    ("latest", "usual", "holds"),
    [
        (0.8, 0.4, False),  # exactly twice
        (0.799, 0.4, False),
        (0.801, 0.4, True),
        (0.001, 0.0004, True),  # 2.5 times, exactly the least that has substance
        (0.000999, 0.0004, False),  # a regime, not a signal
        (1e-5, 1e-6, False),
    ],
)
def test_grad_norm_against_its_window(latest: float, usual: float, holds: bool) -> None:
    comparison = compare_with_median(latest, [usual] * 10)
    assert held(grad_norm=comparison, grad_norm_last2_min=0.1) == ({GRAD_NORM} if holds else set())


def test_both_conditions_of_the_grad_norm_are_one_signal() -> None:
    assert held(grad_norm=compare_with_median(9.0, [1.5] * 10), grad_norm_last2_min=1.5) == {GRAD_NORM}


@pytest.mark.parametrize(
    ("latest", "deviation", "holds"),
    [
        (1.3, 0.3, False),  # exactly 30 %, though 1.3 / 1.0 - 1 is a hair above 0.3 in binary
        (1.301, 0.301, True),
        (1.299, 0.299, False),
        (0.7, -0.3, False),
        (0.699, -0.301, True),
        (0.701, -0.299, False),
        (0.0, -1.0, True),
    ],
)
def test_entropy_against_its_mean(latest: float, deviation: float, holds: bool) -> None:
    comparison = compare_with_mean(latest, [0.5, 1.5] * 5)
    assert comparison.ratio == deviation
    assert held(entropy=comparison) == ({ENTROPY} if holds else set())


@pytest.mark.parametrize(
    ("mean", "usual_mean", "maximum", "holds"),
    [
        (0.021, 0.01, 0.2, True),
        (0.02, 0.01, 0.2, False),  # the mean exactly doubled
        (0.019, 0.01, 0.2, False),
        (0.021, 0.01, 0.4, True),  # the max exactly doubled is still bounded
        (0.021, 0.01, 0.401, False),  # the max moved too
        (0.001, 0.0004, 0.2, True),
        (0.000999, 0.0004, 0.2, False),
    ],
)
def test_log_ratio_mean_moves_while_its_max_is_bounded(
    mean: float, usual_mean: float, maximum: float, holds: bool
) -> None:
    figures = {
        "log_ratio_mean": compare_with_median(mean, [usual_mean] * 10),
        "log_ratio_max": compare_with_median(maximum, [0.2] * 10),
    }
    assert held(**figures) == ({LOG_RATIO} if holds else set())


def test_log_ratio_needs_the_max_to_have_been_measured() -> None:
    mean = compare_with_median(0.03, [0.01] * 10)
    assert held(log_ratio_mean=mean) == set()
    assert held(log_ratio_mean=mean, log_ratio_max=compare_with_median(0.2, [0.2] * 9)) == set()
    assert held(log_ratio_mean=mean, log_ratio_max=compare_with_median(0.2, [0.0] * 10)) == set()


def test_windows_are_the_ten_before_and_nothing_until_they_are_full() -> None:
    assert compare_with_median(3.0, [1.0] * 9) == Comparison(3.0)
    assert compare_with_mean(3.0, [1.0] * 9) == Comparison(3.0)
    # The last ten are 1 to 10: median 5.5, mean 5.5; with the 100s before them both would be far higher.
    before = [100.0, 100.0, *[float(number) for number in range(1, 11)]]
    assert compare_with_median(11.0, before) == Comparison(11.0, 5.5, 2.0)
    assert compare_with_mean(11.0, before) == Comparison(11.0, 5.5, 1.0)
    # Skewed: the median is 1, the mean (9 x 1 + 91) / 10 = 10.
    skewed = [1.0] * 9 + [91.0]
    assert compare_with_median(5.0, skewed) == Comparison(5.0, 1.0, 5.0)
    assert compare_with_mean(5.0, skewed) == Comparison(5.0, 10.0, -0.5)


@pytest.mark.parametrize("usual", [0.0, -1.0, 1e308])
def test_a_ratio_that_says_nothing_is_absent(usual: float) -> None:
    # Zero and below: no ratio. Ten of 1e308 add up to infinity: no mean.
    assert compare_with_mean(1.0, [usual] * 10).ratio is None
    if usual <= 0:
        assert compare_with_median(1.0, [usual] * 10).ratio is None
    assert compare_with_median(1e308, [1e-308] * 10).ratio is None


def test_nothing_measured_is_no_signal() -> None:
    assert held() == set()
