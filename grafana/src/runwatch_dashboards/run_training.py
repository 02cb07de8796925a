"""The *Run* dashboard: steps, throughput, loss, and what holds a job up: interruptions, gaps, checkpoints, tasks."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery

from runwatch import thresholds
from runwatch.alerting.promql import JOB, number, source_of
from runwatch_dashboards import palette, queries
from runwatch_dashboards.graphs import coloured, dashed, graph, line, second_line, stacked, stepped
from runwatch_dashboards.joined import one_table, paired
from runwatch_dashboards.panels import limited, plain_table, prop, reaching, unit_of
from runwatch_dashboards.queries import OF_RUN, by_cause, value
from runwatch_dashboards.run_status import STALL_LIMIT, STEP_AGE


def _of(metric: str, legend: str, ref: str, *, keep: str = "") -> Dataquery:
    return line(ref, value(metric, OF_RUN, keep=keep), legend)


def training() -> Iterator[timeseries.Panel]:
    """Yield the graphs of every job that trains."""
    yield stepped(
        graph(
            "Step against target",
            "The trainer's own counter, the last step, and the step of the newest complete checkpoint.",
            unit_of("mljob_step"),
            [
                _of("mljob_step", "step", "step"),
                _of("mljob_target_step", "target", "target"),
                _of("mljob_checkpoint_step", "checkpoint", "checkpoint"),
            ],
        )
    ).override_by_query("target", dashed(palette.NEUTRAL))
    limit = f"{number(thresholds.THROUGHPUT_DEGRADED_RATIO)} * {value('mljob_tokens_per_second_baseline', OF_RUN)}"
    yield (
        graph(
            "Tokens a second against baseline",
            "Recent, of the whole run, and the limit below which a fine-tune or a pre-training is slow. RL's follows "
            "the "
            "length of its answers.",
            unit_of("mljob_tokens_per_second"),
            [
                _of("mljob_tokens_per_second", "recent", "recent"),
                _of("mljob_tokens_per_second_baseline", "whole run", "whole"),
                line("limit", limit, "limit"),
            ],
        )
        .override_by_query("whole", dashed(palette.NEUTRAL))
        .override_by_query("limit", dashed(palette.WARNING))
        .decimals(0)
        .min(0)
    )
    yield (
        graph(
            "Time since the last step",
            "When history and scheduler last answered, not by the clock: a blind exporter draws no stall. Above the "
            "limit "
            "the job stalls, while it runs and makes steps.",
            "s",
            [line("age", STEP_AGE, "since the last step"), line("limit", STALL_LIMIT, "limit")],
        )
        .override_by_query("limit", dashed(palette.BAD))
        .min(0)
    )
    yield graph(
        "Loss",
        "The latest finite loss, of training and of validation; of RL the policy's.",
        "none",
        [
            _of("mljob_loss", "training", "loss"),
            _of("mljob_validation_loss", "validation", "validation"),
            _of("mljob_rl_policy_loss", "policy (RL)", "policy"),
        ],
    )
    yield graph(
        "Gradient norm",
        "The latest finite gradient norm; of RL before clipping.",
        "none",
        [_of("mljob_grad_norm", "gradient norm", "norm"), _of("mljob_rl_grad_norm", "before clipping (RL)", "policy")],
    )
    yield limited(
        graph(
            "Loss against its own trend (not RL)",
            "Latest / median of the window before it, and the least of the last five: when that one is above the "
            "line, the "
            "loss diverges.",
            "none",
            [
                _of("mljob_loss_trend_ratio", "latest", "latest"),
                _of("mljob_loss_trend_last5_min_ratio", "least of five", "least"),
            ],
        ),
        (thresholds.LOSS_DIVERGING_RATIO, palette.WARNING),
        base=palette.GOOD,
    ).override_by_query("least", second_line())
    yield limited(
        graph(
            "Gradient norm against its window (not RL)",
            "Largest of the last 5 min / median of the window before. Above the line it explodes, where the norm is "
            "above "
            f"{number(thresholds.GRAD_EXPLOSION_MINIMUM)} too.",
            "none",
            [_of("mljob_grad_norm_window_ratio", "against its window", "ratio")],
        ),
        (thresholds.GRAD_EXPLOSION_RATIO, palette.WARNING),
        base=palette.GOOD,
    )
    yield graph(
        "Seconds a step",
        "Median of (time / steps): of the last 50 intervals with gaps left out, and of the whole run.",
        "s",
        [
            _of("mljob_step_duration_recent_seconds", "recent", "recent"),
            _of("mljob_step_duration_seconds", "whole run", "whole"),
        ],
    ).override_by_query("whole", dashed(palette.NEUTRAL))
    yield graph(
        "Learning rate",
        "The latest learning rate.",
        "none",
        [_of("mljob_learning_rate", "learning rate", "rate")],
    )


_INTERRUPTED, _GAP_ENDED = "mljob_interruption_timestamp_seconds", "mljob_gap_end_timestamp_seconds"


def causes() -> table.Panel:
    """Return interruptions and gaps by cause."""
    columns = (
        ("interruptions", "Interruptions", value("mljob_interruptions", OF_RUN, keep="cause"), "none"),
        ("interrupted", "Newest interruption", f"{value(_INTERRUPTED, OF_RUN, keep='cause')} * 1000", "dateTimeAsIso"),
        ("gaps", "Gaps", by_cause("mljob_gaps", OF_RUN), "none"),
        ("gapseconds", "Time in gaps", by_cause("mljob_gap_seconds", OF_RUN), "s"),
        ("gapend", "Newest gap ended", f"{by_cause(_GAP_ENDED, OF_RUN)} * 1000", "dateTimeAsIso"),
    )
    panel = (
        plain_table(
            "Interruptions and gaps by cause",
            "Interruptions are ends of attempts, once a gang; gaps are intervals between logged steps above the "
            "threshold. A "
            "gap that nothing explains is a silent stall; one that is still open is none yet.",
            "none",
            [queries.table(ref, paired(expression, "cause", "site")) for ref, _, expression, _ in columns],
        )
        .transformations(one_table("Cause", {ref: title for ref, title, *_ in columns}, sort="Cause"))
        .filterable(False)
        .height(8)
        .span(16)
    )
    for _, title, _, unit in columns:
        panel = panel.override_by_name(title, [prop("unit", unit)])
    return panel


_CAUSES = {
    "preemption": palette.NEUTRAL,
    "failure": palette.WARNING,
    "chain": palette.GOOD,
    "unexplained": palette.BAD,
    "unknown": palette.GREY,
}
_TASK_STATES = {
    "running": palette.GOOD,
    "pending": palette.NEUTRAL,
    "succeeded": palette.GREY,
    "failed": palette.BAD,
}


def _age(timestamp: str) -> str:
    seen = f'max by ({JOB}) (mljob_observed_timestamp_seconds{{{OF_RUN}, source="{source_of(timestamp)}"}})'
    return f"{seen} - {value(timestamp, OF_RUN)}"


def interruptions() -> Iterator[timeseries.Panel]:
    """Yield the graphs of what holds a job up, and of what is saved of it."""
    yield stepped(
        graph(
            "Interruptions since progress",
            "Since the newest complete checkpoint; without checkpoints since the newest step or result. From the "
            "line on, "
            f"the newest within {number(thresholds.RESTARTS_WITHOUT_PROGRESS_RECENT_SECONDS / thresholds.HOUR)} h, "
            "the job "
            "restarts without progress.",
            "none",
            [_of("mljob_interruptions_since_progress", "since progress", "count")],
        )
    ).min(0)
    interval = value("mljob_checkpoint_interval_seconds", OF_RUN)
    stale = (
        f"clamp_min({number(thresholds.CHECKPOINT_INTERVALS_ALLOWED)} * {interval}, "
        f"{number(thresholds.CHECKPOINT_STALE_FLOOR_SECONDS)}) "
        f"or 0 * {value('mljob_checkpoint_timestamp_seconds', OF_RUN)} "
        f"+ {number(thresholds.CHECKPOINT_UNKNOWN_INTERVAL_SECONDS)}"
    )
    yield (
        graph(
            "Age of the newest complete checkpoint",
            "When the checkpoints were last listed. Above the limit it is stale, while the job makes steps; the rule "
            "counts "
            "from the first new step after an interruption.",
            "s",
            [
                line("age", _age("mljob_checkpoint_timestamp_seconds"), "age"),
                line("limit", stale, "limit"),
            ],
        )
        .override_by_query("limit", dashed(palette.WARNING))
        .min(0)
    )
    yield stepped(
        graph(
            "Checkpoint lag",
            "Steps that are not in a complete checkpoint yet: what an interruption now would cost.",
            unit_of("mljob_checkpoint_lag_steps"),
            [_of("mljob_checkpoint_lag_steps", "steps behind", "lag")],
        )
    )
    yield stepped(
        graph(
            "Checkpoints there are",
            "Folders, complete and partial. A partial one is written now, or was cut off.",
            unit_of("mljob_checkpoints"),
            [_of("mljob_checkpoints", "{{completeness}}", "count", keep="completeness")],
        )
    )
    yield (
        graph(
            "Goodput",
            "Productive step time / time since the start. Steps that are done again are not productive.",
            "percentunit",
            [_of("mljob_goodput_ratio", "goodput", "ratio")],
        )
        .axis_soft_min(0)
        .axis_soft_max(1)
        .span(12)
    )
    lost = graph(
        "Time lost in gaps, by cause",
        "Sum of the whole lengths of closed gaps.",
        "s",
        [line("gaps", by_cause("mljob_gap_seconds", OF_RUN), "{{cause}}")],
    )
    yield coloured(reaching(stepped(stacked(lost)), thresholds.MINUTE), _CAUSES).span(12)


def surroundings() -> Iterator[timeseries.Panel]:
    """Yield the graphs of the job's tasks and log, and of how fresh what is known of it is."""
    tasks = stepped(
        stacked(
            graph(
                "Tasks by state",
                "Tasks of the gang, and how many there should be. Fewer than that while some run: the job is missing "
                "some.",
                "none",
                [
                    _of("mljob_tasks", "{{state}}", "tasks", keep="state"),
                    _of("mljob_tasks_expected", "expected", "expected"),
                ],
            )
        )
    )
    yield coloured(tasks, _TASK_STATES).override_by_query(
        "expected", [*dashed(palette.GREY), prop("custom.stacking", {"mode": "none"}), prop("custom.fillOpacity", 0)]
    )
    log_seen = f'max by ({JOB}) (mljob_observed_timestamp_seconds{{{OF_RUN}, source="log"}})'
    yield graph(
        "Age of the log",
        "Since the newest of the job's logs was written, when the log was last read. A silent log is a sign, no proof.",
        "s",
        [
            line(
                "age",
                f"{log_seen} - {value('mljob_log_last_write_timestamp_seconds', OF_RUN)}",
                "since a line",
            )
        ],
    ).min(0)
    yield limited(
        graph(
            "Age of each source's answer",
            "By the clock. Above the line, or three of its intervals, a source is blind: its facts stand still and "
            "start no "
            "alert.",
            "s",
            [
                line(
                    "age",
                    f"time() - max by ({JOB}, source) (mljob_observed_timestamp_seconds{{{OF_RUN}}})",
                    "{{source}}",
                )
            ],
        ),
        (thresholds.BLIND_FLOOR_SECONDS, palette.WARNING),
        base=palette.PLAIN,
    ).min(0)
    yield graph(
        "Peak memory of the largest task",
        "As the scheduler tells it.",
        "bytes",
        [_of("mljob_peak_memory_bytes", "peak", "memory")],
    )
    yield stepped(
        graph(
            "Preemptions and failures by the scheduler",
            "As it counts them, a sum over tasks; a user's cancel may count too. Never compare it with gaps.",
            "none",
            [_of("mljob_preemptions", "preemptions", "preemptions"), _of("mljob_failures", "failures", "failures")],
        )
    )
    yield stepped(
        graph(
            "Steps done again",
            "After resuming from an older checkpoint. None where neither history nor checkpoints tell.",
            "none",
            [_of("mljob_replayed_steps", "replayed", "steps")],
        )
    )
