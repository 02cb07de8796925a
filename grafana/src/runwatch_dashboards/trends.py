"""The graphs of the bucket dashboards: for each value the jobs where it stands out, over the time range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grafana_foundation_sdk.builders import timeseries

from runwatch import thresholds
from runwatch_dashboards import links, palette
from runwatch_dashboards.panels import legend, limited, prop, time_series
from runwatch_dashboards.queries import SEARCHED, SELECTED, equal, extremes, series

SHOWN_JOBS = 10
"""More lines in one graph are not told apart."""

POINTS = 150
"""Points of a line: enough for a shape, and a query over thousands of jobs stays cheap."""


@dataclass(frozen=True, slots=True)
class Trend:
    """One graph.

    Attributes:
        title: Its title.
        description: What is drawn, and what the lines at limits mean.
        metric: A name of the catalogue.
        unit: Grafana's id.
        lowest: Whether the lowest values are the ones to look at.
        matchers: Label matchers that pick one series a job.
        limits: (value, colour) of lines at limits, in rising order; the area from each upward has its colour.
        below: The colour of what is below the first limit.
        function: What is done to the value first, `abs` for one whose sign does not matter.
    """

    title: str
    description: str
    metric: str
    unit: str = "none"
    lowest: bool = False
    matchers: tuple[str, ...] = ()
    limits: tuple[tuple[float, str], ...] = ()
    below: str = palette.PLAIN
    function: str = ""


_W, _B, _P = palette.WARNING, palette.BAD, palette.PLAIN
_R = "percentunit"

TRENDS: Mapping[str, tuple[Trend, ...]] = {
    "rl": (
        Trend("Reward", "Mean raw reward. Rewards of shaped and base jobs are not comparable.", "mljob_rl_reward"),
        Trend(
            "Gradient norm",
            "Before clipping. Above the line for two steps it is one signal of a collapse, its best predictor.",
            "mljob_rl_grad_norm",
            limits=((thresholds.RL_GRAD_NORM_LIMIT, _W),),
        ),
        Trend(
            "Entropy off its trend, without sign",
            f"|entropy / mean of the {thresholds.RL_WINDOW} steps before - 1|. Above the line it is one signal of a "
            "collapse.",
            "mljob_rl_entropy_deviation_ratio",
            unit=_R,
            limits=((thresholds.RL_ENTROPY_DEVIATION, _W),),
            function="abs",
        ),
        Trend(
            "Log-ratio against its window",
            f"Mean absolute log-ratio of the policy / median of the {thresholds.RL_WINDOW} steps before. Above the "
            "line, while the largest one stays bounded, it is one signal of a collapse. A log-ratio below "
            f"{thresholds.SUBSTANCE_MINIMUM:g} is a regime, not a signal.",
            "mljob_rl_log_ratio_abs_mean_window_ratio",
            limits=((thresholds.RL_LOG_RATIO_MEAN_WINDOW_RATIO, _W),),
        ),
        Trend(
            "TIS importance ratio",
            "Trainer against generator. Between the lines is healthy.",
            "mljob_rl_tis_importance_ratio",
            limits=((thresholds.RL_IMPORTANCE_RATIO_LOW, _P), (thresholds.RL_IMPORTANCE_RATIO_HIGH, _W)),
            below=_W,
        ),
        Trend(
            "Clip ratio",
            "Share of clipped tokens. Above the line learning rate and clip range do not fit.",
            "mljob_rl_ppo_clip_ratio",
            unit=_R,
            limits=((thresholds.RL_CLIP_RATIO_LIMIT, _W),),
        ),
    ),
    "sft": (
        Trend(
            "Loss against its window",
            f"Latest loss / median of the {thresholds.LOSS_WINDOW} logged values before. Above the line it diverges.",
            "mljob_loss_trend_ratio",
            limits=((thresholds.LOSS_DIVERGING_RATIO, _W),),
        ),
        Trend(
            "Gradient norm against its window",
            f"Largest gradient norm of the last 5 min / median of the {thresholds.GRAD_NORM_WINDOW} logged before. "
            f"Above the line, where the norm itself is above {thresholds.GRAD_EXPLOSION_MINIMUM:g}, it explodes.",
            "mljob_grad_norm_window_ratio",
            limits=((thresholds.GRAD_EXPLOSION_RATIO, _W),),
        ),
        Trend("Loss", "Latest finite training loss; the highest of all jobs.", "mljob_loss"),
        Trend("Lowest goodput", "Productive step time / time since the start.", "mljob_goodput_ratio", _R, True),
        Trend("Tokens a second", "Over the last 50 intervals between steps.", "mljob_tokens_per_second", "locale"),
        Trend(
            "Checkpoint lag",
            "Steps since the newest complete checkpoint: what would be done again after an interruption.",
            "mljob_checkpoint_lag_steps",
        ),
    ),
    "datagen": (
        Trend("Trials", "Results so far.", "mljob_trials", "locale"),
        Trend(
            "Fewest turns",
            "Mean turns of trials whose agent ran. Below the line the engine is dead, unless one turn is the job.",
            "mljob_trial_turns",
            lowest=True,
            limits=((thresholds.DEAD_ENGINE_TURNS, _P),),
            below=_B,
        ),
        Trend("Lowest mean reward", "Of scored trials.", "mljob_trial_reward", lowest=True),
        Trend(
            "Exceptions",
            "Trials with any exception / trials. Time-outs of agents are normal, even many.",
            "mljob_trial_exception_ratio",
            unit=_R,
        ),
    ),
    "eval": (
        Trend("Trials", "Results so far.", "mljob_trials", "locale"),
        Trend("Lowest pass rate", "Share of scored trials that passed.", "mljob_trial_pass_ratio", _R, True),
        Trend(
            "Exceptions",
            "Trials with any exception / trials. Time-outs of agents are normal, even many, and are scored.",
            "mljob_trial_exception_ratio",
            unit=_R,
        ),
        Trend(
            "Fewest running requests",
            "Requests that the inference engines run, by their newest reports in the log.",
            "mljob_engine_running_requests",
            lowest=True,
        ),
    ),
    "other": (
        Trend(
            "Tasks running",
            "Tasks of the gang that run now.",
            "mljob_tasks",
            matchers=(equal("state", "running"),),
        ),
        Trend("Peak memory", "Of the largest task.", "mljob_peak_memory_bytes", "bytes"),
    ),
}
"""The graphs of each bucket's dashboard."""


def trend_panel(trend: Trend, bucket: str) -> timeseries.Panel:
    """Return the panel of a graph, of the jobs with the highest values (or lowest) at each point in time."""
    selection = (equal("bucket", bucket), SELECTED, SEARCHED, *trend.matchers)
    picked = extremes(trend.metric, SHOWN_JOBS, *selection, lowest=trend.lowest, function=trend.function)
    panel = time_series(
        trend.title,
        f"{trend.description} At each time the {SHOWN_JOBS} jobs with the {'lowest' if trend.lowest else 'highest'} "
        "values; a click on a line leads to the job's page.",
        trend.unit,
        [series("value", picked, "{{run}} ({{site}})")],
    )
    panel = (
        panel.legend(legend(highest_first=not trend.lowest))
        .max_data_points(POINTS)
        .override_by_query("value", [prop("links", [links.series_to_run()])])
    )
    if not trend.limits:
        return panel
    return limited(panel, *trend.limits, base=trend.below)
