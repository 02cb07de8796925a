"""One job put together from what squeue, scontrol and sacct say: its attempts and how they are numbered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runwatch.facts import AttemptEnd, SchedulerState
from runwatch.parsing.slurm_ids import JobId
from runwatch.parsing.slurm_tasks import Start, TaskView, view_task
from runwatch.parsing.slurm_text import AccountingRow, JobDetail, QueueRecord


def queued(word: str, started: float | None, ended: float | None = None) -> QueueRecord:
    return QueueRecord(JobId("7"), word, "run", "u1", "/w", "None", (), 50.0, started, ended)


def row(word: str, started: float | None, ended: float | None, submitted: float = 50.0) -> AccountingRow:
    return AccountingRow(JobId("7"), word, "run", "u1", "/w", "", (0, 0), (0, 0), submitted, started, ended)


def detail(word: str, restarts: int) -> JobDetail:
    return JobDetail("7", word, (0, 0), restarts, "", None, "")


def view(
    queue: QueueRecord | None, told: JobDetail | None, *rows: AccountingRow, seen: tuple[Start, ...] = ()
) -> TaskView:
    return view_task("7", "7", queue=queue, detail=told, rows=rows, seen=seen, visible=queue is not None)


def keys(found: TaskView) -> list[tuple[str, AttemptEnd]]:
    return [(attempt.key, attempt.end) for attempt in found.attempts]


@pytest.mark.parametrize("word", ["PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"])
@pytest.mark.parametrize("told", [None, detail("RUNNING", 0), detail("PENDING", 1)])
def test_first_attempt_keeps_its_number_when_the_job_waits_again(word: str, told: JobDetail | None) -> None:
    found = view(queued(word, None), told, row("REQUEUED", 100.0, 200.0))
    assert found.state is SchedulerState.PREEMPTED
    assert keys(found) == [("7:0", AttemptEnd.UNKNOWN)]


def test_start_that_two_sources_give_is_one_attempt() -> None:
    found = view(
        queued("RUNNING", 300.0), detail("RUNNING", 1), row("REQUEUED", 100.0, 200.0), row("RUNNING", 300.0, None)
    )
    assert keys(found) == [("7:0", AttemptEnd.UNKNOWN), ("7:1", AttemptEnd.RUNNING)]


def test_job_that_starts_again_at_once_has_two_attempts() -> None:
    found = view(queued("RUNNING", 102.0), detail("RUNNING", 1), row("REQUEUED", 100.0, 101.0))
    assert keys(found) == [("7:0", AttemptEnd.UNKNOWN), ("7:1", AttemptEnd.RUNNING)]


def test_accounting_that_lags_shifts_no_number() -> None:
    before = view(queued("RUNNING", 300.0), detail("RUNNING", 1), seen=(Start(100.0, 200.0, "REQUEUED"),))
    after = view(queued("RUNNING", 300.0), detail("RUNNING", 1), row("REQUEUED", 100.0, 200.0))
    assert keys(before) == keys(after) == [("7:0", AttemptEnd.UNKNOWN), ("7:1", AttemptEnd.RUNNING)]


def test_attempts_that_no_source_shows_keep_their_numbers_free() -> None:
    assert keys(view(queued("RUNNING", 300.0), detail("RUNNING", 4))) == [("7:4", AttemptEnd.RUNNING)]


def test_suspended_job_is_in_the_same_attempt() -> None:
    found = view(queued("SUSPENDED", 300.0), detail("SUSPENDED", 0))
    assert found.state is SchedulerState.PREEMPTED
    assert keys(found) == [("7:0", AttemptEnd.RUNNING)]


def test_preempted_for_good_does_not_wait_to_be_placed_again() -> None:
    found = view(None, None, row("PREEMPTED", 100.0, 200.0))
    assert (found.state, found.over, found.ended, keys(found)) == (
        SchedulerState.FAILED,
        True,
        200.0,
        [("7:0", AttemptEnd.PREEMPTED)],
    )


def test_preempted_and_requeued_waits_to_be_placed_again() -> None:
    found = view(queued("PENDING", None), None, row("PREEMPTED", 100.0, 200.0), row("PENDING", None, None, 200.0))
    assert (found.state, found.over, keys(found)) == (
        SchedulerState.PREEMPTED,
        False,
        [("7:0", AttemptEnd.PREEMPTED)],
    )


def test_restarts_that_scontrol_counts_tell_that_a_waiting_job_ran_where_nothing_else_does() -> None:
    """As an exporter that starts anew finds it, where there is no accounting."""
    assert view(queued("PENDING", None), detail("PENDING", 1)).state is SchedulerState.PREEMPTED
    assert view(queued("PENDING", None), detail("PENDING", 0)).state is SchedulerState.PENDING
    assert view(queued("PENDING", None), None).state is SchedulerState.PENDING


def test_job_one_of_whose_steps_was_killed_for_want_of_memory_says_so() -> None:
    """Its script ended with 1 on that account, so neither its state nor its exit code tells."""
    killed = replace(row("FAILED", 100.0, 200.0), exited=(1, 0), derived=(0, 125))
    found = view(None, None, killed)
    assert (found.exit_code, found.detail) == (1, "FAILED, exit code 1, one of its steps was out of memory")
    other = view(None, None, replace(killed, derived=(1, 0)))
    assert (other.exit_code, other.detail) == (1, "FAILED, exit code 1")
