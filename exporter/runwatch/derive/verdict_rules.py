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
_USABLE = f"{duration(thresholds.RESULTS_STAND_AFTER_END_SECONDS)} after its end"
_NEWS = f"within {duration(thresholds.NEWS_SECONDS)} before the source's last answer"

_RULES: dict[str, str] = {
    "collapse": (
        f"{thresholds.RL_COLLAPSE_SIGNALS} or more of: grad norm, entropy, log-ratio (as in the three drifts; "
        f"grad norm also > {thresholds.RL_GRAD_NORM_WINDOW_RATIO} × its window), pass ratio < "
        f"{percent(thresholds.RL_TRIAL_PASS_RATIO_LOW)} over a full window of {thresholds.RL_TRIAL_WINDOW_COUNT} "
        "trials; now or less than "
        f"{thresholds.RL_COLLAPSE_RECENT_STEPS} steps ago; never for a spike-mitigation ablation"
    ),
    "failed": "state failed",
    "vanished": "state vanished",
    "nonfinite": "latest loss or grad norm is NaN or infinite",
    "stalled": (
        f"running, stepping, and the last answer − last step > {duration(thresholds.STALL_BASE_SECONDS)} + "
        f"{thresholds.STALL_GAP_THRESHOLD_FRACTION} × gap threshold; before there is one {_FIRST_STEP}; an "
        "eval or datagen job only while no trials were read; not while a complete checkpoint is over "
        f"{duration(thresholds.HISTORY_CUT_OFF_SECONDS)} newer than the last step"
    ),
    "trials_stalled": (
        f"eval, datagen: running, results missing (or their number not known), and none for > "
        f"{duration(thresholds.TRIALS_STALLED_EVAL_SECONDS)} (datagen: "
        f"{duration(thresholds.TRIALS_STALLED_DATAGEN_SECONDS)}) since the later of the last one and the newest "
        "attempt's start; or a chunk hangs"
    ),
    "dead_engine": (
        f"datagen: {thresholds.DEAD_ENGINE_TRIALS_COUNT} or more trials whose agent ran, mean turns ≤ "
        f"{thresholds.DEAD_ENGINE_TURNS}; not with `turns: single`; until {_USABLE}"
    ),
    "instant_failures": (
        f"{thresholds.INSTANT_FAILURES_COUNT} or more instant failures that are over "
        f"{percent(thresholds.INSTANT_FAILURES_SHARE)} of the trials; until {_USABLE}"
    ),
    "not_resumed": (
        f"preempted or resuming, and the newest interruption (in a chain: the start of its newest link) is older than "
        f"{_FIRST_STEP} + the expected replay"
    ),
    "restarts_without_progress": (
        f"{thresholds.RESTARTS_WITHOUT_PROGRESS_COUNT} or more interruptions since the last progress, the newest less "
        f"than {duration(thresholds.RESTARTS_WITHOUT_PROGRESS_RECENT_SECONDS)} before the scheduler's last answer"
    ),
    "no_checkpoint": (
        f"checkpoints read, none complete, steps for > max({duration(thresholds.NO_CHECKPOINT_FLOOR_SECONDS)}, "
        f"{_SAVES}); {_UNKNOWN_SAVES}; counted from the first new step after an interruption, and not while it waits "
        "or does steps again"
    ),
    "grad_explosion": (
        f"grad norm > {thresholds.GRAD_EXPLOSION_RATIO} × its window in the last "
        f"{duration(thresholds.GRAD_NORM_RECENT_SECONDS)}, and > {thresholds.GRAD_EXPLOSION_MINIMUM} (not RL)"
    ),
    "loss_diverging": (
        f"{thresholds.LOSS_TREND_RATIOS} logged losses in a row > {thresholds.LOSS_DIVERGING_RATIO} × their window, "
        f"loss ≥ {thresholds.SUBSTANCE_MINIMUM} (not RL)"
    ),
    "traces_stranded": "datagen: ended in timeout, no successor, and the log shows no completed upload",
    "deep_probe": (
        "a new setting; RL: reward (and pass@N) exactly 0, steps while trials were read and none is scored, or "
        f"≤ {thresholds.DEAD_ENGINE_TURNS} turns over {thresholds.DEAD_ENGINE_TRIALS_COUNT} or more trials; datagen "
        f"and eval: {thresholds.ALL_FAILING_TRIALS_COUNT} or more trials, each with an exception and none scored "
        "(datagen: and no agent ever ran)"
    ),
    "state_conflict": "two sources that answered disagree on whether the job is alive or moving",
    "silent_stall": (
        f"a gap that no interruption explains ended less than {duration(thresholds.SILENT_STALL_SHOWN_SECONDS)} "
        "before the last answer"
    ),
    "tasks_missing": "state running, some tasks run, and running + succeeded is below the size of the gang",
    "task_failures": (
        f"an interruption by failure less than {duration(thresholds.TASK_FAILURE_SHOWN_SECONDS)} before the "
        "scheduler's last answer"
    ),
    "bringup_stuck": f"rl, sft: bring-up, not preempted, for > {_FIRST_STEP} since the newest attempt's start",
    "engine_idle": (
        "eval, datagen: running, results missing, no running request, and no answer 200 for > "
        f"{duration(thresholds.ENGINE_IDLE_SECONDS)} (where there was one at all)"
    ),
    "auth_failures": (
        f"{thresholds.AUTH_FAILURES_COUNT} or more refusals of the sandbox provider within "
        f"{duration(thresholds.AUTH_FAILURES_SECONDS)}"
    ),
    "zombie": (
        f"running, finishing, and its last step was > {duration(thresholds.ZOMBIE_TRAINING_SECONDS)} ago; eval: its "
        f"last result > {duration(thresholds.ZOMBIE_EVAL_SECONDS)}; datagen: its upload > "
        f"{duration(thresholds.ZOMBIE_UPLOADED_SECONDS)} or its last result > "
        f"{duration(thresholds.ZOMBIE_DATAGEN_SECONDS)}; each, or the newest attempt's start if that is later"
    ),
    "checkpoint_stale": (
        f"stepping, newest complete checkpoint older than max({duration(thresholds.CHECKPOINT_STALE_FLOOR_SECONDS)}, "
        f"{_SAVES}); {_UNKNOWN_SAVES}; counted from the later of the save, the first step and the first new step after "
        "an interruption"
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
    "queued": "phase queued; state pending where no source of steps or results was ever read",
    "bringup": "phase bringup",
    "resuming": "phase resuming",
    "finishing": "phase finishing",
    "completed": "state succeeded",
    "resumed": f"stepping, and a gap that is no silent stall ended {_NEWS}",
    "checkpoint_saved": f"a complete checkpoint was saved {_NEWS}",
    "stable": "running, its history or trials were read, and nothing else holds",
}
