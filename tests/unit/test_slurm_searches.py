"""Searches of SLURM's accounting for a name: one that fails keeps no job from being asked for by its id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runwatch.facts import Failure, FailureReason, SchedulerFacts
from tests.unit.slurm_site_stand_in import Cluster, accounted, at, queued

CHAIN = (
    accounted("1", "TIMEOUT", at(0), at(10)),
    accounted("2", "TIMEOUT", at(10), at(20)),
    accounted("3", "RUNNING", at(20), "Unknown"),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("fails", [Cluster.fails_at_all, Cluster.search_fails])
def test_links_from_before_are_found_once_a_search_succeeds(cluster: Cluster, fails: Callable[[Cluster], None]) -> None:
    cluster.queue(queued("3", "RUNNING", at(20)))
    cluster.accounting(*CHAIN)
    cluster.accounting_of_jobs(*CHAIN[2:])
    fails(cluster)
    assert cluster.facts("train").links == ("3",)
    cluster.mend_accounting()
    assert cluster.facts("train").links == ("1", "2", "3")


def test_a_search_that_fails_hides_no_end(cluster: Cluster) -> None:
    """As where a search over so many days takes too long for a large database."""
    cluster.search_fails()
    cluster.queue()
    cluster.accounting(accounted("3", "FAILED", at(20), at(30), exited="3:0"))
    named, other = cluster.poll("3", "other")
    assert isinstance(named, SchedulerFacts) and named.exit_code == 3
    assert isinstance(other, Failure) and other.reason is FailureReason.NETWORK


@pytest.mark.parametrize(("allowed", "links"), [(400, ("1", "2", "3")), (24, ("1", "2", "3")), (0.5, ("3",))])
def test_a_search_goes_back_as_far_as_the_site_allows(cluster: Cluster, allowed: float, links: tuple[str, ...]) -> None:
    """`MaxQueryTimeRange` of slurmdbd.conf holds for searches, not for questions by id."""
    (cluster.folder / "sacct.hours").write_text(str(allowed))
    cluster.queue(queued("3", "RUNNING", at(20)))
    cluster.accounting(*CHAIN)
    cluster.accounting_of_jobs(*CHAIN[2:])
    assert cluster.facts("train").links == links
    cluster.calls()
    cluster.facts("train")
    assert cluster.calls().count("sacct") <= 1
