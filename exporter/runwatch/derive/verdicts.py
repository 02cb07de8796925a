"""Which words of `thresholds.VERDICTS` hold for a job now, worst first, each with its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runwatch import thresholds
from runwatch.catalogue import ENDED_STATES
from runwatch.derive import verdict_conditions as conditions
from runwatch.derive.observation import NO_INTERVALS, Intervals, blind_sources, observed
from runwatch.derive.verdict_conditions import Subject
from runwatch.facts import SourceKind
from runwatch.measurements import Measurements, Verdict

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
    return f"completed; clean-up: {cleanup}" if cleanup else "completed; nothing to do"


def _failed(job: Subject) -> str | None:
    if job.state != "failed":
        return None
    code = job.get("mljob_exit_code")
    exit_code = "" if code is None else f", exit {code:.0f}"
    return f"failed{exit_code}{conditions.progress_text(job)}: diagnose"


def _vanished(job: Subject) -> str | None:
    if job.state != "vanished":
        return None
    return f"vanished{conditions.progress_text(job)}: its record or its pods are gone; diagnose"


def _timeout(job: Subject) -> str | None:
    if job.state != "timeout":
        return None
    return f"ended at the wall-time limit{conditions.progress_text(job)}"


def _killed(job: Subject) -> str | None:
    return f"killed{conditions.progress_text(job)}" if job.state == "killed" else None


def _unknown(job: Subject) -> str | None:
    return "state unknown: no source tells whether it runs" if job.state == "unknown" else None


def _queued(job: Subject) -> str | None:
    return "queued" if job.phase == "queued" or (job.phase is None and job.state == "pending") else None


def _finishing(job: Subject) -> str | None:
    return "last step reached, still running" if job.phase == "finishing" else None


def _unobserved(job: Subject) -> str | None:
    blind = blind_sources(job.measurements, job.now, job.intervals)
    return ", ".join(blindness.text for blindness in blind) or None


# Evaluated for every job, and for those that are over: what they say is about the end, or about trust in the result.
_OF_THE_END: dict[str, Condition] = {
    "failed": _failed,
    "vanished": _vanished,
    "timeout": _timeout,
    "killed": _killed,
    "completed": _completed,
    "deep_probe": conditions.deep_probe,
}

# Evaluated while the job is not over.
_OF_THE_LIVING: dict[str, Condition] = {
    "collapse": conditions.collapse,
    "nonfinite": conditions.nonfinite,
    "stalled": conditions.stalled,
    "no_checkpoint": conditions.no_checkpoint,
    "grad_explosion": conditions.grad_explosion,
    "loss_diverging": conditions.loss_diverging,
    "state_conflict": conditions.state_conflict,
    "silent_stall": conditions.silent_stall,
    "bringup_stuck": conditions.bringup_stuck,
    "zombie": conditions.zombie,
    "checkpoint_stale": conditions.checkpoint_stale,
    "grad_norm_high": conditions.grad_norm_high,
    "entropy_drift": conditions.entropy_drift,
    "log_ratio_drift": conditions.log_ratio_drift,
    "clip_ratio_high": conditions.clip_ratio_high,
    "importance_ratio_off": conditions.importance_ratio_off,
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
) -> tuple[Verdict, ...]:
    """Return the verdicts that hold, worst first.

    Args:
        measurements: What was measured of the job.
        bucket: `rl`, `sft`, `datagen`, `eval` or `other`.
        info: The job's identity labels: `kind`, `ablation`, `hold` and `new_setting` count here.
        now: Unix seconds, only to tell whether a source is blind. Ages are measured against the sources' answers.
        intervals: Seconds between polls by source, for the same.
        newest_gap_seconds: Length of the newest closed gap, for the words "resumed after 22 min".

    Returns:
        None at all where nothing was measured; `stable` alone where a history was read and nothing else holds.
    """
    job = Subject(measurements, bucket, info, now, intervals, newest_gap_seconds)
    checks = _OF_THE_END if job.state in ENDED_STATES else _OF_THE_END | _OF_THE_LIVING
    texts = {word: check(job) for word, check in checks.items()}
    held = tuple(Verdict(word, text) for word in thresholds.VERDICTS if (text := texts.get(word)) is not None)
    if held:
        return held
    read = observed(measurements, SourceKind.HISTORY) is not None
    return (Verdict("stable", "stable"),) if read and job.state == "running" else ()
