"""What a job's own sources say of its life without a scheduler: history, logs and trial results together.

Rules (`docs/rules.md`): an end that the run told counts first, then a failure at which its log fell silent, then the
last trial. What speaks now says that it runs: a fresh heartbeat, a fresh log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runwatch.catalogue import ENDED_STATES
from runwatch.derive.state import JobState
from runwatch.derive.trials import TrialsSummary
from runwatch.facts import LogFacts
from runwatch.figures import duration
from runwatch.parsing.failures import SIGNALS, most_telling
from runwatch.thresholds import LOG_AFTERMATH_SECONDS, LOG_SILENT_SECONDS, NO_FACTS_UNKNOWN_SECONDS

TRIAL_BUCKETS = frozenset({"datagen", "eval"})
"""The buckets whose work is trials."""

_ENDS_BY_REASON: Mapping[str, str] = {"wall_time": "timeout", "cancelled": "killed", "preempted": "preempted"}
"""The state that a failure of a log means; any other reason is a failure."""


@dataclass(frozen=True, slots=True)
class OwnEnd:
    """An end that the job's own sources told. `at` is Unix seconds, None where they do not say when."""

    state: str
    at: float | None
    exit_code: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class OwnSources:
    """What was read of a job beside its scheduler and its history, and when, Unix seconds.

    `trainer_log_completed` is when a `trainer_log.jsonl` was written that confirms the last step, `busy` when the job
    last started or made a step: an older confirmation is that of an earlier run in the same folder.
    """

    trials: TrialsSummary | None = None
    trials_observed: float | None = None
    target: int | None = None
    log: LogFacts | None = None
    log_observed: float | None = None
    trainer_log_completed: float | None = None
    checkpoints_observed: float | None = None
    busy: float | None = None


def all_results_are_there(bucket: str, own: OwnSources) -> bool:
    """Tell whether a datagen or eval job has no more results to wait for.

    The number to come tells; where it is not known, that every job folder wrote that it ended, or that the traces are
    uploaded.
    """
    trials = own.trials
    if bucket not in TRIAL_BUCKETS or trials is None or trials.trials == 0:
        return False
    total = own.target if own.target is not None else trials.total
    if total is not None and trials.trials >= total:
        return True
    if own.target is not None:
        return False
    uploaded = bucket == "datagen" and not trials.chunks and own.log is not None and own.log.upload_complete is True
    return trials.finished or (total is None and uploaded)


def without_scheduler(bucket: str, alone: JobState | None, own: OwnSources) -> JobState | None:
    """Return the state that all of a job's own sources give; None where none was read. The phase is left as it was.

    Args:
        bucket: the job's bucket.
        alone: what its history alone gives, None when none was read.
        own: its trials and logs.
    """
    if alone is not None and alone.state in ENDED_STATES:
        return alone
    start = _start(alone, own)
    end = own_end(bucket, alone, own)
    if end is not None and not says_it_runs(alone, own):
        at = end.at if end.state in ENDED_STATES else None
        return JobState(end.state, None, start, at, end.exit_code, end.reason)
    newest = _newest_sign(own)
    if newest is None:
        return alone if own.trials is None and own.log is None else replace(alone or _NOTHING_YET, start=start)
    if alone is not None and alone.state != "unknown":
        return replace(alone, start=start)
    sign, seen = newest
    if seen - sign > NO_FACTS_UNKNOWN_SECONDS:
        reason = "no new fact for more than 24 h"
        return JobState("unknown", None, start, None, None, reason)
    return JobState("running", None, start, None, None, "nothing says that it ended")


_NOTHING_YET = JobState("unknown", None, None, None, None, "its sources answered, but hold nothing yet")


def own_end(bucket: str, alone: JobState | None, own: OwnSources) -> OwnEnd | None:
    """Return how the job's own sources say that it ended; None while they do not."""
    if alone is not None and alone.state in ENDED_STATES:
        return OwnEnd(alone.state, alone.end, alone.exit_code, alone.reason)
    return _end_in_log(bucket, own) or _end_of_trials(bucket, own) or _end_in_trainer_log(own)


def log_is_fresh(own: OwnSources) -> bool:
    """Tell whether the log was written so lately that the job must be alive."""
    if own.log is None or own.log.last_write is None or own.log_observed is None:
        return False
    return own.log_observed - own.log.last_write <= LOG_SILENT_SECONDS


def _end_in_log(bucket: str, own: OwnSources) -> OwnEnd | None:
    log = own.log
    if log is None or log.last_write is None or own.log_observed is None or log_is_fresh(own):
        return None
    silence = own.log_observed - log.last_write
    if log.completed:
        return OwnEnd("succeeded", log.last_write, None, "its log says that it is done")
    failure = most_telling(log.failures)
    if failure is None or (failure.reason in SIGNALS and _all_work_is_done(bucket, own)):
        return None
    failed_at = max((f.time for f in log.failures if f.time is not None), default=log.last_write)
    result = own.trials.last if own.trials is not None else None
    went_on = max(log.last_write, result if result is not None else log.last_write)
    if went_on - failed_at > LOG_AFTERMATH_SECONDS:
        return None
    state = _ENDS_BY_REASON.get(failure.reason, "failed")
    reason = f"its log ends in {failure.reason} and was silent for {duration(silence)} since: {failure.text}"
    return OwnEnd(state, went_on, None, reason)


def _all_work_is_done(bucket: str, own: OwnSources) -> bool:
    """Tell whether nothing is left to fail: a launch script ends its engine by a signal once all is done."""
    uploaded = own.log is not None and own.log.upload_complete is True
    return (bucket == "eval" or uploaded) and all_results_are_there(bucket, own)


def _end_of_trials(bucket: str, own: OwnSources) -> OwnEnd | None:
    if own.trials is None or not all_results_are_there(bucket, own) or log_is_fresh(own):
        return None
    return OwnEnd("succeeded", own.trials.changed, None, "all results are there, and nothing says that it runs")


def _end_in_trainer_log(own: OwnSources) -> OwnEnd | None:
    at = own.trainer_log_completed
    if at is None or own.checkpoints_observed is None or log_is_fresh(own):
        return None
    if own.checkpoints_observed - at <= LOG_SILENT_SECONDS or (own.busy is not None and own.busy > at):
        return None  # the last save and an evaluation may follow; or it is another run's
    return OwnEnd("succeeded", at, None, "the end of trainer_log.jsonl confirms that every step is done")


def _start(alone: JobState | None, own: OwnSources) -> float | None:
    """The history knows when the run began; results may lie in a folder that is older than the job."""
    if alone is not None and alone.start is not None:
        return alone.start
    return own.trials.first if own.trials is not None else None


def _newest_sign(own: OwnSources) -> tuple[float, float] | None:
    """Return when the newest sign of life was, and when its source last answered."""
    signs = []
    if own.trials is not None and own.trials.changed is not None and own.trials_observed is not None:
        signs.append((own.trials.changed, own.trials_observed))
    if own.log is not None and own.log.last_write is not None and own.log_observed is not None:
        signs.append((own.log.last_write, own.log_observed))
    return max(signs, default=None)


def says_it_runs(alone: JobState | None, own: OwnSources) -> bool:
    """Tell whether the history's heartbeat or the log is fresh."""
    return log_is_fresh(own) or (alone is not None and alone.is_fresh)
