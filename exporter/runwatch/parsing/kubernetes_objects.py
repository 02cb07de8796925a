"""Pods of Kubernetes, read from the JSON of its API into records: what each counts as, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runwatch.facts import Attempt, AttemptEnd, GangStop
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_accelerators import asks_for_chips
from runwatch.parsing.kubernetes_attempts import attempts_of, final_end, lost_with_its_node
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_reasons import WAITING_REASONS


class TaskPhase(StrEnum):
    """What a pod counts as. UNKNOWN: its node does not answer, so it counts as nothing."""

    RUNNING = "running"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod. Times are Unix seconds; `index` is its completion index in an indexed Job.

    `restarts` counts how often its main container was started again in it; the API shows one of them. `in_place` says
    that it has its node and was started before, so that what it waits for is a restart there. `previous_log` says that
    the newest lines are those of the container before. `end` is how its newest start ended, or the pod without any.
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
    restarts: int
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
    attempts = attempts_of(pod, status, restarts, link, stops)
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
        end=attempts[-1].end if attempts else final_end(pod, {}, stops)[0],
        container=main,
        restarts=restarts,
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
    if lost_with_its_node(pod):
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
