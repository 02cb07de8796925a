"""Arrays of SLURM, one of whose tasks is requeued: squeue puts it back into the line of all that wait.

The lines are those of 22.05.8, after `sbatch --array=1-9:2,20%2 --requeue` and `scontrol requeue <id>_3`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.facts import AttemptEnd, SchedulerState, TaskCounts
from runwatch.parsing.slurm_ids import without_tasks
from tests.unit.slurm_site_stand_in import NOON, Cluster, accounted, at, queued

RUN = (queued("10_1", "RUNNING", at(1)), queued("10_5", "RUNNING", at(5)))
WAIT = queued("10_[3,7,9,20]", "PENDING", reason="JobArrayTaskLimit")
ROWS = (
    accounted("10_1", "RUNNING", at(1), "Unknown"),
    accounted("10_3", "REQUEUED", at(1), at(5)),
    accounted("10_3", "PENDING", "Unknown", "Unknown", submit=at(5)),
    accounted("10_5", "RUNNING", at(5), "Unknown"),
    accounted("10_[7,9,20%2]", "PENDING", "Unknown", "Unknown"),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_requeued_task_of_an_array_waits_again(cluster: Cluster) -> None:
    cluster.queue(*RUN, WAIT)
    cluster.accounting(*ROWS)
    array = cluster.facts("10")
    assert (array.state, array.tasks) == (SchedulerState.RUNNING, TaskCounts(running=2, pending=4))
    task = cluster.facts("10_3")
    assert (task.state, task.tasks, task.tasks_expected) == (SchedulerState.PREEMPTED, TaskCounts(pending=1), 1)
    assert [(a.key, a.started, a.ended, a.end) for a in task.attempts] == [
        ("10_3:0", NOON + 60, NOON + 300, AttemptEnd.UNKNOWN)
    ]
    never_ran = cluster.facts("10_9")
    assert (never_ran.state, never_ran.tasks, never_ran.tasks_expected) == (
        SchedulerState.PENDING, TaskCounts(pending=1), 1
    )  # fmt: skip


def test_array_all_of_whose_tasks_are_requeued_waits_again(cluster: Cluster) -> None:
    cluster.queue(queued("10_1", "RUNNING", at(1)), queued("10_3", "RUNNING", at(1)), queued("10_[5]", "PENDING"))
    cluster.accounting(accounted("10_1", "RUNNING", at(1), "Unknown"), accounted("10_3", "RUNNING", at(1), "Unknown"))
    cluster.facts("10")
    cluster.queue(queued("10_[1-5:2]", "PENDING", reason="BeginTime"))
    cluster.accounting(
        accounted("10_1", "PREEMPTED", at(1), at(5)), accounted("10_1", "PENDING", "Unknown", "Unknown", submit=at(5)),
        accounted("10_3", "PREEMPTED", at(1), at(5)), accounted("10_3", "PENDING", "Unknown", "Unknown", submit=at(5)),
    )  # fmt: skip
    found = cluster.facts("10")
    assert (found.state, found.waiting, found.tasks) == (SchedulerState.PREEMPTED, "queue", TaskCounts(pending=3))
    assert [(a.key, a.ended, a.end) for a in found.attempts] == [
        ("10_1:0", NOON + 300, AttemptEnd.PREEMPTED),
        ("10_3:0", NOON + 300, AttemptEnd.PREEMPTED),
    ]


def test_requeued_task_of_an_array_without_accounting(cluster: Cluster) -> None:
    """The line of all that wait has the array's submission, so it does not tell when the task's start ended."""
    cluster.fails("sacct", 1, "Slurm accounting storage is disabled\n")
    cluster.queue(*RUN, queued("10_3", "RUNNING", at(0)))
    cluster.facts("10")
    cluster.queue(*RUN, WAIT)
    assert cluster.facts("10").tasks == TaskCounts(running=2, pending=4)
    task = cluster.facts("10_3")
    assert task.state is SchedulerState.PREEMPTED
    assert [(a.key, a.started, a.ended, a.end) for a in task.attempts] == [("10_3:0", NOON, None, AttemptEnd.UNKNOWN)]
    cluster.queue(*RUN, queued("10_3", "RUNNING", at(40)), queued("10_[7,9,20]", "PENDING"))
    again = cluster.facts("10_3")
    assert (again.state, [a.started for a in again.attempts]) == (SchedulerState.RUNNING, [NOON, NOON + 2400])
    assert cluster.facts("10").tasks == TaskCounts(running=3, pending=3)


@pytest.mark.parametrize(
    ("tasks", "taken", "left"),
    [
        ((range(1, 10, 2),), {3}, [1, 5, 7, 9]),
        ((range(1, 10, 2),), {1, 9}, [3, 5, 7]),
        ((range(1, 10, 2), range(20, 21)), {2, 20}, [1, 3, 5, 7, 9]),
        ((range(4),), set(), [0, 1, 2, 3]),
        ((range(2),), {0, 1}, []),
    ],
)
def test_indices_without_some(tasks: tuple[range, ...], taken: set[int], left: list[int]) -> None:
    found = without_tasks(tasks, taken)
    assert [index for indices in found for index in indices] == left
    assert all(found)
