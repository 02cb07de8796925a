"""What accounting keeps of a SLURM job, and of another one that had the same id before.

The rows are those of 22.05.8: a requeued job was submitted anew when its start before ended; after the controller had
lost its state (`StateSaveLocation`) ids began at 1 again, and `sacct --duplicates` shows the jobs from before as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.facts import AttemptEnd, SchedulerState
from tests.unit.slurm_site_stand_in import NOON, Cluster, accounted, at, queued

LONG_AGO = ("2025-03-01T12:00:00", "2025-03-01T13:00:00")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    "before",
    [
        accounted("7", "FAILED", *LONG_AGO, submit=LONG_AGO[0], name="other", line="sbatch other.sh"),
        accounted("7", "NODE_FAIL", *LONG_AGO, submit=LONG_AGO[0], user="u2"),
        accounted("7", "FAILED", *LONG_AGO, submit=LONG_AGO[0]),
        accounted("7_1", "FAILED", *LONG_AGO, submit=LONG_AGO[0], line="sbatch --array=1 other.sh"),
    ],
)
@pytest.mark.parametrize("shown", [True, False])
def test_job_that_had_the_same_id_before_is_no_start_of_this_one(cluster: Cluster, before: str, *, shown: bool) -> None:
    cluster.queue(*([queued("7", "CANCELLED", at(30), at(40), submit=at(20))] if shown else []))
    cluster.accounting(
        before,
        accounted("7", "NODE_FAIL", at(10), at(20)),
        accounted("7", "CANCELLED by 0", at(30), at(40), submit=at(20)),
    )
    found = cluster.facts("7")
    assert (found.state, found.ended, found.submitted) == (SchedulerState.KILLED, NOON + 2400, NOON)
    assert [(a.started, a.end) for a in found.attempts] == [
        (NOON + 600, AttemptEnd.FAILED),
        (NOON + 1800, AttemptEnd.CANCELLED),
    ]


def test_job_that_accounting_has_no_row_of_yet_is_not_the_one_before(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(50), submit=at(49)))
    cluster.accounting(accounted("7", "FAILED", *LONG_AGO, submit=LONG_AGO[0]))
    assert [a.started for a in cluster.facts("7").attempts] == [NOON + 3000]


def test_task_that_is_requeued_days_after_another_ended_is_of_one_array(cluster: Cluster) -> None:
    cluster.accounting(
        accounted("6_0", "COMPLETED", "2026-11-20T10:00:00", "2026-11-20T11:00:00", submit="2026-11-20T09:00:00"),
        accounted("6_1", "PREEMPTED", "2026-11-20T10:00:00", at(0), submit="2026-11-20T09:00:00"),
        accounted("6_1", "COMPLETED", at(5), at(10), submit=at(0)),
    )
    cluster.queue()
    assert [a.key for a in cluster.facts("6").attempts] == ["6_0:0", "6_1:0", "6_1:1"]


def test_requeued_job_that_was_cancelled_before_it_started_again_is_found_whole_by_name(cluster: Cluster) -> None:
    """`sacct --name` leaves out the start that never became eligible; `sacct --jobs` shows it."""
    ran = accounted("7", "PREEMPTED", at(10), at(20))
    cluster.queue()
    cluster.accounting(ran)
    cluster.accounting_of_jobs(
        ran, accounted("7", "CANCELLED by 0", "None", at(30), submit=at(20)).replace("¦n1¦", "¦¦")
    )
    found = cluster.facts("train")
    assert (found.state, found.ended) == (SchedulerState.KILLED, NOON + 1800)
    assert [a.end for a in found.attempts] == [AttemptEnd.PREEMPTED]
