"""The condition of every verdict in words, with its thresholds: made from `thresholds`, shown by `explain`."""

from __future__ import annotations

from runwatch import thresholds
from runwatch.figures import duration, percent


def rule_of(word: str) -> str:
    """Return the condition of a verdict in words, with its thresholds.

    Raises:
        KeyError: not a word of `thresholds.VERDICTS`.
    """
    return _RULES[word]


_SAVES = f"{thresholds.CHECKPOINT_INTERVALS_ALLOWED:.0f} × its interval"
_UNKNOWN_SAVES = f"{duration(thresholds.CHECKPOINT_UNKNOWN_INTERVAL_SECONDS)} where the interval is not known"
_FIRST_STEP = f"{duration(thresholds.BRINGUP_LIMIT_SECONDS)} (RL: {duration(thresholds.BRINGUP_LIMIT_RL_SECONDS)})"
_NEWS = f"within {duration(thresholds.NEWS_SECONDS)} before the source's last answer"

_RULES: dict[str, str] = {
    "collapse": (
        f"{thresholds.RL_COLLAPSE_SIGNALS} or more of: grad norm, entropy, log-ratio (as in the three drifts; "
        f"grad norm also > {thresholds.RL_GRAD_NORM_WINDOW_RATIO} × its window), now or less than "
        f"{thresholds.RL_COLLAPSE_RECENT_STEPS} steps ago; never for a spike-mitigation ablation"
    ),
    "failed": "state failed",
    "vanished": "state vanished",
    "nonfinite": "latest loss or grad norm is NaN or infinite",
    "stalled": (
        f"running, stepping, and the last answer − last step > {duration(thresholds.STALL_BASE_SECONDS)} + "
        f"{thresholds.STALL_GAP_THRESHOLD_FRACTION} × gap threshold; before there is one {_FIRST_STEP}"
    ),
    "no_checkpoint": (
        f"checkpoints read, none complete, steps for > max({duration(thresholds.NO_CHECKPOINT_FLOOR_SECONDS)}, "
        f"{_SAVES}); {_UNKNOWN_SAVES}"
    ),
    "grad_explosion": (
        f"grad norm > {thresholds.GRAD_EXPLOSION_RATIO} × its window in the last "
        f"{duration(thresholds.GRAD_NORM_RECENT_SECONDS)}, and > {thresholds.GRAD_EXPLOSION_MINIMUM} (not RL)"
    ),
    "loss_diverging": (
        f"{thresholds.LOSS_TREND_RATIOS} logged losses in a row > {thresholds.LOSS_DIVERGING_RATIO} × their window, "
        f"loss ≥ {thresholds.SUBSTANCE_MINIMUM} (not RL)"
    ),
    "deep_probe": "a new setting, or an RL job whose reward (and pass@N) is exactly 0",
    "state_conflict": "two sources that answered disagree on whether the job is alive or moving",
    "silent_stall": (
        f"a gap that no interruption explains ended less than {duration(thresholds.SILENT_STALL_SHOWN_SECONDS)} "
        "before the last answer"
    ),
    "bringup_stuck": f"bring-up for > {_FIRST_STEP} since the start",
    "zombie": f"running, and its last step was reached > {duration(thresholds.ZOMBIE_TRAINING_SECONDS)} ago",
    "checkpoint_stale": (
        f"stepping, newest complete checkpoint older than max({duration(thresholds.CHECKPOINT_STALE_FLOOR_SECONDS)}, "
        f"{_SAVES}); {_UNKNOWN_SAVES}"
    ),
    "grad_norm_high": f"RL: grad norm > {thresholds.RL_GRAD_NORM_LIMIT} for two steps",
    "entropy_drift": (
        f"RL: entropy off its {thresholds.RL_WINDOW}-step trend by > {percent(thresholds.RL_ENTROPY_DEVIATION)}"
    ),
    "log_ratio_drift": (
        f"RL: mean abs log-ratio > {thresholds.RL_LOG_RATIO_MEAN_WINDOW_RATIO} × its window while its max is ≤ "
        f"{thresholds.RL_LOG_RATIO_MAX_WINDOW_RATIO} × its own; mean ≥ {thresholds.SUBSTANCE_MINIMUM}"
    ),
    "clip_ratio_high": f"RL: clip ratio > {percent(thresholds.RL_CLIP_RATIO_LIMIT)}",
    "importance_ratio_off": (
        f"RL: TIS importance ratio outside {thresholds.RL_IMPORTANCE_RATIO_LOW} to "
        f"{thresholds.RL_IMPORTANCE_RATIO_HIGH}"
    ),
    "throughput_degraded": f"stepping, tok/s < {percent(thresholds.THROUGHPUT_DEGRADED_RATIO)} of its baseline (sft)",
    "timeout": "state timeout",
    "killed": "state killed",
    "unknown": "state unknown",
    "unobserved": (
        f"a source did not answer for max({duration(thresholds.BLIND_FLOOR_SECONDS)}, "
        f"{thresholds.BLIND_INTERVALS:.0f} × its interval), or never within {duration(thresholds.NEVER_READ_SECONDS)}"
    ),
    "queued": "phase queued",
    "bringup": "phase bringup",
    "resuming": "phase resuming",
    "finishing": "phase finishing",
    "completed": "state succeeded",
    "resumed": f"a gap ended {_NEWS}",
    "checkpoint_saved": f"a complete checkpoint was saved {_NEWS}",
    "stable": "running, the history was read, and nothing else holds",
}
