"""The collapse rule and the drifts of RL jobs, at their thresholds and beside harmless look-alikes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from runwatch.derive.verdicts import verdicts
from tests.unit.small_fleet import NOW, Value, measure

OBSERVED: dict[str, Value] = {"observed_timestamp_seconds": {"history": NOW - 10}}
GRAD: dict[str, Value] = {"rl_grad_norm": 1.4, "rl_grad_norm_last2_min": 1.3}
GRAD_WINDOW: dict[str, Value] = {"rl_grad_norm": 0.2, "rl_grad_norm_window_ratio": 2.4}
ENTROPY: dict[str, Value] = {"rl_entropy_deviation_ratio": -0.342}
LOG_RATIO: dict[str, Value] = {
    "rl_log_ratio_abs": {"mean": 0.02},
    "rl_log_ratio_abs_mean_window_ratio": 2.5,
    "rl_log_ratio_abs_max_window_ratio": 2.0,
}


def words(values: Mapping[str, Value], info: Mapping[str, str] | None = None, bucket: str = "rl") -> dict[str, str]:
    """Return the verdicts of a job that steps, by word."""
    measured = measure(OBSERVED | dict(values), "running", "stepping")
    return {verdict.word: verdict.text for verdict in verdicts(measured, bucket, info or {}, NOW)}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (GRAD | ENTROPY, "collapse: grad 1.3, two steps + entropy −34 % vs trend: cancel"),
        (GRAD_WINDOW | ENTROPY, "collapse: grad 2.4 × its window + entropy −34 % vs trend: cancel"),
        (GRAD | LOG_RATIO, "collapse: grad 1.3, two steps + log-ratio 2.5 × its window: cancel"),
        ({"rl_step": 44, "rl_collapse_step": 40}, "collapse at step 40 (now 44): cancel"),
        ({"rl_step": 40, "rl_collapse_step": 40}, "collapse at step 40 (now 40): cancel"),
    ],
)
def test_collapse(values: Mapping[str, Value], text: str) -> None:
    assert words(values)["collapse"] == text


@pytest.mark.parametrize(
    "values",
    [
        GRAD,
        # One signal, though both of its conditions hold.
        GRAD | {"rl_grad_norm_window_ratio": 9},
        ENTROPY | GRAD | {"rl_grad_norm_last2_min": 1.0},
        ENTROPY | GRAD_WINDOW | {"rl_grad_norm_window_ratio": 2.0},
        # Seqnorm global-denom: 1e-5 is a regime.
        ENTROPY | GRAD_WINDOW | {"rl_grad_norm": 9.9e-4, "rl_grad_norm_window_ratio": 80},
        GRAD | {"rl_entropy_deviation_ratio": -0.30},
        GRAD | {"rl_entropy_deviation_ratio": 0.30},
        GRAD | LOG_RATIO | {"rl_log_ratio_abs_mean_window_ratio": 2.0},
        GRAD | LOG_RATIO | {"rl_log_ratio_abs_max_window_ratio": 2.01},
        GRAD | LOG_RATIO | {"rl_log_ratio_abs": {"mean": 9e-4}},
        # A max that was not measured is not a bounded max.
        GRAD | {"rl_log_ratio_abs": {"mean": 0.02}, "rl_log_ratio_abs_mean_window_ratio": 2.5},
        {"rl_step": 45, "rl_collapse_step": 40},
        {"rl_collapse_step": 40},
    ],
)
def test_no_collapse(values: Mapping[str, Value]) -> None:
    assert "collapse" not in words(values)


def test_a_spike_mitigation_ablation_is_never_cancelled_but_its_drifts_are_told() -> None:
    found = words(GRAD | ENTROPY | {"rl_step": 41, "rl_collapse_step": 41}, {"ablation": "spike-mitigation"})
    assert set(found) == {"grad_norm_high", "entropy_drift"}


def test_no_kill_makes_it_a_recommendation() -> None:
    assert words(GRAD | ENTROPY, {"hold": "no-kill"})["collapse"].endswith(": recommend cancelling (no-kill)")


def test_the_rules_are_for_rl_only() -> None:
    assert set(words(GRAD | ENTROPY | LOG_RATIO | {"rl_ppo_clip_ratio": 0.5}, bucket="sft")) == {"stable"}


@pytest.mark.parametrize(
    ("values", "word", "text"),
    [
        (GRAD, "grad_norm_high", "grad 1.3, two steps"),
        # A figure that crossed its limit is never shown as the limit.
        ({"rl_grad_norm_last2_min": 1.0004}, "grad_norm_high", "grad 1.0004, two steps"),
        ({"rl_entropy_deviation_ratio": 0.412}, "entropy_drift", "entropy +41 % vs trend"),
        ({"rl_entropy_deviation_ratio": -0.302}, "entropy_drift", "entropy −30.2 % vs trend"),
        (LOG_RATIO, "log_ratio_drift", "log-ratio 2.5 × its window"),
        ({"rl_ppo_clip_ratio": 0.018}, "clip_ratio_high", "clip ratio 1.8 %"),
        ({"rl_tis_importance_ratio": 1.72}, "importance_ratio_off", "importance ratio 1.72"),
        ({"rl_tis_importance_ratio": 0.8399}, "importance_ratio_off", "importance ratio 0.8399"),
        ({"rl_reward": 0}, "deep_probe", "deep-probe: reward exactly 0"),
        ({"rl_reward": 0, "rl_pass_at_n": {"8": 0}}, "deep_probe", "deep-probe: reward exactly 0"),
    ],
)
def test_drifts(values: Mapping[str, Value], word: str, text: str) -> None:
    assert words(values)[word] == text


@pytest.mark.parametrize(
    "values",
    [
        {"rl_grad_norm_last2_min": 1.0},
        {"rl_grad_norm": 40},
        {"rl_entropy_deviation_ratio": -0.3},
        {"rl_ppo_clip_ratio": 0.01},
        {"rl_tis_importance_ratio": 0.84},
        {"rl_tis_importance_ratio": 1.56},
        {"rl_reward": 1e-5},
        {"rl_reward": 0, "rl_pass_at_n": {"8": 0.1}},
        {"rl_grad_norm": 1e-5, "rl_policy_loss": 1e-5, "rl_log_ratio_abs": {"mean": 1e-5}},
    ],
)
def test_healthy(values: Mapping[str, Value]) -> None:
    assert words(values) == {"stable": "stable"}


@pytest.mark.parametrize(("label", "holds"), [("yes", True), ("first launch", True), ("", False), ("no", False)])
def test_a_new_setting_is_not_trusted_by_its_row(label: str, holds: bool) -> None:
    found = words({}, {"new_setting": label})
    assert ("deep_probe" in found) is holds
    assert ("stable" in found) is not holds
