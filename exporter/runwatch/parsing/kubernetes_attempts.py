"""The starts of a pod's main container that the API shows, and how each ended: by itself, or by what befell its pod."""

from __future__ import annotations

from runwatch.facts import Attempt, AttemptEnd, GangStop
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_reasons import (
    CONTAINER_REASONS,
    LOST,
    POD_REASONS,
    REFUSALS,
    TERMINATION_TARGET_REASONS,
)

CLOCK_SLACK_SECONDS = 10.0  # nodes and the control plane keep their own clocks
DISRUPTION_SLACK_SECONDS = 60.0  # a disruption this long after the end did not cause it
STOP_SLACK_SECONDS = 60.0  # on top of the pod's own grace period
_DEFAULT_GRACE_SECONDS = 30


def lost_with_its_node(pod: Json) -> bool:
    """Whether a pod was evicted from a node that does not answer.

    Its containers are shown to run for ever, since only the node could say that they ended. The control plane marks the
    pods of such a node as not ready, and gives no reason; a node that answers gives one.
    """
    ready = fields.condition(pod, "Ready")
    evicted = fields.text(fields.true_condition(pod, "DisruptionTarget"), "reason") == "DeletionByTaintManager"
    unheard = fields.text(ready, "status") == "False" and not fields.text(ready, "reason")
    return evicted and unheard and fields.deletion_requested(pod) is not None


def attempts_of(pod: Json, status: Json, restarts: int, link: str, stops: tuple[GangStop, ...]) -> tuple[Attempt, ...]:
    """List the starts of the main container that the API shows: the newest, and the one before it.

    The kubelet numbers starts from 0 and raises `restartCount` with the new start; while a container waits for a
    restart, `lastState` is the start of that number. Where the kubelet lost a container it raises the count at once:
    of a pod that was evicted then, `lastState` is the start that the pod's end ended, and the next one never was.
    """
    pod_uid = fields.uid(pod)
    state, last = fields.mapping(status, "state"), fields.mapping(status, "lastState", "terminated")
    final = fields.mapping(state, "terminated")
    lost = fields.text(last, "reason") == LOST
    never_made = _was_never_made(status)
    found: list[Attempt] = []
    if last:
        waits = "waiting" in state or never_made
        number = restarts if waits and not lost else restarts - 1
        is_final = waits and lost and fields.text(pod, "status", "phase") == "Failed"
        told = final_end(pod, last, stops) if is_final else _own_end(last)
        found.append(_ended(f"{pod_uid}:{max(0, number)}", link, last, told, pod if is_final else {}))
    if "running" in state:
        started = fields.moment(state, "running", "startedAt")
        how, ended, detail, if_lost = AttemptEnd.RUNNING, None, "", AttemptEnd.UNKNOWN
        if lost_with_its_node(pod):
            ended = fields.moment(fields.condition(pod, "Ready"), "lastTransitionTime")
            how, detail = AttemptEnd.PREEMPTED, "evicted from a node that does not answer"
        elif fields.text(pod, "status", "phase") == "Failed":
            # Its node is gone: the control plane ended the pod, and its containers stay as they were last heard of.
            how, detail = final_end(pod, {}, stops)
            ended = fields.moment(fields.true_condition(pod, "DisruptionTarget"), "lastTransitionTime")
        elif fields.deletion_requested(pod) is not None or fields.true_condition(pod, "DisruptionTarget"):
            # Its end is shown for seconds only, then the pod is removed.
            if_lost, detail = final_end(pod, {}, stops)
        found.append(Attempt(f"{pod_uid}:{restarts}", link, started, ended, how, None, detail, if_lost))
    elif final and not never_made:
        blamed = _blamed(pod, final)
        found.append(_ended(f"{pod_uid}:{restarts}", link, blamed, final_end(pod, blamed, stops), pod))
    elif not status and _lost_its_containers(pod):
        found.append(_without_container(pod, link, stops))
    return tuple(found)


def _was_never_made(status: Json) -> bool:
    """Whether a container of a pod that was ended before it could start is only said to have been lost.

    The kubelet writes this for every container that it cannot find at the end of a pod, also for one whose image was
    still being pulled; what once was made has an id.
    """
    end = fields.mapping(status, "state", "terminated")
    was_lost = fields.text(end, "reason") == LOST and fields.moment(end, "startedAt") is None
    return was_lost and not fields.text(status, "containerID")


def _lost_its_containers(pod: Json) -> bool:
    """Whether a failed pod that says nothing of its containers had some: those that a kubelet refuses never do.

    The kubelet gives a pod that it refuses a time of start all the same.
    """
    if fields.text(pod, "status", "phase") != "Failed" or fields.moment(pod, "status", "startTime") is None:
        return False
    known = fields.text(pod, "status", "reason") in POD_REASONS
    return known and not fields.text(pod, "status", "message").startswith(REFUSALS)


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
    how, detail = final_end(pod, {}, stops)
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


def final_end(pod: Json, end: Json, stops: tuple[GangStop, ...]) -> tuple[AttemptEnd, str]:
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
    killed = (_exit_code(end) or 0) > 128 or fields.text(end, "reason") == LOST
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
