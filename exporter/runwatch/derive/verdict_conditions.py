"""The conditions of the verdicts: each returns the words for the Trend column where it holds, else None.

They are the conditions of the alert rules, without the rules' waiting time. Every age is measured against the time a
source last answered, so a source that went blind starts nothing new. A condition whose metric is absent does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runwatch import thresholds
from runwatch.catalogue import ENDED_STATES
from runwatch.derive.observation import (
    observed,
    observed_progress,
    observed_results,
)
from runwatch.derive.own_word import TRIAL_BUCKETS
from runwatch.facts import SourceKind
from runwatch.figures import beyond, duration, past_limit, percent
from runwatch.measurements import NO_INTERVALS, Intervals, Measurements


@dataclass(frozen=True, slots=True)
class Subject:
    """The job that is judged.

    `now` is only for blindness, and for how long ago it ended. `newest_gap_seconds` is the length of its newest gap.
    `failed_alike` is the one reason with which its last two ends failed. `trial_tree` tells whether the files of its
    trials are still there: "open", "gone" or "" where there are none to reap. `rl_turns` is the mean of turns over the
    trials of an RL job, where there are enough of them.
    """

    measurements: Measurements
    bucket: str
    info: Mapping[str, str]
    now: float
    intervals: Intervals = field(default_factory=lambda: NO_INTERVALS)
    newest_gap_seconds: float | None = None
    failed_alike: str | None = None
    trial_tree: str = ""
    rl_turns: float | None = None

    def get(self, name: str, /, **labels: str) -> float | None:
        """Return a measurement, or None when it was not measured."""
        return self.measurements.get(name, **labels)

    @property
    def state(self) -> str | None:
        """The job's state, or None when it is not known."""
        return self.measurements.one_hot("mljob_state")

    @property
    def phase(self) -> str | None:
        """What the job is doing, or None when no source of steps was ever read."""
        return self.measurements.one_hot("mljob_phase")

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.state in ENDED_STATES

    @property
    def is_rl(self) -> bool:
        """Whether the rules for reinforcement learning apply."""
        return self.bucket == "rl"

    @property
    def has_results(self) -> bool:
        """Whether the job's work is trials, and these were read: its results stand for steps."""
        return self.bucket in TRIAL_BUCKETS and self.get("mljob_trials") is not None

    @property
    def progress_seen(self) -> float | None:
        """The time that the age of the job's progress is measured against, Unix seconds."""
        return observed_results(self.measurements) if self.has_results else observed_progress(self.measurements)

    @property
    def work_seen(self) -> float | None:
        """The same; of a job that makes neither steps nor results, when its scheduler answered last."""
        seen = self.progress_seen
        return seen if seen is not None else observed(self.measurements, SourceKind.SCHEDULER)

    @property
    def attempt_start(self) -> float | None:
        """When the newest attempt started, Unix seconds; where attempts are not known, when the job did."""
        attempt = self.get("mljob_attempt_start_timestamp_seconds")
        return attempt if attempt is not None else self.get("mljob_start_timestamp_seconds")

    @property
    def bringup_limit(self) -> float:
        """Seconds that a job may take to its first step, or between steps before there is a gap threshold."""
        return thresholds.BRINGUP_LIMIT_RL_SECONDS if self.is_rl else thresholds.BRINGUP_LIMIT_SECONDS


def stalled(job: Subject) -> str | None:
    """No step for longer than the job's own rhythm allows, and no newer checkpoint that shows that it goes on."""
    seen, last_step = observed_progress(job.measurements), job.get("mljob_last_step_timestamp_seconds")
    if job.state != "running" or job.phase != "stepping" or seen is None or last_step is None:
        return None
    if job.has_results:  # these tell whether it stands still: `trials_stalled`
        return None
    checkpoint = job.get("mljob_checkpoint_timestamp_seconds")
    if checkpoint is not None and checkpoint - last_step > thresholds.HISTORY_CUT_OFF_SECONDS:
        return None
    limit = stall_limit(job)
    if seen - last_step <= limit:
        return None
    age, allowed = past_limit(seen - last_step, limit)
    return f"no step for {age} (limit {allowed})"


def stall_limit(job: Subject) -> float:
    """Return after how many seconds without a step the job counts as stalled."""
    gap_threshold = job.get("mljob_gap_threshold_seconds")
    if gap_threshold is None:
        return job.bringup_limit
    return thresholds.STALL_BASE_SECONDS + thresholds.STALL_GAP_THRESHOLD_FRACTION * gap_threshold


def silent_stall(job: Subject) -> str | None:
    """A gap that no interruption explains ended a short while ago."""
    ended = job.get("mljob_gap_end_timestamp_seconds", cause="unexplained")
    seen = observed(job.measurements, SourceKind.HISTORY)
    if ended is None or seen is None or seen - ended > thresholds.SILENT_STALL_SHOWN_SECONDS:
        return None
    return f"silent stall ended {duration(max(0.0, seen - ended))} ago"


def bringup_stuck(job: Subject) -> str | None:
    """A training job that has made no step for too long since its newest attempt started."""
    started, seen = job.attempt_start, observed_progress(job.measurements)
    if job.bucket not in {"rl", "sft"} or job.phase != "bringup" or job.state == "preempted":
        return None
    if started is None or seen is None or seen - started <= job.bringup_limit:
        return None
    age, allowed = past_limit(seen - started, job.bringup_limit)
    return f"no first step for {age} (limit {allowed})"


def zombie(job: Subject) -> str | None:
    """A job that still runs long after its last step or result, or after its traces were uploaded."""
    if job.state != "running" or job.phase != "finishing":
        return None
    if job.has_results:
        return _zombie_of_trials(job)
    seen, last_step = observed_progress(job.measurements), job.get("mljob_last_step_timestamp_seconds")
    if seen is None or last_step is None:
        return None
    since = _or_attempt_start(job, last_step)
    if seen - since <= thresholds.ZOMBIE_TRAINING_SECONDS:
        return None
    return f"still running {duration(seen - last_step)} after its last step"


def _or_attempt_start(job: Subject, done: float) -> float:
    """Return the later of when all was done and when the newest attempt began: it exports or uploads again."""
    started = job.attempt_start
    return done if started is None else max(done, started)


def _zombie_of_trials(job: Subject) -> str | None:
    seen, last = observed_results(job.measurements), job.get("mljob_last_trial_timestamp_seconds")
    if seen is None:
        return None
    uploaded = job.get("mljob_upload_timestamp_seconds") if job.get("mljob_upload_complete") == 1 else None
    if job.bucket == "datagen" and uploaded is not None:
        since_upload = seen - _or_attempt_start(job, uploaded)
        if since_upload > thresholds.ZOMBIE_UPLOADED_SECONDS:
            return f"still running {duration(seen - uploaded)} after its upload"
    limit = thresholds.ZOMBIE_EVAL_SECONDS if job.bucket == "eval" else thresholds.ZOMBIE_DATAGEN_SECONDS
    if last is None or seen - _or_attempt_start(job, last) <= limit:
        return None
    return f"still running {duration(seen - last)} after its last result"


def nonfinite(job: Subject) -> str | None:
    """The latest loss or gradient norm is NaN or infinite."""
    bad = [name for name in ("loss", "grad_norm") if job.get("mljob_nonfinite", metric=name) == 1]
    if not bad:
        return None
    return f"{' and '.join(bad).replace('_', ' ')} not finite"


def grad_explosion(job: Subject) -> str | None:
    """A gradient norm far above its window (not RL, which has its own rules)."""
    ratio, norm = job.get("mljob_grad_norm_window_ratio"), job.get("mljob_grad_norm")
    if job.is_rl or ratio is None or norm is None:
        return None
    if ratio <= thresholds.GRAD_EXPLOSION_RATIO or norm <= thresholds.GRAD_EXPLOSION_MINIMUM:
        return None
    return f"grad {beyond(ratio, thresholds.GRAD_EXPLOSION_RATIO, 1)} × its window"


def loss_diverging(job: Subject) -> str | None:
    """Five logged losses in a row far above their window (not RL)."""
    ratio, loss = job.get("mljob_loss_trend_last5_min_ratio"), job.get("mljob_loss")
    if job.is_rl or ratio is None or loss is None:
        return None
    if ratio <= thresholds.LOSS_DIVERGING_RATIO or loss < thresholds.SUBSTANCE_MINIMUM:
        return None
    return f"loss {beyond(ratio, thresholds.LOSS_DIVERGING_RATIO, 1)} × its window, five values in a row"


def throughput_degraded(job: Subject) -> str | None:
    """Tokens per second well below the job's own past (fine-tuning and pre-training only)."""
    recent, baseline = job.get("mljob_tokens_per_second"), job.get("mljob_tokens_per_second_baseline")
    if job.bucket != "sft" or job.phase != "stepping" or recent is None or baseline is None or baseline <= 0:
        return None
    ratio, limit = recent / baseline, thresholds.THROUGHPUT_DEGRADED_RATIO
    if ratio >= limit:
        return None
    return f"tok/s {beyond(100 * ratio, 100 * limit, 0)} % of its baseline"


def _checkpoint_limit(job: Subject, floor: float) -> float:
    interval = job.get("mljob_checkpoint_interval_seconds")
    if interval is None:
        return thresholds.CHECKPOINT_UNKNOWN_INTERVAL_SECONDS
    return max(floor, thresholds.CHECKPOINT_INTERVALS_ALLOWED * interval)


def _steps_counted_from(job: Subject) -> float | None:
    """Return since when the job has been able to save: its first step, or the first new step after an interruption.

    A gap's end stands for the latter too, where attempts are not known; an unexplained gap is a stall, after which
    nothing had to begin anew.
    """
    first_step, resumed_at = (
        job.get("mljob_first_step_timestamp_seconds"),
        job.get("mljob_attempt_first_step_timestamp_seconds"),
    )
    if first_step is None:
        return None
    ends = job.measurements.family("mljob_gap_end_timestamp_seconds")
    gap_ends = (end for (cause,), end in ends.items() if cause != "unexplained")
    return max([first_step, resumed_at if resumed_at is not None else first_step, *gap_ends])


def no_checkpoint(job: Subject) -> str | None:
    """Steps have been made for long, the checkpoints were read, and not one is complete."""
    seen, since = observed(job.measurements, SourceKind.CHECKPOINTS), _steps_counted_from(job)
    if job.get("mljob_checkpoints", completeness="complete") != 0 or seen is None or since is None:
        return None
    if job.phase in {"queued", "resuming"}:  # nothing to save yet
        return None
    limit = _checkpoint_limit(job, thresholds.NO_CHECKPOINT_FLOOR_SECONDS)
    if seen - since <= limit:
        return None
    age, allowed = past_limit(seen - since, limit)
    return f"no complete checkpoint after {age} of steps (limit {allowed})"


def checkpoint_stale(job: Subject) -> str | None:
    """The newest complete checkpoint is older than its own rhythm allows, while steps go on."""
    saved, seen = job.get("mljob_checkpoint_timestamp_seconds"), observed(job.measurements, SourceKind.CHECKPOINTS)
    if job.phase != "stepping" or saved is None or seen is None:
        return None
    since = max(saved, _steps_counted_from(job) or saved)
    limit = _checkpoint_limit(job, thresholds.CHECKPOINT_STALE_FLOOR_SECONDS)
    if seen - since <= limit:
        return None
    age, allowed = past_limit(seen - since, limit)
    return f"no new checkpoint for {age} (limit {allowed})"


def state_conflict(job: Subject) -> str | None:
    """Two sources that answered disagree on whether the job is alive or moving."""
    return "sources disagree on whether it runs" if job.get("mljob_state_conflict") == 1 else None


def resuming(job: Subject) -> str | None:
    """Loading, compiling or doing steps again after an interruption; nothing new yet."""
    if job.phase != "resuming":
        return None
    replay = job.get("mljob_replay_expected_seconds")
    again = f" (about {duration(replay)} of steps to do again)" if replay else ""
    if job.state == "preempted":
        return f"preempted, waits to be placed again{again}"
    return f"resuming, no new {'result' if job.has_results else 'step'} yet{again}"


def bringup(job: Subject) -> str | None:
    """Started, and no first step or result yet."""
    if job.phase != "bringup":
        return None
    what = "result" if job.bucket in TRIAL_BUCKETS else "step"
    return f"preempted before its first {what}" if job.state == "preempted" else f"no first {what} yet"


def resumed(job: Subject) -> str | None:
    """A gap ended a short while ago."""
    seen, ends = (
        observed(job.measurements, SourceKind.HISTORY),
        job.measurements.family("mljob_gap_end_timestamp_seconds"),
    )
    explained = [end for (cause,), end in ends.items() if cause != "unexplained"]
    if job.phase != "stepping" or seen is None or not explained or seen - max(explained) > thresholds.NEWS_SECONDS:
        return None
    if job.newest_gap_seconds is None or max(ends.values()) > max(explained):
        return f"resumed {duration(max(0.0, seen - max(explained)))} ago"
    return f"resumed after {duration(job.newest_gap_seconds)}"


def checkpoint_saved(job: Subject) -> str | None:
    """A complete checkpoint was saved a short while ago."""
    saved, seen = job.get("mljob_checkpoint_timestamp_seconds"), observed(job.measurements, SourceKind.CHECKPOINTS)
    if saved is None or seen is None or seen - saved > thresholds.NEWS_SECONDS:
        return None
    return "checkpoint saved"


def progress_text(job: Subject) -> str:
    """Return ` at step 120 of 500` or ` with 142 of 300 results`, as far as it is known; for the text of an end."""
    step, target = job.get("mljob_step"), job.get("mljob_target_step")
    if step is None:
        return _results_text(job) if job.has_results else ""
    if target is None:
        return f" at step {step:.0f}"
    share = f" ({percent(step / target, 1)})" if target > 0 else ""
    return f" at step {step:.0f} of {target:.0f}{share}"


def _results_text(job: Subject) -> str:
    results, target = job.get("mljob_trials"), job.get("mljob_trials_target")
    if results is None:
        return ""
    return f" with {results:.0f} results" if target is None else f" with {results:.0f} of {target:.0f} results"
