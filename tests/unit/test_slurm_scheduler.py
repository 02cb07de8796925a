"""The SLURM source over a stand-in for its commands: what no real cluster does on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.facts import (
    AttemptEnd,
    Failure,
    FailureReason,
    SchedulerFacts,
    SchedulerState,
    Successor,
    TaskCounts,
)
from tests.unit.slurm_site_stand_in import NOON, Cluster, accounted, at, queued


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    ("zone", "said"), [("UTC", []), ("Europe/Rome", ["1 h earlier"]), ("Etc/GMT+1", ["1 h later"])]
)
def test_a_zone_that_is_not_the_sites_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, zone: str, said: list[str]
) -> None:
    cluster = Cluster(tmp_path, zone)
    cluster.queue(queued("7", "RUNNING", at(60)))  # asked at 18:01, it has run for a minute
    cluster.poll("7")
    cluster.poll("7")
    told = [record.getMessage() for record in caplog.records if "timezone" in record.getMessage()]
    assert [text.partition("started ")[2].partition(" than")[0] for text in told] == said


def test_record_that_nobody_has_any_more_is_gone(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    assert cluster.facts("7").state is SchedulerState.RUNNING
    cluster.queue()
    found = cluster.facts("7")
    assert found.state is SchedulerState.GONE
    assert [(a.end, a.ended) for a in found.attempts] == [(AttemptEnd.UNKNOWN, None)]


def test_job_that_was_never_seen_is_not_found(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    for name in ("8", "another"):
        assert cluster.failure(name).is_answer
    assert cluster.failure("an;other").detail.endswith("sacct cannot be asked for such a name")


def test_without_accounting_a_record_that_vanished_is_unknown(cluster: Cluster) -> None:
    cluster.fails("sacct", 1, "Slurm accounting storage is disabled\n")
    cluster.queue(queued("7", "RUNNING", at(1)), queued("8", "RUNNING", at(1), name="other"))
    cluster.poll("7", "8")
    cluster.queue(queued("8", "TIMEOUT", at(1), at(61), name="other"))
    lost, ended = cluster.poll("7", "8")
    assert isinstance(lost, SchedulerFacts) and isinstance(ended, SchedulerFacts)
    assert lost.state is SchedulerState.UNKNOWN
    assert "Slurm accounting storage is disabled" in lost.detail
    assert lost.covered_from is None
    assert ended.state is SchedulerState.TIMEOUT
    # An end that was seen stays known.
    cluster.queue()
    assert cluster.facts("8").state is SchedulerState.TIMEOUT


def test_accounting_that_cannot_be_asked_leaves_a_vanished_record_unread(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.facts("7")
    cluster.queue()
    cluster.fails("sacct", 1, "sacct: error: Sending PersistInit msg: Connection refused\n")
    assert cluster.failure("7").reason is FailureReason.NETWORK
    cluster.mend("sacct")
    cluster.accounting(accounted("7", "FAILED", at(1), at(2), exited="3:0"))
    assert cluster.facts("7").exit_code == 3


def test_controller_that_accounting_contradicts_is_unknown(cluster: Cluster) -> None:
    """The controller lost its state: accounting still believes the job to run."""
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"))
    cluster.facts("7")
    cluster.queue()
    found = cluster.facts("7")
    assert found.state is SchedulerState.UNKNOWN
    assert "accounting says RUNNING" in found.detail


def test_end_of_a_job_that_was_preempted_before_is_asked_for_again(cluster: Cluster) -> None:
    """The start before ended for good in accounting: that says nothing of the newest one."""
    preempted = accounted("7", "PREEMPTED", at(1), at(20))
    cluster.queue(queued("7", "RUNNING", at(30), submit=at(20)))
    cluster.accounting(preempted, accounted("7", "RUNNING", at(30), "Unknown", submit=at(20)))
    assert cluster.facts("7").state is SchedulerState.RUNNING
    # It ended, and left squeue, between two polls.
    cluster.queue()
    cluster.accounting(preempted, accounted("7", "FAILED", at(30), at(50), submit=at(20), exited="3:0"))
    found = cluster.facts("7")
    assert (found.state, found.exit_code, found.ended) == (SchedulerState.FAILED, 3, NOON + 3000)


def test_starts_are_not_all_known_while_accounting_has_to_be_asked(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1), used="1:00:00"))
    cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"))
    assert cluster.facts("7").covered_from == NOON
    # It may have been started many times between these two starts.
    cluster.queue(queued("7", "RUNNING", at(50), submit=at(49), used="12:00"))
    cluster.fails("sacct", 1, "sacct: error: Sending PersistInit msg: Connection refused\n")
    assert cluster.facts("7").covered_from is None
    cluster.mend("sacct")
    cluster.accounting(
        accounted("7", "REQUEUED", at(1), at(20)),
        accounted("7", "NODE_FAIL", at(25), at(48), submit=at(20)),
        accounted("7", "RUNNING", at(50), "Unknown", submit=at(49)),
    )
    found = cluster.facts("7")
    assert found.covered_from == NOON
    assert [a.end for a in found.attempts] == [AttemptEnd.UNKNOWN, AttemptEnd.FAILED, AttemptEnd.RUNNING]


def test_job_that_waits_again_does_not_run_where_accounting_lags(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"))
    cluster.facts("7")
    cluster.queue(queued("7", "PENDING", at(40), reason="BeginTime", submit=at(30)))
    found = cluster.facts("7")
    assert found.state is SchedulerState.PREEMPTED
    assert [(a.key, a.end, a.ended) for a in found.attempts] == [("7:0", AttemptEnd.UNKNOWN, NOON + 1800)]
    # What accounting says once it knows counts: the node failed.
    cluster.accounting(accounted("7", "NODE_FAIL", at(1), at(29)))
    for _ in range(3):
        found = cluster.facts("7")
    assert [(a.key, a.end, a.ended) for a in found.attempts] == [("7:0", AttemptEnd.FAILED, NOON + 1740)]


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", FailureReason.NETWORK),
        (255, "u1@login01: Permission denied (publickey).\n", FailureReason.AUTH),
    ],
)
def test_squeue_that_fails_says_nothing_of_any_job(
    cluster: Cluster, code: int, said: str, reason: FailureReason
) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.facts("7")
    cluster.fails("squeue", code, said)
    for outcome in cluster.poll("7", "8"):
        assert isinstance(outcome, Failure) and outcome.reason is reason and not outcome.is_answer
    cluster.mend("squeue")
    assert cluster.facts("7").state is SchedulerState.RUNNING


def test_nothing_waits_for_a_clock_that_was_set_back(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"))
    cluster.facts("7")
    cluster.queue()
    cluster.fails(
        "sacct", 1, "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection"
    )
    assert not cluster.failure("7").is_answer
    cluster.now -= 1800
    cluster.mend("sacct")
    cluster.accounting(accounted("7", "COMPLETED", at(1), at(20)))
    assert cluster.facts("7").state is SchedulerState.SUCCEEDED


def test_jobs_are_found_at_once_after_the_clock_was_set_back(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    assert [job.name for job in cluster.found("")] == ["train"]
    cluster.now -= 1800
    cluster.queue(queued("7", "RUNNING", at(1)), queued("8", "RUNNING", at(2), name="other"))
    assert {job.name for job in cluster.found("")} == {"train", "other"}


def test_listing_that_was_cut_short_makes_no_job_gone(cluster: Cluster) -> None:
    first, second = queued("7", "RUNNING", at(1)), queued("8", "RUNNING", at(1), name="other")
    cluster.queue(first, second)
    cluster.poll("7", "8")
    cluster.queue(first, second[:20])
    read, unread = cluster.poll("7", "8")
    assert isinstance(read, SchedulerFacts) and read.state is SchedulerState.RUNNING
    assert isinstance(unread, Failure) and unread.reason is FailureReason.PARSE


def test_accounting_that_was_cut_short_makes_no_job_gone(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)), queued("8", "RUNNING", at(1)))
    cluster.accounting(accounted("7", "RUNNING", at(1), "Unknown"), accounted("8", "RUNNING", at(1), "Unknown"))
    cluster.poll("7", "8")
    cluster.queue()
    ended = [accounted("7", "COMPLETED", at(1), at(5)), accounted("8", "COMPLETED", at(1), at(5))]
    cluster.accounting(*ended[:1], ended[1][:40])
    one, other = cluster.poll("7", "8")
    assert isinstance(one, SchedulerFacts) and one.state is SchedulerState.SUCCEEDED
    assert isinstance(other, Failure) and other.reason is FailureReason.PARSE
    cluster.accounting(*ended)
    assert cluster.facts("8").state is SchedulerState.SUCCEEDED
    cluster.queue()
    cluster.accounting(ended[0][:40])
    assert cluster.failure("9").reason is FailureReason.PARSE


def test_a_message_in_place_of_the_table_is_no_empty_queue(cluster: Cluster) -> None:
    cluster.queue("This account has expired\n")
    assert cluster.failure("7").reason is FailureReason.PARSE


def test_a_thousand_jobs_are_one_call_a_poll(cluster: Cluster) -> None:
    names = [str(1000 + i) for i in range(1000)]
    lines = [queued(name, "RUNNING", at(1), name=f"run-{name}") for name in names]
    cluster.queue(*lines)
    cluster.accounting(*(accounted(name, "RUNNING", at(1), "Unknown", name=f"run-{name}") for name in names))
    assert all(isinstance(outcome, SchedulerFacts) for outcome in cluster.poll(*names))
    first = cluster.calls()
    assert first.count("squeue") == 1
    assert first.count("sacct") <= 10 and first.count("scontrol") <= 9
    for _ in range(4):  # while scontrol may still tell more
        cluster.poll(*names)
    cluster.calls()
    assert len(cluster.poll(*names)) == 1000
    assert [call for call in cluster.calls() if call != "ls"] == ["squeue"]


def test_requeue_without_accounting(cluster: Cluster) -> None:
    cluster.fails("sacct", 1, "Slurm accounting storage is disabled\n")
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.facts("7")
    cluster.queue(queued("7", "COMPLETING", at(30), "NONE"))
    assert cluster.facts("7").state is SchedulerState.PREEMPTED
    cluster.queue(queued("7", "PENDING", at(40), reason="BeginTime", submit=at(30)))
    found = cluster.facts("7")
    assert found.state is SchedulerState.PREEMPTED
    assert [(a.key, a.started, a.ended, a.end) for a in found.attempts] == [
        ("7:0", NOON + 60, NOON + 1800, AttemptEnd.UNKNOWN)
    ]
    cluster.queue(queued("7", "RUNNING", at(40), submit=at(30)))
    again = cluster.facts("7")
    assert again.state is SchedulerState.RUNNING
    assert [(a.key, a.started) for a in again.attempts] == [("7:0", NOON + 60), ("7:1", NOON + 2400)]


def test_job_cancelled_in_the_second_of_its_start(cluster: Cluster) -> None:
    cluster.queue(queued("7", "RUNNING", at(1)))
    cluster.facts("7")
    cluster.queue(queued("7", "CANCELLED", at(1), at(1)).replace("1:00", "0:00", 1))
    found = cluster.facts("7")
    assert (found.state, found.ended) == (SchedulerState.KILLED, NOON + 60)
    assert [(a.key, a.end) for a in found.attempts] == [("7:0", AttemptEnd.CANCELLED)]


def test_chain_whose_earlier_links_only_accounting_knows(cluster: Cluster) -> None:
    """`afternotok`, each link found by the submit line of the next; times worked out by hand."""
    cluster.accounting(
        accounted("1", "TIMEOUT", at(0), at(10)),
        accounted("2", "NODE_FAIL", at(10), at(20), line="sbatch --dependency=afternotok:1 train.sh"),
        accounted("3", "RUNNING", at(20), "Unknown", line="sbatch -d afternotok:2 train.sh"),
    )
    cluster.queue(queued("3", "RUNNING", at(20)), queued("4", "PENDING", depends="afternotok:3(unfulfilled)"))
    for name in ("1", "3", "train"):
        found = cluster.facts(name)
        assert (found.scheduler_job, found.state, found.links) == ("3", SchedulerState.RUNNING, ("1", "2", "3", "4"))
        assert [(a.link, a.end, a.ended) for a in found.attempts] == [
            ("1", AttemptEnd.WALL_TIME, NOON + 600),
            ("2", AttemptEnd.FAILED, NOON + 1200),
            ("3", AttemptEnd.RUNNING, None),
        ]
    cluster.queue(queued("3", "TIMEOUT", at(20), at(30)), queued("4", "PENDING", reason="Priority"))
    # The dependency is shown no more; it was seen while the job waited.
    assert cluster.facts("3").successor == Successor("4", running=False, can_start=True)
    assert cluster.facts("3").state is SchedulerState.TIMEOUT


def test_grid_under_one_name_is_no_chain(cluster: Cluster) -> None:
    cluster.queue(
        queued("1", "TIMEOUT", at(0), at(10)),
        queued("2", "RUNNING", at(5)),
        queued("3", "RUNNING", at(10)),
        queued("4", "RUNNING", at(10), user="u2"),
    )
    assert cluster.facts("1").state is SchedulerState.TIMEOUT
    assert cluster.facts("1").links == ("1",)
    found = cluster.facts("train")
    assert (found.scheduler_job, found.links) == ("4", ("4",))
    cluster.source.forget("train")
    cluster.queue(queued("1", "TIMEOUT", at(0), at(10)), queued("2", "RUNNING", at(5)), queued("3", "RUNNING", at(11)))
    found = cluster.facts("train")
    assert (found.scheduler_job, found.links) == ("3", ("1", "3"))
    assert "1 more of that name ran beside it" in found.detail


def test_resubmission_under_one_name_is_the_run_anew(cluster: Cluster) -> None:
    cluster.queue(queued("1", "COMPLETED", at(0), at(10)), queued("9", "PENDING", submit=at(20), reason="Priority"))
    found = cluster.facts("train")
    assert (found.scheduler_job, found.state, found.waiting) == ("9", SchedulerState.PENDING, "queue")
    assert [a.link for a in found.attempts] == ["1"]
    assert cluster.facts("1").state is SchedulerState.SUCCEEDED


def test_array_whose_expression_was_cut_short_has_no_counts(cluster: Cluster) -> None:
    cluster.queue(queued("6_0", "RUNNING", at(1)), queued("6_[1,3,5,...]", "PENDING", reason="Resources"))
    found = cluster.facts("6")
    assert found.state is SchedulerState.RUNNING
    assert found.tasks is None
    cluster.queue(queued("6_0", "RUNNING", at(1)), queued("6_[1-9:2%1]", "PENDING", reason="Resources"))
    assert cluster.facts("6").tasks == TaskCounts(running=1, pending=5)


def test_jobs_are_found_by_name(cluster: Cluster) -> None:
    cluster.queue(
        queued("1", "TIMEOUT", at(0), at(10)),
        queued("2", "RUNNING", at(10)),
        queued("3", "RUNNING", at(12), user="u2"),
        queued("5", "PENDING", name="4711"),
        queued("6", "RUNNING", at(1), name="eval"),
    )
    cluster.facts("2")
    cluster.calls()
    found = cluster.found("^(train|4711)$")
    assert sorted((job.scheduler_job, job.name, job.owner, job.state, job.links) for job in found) == [
        ("3", "train", "u2", SchedulerState.RUNNING, ("3",)),
        ("5", "4711", "u1", SchedulerState.PENDING, ("5",)),
        ("train", "train", "u1", SchedulerState.RUNNING, ("1", "2")),
    ]
    assert cluster.calls() == []
    assert isinstance(cluster.source.find("hpc", "("), Failure)
    assert isinstance(cluster.source.find("elsewhere", "x"), Failure)
