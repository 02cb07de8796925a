"""The history keys that RL values come from: the one home of SkyRL's spellings.

Sources: SkyRL as published, whose keys were renamed over time (`raw_grad_norm` became `grad_norm` in January 2026,
`ppo_clip_ratio` became `loss_metrics/clip_ratio` in February 2026), and the fork marin-community/MarinSkyRL, which
keeps the old names and adds `tis/*`, `log_ratio_*`, `n_tokens_dp_*` and `z_clip/*`.

Keys are compared whole, never by their ending: `tis/log_ratio_abs_mean` (trainer against generator) is another
quantity than `policy/log_ratio_abs_mean` (how far the update moved the policy), and `reward_dropped/avg_raw_reward`
is the reward of rollouts that were thrown away. `policy/rollout_train_prob_diff_mean` is left out on purpose: outlier
tokens dominate it. `policy/rollout_train_logprobs_abs_diff_mean` is no alias of anything here: it compares trainer
and generator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

REWARD_KEYS = ("reward/avg_raw_reward",)
POLICY_LOSS_KEYS = ("policy/policy_loss",)
ENTROPY_KEYS = ("policy/policy_entropy",)
GRAD_NORM_KEYS = ("policy/raw_grad_norm", "policy/grad_norm")  # both are the norm before clipping
LOG_RATIO_MEAN_KEYS = ("policy/log_ratio_abs_mean", "log_ratio_abs_mean")
LOG_RATIO_P99_KEYS = ("policy/log_ratio_abs_p99", "log_ratio_abs_p99")
LOG_RATIO_MAX_KEYS = ("policy/log_ratio_abs_max", "log_ratio_abs_max")

ROLLOUTS_KEYS = ("async/effective_batch_samples",)
"""Over how many rollouts the reward of this step is the mean: the fork drops stale groups, so not as many each step."""

STEP_DEFINING_KEYS = (
    *REWARD_KEYS,
    *POLICY_LOSS_KEYS,
    *ENTROPY_KEYS,
    *GRAD_NORM_KEYS,
    *LOG_RATIO_MEAN_KEYS,
    *LOG_RATIO_P99_KEYS,
    *LOG_RATIO_MAX_KEYS,
)
"""A step at which one of these was logged can be the step that all RL values come from."""

LEARNING_RATE_KEYS = ("policy/policy_lr", "policy/lr")
EVAL_SCORE_KEYS = ("eval/all/avg_score",)
TIMING_PREFIX = "timing/"

TIS_PREFIXES = ("tis/", "policy/tis/")
TIS_FALLBACK = (("imp_ratio_mean", 1.0), ("imp_ratio_capped_fraction", 0.0), ("log_ratio_abs_mean", 0.0))
"""What the trainer writes for `tis/*` when the generator gave no log-probabilities: all three, exactly."""

DIAGNOSTICS_FAILED_KEYS = ("policy/log_ratio_diagnostics_failed", "log_ratio_diagnostics_failed")
"""Above 0 the trainer filled its log-ratio diagnostics with zeros."""

_PASS_AT_N = re.compile(r"reward/avg_pass_at_([0-9]+)")


@dataclass(frozen=True, slots=True)
class StepValue:
    """A metric with one set of labels, and the history keys it is read from: the first that was logged counts."""

    metric: str
    keys: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


def _with_and_without_policy(name: str) -> tuple[str, str]:
    return (f"policy/{name}", name)


def _tis(name: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for prefix in TIS_PREFIXES)


LOG_RATIO_POSITIONS = tuple(
    StepValue(
        "mljob_rl_log_ratio_abs_by_position",
        _with_and_without_policy(f"log_ratio_abs_pos{percent:02d}"),
        {"position": str(percent)},
    )
    for percent in range(0, 100, 10)
)

DIVERGED_TOKENS = tuple(
    StepValue(
        "mljob_rl_diverged_tokens",
        _with_and_without_policy(f"n_tokens_dp_gt_{percent}pct"),
        {"threshold": threshold},
    )
    for percent, threshold in ((1, "0.01"), (10, "0.1"), (50, "0.5"))
)

_LOG_RATIO_DIAGNOSTICS = (
    StepValue("mljob_rl_log_ratio_abs", LOG_RATIO_MEAN_KEYS, {"stat": "mean"}),
    StepValue("mljob_rl_log_ratio_abs", LOG_RATIO_P99_KEYS, {"stat": "p99"}),
    StepValue("mljob_rl_log_ratio_abs", LOG_RATIO_MAX_KEYS, {"stat": "max"}),
    *LOG_RATIO_POSITIONS,
    *DIVERGED_TOKENS,
)

STEP_VALUES = (
    StepValue("mljob_rl_reward", REWARD_KEYS),
    StepValue("mljob_rl_policy_loss", POLICY_LOSS_KEYS),
    StepValue("mljob_rl_policy_entropy", ENTROPY_KEYS),
    StepValue("mljob_rl_grad_norm", GRAD_NORM_KEYS),
    StepValue("mljob_rl_ppo_clip_ratio", ("policy/ppo_clip_ratio", "policy/loss_metrics/clip_ratio")),
    StepValue("mljob_rl_z_clip_triggered", ("policy/z_clip/triggered", "z_clip/triggered")),
    StepValue("mljob_rl_tis_importance_ratio", _tis("imp_ratio_mean")),
    StepValue("mljob_rl_tis_capped_ratio", _tis("imp_ratio_capped_fraction")),
    StepValue("mljob_rl_tis_log_ratio_abs_mean", _tis("log_ratio_abs_mean")),
    StepValue("mljob_rl_generated_tokens", ("generate/avg_num_tokens",)),
    *_LOG_RATIO_DIAGNOSTICS,
)
"""Every value of one step whose keys are known beforehand; pass@N carries its N in the key and is not among them."""

NONFINITE_KEYS = {
    "loss": POLICY_LOSS_KEYS,
    "grad_norm": GRAD_NORM_KEYS,
    "reward": REWARD_KEYS,
    "entropy": ENTROPY_KEYS,
}
"""The values of the label `metric` of `mljob_nonfinite`, with the keys that each is judged by."""

_LOG_RATIO_DIAGNOSTIC_KEYS = frozenset(key for value in _LOG_RATIO_DIAGNOSTICS for key in value.keys)

_STEP_KEYS = frozenset(key for value in STEP_VALUES for key in value.keys) | frozenset(
    (*DIAGNOSTICS_FAILED_KEYS, *ROLLOUTS_KEYS)
)


def pass_at_n(key: str) -> str | None:
    """Return the N of a key `reward/avg_pass_at_N`, or None for any other key."""
    match = _PASS_AT_N.fullmatch(key)
    return match[1] if match else None


def is_step_key(key: str) -> bool:
    """Tell whether a key belongs to the values of one step (timings, learning rate and eval scores do not)."""
    return key in _STEP_KEYS or pass_at_n(key) is not None


def first_logged(values: Mapping[str, float], keys: tuple[str, ...]) -> tuple[str, float] | None:
    """Return the first of `keys` that `values` holds, with its value (NaN and infinities included), or None."""
    return next(((key, values[key]) for key in keys if key in values), None)


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """The merged values of one step without those that the trainer could not measure, and why those are left out."""

    values: Mapping[str, float]
    left_out: tuple[str, ...] = ()


def leave_out_unmeasured(values: Mapping[str, float]) -> MeasuredStep:
    """Take away what the trainer wrote in place of a measurement.

    Works on the merged rows of a step, so it does not matter which row carried the flag and which the zeros.
    """
    unmeasured: set[str] = set()
    reasons: list[str] = []
    for prefix in TIS_PREFIXES:
        if all(values.get(prefix + name) == fallback for name, fallback in TIS_FALLBACK):
            unmeasured.update(prefix + name for name, _ in TIS_FALLBACK)
            reasons.append(f"{prefix}* is exactly 1, 0, 0: the generator gave no log-probabilities")
    failed = [key for key in DIAGNOSTICS_FAILED_KEYS if values.get(key, 0.0) > 0.0]
    if failed:
        unmeasured |= _LOG_RATIO_DIAGNOSTIC_KEYS
        reasons.append(f"{failed[0]} is above 0: log_ratio_abs_* and n_tokens_dp_* are zeros by fallback")
    if not reasons:
        return MeasuredStep(values)
    return MeasuredStep({key: value for key, value in values.items() if key not in unmeasured}, tuple(reasons))
