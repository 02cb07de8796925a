"""Jobs whose pods never started, cannot be made, were removed or stopped by their own limit, by the real client."""

from __future__ import annotations

import pytest

from runwatch.facts import SchedulerState, TaskCounts
from tests.peers.kubernetes_fixtures import Watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import T0, Object, condition, job, jobset, pod, running, stamp, terminated

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


def test_a_job_whose_pods_may_not_be_made_waits(watch: Watch) -> None:
    """The namespace's quota is used up: its controller took the Job up, and every pod that it asks for is refused."""
    whole = watch.server.put("jobs", job("train", status={"startTime": stamp(0)}))
    facts = watch.facts("train")
    assert (facts.state, facts.waiting, facts.tasks) == (SchedulerState.PENDING, "unknown", TaskCounts())
    assert "its events tell why" in facts.detail

    # It ran, its node went with its pod, and by then others had used the quota up.
    whole["status"] = {"startTime": stamp(0), "active": 1, "ready": 1}
    watch.server.put("pods", pod("train-a", whole, "Running", running(20)))
    assert watch.facts("train").state is SchedulerState.RUNNING
    watch.server.remove("pods", "train-a")
    whole["status"] = {"startTime": stamp(0), "failed": 1}
    assert watch.facts("train").state is SchedulerState.PREEMPTED
    # That pods run and none is there is the silent wedge.
    whole["status"] = {"startTime": stamp(0), "failed": 1, "active": 1}
    assert watch.facts("train").state is SchedulerState.NO_TASKS


@pytest.mark.parametrize(
    ("completions", "counted", "there", "tasks"),
    [
        # Four of eight are done, and an autoscaler removed their nodes, and their pods with these.
        (8, 4, {"Running": 4}, TaskCounts(running=4, succeeded=4)),
        (8, 4, {"Running": 4, "Succeeded": 3}, TaskCounts(running=4, succeeded=4)),
        # 98 cells of a grid of 100 are done, of most of which no pod is left.
        (100, 98, {"Running": 2, "Succeeded": 1}, TaskCounts(running=2, succeeded=98)),
        # Between the two listings one of the eight ended.
        (8, 1, {"Running": 8}, TaskCounts(running=8)),
        (8, 1, {"Running": 7, "Succeeded": 1}, TaskCounts(running=7, succeeded=1)),
    ],
)
def test_tasks_that_are_done_count_when_their_pods_are_removed(
    watch: Watch, completions: int, counted: int, there: dict[str, int], tasks: TaskCounts
) -> None:
    status = {"startTime": stamp(0), "succeeded": counted, "active": there["Running"]}
    spec = {"parallelism": 8, "completions": completions, "completionMode": "Indexed"}
    whole = watch.server.put("jobs", job("train", spec=spec, status=status))
    index = 0
    for phase, count in there.items():
        for _ in range(count):
            labels = {"batch.kubernetes.io/job-completion-index": str(index)}
            state = running(20) if phase == "Running" else terminated(20, 90, 0)
            watch.server.put("pods", pod(f"train-{index}", whole, phase, state, labels=labels))
            index += 1
    assert watch.facts("train").tasks == tasks


def test_a_proxy_that_outlives_the_trainer_keeps_the_job_up_and_that_is_said(watch: Watch) -> None:
    whole = watch.server.put("jobs", job("train"))
    found = pod("train-a", whole, "Running", terminated(20, 900, 1))
    found["spec"]["containers"].append({"name": "istio-proxy"})
    found["status"]["containerStatuses"].append({"name": "istio-proxy", "state": running(5), "restartCount": 0})
    watch.server.put("pods", found)
    facts = watch.facts("train")
    assert facts.state is SchedulerState.RUNNING
    assert facts.detail == "its main containers ended, and others beside them keep their pods up"
    assert [attempt.exit_code for attempt in facts.attempts] == [1]


def test_jobs_whose_pods_are_in_another_cluster_run_there(watch: Watch) -> None:
    """MultiKueue: the status is copied from the cluster that runs the job, where its pods are."""
    elsewhere = {"managedBy": "kueue.x-k8s.io/multikueue"}
    watch.server.put("jobs", job("train", spec=elsewhere, status={"startTime": stamp(0), "active": 1, "ready": 1}))
    parts = {"replicatedJobsStatus": [{"name": "worker", "active": 1, "ready": 1}]}
    watch.server.put("jobsets", jobset("set", {"worker": (1, 1, 0)}, spec=elsewhere, status=parts))
    for name in ("train", "set"):
        facts = watch.facts(name)
        assert (facts.state, facts.tasks, facts.tasks_expected) == (SchedulerState.RUNNING, None, 1)


def test_a_job_that_is_deleted_while_it_waits_ends_then(watch: Watch) -> None:
    """It was preempted at 100 s, and somebody gave it up at 900 s."""
    asked = {"deletionTimestamp": stamp(900), "deletionGracePeriodSeconds": 0}
    whole = watch.server.put("jobs", job("train", status={"startTime": stamp(0), "failed": 1, "active": 1}))
    disrupted = [condition("DisruptionTarget", 95, reason="PreemptionByScheduler")]
    watch.server.put("pods", pod("train-a", whole, "Failed", terminated(10, 100, 137), conditions=disrupted))
    watch.server.put("pods", pod("train-b", whole, "Pending", None, made=110, spec={"nodeName": ""}, meta=asked))
    whole["metadata"] |= asked
    facts = watch.facts("train")
    assert (facts.state, facts.ended, facts.started) == (SchedulerState.KILLED, T0 + 900, T0 + 10)


@pytest.mark.parametrize(
    ("reason", "code", "state"),
    [("DeadlineExceeded", 143, SchedulerState.TIMEOUT), ("", 143, SchedulerState.FAILED)],
)
def test_a_job_whose_last_pod_reached_its_own_deadline_ended_at_the_limit(
    watch: Watch, reason: str, code: int, state: SchedulerState
) -> None:
    """The limit stands in the pod's spec, not in the Job's: to the Job that is a pod that failed."""
    failed = [condition("Failed", 3600, reason="BackoffLimitExceeded", message="the limit of retries is reached")]
    whole = watch.server.put("jobs", job("train", status={"startTime": stamp(0), "failed": 1, "conditions": failed}))
    watch.server.put("pods", pod("train-a", whole, "Failed", terminated(10, 3590, code), reason=reason))
    facts = watch.facts("train")
    assert (facts.state, facts.ended, facts.exit_code) == (state, T0 + 3600, code)
    assert "BackoffLimitExceeded" in facts.detail


@pytest.mark.parametrize(
    ("stays", "after", "state"),
    [
        (30, 60.0, SchedulerState.UNKNOWN),  # it may have ended right after it was seen
        (90, 60.0, SchedulerState.GONE),  # it would still be there
        (90, 3600.0, SchedulerState.UNKNOWN),  # nobody looked for an hour
        (None, 3600.0, SchedulerState.GONE),
    ],
)
def test_a_job_that_removes_its_record_may_have_ended_between_two_looks(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, stays: int | None, after: float, state: SchedulerState
) -> None:
    now = T0 + 100.0
    monkeypatch.setattr(watch.source, "_clock", lambda: now)
    whole = watch.server.put("jobs", job("train", spec={"ttlSecondsAfterFinished": stays}))
    watch.server.put("pods", pod("train-a", whole, "Running", running(20)))
    identity = watch.facts("train").identity
    watch.server.remove("jobs", "train")
    watch.server.remove("pods", "train-a")
    now += after
    facts = watch.facts("train")
    assert (facts.state, facts.identity) == (state, identity)
    now += 7200.0  # what was true when it was first missed stays true
    assert watch.facts("train").state is state
    # Submitted anew, and deleted by somebody ten seconds after it was seen.
    watch.server.put("jobs", job("train", made=500.0, spec={"ttlSecondsAfterFinished": stays}, status={}))
    assert watch.facts("train").state is SchedulerState.PENDING
    watch.server.remove("jobs", "train")
    now += 10.0
    assert watch.facts("train").state is SchedulerState.GONE
