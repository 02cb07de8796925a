"""Alerts on what a job's training logs: throughput, loss, gradients, and the collapse rule of RL."""

from __future__ import annotations

from runwatch import thresholds as t
from runwatch.alerting.promql import (
    NOT_OVER,
    but_not,
    current,
    duration,
    either,
    grouped,
    in_phase,
    lines,
    not_blind,
    number,
    where,
)
from runwatch.alerting.rules import Alert
from runwatch.alerting.texts import AT_STEP, RUN, WHOLE, beyond, looked_up, value_of
from runwatch.figures import percent


def _of_history(condition: str, name: str, severity: str = "warning", remembered: float = 0.0) -> str:
    return lines(condition, NOT_OVER, not_blind(name, severity, remembered))


_LOSS_LIMIT = number(t.LOSS_DIVERGING_RATIO)
_LOSS_FOR = duration(t.LOSS_DIVERGING_SECONDS)

# Quick is what logs five values in that time. How far apart they are is told by the gap threshold alone: a step's
# duration does not tell how many steps pass between two rows.
_QUICK_GAP_THRESHOLD = t.GAP_MEDIAN_FACTOR * t.LOSS_DIVERGING_SECONDS / t.LOSS_TREND_RATIOS

_LOSS_DIVERGING = lines(
    grouped(
        either(
            current("mljob_loss_trend_last5_min_ratio", 'bucket!="rl"') + f" > {_LOSS_LIMIT}",
            lines(
                f"min_over_time(mljob:loss_trend_ratio[{_LOSS_FOR}]) > {_LOSS_LIMIT}",
                where(f"mljob:loss_trend_ratio offset {_LOSS_FOR}"),
                where(current("mljob_gap_threshold_seconds") + f" <= {number(_QUICK_GAP_THRESHOLD)}"),
            ),
        )
    ),
    where(current("mljob_loss") + f" >= {number(t.SUBSTANCE_MINIMUM)}"),
)

_COLLAPSE_NAME = "MLJobRLCollapse"
_COLLAPSE_HOLDS = _of_history(
    lines(
        grouped(
            either(
                f"mljob:rl_collapse_signals >= {t.RL_COLLAPSE_SIGNALS}",
                f"mljob:rl_collapse_steps_ago < {t.RL_COLLAPSE_RECENT_STEPS}",
            )
        ),
        but_not('mljob_info{ablation="spike-mitigation"}'),
    ),
    _COLLAPSE_NAME,
    "critical",
    t.ALERT_REMEMBERED_SECONDS,
)
_HELD = 'mljob_info{hold="no-kill"}'

_SIGNALS = looked_up(
    "max by (signal) (mljob:rl_collapse_signal{JOB})", "{{ range . }} {{ .Labels.signal }}{{ end }}", " none"
)
# An older step than that is not what fires: a pass ratio of trials without times tells only of now.
_HELD_ON_A_STEP = f"{t.RL_COLLAPSE_SIGNALS} or more signals of the collapse rule held on one step" + looked_up(
    f"max(mljob:rl_collapse_steps_ago{{JOB}}) < {t.RL_COLLAPSE_RECENT_STEPS}",
    looked_up("max(mljob_rl_collapse_step{JOB})", f", last on step {value_of(WHOLE)}"),
)
_COLLAPSE_TEXT = (
    f"Signals now:{_SIGNALS} (limit {t.RL_COLLAPSE_SIGNALS} on one step, now or within the last "
    f"{t.RL_COLLAPSE_RECENT_STEPS} steps).{AT_STEP}"
)


def _collapse(action: str, summary: str, advice: str, hold: str) -> Alert:
    return Alert(
        _COLLAPSE_NAME,
        "critical",
        lines(_COLLAPSE_HOLDS, hold),
        f"{RUN} {summary}",
        f"{advice} {_COLLAPSE_TEXT}",
        labels={"action": action},
    )


_OFF = lines(
    current("mljob_rl_tis_importance_ratio", 'bucket="rl"') + f" < {number(t.RL_IMPORTANCE_RATIO_LOW)}",
    "or",
    current("mljob_rl_tis_importance_ratio", 'bucket="rl"') + f" > {number(t.RL_IMPORTANCE_RATIO_HIGH)}",
)


def _percentage(ratio: float) -> str:
    """Return a ratio as Prometheus's humanizePercentage writes it."""
    return f"{ratio * 100:.4g}%"


_SLOWNESS = beyond("humanizePercentage", below=_percentage(t.THROUGHPUT_DEGRADED_RATIO))
_JUMP = beyond("humanize", above=number(t.GRAD_EXPLOSION_RATIO))

TRAINING_ALERTS = [
    Alert(
        "MLJobThroughputDegraded",
        "warning",
        _of_history(
            lines(
                f'mljob:throughput_ratio{{bucket="sft"}} < {number(t.THROUGHPUT_DEGRADED_RATIO)}',
                where(in_phase("stepping")),
            ),
            "MLJobThroughputDegraded",
        ),
        f"{RUN} makes {_SLOWNESS} of its usual tokens a second",
        f"Recent tokens a second are {_SLOWNESS} of the whole run's for {duration(t.ALERT_THROUGHPUT_FOR_SECONDS)}, "
        f"limit {percent(t.THROUGHPUT_DEGRADED_RATIO)}.{AT_STEP}",
        wait=t.ALERT_THROUGHPUT_FOR_SECONDS,
    ),
    Alert(
        "MLJobNonFinite",
        "critical",
        _of_history(current("mljob_nonfinite", 'metric=~"loss|grad_norm"') + " == 1", "MLJobNonFinite", "critical"),
        f"The loss or gradient norm of {RUN} is not finite",
        f"The latest row says NaN or infinite.{AT_STEP}",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobGradExplosion",
        "warning",
        _of_history(
            lines(
                current("mljob_grad_norm_window_ratio", 'bucket!="rl"') + f" > {number(t.GRAD_EXPLOSION_RATIO)}",
                where(current("mljob_grad_norm") + f" > {number(t.GRAD_EXPLOSION_MINIMUM)}"),
            ),
            "MLJobGradExplosion",
        ),
        f"The gradient norm of {RUN} is {_JUMP} × its window",
        f"The largest of the last {duration(t.GRAD_NORM_RECENT_SECONDS)} is {_JUMP} × the median before it, limit "
        f"{number(t.GRAD_EXPLOSION_RATIO)}, and the latest norm is above {number(t.GRAD_EXPLOSION_MINIMUM)}.{AT_STEP}",
    ),
    Alert(
        "MLJobLossDiverging",
        "warning",
        _of_history(_LOSS_DIVERGING, "MLJobLossDiverging"),
        f"The loss of {RUN} stays at {beyond('humanize', above=_LOSS_LIMIT)} × its window, or more",
        f"{t.LOSS_TREND_RATIOS} logged values in a row, or the latest for {_LOSS_FOR}, are above {_LOSS_LIMIT} × the "
        f"median before them.{AT_STEP}",
    ),
    _collapse(
        "cancel",
        "collapses: cancel it, and salvage",
        f"{_HELD_ON_A_STEP}: cancel it, after noting the newest complete checkpoint before the first signal.",
        but_not(_HELD),
    ),
    _collapse(
        "recommend",
        "collapses: its no-kill hold leaves it running",
        f"{_HELD_ON_A_STEP}, and the run is held: capture the evidence, recommend cancelling, leave it running.",
        where(_HELD),
    ),
    Alert(
        "MLJobRLGradNormHigh",
        "warning",
        _of_history(
            current("mljob_rl_grad_norm_last2_min", 'bucket="rl"') + f" > {number(t.RL_GRAD_NORM_LIMIT)}",
            "MLJobRLGradNormHigh",
        ),
        f"The gradient norm of {RUN} is {beyond('humanize', above=number(t.RL_GRAD_NORM_LIMIT))} or more for two steps",
        f"Above {number(t.RL_GRAD_NORM_LIMIT)} for two steps: the earliest sign of a collapse, by 2 to 5 steps."
        f"{AT_STEP}",
    ),
    Alert(
        "MLJobRLClipRatioHigh",
        "warning",
        _of_history(
            current("mljob_rl_ppo_clip_ratio", 'bucket="rl"') + f" > {number(t.RL_CLIP_RATIO_LIMIT)}",
            "MLJobRLClipRatioHigh",
        ),
        f"{RUN} clips {beyond('humanizePercentage', above=_percentage(t.RL_CLIP_RATIO_LIMIT))} of its tokens",
        f"Limit {percent(t.RL_CLIP_RATIO_LIMIT)}: the learning rate and the clip range do not match.{AT_STEP}",
    ),
    Alert(
        "MLJobRLImportanceRatioOff",
        "warning",
        _of_history(grouped(_OFF), "MLJobRLImportanceRatioOff"),
        # humanize writes 0.83 as 830m
        f"The TIS importance ratio of {RUN} is "
        + beyond('printf "%.3g"', below=number(t.RL_IMPORTANCE_RATIO_LOW), above=number(t.RL_IMPORTANCE_RATIO_HIGH)),
        f"Outside {number(t.RL_IMPORTANCE_RATIO_LOW)} to {number(t.RL_IMPORTANCE_RATIO_HIGH)}: trainer and generator "
        f"disagree on how likely the answers are, for {duration(t.ALERT_IMPORTANCE_RATIO_FOR_SECONDS)}.{AT_STEP}",
        wait=t.ALERT_IMPORTANCE_RATIO_FOR_SECONDS,
    ),
]
