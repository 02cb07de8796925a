"""The one state of a job that has a scheduler: its word, corrected where another source knows better.

Rules (`docs/rules.md`): the scheduler tells whether a job is alive, its history and trials whether it moves. Neither
alone is believed: a record that is gone is no end that anyone saw, an end that a trainer told is none while its gang
was placed again, and a disagreement is shown as what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runwatch.catalogue import ENDED_STATES
from runwatch.derive.attempts import SchedulerView, successor_goes_on
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.own_word import OwnEnd
from runwatch.derive.phase import newest_start
from runwatch.derive.state import JobState
from runwatch.facts import HistoryEnd, HistoryRun, SchedulerFacts, SchedulerState
from runwatch.thresholds import (
    CLOCK_SLACK_SECONDS,
    HEARTBEAT_FRESH_SECONDS,
    NO_TASKS_IRIS_SECONDS,
    NO_TASKS_SECONDS,
)

_WORDS: Mapping[SchedulerState, str] = {
    SchedulerState.PENDING: "pending",
    SchedulerState.RUNNING: "running",
    SchedulerState.PREEMPTED: "preempted",
    SchedulerState.SUCCEEDED: "succeeded",
    SchedulerState.FAILED: "failed",
    SchedulerState.TIMEOUT: "timeout",
    SchedulerState.KILLED: "killed",
}


@dataclass(frozen=True, slots=True)
class HistoryEvidence:
    """What a history that was read says of the run, and its steps."""

    run: HistoryRun
    summary: HistorySummary


def tolerance_without_tasks(scheduler: str) -> float:
    """Return for how many seconds a job may count as running without any task before it has vanished."""
    return NO_TASKS_IRIS_SECONDS if scheduler == "iris" else NO_TASKS_SECONDS


def combined_state(
    view: SchedulerView,
    own: JobState | None,
    told: OwnEnd | None,
    *,
    runs: bool,
    scheduler: str,
    scheduler_is_blind: bool,
) -> JobState:
    """Return the state of a job from its scheduler and its own sources; the phase is left as these give it.

    Args:
        view: what is known from the scheduler; one whose present is hidden leaves the state to the other sources.
        own: the state that history, trials and logs give without a scheduler, None when none was read.
        told: how these say that it ended, None while they do not.
        runs: whether one of them shows that it runs now.
        scheduler: `iris`, `kubernetes` or `slurm`.
        scheduler_is_blind: whether its last answer is so old that a later end which another source told counts.
    """
    if view.facts is None:
        state = own or JobState("unknown", None, None, None, None, "what the scheduler says of the present is hidden")
        return _with_start(state, view)
    told = told if told is not None and told.state in ENDED_STATES else None
    if scheduler_is_blind and own is not None and own.over and told is not None and _later(told, view.observed):
        return _with_start(own, view)
    word, reason = _word(view, view.facts, _still_true(told, view), own if runs else None, scheduler)
    phase = own.phase if own is not None else None
    end, exit_code = _end(word, view, view.facts, told)
    start = own.start if own is not None else None
    return _with_start(JobState(word, phase, start, end, exit_code, reason), view)


def _with_start(state: JobState, view: SchedulerView) -> JobState:
    starts = [attempt.started for attempt in view.attempts if attempt.started is not None]
    if view.facts is not None and view.facts.started is not None:
        starts.append(view.facts.started)
    if state.start is not None:
        starts.append(state.start)
    return replace(state, start=min(starts, default=None))


def _later(told: OwnEnd, time: float) -> bool:
    return told.at is not None and told.at > time


def _still_true(told: OwnEnd | None, view: SchedulerView) -> OwnEnd | None:
    """Return the end that the job's own sources told, unless the gang was started again after it."""
    if told is None:
        return None
    started = newest_start(view)
    return None if started is not None and told.at is not None and started > told.at else told


def _word(
    view: SchedulerView, facts: SchedulerFacts, told: OwnEnd | None, running: JobState | None, scheduler: str
) -> tuple[str, str]:
    said = f"the scheduler says {facts.state.value}" + (f" ({facts.detail})" if facts.detail else "")
    if facts.state is SchedulerState.NO_TASKS:
        return _word_without_tasks(view, told, tolerance_without_tasks(scheduler))
    if facts.state is SchedulerState.GONE:
        return (told.state, told.reason) if told else ("vanished", "its record is gone, and no source saw it end")
    if facts.state is SchedulerState.UNKNOWN:
        if told is not None:
            return told.state, told.reason
        return (running.state, f"{said}; {running.reason}") if running is not None else ("unknown", said)
    word = _WORDS[facts.state]
    if word in ENDED_STATES and facts.successor is not None and facts.successor.running:
        return "running", f"{said}, and its successor {facts.successor.scheduler_job} runs"
    if word in ENDED_STATES and facts.successor is not None and successor_goes_on(facts):
        return word, f"{said}; its successor {facts.successor.scheduler_job} waits"
    return word, said


def _word_without_tasks(view: SchedulerView, told: OwnEnd | None, tolerance: float) -> tuple[str, str]:
    since = view.state_since if view.state_since is not None else view.observed
    lasted = view.observed - since
    if lasted <= tolerance:
        return "running", f"it counts as running, without any task for {lasted:.0f} s (borne for {tolerance:.0f} s)"
    if told is not None:
        return told.state, told.reason
    return "vanished", f"it counts as running, without any task for {lasted:.0f} s"


def _end(word: str, view: SchedulerView, facts: SchedulerFacts, told: OwnEnd | None) -> tuple[float | None, int | None]:
    """Return when a job that is over ended and its exit code, from the source that saw the end."""
    if word not in ENDED_STATES:
        return None, None
    without_its_word = facts.state in {SchedulerState.GONE, SchedulerState.NO_TASKS, SchedulerState.UNKNOWN}
    if without_its_word and word != "vanished" and told is not None:
        return told.at, told.exit_code
    if facts.ended is not None:
        return facts.ended, facts.exit_code
    if word == "vanished":
        return view.state_since, None
    ends = [attempt.ended for attempt in view.attempts if attempt.ended is not None]
    return max(ends, default=view.state_since), facts.exit_code


def sources_disagree(state: JobState, view: SchedulerView, history: HistoryEvidence) -> bool:
    """Tell whether scheduler and history, both of which answered, disagree on whether the job is alive.

    Never while it waits or resumes: a tracker hears nothing then, and W&B says `crashed` after five minutes.
    """
    if view.facts is None or state.state in {"pending", "preempted"} or state.phase in {"queued", "resuming"}:
        return False
    if state.over:
        return history.run.end is None and _spoke_after(history, state.end)
    if state.state != "running" or view.facts.state is SchedulerState.NO_TASKS:
        return False  # a scheduler that shows no task does not say that it is alive
    started = newest_start(view)
    ended_at = history.run.ended_at
    if history.run.end in {HistoryEnd.FAILED, HistoryEnd.KILLED}:
        told_at = ended_at if ended_at is not None else history.summary.steps.latest_time
        of_this_attempt = started is None or told_at is None or told_at >= started
        return of_this_attempt and (told_at is None or view.observed - told_at > CLOCK_SLACK_SECONDS)
    return history.run.state == "crashed" and state.phase == "stepping" and _ran_in_silence(history, view.observed)


def _ran_in_silence(history: HistoryEvidence, scheduler_observed: float) -> bool:
    """Whether the scheduler still saw the job run when its tracker had taken it for dead.

    A scheduler that answered only before cannot know of a preemption since, which W&B calls `crashed` too.
    """
    spoke = last_sign(history)
    return spoke is None or scheduler_observed - spoke > HEARTBEAT_FRESH_SECONDS


def _spoke_after(history: HistoryEvidence, end: float | None) -> bool:
    """Whether the run spoke to its tracker, or logged a step, when it should have been over."""
    newest = last_sign(history)
    return end is not None and newest is not None and newest > end + CLOCK_SLACK_SECONDS


def last_sign(history: HistoryEvidence) -> float | None:
    """Return when the run last spoke to its tracker, or logged a step."""
    signs = (history.run.heartbeat, history.summary.steps.latest_time)
    return max((time for time in signs if time is not None), default=None)


def results_after_the_end(state: JobState, newest_result: float | None) -> bool:
    """Tell whether a trial ended after the end that the scheduler saw: then something goes on."""
    return (
        state.over
        and state.end is not None
        and newest_result is not None
        and newest_result > state.end + CLOCK_SLACK_SECONDS
    )
