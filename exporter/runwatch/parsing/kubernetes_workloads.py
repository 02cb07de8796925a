"""What a Job, a JobSet or a set of bare pods says of itself as a whole: size, end, suspension, stops of the gang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from runwatch.facts import AttemptEnd, GangStop, SchedulerState
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_accelerators import Chips, chips_of
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_reasons import EVICTION_PREFIXES, EVICTION_REASONS, FAILED_REASONS

FINISHED_REASONS = {"Succeeded": SchedulerState.SUCCEEDED, "Failed": SchedulerState.FAILED}
"""Reason of the `Finished` condition of Kueue's Workload. Older Kueues write `JobFinished`, which tells neither."""

_RAN_BEFORE = frozenset(
    {"Preempted", "ClusterQueueStopped", "LocalQueueStopped", "NodeFailures", "MaximumExecutionTimeExceeded"}
)
"""Evictions of what was admitted and may have run; the others come to jobs whose pods were not ready yet."""


class WorkloadKind(StrEnum):
    """The kinds of record that stand for a job."""

    JOB = "job"
    JOBSET = "jobset"
    PODS = "pod"


@dataclass(frozen=True, slots=True)
class Gang:
    """One job's record, the Jobs that a JobSet made, its pods, and its Workload where Kueue has one.

    `record` is empty for bare pods, and for those of a kind that is not read (a PyTorchJob): while Kueue holds such a
    job back there is nothing of it but its Workload. `shown_as` is the id of the job in facts, such as `job/train`.
    """

    kind: WorkloadKind
    shown_as: str
    record: Json
    pods: tuple[Json, ...]
    children: tuple[Json, ...] = ()
    workload: Json | None = None
    note: str = ""

    @property
    def identity(self) -> str:
        """The id that changes when a job is submitted anew under its name.

        That of its record, else of what controls all its pods (which it may replace), else of its oldest pod.
        """
        if self.record:
            return fields.uid(self.record)
        makers = {fields.text(fields.controller(owned), "uid") for owned in self.pods or [self.workload]}
        if len(makers) == 1 and (maker := makers.pop()):
            return maker
        oldest = min(self.pods, key=lambda pod: (fields.created(pod) or 0.0, fields.uid(pod)), default={})
        return fields.uid(oldest)

    @property
    def submitted(self) -> float | None:
        """When it was made, Unix seconds."""
        if self.record:
            return fields.created(self.record)
        return min((time for pod in self.pods if (time := fields.created(pod)) is not None), default=None)

    @property
    def stays_after_its_end(self) -> float | None:
        """For how many seconds its record stays once it is over; None for ever, or where no record tells."""
        return fields.count(self.record, "spec", "ttlSecondsAfterFinished")

    @property
    def is_of_another_kind(self) -> bool:
        """Whether it has a record of a kind that is not read: something controls all its pods, or its Workload."""
        owned = self.pods or [self.workload]
        return not self.record and all(fields.controller(found) for found in owned)

    @property
    def is_held_back(self) -> bool:
        """Whether there is nothing of it but its Workload."""
        return not self.record and not self.pods

    @property
    def jobs(self) -> tuple[Json, ...]:
        """The Jobs that make its pods."""
        return (self.record,) if self.kind is WorkloadKind.JOB else self.children


@dataclass(frozen=True, slots=True)
class WorkloadEnd:
    """How the record says that the job ended."""

    state: SchedulerState
    time: float | None
    detail: str


def gang_size(gang: Gang) -> int:
    """Return how many pods run at a time when the gang is whole.

    A Job has `parallelism` pods at a time, and never more than it has `completions`; a JobSet has that for each
    replica of each replicated job. Bare pods: the total of their Kueue group where one is named, else those there are.
    """
    match gang.kind:
        case WorkloadKind.JOB:
            return _job_size(fields.mapping(gang.record, "spec"))
        case WorkloadKind.JOBSET:
            return sum(replicas * _job_size(spec) for replicas, spec in _replicated(gang.record))
        case WorkloadKind.PODS:
            key = "kueue.x-k8s.io/pod-group-total-count"
            totals = {fields.text(pod, "metadata", "annotations", key) for pod in gang.pods}
            written = totals.pop() if len(totals) == 1 else ""
            return int(written) if written.isascii() and written.isdigit() else len(gang.pods)


def gang_chips(gang: Gang) -> Chips:
    """Return the chips of the whole gang."""
    match gang.kind:
        case WorkloadKind.JOB:
            spec = fields.mapping(gang.record, "spec")
            return chips_of([(_job_size(spec), fields.mapping(spec, "template", "spec"))])
        case WorkloadKind.JOBSET:
            return chips_of(
                (replicas * _job_size(spec), fields.mapping(spec, "template", "spec"))
                for replicas, spec in _replicated(gang.record)
            )
        case WorkloadKind.PODS:
            return chips_of((1, fields.mapping(pod, "spec")) for pod in gang.pods)


def _job_size(spec: Json) -> int:
    parallelism, completions = fields.count(spec, "parallelism"), fields.count(spec, "completions")
    at_a_time = 1 if parallelism is None else parallelism
    return at_a_time if completions is None else min(at_a_time, completions)


def _replicated(record: Json) -> Iterator[tuple[int, Json]]:
    for replicated in fields.items(record, "spec", "replicatedJobs"):
        replicas = fields.count(replicated, "replicas")
        yield 1 if replicas is None else replicas, fields.mapping(replicated, "template", "spec")


def workload_end(gang: Gang) -> WorkloadEnd | None:
    """Return how the Job or JobSet says that it ended, None while it has not (bare pods have no such record).

    Of a job of which only its Workload is left, Kueue says it.
    """
    if gang.is_held_back:
        finished = fields.true_condition(gang.workload, "Finished")
        state = FINISHED_REASONS.get(fields.text(finished, "reason"))
        time = fields.moment(finished, "lastTransitionTime")
        return None if state is None else WorkloadEnd(state, time, fields.text(finished, "message"))
    done = fields.true_condition(gang.record, "Complete" if gang.kind is WorkloadKind.JOB else "Completed")
    if done:
        time = fields.moment(gang.record, "status", "completionTime") or fields.moment(done, "lastTransitionTime")
        return WorkloadEnd(SchedulerState.SUCCEEDED, time, "")
    failed = fields.true_condition(gang.record, "Failed")
    if not failed:
        return None
    reason = fields.text(failed, "reason")
    state = FAILED_REASONS.get(reason, SchedulerState.FAILED)
    child_reasons = {
        fields.text(found, "reason") for child in gang.children if (found := fields.true_condition(child, "Failed"))
    }
    if child_reasons and all(FAILED_REASONS.get(found) is SchedulerState.TIMEOUT for found in child_reasons):
        # A JobSet says only that a Job failed; what its Jobs say is why.
        state = SchedulerState.TIMEOUT
    detail = fields.one_line(reason, ", ".join(sorted(child_reasons)), fields.text(failed, "message"))
    return WorkloadEnd(state, fields.moment(failed, "lastTransitionTime"), detail)


def suspended(gang: Gang) -> bool:
    """Whether the job is held back: by Kueue until there is quota, or by a person."""
    return fields.switched_on(gang.record, "spec", "suspend")


def evicted(gang: Gang) -> bool:
    """Whether Kueue shows that the job was admitted and evicted at least once."""
    counted = fields.items(gang.workload, "status", "schedulingStats", "evictions")
    reasons = {eviction_reason(fields.condition(gang.workload, "Evicted"))}
    return bool(_RAN_BEFORE & (reasons | {fields.text(found, "reason") for found in counted}))


def eviction_reason(eviction: Json) -> str:
    """Return the reason of an `Evicted` condition: why Kueue took back what it had given."""
    reason = fields.text(eviction, "reason")
    for prefix in EVICTION_PREFIXES:
        if reason.startswith(prefix) and reason != prefix:
            return reason.removeprefix(prefix)
    return reason


def ended_at_its_limit(gang: Gang) -> bool:
    """Whether Kueue stopped the job for good since it ran for as long as it may."""
    reason = eviction_reason(fields.true_condition(gang.workload, "Evicted"))
    return EVICTION_REASONS.get(reason) is AttemptEnd.WALL_TIME


def admitted(gang: Gang) -> bool:
    """Whether Kueue lets the job run."""
    return bool(fields.true_condition(gang.workload, "Admitted"))


def preemptions(gang: Gang) -> int | None:
    """Return how often Kueue preempted the job by its own count; None where Kueue does not say."""
    if gang.workload is None:
        return None
    counts = [
        fields.count(found, "count") or 0
        for found in fields.items(gang.workload, "status", "schedulingStats", "evictions")
        if fields.text(found, "reason") == "Preempted"
    ]
    return sum(counts) if counts else None


def waits_for_quota(gang: Gang) -> bool:
    """Whether Kueue has not given the job its quota yet."""
    reserved = fields.condition(gang.workload, "QuotaReserved")
    return gang.workload is not None and fields.text(reserved, "status") != "True"


def open_checks(gang: Gang) -> str:
    """Return the admission checks that a job with its quota still waits for, each with what it says; "" for none."""
    if gang.workload is None or waits_for_quota(gang):
        return ""
    waits = [
        check
        for check in fields.items(gang.workload, "status", "admissionChecks")
        if fields.text(check, "state") != "Ready"
    ]
    return ", ".join(fields.one_line(fields.text(check, "name"), fields.text(check, "message")) for check in waits)


def runs_elsewhere(gang: Gang) -> bool:
    """Whether another controller than the cluster's own makes its pods, as MultiKueue does in another cluster."""
    manager = fields.text(gang.record, "spec", "managedBy")
    return manager not in {"", "kubernetes.io/job-controller", "jobset.sigs.k8s.io/jobset-controller"}


def counts_as_active(gang: Gang) -> bool:
    """Whether the record says that pods of it wait or run, or, of a JobSet, that it is about to make its Jobs anew.

    A Job that was taken up (`startTime`) and has no active pods waits for new ones, be it that it may make none.
    """
    if gang.kind is WorkloadKind.JOBSET and not gang.children:
        parts = fields.items(gang.record, "status", "replicatedJobsStatus")
        restarted = fields.count(gang.record, "status", "restarts")
        return bool(restarted) or any(fields.count(part, "active") for part in parts)
    return any(fields.count(job, "status", "active") for job in gang.jobs)


def failure_count(gang: Gang) -> int | None:
    """Return the failures as the record counts them: failed pods of a Job, restarts of a JobSet."""
    status = fields.mapping(gang.record, "status")
    if not status:
        return None
    return fields.count(status, "failed" if gang.kind is WorkloadKind.JOB else "restarts") or 0


def gang_stops(gang: Gang) -> tuple[GangStop, ...]:
    """List when the whole gang was told to stop, and why; what ended shortly after did not fail by itself."""
    stops: list[GangStop] = []
    asked = fields.deletion_requested(gang.record)
    if asked is not None:
        stops.append(GangStop(asked, AttemptEnd.CANCELLED, "the job was deleted"))
    for job in gang.jobs:
        # From Kubernetes 1.31 on `FailureTarget` comes first, and `Failed` only when all pods have ended.
        for failed in (fields.true_condition(job, "FailureTarget"), fields.true_condition(job, "Failed")):
            if FAILED_REASONS.get(fields.text(failed, "reason")) is SchedulerState.TIMEOUT:
                stops += _stop(failed, AttemptEnd.WALL_TIME, fields.text(failed, "reason"))
    eviction = fields.true_condition(gang.workload, "Evicted")
    reason = eviction_reason(eviction)
    if reason in EVICTION_REASONS:
        stops += _stop(eviction, EVICTION_REASONS[reason], f"Kueue evicted the job ({reason})")
    stops += _stop(fields.true_condition(gang.record, "Suspended"), AttemptEnd.PREEMPTED, "the job was suspended")
    return tuple(stops)


def _stop(found: Json, end: AttemptEnd, detail: str) -> list[GangStop]:
    time = fields.moment(found, "lastTransitionTime")
    return [] if time is None else [GangStop(time, end, detail)]
