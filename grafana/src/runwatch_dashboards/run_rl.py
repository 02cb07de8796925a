"""The *Run* dashboard: the signals of an RL job, each with its healthy band and the line from which it is a fault."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import statetimeline, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery

from runwatch import thresholds as t
from runwatch.alerting.promql import number
from runwatch.figures import percent
from runwatch_dashboards import palette
from runwatch_dashboards.graphs import graph, line, second_line, timeline
from runwatch_dashboards.panels import limited, reaching
from runwatch_dashboards.queries import OF_RUN, equal, value


def _of(metric: str, legend: str, *selection: str, ref: str = "A", keep: str = "") -> Dataquery:
    return line(ref, value(metric, OF_RUN, *selection, keep=keep), legend)


def _signal(title: str, description: str, unit: str, *lines: Dataquery) -> timeseries.Panel:
    return graph(title, description, unit, lines)


def collapse() -> statetimeline.Panel:
    """Return which signals of the collapse rule held when."""
    return (
        timeline(
            "Signals of the collapse rule",
            f"{t.RL_COLLAPSE_SIGNALS} or more at once: the run collapses. Empty: none held, or the rules are not "
            "loaded.",
            [line("signal", f"max by (signal, site) (mljob:rl_collapse_signal{{{OF_RUN}}})", "{{signal}}")],
        )
        .mappings([palette.missing(), palette.words({"1": ("holds", palette.BAD)})])
        .no_value("No signal of the collapse rule held.")
        .height(5)
    )


def _rewards() -> Iterator[timeseries.Panel]:
    yield _signal(
        "Reward",
        "Mean raw reward, and the evaluation's score. Rewards under unlike shaping are not comparable: see Shaping "
        "above.",
        "none",
        _of("mljob_rl_reward", "reward"),
        _of("mljob_rl_eval_score", "evaluation", ref="B"),
    )
    yield _signal(
        "pass@N",
        "Share of prompts that any of N answers solved.",
        "percentunit",
        _of("mljob_rl_pass_at_n", "pass@{{n}}", keep="n"),
    )
    yield (
        limited(
            _signal(
                "Pass ratio of the newest trials",
                f"Of at most {t.RL_TRIAL_WINDOW_COUNT} scored ones. Below the line, over a full window, it is a "
                "signal of the "
                "collapse rule.",
                "percentunit",
                _of("mljob_rl_trial_pass_ratio", "pass ratio"),
            ),
            (t.RL_TRIAL_PASS_RATIO_LOW, palette.GOOD),
            base=palette.BAD,
        )
        .axis_soft_min(0)
        .axis_soft_max(1)
    )


def _gradients() -> Iterator[timeseries.Panel]:
    yield limited(
        _signal(
            "Gradient norm before clipping",
            "Above the line for two steps it is a signal, the earliest one: 2 to 5 steps ahead. 1e-5 is a regime, "
            "not a fault.",
            "none",
            _of("mljob_rl_grad_norm", "latest"),
            _of("mljob_rl_grad_norm_last2_min", "least of two", ref="B"),
        ),
        (t.RL_GRAD_NORM_LIMIT, palette.BAD),
        base=palette.GOOD,
    ).override_by_query("B", second_line())
    yield limited(
        _signal(
            "Gradient norm against its window",
            f"Latest / median of the {t.RL_WINDOW} steps before. Above the line it is a signal.",
            "none",
            _of("mljob_rl_grad_norm_window_ratio", "against its window"),
        ),
        (t.RL_GRAD_NORM_WINDOW_RATIO, palette.BAD),
        base=palette.GOOD,
    )
    yield limited(
        _signal(
            "Share of clipped tokens",
            "Above the line the learning rate and the clip range do not match.",
            "percentunit",
            _of("mljob_rl_ppo_clip_ratio", "clipped"),
        ),
        (t.RL_CLIP_RATIO_LIMIT, palette.WARNING),
        base=palette.GOOD,
    )


def _entropy() -> Iterator[timeseries.Panel]:
    yield _signal(
        "Entropy",
        "Of the policy. What counts is how far it is off its own trend.",
        "none",
        _of("mljob_rl_policy_entropy", "entropy"),
    )
    yield limited(
        _signal(
            "Entropy off its trend",
            f"Latest / mean of the {t.RL_WINDOW} steps before − 1. Beyond ±{percent(t.RL_ENTROPY_DEVIATION)} it is a "
            "signal.",
            "percentunit",
            _of("mljob_rl_entropy_deviation_ratio", "off trend"),
        ),
        (-t.RL_ENTROPY_DEVIATION, palette.GOOD),
        (t.RL_ENTROPY_DEVIATION, palette.BAD),
        base=palette.BAD,
    )
    yield reaching(
        _signal(
            "Z-clip",
            "Whether, or how often, the clipping of outlier gradients was triggered, as logged.",
            "none",
            _of("mljob_rl_z_clip_triggered", "triggered"),
        ),
        1,
    )


def _log_ratios() -> Iterator[timeseries.Panel]:
    low, high = t.RL_LOG_RATIO_MEAN_HEALTHY_LOW, t.RL_LOG_RATIO_MEAN_HEALTHY_HIGH
    yield limited(
        _signal(
            "log-ratio (policy), mean",
            f"How far the update moved the policy. {number(low)} to {number(high)} is usual; far below is a regime, "
            "not a fault.",
            "none",
            _of("mljob_rl_log_ratio_abs", "mean", equal("stat", "mean")),
        ),
        (low, palette.GOOD),
        (high, palette.WARNING),
        base=palette.PLAIN,
    )
    yield limited(
        _signal(
            "log-ratio (policy), largest",
            f"Healthy below {number(t.RL_LOG_RATIO_MAX_HEALTHY_HIGH)}.",
            "none",
            _of("mljob_rl_log_ratio_abs", "largest", equal("stat", "max")),
            _of("mljob_rl_log_ratio_abs", "99th percentile", equal("stat", "p99"), ref="B"),
        ),
        (t.RL_LOG_RATIO_MAX_HEALTHY_HIGH, palette.WARNING),
        base=palette.GOOD,
    ).override_by_query("B", second_line())
    yield limited(
        _signal(
            "log-ratio (policy) against its window",
            f"Latest / median of the {t.RL_WINDOW} steps before. The mean above the line while the largest is not: a "
            "signal.",
            "none",
            _of("mljob_rl_log_ratio_abs_mean_window_ratio", "mean"),
            _of("mljob_rl_log_ratio_abs_max_window_ratio", "largest", ref="B"),
        ),
        (t.RL_LOG_RATIO_MEAN_WINDOW_RATIO, palette.BAD),
        base=palette.GOOD,
    ).override_by_query("B", second_line())
    yield _signal(
        "log-ratio (policy) by position",
        "By percent of the answer. Healthy: even.",
        "none",
        _of("mljob_rl_log_ratio_abs_by_position", "{{position}} %", keep="position"),
    )
    yield limited(
        _signal(
            "Tokens moved by more than a half",
            "Mean over ranks. Healthy: about 0.",
            "locale",
            _of("mljob_rl_diverged_tokens", "tokens", equal("threshold", "0.5")),
        ),
        (t.RL_DIVERGED_TOKENS_HEALTHY_HIGH, palette.WARNING),
        base=palette.GOOD,
    )
    yield _signal(
        "Tokens moved, by threshold",
        "Tokens (mean over ranks) whose probability moved by more than the threshold.",
        "locale",
        _of("mljob_rl_diverged_tokens", "by more than {{threshold}}", keep="threshold"),
    )


def _generator() -> Iterator[timeseries.Panel]:
    yield limited(
        _signal(
            "TIS importance ratio",
            f"Trainer against generator. {number(t.RL_IMPORTANCE_RATIO_LOW)} to {number(t.RL_IMPORTANCE_RATIO_HIGH)} "
            "is healthy.",
            "none",
            _of("mljob_rl_tis_importance_ratio", "ratio"),
        ),
        (t.RL_IMPORTANCE_RATIO_LOW, palette.GOOD),
        (t.RL_IMPORTANCE_RATIO_HIGH, palette.WARNING),
        base=palette.WARNING,
    )
    yield _signal(
        "TIS log-ratio and capped share",
        "Mean abs log-ratio of trainer against generator, healthy: a few hundredths; share of capped ratios, "
        "healthy: about 0.",
        "none",
        _of("mljob_rl_tis_log_ratio_abs_mean", "log-ratio"),
        _of("mljob_rl_tis_capped_ratio", "capped share", ref="B"),
    )
    yield _signal(
        "Tokens an answer",
        "Mean of generated tokens. Standard RL has no trials: this, its reward and its saves are its gates.",
        "locale",
        _of("mljob_rl_generated_tokens", "tokens"),
    )
    # Not stacked: the whole step is one of the parts, and some lie within others.
    yield (
        _signal(
            "Time of a step, by part",
            "As the trainer logs it, the newest of each part. Parts may lie within others, as all do within the step.",
            "s",
            _of("mljob_rl_timing_seconds", "{{part}}", keep="part"),
        )
        .min(0)
        .span(24)
    )


def signals() -> Iterator[timeseries.Panel]:
    """Yield the graphs of an RL job's signals."""
    yield from _rewards()
    yield from _gradients()
    yield from _entropy()
    yield from _log_ratios()
    yield from _generator()
