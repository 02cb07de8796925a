"""What pods say, reason by reason: how an attempt ended, what a pod waits for, what it counts as."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.facts import Attempt, AttemptEnd, GangStop, SchedulerState
from runwatch.parsing.kubernetes_gangs import gang_facts
from runwatch.parsing.kubernetes_objects import TaskPhase, read_pod
from runwatch.parsing.kubernetes_selection import JobReference, NamespaceObjects, read_reference
from runwatch.parsing.kubernetes_trimming import trimmed_job, trimmed_jobset, trimmed_pod
from runwatch.parsing.kubernetes_workloads import WorkloadKind
from tests.peers.kubernetes_objects import T0, Object, condition, job, jobset, pod, running, stamp, terminated, waiting

FAILED_1 = terminated(10, 100, 1)
KILLED = terminated(10, 100, 137)
TERMINATED_143 = terminated(10, 100, 143)


def ended(found: Object, *stops: GangStop) -> tuple[AttemptEnd, int | None]:
    (attempt,) = read_pod(found, link="job/train", stops=stops).attempts
    assert attempt.started is None or attempt.started >= T0
    return attempt.end, attempt.exit_code


def failed_pod(state: Object | None, **more: object) -> Object:
    return pod("train-0", None, "Failed", state, **more)


LOST: Object = {
    "terminated": {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
        "finishedAt": None,
    }
}
"""What a kubelet (1.22 and later) writes of each container that it cannot find at the end of a pod."""
ONCE_MADE: Object = {"containerID": "containerd://5f1c"}

ENDS: list[tuple[str, Object, AttemptEnd, int | None]] = [
    ("exit 0", pod("train-0", None, "Succeeded", terminated(10, 100, 0)), AttemptEnd.SUCCEEDED, 0),
    ("exit 1", failed_pod(FAILED_1), AttemptEnd.FAILED, 1),
    ("killed by nobody that the API names", failed_pod(KILLED), AttemptEnd.FAILED, 137),
    ("out of memory", failed_pod(terminated(10, 100, 137, "OOMKilled")), AttemptEnd.FAILED, 137),
    ("a deadline of the pod", failed_pod(TERMINATED_143, reason="DeadlineExceeded"), AttemptEnd.WALL_TIME, 143),
    ("evicted by its node", failed_pod(KILLED, reason="Evicted"), AttemptEnd.PREEMPTED, 137),
    ("its node was shut down", failed_pod(TERMINATED_143, reason="Terminated"), AttemptEnd.PREEMPTED, 143),
    # Nobody knows how these two ended: the codes are what kubelet and containerd write in place of one.
    ("the kubelet lost the container", failed_pod(LOST, container=ONCE_MADE), AttemptEnd.UNKNOWN, None),
    ("its node was started anew", failed_pod(terminated(10, 100, 255, "Unknown")), AttemptEnd.UNKNOWN, None),
    ("a signal in place of a code", failed_pod({"terminated": {"signal": 9}}), AttemptEnd.FAILED, 137),
] + [
    (
        reason,
        failed_pod(KILLED, conditions=[condition("DisruptionTarget", 70, reason=reason)]),
        AttemptEnd.PREEMPTED,
        137,
    )
    for reason in (
        "PreemptionByScheduler",
        "DeletionByTaintManager",
        "EvictionByEvictionAPI",
        "DeletionByPodGC",
        "TerminationByKubelet",
    )
]


@pytest.mark.parametrize(("found", "end", "code"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_each_end_of_a_pod(found: Object, end: AttemptEnd, code: int | None) -> None:
    assert ended(found) == (end, code)


def test_out_of_memory_is_a_failure_even_when_the_node_evicts_too() -> None:
    disrupted = [condition("DisruptionTarget", 99, reason="TerminationByKubelet")]
    assert ended(failed_pod(terminated(10, 100, 137, "OOMKilled"), conditions=disrupted))[0] is AttemptEnd.FAILED


@pytest.mark.parametrize(
    ("disruption", "end"),
    [
        (condition("DisruptionTarget", 99, reason="EvictionByEvictionAPI", holds="False"), AttemptEnd.FAILED),
        (condition("DisruptionTarget", 161, reason="DeletionByPodGC"), AttemptEnd.FAILED),
        (condition("DisruptionTarget", 160, reason="DeletionByPodGC"), AttemptEnd.PREEMPTED),
    ],
)
def test_a_disruption_that_did_not_hold_or_came_after_the_end_did_not_cause_it(
    disruption: Object, end: AttemptEnd
) -> None:
    assert ended(failed_pod(FAILED_1, conditions=[disruption]))[0] is end


@pytest.mark.parametrize(
    ("reason", "state", "end"),
    [
        ("WorkloadEvictedByPreemption", KILLED, AttemptEnd.PREEMPTED),
        ("WorkloadEvicted", TERMINATED_143, AttemptEnd.PREEMPTED),
        ("StoppedByKueue", KILLED, AttemptEnd.PREEMPTED),
        ("WorkloadDeleted", KILLED, AttemptEnd.CANCELLED),
        ("WorkloadEvicted", FAILED_1, AttemptEnd.FAILED),
    ],
)
def test_kueue_marks_pods_that_it_stops(reason: str, state: Object, end: AttemptEnd) -> None:
    assert ended(failed_pod(state, conditions=[condition("TerminationTarget", 90, reason=reason)]))[0] is end


def test_an_evicted_pod_without_container_states_is_an_attempt() -> None:
    gone = failed_pod(
        None, reason="Evicted", conditions=[condition("DisruptionTarget", 80, reason="TerminationByKubelet")]
    )
    (attempt,) = read_pod(gone, link="job/train").attempts
    assert (attempt.started, attempt.ended, attempt.end) == (T0, T0 + 80, AttemptEnd.PREEMPTED)


def refused(reason: str, message: str) -> Object:
    """A pod that its kubelet did not admit: phase, reason, message, and a time of start that the kubelet adds."""
    return failed_pod(None, reason=reason, status={"message": message})


NEVER_STARTED = [
    ("no chips", refused("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough nvidia.com/gpu")),
    ("sick chips", refused("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no healthy devices")),
    ("a full disk", refused("Evicted", "Pod was rejected: The node had condition: [DiskPressure]. ")),
    ("the same, of an older kubelet", refused("Evicted", "Pod The node had condition: [DiskPressure]. ")),
    ("a node on its way", refused("NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down.")),
    ("its node went before it started", failed_pod(None)),
    ("evicted while it waited for its image", failed_pod(waiting("ContainerCreating"), reason="Evicted")),
    ("the same, once its kubelet had cleaned up", failed_pod(LOST, reason="Evicted")),
    (
        "past its deadline while set-up containers ran",
        failed_pod(waiting("PodInitializing"), reason="DeadlineExceeded"),
    ),
]


@pytest.mark.parametrize("found", [case[1] for case in NEVER_STARTED], ids=[case[0] for case in NEVER_STARTED])
def test_a_pod_that_never_started_is_no_attempt(found: Object) -> None:
    assert read_pod(found, link="job/train").attempts == ()


def test_an_evicted_pod_whose_container_the_kubelet_lost_is_one_attempt_with_the_key_of_its_start() -> None:
    """As kubelets show a pod evicted for memory: the count is raised, and the next container never was."""
    before = pod("train-0", None, "Running", running(10))
    (running_attempt,) = read_pod(before, link="l").attempts
    lost = {"terminated": LOST["terminated"] | {"message": "The container used to be Running"}}
    disrupted = [condition("DisruptionTarget", 300, reason="TerminationByKubelet")]
    gone = failed_pod(LOST, last=lost, restarts=1, reason="Evicted", conditions=disrupted)
    (attempt,) = read_pod(gone, link="l").attempts
    assert attempt.key == running_attempt.key
    assert (attempt.started, attempt.ended, attempt.end) == (None, T0 + 300, AttemptEnd.PREEMPTED)
    assert attempt.exit_code is None


def test_a_pod_that_is_evicted_while_its_container_waits_for_a_restart_ended_by_itself_before() -> None:
    gone = failed_pod(LOST, last=FAILED_1, restarts=0, reason="Evicted")
    (attempt,) = read_pod(gone, link="l").attempts
    assert attempt.key.endswith(":0")
    assert (attempt.started, attempt.ended, attempt.end) == (T0 + 10, T0 + 100, AttemptEnd.FAILED)


STOP = GangStop(T0 + 95, AttemptEnd.WALL_TIME, "DeadlineExceeded")


@pytest.mark.parametrize(
    ("state", "deleted_at", "end"),
    [
        (TERMINATED_143, None, AttemptEnd.WALL_TIME),
        (FAILED_1, None, AttemptEnd.FAILED),
        # Asked at 95 s with a grace of 30 s: a program that answers SIGTERM with its own code was stopped.
        (FAILED_1, 95, AttemptEnd.WALL_TIME),
        (terminated(10, 100, 0), 95, AttemptEnd.WALL_TIME),
        # It had failed by itself a minute before somebody cleaned it up.
        (FAILED_1, 160, AttemptEnd.FAILED),
        # 95 s + 30 s of grace + 60 s of slack is over.
        (terminated(10, 186, 143), None, AttemptEnd.FAILED),
        (terminated(10, 185, 143), None, AttemptEnd.WALL_TIME),
    ],
)
def test_what_ends_right_after_its_gang_was_stopped_ended_because_of_it(
    state: Object, deleted_at: int | None, end: AttemptEnd
) -> None:
    meta = {} if deleted_at is None else {"deletionTimestamp": stamp(deleted_at + 30), "deletionGracePeriodSeconds": 30}
    assert ended(failed_pod(state, meta=meta), STOP)[0] is end


def test_a_pod_that_somebody_deleted_ended_in_no_known_way() -> None:
    meta = {"deletionTimestamp": stamp(125), "deletionGracePeriodSeconds": 30}
    assert ended(failed_pod(TERMINATED_143, meta=meta)) == (AttemptEnd.UNKNOWN, 143)


def test_restarts_in_place_are_attempts_whose_keys_stay() -> None:
    """Two looks at one container: while its first start runs, and after it was started again."""
    before = pod("train-0", None, "Running", running(10))
    crashed = pod("train-0", None, "Running", waiting("CrashLoopBackOff"), last=FAILED_1, restarts=0)
    after = pod("train-0", None, "Running", running(130), last=FAILED_1, restarts=1)
    uid = before["metadata"]["uid"]
    first = Attempt(f"{uid}:0", "l", T0 + 10, T0 + 100, AttemptEnd.FAILED, 1, "Error: exit 1")
    assert read_pod(before, link="l").attempts == (Attempt(f"{uid}:0", "l", T0 + 10, None, AttemptEnd.RUNNING),)
    assert read_pod(crashed, link="l").attempts == (first,)
    assert read_pod(after, link="l").attempts == (
        first,
        Attempt(f"{uid}:1", "l", T0 + 130, None, AttemptEnd.RUNNING),
    )


def test_a_restart_that_the_kubelet_counted_at_once_has_the_number_before() -> None:
    lost = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    found = read_pod(pod("t", None, "Running", waiting("ContainerCreating"), last=lost, restarts=3), link="l")
    (attempt,) = found.attempts
    assert attempt.key.endswith(":2")
    assert (attempt.end, attempt.started, found.restarts) == (AttemptEnd.UNKNOWN, None, 3)


UNSCHEDULED: Object = {"spec": {"nodeName": ""}, "status": {"startTime": None}}
WAITS = [
    ("ImagePullBackOff", pod("t", None, "Pending", waiting("ImagePullBackOff", 'Back-off pulling "x"')), "image"),
    ("ErrImagePull", pod("t", None, "Pending", waiting("ErrImagePull")), "image"),
    ("ContainerCreating", pod("t", None, "Pending", waiting("ContainerCreating")), "setup"),
    ("PodInitializing", pod("t", None, "Pending", waiting("PodInitializing")), "setup"),
    ("CreateContainerConfigError", pod("t", None, "Pending", waiting("CreateContainerConfigError")), "unknown"),
    ("no container yet", pod("t", None, "Pending", None), "setup"),
    (
        "no room",
        pod(
            "t",
            None,
            "Pending",
            None,
            conditions=[condition("PodScheduled", 1, reason="Unschedulable", message="0/3 nodes", holds="False")],
            **UNSCHEDULED,
        ),
        "capacity",
    ),
    ("not looked at yet", pod("t", None, "Pending", None, **UNSCHEDULED), "queue"),
    (
        "gated",
        pod("t", None, "Pending", None, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}),
        "quota",
    ),
    (
        "an image of a set-up container",
        pod(
            "t",
            None,
            "Pending",
            waiting("PodInitializing"),
            status={"initContainerStatuses": [{"name": "i", "state": waiting("ErrImagePull")}]},
        ),
        "image",
    ),
    (
        "a set-up container runs",
        pod(
            "t",
            None,
            "Pending",
            waiting("PodInitializing"),
            status={"initContainerStatuses": [{"name": "i", "state": running(3)}]},
        ),
        "setup",
    ),
]


@pytest.mark.parametrize(("found", "word"), [case[1:] for case in WAITS], ids=[case[0] for case in WAITS])
def test_what_a_pending_pod_waits_for(found: Object, word: str) -> None:
    record = read_pod(found, link="l")
    assert (record.phase, record.waiting, record.attempts) == (TaskPhase.PENDING, word, ())


def with_proxy(state: Object, **more: object) -> Object:
    """A pod whose main container stands beside a proxy that runs on."""
    found = pod("t", None, "Running", state, **more)
    found["spec"]["containers"].append({"name": "istio-proxy"})
    found["status"]["containerStatuses"].append({"name": "istio-proxy", "state": running(1), "restartCount": 0})
    return found


def test_the_container_that_asks_for_chips_is_the_main_one_whatever_is_injected_before_it() -> None:
    """GKE puts the container that mounts buckets first."""
    found = pod("t", None, "Running", running(50), last=FAILED_1, restarts=1)
    found["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    found["spec"]["containers"].insert(0, {"name": "gke-gcsfuse-sidecar"})
    found["status"]["containerStatuses"].insert(0, {"name": "gke-gcsfuse-sidecar", "state": running(1)})
    record = read_pod(found, link="l")
    assert record.container == "main"
    assert [attempt.started for attempt in record.attempts] == [T0 + 10, T0 + 50]


def test_a_pod_that_the_control_plane_ended_for_its_node_that_is_gone_runs_no_more() -> None:
    gone = [condition("DisruptionTarget", 400, reason="DeletionByPodGC")]
    (attempt,) = read_pod(pod("t", None, "Failed", running(10), conditions=gone), link="l").attempts
    assert (attempt.started, attempt.ended, attempt.end) == (T0 + 10, T0 + 400, AttemptEnd.PREEMPTED)


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (with_proxy(running(1)), TaskPhase.RUNNING),
        (with_proxy(waiting("CrashLoopBackOff"), last=FAILED_1, restarts=3), TaskPhase.PENDING),
        (pod("t", None, "Running", running(1)), TaskPhase.RUNNING),
        (pod("t", None, "Running", waiting("CrashLoopBackOff"), last=FAILED_1), TaskPhase.PENDING),
        (pod("t", None, "Running", terminated(1, 2, 0)), TaskPhase.SUCCEEDED),
        (pod("t", None, "Running", terminated(1, 2, 3)), TaskPhase.FAILED),
        (pod("t", None, "Running", terminated(1, 2, 3), spec={"restartPolicy": "OnFailure"}), TaskPhase.PENDING),
        (pod("t", None, "Unknown", running(1)), TaskPhase.UNKNOWN),
    ],
)
def test_what_a_pod_counts_as(found: Object, phase: TaskPhase) -> None:
    assert read_pod(found, link="l").phase is phase


@pytest.mark.parametrize(
    ("written", "reference"),
    [
        ("train", JobReference("runs", None, "train")),
        ("Job/train", JobReference("runs", WorkloadKind.JOB, "train")),
        ("jobsets/train", JobReference("runs", WorkloadKind.JOBSET, "train")),
        ("evals/train", JobReference("evals", None, "train")),
        ("evals/pod/train", JobReference("evals", WorkloadKind.PODS, "train")),
        ("app=a,x.io/b= c", JobReference("runs", None, "", (("app", "a"), ("x.io/b", "c")))),
        ("app=", JobReference("runs", None, "", (("app", ""),))),
        ("evals/what/train", None),
        ("", None),
        ("job/", None),
        ("a=b,=c", None),
    ],
)
def test_how_a_job_is_referred_to(written: str, reference: JobReference | None) -> None:
    assert read_reference(written, "runs") == reference


def test_what_is_kept_of_a_listing_holds_no_variables_and_reads_alike() -> None:
    whole = job("train", size=2, chips=4)
    one = pod("train-0", whole, "Running", running(1), spec={"terminationGracePeriodSeconds": 7}, labels={"env": "e"})
    for spec in (one["spec"], whole["spec"]["template"]["spec"]):
        spec["volumes"] = [{"secret": "hidden"}]
        spec["initContainers"] = [{"name": "i", "args": ["hidden"]}]
        spec["containers"][0]["env"] = [{"name": "TOKEN", "value": "hidden"}]
    one["metadata"]["managedFields"] = [{"manager": "hidden"}]
    one["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hidden", "a": "b"}
    set_of_one = jobset("set", {"worker": (3, 2, 4)})
    set_of_one["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["volumes"] = ["hidden"]
    kept = (trimmed_pod(one), trimmed_job(whole), trimmed_jobset(set_of_one))
    assert "hidden" not in str(kept)
    assert read_pod(kept[0], link="l") == read_pod(one, link="l")
    assert kept[0]["metadata"]["annotations"] == {"a": "b"}  # type: ignore[index]
    reference = JobReference("runs", None, "train")
    before, after = (
        NamespaceObjects([pods], [jobs], [sets]).find(reference)
        for pods, jobs, sets in ((one, whole, set_of_one), kept)
    )
    assert before is not None
    assert after is not None
    assert gang_facts(before) == gang_facts(after)
    assert gang_facts(after).accelerators == 8
    sets = NamespaceObjects([], [], [kept[2]]).find(JobReference("runs", None, "set"))
    assert sets is not None
    assert (gang_facts(sets).accelerators, gang_facts(sets).tasks_expected) == (24, 6)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "status", "spec", "state", "lastState", "terminated", "items", "conditions", "name"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON, JSON)
def test_any_json_in_the_place_of_an_object_is_borne(status: object, spec: object, containers: object) -> None:
    whole = job("train")
    broken = pod("train-0", whole, "Running", running(1))
    broken["status"], broken["spec"] = status, spec
    odd = pod("train-1", whole, "Running", None)
    odd["status"]["containerStatuses"] = containers
    gang = NamespaceObjects([broken, odd], [whole], [], []).find(JobReference("runs", None, "train"))
    assert gang is not None
    facts = gang_facts(gang)
    assert facts.tasks_expected == 1
    assert facts.state in SchedulerState
    assert (facts.tasks is None) is (facts.state is SchedulerState.UNKNOWN)
