"""From history rows to the RL metrics: keys and their spellings, what is left out, and the evidence."""

from __future__ import annotations

import math

import pytest

from runwatch.catalogue import METRICS
from runwatch.derive.pass_ratio import LowSpan, PassRatioTimes
from runwatch.derive.rl import measure_rl
from runwatch.derive.rl_digest import RLDigest
from runwatch.facts import HistoryRow
from runwatch.measurements import Evidence, Measurements
from runwatch.metric_kinds import Section

Row = tuple[int, dict[str, float]]

FORK_ROW = {
    "reward/avg_raw_reward": 0.619140625,
    "reward/avg_pass_at_8": 0.75,
    "policy/policy_loss": -0.004,
    "policy/policy_entropy": 1.25,
    "policy/raw_grad_norm": 0.006,
    "policy/ppo_clip_ratio": 0.0002,
    "policy/z_clip/triggered": 0.0,
    "policy/policy_lr": 1e-6,
    "tis/imp_ratio_mean": 1.009,
    "tis/imp_ratio_capped_fraction": 0.00035,
    "tis/log_ratio_abs_mean": 0.03,
    "policy/log_ratio_abs_mean": 0.012,
    "policy/log_ratio_abs_p99": 0.11,
    "policy/log_ratio_abs_max": 0.31,
    **{f"policy/log_ratio_abs_pos{percent:02d}": percent / 1000 for percent in range(0, 100, 10)},
    "policy/n_tokens_dp_gt_1pct": 900.0,
    "policy/n_tokens_dp_gt_10pct": 90.0,
    "policy/n_tokens_dp_gt_50pct": 2.0,
    "policy/log_ratio_diagnostics_failed": 0.0,
    "generate/avg_num_tokens": 4321.5,
    "eval/all/avg_score": 0.42,
    "timing/step": 1800.0,
    "timing/policy_train": 400.0,
    "policy/rollout_train_prob_diff_mean": 7e6,
    "trainer/global_step": 15.0,
}


def measured(*rows: Row, pass_ratio: PassRatioTimes | None = None) -> tuple[Measurements, list[Evidence]]:
    digest = RLDigest()
    for cursor, (step, values) in enumerate(rows):
        digest.add(HistoryRow(cursor, 60.0 * cursor, step, values), step)
    measurements = Measurements()
    return measurements, measure_rl(measurements, digest.summary(), pass_ratio)


def test_every_value_of_a_full_row() -> None:
    got, _ = measured((15, FORK_ROW))
    assert got.get("mljob_rl_step") == 15
    assert got.get("mljob_rl_reward") == 0.619140625
    assert dict(got.family("mljob_rl_pass_at_n")) == {("8",): 0.75}
    assert got.get("mljob_rl_policy_loss") == -0.004
    assert got.get("mljob_rl_policy_entropy") == 1.25
    assert got.get("mljob_rl_grad_norm") == 0.006
    assert got.get("mljob_rl_ppo_clip_ratio") == 0.0002
    assert got.get("mljob_rl_z_clip_triggered") == 0.0
    assert got.get("mljob_learning_rate") == 1e-6
    assert got.get("mljob_rl_tis_importance_ratio") == 1.009
    assert got.get("mljob_rl_tis_capped_ratio") == 0.00035
    assert got.get("mljob_rl_tis_log_ratio_abs_mean") == 0.03
    assert dict(got.family("mljob_rl_log_ratio_abs")) == {("mean",): 0.012, ("p99",): 0.11, ("max",): 0.31}
    positions = dict(got.family("mljob_rl_log_ratio_abs_by_position"))
    assert positions == {(str(percent),): percent / 1000 for percent in range(0, 100, 10)}
    assert dict(got.family("mljob_rl_diverged_tokens")) == {("0.01",): 900.0, ("0.1",): 90.0, ("0.5",): 2.0}
    assert got.get("mljob_rl_generated_tokens") == 4321.5
    assert got.get("mljob_rl_eval_score") == 0.42
    assert dict(got.family("mljob_rl_timing_seconds")) == {("step",): 1800.0, ("policy_train",): 400.0}
    assert dict(got.family("mljob_nonfinite")) == {("loss",): 0, ("grad_norm",): 0, ("reward",): 0, ("entropy",): 0}
    # One step alone fills no window and has no step before it.
    assert got.get("mljob_rl_grad_norm_last2_min") is None
    assert got.get("mljob_rl_collapse_step") is None
    assert 7e6 not in {value for name in got.names() for value in got.family(name).values()}


def test_eleven_steps_of_which_the_last_collapses_give_every_metric_of_the_section() -> None:
    steady = {**FORK_ROW, "policy/raw_grad_norm": 0.5}
    last = {
        **steady,
        "policy/raw_grad_norm": 1.1,  # 2.2 times its window
        "policy/policy_entropy": 0.625,  # half of it
        "policy/log_ratio_abs_mean": 0.012,
    }
    got, evidence = measured(*[(step, steady) for step in range(10)], (10, last))
    assert got.get("mljob_rl_grad_norm_window_ratio") == 2.2
    assert got.get("mljob_rl_grad_norm_last2_min") == 0.5
    assert got.get("mljob_rl_entropy_deviation_ratio") == -0.5
    assert got.get("mljob_rl_log_ratio_abs_mean_window_ratio") == 1.0
    assert got.get("mljob_rl_log_ratio_abs_max_window_ratio") == 1.0
    assert got.get("mljob_rl_collapse_step") == 10
    section = {name for name, metric in METRICS.items() if metric.section == Section.RL and "trial" not in name}
    assert section <= set(got.names())

    signals = {line.fields["signal"]: line for line in evidence if "signal" in line.fields}
    assert {name: line.fields["holds"] for name, line in signals.items()} == {
        "grad_norm": True,
        "entropy": True,
        "log_ratio": False,
    }
    assert signals["entropy"].fields["deviation"] == -0.5
    assert signals["entropy"].fields["deviation_threshold"] == 0.3
    assert signals["grad_norm"].fields["window_ratio"] == 2.2
    assert all(line.fields["step"] == 10 for line in signals.values())
    sources = {line.fields["metric"]: line.fields["key"] for line in evidence if "key" in line.fields}
    assert sources["mljob_rl_grad_norm"] == "policy/raw_grad_norm"
    assert sources["mljob_rl_reward"] == "reward/avg_raw_reward"


@pytest.mark.parametrize(
    ("key", "metric", "labels"),
    [
        ("policy/grad_norm", "mljob_rl_grad_norm", {}),
        ("policy/loss_metrics/clip_ratio", "mljob_rl_ppo_clip_ratio", {}),
        ("z_clip/triggered", "mljob_rl_z_clip_triggered", {}),
        ("policy/tis/imp_ratio_mean", "mljob_rl_tis_importance_ratio", {}),
        ("policy/tis/imp_ratio_capped_fraction", "mljob_rl_tis_capped_ratio", {}),
        ("policy/tis/log_ratio_abs_mean", "mljob_rl_tis_log_ratio_abs_mean", {}),
        ("log_ratio_abs_mean", "mljob_rl_log_ratio_abs", {"stat": "mean"}),
        ("log_ratio_abs_p99", "mljob_rl_log_ratio_abs", {"stat": "p99"}),
        ("log_ratio_abs_max", "mljob_rl_log_ratio_abs", {"stat": "max"}),
        ("log_ratio_abs_pos00", "mljob_rl_log_ratio_abs_by_position", {"position": "0"}),
        ("log_ratio_abs_pos90", "mljob_rl_log_ratio_abs_by_position", {"position": "90"}),
        ("n_tokens_dp_gt_10pct", "mljob_rl_diverged_tokens", {"threshold": "0.1"}),
        ("reward/avg_pass_at_16", "mljob_rl_pass_at_n", {"n": "16"}),
        ("policy/lr", "mljob_learning_rate", {}),
    ],
)
def test_other_spellings(key: str, metric: str, labels: dict[str, str]) -> None:
    got, _ = measured((3, {"policy/policy_loss": 0.1, key: 0.0625}))
    assert got.get(metric, **labels) == 0.0625


@pytest.mark.parametrize(
    "key",
    [
        "reward_dropped/avg_raw_reward",
        "reward_dropped/avg_pass_at_8",
        "eval/all/pass_at_8",
        "reward/avg_pass_at_8_std",
        "reward/mean_positive_reward",
        "policy/final_loss",
        "critic/policy_loss",
        "critic/raw_grad_norm",
        "grad_norm",
        "tis/log_ratio_abs_max",
        "generate/tis/log_ratio_abs_mean",
        "policy/rollout_train_prob_diff_mean",
        "policy/rollout_train_logprobs_abs_diff_mean",
        "policy/log_ratio_abs_pos05",
        "policy/log_ratio_abs_p999",
        "timing/",
    ],
)
def test_other_quantities_leak_nowhere(key: str) -> None:
    assert list(measured((3, {key: 0.0625}))[0].names()) == []
    # Nor beside a value that makes the step.
    got, _ = measured((3, {"reward/avg_raw_reward": 0.5, key: 0.0625}))
    assert set(got.names()) == {"mljob_rl_step", "mljob_rl_reward", "mljob_nonfinite"}


def test_tis_log_ratio_is_never_the_policys() -> None:
    for key in ("tis/log_ratio_abs_mean", "policy/tis/log_ratio_abs_mean"):
        got, _ = measured((3, {"policy/policy_loss": 0.1, key: 0.0625}))
        assert dict(got.family("mljob_rl_log_ratio_abs")) == {}
        # And alone it does not make a step of the policy.
        assert measured((3, {key: 0.0625}))[0].get("mljob_rl_step") is None


@pytest.mark.parametrize("prefix", ["tis/", "policy/tis/"])
def test_the_exact_triple_of_tis_is_absent(prefix: str) -> None:
    def tis_metrics(ratio: float, capped: float, log_ratio: float) -> tuple[float | None, ...]:
        # Split over two rows of the step: the rule is on the step.
        first = {"policy/policy_loss": 0.1, f"{prefix}imp_ratio_mean": ratio}
        second = {f"{prefix}imp_ratio_capped_fraction": capped, f"{prefix}log_ratio_abs_mean": log_ratio}
        got, _ = measured((3, first), (3, second))
        return (
            got.get("mljob_rl_tis_importance_ratio"),
            got.get("mljob_rl_tis_capped_ratio"),
            got.get("mljob_rl_tis_log_ratio_abs_mean"),
        )

    assert tis_metrics(1.0, 0.0, 0.0) == (None, None, None)
    assert tis_metrics(1.0, 0.0, 1e-9) == (1.0, 0.0, 1e-9)
    assert tis_metrics(1.0000001, 0.0, 0.0) == (1.0000001, 0.0, 0.0)
    assert tis_metrics(1.0, 1e-9, 0.0) == (1.0, 1e-9, 0.0)


@pytest.mark.parametrize("prefix", ["policy/", ""])
def test_failed_log_ratio_diagnostics_are_absent_everywhere(prefix: str) -> None:
    zeros = {
        f"{prefix}{name}": 0.0
        for name in ("log_ratio_abs_mean", "log_ratio_abs_max", "log_ratio_abs_pos50", "n_tokens_dp_gt_1pct")
    }
    failed = {"policy/policy_loss": 0.1, **zeros, f"{prefix}log_ratio_diagnostics_failed": 0.25}
    got, evidence = measured((3, failed))
    for family in ("mljob_rl_log_ratio_abs", "mljob_rl_log_ratio_abs_by_position", "mljob_rl_diverged_tokens"):
        assert dict(got.family(family)) == {}
    assert any("log_ratio_diagnostics_failed" in line.text for line in evidence)
    fine, _ = measured((3, {**failed, f"{prefix}log_ratio_diagnostics_failed": 0.0}))
    assert fine.get("mljob_rl_log_ratio_abs", stat="mean") == 0.0

    # Failed steps fill no window: nine good ones and any number of failed ones leave it open.
    good = {"policy/policy_loss": 0.1, f"{prefix}log_ratio_abs_mean": 0.01}
    rows = [(step, good if step % 2 else failed) for step in range(18)]
    assert measured(*rows, (18, good))[0].get("mljob_rl_log_ratio_abs_mean_window_ratio") is None
    assert measured(*rows, (18, good), (19, good))[0].get("mljob_rl_log_ratio_abs_mean_window_ratio") == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_flagged_and_absent(value: float) -> None:
    got, evidence = measured((3, FORK_ROW), (4, {**FORK_ROW, "policy/policy_loss": value, "timing/step": value}))
    assert got.get("mljob_rl_step") == 4
    assert got.get("mljob_rl_policy_loss") is None
    assert got.get("mljob_nonfinite", metric="loss") == 1
    assert got.get("mljob_nonfinite", metric="grad_norm") == 0
    assert dict(got.family("mljob_rl_timing_seconds")) == {("policy_train",): 400.0}
    assert any("mljob_rl_policy_loss is absent" in line.text for line in evidence)
    # A later row of the step, or the next step, takes the flag back.
    for after in (4, 5):
        later, _ = measured((4, {"policy/policy_loss": value}), (after, {"policy/policy_loss": 0.5}))
        assert later.get("mljob_nonfinite", metric="loss") == 0
        assert later.get("mljob_rl_policy_loss") == 0.5


def test_a_nan_alone_still_makes_the_step_and_metrics_never_logged_have_no_flag() -> None:
    got, _ = measured((3, {"policy/raw_grad_norm": 0.5}), (4, {"policy/raw_grad_norm": math.nan}))
    assert got.get("mljob_rl_step") == 4
    assert dict(got.family("mljob_nonfinite")) == {("grad_norm",): 1.0}
    assert got.get("mljob_rl_grad_norm_last2_min") is None


def test_what_the_newest_step_did_not_log_is_absent_but_timings_stay() -> None:
    got, _ = measured((3, FORK_ROW), (4, {"reward/avg_raw_reward": 0.5}), (5, {"timing/step": 7.0, "system/gpu": 1.0}))
    assert got.get("mljob_rl_step") == 4
    assert got.get("mljob_rl_reward") == 0.5
    assert got.get("mljob_rl_policy_loss") is None
    assert dict(got.family("mljob_rl_pass_at_n")) == {}
    assert dict(got.family("mljob_nonfinite")) == {("reward",): 0.0}
    assert dict(got.family("mljob_rl_timing_seconds")) == {("step",): 7.0, ("policy_train",): 400.0}
    assert got.get("mljob_rl_eval_score") == 0.42
    # Later values of the step add and replace.
    got, _ = measured((4, {"reward/avg_raw_reward": 0.5, "policy/policy_loss": 1.0}), (4, {"policy/policy_loss": 2.0}))
    assert (got.get("mljob_rl_reward"), got.get("mljob_rl_policy_loss")) == (0.5, 2.0)


def test_eval_score_and_learning_rate_are_the_latest_finite_ones() -> None:
    got, _ = measured(
        (0, {"eval/all/avg_score": 0.25, "policy/lr": 2e-6}),
        (5, {"eval/all/avg_score": math.nan, "policy/lr": math.inf}),
    )
    assert got.get("mljob_rl_eval_score") == 0.25
    assert got.get("mljob_learning_rate") == 2e-6
    assert got.get("mljob_rl_step") is None


def test_a_low_pass_ratio_counts_as_one_more_signal_at_the_newest_step() -> None:
    high = [(step, {"policy/raw_grad_norm": 1.5}) for step in range(2)]
    assert measured(*high)[0].get("mljob_rl_collapse_step") is None
    low = PassRatioTimes((LowSpan(-1000.0, math.inf),), low_now=True)
    got, evidence = measured(*high, pass_ratio=low)
    assert got.get("mljob_rl_collapse_step") == 1
    assert any(line.fields.get("signals") == ["grad_norm", "pass_ratio"] for line in evidence)
    assert [line.fields["holds"] for line in evidence if line.fields.get("signal") == "pass_ratio"] == [True]
    # Of the first step alone no second grad norm tells.
    assert measured(*high[:1], pass_ratio=low)[0].get("mljob_rl_collapse_step") is None
    none = measured(*high, pass_ratio=PassRatioTimes())[1]
    assert [line.fields["holds"] for line in none if line.fields.get("signal") == "pass_ratio"] == [False]


def test_a_collapse_that_the_pass_ratio_completed_stays_when_its_signals_end() -> None:
    # Steps at 0, 60, 120, ... s; the norm is high at steps 1 and 2, the ratio low from 90 s to 130 s: step 1 is the
    # newest until 120 s.
    norms = [1.5, 1.5, 1.5, 0.1, 0.1, 0.1]
    rows = [(step, {"policy/raw_grad_norm": norm}) for step, norm in enumerate(norms)]
    assert measured(*rows, pass_ratio=PassRatioTimes((LowSpan(90.0, 130.0),)))[0].get("mljob_rl_collapse_step") == 2
    assert measured(*rows, pass_ratio=PassRatioTimes((LowSpan(90.0, 120.0),)))[0].get("mljob_rl_collapse_step") == 1
    assert measured(*rows, pass_ratio=PassRatioTimes((LowSpan(30.0, 60.0),)))[0].get("mljob_rl_collapse_step") is None
    assert measured(*rows, pass_ratio=PassRatioTimes((LowSpan(180.0, 999.0),)))[0].get("mljob_rl_collapse_step") is None
    got, evidence = measured(*rows, pass_ratio=PassRatioTimes((LowSpan(90.0, 130.0),)))
    assert [line.text for line in evidence if line.text.startswith("collapse rule:")] == [
        "collapse rule: 0 of 2 signals hold at step 5; it last held at step 2"
    ]
    assert got.get("mljob_rl_step") == 5


def test_nothing_logged_gives_nothing() -> None:
    got, evidence = measured()
    assert list(got.names()) == []
    assert evidence == []
