"""Every metric: its name, help, added labels, unit and section. The one home of metric names.

Exposition, the reference in `docs/metrics.md`, tables and dashboards are made from this list or checked against it.
Ages are never exported: timestamps are, so that a reader subtracts what the source last confirmed.
"""

from __future__ import annotations

from runwatch.exporter_metrics import EXPORTER_METRICS, GRID_METRICS
from runwatch.metric_kinds import Metric, Section, Unit

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
INTERRUPTION_CAUSES = ("preemption", "failure", "chain", "unknown")
GAP_CAUSES = ("preemption", "failure", "chain", "unexplained", "unknown")
INFRA_CHECKS = ("tunnel", "api_base", "engine", "progress")
TASK_STATES = ("running", "pending", "succeeded", "failed")
WAITING_REASONS = (
    "dependency", "queue", "capacity", "quota", "image", "setup", "weights", "compile", "buffer", "unknown",
)  # fmt: skip
GRID_CELL_STATES = ("running", "pending", "done", "failed")
CHUNK_STATES = ("done", "running", "hung", "failed", "pending")
END_REASONS = (
    "completed", "wall_time", "out_of_memory", "cuda_out_of_memory", "sigterm", "sigkill", "nccl", "traceback",
    "rpc_timeout", "node", "preempted", "cancelled", "unknown",
)  # fmt: skip
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
LINK_TARGETS = ("scheduler", "checkpoints")


def _job(section: Section, *rows: tuple[str, str, Unit] | tuple[str, str, Unit, tuple[str, ...]]) -> list[Metric]:
    return [Metric(row[0], row[1], section, row[2], row[3] if len(row) > 3 else ()) for row in rows]


_U = Unit

_IDENTITY = _job(
    Section.IDENTITY,
    ("mljob_info", "What the job is; always 1.", _U.BOOLEAN, INFO_LABELS),
    (
        "mljob_link",
        "Where to open the job's page at its scheduler, or a folder of its checkpoints; always 1.",
        _U.BOOLEAN,
        ("target", "url"),
    ),
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
    (
        "mljob_successor",
        "1 while the run's newest ended link has a successor that runs or can still start.",
        _U.BOOLEAN,
        ("scheduler_job",),
    ),
    ("mljob_start_timestamp_seconds", "When the job started.", _U.TIMESTAMP),
    ("mljob_end_timestamp_seconds", "When the job ended; only when it did.", _U.TIMESTAMP),
    ("mljob_exit_code", "Exit code; only when the job ended and one was seen.", _U.NONE),
    ("mljob_tasks", "Tasks of the gang now, by state.", _U.COUNT, ("state",)),
    ("mljob_tasks_expected", "Size of the gang.", _U.COUNT),
    (
        "mljob_preemptions",
        "Preemptions as the scheduler counts them, a sum over tasks. Never compare it with gaps.",
        _U.COUNT,
    ),
    (
        "mljob_failures",
        "Failures as the scheduler counts them, a sum over tasks. Never compare it with gaps.",
        _U.COUNT,
    ),
    (
        "mljob_interruptions",
        "Ends of the gang's attempts before the job's end, by cause; tasks that ended close together count once.",
        _U.COUNT,
        ("cause",),
    ),
    (
        "mljob_failures_ended_alike",
        "1 when the last two ends of attempts were the same failure, by words and exit code, 0 when not; "
        "absent when neither was one or the scheduler does not say how one came about.",
        _U.BOOLEAN,
    ),
    (
        "mljob_interruption_timestamp_seconds",
        "When the newest interruption of that cause began.",
        _U.TIMESTAMP,
        ("cause",),
    ),
    (
        "mljob_interruptions_since_progress",
        "Interruptions since the newest complete checkpoint; without checkpoints since the newest new step or result.",
        _U.COUNT,
    ),
    (
        "mljob_replay_expected_seconds",
        "How long the steps that are to be done again will take; only while preempted or resuming.",
        _U.SECONDS,
    ),
    ("mljob_peak_memory_bytes", "Peak memory of the largest task.", _U.BYTES),
    ("mljob_log_last_write_timestamp_seconds", "When the newest of the job's logs was last written.", _U.TIMESTAMP),
    (
        "mljob_trend",
        "1 for the worst verdict that holds now, a word of a fixed list.",
        _U.BOOLEAN,
        ("verdict",),
    ),
    ("mljob_waiting", "1 for what a job waits for; only in queue and bring-up.", _U.BOOLEAN, ("reason",)),
    ("mljob_end_reason", "1 for why the job ended; only when it did.", _U.BOOLEAN, ("reason",)),
    ("mljob_attempt_start_timestamp_seconds", "When the newest attempt of the gang started.", _U.TIMESTAMP),
    (
        "mljob_attempt_first_step_timestamp_seconds",
        "First new step of the newest attempt; absent until there is one.",
        _U.TIMESTAMP,
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
    ("mljob_rl_trial_pass_ratio", "Share of the last 100 scored trials with a reward above 0.", _U.RATIO),
    ("mljob_rl_trials_in_window", "How many trials that ratio is over, 100 at most.", _U.COUNT),
    (
        "mljob_rl_collapse_step",
        "Newest step at which two or more signals of the collapse rule held; absent if none.",
        _U.STEPS,
    ),
)

_TRIALS = _job(
    Section.TRIALS,
    ("mljob_trials", "Trials with a result, over the whole job (datagen and eval, as all of these).", _U.COUNT),
    ("mljob_trials_target", "How many results there will be.", _U.COUNT),
    ("mljob_last_trial_timestamp_seconds", "When the newest result was written, by the store's clock.", _U.TIMESTAMP),
    ("mljob_trials_scored", "Trials with a valid reward.", _U.COUNT),
    ("mljob_trials_agent_ran", "Trials whose agent ran.", _U.COUNT),
    ("mljob_trial_pass_ratio", "Share of scored trials with a reward above 0.", _U.RATIO),
    ("mljob_trial_reward", "Mean reward of scored trials; absent without one.", _U.NONE),
    ("mljob_trial_turns", "Mean turns of trials whose agent ran. About 1 means a dead engine.", _U.NONE),
    (
        "mljob_trial_exceptions",
        "Trials with an exception, by its class: the 8 most frequent, then other. A trial with one may be scored.",
        _U.COUNT,
        ("exception",),
    ),
    ("mljob_trial_exception_ratio", "Trials with any exception / trials.", _U.RATIO),
    (
        "mljob_trial_instant_failures",
        "Trials that did not pass, made no output tokens and whose agent phase lasted under 5 s.",
        _U.COUNT,
    ),
    (
        "mljob_engine_running_requests",
        "Requests that the inference engines run, by their newest reports in the log.",
        _U.COUNT,
    ),
    ("mljob_engine_last_success_timestamp_seconds", "Newest answer 200 of the inference engine.", _U.TIMESTAMP),
    (
        "mljob_auth_failures",
        "Refusals by the sandbox provider in the 30 min before the log was read; absent while there never was one.",
        _U.COUNT,
    ),
    (
        "mljob_upload_complete",
        "1 once the log says that the traces are uploaded, 0 while it was read and does not (datagen).",
        _U.BOOLEAN,
    ),
    ("mljob_upload_timestamp_seconds", "When the traces were uploaded.", _U.TIMESTAMP),
    (
        "mljob_infra_check",
        "1 passed, 0 failed, absent not seen: the launch checks.",
        _U.BOOLEAN,
        ("check",),
    ),
    ("mljob_chunks", "Datagen chunks, by state.", _U.COUNT, ("state",)),
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (*_IDENTITY, *_PROGRESS, *_CHECKPOINTS, *_RL, *_TRIALS, *GRID_METRICS, *EXPORTER_METRICS)
}
"""All metrics by name, in the order of the reference and of the exposition."""

JOB_METRICS: tuple[Metric, ...] = tuple(
    metric for metric in METRICS.values() if metric.section not in {Section.GRIDS, Section.EXPORTER}
)
"""The metrics that `Measurements` may hold."""
