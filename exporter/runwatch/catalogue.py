"""Every metric: its name, help, added labels, unit and section. The one home of metric names.

Exposition, the reference in `docs/metrics.md`, tables and dashboards are made from this list or checked against it.
Ages are never exported: timestamps are, so that a reader subtracts what the source last confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

JOB_LABELS = ("run", "bucket", "site")

JOB_STATES = (
    "pending",
    "running",
    "preempted",
    "succeeded",
    "failed",
    "timeout",
    "killed",
    "vanished",
    "unknown",
)
ENDED_STATES = frozenset({"succeeded", "failed", "timeout", "killed", "vanished"})
"""The states of a job that is over."""

JOB_PHASES = ("queued", "bringup", "stepping", "finishing", "resuming", "finished")
GAP_CAUSES = ("preemption", "failure", "chain", "unexplained", "unknown")
INFO_LABELS = (
    "kind",
    "owner",
    "scheduler",
    "scheduler_job",
    "wandb_run",
    "url",
    "tracker_row",
    "ablation",
    "hold",
    "shaping",
    "grid",
    "new_setting",
    "turns",
)


class Section(StrEnum):
    """The part of the reference a metric stands in."""

    IDENTITY = "Identity and state"
    PROGRESS = "Progress"
    CHECKPOINTS = "Checkpoints"
    RL = "RL"
    EXPORTER = "The exporter about itself"


class Unit(StrEnum):
    """How a value is read by people; tables and dashboards format by it."""

    NONE = ""
    SECONDS = "seconds"
    TIMESTAMP = "timestamp"
    RATIO = "ratio"
    STEPS = "steps"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens per second"
    COUNT = "count"
    BOOLEAN = "boolean"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. `labels` are those added to `JOB_LABELS` (section EXPORTER: all of its labels)."""

    name: str
    help: str
    section: Section
    unit: Unit = Unit.NONE
    labels: tuple[str, ...] = ()
    kind: str = "gauge"


def _job(section: Section, *rows: tuple[str, str, Unit] | tuple[str, str, Unit, tuple[str, ...]]) -> list[Metric]:
    return [Metric(row[0], row[1], section, row[2], row[3] if len(row) > 3 else ()) for row in rows]


_U = Unit

_IDENTITY = _job(
    Section.IDENTITY,
    ("mljob_info", "What the job is; always 1.", _U.BOOLEAN, INFO_LABELS),
    ("mljob_state", "The job's state, one-hot.", _U.BOOLEAN, ("state",)),
    (
        "mljob_phase",
        "What the job is doing, one-hot; absent while no source of steps was ever read.",
        _U.BOOLEAN,
        ("phase",),
    ),
    (
        "mljob_state_conflict",
        "1 while two sources that answered disagree on whether the job is alive or moving.",
        _U.BOOLEAN,
    ),
    ("mljob_start_timestamp_seconds", "When the job started.", _U.TIMESTAMP),
    ("mljob_end_timestamp_seconds", "When the job ended; only when it did.", _U.TIMESTAMP),
    ("mljob_exit_code", "Exit code; only when the job ended and one was seen.", _U.NONE),
    (
        "mljob_trend",
        "1 for the worst verdict that holds now, a word of a fixed list.",
        _U.BOOLEAN,
        ("verdict",),
    ),
    (
        "mljob_source_configured_timestamp_seconds",
        "Since when this job is asked of that source.",
        _U.TIMESTAMP,
        ("source",),
    ),
    (
        "mljob_observed_timestamp_seconds",
        "When that source last answered for this job. Measure ages against this, never against the wall clock.",
        _U.TIMESTAMP,
        ("source",),
    ),
)

_PROGRESS = _job(
    Section.PROGRESS,
    ("mljob_step", "The trainer's own step counter, at its latest row.", _U.STEPS),
    ("mljob_target_step", "Number of steps the job is to make.", _U.STEPS),
    ("mljob_first_step_timestamp_seconds", "Time of the first row with a step.", _U.TIMESTAMP),
    ("mljob_last_step_timestamp_seconds", "Time of the latest row with a step.", _U.TIMESTAMP),
    ("mljob_step_duration_seconds", "Median seconds a step over the whole run.", _U.SECONDS),
    (
        "mljob_step_duration_recent_seconds",
        "Median seconds a step over the last 50 intervals, gaps left out; from 3 intervals on.",
        _U.SECONDS,
    ),
    (
        "mljob_tokens_per_second",
        "Batch size x sequence length / recent step duration, or the trainer's own figure.",
        _U.TOKENS_PER_SECOND,
    ),
    (
        "mljob_tokens_per_second_baseline",
        "Batch size x sequence length / whole-run step duration, or the trainer's own figure.",
        _U.TOKENS_PER_SECOND,
    ),
    ("mljob_eta_seconds", "Remaining steps x recent step duration: compute only.", _U.SECONDS),
    ("mljob_eta_with_interruptions_seconds", "The compute-only ETA divided by goodput.", _U.SECONDS),
    (
        "mljob_gap_threshold_seconds",
        "Above this an interval between logged steps is a gap: max(300, 20 x median interval).",
        _U.SECONDS,
    ),
    ("mljob_gaps", "Closed gaps between logged steps, by cause.", _U.COUNT, ("cause",)),
    ("mljob_gap_seconds", "Sum of the whole lengths of closed gaps, by cause.", _U.SECONDS, ("cause",)),
    ("mljob_longest_gap_seconds", "The longest closed gap of all.", _U.SECONDS),
    ("mljob_gap_end_timestamp_seconds", "When the newest gap of that cause ended.", _U.TIMESTAMP, ("cause",)),
    (
        "mljob_goodput_ratio",
        "Productive step time / time since the job's start. Replayed steps are not productive.",
        _U.RATIO,
    ),
    (
        "mljob_replayed_steps",
        "Steps done again after resuming from an older checkpoint; absent when neither history nor checkpoints tell.",
        _U.STEPS,
    ),
    ("mljob_loss", "Latest finite training loss (not RL).", _U.NONE),
    ("mljob_grad_norm", "Latest finite gradient norm (not RL).", _U.NONE),
    ("mljob_learning_rate", "Latest learning rate.", _U.NONE),
    ("mljob_validation_loss", "Latest finite validation loss.", _U.NONE),
    ("mljob_rl_eval_score", "Latest eval/all/avg_score of an RL job.", _U.NONE),
    ("mljob_accelerators", "Chips of the gang.", _U.COUNT, ("type",)),
    (
        "mljob_loss_trend_ratio",
        "Latest loss / median of the 50 logged values before it; absent until 50 came before.",
        _U.RATIO,
    ),
    ("mljob_loss_trend_last5_min_ratio", "Least of the last five loss trend ratios.", _U.RATIO),
    (
        "mljob_grad_norm_window_ratio",
        "Largest of (gradient norm / median of the 50 logged before it) over the rows of the last 5 min.",
        _U.RATIO,
    ),
    ("mljob_nonfinite", "1 when the latest logged value of that metric is NaN or infinite.", _U.BOOLEAN, ("metric",)),
)

_CHECKPOINTS = _job(
    Section.CHECKPOINTS,
    ("mljob_checkpoint_step", "Step of the newest complete checkpoint, over every root.", _U.STEPS),
    ("mljob_checkpoint_timestamp_seconds", "When the newest complete checkpoint was committed.", _U.TIMESTAMP),
    ("mljob_checkpoint_lag_steps", "Step minus the step of the newest complete checkpoint.", _U.STEPS),
    ("mljob_checkpoint_interval_seconds", "Time between checkpoints, as configured or as measured.", _U.SECONDS),
    ("mljob_checkpoints", "Checkpoint folders there are, complete or partial.", _U.COUNT, ("completeness",)),
)

_RL = _job(
    Section.RL,
    ("mljob_rl_reward", "reward/avg_raw_reward.", _U.NONE),
    ("mljob_rl_pass_at_n", "reward/avg_pass_at_N.", _U.RATIO, ("n",)),
    ("mljob_rl_policy_loss", "policy/policy_loss.", _U.NONE),
    ("mljob_rl_policy_entropy", "policy/policy_entropy.", _U.NONE),
    ("mljob_rl_grad_norm", "policy/raw_grad_norm, before clipping.", _U.NONE),
    ("mljob_rl_ppo_clip_ratio", "policy/ppo_clip_ratio.", _U.RATIO),
    ("mljob_rl_z_clip_triggered", "policy/z_clip/triggered.", _U.NONE),
    ("mljob_rl_tis_importance_ratio", "tis/imp_ratio_mean.", _U.NONE),
    ("mljob_rl_tis_capped_ratio", "tis/imp_ratio_capped_fraction.", _U.RATIO),
    (
        "mljob_rl_log_ratio_abs",
        "policy/log_ratio_abs_*: how far the update moved the policy.",
        _U.NONE,
        ("stat",),
    ),
    (
        "mljob_rl_log_ratio_abs_by_position",
        "policy/log_ratio_abs_posNN, by percent of the response. Healthy: even.",
        _U.NONE,
        ("position",),
    ),
    ("mljob_rl_tis_log_ratio_abs_mean", "tis/log_ratio_abs_mean: trainer against generator.", _U.NONE),
    (
        "mljob_rl_diverged_tokens",
        "policy/n_tokens_dp_gt_*: tokens (mean over ranks) whose probability moved by more than the threshold.",
        _U.TOKENS,
        ("threshold",),
    ),
    ("mljob_rl_generated_tokens", "generate/avg_num_tokens.", _U.TOKENS),
    ("mljob_rl_step", "The step that all RL values of the job come from.", _U.STEPS),
    ("mljob_rl_timing_seconds", "timing/*, the newest of each part.", _U.SECONDS, ("part",)),
    ("mljob_rl_grad_norm_last2_min", "Least gradient norm of the last two steps.", _U.NONE),
    ("mljob_rl_grad_norm_window_ratio", "Latest gradient norm / median of the 10 steps before.", _U.RATIO),
    ("mljob_rl_log_ratio_abs_mean_window_ratio", "Latest log-ratio mean / median of the 10 steps before.", _U.RATIO),
    ("mljob_rl_log_ratio_abs_max_window_ratio", "Latest log-ratio max / median of the 10 steps before.", _U.RATIO),
    ("mljob_rl_entropy_deviation_ratio", "Latest entropy / mean of the 10 steps before, minus 1.", _U.RATIO),
    (
        "mljob_rl_collapse_step",
        "Newest step at which two or more signals of the collapse rule held; absent if none.",
        _U.STEPS,
    ),
)

_EXPORTER = [
    Metric("runwatch_build_info", "Version of this exporter; always 1.", Section.EXPORTER, labels=("version",)),
    Metric(
        "runwatch_source_up",
        "0 when not one job of this source at this site could be read in the last poll.",
        Section.EXPORTER,
        Unit.BOOLEAN,
        ("source", "site"),
    ),
    Metric(
        "runwatch_source_interval_seconds",
        "Time between polls of this source.",
        Section.EXPORTER,
        Unit.SECONDS,
        ("source", "site"),
    ),
    Metric(
        "runwatch_source_last_success_timestamp_seconds",
        "When this source was last read at this site.",
        Section.EXPORTER,
        Unit.TIMESTAMP,
        ("source", "site"),
    ),
    Metric(
        "runwatch_source_errors_total",
        "Failed looks, by reason.",
        Section.EXPORTER,
        Unit.COUNT,
        ("source", "site", "reason"),
        "counter",
    ),
    Metric(
        "runwatch_source_requests_total",
        "Requests made to the upstream (HTTP requests, listings, files opened).",
        Section.EXPORTER,
        Unit.COUNT,
        ("source", "site"),
        "counter",
    ),
    Metric(
        "runwatch_poll_duration_seconds",
        "How long a poll took.",
        Section.EXPORTER,
        Unit.SECONDS,
        ("source", "site"),
        "histogram",
    ),
    Metric("runwatch_jobs", "Jobs watched.", Section.EXPORTER, Unit.COUNT, ("bucket",)),
    Metric("runwatch_series", "Series of jobs in the exposition.", Section.EXPORTER, Unit.COUNT),
    Metric("runwatch_jobs_dropped", "Jobs found by discovery but over the limit.", Section.EXPORTER, Unit.COUNT),
    Metric(
        "runwatch_history_rows_malformed_total",
        "Rows or lines of a job's history that could not be read and were skipped.",
        Section.EXPORTER,
        Unit.COUNT,
        ("run",),
        "counter",
    ),
    Metric(
        "runwatch_config_last_reload_successful",
        "1 when the last reload of the config succeeded.",
        Section.EXPORTER,
        Unit.BOOLEAN,
    ),
    Metric(
        "runwatch_config_last_reload_success_timestamp_seconds",
        "When the config was last loaded.",
        Section.EXPORTER,
        Unit.TIMESTAMP,
    ),
]

METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*_IDENTITY, *_PROGRESS, *_CHECKPOINTS, *_RL, *_EXPORTER)
}
"""All metrics by name, in the order of the reference and of the exposition."""

JOB_METRICS: tuple[Metric, ...] = tuple(metric for metric in METRICS.values() if metric.section != Section.EXPORTER)
"""The metrics that `Measurements` may hold."""
