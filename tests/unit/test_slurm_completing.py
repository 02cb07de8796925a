"""A SLURM job whose nodes are not free yet: squeue says COMPLETING, which may last for hours, and not how it ended.

The lines are those of 22.05.8 with an epilog that sleeps; sacct told each end at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.facts import AttemptEnd, SchedulerState, Successor
from tests.unit.slurm_site_stand_in import NOON, Cluster, accounted, at, queued

Ending = tuple[str, str, SchedulerState, int | None, AttemptEnd]

ENDS: list[Ending] = [
    ("FAILED", "3:0", SchedulerState.FAILED, 3, AttemptEnd.FAILED),
    ("CANCELLED by 0", "0:0", SchedulerState.KILLED, None, AttemptEnd.CANCELLED),
    ("TIMEOUT", "0:0", SchedulerState.TIMEOUT, None, AttemptEnd.WALL_TIME),
    ("COMPLETED", "0:0", SchedulerState.SUCCEEDED, 0, AttemptEnd.SUCCEEDED),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("ending", ENDS)
@pytest.mark.parametrize("seen_running", [True, False])
def test_job_that_only_clears_up_is_over(cluster: Cluster, ending: Ending, *, seen_running: bool) -> None:
    word, exited, state, code, end = ending
    following = queued("8", "PENDING", depends="afterany:7(unfulfilled)", reason="Dependency")
    if seen_running:
        cluster.queue(queued("7", "RUNNING", at(1)), following)
        cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"))
        assert cluster.facts("7").state is SchedulerState.RUNNING
    cluster.queue(queued("7", "COMPLETING", at(1), at(50)), following)
    cluster.accounting(accounted("7", word, at(1), at(50), exited=exited))
    found = cluster.facts("7")
    assert (found.state, found.ended, found.exit_code) == (state, NOON + 3000, code)
    assert [(a.key, a.ended, a.end) for a in found.attempts] == [("7:0", NOON + 3000, end)]
    assert found.successor == Successor("8", running=False, can_start=True)


def test_job_whose_end_accounting_has_not_told_yet_runs(cluster: Cluster) -> None:
    cluster.queue(queued("7", "COMPLETING", at(1), at(50)))
    cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"))
    assert cluster.facts("7").state is SchedulerState.RUNNING
    cluster.accounting(accounted("7", "FAILED", at(1), at(50), exited="1:0"))
    assert cluster.facts("7").state is SchedulerState.FAILED


def test_end_of_an_earlier_start_is_not_that_of_the_one_that_clears_up(cluster: Cluster) -> None:
    cluster.queue(queued("7", "COMPLETING", at(30), at(50), submit=at(20)))
    cluster.accounting(accounted("7", "PREEMPTED", at(1), at(20)))
    assert cluster.facts("7").state is SchedulerState.RUNNING


@pytest.mark.parametrize("word", ["NODE_FAIL", "PREEMPTED", "REQUEUED"])
def test_job_that_clears_up_and_may_be_started_anew_is_not_over(cluster: Cluster, word: str) -> None:
    cluster.queue(queued("7", "COMPLETING", at(1), at(50)))
    cluster.accounting(accounted("7", word, at(1), at(50)))
    assert cluster.facts("7").state is SchedulerState.RUNNING


def test_job_that_clears_up_without_accounting_runs(cluster: Cluster) -> None:
    cluster.fails("sacct", 1, "Slurm accounting storage is disabled\n")
    cluster.queue(queued("7", "COMPLETING", at(1), at(50)))
    assert cluster.facts("7").state is SchedulerState.RUNNING
