"""A gang of pods and its record, combined to what the scheduler says of the job: state, tasks, attempts.

How the words of Kubernetes map to `mljob_state` is told in `docs/kubernetes-rbac.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runwatch.facts import Attempt, AttemptEnd, SchedulerFacts, SchedulerState, TaskCounts
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing import kubernetes_workloads as workloads
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_objects import PodRecord, TaskPhase, read_pod
from runwatch.parsing.kubernetes_standing import standing_of
from runwatch.parsing.kubernetes_workloads import Gang, WorkloadKind

_PHASE_ORDER = (TaskPhase.RUNNING, TaskPhase.PENDING, TaskPhase.SUCCEEDED, TaskPhase.FAILED)


def gang_pods(gang: Gang) -> list[PodRecord]:
    """Read the pods of a gang."""
    stops = workloads.gang_stops(gang)
    return [read_pod(pod, link=gang.shown_as, stops=stops) for pod in gang.pods]


def gang_facts(gang: Gang, *, ran_before: bool = False, started_before: float | None = None) -> SchedulerFacts:
    """Return what the API says of a job now.

    Args:
        gang: the job's record and pods.
        ran_before: whether this very job (by its identity) was seen running at an earlier look.
        started_before: the earliest start that was seen of it, Unix seconds; pods that ran first may be gone.
    """
    pods = gang_pods(gang)
    tasks = task_counts(gang, pods)
    attempts = tuple(
        sorted(
            (attempt for pod in pods for attempt in pod.attempts), key=lambda found: (found.started or 0.0, found.key)
        )
    )
    end = workloads.workload_end(gang)
    ran = ran_before or bool(attempts) or workloads.evicted(gang) or _record_says_it_ran(gang, pods)
    standing = standing_of(gang, pods, tasks, attempts, ran)
    over = standing.state in {
        SchedulerState.SUCCEEDED,
        SchedulerState.FAILED,
        SchedulerState.TIMEOUT,
        SchedulerState.KILLED,
    }
    ended = None
    if over:
        times = [found.ended for found in attempts if found.ended is not None]
        asked = fields.deletion_requested(gang.record)
        # One that waits has no pod that ends when it is deleted.
        times += [] if asked is None else [asked]
        ended = (end.time if end is not None else None) or max(times, default=None)
    chips = workloads.gang_chips(gang)
    return SchedulerFacts(
        scheduler_job=gang.shown_as,
        state=standing.state,
        detail=fields.one_line(standing.detail, gang.note),
        identity=gang.identity,
        submitted=gang.submitted,
        started=_started(attempts, started_before),
        ended=ended,
        exit_code=_exit_code(standing.state, attempts) if over else None,
        waiting=standing.waiting,
        # Of nodes that do not answer, and of other clusters, it is not known what runs there.
        tasks=None if standing.state is SchedulerState.UNKNOWN or workloads.runs_elsewhere(gang) else tasks,
        tasks_expected=None if gang.is_held_back else workloads.gang_size(gang),
        preemptions=workloads.preemptions(gang),
        failures=_failures(gang, pods),
        attempts=attempts,
        covered_from=covered_from(gang, pods),
        stops=workloads.gang_stops(gang),
        accelerators=chips.count or None,
        accelerator_type=chips.type if chips.count else "",
    )


def facts_at(facts: SchedulerFacts, at: float, *, is_now: bool) -> SchedulerFacts:
    """Hide what happened after a time, and, where that is not now, what the API says only of today.

    Args:
        facts: what was read.
        at: Unix seconds.
        is_now: whether `at` is close enough to the present for states and tasks to count.
    """
    attempts = tuple(_attempt_at(found, at) for found in facts.attempts if found.started is None or found.started <= at)
    started = facts.started if facts.started is not None and facts.started <= at else None
    stops = tuple(stop for stop in facts.stops if stop.time <= at)
    if is_now:
        return replace(facts, attempts=attempts, started=started, stops=stops)
    return replace(
        facts,
        state=SchedulerState.UNKNOWN,
        detail="the API shows only the present",
        started=started,
        ended=None,
        exit_code=None,
        waiting="",
        tasks=None,
        preemptions=None,
        failures=None,
        attempts=attempts,
        stops=stops,
    )


def _attempt_at(attempt: Attempt, at: float) -> Attempt:
    if attempt.ended is None or attempt.ended <= at:
        return attempt
    return replace(attempt, ended=None, end=AttemptEnd.RUNNING, exit_code=None, detail="")


def task_counts(gang: Gang, pods: Sequence[PodRecord]) -> TaskCounts:
    """Count tasks, not pods: a pod that was replaced is history.

    Of an indexed Job the newest pod of each index counts. Else running, pending and succeeded pods count, and pods that
    failed or are being removed only for the places that those leave free. Pods that are done are removed with their
    node: the Job goes on to count them.
    """
    if gang.kind is WorkloadKind.PODS:
        return _tally([pod.phase for pod in pods])
    by_job: dict[str, list[PodRecord]] = {fields.uid(job): [] for job in gang.jobs}
    for pod in pods:
        by_job.setdefault(pod.owner, []).append(pod)
    jobs = {fields.uid(job): job for job in gang.jobs}
    phases: list[TaskPhase] = []
    for owner, of_job in by_job.items():
        job = jobs.get(owner, {})
        of_this = _task_phases(of_job, _size_of_job(job) if job else 0)
        phases += [*of_this, *_removed_when_done(job, of_this)]
    return _tally(phases)


def _removed_when_done(job: Json, there: Sequence[TaskPhase]) -> list[TaskPhase]:
    """Of the pods that a Job counts as succeeded those that are not listed, as far as it has places for them.

    Pods are listed before Jobs: one that ended in between holds its place as running.
    """
    places = fields.count(job, "spec", "completions")
    if places is None:
        places = _size_of_job(job) if job else 0
    missing = (fields.count(job, "status", "succeeded") or 0) - there.count(TaskPhase.SUCCEEDED)
    return [TaskPhase.SUCCEEDED] * max(0, min(missing, places - len(there)))


def _size_of_job(job: Json) -> int:
    return workloads.gang_size(Gang(WorkloadKind.JOB, "", job, ()))


def _task_phases(pods: Sequence[PodRecord], size: int) -> list[TaskPhase]:
    newest: dict[int, PodRecord] = {}
    for pod in sorted(pods, key=lambda found: (not found.terminating, found.created or 0.0, found.uid)):
        if pod.index is not None:
            newest[pod.index] = pod
    if newest:
        return [pod.phase for pod in newest.values()]
    kept = [pod.phase for pod in pods if not pod.terminating and pod.phase is not TaskPhase.FAILED]
    leaving = [pod.phase for pod in pods if pod.terminating and pod.phase is not TaskPhase.FAILED]
    failed = [pod.phase for pod in pods if pod.phase is TaskPhase.FAILED]
    kept += leaving[: max(0, size - len(kept))]
    return kept + failed[: max(0, size - len(kept))]


def _tally(phases: Sequence[TaskPhase]) -> TaskCounts:
    return TaskCounts(*(phases.count(phase) for phase in _PHASE_ORDER))


def _record_says_it_ran(gang: Gang, pods: Sequence[PodRecord]) -> bool:
    if workloads.suspended(gang) and any(fields.moment(job, "status", "startTime") is not None for job in gang.jobs):
        # A job that is made suspended has no time of start; one that is suspended later keeps it.
        return True
    if gang.kind is WorkloadKind.JOBSET:
        return bool(fields.count(gang.record, "status", "restarts"))
    # A Job counts pods as failed that their node refused, or that were ended before they could start.
    never_started = sum(pod.phase is TaskPhase.FAILED and not pod.attempts for pod in pods)
    failed = (fields.count(gang.record, "status", "failed") or 0) - never_started
    return failed > 0 or bool(fields.count(gang.record, "status", "ready"))


def _failures(gang: Gang, pods: Sequence[PodRecord]) -> int | None:
    """Count as a Job does towards its `backoffLimit`: pods that failed, and restarts within those that are there."""
    counted = workloads.failure_count(gang)
    if counted is None:
        return None
    return counted + sum(pod.restarts for pod in pods if pod.phase is not TaskPhase.FAILED)


def _started(attempts: Sequence[Attempt], started_before: float | None) -> float | None:
    """The first start that is known. `status.startTime` of a Job is when its controller took it up, not a start."""
    known = [found.started for found in attempts if found.started is not None]
    if started_before is not None:
        known.append(started_before)
    return min(known, default=None)


def _exit_code(state: SchedulerState, attempts: Sequence[Attempt]) -> int | None:
    """The code that ended the job: 0 of a success, else that of the newest attempt that failed by itself."""
    ended = [found for found in attempts if found.exit_code is not None]
    if state is SchedulerState.SUCCEEDED:
        return 0 if any(found.exit_code == 0 for found in ended) else None
    blamed = [found for found in ended if found.exit_code != 0]
    own = [found for found in blamed if found.end is AttemptEnd.FAILED] or blamed
    return max(own, key=lambda found: found.ended or 0.0).exit_code if own else None


def covered_from(gang: Gang, pods: Sequence[PodRecord]) -> float | None:
    """Return since when every attempt is visible, None where some may be gone.

    That is told only of a Job (or of a JobSet that never restarted, for each of its Jobs): the pods that the Job
    counts as failed, succeeded and active are exactly those that are there; its spec was never changed (suspending or
    resizing removes pods that no count shows); no failure of a pod is ignored by policy; no container was started
    again more than once (the API keeps one earlier start). Pods must be listed before Jobs: a pod that was removed
    before is in the Job's count then. Limit: a pod that was removed before its Job ever counted it is not missed.
    """
    if gang.kind is WorkloadKind.PODS or any(pod.restarts > 1 for pod in pods):
        return None
    if gang.kind is WorkloadKind.JOBSET and not _whole_first_try(gang):
        return None
    if not all(_is_complete(job, [pod for pod in pods if pod.owner == fields.uid(job)]) for job in gang.jobs):
        return None
    return gang.submitted


def _whole_first_try(gang: Gang) -> bool:
    wanted = sum(
        1 if (replicas := fields.count(replicated, "replicas")) is None else replicas
        for replicated in fields.items(gang.record, "spec", "replicatedJobs")
    )
    tries = {fields.label(child, "jobset.sigs.k8s.io/restart-attempt") for child in gang.children}
    return len(gang.children) == wanted and tries <= {"", "0"} and not fields.count(gang.record, "status", "restarts")


def _is_complete(job: Json, pods: Sequence[PodRecord]) -> bool:
    if fields.condition(job, "Suspended") or (fields.count(job, "metadata", "generation") or 1) > 1:
        return False
    rules = fields.items(job, "spec", "podFailurePolicy", "rules")
    if any(fields.text(rule, "action") == "Ignore" for rule in rules):
        return False
    counted = [fields.count(job, "status", key) or 0 for key in ("failed", "succeeded", "active")]
    live = [pod for pod in pods if pod.phase in {TaskPhase.RUNNING, TaskPhase.PENDING, TaskPhase.UNKNOWN}]
    there = [
        sum(pod.phase is TaskPhase.FAILED for pod in pods),
        sum(pod.phase is TaskPhase.SUCCEEDED for pod in pods),
        len(live),
    ]
    return counted == there and not any(pod.terminating for pod in pods)
