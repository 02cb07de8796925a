"""The collapse rule is applied twice: to each step of a history, and to the exported gauges. Both must agree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.derive.rl_signals import Comparison, StepFigures, signals_that_hold
from runwatch.derive.verdict_conditions import Subject
from runwatch.derive.verdict_rl import collapse_signals
from tests.unit.small_fleet import NOW, Value, measure

# Values at, beside and far from every threshold of the rule.
NORMS = st.sampled_from([None, 0.0, 9.9e-4, 1e-3, 0.02, 1.0, 1.01, 40.0])
RATIOS = st.sampled_from([None, 0.5, 2.0, 2.01, 90.0])
DEVIATIONS = st.sampled_from([None, -0.9, -0.31, -0.3, 0.0, 0.3, 0.31])


def comparison(latest: float | None, ratio: float | None) -> Comparison | None:
    return None if latest is None else Comparison(latest, None, ratio)


@settings(max_examples=500)
@given(
    norm=NORMS, last2=NORMS, norm_ratio=RATIOS, deviation=DEVIATIONS, mean=NORMS, mean_ratio=RATIOS, max_ratio=RATIOS
)
def test_gauges_and_history_agree(
    *,
    norm: float | None,
    last2: float | None,
    norm_ratio: float | None,
    deviation: float | None,
    mean: float | None,
    mean_ratio: float | None,
    max_ratio: float | None,
) -> None:
    norm_ratio = None if norm is None else norm_ratio
    mean_ratio = None if mean is None else mean_ratio
    figures = StepFigures(
        grad_norm=comparison(norm, norm_ratio),
        grad_norm_last2_min=last2,
        entropy=comparison(0.2, deviation),
        log_ratio_mean=comparison(mean, mean_ratio),
        log_ratio_max=comparison(0.4, max_ratio),
    )
    gauges: dict[str, float | None] = {
        "rl_grad_norm": norm,
        "rl_grad_norm_window_ratio": norm_ratio,
        "rl_grad_norm_last2_min": last2,
        "rl_entropy_deviation_ratio": deviation,
        "rl_log_ratio_abs_mean_window_ratio": mean_ratio,
        "rl_log_ratio_abs_max_window_ratio": max_ratio,
    }
    values: dict[str, Value] = {name: value for name, value in gauges.items() if value is not None}
    if mean is not None:
        values["rl_log_ratio_abs"] = {"mean": mean}
    subject = Subject(measure(values, "running", "stepping"), "rl", {}, NOW)
    assert len(collapse_signals(subject)) == len(signals_that_hold(figures))
