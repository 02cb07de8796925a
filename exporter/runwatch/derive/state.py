"""State of a job as far as its history alone tells.

Rules (`docs/rules.md`): the tracker's state counts while its heartbeat is fresh; an end counts when the run itself
said it. W&B's `crashed` is the server's guess after five minutes without a heartbeat, as in every preemption, so it is
no end. A job is running from its first fact on, and unknown after 24 hours without any new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runwatch.catalogue import ENDED_STATES
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.phase import phase_of
from runwatch.facts import CheckpointListing, HistoryEnd, HistoryRun
from runwatch.thresholds import HEARTBEAT_FRESH_SECONDS, HISTORY_CUT_OFF_SECONDS, NO_FACTS_UNKNOWN_SECONDS

HISTORY_END_STATES: Mapping[HistoryEnd, str] = {
    HistoryEnd.SUCCEEDED: "succeeded",
    HistoryEnd.FAILED: "failed",
    HistoryEnd.KILLED: "killed",
}
"""How a run said that it ended, mapped to `mljob_state`."""

_TRACKER_STATES: Mapping[str, str] = {
    "running": "running",
    "pending": "pending",
    "preempting": "preempted",
    "preempted": "preempted",
}
"""W&B's words for a run that is not over, mapped to `mljob_state`."""


@dataclass(frozen=True, slots=True)
class JobState:
    """State, phase (None when nothing tells) and the times of start and end in Unix seconds.

    `is_fresh` is whether the run spoke, or made a step, so lately that it must be alive.
    """

    state: str
    phase: str | None
    start: float | None
    end: float | None
    exit_code: int | None
    reason: str
    is_fresh: bool = False

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.state in ENDED_STATES


def state_from_history(
    run: HistoryRun,
    summary: HistorySummary,
    listing: CheckpointListing | None,
    *,
    observed: float,
    last_reached: bool,
    bucket: str = "sft",
) -> JobState:
    """Combine what the history says of the run with its rows.

    Args:
        run: what the tracker says of the run as a whole.
        summary: what the rows say.
        listing: the job's checkpoints, None when they were not read; a save is a new fact too.
        observed: when the history last answered, Unix seconds. Ages end there, not now.
        last_reached: whether the last step is done.
        bucket: the job's bucket.
    """
    start = _start(run, summary)
    state, reason = _state(run, _newest_fact(run, summary, listing), observed)
    end = None
    if state in ENDED_STATES:
        end = run.ended_at if run.ended_at is not None else summary.steps.latest_time
    phase = phase_of(state, bucket, summary, last_reached=last_reached, resuming=summary.steps.replaying)
    fresh = run.end is None and _spoke_lately(run, summary, observed)
    return JobState(state, phase, start, end, run.exit_code if end is not None else None, reason, fresh)


def _spoke_lately(run: HistoryRun, summary: HistorySummary, observed: float) -> bool:
    signs = [time for time in (run.heartbeat, summary.steps.latest_time) if time is not None]
    return bool(signs) and observed - max(signs) <= HEARTBEAT_FRESH_SECONDS


def _start(run: HistoryRun, summary: HistorySummary) -> float | None:
    first_row = None if run.starts_mid_run else summary.start_time
    first_step = summary.steps.first_time
    if run.created is not None and (first_step is None or run.created <= first_step):
        # A row's clock may be taken a whole step after its time: counted back from there the run began before it did.
        return run.created
    known = [time for time in (run.created, first_row) if time is not None]
    return min(known, default=None)


def _newest_fact(run: HistoryRun, summary: HistorySummary, listing: CheckpointListing | None) -> float | None:
    times = [run.heartbeat, run.created, summary.steps.latest_time]
    if listing is not None:
        times += [checkpoint.saved_at for checkpoint in listing.checkpoints]
    return max((time for time in times if time is not None), default=None)


def _state(run: HistoryRun, newest_fact: float | None, observed: float) -> tuple[str, str]:
    if run.end is not None:
        return HISTORY_END_STATES[run.end], f"the run itself said that it {run.end.value}"
    if newest_fact is None:
        return "unknown", "the history answered, but holds nothing yet"
    if observed - newest_fact > NO_FACTS_UNKNOWN_SECONDS:
        return "unknown", "no new fact for more than 24 h"
    fresh = run.heartbeat is not None and observed - run.heartbeat <= HEARTBEAT_FRESH_SECONDS
    if fresh and run.state in _TRACKER_STATES:
        return _TRACKER_STATES[run.state], f"the tracker says {run.state}, with a fresh heartbeat"
    if run.state:
        return "running", f"the tracker says {run.state} without a fresh heartbeat, which is no end that the run told"
    return "running", "nothing says that it ended"


def state_conflict(
    state: JobState, summary: HistorySummary, listing: CheckpointListing, *, history_observed: float
) -> bool:
    """Tell whether the history is silent while checkpoints go on: then only the history is cut off.

    Only while stepping: W&B is silent in every preemption and replay, and the last save follows the last step.

    Args:
        state: the job's state and phase.
        summary: what the history's rows say.
        listing: the job's checkpoints.
        history_observed: when the history last answered, Unix seconds. A save after that proves no silence: nobody
            could ask what the history holds by then.
    """
    if state.state != "running" or state.phase != "stepping" or summary.steps.latest_time is None:
        return False
    saves = (checkpoint.saved_at for checkpoint in listing.checkpoints if checkpoint.complete)
    newest = max((saved for saved in saves if saved is not None and saved <= history_observed), default=None)
    return newest is not None and newest - summary.steps.latest_time > HISTORY_CUT_OFF_SECONDS
