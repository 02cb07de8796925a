"""Which words of `thresholds.VERDICTS` hold for a job now, worst first, each with its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runwatch import thresholds
from runwatch.derive import verdict_attempts as attempts
from runwatch.derive import verdict_conditions as conditions
from runwatch.derive import verdict_rl as rl
from runwatch.derive import verdict_trials as trials
from runwatch.derive.observation import blind_by, observed
from runwatch.derive.verdict_conditions import Subject
from runwatch.facts import SourceKind
from runwatch.measurements import NO_INTERVALS, Intervals, Measurements, Verdict

Condition = Callable[[Subject], str | None]

_CLEANUPS = {
    "sft": "sft-job-cleanup",
    "datagen": "datagen-job-cleanup",
    "eval": "eval-agentic-cleanup",
}
_RL_CLEANUPS = {"agentic": "rl-agentic-job-cleanup", "standard": "rl-standard-job-cleanup"}


def cleanup_of(bucket: str, kind: str) -> str | None:
    """Return the name of the clean-up that a completed job asks for, or None where there is none.

    An RL job whose kind is not known names both, since one of them is wrong.
    """
    if bucket == "rl":
        return _RL_CLEANUPS.get(kind, " or ".join(_RL_CLEANUPS.values()))
    return _CLEANUPS.get(bucket)


def _completed(job: Subject) -> str | None:
    if job.state != "succeeded":
        return None
    cleanup = cleanup_of(job.bucket, job.info.get("kind", ""))
    if cleanup is None:
        return "completed; nothing to do"
    upload = "; its log shows no completed upload" if job.get("mljob_upload_complete") == 0 else ""
    early = conditions.progress_text(job) if _ended_early(job) else ""
    done = {"open": f"clean-up open: {cleanup}", "gone": "clean-up done: the trial tree is gone"}
    return f"completed{early}{upload}; {done.get(job.trial_tree, f'clean-up: {cleanup}')}"


def _ended_early(job: Subject) -> bool:
    step, target = job.get("mljob_step"), job.get("mljob_target_step")
    if step is None and job.has_results:
        results, wanted = job.get("mljob_trials"), job.get("mljob_trials_target")
        return results is not None and wanted is not None and results < wanted
    # Where steps count from zero the last is one below the target.
    return step is not None and target is not None and step < target - 1


def _tree_text(job: Subject) -> str:
    """Return that the trial tree of a job that ended, with no link to come, is still there."""
    goes_on = bool(job.measurements.family("mljob_successor"))
    return "; clean-up open" if job.trial_tree == "open" and not goes_on else ""


def _failed(job: Subject) -> str | None:
    if job.state != "failed":
        return None
    code = job.get("mljob_exit_code")
    exit_code = "" if code is None else f", exit {code:.0f}"
    said = f"failed{exit_code}{conditions.progress_text(job)}{_reason_text(job)}: diagnose"
    return f"{said}{attempts.failed_alike_text(job)}{attempts.successor_text(job)}{_tree_text(job)}"


def _reason_text(job: Subject) -> str:
    reason = job.measurements.one_hot("mljob_end_reason")
    return "" if reason in {None, "unknown"} else f" ({reason})"


def _vanished(job: Subject) -> str | None:
    if job.state != "vanished":
        return None
    return f"vanished{conditions.progress_text(job)}: its record or its pods are gone; diagnose"


def _timeout(job: Subject) -> str | None:
    if job.state != "timeout":
        return None
    said = f"ended at the wall-time limit{conditions.progress_text(job)}"
    return f"{said}{attempts.successor_text(job)}{_tree_text(job)}"


def _killed(job: Subject) -> str | None:
    if job.state != "killed":
        return None
    return f"killed{conditions.progress_text(job)}{attempts.successor_text(job)}{_tree_text(job)}"


def _unknown(job: Subject) -> str | None:
    return "state unknown: no source tells whether it runs" if job.state == "unknown" else None


def _queued(job: Subject) -> str | None:
    return "queued" if job.phase == "queued" or (job.phase is None and job.state == "pending") else None


def _finishing(job: Subject) -> str | None:
    if job.phase != "finishing":
        return None
    return "all results are there, still running" if job.has_results else "last step reached, still running"


def _unobserved(job: Subject) -> str | None:
    blind = blind_by(job.measurements, job.now, job.intervals)
    return ", ".join(blindness.text for blindness in blind) or None


# Evaluated for every job, and for those that are over: what they say is about the end, or about trust in the result.
_OF_THE_END: dict[str, Condition] = {
    "failed": _failed,
    "vanished": _vanished,
    "timeout": _timeout,
    "killed": _killed,
    "completed": _completed,
    "dead_engine": trials.dead_engine,
    "instant_failures": trials.instant_failures,
    "traces_stranded": trials.traces_stranded,
    "deep_probe": trials.deep_probe,
}

# Evaluated while the job is not over.
_OF_THE_LIVING: dict[str, Condition] = {
    "collapse": rl.collapse,
    "nonfinite": conditions.nonfinite,
    "stalled": conditions.stalled,
    "trials_stalled": trials.trials_stalled,
    "not_resumed": attempts.not_resumed,
    "restarts_without_progress": attempts.restarts_without_progress,
    "no_checkpoint": conditions.no_checkpoint,
    "grad_explosion": conditions.grad_explosion,
    "loss_diverging": conditions.loss_diverging,
    "state_conflict": conditions.state_conflict,
    "silent_stall": conditions.silent_stall,
    "tasks_missing": attempts.tasks_missing,
    "task_failures": attempts.task_failures,
    "bringup_stuck": conditions.bringup_stuck,
    "engine_idle": trials.engine_idle,
    "auth_failures": trials.auth_failures,
    "zombie": conditions.zombie,
    "checkpoint_stale": conditions.checkpoint_stale,
    "grad_norm_high": rl.grad_norm_high,
    "entropy_drift": rl.entropy_drift,
    "log_ratio_drift": rl.log_ratio_drift,
    "clip_ratio_high": rl.clip_ratio_high,
    "importance_ratio_off": rl.importance_ratio_off,
    "throughput_degraded": conditions.throughput_degraded,
    "unknown": _unknown,
    "unobserved": _unobserved,
    "queued": _queued,
    "bringup": conditions.bringup,
    "resuming": conditions.resuming,
    "finishing": _finishing,
    "resumed": conditions.resumed,
    "checkpoint_saved": conditions.checkpoint_saved,
}


def verdicts(
    measurements: Measurements,
    bucket: str,
    info: Mapping[str, str],
    now: float,
    *,
    intervals: Intervals = NO_INTERVALS,
    newest_gap_seconds: float | None = None,
    failed_alike: str | None = None,
    trial_tree: str = "",
    rl_turns: float | None = None,
) -> tuple[Verdict, ...]:
    """Return the verdicts that hold, worst first.

    Args:
        measurements: What was measured of the job.
        bucket: `rl`, `sft`, `datagen`, `eval` or `other`.
        info: The job's identity labels: `kind`, `ablation`, `hold`, `turns` and `new_setting` count here.
        now: Unix seconds, only to tell whether a source is blind and how long ago the job ended. Other ages are
            measured against the sources' answers.
        intervals: Seconds between polls by source, for the same.
        newest_gap_seconds: Length of the newest closed gap, for the words "resumed after 22 min".
        failed_alike: The one reason with which the last two ends failed.
        trial_tree: "open" while the files of its trials are there, "gone" once they are not, "" where it has none.
        rl_turns: Mean turns of an RL job's trials, where there are enough of them to tell.

    Returns:
        None at all where nothing was measured; `stable` alone where its history or trials were read and nothing else
        holds.
    """
    job = Subject(measurements, bucket, info, now, intervals, newest_gap_seconds, failed_alike, trial_tree, rl_turns)
    checks = _OF_THE_END if job.is_over else _OF_THE_END | _OF_THE_LIVING
    texts = {word: check(job) for word, check in checks.items()}
    held = tuple(Verdict(word, text) for word in thresholds.VERDICTS if (text := texts.get(word)) is not None)
    if held:
        return held
    read = job.has_results or observed(measurements, SourceKind.HISTORY) is not None
    return (Verdict("stable", "stable"),) if read and job.state == "running" else ()
