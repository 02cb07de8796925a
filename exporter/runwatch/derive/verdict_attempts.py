"""The conditions of the verdicts on attempts: not resumed, restarts in vain, tasks missing, tasks that fail."""

from __future__ import annotations

from runwatch import thresholds
from runwatch.derive.observation import observed
from runwatch.derive.verdict_conditions import Subject
from runwatch.facts import SourceKind
from runwatch.figures import duration, past_limit


def newest_interruption(job: Subject) -> float | None:
    """Return when the newest interruption of any cause began, Unix seconds."""
    return max(job.measurements.family("mljob_interruption_timestamp_seconds").values(), default=None)


def not_resumed(job: Subject) -> str | None:
    """Interrupted, and no new step for longer than bring-up and the steps to be done again may take.

    A link of a chain may wait for nodes as long as it must: it counts from when it runs.
    """
    seen, since = job.work_seen, newest_interruption(job)
    if (job.state != "preempted" and job.phase != "resuming") or seen is None or since is None:
        return None
    limit = job.bringup_limit + (job.get("mljob_replay_expected_seconds") or 0.0)
    begun = job.attempt_start
    next_link_runs = begun is not None and begun > since and _is_of_a_chain(job, since)
    if begun is not None and next_link_runs:
        since = begun
    if seen - since <= limit:
        return None
    what = "not placed again" if job.state == "preempted" else "no new result" if job.has_results else "no new step"
    event = "the next link started" if next_link_runs else "the interruption"
    age, allowed = past_limit(seen - since, limit)
    return f"{what} for {age} since {event} (limit {allowed})"


def _is_of_a_chain(job: Subject, newest: float) -> bool:
    return job.get("mljob_interruption_timestamp_seconds", cause="chain") == newest


def restarts_without_progress(job: Subject) -> str | None:
    """Interrupted again and again since the last progress, and lately."""
    count, since = job.get("mljob_interruptions_since_progress"), newest_interruption(job)
    seen = observed(job.measurements, SourceKind.SCHEDULER)
    if count is None or count < thresholds.RESTARTS_WITHOUT_PROGRESS_COUNT or since is None or seen is None:
        return None
    if seen - since > thresholds.RESTARTS_WITHOUT_PROGRESS_RECENT_SECONDS:
        return None
    return f"{count:.0f} interruptions without progress, the newest {duration(max(0.0, seen - since))} ago"


def tasks_missing(job: Subject) -> str | None:
    """Some tasks run, but not the whole gang."""
    expected, running = job.get("mljob_tasks_expected"), job.get("mljob_tasks", state="running")
    if job.state != "running" or expected is None or running is None or running == 0:
        return None
    there = running + (job.get("mljob_tasks", state="succeeded") or 0.0)
    return f"{there:.0f} of {expected:.0f} tasks" if there < expected else None


def task_failures(job: Subject) -> str | None:
    """A failure interrupted the job a short while ago, and the job goes on."""
    failed = job.get("mljob_interruption_timestamp_seconds", cause="failure")
    seen = observed(job.measurements, SourceKind.SCHEDULER)
    if failed is None or seen is None or seen - failed > thresholds.TASK_FAILURE_SHOWN_SECONDS:
        return None
    return f"interrupted by a failure {duration(max(0.0, seen - failed))} ago{failed_alike_text(job)}"


def failed_alike_text(job: Subject) -> str:
    """Return that the job failed again as it did before, for the text of a failure."""
    return f", failed again alike ({job.failed_alike}): not transient" if job.failed_alike else ""


def successor_text(job: Subject) -> str:
    """Return `; successor 1234567 waits` where the run's chain goes on, for the text of an end."""
    names = sorted(name for (name,), value in job.measurements.family("mljob_successor").items() if value == 1.0)
    return f"; successor {', '.join(names)} waits" if names else ""
