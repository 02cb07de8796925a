"""Jobs that Kueue holds back, evicts and stops, also of kinds that are not read themselves, by the real client."""

from __future__ import annotations

import pytest

from runwatch.facts import AttemptEnd, FailureReason, SchedulerState, TaskCounts
from tests.peers.kubernetes_fixtures import Watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import (
    T0,
    Object,
    condition,
    job,
    pod,
    running,
    stamp,
    terminated,
    workload,
)

__all__ = ["kubernetes_server", "watch"]

PYTORCH_JOB: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "train", "uid": "pytorch-1"},
}
QUEUED = condition("QuotaReserved", 5, holds="False", reason="Pending")
ADMITTED = (condition("QuotaReserved", 10), condition("Admitted", 10))
EVICTED = (condition("Evicted", 95, reason="Preempted"), condition("QuotaReserved", 97, holds="False"))


def put_workers(watch: Watch, phase: str, state: Object | None, made: float, **more: object) -> None:
    for number in range(2):
        watch.server.put("pods", pod(f"train-worker-{number}", PYTORCH_JOB, phase, state, made=made, **more))


def test_a_job_of_another_kind_is_there_while_kueue_holds_it_back(watch: Watch) -> None:
    watch.server.put("workloads", workload(PYTORCH_JOB, QUEUED))
    for name in ("train", "pod/train"):
        facts = watch.facts(name)
        assert (facts.state, facts.waiting, facts.scheduler_job) == (SchedulerState.PENDING, "quota", "pod/train")
        assert (facts.tasks, facts.tasks_expected) == (TaskCounts(), None)
    assert watch.facts("job/train").state is SchedulerState.GONE

    watch.server.put("workloads", workload(PYTORCH_JOB, *ADMITTED))
    facts = watch.facts("train")
    assert (facts.state, facts.waiting) == (SchedulerState.PENDING, "unknown")
    put_workers(watch, "Running", running(20), 12)
    first = watch.facts("train")
    assert (first.state, first.tasks_expected, first.preemptions) == (SchedulerState.RUNNING, 2, None)

    # Evicted, its pods are removed: it waits, and its record is not gone.
    watch.server.put("workloads", workload(PYTORCH_JOB, *EVICTED, evictions=1))
    watch.server.objects["pods"].clear()
    waits = watch.facts("train")
    assert (waits.state, waits.identity, waits.started) == (SchedulerState.PREEMPTED, first.identity, T0 + 20)
    assert waits.preemptions == 1
    watch.source.forget("run train")
    assert watch.facts("train").state is SchedulerState.PREEMPTED

    # Admitted again, its operator makes all pods anew: that is no other job.
    watch.server.put("workloads", workload(PYTORCH_JOB, *ADMITTED, evictions=1))
    assert watch.facts("train").state is SchedulerState.PREEMPTED
    put_workers(watch, "Pending", None, 300, spec={"nodeName": ""})
    again = watch.facts("train")
    assert (again.state, again.identity, again.preemptions) == (SchedulerState.PREEMPTED, first.identity, 1)


def test_a_job_of_another_kind_is_not_gone_while_workloads_cannot_be_read(watch: Watch) -> None:
    watch.server.forbidden = {"workloads"}
    put_workers(watch, "Running", running(20), 12)
    watch.server.put("pods", pod("bare", None, "Running", running(20)))
    assert watch.facts("train").state is SchedulerState.RUNNING
    assert watch.facts("bare").state is SchedulerState.RUNNING
    watch.server.objects["pods"].clear()
    failure = watch.failure("train")
    assert (failure.reason, failure.is_answer) == (FailureReason.AUTH, False)
    # Nothing but its pods ever stood for that one.
    assert watch.facts("bare").state is SchedulerState.GONE


def test_pods_that_their_operator_makes_anew_are_no_other_job(watch: Watch) -> None:
    """Without Kueue: the whole gang was replaced between two looks, and waits for nodes."""
    put_workers(watch, "Running", running(20), 12)
    first = watch.facts("train")
    put_workers(watch, "Pending", None, 300, spec={"nodeName": ""})
    again = watch.facts("train")
    assert (again.state, again.identity) == (SchedulerState.PREEMPTED, first.identity)
    # Deleted and submitted anew under the same name, it is one.
    other = PYTORCH_JOB | {"metadata": {"name": "train", "uid": "pytorch-2"}}
    for number in range(2):
        watch.server.put("pods", pod(f"train-worker-{number}", other, "Pending", None, made=900, spec={"nodeName": ""}))
    anew = watch.facts("train")
    assert (anew.state, anew.identity) == (SchedulerState.PENDING, "pytorch-2")


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("Succeeded", SchedulerState.SUCCEEDED),
        ("Failed", SchedulerState.FAILED),
        ("JobFinished", SchedulerState.UNKNOWN),
    ],
)
def test_a_job_of_another_kind_whose_pods_were_cleaned_up_ended_as_kueue_says(
    watch: Watch, reason: str, state: SchedulerState
) -> None:
    watch.server.put("workloads", workload(PYTORCH_JOB, *ADMITTED, condition("Finished", 400, reason=reason)))
    facts = watch.facts("train")
    assert (facts.state, facts.ended) == (state, None if state is SchedulerState.UNKNOWN else T0 + 400)


def test_a_job_with_its_quota_waits_for_an_admission_check(watch: Watch) -> None:
    whole = watch.server.put("jobs", job("train", suspend=True, status={"conditions": [condition("Suspended", 1)]}))
    held = workload(whole, condition("QuotaReserved", 10))
    held["status"]["admissionChecks"] = [
        {"name": "budget", "state": "Ready", "message": ""},
        {"name": "dws-prov", "state": "Pending", "message": "Waiting for resources. Currently there are not enough."},
    ]
    watch.server.put("workloads", held)
    facts = watch.facts("train")
    assert (facts.state, facts.waiting) == (SchedulerState.PENDING, "unknown")
    assert "dws-prov: Waiting for resources." in facts.detail
    assert "budget" not in facts.detail


@pytest.mark.parametrize(
    ("reason", "state", "end"),
    [
        ("Preempted", SchedulerState.PREEMPTED, AttemptEnd.PREEMPTED),
        ("NodeFailures", SchedulerState.PREEMPTED, AttemptEnd.PREEMPTED),
        ("DeactivatedDueToRequeuingLimitExceeded", SchedulerState.PREEMPTED, AttemptEnd.PREEMPTED),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", SchedulerState.TIMEOUT, AttemptEnd.WALL_TIME),
        # Kueue 0.9 and before.
        ("InactiveWorkloadMaximumExecutionTimeExceeded", SchedulerState.TIMEOUT, AttemptEnd.WALL_TIME),
        ("Deactivated", SchedulerState.PREEMPTED, AttemptEnd.CANCELLED),
    ],
)
def test_why_kueue_evicted_a_job(watch: Watch, reason: str, state: SchedulerState, end: AttemptEnd) -> None:
    held = {"conditions": [condition("Suspended", 96)]}
    whole = watch.server.put("jobs", job("train", suspend=True, status=held))
    watch.server.put("workloads", workload(whole, condition("Evicted", 95, reason=reason)))
    asked = {"deletionTimestamp": stamp(126), "deletionGracePeriodSeconds": 30}
    watch.server.put("pods", pod("train-a", whole, "Failed", terminated(20, 100, 143), meta=asked))
    facts = watch.facts("train")
    assert (facts.state, [found.end for found in facts.attempts]) == (state, [end])
