"""State and phase from a history alone: ends that were told, heartbeats, and silence."""

from __future__ import annotations

import pytest

from runwatch.derive.history_digest import HistoryDigest, HistorySummary
from runwatch.derive.state import JobState, state_conflict, state_from_history
from runwatch.facts import Checkpoint, CheckpointListing, HistoryEnd, HistoryRow, HistoryRun

NOW = 1_790_000_000.0
HOUR = 3600.0


def summary_of(*steps: tuple[int, float]) -> HistorySummary:
    digest = HistoryDigest(is_rl=False)
    digest.add(HistoryRow(i, time, step, {"train/loss": 1.0}) for i, (step, time) in enumerate(steps))
    return digest.summary()


STEPPING = summary_of((1, NOW - 120), (2, NOW - 60))
EMPTY = summary_of()


def state_of(
    run: HistoryRun,
    summary: HistorySummary = STEPPING,
    listing: CheckpointListing | None = None,
    observed: float = NOW,
    last_reached: bool = False,
) -> JobState:
    return state_from_history(run, summary, listing, observed=observed, last_reached=last_reached)


def saved(*times: float) -> CheckpointListing:
    return CheckpointListing(tuple(Checkpoint(i, "/r", f"/r/step-{i}", True, "", time) for i, time in enumerate(times)))


@pytest.mark.parametrize(
    ("word", "heartbeat_age", "expected"),
    [
        ("running", 300.0, "running"),
        ("running", 301.0, "running"),  # no fresh heartbeat is no end
        ("running", 24 * HOUR + 1, "running"),  # the rows are newer than the heartbeat
        ("pending", 10.0, "pending"),
        ("preempting", 10.0, "preempted"),
        ("preempted", 10.0, "preempted"),
        ("preempted", 301.0, "running"),
        ("crashed", 400.0, "running"),  # the server's guess, as in every preemption
        ("a word of next year", 10.0, "running"),
    ],
)
def test_the_trackers_word_counts_while_its_heartbeat_is_fresh(word: str, heartbeat_age: float, expected: str) -> None:
    assert state_of(HistoryRun(state=word, heartbeat=NOW - heartbeat_age)).state == expected


def test_the_run_began_when_it_was_created_unless_rows_are_older() -> None:
    """RL of 30 min a step: W&B's client takes the first row's clock when the second begins, 2,400 s after the start.

    Counted back from the first row the run began 30 min before it was created.
    """
    began = NOW - 2 * HOUR
    digest = HistoryDigest(is_rl=False)
    digest.add(HistoryRow(i, began + 600 + 1800 * i, None, {"_runtime": 2400.0 + 1800 * i}) for i in range(3))
    assert state_of(HistoryRun(created=began), digest.summary()).start == began
    # Rows that were sent on later, and a history that tells of no creation.
    assert state_of(HistoryRun(created=NOW), digest.summary()).start == began - 1800
    assert state_of(HistoryRun(), digest.summary()).start == began - 1800


@pytest.mark.parametrize(
    ("end", "expected"),
    [(HistoryEnd.SUCCEEDED, "succeeded"), (HistoryEnd.FAILED, "failed"), (HistoryEnd.KILLED, "killed")],
)
def test_an_end_that_the_run_told_counts_however_old(end: HistoryEnd, expected: str) -> None:
    run = HistoryRun(end=end, ended_at=NOW - 100 * HOUR, exit_code=3, created=NOW - 200 * HOUR)
    state = state_of(run)
    assert (state.state, state.phase, state.end, state.exit_code) == (expected, "finished", NOW - 100 * HOUR, 3)
    assert state.over


def test_an_end_without_a_time_ends_at_the_last_row() -> None:
    assert state_of(HistoryRun(end=HistoryEnd.SUCCEEDED)).end == NOW - 60


@pytest.mark.parametrize(("age", "expected"), [(24 * HOUR, "running"), (24 * HOUR + 1, "unknown")])
def test_unknown_after_a_day_without_any_new_fact(age: float, expected: str) -> None:
    old = summary_of((1, NOW - age - 10), (2, NOW - age))
    assert state_of(HistoryRun(state="running", heartbeat=NOW - age), old).state == expected


def test_a_saved_checkpoint_is_a_new_fact() -> None:
    old = summary_of((1, NOW - 30 * HOUR))
    assert state_of(HistoryRun(), old).state == "unknown"
    assert state_of(HistoryRun(), old, saved(NOW - HOUR)).state == "running"


def test_silence_of_a_blind_exporter_is_no_silence_of_the_job() -> None:
    seen = summary_of((1, NOW - 50 * HOUR))
    assert state_of(HistoryRun(), seen, observed=NOW - 50 * HOUR + 30).state == "running"


def test_phases() -> None:
    run = HistoryRun(state="running", heartbeat=NOW)
    assert state_of(run, EMPTY).phase == "bringup"
    assert state_of(HistoryRun(state="pending", heartbeat=NOW), EMPTY).phase == "queued"
    assert state_of(HistoryRun(state="preempted", heartbeat=NOW), EMPTY).phase == "bringup"
    assert state_of(HistoryRun(state="preempted", heartbeat=NOW)).phase == "resuming"
    assert state_of(run).phase == "stepping"
    assert state_of(run, last_reached=True).phase == "finishing"
    replaying = summary_of((1, NOW - 300), (2, NOW - 200), (3, NOW - 100), (2, NOW - 10))
    assert state_of(run, replaying).phase == "resuming"


def test_a_history_that_answers_with_nothing_at_all_is_unknown_and_in_bringup() -> None:
    state = state_of(HistoryRun(), EMPTY)
    assert (state.state, state.phase, state.start, state.end) == ("unknown", "bringup", None, None)


@pytest.mark.parametrize(("newer", "expected"), [(600.0, False), (601.0, True)])
def test_checkpoints_that_go_on_while_the_history_is_silent_are_a_conflict(newer: float, expected: bool) -> None:
    run = HistoryRun(state="running", heartbeat=NOW)
    found = state_conflict(state_of(run), STEPPING, saved(NOW - 60 + newer), history_observed=NOW + HOUR)
    assert found is expected


def test_a_checkpoint_newer_than_the_last_answer_of_the_history_is_no_conflict() -> None:
    state = state_of(HistoryRun(state="running", heartbeat=NOW))
    two = CheckpointListing(tuple(c for time in (NOW + 600, NOW + HOUR) for c in saved(time).checkpoints))
    found = [state_conflict(state, STEPPING, two, history_observed=at) for at in (NOW, NOW + 599, NOW + 600)]
    assert found == [False, False, True]


def test_no_conflict_while_finishing_or_resuming() -> None:
    run = HistoryRun(state="running", heartbeat=NOW)
    late = saved(NOW + HOUR)
    asked = NOW + 2 * HOUR
    assert not state_conflict(state_of(run, last_reached=True), STEPPING, late, history_observed=asked)
    replaying = summary_of((1, NOW - 300), (2, NOW - 200), (1, NOW - 100))
    assert not state_conflict(state_of(run, replaying), replaying, late, history_observed=asked)
