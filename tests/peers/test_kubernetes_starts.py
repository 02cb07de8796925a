"""Jobs none of whose pods ever started, by the real client: they wait, and nothing of them was interrupted."""

from __future__ import annotations

from runwatch.facts import SchedulerState, TaskCounts
from tests.peers.kubernetes_fixtures import Watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import Object, condition, job, pod, running, stamp

__all__ = ["kubernetes_server", "watch"]


def refused_pod(name: str, owner: Object, made: float) -> Object:
    """A pod whose node found its chips sick: the kubelet gives it a time of start all the same."""
    message = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
    return pod(name, owner, "Failed", None, made=made, reason="UnexpectedAdmissionError", status={"message": message})


def test_a_job_whose_pods_were_all_refused_by_their_nodes_waits(watch: Watch) -> None:
    whole = watch.server.put("jobs", job("train", status={"startTime": stamp(0), "failed": 2}))
    for number in range(2):
        watch.server.put("pods", refused_pod(f"train-{number}", whole, 60.0 * number))
    facts = watch.facts("train")
    assert (facts.state, facts.started, facts.attempts) == (SchedulerState.PENDING, None, ())
    assert "UnexpectedAdmissionError" in facts.detail

    whole["status"]["active"] = 1
    full = condition("PodScheduled", 130, reason="Unschedulable", message="0/8 nodes are available", holds="False")
    watch.server.put("pods", pod("train-2", whole, "Pending", None, made=130, spec={"nodeName": ""}, conditions=[full]))
    facts = watch.facts("train")
    assert (facts.state, facts.waiting, facts.tasks) == (SchedulerState.PENDING, "capacity", TaskCounts(pending=1))

    watch.server.put("pods", pod("train-2", whole, "Running", running(400), made=130))
    facts = watch.facts("train")
    assert (facts.state, len(facts.attempts)) == (SchedulerState.RUNNING, 1)
    # Three pods failed and two are there: one of them may have run.
    whole["status"] = {"startTime": stamp(0), "failed": 3}
    watch.server.remove("pods", "train-2")
    watch.source.forget("run train")
    assert watch.facts("train").state is SchedulerState.PREEMPTED
