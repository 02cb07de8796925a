"""A SLURM job that is suspended for another one: it keeps its attempt, and the silence of that time is no stall.

The lines are those of 22.05.8 with `PreemptMode=SUSPEND`: squeue's time used stands still while a job is suspended, and
neither squeue nor sacct ever tells when that was.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.derive.reconcile import explain_gaps
from runwatch.derive.step_timeline import StepInterval
from runwatch.facts import AttemptEnd, SchedulerState
from runwatch.scheduler_digest import SchedulerDigest
from tests.unit.slurm_site_stand_in import NOON, Cluster, accounted, at, queued

RAN = accounted("7", "RUNNING", at(0), "Unknown")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def causes(digest: SchedulerDigest, *gaps: tuple[float, float]) -> list[str]:
    view = digest.view(NOON + 1e6)
    assert view is not None
    found = [StepInterval(NOON + start, NOON + end, 10, 11) for start, end in gaps]
    return [gap.cause for gap in explain_gaps(found, (), view, 8.0)]


def look(cluster: Cluster, digest: SchedulerDigest) -> None:
    digest.add(cluster.facts("7"), cluster.now)


def test_gap_of_a_suspension_that_was_seen_is_a_preemption(cluster: Cluster) -> None:
    """Looks each minute from 18:01 on; suspended from 18:02:30 to 18:12:30."""
    digest = SchedulerDigest(60)
    cluster.accounting(RAN)
    cluster.queue(queued("7", "RUNNING", at(0), used="1:01:00"))
    look(cluster, digest)
    look(cluster, digest)
    cluster.queue(queued("7", "SUSPENDED", at(0), used="1:02:30"))
    for _ in range(10):
        look(cluster, digest)
    cluster.queue(queued("7", "RUNNING", at(0), used="1:03:00"))
    look(cluster, digest)
    found = cluster.facts("7")
    assert (found.state, [(a.key, a.end) for a in found.attempts]) == (
        SchedulerState.RUNNING,
        [("7:0", AttemptEnd.RUNNING)],
    )
    assert causes(digest, (3740, 4360)) == ["preemption"]
    # A silence that was over before it, and one that began when the job ran again.
    assert causes(digest, (3000, 3620), (4700, 5300)) == ["unexplained", "unknown"]
    for _ in range(15):
        look(cluster, digest)
    assert causes(digest, (4700, 5300)) == ["unexplained"]


@pytest.mark.parametrize("word", ["RUNNING", "COMPLETED"])
def test_gap_before_a_suspended_job_was_first_seen_is_not_called_a_stall(cluster: Cluster, word: str) -> None:
    """From 17:00 on it ran for 30 min of an hour; when it did not is told nowhere."""
    digest = SchedulerDigest(60)
    ended = "Unknown" if word == "RUNNING" else at(60)
    cluster.accounting(accounted("7", word, at(0), ended).replace("¦3600¦", "¦1800¦"))
    cluster.queue(queued("7", word, at(0), "N/A" if word == "RUNNING" else ended, used="30:00"))
    look(cluster, digest)
    look(cluster, digest)
    assert causes(digest, (600, 1200)) == ["unknown"]


@pytest.mark.parametrize("word", ["RUNNING", "COMPLETED"])
def test_gap_of_a_job_that_ran_all_the_time_is_a_stall(cluster: Cluster, word: str) -> None:
    digest = SchedulerDigest(60)
    ended = "Unknown" if word == "RUNNING" else at(60)
    cluster.accounting(accounted("7", word, at(0), ended))
    cluster.queue(queued("7", word, at(0), "N/A" if word == "RUNNING" else ended, used="1:00:10"))
    look(cluster, digest)
    assert causes(digest, (600, 1200)) == ["unexplained"]
