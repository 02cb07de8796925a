"""The conditions of the verdicts on an RL job's update: the collapse rule, its signals, and two ratios."""

from __future__ import annotations

from runwatch import thresholds
from runwatch.derive.observation import blind_limit, observed
from runwatch.derive.verdict_conditions import Subject
from runwatch.facts import SourceKind
from runwatch.figures import beyond, percent, signed_percent_beyond


def grad_norm_high(job: Subject) -> str | None:
    """An RL job's gradient norm is high for two steps: the best predictor of a collapse, 2 to 5 steps ahead."""
    norm = job.get("mljob_rl_grad_norm_last2_min")
    if not job.is_rl or norm is None or norm <= thresholds.RL_GRAD_NORM_LIMIT:
        return None
    return f"grad {beyond(norm, thresholds.RL_GRAD_NORM_LIMIT, 1)}, two steps"


def _grad_norm_above_window(job: Subject) -> str | None:
    ratio, norm = job.get("mljob_rl_grad_norm_window_ratio"), job.get("mljob_rl_grad_norm")
    limit = thresholds.RL_GRAD_NORM_WINDOW_RATIO
    if ratio is None or norm is None or ratio <= limit or norm < thresholds.SUBSTANCE_MINIMUM:
        return None
    return f"grad {beyond(ratio, limit, 1)} × its window"


def entropy_drift(job: Subject) -> str | None:
    """The policy's entropy is off its trend, up or down."""
    deviation = job.get("mljob_rl_entropy_deviation_ratio")
    if not job.is_rl or deviation is None or abs(deviation) <= thresholds.RL_ENTROPY_DEVIATION:
        return None
    return f"entropy {signed_percent_beyond(deviation, thresholds.RL_ENTROPY_DEVIATION)} vs trend"


def log_ratio_drift(job: Subject) -> str | None:
    """The mean abs log-ratio rises while its max stays bounded: the whole policy moves, not a few tokens."""
    mean = job.get("mljob_rl_log_ratio_abs", stat="mean")
    mean_ratio = job.get("mljob_rl_log_ratio_abs_mean_window_ratio")
    max_ratio = job.get("mljob_rl_log_ratio_abs_max_window_ratio")
    if not job.is_rl or mean is None or mean_ratio is None or max_ratio is None:
        return None
    limit = thresholds.RL_LOG_RATIO_MEAN_WINDOW_RATIO
    if mean < thresholds.SUBSTANCE_MINIMUM or mean_ratio <= limit:
        return None
    if max_ratio > thresholds.RL_LOG_RATIO_MAX_WINDOW_RATIO:
        return None
    return f"log-ratio {beyond(mean_ratio, limit, 1)} × its window"


def pass_ratio_low(job: Subject) -> str | None:
    """Hardly any of the last trials passed, over a full window of them; not while their source is blind."""
    seen = observed(job.measurements, SourceKind.TRIALS)
    if seen is not None and job.now - seen > blind_limit(SourceKind.TRIALS.value, job.intervals):
        return None
    ratio, trials = job.get("mljob_rl_trial_pass_ratio"), job.get("mljob_rl_trials_in_window")
    if not job.is_rl or ratio is None or trials is None or trials < thresholds.RL_TRIAL_WINDOW_COUNT:
        return None
    if ratio >= thresholds.RL_TRIAL_PASS_RATIO_LOW:
        return None
    return f"pass-rate {percent(ratio)} over the last {trials:.0f} trials"


def collapse_signals(job: Subject) -> tuple[str, ...]:
    """Return the signals of the collapse rule that hold now; each counts once, however many of its conditions hold."""
    grad_norm = grad_norm_high(job) or _grad_norm_above_window(job)
    signals = (grad_norm, entropy_drift(job), log_ratio_drift(job), pass_ratio_low(job))
    return tuple(signal for signal in signals if signal is not None)


def collapse(job: Subject) -> str | None:
    """Two or more signals of the collapse rule hold, or held at one of the last few steps."""
    if not job.is_rl or job.info.get("ablation") == "spike-mitigation":
        return None
    action = "recommend cancelling (no-kill)" if job.info.get("hold") == "no-kill" else "cancel"
    signals = collapse_signals(job)
    if len(signals) >= thresholds.RL_COLLAPSE_SIGNALS:
        return f"collapse: {' + '.join(signals)}: {action}"
    step, collapse_step = job.get("mljob_rl_step"), job.get("mljob_rl_collapse_step")
    if step is None or collapse_step is None or step - collapse_step >= thresholds.RL_COLLAPSE_RECENT_STEPS:
        return None
    return f"collapse at step {collapse_step:.0f} (now {step:.0f}): {action}"


def clip_ratio_high(job: Subject) -> str | None:
    """Clipping more than a little means that the learning rate and the clip range do not match."""
    ratio = job.get("mljob_rl_ppo_clip_ratio")
    if not job.is_rl or ratio is None or ratio <= thresholds.RL_CLIP_RATIO_LIMIT:
        return None
    return f"clip ratio {beyond(100 * ratio, 100 * thresholds.RL_CLIP_RATIO_LIMIT, 1)} %"


def importance_ratio_off(job: Subject) -> str | None:
    """Trainer and generator disagree on how likely the answers are."""
    ratio = job.get("mljob_rl_tis_importance_ratio")
    low, high = thresholds.RL_IMPORTANCE_RATIO_LOW, thresholds.RL_IMPORTANCE_RATIO_HIGH
    if not job.is_rl or ratio is None or low <= ratio <= high:
        return None
    return f"importance ratio {beyond(ratio, low if ratio < low else high, 2)}"
