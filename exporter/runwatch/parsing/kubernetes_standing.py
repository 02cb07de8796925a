"""The one state of a gang, from its record, its Workload and its pods, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.facts import Attempt, AttemptEnd, SchedulerState, TaskCounts
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing import kubernetes_workloads as workloads
from runwatch.parsing.kubernetes_objects import PodRecord, TaskPhase
from runwatch.parsing.kubernetes_reasons import EARLIEST_WAIT_FIRST
from runwatch.parsing.kubernetes_workloads import Gang, WorkloadKind
from runwatch.thresholds import INTERRUPTION_TOGETHER_SECONDS

_STATES_OF_ENDS = {AttemptEnd.WALL_TIME: SchedulerState.TIMEOUT, AttemptEnd.CANCELLED: SchedulerState.KILLED}


@dataclass(frozen=True, slots=True)
class Standing:
    """State, what it waits for (a word of `mljob_waiting` or ""), and one line why."""

    state: SchedulerState
    waiting: str = ""
    detail: str = ""


def standing_of(
    gang: Gang, pods: Sequence[PodRecord], tasks: TaskCounts, attempts: Sequence[Attempt], ran: bool
) -> Standing:
    """Return the state of a gang.

    Args:
        gang: its record, Workload and pods.
        pods: the same pods, read.
        tasks: how many of them count as what.
        attempts: the starts that they show.
        ran: whether it ever ran, as far as anything tells.
    """
    end = workloads.workload_end(gang)
    if end is not None and end.state is SchedulerState.FAILED and _ended_at_pods_deadline(attempts):
        return Standing(SchedulerState.TIMEOUT, detail=fields.one_line("its pods reached their deadline", end.detail))
    if end is not None:
        return Standing(end.state, detail=end.detail)
    if gang.is_held_back:
        return _held_back(gang, ran)
    if gang.kind is WorkloadKind.PODS and not tasks.running and not tasks.pending:
        return _ended_pods(pods, attempts)
    if tasks.running:
        return Standing(SchedulerState.RUNNING, detail=_said_of_running(gang, pods))
    if fields.deletion_requested(gang.record) is not None:
        return Standing(SchedulerState.KILLED, detail="the job was deleted")
    if workloads.suspended(gang):
        return _suspended(gang, ran)
    if tasks.pending:
        return _pending(gang, pods, tasks, ran)
    return _without_live_tasks(gang, pods, tasks, attempts, ran)


def _said_of_running(gang: Gang, pods: Sequence[PodRecord]) -> str:
    if fields.deletion_requested(gang.record) is not None:
        return "being deleted"
    newest = [pod.attempts[-1] for pod in pods if pod.phase is TaskPhase.RUNNING and pod.attempts]
    if newest and all(attempt.end is not AttemptEnd.RUNNING for attempt in newest):
        return "its main containers ended, and others beside them keep their pods up"
    return ""


def _ended_at_pods_deadline(attempts: Sequence[Attempt]) -> bool:
    """Whether what ended last was stopped at the time limit that its own spec sets: the Job calls that a failed pod."""
    newest = max((found.ended for found in attempts if found.ended is not None), default=None)
    if newest is None:
        return False
    last = {
        found.end
        for found in attempts
        if found.ended is not None and newest - found.ended <= INTERRUPTION_TOGETHER_SECONDS
    }
    return AttemptEnd.WALL_TIME in last and AttemptEnd.PREEMPTED not in last


def _suspended(gang: Gang, ran: bool) -> Standing:
    if workloads.ended_at_its_limit(gang):
        return Standing(SchedulerState.TIMEOUT, detail="Kueue stopped it at its maximum execution time")
    checks = workloads.open_checks(gang)
    # Once it has its quota, a check is what it waits for, such as nodes that are being provisioned: its name tells.
    waits, why = ("unknown", f"it has its quota, and waits for {checks}") if checks else ("quota", "not admitted yet")
    if ran:
        return Standing(SchedulerState.PREEMPTED, waits, fields.one_line("suspended after it ran", why))
    return Standing(SchedulerState.PENDING, waits, fields.one_line("suspended", why))


def _held_back(gang: Gang, ran: bool) -> Standing:
    """Of a job of a kind that is not read, and that has no pods, Kueue's Workload alone tells."""
    if fields.true_condition(gang.workload, "Finished"):
        return Standing(SchedulerState.UNKNOWN, detail="Kueue says that it is over, and not how")
    if workloads.admitted(gang):
        # Its pods may come under other names, as a RayJob's cluster does: that there are none is no claim to make.
        state = SchedulerState.PREEMPTED if ran else SchedulerState.PENDING
        return Standing(state, "unknown", "Kueue admitted it, and no pods of its name are there yet")
    return _suspended(gang, ran)


def _pending(gang: Gang, pods: Sequence[PodRecord], tasks: TaskCounts, ran: bool) -> Standing:
    waits = [pod for pod in pods if pod.phase is TaskPhase.PENDING and not pod.terminating] or [
        pod for pod in pods if pod.phase is TaskPhase.PENDING
    ]
    first = min(waits, key=lambda pod: (_wait_order(pod.waiting), pod.name))
    if any(pod.in_place for pod in waits):
        return Standing(
            SchedulerState.RUNNING, detail=fields.one_line("its containers are started again", first.detail)
        )
    if ran:
        word = "quota" if workloads.waits_for_quota(gang) else first.waiting
        return Standing(SchedulerState.PREEMPTED, word, fields.one_line("it ran, and waits", first.detail))
    if tasks.succeeded:
        return Standing(SchedulerState.RUNNING, detail="between two pods")
    if workloads.waits_for_quota(gang):
        return Standing(SchedulerState.PENDING, "quota", first.detail)
    return Standing(SchedulerState.PENDING, first.waiting, first.detail)


def _wait_order(word: str) -> int:
    return EARLIEST_WAIT_FIRST.index(word) if word in EARLIEST_WAIT_FIRST else len(EARLIEST_WAIT_FIRST)


def _without_live_tasks(
    gang: Gang, pods: Sequence[PodRecord], tasks: TaskCounts, attempts: Sequence[Attempt], ran: bool
) -> Standing:
    """No pod runs or waits, yet the record tells of no end."""
    if any(pod.phase is TaskPhase.UNKNOWN for pod in pods):
        return Standing(SchedulerState.UNKNOWN, detail="the nodes of its pods do not answer")
    ending = next((found for job in gang.jobs if (found := fields.true_condition(job, "FailureTarget"))), {})
    if ending:
        return Standing(SchedulerState.RUNNING, detail=f"about to fail: {fields.text(ending, 'reason')}")
    if workloads.counts_as_active(gang) and workloads.runs_elsewhere(gang):
        return Standing(SchedulerState.RUNNING, detail="its pods are in another cluster")
    if workloads.counts_as_active(gang) and not pods:
        return Standing(SchedulerState.NO_TASKS, detail="it counts as active and has no pods")
    if tasks.succeeded and not tasks.failed:
        return Standing(SchedulerState.RUNNING, detail="its pods are done, and it has not said so yet")
    if pods and not ran:
        return Standing(SchedulerState.PENDING, "unknown", fields.one_line("no pod could start", pods[-1].detail))
    if pods:
        last = max(attempts, key=lambda found: found.ended or 0.0, default=None)
        why = "" if last is None else last.detail
        return Standing(SchedulerState.PREEMPTED, detail=fields.one_line("it waits for new pods", why))
    if ran:
        return Standing(
            SchedulerState.PREEMPTED, detail="it ran, and its controller makes no pods: its events tell why"
        )
    if workloads.waits_for_quota(gang):
        return Standing(SchedulerState.PENDING, "quota", "not admitted yet")
    # A namespace's quota, or a webhook that refuses its pods: only the events of the record tell.
    return Standing(SchedulerState.PENDING, "unknown", "its controller has made no pods yet: its events tell why")


def _ended_pods(pods: Sequence[PodRecord], attempts: Sequence[Attempt]) -> Standing:
    """Bare pods have no record of their own: what the pods say is all there is."""
    if any(pod.phase is TaskPhase.UNKNOWN for pod in pods):
        return Standing(SchedulerState.UNKNOWN, detail="the nodes of its pods do not answer")
    failed = [pod for pod in pods if pod.phase is TaskPhase.FAILED]
    if not failed:
        return Standing(SchedulerState.SUCCEEDED)
    ends = {_end_of_failed(pod) for pod in failed}
    detail = failed[0].attempts[-1].detail if failed[0].attempts else failed[0].detail
    if ends == {AttemptEnd.PREEMPTED} and all(pod.has_controller for pod in failed):
        return Standing(SchedulerState.PREEMPTED, detail=fields.one_line("it waits for new pods", detail))
    only = ends.pop() if len(ends) == 1 else AttemptEnd.FAILED
    return Standing(_STATES_OF_ENDS.get(only, SchedulerState.FAILED), detail=detail)


def _end_of_failed(pod: PodRecord) -> AttemptEnd:
    return AttemptEnd.CANCELLED if pod.terminating and pod.end is AttemptEnd.UNKNOWN else pod.end
