"""What the scheduler adds to a report: tasks, interruptions since progress, waiting, why it ended."""

from __future__ import annotations

import pytest

from runwatch.facts import (
    AttemptEnd,
    SchedulerFacts,
    SchedulerState,
    TaskCounts,
)
from tests.unit.scheduler_reports import report_of, stepping
from tests.unit.scheduler_stories import CANCELLED, FAILED, PREEMPTED, WALL_TIME, attempt, facts, gang


def test_what_the_scheduler_counts_and_who_is_there() -> None:
    said = facts(gang(0, 0), tasks=TaskCounts(running=5, pending=2, succeeded=1), tasks_expected=8, preemptions=24,
                 failures=2, peak_memory_bytes=1e9, accelerators=64, accelerator_type="v5p")  # fmt: skip
    report = report_of((60, said), at=60, steps=stepping(50))
    measured = report.measurements
    tasks = {state: value for (state,), value in measured.family("mljob_tasks").items()}
    assert tasks == {"running": 5, "pending": 2, "succeeded": 1, "failed": 0}
    assert measured.get("mljob_tasks_expected") == 8
    assert (measured.get("mljob_preemptions"), measured.get("mljob_failures")) == (24, 2)
    assert measured.get("mljob_interruptions", cause="preemption") == 0
    assert measured.get("mljob_peak_memory_bytes") == 1e9
    assert measured.get("mljob_accelerators", type="v5p") == 64
    assert "6 of 8 tasks" in [verdict.text for verdict in report.verdicts]


def test_attempts_that_were_never_told_are_not_zero_interruptions() -> None:
    measured = report_of((60, facts(preemptions=8)), at=60).measurements
    assert not measured.family("mljob_interruptions")
    assert measured.get("mljob_interruptions_since_progress") is None


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        ([(100, 2500.0)], 1),  # one of three came after the newest checkpoint
        ([(100, 1500.0)], 2),
        ([], 3),  # none yet: no progress at all
        (None, 1),  # no checkpoints: since the newest new step
    ],
)
def test_interruptions_since_progress(saved: list[tuple[int, float]] | None, expected: int) -> None:
    said = facts(
        [*gang(0, 0, 1000, PREEMPTED), *gang(1, 1100, 2000, PREEMPTED), *gang(2, 2100, 3000, FAILED), *gang(3, 3100)]
    )
    report = report_of((3200, said), at=3200, steps=stepping(2900), saved=saved)
    assert report.measurements.get("mljob_interruptions_since_progress") == expected


def test_an_interruption_while_progress_was_not_known_is_not_one_without_progress() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1100, 2000, PREEMPTED), *gang(2, 2100)])
    report = report_of((3200, said), at=3200, steps=stepping(900), history_seen=1500)
    assert report.measurements.get("mljob_interruptions_since_progress") == 1


@pytest.mark.parametrize(
    ("phase_steps", "said", "reason"),
    [
        ([], facts(state=SchedulerState.PENDING, waiting="capacity"), "capacity"),
        ([], facts(state=SchedulerState.PENDING), "unknown"),
        ([], facts(gang(0, 0), waiting="image"), "image"),
        ([(1, 0.0)], facts(gang(0, 0), waiting="image"), None),
    ],
)
def test_what_it_waits_for(phase_steps: list[tuple[int, float]], said: SchedulerFacts, reason: str | None) -> None:
    measured = report_of((60, said), at=60, steps=phase_steps).measurements
    assert measured.one_hot("mljob_waiting") == reason


@pytest.mark.parametrize(
    ("state", "end", "detail", "code", "reason"),
    [
        (SchedulerState.SUCCEEDED, CANCELLED, "", 0, "completed"),
        (SchedulerState.TIMEOUT, WALL_TIME, "", None, "wall_time"),
        (SchedulerState.KILLED, CANCELLED, "Terminated by user", None, "cancelled"),
        (SchedulerState.FAILED, FAILED, "OOMKilled", 137, "out_of_memory"),
        (SchedulerState.FAILED, FAILED, "OUT_OF_MEMORY", 125, "out_of_memory"),
        (SchedulerState.FAILED, FAILED, "NODE_FAIL", None, "node"),
        (SchedulerState.FAILED, PREEMPTED, "Preemption budget exhausted", None, "preempted"),
        (SchedulerState.FAILED, FAILED, "Error", 137, "sigkill"),
        (SchedulerState.FAILED, FAILED, "Error", 143, "sigterm"),
        (SchedulerState.FAILED, FAILED, "Error", 1, "unknown"),
        (SchedulerState.GONE, FAILED, "", None, "unknown"),
        (SchedulerState.RUNNING, FAILED, "OOMKilled", 137, None),
    ],
)
def test_why_it_ended(
    state: SchedulerState, end: AttemptEnd, detail: str, code: int | None, reason: str | None
) -> None:
    last = attempt("a", 0, 0, 1000, end, exit_code=code, detail=detail)
    report = report_of((1100, facts([last], state, exit_code=code)), at=1100)
    assert report.measurements.one_hot("mljob_end_reason") == reason
    assert report.measurements.get("mljob_exit_code") == (code if reason and state is not SchedulerState.GONE else None)
