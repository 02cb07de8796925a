"""What the source says of Jobs, JobSets and bare pods at each point of their lives, by the real client."""

from __future__ import annotations

import pytest

from runwatch.facts import Attempt, AttemptEnd, SchedulerState, TaskCounts
from tests.peers.kubernetes_api import KubernetesApiServer
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
    waiting,
    workload,
)

__all__ = ["kubernetes_server", "watch"]

PREEMPTED_POD: Object = {"conditions": [condition("DisruptionTarget", 95, reason="PreemptionByScheduler")]}


def put_job(server: KubernetesApiServer, *pods: tuple[str, str, Object | None, Object], **more: object) -> Object:
    """A Job `train` with pods of (suffix, phase, container state, more)."""
    whole = server.put("jobs", job("train", **more))
    for suffix, phase, state, of_pod in pods:
        server.put("pods", pod(f"train-{suffix}", whole, phase, state, **of_pod))
    return whole


def test_a_job_that_runs(watch: Watch) -> None:
    whole = put_job(
        watch.server,
        ("a", "Running", running(20), {}),
        ("b", "Running", running(15), {}),
        ("c", "Pending", waiting("ContainerCreating"), {}),
        size=3,
        chips=8,
        spec={},
    )
    whole["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    facts = watch.facts("train")
    assert facts.state is SchedulerState.RUNNING
    assert facts.scheduler_job == "job/train"
    assert facts.identity == whole["metadata"]["uid"]
    assert (facts.submitted, facts.started, facts.ended, facts.exit_code) == (T0, T0 + 15, None, None)
    assert (facts.tasks, facts.tasks_expected) == (TaskCounts(running=2, pending=1), 3)
    assert (facts.accelerators, facts.accelerator_type) == (24, "NVIDIA-H100-80GB-HBM3")
    assert [(found.started, found.end) for found in facts.attempts] == [
        (T0 + 15, AttemptEnd.RUNNING),
        (T0 + 20, AttemptEnd.RUNNING),
    ]
    assert (facts.waiting, facts.failures, facts.preemptions) == ("", 0, None)
    assert facts.covered_from == T0
    assert facts.peak_memory_bytes is None
    assert facts.log_paths == ()


def test_a_job_that_is_done(watch: Watch) -> None:
    done = {
        "startTime": stamp(0),
        "completionTime": stamp(130),
        "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet", 130), condition("Complete", 130)],
    }
    put_job(watch.server, ("a", "Succeeded", terminated(10, 125, 0), {}), status=done)
    facts = watch.facts("train")
    assert (facts.state, facts.ended, facts.exit_code) == (SchedulerState.SUCCEEDED, T0 + 130, 0)
    assert facts.tasks == TaskCounts(succeeded=1)
    assert facts.covered_from == T0
    watch.server.remove("pods", "train-a")
    later = watch.facts("train")
    # What the pods alone told is not told any more, and what was seen of the start is kept.
    assert (later.state, later.ended, later.exit_code, later.started) == (
        SchedulerState.SUCCEEDED,
        T0 + 130,
        None,
        T0 + 10,
    )
    assert later.covered_from is None


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("DeadlineExceeded", SchedulerState.TIMEOUT),
        ("BackoffLimitExceeded", SchedulerState.FAILED),
        ("PodFailurePolicy", SchedulerState.FAILED),
    ],
)
def test_a_job_that_failed(watch: Watch, reason: str, state: SchedulerState) -> None:
    status = {
        "startTime": stamp(0),
        "failed": 2,
        "conditions": [condition("Failed", 300, reason=reason, message="why")],
    }
    put_job(
        watch.server,
        ("a", "Failed", terminated(10, 100, 3), {}),
        ("b", "Failed", terminated(120, 290, 4), {"made": 110}),
        status=status,
    )
    facts = watch.facts("train")
    assert (facts.state, facts.detail) == (state, f"{reason}: why")
    assert (facts.ended, facts.exit_code, facts.failures) == (T0 + 300, 4, 2)
    # One place in the gang, and its last pod failed: one failed task.
    assert facts.tasks == TaskCounts(failed=1)
    assert [found.end for found in facts.attempts] == [AttemptEnd.FAILED, AttemptEnd.FAILED]


def test_a_job_at_its_deadline_ends_its_attempts_at_the_wall_time(watch: Watch) -> None:
    failed = [
        condition("FailureTarget", 300, reason="DeadlineExceeded"),
        condition("Failed", 331, reason="DeadlineExceeded"),
    ]
    put_job(
        watch.server,
        ("a", "Failed", terminated(10, 302, 143), {}),
        status={"startTime": stamp(0), "failed": 1, "conditions": failed},
    )
    facts = watch.facts("train")
    assert (facts.state, facts.exit_code) == (SchedulerState.TIMEOUT, 143)
    assert [found.end for found in facts.attempts] == [AttemptEnd.WALL_TIME]


def test_a_preempted_pod_that_was_replaced(watch: Watch) -> None:
    status = {"startTime": stamp(0), "active": 1, "failed": 1}
    whole = put_job(
        watch.server,
        ("a", "Failed", terminated(10, 100, 137), PREEMPTED_POD),
        ("b", "Pending", None, {"made": 110, "spec": {"nodeName": ""}, "conditions": [unschedulable()]}),
        status=status,
    )
    facts = watch.facts("train")
    # Before its first step it is in bring-up, where what it waits for is shown.
    assert (facts.state, facts.waiting) == (SchedulerState.PREEMPTED, "capacity")
    assert facts.tasks == TaskCounts(pending=1)
    assert facts.covered_from == T0
    watch.server.put("pods", pod("train-b", whole, "Running", running(400), made=110))
    facts = watch.facts("train")
    assert (facts.state, facts.tasks, facts.started) == (SchedulerState.RUNNING, TaskCounts(running=1), T0 + 10)
    old, new = facts.attempts
    assert (old.end, old.started, old.ended, old.exit_code) == (AttemptEnd.PREEMPTED, T0 + 10, T0 + 100, 137)
    assert (new.end, new.started, new.ended) == (AttemptEnd.RUNNING, T0 + 400, None)
    # The failed pod is removed: the Job still counts it, so attempts are missing from here on.
    watch.server.remove("pods", "train-a")
    facts = watch.facts("train")
    assert (facts.covered_from, facts.started) == (None, T0 + 10)


def unschedulable() -> Object:
    return condition("PodScheduled", 110, reason="Unschedulable", message="0/8 nodes are available", holds="False")


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}}},
        {"status": {"startTime": stamp(0), "active": 1, "conditions": [condition("Suspended", 5, holds="False")]}},
        {"status": {"startTime": stamp(0), "active": 2}},
    ],
)
def test_attempts_are_whole_only_where_the_job_can_prove_it(watch: Watch, changed: Object) -> None:
    put_job(watch.server, ("a", "Running", running(20), {}), **changed)
    assert watch.facts("train").covered_from is None


def test_a_pod_that_is_being_removed_makes_the_attempts_incomplete(watch: Watch) -> None:
    put_job(watch.server, ("a", "Running", running(20), {"meta": {"deletionTimestamp": stamp(90)}}))
    assert watch.facts("train").covered_from is None


def test_the_exit_code_is_of_the_program_s_own_failure(watch: Watch) -> None:
    status = {"failed": 2, "conditions": [condition("Failed", 300, reason="BackoffLimitExceeded")]}
    disrupted = {"conditions": [condition("DisruptionTarget", 289, reason="EvictionByEvictionAPI")]}
    failed, preempted = terminated(10, 100, 3), terminated(120, 290, 137)
    put_job(watch.server, ("a", "Failed", failed, {}), ("b", "Failed", preempted, disrupted), status=status)
    assert watch.facts("train").exit_code == 3


def test_of_an_indexed_job_the_newest_pod_of_each_index_is_the_task(watch: Watch) -> None:
    def index(number: int) -> Object:
        return {"labels": {"batch.kubernetes.io/job-completion-index": str(number)}}

    put_job(
        watch.server,
        ("0-aaaaa", "Failed", terminated(10, 100, 1), index(0)),
        ("0-bbbbb", "Running", running(120), index(0) | {"made": 110}),
        ("1-ccccc", "Succeeded", terminated(10, 90, 0), index(1)),
        ("2-ddddd", "Failed", terminated(10, 99, 1), index(2)),
        size=3,
        status={"startTime": stamp(0), "active": 1, "failed": 2, "succeeded": 1},
    )
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.RUNNING, TaskCounts(running=1, succeeded=1, failed=1))


@pytest.mark.parametrize(("parallelism", "completions", "size"), [(2, 10, 2), (8, 3, 3), (4, None, 4)])
def test_a_gang_is_what_runs_at_a_time(watch: Watch, parallelism: int, completions: int | None, size: int) -> None:
    put_job(watch.server, spec={"parallelism": parallelism, "completions": completions})
    assert watch.facts("train").tasks_expected == size


def test_running_with_no_pods_and_a_record_that_is_gone(watch: Watch) -> None:
    put_job(watch.server, ("a", "Running", running(20), {}))
    whole = watch.facts("train")
    watch.server.remove("pods", "train-a")
    facts = watch.facts("train")
    assert (facts.state, facts.tasks, facts.identity) == (SchedulerState.NO_TASKS, TaskCounts(), whole.identity)
    watch.server.remove("jobs", "train")
    facts = watch.facts("train")
    assert (facts.state, facts.tasks, facts.identity) == (SchedulerState.GONE, None, whole.identity)


def test_pods_that_outlive_their_job_are_no_job(watch: Watch) -> None:
    put_job(watch.server, ("a", "Running", running(20), {"meta": {"deletionTimestamp": stamp(50)}}))
    watch.server.remove("jobs", "train")
    assert watch.facts("train").state is SchedulerState.GONE


def test_a_job_that_is_being_deleted(watch: Watch) -> None:
    asked = {"deletionTimestamp": stamp(130), "deletionGracePeriodSeconds": 30}
    whole = put_job(watch.server, ("a", "Running", running(20), {"meta": asked}))
    whole["metadata"]["deletionTimestamp"] = stamp(100)
    facts = watch.facts("train")
    assert (facts.state, facts.detail, facts.tasks) == (SchedulerState.RUNNING, "being deleted", TaskCounts(running=1))
    watch.server.put("pods", pod("train-a", whole, "Failed", terminated(20, 104, 143), meta=asked))
    facts = watch.facts("train")
    assert (facts.state, facts.ended, facts.exit_code) == (SchedulerState.KILLED, T0 + 104, 143)
    assert [found.end for found in facts.attempts] == [AttemptEnd.CANCELLED]


def test_a_job_that_is_submitted_anew_under_its_name(watch: Watch) -> None:
    put_job(watch.server, ("a", "Running", running(20), {}))
    first = watch.facts("train")
    watch.server.remove("jobs", "train")
    put_job(watch.server, made=500.0, status={})
    second = watch.facts("train")
    assert second.identity != first.identity
    # The old pod is not the new job's, nor is its start.
    assert (second.state, second.waiting, second.started) == (SchedulerState.PENDING, "unknown", None)
    assert second.tasks == TaskCounts()


def test_a_job_that_kueue_holds_back_preempts_and_lets_run_again(watch: Watch) -> None:
    whole = put_job(watch.server, suspend=True, status={"conditions": [condition("Suspended", 1)]})
    watch.server.put("workloads", workload(whole, condition("QuotaReserved", 1, holds="False", reason="Pending")))
    facts = watch.facts("train")
    assert (facts.state, facts.waiting, facts.tasks) == (SchedulerState.PENDING, "quota", TaskCounts())

    evicted = condition("Evicted", 95, reason="Preempted", message="Preempted to accommodate a workload")
    watch.server.put("workloads", workload(whole, evicted, evictions=1))
    whole["status"] = {"conditions": [condition("Suspended", 96)]}
    asked = {"deletionTimestamp": stamp(126), "deletionGracePeriodSeconds": 30}
    watch.server.put("pods", pod("train-a", whole, "Failed", terminated(20, 100, 137), meta=asked))
    facts = watch.facts("train")
    assert (facts.state, facts.waiting, facts.preemptions) == (SchedulerState.PREEMPTED, "quota", 1)
    assert [(found.end, found.exit_code) for found in facts.attempts] == [(AttemptEnd.PREEMPTED, 137)]

    watch.server.remove("pods", "train-a")
    assert watch.facts("train").state is SchedulerState.PREEMPTED
    # Nobody may read Workloads, and the pods are gone: that it ran was seen, and is remembered.
    watch.server.remove("workloads", "job-train-1")
    assert watch.facts("train").state is SchedulerState.PREEMPTED
    watch.source.forget("run train")
    assert watch.facts("train").state is SchedulerState.PENDING


def test_a_job_that_was_suspended_after_it_had_begun(watch: Watch) -> None:
    """Seen for the first time, without pods and without Kueue: its time of start tells that it ran."""
    begun = {"startTime": stamp(0), "conditions": [condition("Suspended", 50, reason="JobSuspended")]}
    put_job(watch.server, suspend=True, status=begun)
    assert watch.facts("train").state is SchedulerState.PREEMPTED


@pytest.mark.parametrize(
    ("state", "more", "word"),
    [
        (waiting("ImagePullBackOff", "Back-off"), {}, "image"),
        (None, {"spec": {"nodeName": ""}, "conditions": [unschedulable()]}, "capacity"),
        (None, {"spec": {"nodeName": "", "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}, "quota"),
        (waiting("PodInitializing"), {}, "setup"),
    ],
)
def test_a_job_waits_for_its_slowest_pod(watch: Watch, state: Object | None, more: Object, word: str) -> None:
    put_job(
        watch.server,
        ("a", "Pending", waiting("ContainerCreating"), {}),
        ("b", "Pending", state, more),
        size=2,
        status={"startTime": stamp(0), "active": 2},
    )
    facts = watch.facts("train")
    assert (facts.state, facts.waiting, facts.tasks) == (SchedulerState.PENDING, word, TaskCounts(pending=2))
    assert facts.started is None


def test_an_image_that_heals_leaves_no_trace(watch: Watch) -> None:
    whole = put_job(watch.server, ("a", "Pending", waiting("ErrImagePull"), {}))
    assert watch.facts("train").waiting == "image"
    watch.server.put("pods", pod("train-a", whole, "Running", running(300)))
    facts = watch.facts("train")
    assert (facts.state, facts.waiting, facts.failures, len(facts.attempts)) == (SchedulerState.RUNNING, "", 0, 1)


def test_a_container_that_crashes_again_and_again_runs_on(watch: Watch) -> None:
    crash = waiting("CrashLoopBackOff", "back-off 5m0s")
    put_job(
        watch.server,
        ("a", "Running", crash, {"last": terminated(200, 210, 1), "restarts": 4}),
        spec={"backoffLimit": 9},
    )
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.RUNNING, TaskCounts(pending=1))
    # To the Job each of these restarts counts towards its limit, though no pod of it failed.
    assert facts.failures == 4
    assert facts.attempts == (
        Attempt(facts.attempts[0].key, "job/train", T0 + 200, T0 + 210, AttemptEnd.FAILED, 1, "Error: exit 1"),
    )
    assert facts.attempts[0].key.endswith(":4")
    assert facts.covered_from is None


def test_between_a_failed_pod_and_the_next_one_the_job_waits(watch: Watch) -> None:
    put_job(
        watch.server,
        ("a", "Failed", terminated(10, 100, 137), PREEMPTED_POD),
        status={"startTime": stamp(0), "failed": 1},
    )
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.PREEMPTED, TaskCounts(failed=1))


def test_nodes_that_do_not_answer_tell_nothing(watch: Watch) -> None:
    put_job(watch.server, ("a", "Unknown", running(10), {}))
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.UNKNOWN, None)


def test_a_pod_that_its_lost_node_never_reports_ended_with_the_node(watch: Watch) -> None:
    """The node is silent from 300 s on; five minutes later its pod is evicted, and stays `Running` for nobody."""
    lost = {
        "conditions": [
            condition("Ready", 300, holds="False"),
            condition("DisruptionTarget", 600, reason="DeletionByTaintManager"),
        ],
        "meta": {"deletionTimestamp": stamp(630), "deletionGracePeriodSeconds": 30},
    }
    whole = put_job(watch.server, ("a", "Running", running(10), lost))
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.UNKNOWN, None)
    watch.server.put("pods", pod("train-b", whole, "Running", running(640), made=601))
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.RUNNING, TaskCounts(running=1))
    old, new = facts.attempts
    assert (old.end, old.started, old.ended) == (AttemptEnd.PREEMPTED, T0 + 10, T0 + 300)
    assert (new.end, new.started) == (AttemptEnd.RUNNING, T0 + 640)


def test_a_pod_that_a_node_which_answers_stops_runs_until_it_has_ended(watch: Watch) -> None:
    leaving = {
        "conditions": [
            condition("Ready", 602, reason="ContainersNotReady", holds="False"),
            condition("DisruptionTarget", 600, reason="DeletionByTaintManager"),
        ],
        "meta": {"deletionTimestamp": stamp(630), "deletionGracePeriodSeconds": 30},
    }
    put_job(watch.server, ("a", "Running", running(10), leaving))
    facts = watch.facts("train")
    assert (facts.state, facts.tasks) == (SchedulerState.RUNNING, TaskCounts(running=1))
    assert [found.end for found in facts.attempts] == [AttemptEnd.RUNNING]


def test_text_of_the_cluster_is_data(watch: Watch) -> None:
    hostile = 'x"\n|$(reboot)`=\u202e; rm -rf /\t' + "y" * 500
    whole = put_job(watch.server, ("a", "Failed", terminated(1, 60, 1), {"meta": {"annotations": {hostile: hostile}}}))
    whole["metadata"]["annotations"] = {hostile: hostile}
    whole["status"] = {
        "failed": 1,
        "conditions": [condition("Failed", 61, reason="BackoffLimitExceeded", message=hostile)],
    }
    facts = watch.facts("train")
    assert facts.state is SchedulerState.FAILED
    assert facts.detail.startswith('BackoffLimitExceeded: x" |$(reboot)`=?; rm -rf / yyy')
    assert len(facts.detail) == 200
    assert watch.facts(f"note={hostile.replace(',', '')}").state is SchedulerState.GONE
