"""Pods of Kubernetes, read from the JSON of its API into records, and the one table of its reasons.

Reasons and conditions are those of the Pod lifecycle and Disruptions pages of the Kubernetes documentation, of the Job
API (batch/v1) and of Kueue's API (`Evicted` conditions and `TerminationTarget`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runwatch.facts import Attempt, AttemptEnd, SchedulerState
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_accelerators import asks_for_chips
from runwatch.parsing.kubernetes_fields import Json

POD_REASONS: Mapping[str, AttemptEnd] = {
    "Evicted": AttemptEnd.PREEMPTED,
    "Preempting": AttemptEnd.PREEMPTED,
    "NodeShutdown": AttemptEnd.PREEMPTED,
    "Shutdown": AttemptEnd.PREEMPTED,
    "Terminated": AttemptEnd.PREEMPTED,
    "NodeLost": AttemptEnd.PREEMPTED,
    "DeadlineExceeded": AttemptEnd.WALL_TIME,
}
"""`status.reason` of a pod that did not end by itself (`Terminated`: its node was shut down gracefully)."""

CONTAINER_REASONS: Mapping[str, AttemptEnd] = {
    "OOMKilled": AttemptEnd.FAILED,
    "ContainerStatusUnknown": AttemptEnd.UNKNOWN,
    "Unknown": AttemptEnd.UNKNOWN,
}
"""Reasons of a terminated container that say more than its exit code. Out of memory is the program's own failure,
whatever else happened to the pod. Of the two unknown ones the kubelet (137) and containerd (255, after its node was
started again) found nothing but that the container is gone: the code beside them is made up."""

TERMINATION_TARGET_REASONS: Mapping[str, AttemptEnd] = {
    "WorkloadDeleted": AttemptEnd.CANCELLED,
    "NoMatchingWorkload": AttemptEnd.CANCELLED,
}
"""Kueue marks pods that it stops by `TerminationTarget`; with any other reason the workload was evicted."""

EVICTION_REASONS: Mapping[str, AttemptEnd] = {
    "Preempted": AttemptEnd.PREEMPTED,
    "PodsReadyTimeout": AttemptEnd.PREEMPTED,
    "AdmissionCheck": AttemptEnd.PREEMPTED,
    "ClusterQueueStopped": AttemptEnd.PREEMPTED,
    "LocalQueueStopped": AttemptEnd.PREEMPTED,
    "NodeFailures": AttemptEnd.PREEMPTED,
    "RequeuingLimitExceeded": AttemptEnd.PREEMPTED,
    "MaximumExecutionTimeExceeded": AttemptEnd.WALL_TIME,
    "Deactivated": AttemptEnd.CANCELLED,
    "InactiveWorkload": AttemptEnd.CANCELLED,
}
"""Reason of the `Evicted` condition of Kueue's Workload, without `EVICTION_PREFIXES`. Kueue itself deactivates a job
that it had to evict too often, and one that ran for as long as it may; by `Deactivated` alone a person did."""

EVICTION_PREFIXES = ("EvictedDueTo", "DeactivatedDueTo", "InactiveWorkload")
"""What events put before the reason, and Kueue before the cause for which it deactivated a job (the last until 0.9)."""

FAILED_REASONS: Mapping[str, SchedulerState] = {"DeadlineExceeded": SchedulerState.TIMEOUT}
"""Reason of the `Failed` condition of a Job; any other (`BackoffLimitExceeded`, `PodFailurePolicy`) is a failure."""

WAITING_REASONS: Mapping[str, str] = {
    "ImagePullBackOff": "image",
    "ErrImagePull": "image",
    "ErrImageNeverPull": "image",
    "ImageInspectError": "image",
    "InvalidImageName": "image",
    "RegistryUnavailable": "image",
    "SignatureValidationFailed": "image",
    "PodInitializing": "setup",
    "ContainerCreating": "setup",
}
"""Reason of a waiting container, in the words of `mljob_waiting`; what is not listed is `unknown`."""

EARLIEST_WAIT_FIRST = ("quota", "queue", "capacity", "image", "unknown", "setup")
"""A gang waits for the pod that is furthest from its start."""

_REFUSALS = ("Pod was rejected", "Pod Pod was rejected", "Pod The node had condition")
"""How a kubelet begins its message on a pod that it does not admit, and how older ones did. The reason alone may be one
of a pod that ran (`Evicted`, `NodeShutdown`)."""

_LOST = "ContainerStatusUnknown"
CLOCK_SLACK_SECONDS = 10.0  # nodes and the control plane keep their own clocks
DISRUPTION_SLACK_SECONDS = 60.0  # a disruption this long after the end did not cause it
STOP_SLACK_SECONDS = 60.0  # on top of the pod's own grace period
_DEFAULT_GRACE_SECONDS = 30


class TaskPhase(StrEnum):
    """What a pod counts as. UNKNOWN: its node does not answer, so it counts as nothing."""

    RUNNING = "running"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GangStop:
    """The whole gang was told to stop, Unix seconds: what ended soon after it ended because of it."""

    time: float
    end: AttemptEnd
    detail: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod. Times are Unix seconds; `index` is its completion index in an indexed Job.

    `hidden_restarts` says that its container was started again more often than the API shows. `in_place` says that it
    has its node and was started before, so that what it waits for is a restart there. `previous_log` says that the
    newest lines are those of the container before. `end` is how its newest start ended, or the pod without any.
    """

    name: str
    uid: str
    owner: str
    created: float | None
    terminating: bool
    phase: TaskPhase
    index: int | None
    waiting: str
    detail: str
    attempts: tuple[Attempt, ...]
    end: AttemptEnd
    container: str
    hidden_restarts: bool
    in_place: bool
    previous_log: bool
    has_controller: bool


def read_pod(pod: Json, *, link: str, stops: tuple[GangStop, ...] = ()) -> PodRecord:
    """Read one pod.

    Args:
        pod: the object, as the API gives it.
        link: the scheduler's id of the job that the pod belongs to.
        stops: when the whole gang was told to stop.
    """
    main = _main_container(pod)
    status = _container_status(pod, main)
    restarts = fields.count(status, "restartCount") or 0
    phase = _phase(pod)
    waiting, detail = _waiting(pod) if phase is TaskPhase.PENDING else ("", "")
    waits = bool(fields.mapping(status, "state", "waiting"))
    last = fields.mapping(status, "lastState", "terminated")
    attempts = _attempts(pod, status, restarts, link, stops)
    return PodRecord(
        name=fields.name(pod),
        uid=fields.uid(pod),
        owner=fields.text(fields.controller(pod), "uid"),
        created=fields.created(pod),
        terminating=fields.deletion_requested(pod) is not None,
        phase=phase,
        index=_index(pod),
        waiting=waiting,
        detail=detail or fields.one_line(fields.text(pod, "status", "reason"), fields.text(pod, "status", "message")),
        attempts=attempts,
        end=attempts[-1].end if attempts else _final_end(pod, {}, stops)[0],
        container=main,
        hidden_restarts=restarts > 1,
        in_place=bool(last) or fields.text(pod, "status", "phase") == "Running",
        previous_log=waits and bool(last),
        has_controller=bool(fields.controller(pod)),
    )


def _main_container(pod: Json) -> str:
    """Of the containers the one that is named as such, else the one that asks for chips, else the first.

    What is injected beside it (a proxy, a mount of a bucket) may stand before it.
    """
    chosen = fields.text(pod, "metadata", "annotations", "kubectl.kubernetes.io/default-container")
    containers = fields.items(pod, "spec", "containers")
    names = [fields.text(container, "name") for container in containers]
    if chosen in names:
        return chosen
    with_chips = [fields.text(container, "name") for container in containers if asks_for_chips(container)]
    return with_chips[0] if len(with_chips) == 1 else next(iter(names), "")


def _container_status(pod: Json, container: str) -> Json:
    statuses = fields.items(pod, "status", "containerStatuses")
    return next((status for status in statuses if fields.text(status, "name") == container), {})


def _index(pod: Json) -> int | None:
    key = "batch.kubernetes.io/job-completion-index"
    written = fields.label(pod, key) or fields.text(pod, "metadata", "annotations", key)
    return int(written) if written.isascii() and written.isdigit() else None


def _phase(pod: Json) -> TaskPhase:
    match fields.text(pod, "status", "phase"):
        case "Succeeded":
            return TaskPhase.SUCCEEDED
        case "Failed":
            return TaskPhase.FAILED
        case "Pending":
            return TaskPhase.PENDING
        case "Running":
            return _running_phase(pod)
        case _:
            return TaskPhase.UNKNOWN


def _running_phase(pod: Json) -> TaskPhase:
    """A pod counts as `Running` from its first container's start on, also while that container waits for a restart."""
    if _lost_with_its_node(pod):
        return TaskPhase.UNKNOWN
    states = [fields.mapping(status, "state") for status in fields.items(pod, "status", "containerStatuses")]
    if fields.mapping(_container_status(pod, _main_container(pod)), "state", "waiting"):
        # What runs beside it does not stand for it.
        return TaskPhase.PENDING
    if any("running" in state for state in states) or not states:
        return TaskPhase.RUNNING
    if any("waiting" in state for state in states) or fields.text(pod, "spec", "restartPolicy") != "Never":
        return TaskPhase.PENDING
    codes = [fields.count(state, "terminated", "exitCode") for state in states]
    return TaskPhase.SUCCEEDED if all(code == 0 for code in codes) else TaskPhase.FAILED


def _lost_with_its_node(pod: Json) -> bool:
    """Whether a pod was evicted from a node that does not answer.

    Its containers are shown to run for ever, since only the node could say that they ended. The control plane marks the
    pods of such a node as not ready, and gives no reason; a node that answers gives one.
    """
    ready = fields.condition(pod, "Ready")
    evicted = fields.text(fields.true_condition(pod, "DisruptionTarget"), "reason") == "DeletionByTaintManager"
    unheard = fields.text(ready, "status") == "False" and not fields.text(ready, "reason")
    return evicted and unheard and fields.deletion_requested(pod) is not None


def _waiting(pod: Json) -> tuple[str, str]:
    """Say what a pending pod waits for: a word of `mljob_waiting`, and one line."""
    scheduled = fields.condition(pod, "PodScheduled")
    reason, message = fields.text(scheduled, "reason"), fields.text(scheduled, "message")
    if fields.items(pod, "spec", "schedulingGates") or reason == "SchedulingGated":
        gates = ", ".join(fields.text(gate, "name") for gate in fields.items(pod, "spec", "schedulingGates"))
        return "quota", fields.one_line("SchedulingGated", gates)
    if fields.text(scheduled, "status") != "True" and not fields.text(pod, "spec", "nodeName"):
        return ("capacity" if reason == "Unschedulable" else "queue"), fields.one_line(reason, message)
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in fields.items(pod, "status", kind):
            wait = fields.mapping(status, "state", "waiting")
            reason = fields.text(wait, "reason")
            word = WAITING_REASONS.get(reason, "unknown")
            if reason and word != "setup":
                return word, fields.one_line(reason, fields.text(wait, "message"))
    return "setup", "its containers are being set up"


def _attempts(pod: Json, status: Json, restarts: int, link: str, stops: tuple[GangStop, ...]) -> tuple[Attempt, ...]:
    """List the starts of the main container that the API shows: the newest, and the one before it.

    The kubelet numbers starts from 0 and raises `restartCount` with the new start; while a container waits for a
    restart, `lastState` is the start of that number. Where the kubelet lost a container it raises the count at once:
    of a pod that was evicted then, `lastState` is the start that the pod's end ended, and the next one never was.
    """
    pod_uid = fields.uid(pod)
    state, last = fields.mapping(status, "state"), fields.mapping(status, "lastState", "terminated")
    final = fields.mapping(state, "terminated")
    lost = fields.text(last, "reason") == _LOST
    never_made = _was_never_made(status)
    found: list[Attempt] = []
    if last:
        waits = "waiting" in state or never_made
        number = restarts if waits and not lost else restarts - 1
        is_final = waits and lost and fields.text(pod, "status", "phase") == "Failed"
        told = _final_end(pod, last, stops) if is_final else _own_end(last)
        found.append(_ended(f"{pod_uid}:{max(0, number)}", link, last, told, pod if is_final else {}))
    if "running" in state:
        started = fields.moment(state, "running", "startedAt")
        how, ended, detail = AttemptEnd.RUNNING, None, ""
        if _lost_with_its_node(pod):
            ended = fields.moment(fields.condition(pod, "Ready"), "lastTransitionTime")
            how, detail = AttemptEnd.PREEMPTED, "evicted from a node that does not answer"
        elif fields.text(pod, "status", "phase") == "Failed":
            # Its node is gone: the control plane ended the pod, and its containers stay as they were last heard of.
            how, detail = _final_end(pod, {}, stops)
            ended = fields.moment(fields.true_condition(pod, "DisruptionTarget"), "lastTransitionTime")
        found.append(Attempt(f"{pod_uid}:{restarts}", link, started, ended, how, None, detail))
    elif final and not never_made:
        blamed = _blamed(pod, final)
        found.append(_ended(f"{pod_uid}:{restarts}", link, blamed, _final_end(pod, blamed, stops), pod))
    elif not status and _lost_its_containers(pod):
        found.append(_without_container(pod, link, stops))
    return tuple(found)


def _was_never_made(status: Json) -> bool:
    """Whether a container of a pod that was ended before it could start is only said to have been lost.

    The kubelet writes this for every container that it cannot find at the end of a pod, also for one whose image was
    still being pulled; what once was made has an id.
    """
    end = fields.mapping(status, "state", "terminated")
    was_lost = fields.text(end, "reason") == _LOST and fields.moment(end, "startedAt") is None
    return was_lost and not fields.text(status, "containerID")


def _lost_its_containers(pod: Json) -> bool:
    """Whether a failed pod that says nothing of its containers had some: those that a kubelet refuses never do.

    The kubelet gives a pod that it refuses a time of start all the same.
    """
    if fields.text(pod, "status", "phase") != "Failed" or fields.moment(pod, "status", "startTime") is None:
        return False
    known = fields.text(pod, "status", "reason") in POD_REASONS
    return known and not fields.text(pod, "status", "message").startswith(_REFUSALS)


def _blamed(pod: Json, main: Json) -> Json:
    """Of a failed pod, the container that failed: the main one unless it alone ended well."""
    if fields.text(pod, "status", "phase") != "Failed" or fields.count(main, "exitCode") != 0:
        return main
    statuses = fields.items(pod, "status", "containerStatuses")
    ends = [fields.mapping(status, "state", "terminated") for status in statuses]
    return next((end for end in ends if fields.count(end, "exitCode") not in (0, None)), main)


def _ended(key: str, link: str, end: Json, told: tuple[AttemptEnd, str], pod: Json) -> Attempt:
    """Of a container that was lost it is not known when it ended; that its pod was disrupted tells when it fell."""
    started, finished = fields.moment(end, "startedAt"), fields.moment(end, "finishedAt")
    if finished is None:
        finished = fields.moment(fields.true_condition(pod, "DisruptionTarget"), "lastTransitionTime")
    return Attempt(key, link, started, finished, told[0], _exit_code(end), told[1])


def _without_container(pod: Json, link: str, stops: tuple[GangStop, ...]) -> Attempt:
    """An evicted pod may have lost what its containers said: the pod itself tells when it began and ended."""
    disruption = fields.true_condition(pod, "DisruptionTarget")
    ended = fields.moment(disruption, "lastTransitionTime") or fields.moment(
        fields.condition(pod, "Ready"), "lastTransitionTime"
    )
    how, detail = _final_end(pod, {}, stops)
    return Attempt(f"{fields.uid(pod)}:0", link, fields.moment(pod, "status", "startTime"), ended, how, None, detail)


def _exit_code(end: Json) -> int | None:
    if CONTAINER_REASONS.get(fields.text(end, "reason")) is AttemptEnd.UNKNOWN:
        return None
    code, signal = fields.count(end, "exitCode"), fields.count(end, "signal")
    return 128 + signal if not code and signal else code


def _own_end(end: Json) -> tuple[AttemptEnd, str]:
    """Tell from a container alone how it ended."""
    reason, code = fields.text(end, "reason"), _exit_code(end)
    signal = {137: "SIGKILL", 143: "SIGTERM"}.get(code or 0, "")
    said = "" if code in (0, None) else f"exit {code}" + (f" ({signal})" if signal else "")
    detail = fields.one_line(reason, said, fields.text(end, "message"))
    if reason in CONTAINER_REASONS:
        return CONTAINER_REASONS[reason], detail
    if code is None:
        return AttemptEnd.UNKNOWN, detail
    return (AttemptEnd.SUCCEEDED if code == 0 else AttemptEnd.FAILED), detail


def _final_end(pod: Json, end: Json, stops: tuple[GangStop, ...]) -> tuple[AttemptEnd, str]:
    """Tell how the last start of a pod ended, with what was done to the pod and to its whole gang."""
    own, detail = _own_end(end)
    finished, asked = fields.moment(end, "finishedAt"), fields.deletion_requested(pod)
    if fields.text(end, "reason") == "OOMKilled":
        return own, detail
    if own is AttemptEnd.SUCCEEDED and asked is None and fields.text(pod, "status", "phase") != "Failed":
        return own, detail
    disruption = fields.true_condition(pod, "DisruptionTarget")
    if disruption and not _is_after(fields.moment(disruption, "lastTransitionTime"), finished):
        return AttemptEnd.PREEMPTED, fields.one_line(fields.text(disruption, "reason"), detail)
    reason = fields.text(pod, "status", "reason")
    if reason in POD_REASONS:
        return POD_REASONS[reason], fields.one_line(reason, fields.text(pod, "status", "message"), detail)
    killed = (_exit_code(end) or 0) > 128 or fields.text(end, "reason") == _LOST
    target = fields.true_condition(pod, "TerminationTarget")
    if target and killed:
        reason = fields.text(target, "reason")
        how = TERMINATION_TARGET_REASONS.get(reason, AttemptEnd.PREEMPTED)
        return how, fields.one_line("TerminationTarget", reason, detail)
    deleted = asked is not None and (finished is None or finished >= asked - CLOCK_SLACK_SECONDS)
    if killed or deleted:
        grace = fields.count(pod, "spec", "terminationGracePeriodSeconds")
        reach = (_DEFAULT_GRACE_SECONDS if grace is None else grace) + STOP_SLACK_SECONDS
        told = finished if finished is not None else asked
        for stop in stops:
            if told is not None and stop.time - CLOCK_SLACK_SECONDS <= told <= stop.time + reach:
                return stop.end, fields.one_line(stop.detail, detail)
    if deleted:
        return AttemptEnd.UNKNOWN, fields.one_line("the pod was deleted", detail)
    return own, detail


def _is_after(disrupted: float | None, finished: float | None) -> bool:
    return disrupted is not None and finished is not None and disrupted > finished + DISRUPTION_SLACK_SECONDS
