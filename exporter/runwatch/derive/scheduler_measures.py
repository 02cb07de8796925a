"""Measurements that come from a job's scheduler: tasks, attempts, interruptions, successor, expected replay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.catalogue import ENDED_STATES, INTERRUPTION_CAUSES, WAITING_REASONS
from runwatch.derive.attempts import OVER_STATES, SchedulerView, SeenAttempt, successor_goes_on
from runwatch.derive.end_reason import failures_ended_alike
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.interruptions import GangInterruption
from runwatch.derive.phase import newest_start
from runwatch.derive.state import JobState
from runwatch.facts import CheckpointListing, SchedulerFacts, SchedulerState
from runwatch.measurements import Evidence, Measurements
from runwatch.thresholds import CLOCK_SLACK_SECONDS

ATTEMPTS_EXPLAINED = 500
"""How many of the newest attempts `explain` lists."""


@dataclass(frozen=True, slots=True)
class ProgressKnown:
    """What tells since when a job has made progress, and until when that is known. Times are Unix seconds.

    `checkpoints` is None where none were read, `has_checkpoints` whether the job has roots to read them from. The
    results count where the job makes no steps: `results_observed` is None where it has none or none were read.
    """

    has_checkpoints: bool
    checkpoints: CheckpointListing | None
    checkpoints_observed: float | None
    summary: HistorySummary | None
    history_observed: float | None
    newest_result: float | None = None
    results_observed: float | None = None


def measure_scheduler(
    measured: Measurements,
    view: SchedulerView,
    events: Sequence[GangInterruption],
    state: JobState,
    known: ProgressKnown,
) -> list[Evidence]:
    """Set what the scheduler tells, and return the evidence: each interruption, each attempt."""
    if view.facts is not None:
        _measure_present(measured, view.facts, state)
    started = newest_start(view)
    measured.set("mljob_attempt_start_timestamp_seconds", started)
    if started is not None and known.summary is not None:
        first = known.summary.steps.new_steps.first_at_or_after(started)
        measured.set("mljob_attempt_first_step_timestamp_seconds", first)
    if not view.attempts_known:
        return []
    for cause in INTERRUPTION_CAUSES:
        times = [event.time for event in events if event.cause.value == cause]
        measured.set("mljob_interruptions", len(times), cause=cause)
        measured.set("mljob_interruption_timestamp_seconds", max(times, default=None), cause=cause)
    measured.set("mljob_interruptions_since_progress", _since_progress(events, known))
    alike = failures_ended_alike(state, view, events)
    measured.set("mljob_failures_ended_alike", None if alike is None else float(alike))
    return [
        *(_event_evidence(event) for event in events),
        *([] if alike is None else [_alike_evidence(alike)]),
        *_successor_evidence(view.facts),
        *_attempts_evidence(view.attempts),
    ]


def _measure_present(measured: Measurements, facts: SchedulerFacts, state: JobState) -> None:
    if facts.tasks is not None:
        measured.set("mljob_tasks", facts.tasks.running, state="running")
        measured.set("mljob_tasks", facts.tasks.pending, state="pending")
        measured.set("mljob_tasks", facts.tasks.succeeded, state="succeeded")
        measured.set("mljob_tasks", facts.tasks.failed, state="failed")
    measured.set("mljob_tasks_expected", facts.tasks_expected)
    measured.set("mljob_preemptions", facts.preemptions)
    measured.set("mljob_failures", facts.failures)
    measured.set("mljob_peak_memory_bytes", facts.peak_memory_bytes)
    successor = _successor(facts)
    if successor:
        measured.set("mljob_successor", 1.0, scheduler_job=successor)
    if _waits(state):
        reason = facts.waiting if facts.waiting in WAITING_REASONS else "unknown"
        measured.set("mljob_waiting", 1.0, reason=reason)


def _waits(state: JobState) -> bool:
    """Whether the job is in the queue or in bring-up; where no steps are read, whether the scheduler has it queued."""
    return state.phase in {"queued", "bringup"} or (state.phase is None and state.state == "pending")


def _successor(facts: SchedulerFacts) -> str:
    """Return the successor of the run's newest ended link: the link that waits, or the one that took over."""
    if facts.state in OVER_STATES or facts.successor is not None:
        return facts.successor.scheduler_job if facts.successor is not None and successor_goes_on(facts) else ""
    earlier = [a for a in facts.attempts if a.ended is not None and a.link != facts.scheduler_job]
    in_chain = facts.scheduler_job in facts.links and any(a.link in facts.links for a in earlier)
    return facts.scheduler_job if in_chain else ""


def _successor_evidence(facts: SchedulerFacts | None) -> list[Evidence]:
    """Tell the next link of a chain, and after an end at the wall-time limit that there is none."""
    if facts is None or (facts.successor is None and facts.state is not SchedulerState.TIMEOUT):
        return []
    if facts.successor is None:
        return [Evidence("attempts", "the scheduler shows no next link of a chain")]
    how = "runs" if facts.successor.running else "waits and can start"
    if not successor_goes_on(facts):
        how = "can never start: its dependency cannot be met any more"
    name = facts.successor.scheduler_job
    return [Evidence("attempts", f"next link {name}: {how}", {"scheduler_job": name})]


def _since_progress(events: Sequence[GangInterruption], known: ProgressKnown) -> int | None:
    """Count the interruptions since progress, up to when it is known that none was made.

    A job that has made none yet counts all of them. None where no source of progress was read.
    """
    if known.has_checkpoints:
        if known.checkpoints is None or known.checkpoints_observed is None:
            return None
        saved = [c.saved_at for c in known.checkpoints.checkpoints if c.complete and c.saved_at is not None]
        return _count_between(events, max(saved, default=None), known.checkpoints_observed)
    if known.results_observed is not None and (known.summary is None or known.summary.step is None):
        return _count_between(events, known.newest_result, known.results_observed)
    if known.summary is None or known.history_observed is None:
        return None
    return _count_between(events, known.summary.steps.high_water_time, known.history_observed)


def _count_between(events: Sequence[GangInterruption], progress: float | None, until: float) -> int:
    return sum(1 for event in events if (progress is None or event.time > progress) and event.time <= until)


def began_again(view: SchedulerView, events: Sequence[GangInterruption]) -> float | None:
    """Return when the gang, or the part of it that was interrupted, was last started again; None while it waits.

    Where only some of its tasks fell the others' attempts go on, and tell nothing of when the work is taken up again.
    """
    started = newest_start(view)
    if started is None or not events or events[-1].time < started:
        return started
    later = (a.started for a in view.attempts if a.started is not None and a.started >= events[-1].time)
    return min(later, default=None)


def measure_expected_replay(
    measured: Measurements,
    state: JobState,
    summary: HistorySummary,
    checkpoints: CheckpointListing | None,
    began: float | None,
) -> list[Evidence]:
    """Set how long the steps that are to be done again will take, while a job waits for or works on them.

    The checkpoint resumed from is the newest complete one at or below the high-water step (while resuming: saved
    before it began again, Unix seconds). Without any complete one all steps are to be done again. The one resumed from
    may be deleted by the next save, on the way back: the time that this took tells below which step it did not begin.
    """
    steps = summary.steps
    if state.phase != "resuming" or checkpoints is None or steps.step_duration is None:
        return []
    if steps.high_water_step is None or steps.first_step is None:
        return []
    until = began + CLOCK_SLACK_SECONDS if began is not None and state.state != "preempted" else None
    below = [c for c in checkpoints.checkpoints if c.complete and c.step <= steps.high_water_step]
    usable = [c.step for c in below if until is None or c.saved_at is None or c.saved_at <= until]
    resumed_from = max(usable, default=steps.first_step - 1)
    origin = f"the checkpoint of step {resumed_from}" if usable else "no complete checkpoint: from the first step on"
    on_the_way = min((c for c in below if c.step not in usable), key=lambda c: c.step, default=None)
    saved_at = on_the_way.saved_at if on_the_way is not None else None
    if on_the_way is not None and saved_at is not None and began is not None and steps.step_duration > 0:
        made_at_most = math.ceil((saved_at - began) / steps.step_duration)
        if on_the_way.step - made_at_most > resumed_from:
            resumed_from = on_the_way.step - made_at_most
            origin = f"a deleted checkpoint: step {on_the_way.step}, saved on the way, shows that it is none below"
    again = steps.high_water_step - resumed_from
    measured.set("mljob_replay_expected_seconds", again * steps.step_duration)
    text = f"{again} steps to be done again, up to step {steps.high_water_step}, from {origin}"
    return [Evidence("values", text, {"steps": again, "step_duration_seconds": steps.step_duration})]


def _event_evidence(event: GangInterruption) -> Evidence:
    return Evidence(
        "attempts",
        f"interruption by {event.cause.value}: {event.attempts} attempts ended, {event.reason}",
        {
            "start_timestamp_seconds": event.time,
            "last_end_timestamp_seconds": event.last_end,
            "cause": event.cause.value,
            "attempts": event.attempts,
            "time_is_exact": event.time_is_exact,
        },
    )


def _alike_evidence(alike: bool) -> Evidence:
    text = "one and the same failure: not transient" if alike else "not one and the same failure"
    return Evidence("attempts", f"the last two ends were {text}", {"alike": alike})


def _attempts_evidence(attempts: Sequence[SeenAttempt]) -> list[Evidence]:
    older = len(attempts) - ATTEMPTS_EXPLAINED
    hidden = [Evidence("attempts", f"{older} older attempts are counted, not listed")] if older > 0 else []
    return [*hidden, *(_attempt_evidence(attempt) for attempt in attempts[-ATTEMPTS_EXPLAINED:])]


def _attempt_evidence(attempt: SeenAttempt) -> Evidence:
    detail = f" ({attempt.detail})" if attempt.detail else ""
    return Evidence(
        "attempts",
        f"attempt {attempt.key} of {attempt.link}: {attempt.end.value}{detail}",
        {
            "start_timestamp_seconds": attempt.started,
            "end_timestamp_seconds": attempt.ended,
            "exit_code": attempt.exit_code,
            "end_is_exact": attempt.end_is_exact,
        },
    )


def goes_on(state: JobState, view: SchedulerView | None) -> bool:
    """Whether the run is not over, or its chain has a next link that can still start."""
    if state.state not in ENDED_STATES:
        return True
    return view is not None and view.facts is not None and successor_goes_on(view.facts)
