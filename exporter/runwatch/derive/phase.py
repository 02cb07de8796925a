"""What a job is doing: the one phase, from its state and its steps or results."""

from __future__ import annotations

from collections.abc import Sequence

from runwatch.catalogue import ENDED_STATES
from runwatch.derive.attempts import SchedulerView, gang_start
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.interruptions import GangInterruption
from runwatch.derive.step_timeline import StepSummary
from runwatch.thresholds import CLOCK_SLACK_SECONDS


def phase_of(
    state: str, bucket: str, summary: HistorySummary | None, *, last_reached: bool, resuming: bool
) -> str | None:
    """Return the phase, None where no source of steps was ever read: absent is not bring-up.

    A job of bucket `other` makes no steps that anyone waits for: it is stepping from its start.

    Args:
        state: the word of `mljob_state`.
        bucket: the job's bucket.
        summary: what its history says, None when none was read.
        last_reached: whether the last step is done; then no new one can come, also after an interruption.
        resuming: whether an attempt began after the last new step, or steps are being done again.
    """
    if bucket == "other" and (summary is None or summary.step is None):
        return _phase_without_steps(state)
    if summary is None:
        return None
    if state in ENDED_STATES:
        return "finished"
    if state == "pending":
        return "queued"
    if summary.step is None:
        return "bringup"
    if state == "preempted":
        return "resuming"
    if last_reached:
        return "finishing"
    return "resuming" if resuming else "stepping"


def _phase_without_steps(state: str) -> str | None:
    if state in ENDED_STATES:
        return "finished"
    return {"pending": "queued", "running": "stepping", "preempted": "resuming"}.get(state)


def phase_of_trials(state: str, results: int, *, all_there: bool, resuming: bool) -> str:
    """Return the phase of a datagen or eval job whose trials were read: results are its steps.

    Args:
        state: the word of `mljob_state`.
        results: how many results there are.
        all_there: whether no more are to come.
        resuming: whether an attempt began after the newest result.
    """
    if state in ENDED_STATES:
        return "finished"
    if state == "pending":
        return "queued"
    if all_there:
        return "finishing"
    if results == 0:
        return "bringup"
    return "resuming" if state == "preempted" or resuming else "stepping"


def is_resuming(steps: StepSummary, view: SchedulerView | None, events: Sequence[GangInterruption]) -> bool:
    """Tell whether the job is between an interruption and its next new step.

    A trainer that redoes steps below its high-water mark shows nothing new for hours where its tracker drops them;
    then only the scheduler tells that an attempt began after the last new step. Where the tracker shows them, steps
    that went back tell of a new attempt, unless the scheduler shows that the one before goes on.
    """
    if began_again_after(steps.high_water_time, view, events):
        return True
    return steps.replaying and not _went_back_within_its_attempt(steps, view)


def _went_back_within_its_attempt(steps: StepSummary, view: SchedulerView | None) -> bool:
    """Whether the trainer itself took an older checkpoint, as it may after a spike in the loss: it was never down.

    Only a scheduler that can have missed no attempt between the highest step and the newest row can show that.
    """
    if view is None or steps.high_water_time is None or steps.latest_time is None:
        return False
    started = gang_start(view.attempts)
    if started is None or view.observed < steps.latest_time - CLOCK_SLACK_SECONDS:
        return False
    if not view.covers(steps.high_water_time, min(steps.latest_time, view.observed)):
        return False
    return started < steps.high_water_time - CLOCK_SLACK_SECONDS


def began_again_after(progress: float | None, view: SchedulerView | None, events: Sequence[GangInterruption]) -> bool:
    """Tell whether the gang began again, or was interrupted, after the newest step or result (Unix seconds)."""
    if view is None or progress is None:
        return False
    started = newest_start(view)
    if started is not None and started > progress:
        return True
    # No gang falls, loads and makes a new step within what two clocks may be apart: a trainer's clock that is ahead
    # dates its last step after the interruption that followed it.
    return bool(events) and events[-1].time > progress - CLOCK_SLACK_SECONDS


def newest_start(view: SchedulerView) -> float | None:
    """Return when the newest attempt of the gang started; where attempts are not told, when the job did."""
    started = gang_start(view.attempts)
    if started is None and view.facts is not None:
        return view.facts.started
    return started
