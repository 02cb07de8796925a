"""Jobs, JobSets and bare pods of a Kubernetes namespace, all of a site's by one listing a poll."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runwatch.config.model import Site
from runwatch.facts import Failure, FailureReason, FoundSchedulerJob, SchedulerFacts, SchedulerState, SourceKind
from runwatch.fleet import Job
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_gangs import facts_at, gang_facts
from runwatch.parsing.kubernetes_selection import JobReference, NamespaceObjects, read_reference
from runwatch.parsing.kubernetes_workloads import Gang, WorkloadKind
from runwatch.sources.kubernetes_client import KubernetesApi
from runwatch.sources.kubernetes_listing import NamespaceLister
from runwatch.sources.kubernetes_logs import read_log_tail
from runwatch.sources.log_tails import Tail
from runwatch.sources.protocol import CountRequest, Deliver
from runwatch.thresholds import AT_IS_NOW_SECONDS

LISTING_FRESH_SECONDS = 90.0  # discovery shares a listing that is no older
ABANDON_SECONDS = 600.0  # a look that hangs this long beyond its deadline is left alone, and a new one is begun

Looked = Mapping[str, NamespaceObjects | Failure]
"""What a look found, by namespace as it was asked for ("" for the site's own)."""


@dataclass(slots=True)
class _Look:
    """One look, in a thread of its own: however the server, or a credential plugin, hangs, the poll ends in time."""

    deadline: float
    ended: threading.Event = field(default_factory=threading.Event)
    found: Looked | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """What earlier looks saw of a job: pods that ran may be gone.

    `at` is when the latest of them was (Unix seconds), and `stays` for how many seconds its record stays after its
    end, None where it does for ever. `may_have_ended` is whether that was over when it was first missed: nobody then
    saw how it ended.
    """

    identity: str
    ran: bool
    started: float | None
    is_of_another_kind: bool
    at: float
    stays: float | None
    may_have_ended: bool | None = None


class KubernetesScheduler:
    """The scheduler of one site: one context, one namespace, and others that jobs name as `namespace/name`.

    Args:
        site_name: the site's name in the config.
        site: its context and namespace. Without a context the pod's service account is used where there is one.
        count_request: counts each request to the API.
        at: hide what happened after this time, Unix seconds.
        clock: the time now, Unix seconds.
        deadline_seconds: within which `poll` and `find` return; `log_tail` in twice that.
        api_client: a `kubernetes.client.ApiClient` to use instead; it stays the caller's.
    """

    kind = SourceKind.SCHEDULER

    def __init__(
        self,
        site_name: str,
        site: Site,
        count_request: CountRequest,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        deadline_seconds: float = 20.0,
        api_client: Any | None = None,
    ) -> None:
        self._site_name = site_name
        self._at = at
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._api = KubernetesApi(site_name, site, count_request, api_client)
        self._lister = NamespaceLister(self._api)
        self._turn = threading.Lock()
        self._running: _Look | None = None
        self._listings: dict[str, tuple[float, NamespaceObjects]] = {}
        self._seen: dict[str, _Seen] = {}

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Look once at each job; see `Source.poll`. Outcomes are delivered from the calling thread."""
        references: list[tuple[Job, JobReference]] = []
        for job in jobs:
            reference = read_reference(job.scheduler_job, "")
            if reference is None:
                deliver(job, _unreadable(job.scheduler_job))
                continue
            references.append((job, reference))
        if not references:
            return
        looked = self._look({reference.namespace for _, reference in references})
        for job, reference in references:
            found = looked if isinstance(looked, Failure) else looked[reference.namespace]
            deliver(job, found if isinstance(found, Failure) else self._outcome(job.run, reference, found))

    def find(self, site: str, pattern: str) -> list[FoundSchedulerJob] | Failure:
        """List the jobs of the site's namespace whose name matches; see `FindsSchedulerJobs.find`.

        Left out are pods of services (Deployments, DaemonSets) and of nodes.
        """
        if site != self._site_name:
            return Failure(FailureReason.OTHER, f"this is the scheduler of site {self._site_name}, not of {site}")
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            return Failure(FailureReason.OTHER, f"no regular expression: {error}")
        objects = self._objects("")
        if isinstance(objects, Failure):
            return objects
        named = ((gang, gang.shown_as.partition("/")[2]) for gang in objects.gangs())
        # Of a JobSet that may not be read it is known that it is there: that must not look like its end.
        hidden = [
            FoundSchedulerJob(f"{WorkloadKind.JOBSET.value}/{name}", name, SchedulerState.UNKNOWN, submitted=None)
            for name in objects.hidden_jobsets()
            if wanted.search(name)
        ]
        return [*(self._found(gang, name) for gang, name in named if wanted.search(name)), *hidden]

    def log_tail(self, scheduler_job: str, max_lines: int) -> Tail | Failure:
        """Return the last lines of the job's log: of its first task, of the newest start.

        Args:
            scheduler_job: as in the config.
            max_lines: at least 1; fewer come back where lines are very long.
        """
        reference = read_reference(scheduler_job, "")
        if reference is None:
            return _unreadable(scheduler_job)
        objects = self._objects(reference.namespace)
        if isinstance(objects, Failure):
            return objects
        gang = objects.find(reference)
        if gang is None:
            return Failure(FailureReason.NOT_FOUND, f"no job {reference.shown}")
        return read_log_tail(self._api, gang, max_lines, time.monotonic() + self._deadline_seconds)

    def forget(self, run: str) -> None:
        """Drop what is kept for a job that is watched no more."""
        self._seen.pop(run, None)

    def close(self) -> None:
        """Release connections. A look that hangs does not keep the process alive."""
        self._listings.clear()
        self._api.close()

    @property
    def _is_now(self) -> bool:
        return self._at is None or self._clock() - self._at <= AT_IS_NOW_SECONDS

    def _objects(self, namespace: str) -> NamespaceObjects | Failure:
        """Return the newest listing where it is fresh, else make one."""
        listed = self._listings.get(namespace)
        if listed is not None and time.monotonic() - listed[0] <= LISTING_FRESH_SECONDS:
            return listed[1]
        looked = self._look({namespace})
        return looked if isinstance(looked, Failure) else looked[namespace]

    def _look(self, namespaces: Iterable[str]) -> Looked | Failure:
        """List namespaces, within the deadline. Looks of several threads come one after the other."""
        deadline = time.monotonic() + self._deadline_seconds
        if not self._turn.acquire(timeout=self._deadline_seconds):
            return Failure(FailureReason.TIMEOUT, "the look before this one took all the time")
        try:
            return self._look_alone(sorted(namespaces), deadline)
        finally:
            self._turn.release()

    def _look_alone(self, namespaces: Sequence[str], deadline: float) -> Looked | Failure:
        now = time.monotonic()
        if now < self._lister.retry_at:
            return Failure(FailureReason.THROTTLED, "the API server asked for a pause, which is not over yet")
        before = self._running
        if before is not None and not before.ended.is_set() and now < before.deadline + ABANDON_SECONDS:
            return Failure(FailureReason.TIMEOUT, "the look before this one has not ended yet")
        look = self._running = _Look(deadline)
        thread = threading.Thread(
            target=self._run, args=(look, namespaces), name=f"kubernetes {self._site_name}", daemon=True
        )
        thread.start()
        if not look.ended.wait(max(0.0, deadline - now)):
            return Failure(FailureReason.TIMEOUT, f"the site did not answer within {self._deadline_seconds:g} s")
        # A look that ended without a result raised: its traceback was reported where threads report theirs.
        found = look.found
        if found is None:
            return Failure(FailureReason.OTHER, "the look broke off; the log tells where")
        listed_at = time.monotonic()
        for namespace, objects in found.items():
            if not isinstance(objects, Failure):
                self._listings[namespace] = (listed_at, objects)
        return found

    def _run(self, look: _Look, namespaces: Sequence[str]) -> None:
        try:
            look.found = self._list(look, namespaces)
        finally:
            look.ended.set()

    def _list(self, look: _Look, namespaces: Sequence[str]) -> Looked:
        refused = self._api.connect()
        if refused is not None:
            return dict.fromkeys(namespaces, refused)
        listed: dict[str, NamespaceObjects | Failure] = {}
        for real in {namespace or self._api.namespace for namespace in namespaces}:
            listed[real] = self._lister.look(real, look.deadline, self._at)
        return {namespace: listed[namespace or self._api.namespace] for namespace in namespaces}

    def _outcome(self, run: str, reference: JobReference, objects: NamespaceObjects) -> SchedulerFacts | Failure:
        gang = objects.find(reference)
        if gang is None:
            return self._not_there(run, reference, objects)
        before = self._seen.get(run)
        if before is not None and before.identity != gang.identity:
            before = None
        facts = gang_facts(
            gang,
            ran_before=before is not None and before.ran,
            started_before=None if before is None else before.started,
        )
        ran = bool(facts.attempts) or (before is not None and before.ran)
        self._seen[run] = _Seen(
            gang.identity, ran, facts.started, gang.is_of_another_kind, at=self._clock(), stays=gang.stays_after_its_end
        )
        return facts if self._at is None else facts_at(facts, self._at, is_now=self._is_now)

    def _not_there(self, run: str, reference: JobReference, objects: NamespaceObjects) -> SchedulerFacts | Failure:
        if not objects.jobsets_known and reference.kind in (None, WorkloadKind.JOBSET):
            return Failure(
                FailureReason.AUTH, f"{reference.shown} is no Job and no pod, and JobSets cannot be read: not allowed?"
            )
        before = self._seen.get(run)
        if before is not None and before.is_of_another_kind and not objects.workloads_known:
            # While Kueue holds such a job back it has no pod, and only its Workload shows that it is there.
            return Failure(
                FailureReason.AUTH, f"{reference.shown} has no pods, and Workloads cannot be read: not allowed?"
            )
        identity = "" if before is None else before.identity
        if not self._is_now:
            return SchedulerFacts(reference.shown, SchedulerState.UNKNOWN, "it is not there today", identity)
        if before is not None and before.stays is not None:
            if before.may_have_ended is None:
                before = replace(before, may_have_ended=self._clock() - before.at >= before.stays)
                self._seen[run] = before
            if before.may_have_ended:
                text = f"it is removed {before.stays:g} s after its end, which may have come between two looks"
                return SchedulerFacts(reference.shown, SchedulerState.UNKNOWN, text, identity)
        return SchedulerFacts(reference.shown, SchedulerState.GONE, "the API has no record of it", identity)

    def _found(self, gang: Gang, name: str) -> FoundSchedulerJob:
        facts = gang_facts(gang)
        labelled = gang.record or next(iter(gang.pods), {})
        return FoundSchedulerJob(
            scheduler_job=gang.shown_as,
            name=name,
            state=facts.state if self._is_now else SchedulerState.UNKNOWN,
            submitted=facts.submitted,
            owner=fields.label(labelled, "owner", "user"),
            ended=facts.ended,
        )


def _unreadable(scheduler_job: str) -> Failure:
    said = fields.one_line(scheduler_job) or "nothing"
    return Failure(
        FailureReason.OTHER,
        f"scheduler_job says {said}; expected NAME, job/NAME, jobset/NAME, pod/NAME, NAMESPACE/NAME or KEY=VALUE",
    )
