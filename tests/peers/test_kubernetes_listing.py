"""How a site is read: pages, expiry, refusals, hangs, and what each costs in requests."""

from __future__ import annotations

import time

import pytest

from runwatch.facts import Failure, FailureReason, FoundSchedulerJob, SchedulerFacts, SchedulerState
from tests.peers.kubernetes_api import Asked, Fault, KubernetesApiServer
from tests.peers.kubernetes_fixtures import Watch, hasty_watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import T0, job, jobset, pod, running

__all__ = ["hasty_watch", "kubernetes_server", "watch"]


def many_jobs(server: KubernetesApiServer, count: int) -> list[str]:
    """Jobs of one running pod each."""
    names = [f"cell-{number:04}" for number in range(count)]
    for name in names:
        owner = server.put("jobs", job(name))
        server.put("pods", pod(f"{name}-x7k2p", owner, "Running", running(5)))
    return names


def test_a_thousand_watched_jobs_cost_only_the_pages_of_the_listings(watch: Watch) -> None:
    names = many_jobs(watch.server, 1200)
    found = watch.poll(*names[:1000])
    states = [outcome.state for outcome in found.values() if isinstance(outcome, SchedulerFacts)]
    assert states == [SchedulerState.RUNNING] * 1000
    # 1,200 pods and 1,200 Jobs in pages of 500; one page of no JobSets, one of no Workloads.
    assert watch.server.counts() == {"pods": 3, "jobs": 3, "jobsets": 1, "workloads": 1}
    assert watch.counted == ["cw"] * 8
    first, second, third = (asked.query for asked in watch.server.requests[:3])
    assert first == {"limit": "500"}
    assert second["continue"] != third["continue"]
    assert not any("watch" in asked.query or "resourceVersion" in asked.query for asked in watch.server.requests)


def test_what_is_not_installed_is_not_asked_for_at_every_poll(watch: Watch) -> None:
    watch.server.installed = {}
    names = many_jobs(watch.server, 3)
    for _ in range(3):
        assert {type(found) for found in watch.poll(*names).values()} == {SchedulerFacts}
    # Both versions of Kueue's API were tried once.
    assert watch.server.counts() == {"pods": 3, "jobs": 3, "jobsets": 1, "workloads": 2}


def test_an_older_kueue_is_read(watch: Watch) -> None:
    watch.server.installed["workloads"] = "v1beta1"
    many_jobs(watch.server, 1)
    watch.facts("cell-0000")
    watch.facts("cell-0000")
    # The newer version is asked once, the older at both polls.
    assert watch.server.counts()["workloads"] == 3


def test_a_listing_that_expires_on_its_way_is_begun_anew(watch: Watch) -> None:
    names = many_jobs(watch.server, 1100)
    watch.server.compact_after = [2]
    assert watch.poll(names[-1])[names[-1]] == watch.facts(names[-1])
    # First poll: pages 1, 2, 410, 1, 2, 3; second: 3.
    assert watch.server.counts()["pods"] == 9


def test_a_listing_that_always_expires_is_given_up(watch: Watch) -> None:
    many_jobs(watch.server, 600)
    watch.server.compact_after = [1, 1, 1, 1, 1, 1]
    failure = watch.failure("cell-0000")
    assert (failure.reason, failure.detail) == (
        FailureReason.OTHER,
        "list of pods in namespace runs: expired 3 times before its last page",
    )
    assert watch.server.counts() == {"pods": 6}


def test_pages_show_one_moment(watch: Watch) -> None:
    """A pod that is made while pages are read is in none of them, and one that is removed is in its own."""
    many_jobs(watch.server, 501)
    last = "cell-0500"

    def change(asked: Asked) -> None:
        if asked.plural == "pods" and "continue" in asked.query:
            watch.server.remove("pods", f"{last}-x7k2p")

    watch.server.on_request = change
    facts = watch.facts(last)
    assert facts.tasks is not None
    assert facts.tasks.running == 1
    watch.server.on_request = lambda _asked: None
    assert watch.facts(last).state is SchedulerState.NO_TASKS


@pytest.mark.parametrize("plural", ["pods", "jobs"])
def test_pods_and_jobs_that_may_not_be_listed_are_a_lost_right(watch: Watch, plural: str) -> None:
    many_jobs(watch.server, 1)
    watch.server.forbidden = {plural}
    failure = watch.failure("cell-0000")
    assert failure == Failure(FailureReason.AUTH, f"HTTP 403 Forbidden: list of {plural} in namespace runs")
    assert not failure.is_answer


def test_jobsets_that_may_not_be_listed_leave_the_rest_readable(watch: Watch) -> None:
    many_jobs(watch.server, 1)
    watch.server.forbidden = {"jobsets", "workloads"}
    assert watch.facts("cell-0000").state is SchedulerState.RUNNING
    # A name that is nowhere may be a JobSet's: nobody can say that it is gone.
    assert watch.failure("train").reason is FailureReason.AUTH
    assert watch.failure("jobset/train").reason is FailureReason.AUTH
    assert watch.facts("job/train").state is SchedulerState.GONE


def test_a_jobset_that_may_not_be_read_any_more_is_still_found(watch: Watch) -> None:
    whole = watch.server.put("jobsets", jobset("sft-set", {"worker": (1, 1, 0)}))
    watch.server.put("jobs", job("sft-set-worker-0", owner=whole))
    watch.server.put("jobs", job("sft-a"))
    watch.server.forbidden = {"jobsets"}
    found = watch.source.find("cw", "^sft-")
    assert isinstance(found, list)
    assert {one.scheduler_job: (one.state, one.submitted) for one in found} == {
        "job/sft-a": (SchedulerState.NO_TASKS, T0),
        "jobset/sft-set": (SchedulerState.UNKNOWN, None),
    }
    assert watch.failure("jobset/sft-set").reason is FailureReason.AUTH


def test_jobsets_that_were_served_do_not_vanish_with_their_api(watch: Watch) -> None:
    watch.server.put("jobsets", jobset("train", {"worker": (1, 1, 0)}))
    assert watch.facts("train").state is SchedulerState.PENDING
    watch.server.installed = {}
    assert watch.failure("train").reason is FailureReason.AUTH


FAULTS = [
    (Fault(401, reason="Unauthorized"), FailureReason.AUTH),
    (Fault(404, reason="NotFound"), FailureReason.NOT_FOUND),
    (Fault(410, reason="Expired"), FailureReason.OTHER),
    (Fault(429, reason="TooManyRequests"), FailureReason.THROTTLED),
    (Fault(500, reason="InternalError"), FailureReason.OTHER),
    (Fault(503, body=b"upstream connect error"), FailureReason.OTHER),
    (Fault(504, reason="Timeout"), FailureReason.TIMEOUT),
    (Fault(302, body=b"", headers={"Location": "http://127.0.0.1:9/login"}), FailureReason.OTHER),
    (Fault(body=b"<html>welcome</html>"), FailureReason.PARSE),
    (Fault(body=b'{"kind":"PodList","items":{"a":1}}'), FailureReason.PARSE),
    (Fault(body=b'{"kind":"PodList","items":[{"metadata":{}}]}'), FailureReason.PARSE),
    (Fault(body=b'{"items":' + b"[" * 100_000), FailureReason.PARSE),
    (Fault(body=b"\xff\xfe\x00"), FailureReason.PARSE),
    (Fault(cut=True), FailureReason.NETWORK),
]


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
def test_an_api_that_fails_is_a_typed_failure_of_every_job(watch: Watch, fault: Fault, reason: FailureReason) -> None:
    names = many_jobs(watch.server, 2)
    watch.server.fault = lambda _asked: fault
    for failure in watch.poll(*names).values():
        assert isinstance(failure, Failure)
        assert failure.reason is reason, failure
        assert not failure.is_answer
        assert "s3cr3t" not in failure.detail
        assert "\n" not in failure.detail
    watch.server.fault = lambda _asked: None
    assert {type(found) for found in watch.poll(*names).values()} == {SchedulerFacts}


@pytest.mark.parametrize("plural", ["jobs", "jobsets"])
def test_a_later_listing_that_fails_fails_the_look(watch: Watch, plural: str) -> None:
    many_jobs(watch.server, 1)
    watch.server.fault = lambda asked: Fault(500) if asked.plural == plural else None
    assert watch.failure("cell-0000").detail == f"HTTP 500 Injected: list of {plural} in namespace runs"


def test_a_pause_that_is_asked_for_is_kept(watch: Watch) -> None:
    many_jobs(watch.server, 1)
    watch.server.fault = lambda _asked: Fault(429, headers={"Retry-After": "60"})
    assert watch.failure("cell-0000").reason is FailureReason.THROTTLED
    watch.server.fault = lambda _asked: None
    assert watch.failure("cell-0000").reason is FailureReason.THROTTLED
    assert len(watch.server.requests) == 1


@pytest.mark.parametrize("fault", [Fault(hang=30.0), Fault(drip=True)])
def test_a_server_that_hangs_costs_no_more_than_the_deadline(hasty_watch: Watch, fault: Fault) -> None:
    many_jobs(hasty_watch.server, 1)
    hasty_watch.server.fault = lambda _asked: fault
    begun = time.monotonic()
    assert hasty_watch.failure("cell-0000").reason is FailureReason.TIMEOUT
    assert time.monotonic() - begun < 10.0
    # The look may not have ended by now: no second one is begun beside it.
    assert hasty_watch.failure("cell-0000").reason is FailureReason.TIMEOUT
    assert len(hasty_watch.server.requests) <= 2


def test_a_server_that_is_not_there_is_no_network(watch: Watch) -> None:
    watch.server.close()
    assert watch.failure("cell-0000").reason is FailureReason.NETWORK


def test_a_namespace_that_does_not_exist_makes_no_job_vanish(watch: Watch) -> None:
    assert watch.facts("cell-0000").state is SchedulerState.GONE
    watch.server.namespaces.clear()
    failure = watch.failure("cell-0000")
    assert failure == Failure(
        FailureReason.NOT_FOUND, "HTTP 404 NotFound: namespace runs does not exist", whole_source=True
    )


def test_other_namespaces_are_listed_for_jobs_that_name_them(watch: Watch) -> None:
    many_jobs(watch.server, 1)
    elsewhere = job("cell-0000")
    elsewhere["metadata"]["namespace"] = "evals"
    elsewhere["spec"]["parallelism"] = elsewhere["spec"]["completions"] = 7
    watch.server.namespaces.add("evals")
    watch.server.put("jobs", elsewhere)
    found = watch.poll("cell-0000", "runs/cell-0000", "evals/cell-0000", "evals/job/cell-0000")
    sizes = {name: facts.tasks_expected for name, facts in found.items() if isinstance(facts, SchedulerFacts)}
    assert sizes == {"cell-0000": 1, "runs/cell-0000": 1, "evals/cell-0000": 7, "evals/job/cell-0000": 7}
    assert watch.server.counts()["pods"] == 2


@pytest.mark.parametrize("written", ["", "a/b/c", "/train", "=x", "a/b/c/d"])
def test_a_reference_that_is_none_is_said_so(watch: Watch, written: str) -> None:
    failure = watch.failure(written)
    assert failure.reason is FailureReason.OTHER
    assert "expected NAME, job/NAME" in failure.detail
    assert watch.server.requests == []


def test_discovery_shares_the_listing_of_the_poll(watch: Watch) -> None:
    owner = watch.server.put("jobs", job("sft-a", labels={"owner": "u1"}))
    watch.server.put("pods", pod("sft-a-1zzzz", owner, "Running", running(5)))
    whole = watch.server.put("jobsets", jobset("sft-set", {"worker": (1, 1, 0)}))
    watch.server.put("jobs", job("sft-set-worker-0", owner=whole))
    watch.server.put("pods", pod("sft-bare-0", None, "Running", running(5)))
    watch.server.put("pods", pod("sft-bare-1", None, "Running", running(5)))
    service = {"kind": "ReplicaSet", "metadata": {"name": "sft-web-1", "uid": "r1"}}
    watch.server.put("pods", pod("sft-web-1-abcde", service, "Running", running(5)))
    watch.facts("sft-a")
    asked = len(watch.server.requests)
    found = watch.source.find("cw", "^sft-")
    assert isinstance(found, list)
    assert sorted(found, key=lambda one: one.name) == [
        FoundSchedulerJob("job/sft-a", "sft-a", SchedulerState.RUNNING, 1_790_000_000.0, owner="u1"),
        FoundSchedulerJob("pod/sft-bare", "sft-bare", SchedulerState.RUNNING, 1_790_000_000.0),
        FoundSchedulerJob("jobset/sft-set", "sft-set", SchedulerState.NO_TASKS, 1_790_000_000.0),
    ]
    assert len(watch.server.requests) == asked
    assert isinstance(watch.source.find("cw", "("), Failure)
    assert isinstance(watch.source.find("other", "x"), Failure)
