"""Every threshold of the product, once. Verdicts, rules, dashboards and docs are made from here.

Sources: the collapse and stall rules of the teams that run these jobs (`docs/rules.md` tells each with its reason).
"""

from __future__ import annotations

MINUTE = 60.0
HOUR = 3600.0

# Gaps and durations
GAP_FLOOR_SECONDS = 300.0
GAP_MEDIAN_FACTOR = 20.0
MEDIAN_MINIMUM_COUNT = 3  # a median of durations needs this many intervals
RECENT_INTERVALS = 50

# Windows (they count logged values, not step numbers)
LOSS_WINDOW = 50
LOSS_TREND_RATIOS = 5
GRAD_NORM_WINDOW = 50
GRAD_NORM_RECENT_SECONDS = 5 * MINUTE
RL_WINDOW = 10

# Stalls: observed - last step > STALL_BASE + gap threshold / 4, before there is a threshold the bring-up limit
STALL_BASE_SECONDS = 15 * MINUTE
STALL_GAP_THRESHOLD_FRACTION = 0.25
BRINGUP_LIMIT_SECONDS = 45 * MINUTE
BRINGUP_LIMIT_RL_SECONDS = 90 * MINUTE

# Throughput and loss
THROUGHPUT_DEGRADED_RATIO = 0.7
LOSS_DIVERGING_RATIO = 1.5
GRAD_EXPLOSION_RATIO = 10.0
GRAD_EXPLOSION_MINIMUM = 1.0
SUBSTANCE_MINIMUM = 1e-3  # a grad norm, loss or mean log-ratio below this is a regime, not a signal

# The RL collapse rule: two or more signals on the same step
RL_GRAD_NORM_LIMIT = 1.0
RL_GRAD_NORM_WINDOW_RATIO = 2.0
RL_ENTROPY_DEVIATION = 0.30
RL_LOG_RATIO_MEAN_WINDOW_RATIO = 2.0
RL_LOG_RATIO_MAX_WINDOW_RATIO = 2.0
RL_COLLAPSE_SIGNALS = 2
RL_COLLAPSE_RECENT_STEPS = 5
RL_CLIP_RATIO_LIMIT = 0.01
RL_IMPORTANCE_RATIO_LOW = 0.84
RL_IMPORTANCE_RATIO_HIGH = 1.56

# Healthy bands of RL that graphs draw and no rule judges; below the first is a regime (seqnorm global-denom), no fault
RL_LOG_RATIO_MEAN_HEALTHY_LOW = 0.005
RL_LOG_RATIO_MEAN_HEALTHY_HIGH = 0.02
RL_LOG_RATIO_MAX_HEALTHY_HIGH = 0.5
RL_DIVERGED_TOKENS_HEALTHY_HIGH = 50.0  # tokens whose probability moved by more than a half; about 0 is usual

# Checkpoints
CHECKPOINT_STALE_FLOOR_SECONDS = 30 * MINUTE
NO_CHECKPOINT_FLOOR_SECONDS = 1 * HOUR
CHECKPOINT_INTERVALS_ALLOWED = 3.0
CHECKPOINT_UNKNOWN_INTERVAL_SECONDS = 6 * HOUR
HISTORY_CUT_OFF_SECONDS = 10 * MINUTE  # a checkpoint this much newer than the last step: only the history is cut off

# A job that goes on though it is done, and a gap that nothing explains
ZOMBIE_TRAINING_SECONDS = 2 * HOUR
ZOMBIE_EVAL_SECONDS = 15 * MINUTE
ZOMBIE_DATAGEN_SECONDS = 2 * HOUR  # after its last trial
ZOMBIE_UPLOADED_SECONDS = 15 * MINUTE  # datagen, after its upload
SILENT_STALL_SHOWN_SECONDS = 1 * HOUR

# A source that has not confirmed its facts for this long is blind: max(floor, intervals x its own interval)
BLIND_FLOOR_SECONDS = 5 * MINUTE
BLIND_INTERVALS = 3.0
SLOW_ROUND_FACTOR = 1.5  # a round over a site's jobs that takes so many times the configured interval is its interval
NEVER_READ_SECONDS = 45 * MINUTE  # a source that was asked this long and never answered for the job
DEFAULT_INTERVAL_SECONDS = 60.0  # where the caller does not say how often a source is polled

# Liveness without a scheduler
HEARTBEAT_FRESH_SECONDS = 5 * MINUTE  # W&B declares a run crashed after five minutes without a heartbeat
NO_FACTS_UNKNOWN_SECONDS = 24 * HOUR
LOG_SILENT_SECONDS = 5 * MINUTE  # a failure in a log ends a job once the log was silent for so long
LOG_AFTERMATH_SECONDS = 10 * MINUTE  # what a job still writes after the failure that ended it
AT_IS_NOW_SECONDS = 5 * MINUTE  # an --at older than this hides what a listing tells of today

# Schedulers: clocks, gangs and records that are gone
CLOCK_SLACK_SECONDS = 90.0  # how far the clocks of a scheduler, a trainer and a store may be apart
LOGGING_DELAY_INTERVALS = 2.0  # an interruption may come this many intervals after the last row that was still logged
INTERRUPTION_TOGETHER_SECONDS = 2 * MINUTE  # attempts that end within this of one another are one interruption
INTERRUPTION_SPAN_SECONDS = 10 * MINUTE  # and one interruption lasts no longer than this
NO_TASKS_SECONDS = 5 * MINUTE  # counted as running without a task for longer: vanished
NO_TASKS_IRIS_SECONDS = 10 * MINUTE  # Iris says running also while all tasks wait, and bears a missing pod for long
COVERAGE_INTERVALS = 3.0  # answers at most this many polling intervals apart leave nothing unseen between them
RESTARTS_WITHOUT_PROGRESS_COUNT = 3
RESTARTS_WITHOUT_PROGRESS_RECENT_SECONDS = 6 * HOUR
TASK_FAILURE_SHOWN_SECONDS = 1 * HOUR

# Trials
INSTANT_FAILURE_SECONDS = 5.0  # a failed trial without output tokens whose agent lasted less ended as it began
RL_TRIAL_WINDOW_COUNT = 100  # the newest scored trials, whose pass ratio is a signal of the collapse rule
RL_TRIAL_PASS_RATIO_LOW = 0.10  # below this over a full window: a signal of the collapse rule
CHUNK_HUNG_SECONDS = 2 * HOUR  # a datagen chunk's log silent and its trials unmoved for longer: hung
TRIALS_STALLED_EVAL_SECONDS = 60 * MINUTE
TRIALS_STALLED_DATAGEN_SECONDS = 120 * MINUTE
DEAD_ENGINE_TRIALS_COUNT = 20  # so many trials whose agent ran, before their turns tell of the engine
DEAD_ENGINE_TURNS = 1.05
INSTANT_FAILURES_COUNT = 10
INSTANT_FAILURES_SHARE = 0.5
ALL_FAILING_TRIALS_COUNT = 10  # so many trials, each with an exception and none scored: not trusted
RESULTS_STAND_AFTER_END_SECONDS = 1 * HOUR  # how long an ended job's row warns of using its results

# The inference engine and the sandbox provider, as their lines in the log tell
ENGINE_IDLE_SECONDS = 10 * MINUTE  # no running request and no answer 200 for so long: idle
AUTH_FAILURES_SECONDS = 30 * MINUTE  # refusals are counted over so long
AUTH_FAILURES_COUNT = 5

# Alert rules: how long a condition must hold before it is an alert, and what rules alone judge
ALERT_FOR_SECONDS = 2 * MINUTE
ALERT_STALL_FOR_SECONDS = 5 * MINUTE  # also bring-up that is stuck
ALERT_VANISHED_FOR_SECONDS = 5 * MINUTE
ALERT_THROUGHPUT_FOR_SECONDS = 30 * MINUTE
ALERT_IMPORTANCE_RATIO_FOR_SECONDS = 10 * MINUTE
ALERT_STATE_CONFLICT_FOR_SECONDS = 10 * MINUTE
ALERT_TASKS_MISSING_FOR_SECONDS = 15 * MINUTE
ALERT_REMEMBERED_SECONDS = 3 * MINUTE  # a collapse whose hold changes is another alert, and waits again
ALERT_KEEP_FIRING_SECONDS = 5 * MINUTE  # a page outlives a lost scrape, or a restart of the exporter
LOSS_DIVERGING_SECONDS = 10 * MINUTE  # the latest loss ratio alone, where this holds five or more logged values
FAILED_SHOWN_SECONDS = 6 * HOUR  # by the clock
SOURCE_DOWN_SECONDS = 15 * MINUTE  # also a job's source that is not read: max(this, intervals x its own interval)
SOURCE_DOWN_CRITICAL_SECONDS = 1 * HOUR
EXPORTER_DOWN_SECONDS = 5 * MINUTE
SHARD_REMEMBERED_SECONDS = 6 * HOUR  # a shard that was scraped within this and has no target now is down

# News in the Trend column
NEWS_SECONDS = 30 * MINUTE

VERDICTS = (
    "collapse",
    "failed",
    "vanished",
    "nonfinite",
    "stalled",
    "trials_stalled",
    "dead_engine",
    "instant_failures",
    "not_resumed",
    "restarts_without_progress",
    "no_checkpoint",
    "grad_explosion",
    "loss_diverging",
    "traces_stranded",
    "deep_probe",
    "state_conflict",
    "silent_stall",
    "tasks_missing",
    "task_failures",
    "bringup_stuck",
    "engine_idle",
    "auth_failures",
    "zombie",
    "checkpoint_stale",
    "grad_norm_high",
    "entropy_drift",
    "log_ratio_drift",
    "clip_ratio_high",
    "importance_ratio_off",
    "throughput_degraded",
    "timeout",
    "killed",
    "unknown",
    "unobserved",
    "queued",
    "bringup",
    "resuming",
    "finishing",
    "completed",
    "resumed",
    "checkpoint_saved",
    "stable",
)
"""The words of `mljob_trend`, worst first."""
