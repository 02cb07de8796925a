"""What the scheduler adds to a report: tasks, interruptions since progress, waiting, why it ended."""

from __future__ import annotations

import pytest

from runwatch.facts import (
    Attempt,
    AttemptEnd,
    SchedulerFacts,
    SchedulerState,
    Successor,
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
        (SchedulerState.FAILED, FAILED, "FAILED, exit code 1, one of its steps was out of memory", 1, "out_of_memory"),
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


@pytest.mark.parametrize("again", [[attempt("task7-", 1, 1100)], []], ids=["runs again", "being set up"])
def test_a_replay_after_some_tasks_fell_goes_on_from_the_newest_checkpoint_before_that(again: list[Attempt]) -> None:
    """Seven of eight tasks go on since 0: their start is no bound for the checkpoints of this resumption.

    Step 100 was the last, 90 is saved at 905: steps 91 to 100 come again, at 10 s each. Step 95, saved meanwhile, was
    made on the way back.
    """
    tasks = [*gang(0, 0, tasks=7), attempt("task7-", 0, 0, 1004, PREEMPTED), *again]
    saved = [(50, 505.0), (90, 905.0), *([(95, 1250.0)] if again else [])]
    report = report_of((1300, facts(tasks)), at=1300, steps=stepping(1000), saved=saved)
    assert report.measurements.one_hot("mljob_phase") == "resuming"
    assert report.measurements.get("mljob_replay_expected_seconds") == pytest.approx(10 * 10.0)


@pytest.mark.parametrize(
    ("kept", "again"),
    [
        ([(500, 5000.0)], 1000 - 880),  # a permanent one of long ago
        ([], 1000 - 880),
        ([(940, 9400.0)], 1000 - 940),  # more than one is kept: it is known
    ],
)
def test_a_checkpoint_that_was_deleted_while_its_steps_are_done_again(
    kept: list[tuple[int, float]], again: int
) -> None:
    """Levanter keeps one temporary checkpoint. That of step 940 is what was resumed from at 10,300 s; after ten minutes
    of loading and 30 steps of 10 s each comes that of step 970, and 940 is deleted. In the 900 s up to that save at
    most 90 steps were made: it did not begin below 880, and certainly not at 500 or at the first step."""
    said = facts([*gang(0, 0, 10_000, PREEMPTED), *gang(1, 10_300)])
    saved = [*kept, (970, 11_200.0)]
    report = report_of((11_210, said), at=11_210, steps=stepping(10_000), saved=saved)
    assert report.measurements.one_hot("mljob_phase") == "resuming"
    assert report.measurements.get("mljob_replay_expected_seconds") == pytest.approx(again * 10.0)


def test_steps_that_all_have_one_time_expect_no_time_of_a_replay() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1300)])
    steps = [(step, 900.0) for step in range(100)]
    report = report_of((2000, said), at=2000, steps=steps, saved=[(90, 1900.0)])
    assert report.measurements.get("mljob_replay_expected_seconds") in {None, 0.0}


def test_the_successor_of_a_link_that_was_preempted_is_the_one_behind_it() -> None:
    links = [attempt("x", 0, 0, 1000, WALL_TIME, link="1"), attempt("x", 0, 1010, 2000, PREEMPTED, link="2")]
    said = facts(links, SchedulerState.PREEMPTED, scheduler_job="2", links=("1", "2", "3"),
                 successor=Successor("3", running=False, can_start=True))  # fmt: skip
    measured = report_of((2060, said), at=2060, steps=stepping(1990), scheduler="slurm").measurements
    assert dict(measured.family("mljob_successor")) == {("3",): 1.0}
