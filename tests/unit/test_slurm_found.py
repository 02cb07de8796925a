"""What discovery is told of a SLURM site: chains, jobs submitted anew, and names that two people have."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.facts import SchedulerFacts, SchedulerState
from runwatch.fleet import Job
from runwatch.sources.protocol import Outcome
from tests.unit.slurm_site_stand_in import NOON, Cluster, accounted, at, queued


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_name_that_two_people_have_means_the_job_of_the_one_it_was_found_for(cluster: Cluster) -> None:
    cluster.queue(queued("1", "RUNNING", at(1)), queued("3", "RUNNING", at(12), user="u2"))
    cluster.accounting(
        accounted("1", "RUNNING", at(1), "Unknown"), accounted("3", "RUNNING", at(12), "Unknown", user="u2")
    )
    told: list[Outcome] = []
    job = Job(run="train", bucket="sft", site="hpc", scheduler_job="train", scheduler_user="u1")
    cluster.source.poll([job], lambda _, outcome: told.append(outcome))
    cluster.queue(queued("3", "RUNNING", at(12), user="u2"))
    cluster.accounting(accounted("1", "FAILED", at(1), at(20), exited="1:0"))
    cluster.now += 60
    cluster.source.poll([job], lambda _, outcome: told.append(outcome))
    assert [(one.scheduler_job, one.state) for one in told if isinstance(one, SchedulerFacts)] == [
        ("1", SchedulerState.RUNNING),
        ("1", SchedulerState.FAILED),
    ]


def test_the_ids_of_a_found_job_are_those_of_its_chain(cluster: Cluster) -> None:
    cluster.queue(
        queued("2", "RUNNING", at(10)), queued("3", "PENDING", depends="afterany:2"),
        queued("7", "RUNNING", at(1), name="grid"), queued("8", "RUNNING", at(2), name="grid"),
    )  # fmt: skip
    cluster.accounting(
        accounted("1", "TIMEOUT", at(0), at(10)),
        accounted("2", "RUNNING", at(10), "Unknown", line="sbatch --dependency=afterany:1 train.sh"),
    )
    cluster.facts("1")
    found = cluster.found("")
    # A listed job tells of links that squeue has forgotten; of several that run at a time the newest is meant.
    assert {job.scheduler_job: job.links for job in found} == {"train": ("1", "2", "3"), "grid": ("8",)}


def test_a_job_that_is_submitted_anew_while_squeue_shows_the_one_before_is_the_new_one(cluster: Cluster) -> None:
    cluster.queue(
        queued("1", "FAILED", at(1), at(10)), queued("2", "RUNNING", at(12), submit=at(11)),
        queued("3", "PENDING", depends="afterany:2", submit=at(13)),
    )  # fmt: skip
    [found] = cluster.found("train")
    assert (found.submitted, found.links, found.state) == (NOON + 660, ("2", "3"), SchedulerState.RUNNING)
    cluster.queue(queued("1", "TIMEOUT", at(1), at(10)), queued("2", "RUNNING", at(11), submit=at(9)))
    cluster.now += 3600
    [found] = cluster.found("train")
    assert (found.submitted, found.links) == (NOON, ("1", "2"))


def test_jobs_in_a_hidden_partition_are_seen(cluster: Cluster) -> None:
    (cluster.folder / "squeue.seen").write_text(queued("8", "RUNNING", at(2), name="other"))
    cluster.queue(queued("7", "RUNNING", at(1)), queued("8", "RUNNING", at(2), name="other"))
    assert [job.name for job in cluster.found("")] == ["train", "other"]
    assert cluster.facts("7").state is SchedulerState.RUNNING
