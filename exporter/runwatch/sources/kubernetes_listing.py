"""Whole listings of a namespace: paged, begun anew when a page's token expires, and never half of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from runwatch.facts import Failure, FailureReason
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_selection import NamespaceObjects
from runwatch.parsing.kubernetes_trimming import trimmed_job, trimmed_jobset, trimmed_pod, trimmed_workload
from runwatch.sources.kubernetes_client import (
    EXPIRED_STATUS,
    JOBS,
    JOBSETS,
    OLDER_WORKLOADS,
    PODS,
    READ_SECONDS,
    WORKLOADS,
    HttpAnswer,
    KubernetesApi,
    Resource,
)

TRIES = 3  # listings that expire in the middle are begun anew, but not for ever
MAX_PAGES = 1000
ABSENT_SECONDS = 600.0  # how long an API that is not installed, or not allowed, is not asked again


_TRIMMED: Mapping[Resource, Callable[[Json], Json]] = {
    PODS: trimmed_pod,
    JOBS: trimmed_job,
    JOBSETS: trimmed_jobset,
    WORKLOADS: trimmed_workload,
    OLDER_WORKLOADS: trimmed_workload,
}


class NamespaceLister:
    """Lists what concerns jobs in a namespace.

    Args:
        api: the API server.
        monotonic: a clock for deadlines, in seconds.
    """

    def __init__(self, api: KubernetesApi, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic = monotonic
        self._absent_until: dict[tuple[str, Resource], float] = {}
        self._forbidden: set[tuple[str, Resource]] = set()
        self._served: set[tuple[str, Resource]] = set()
        self.retry_at = 0.0

    def look(self, namespace: str, deadline: float, at: float | None) -> NamespaceObjects | Failure:
        """List pods, Jobs, JobSets and Workloads, in this order: what a Job counts then holds for the pods seen before.

        Args:
            namespace: where.
            deadline: monotonic seconds; no request is begun after it.
            at: objects made after this time are left out, Unix seconds.
        """
        pods = self._list(PODS, namespace, deadline)
        if isinstance(pods, Failure):
            return pods
        jobs = self._list(JOBS, namespace, deadline)
        if isinstance(jobs, Failure):
            return jobs
        jobsets = self._list_optional(JOBSETS, namespace, deadline)
        if isinstance(jobsets, Failure):
            return jobsets
        workloads = self._list_optional(WORKLOADS, namespace, deadline)
        if isinstance(workloads, Failure):
            return workloads
        if (namespace, WORKLOADS) not in self._served:
            workloads = self._list_optional(OLDER_WORKLOADS, namespace, deadline)
            if isinstance(workloads, Failure):
                return workloads
        if not pods and not jobs and not jobsets:
            missing = self._missing(namespace, deadline)
            if missing is not None:
                return missing
        return NamespaceObjects(
            _made_by(pods, at),
            _made_by(jobs, at),
            None if jobsets is None else _made_by(jobsets, at),
            None if workloads is None else _made_by(workloads, at),
        )

    def _list_optional(self, resource: Resource, namespace: str, deadline: float) -> list[Json] | Failure | None:
        """List what need not be installed or allowed: empty where the API is not there, None where it may not be read.

        An API that answered once and is not found now counts as unreadable: its records do not vanish with it.
        """
        key = (namespace, resource)
        if self._monotonic() < self._absent_until.get(key, 0.0):
            return None if key in self._forbidden else []
        found = self._list(resource, namespace, deadline)
        if not isinstance(found, Failure):
            self._served.add(key)
            self._forbidden.discard(key)
            return found
        # 401 says that the credentials are wrong, and nothing of this API.
        refused = found.detail.startswith("HTTP 403")
        if not refused and found.reason is not FailureReason.NOT_FOUND:
            return found
        self._absent_until[key] = self._monotonic() + ABSENT_SECONDS
        if not refused and key not in self._served:
            self._forbidden.discard(key)
            return []
        self._forbidden.add(key)
        return None

    def _list(self, resource: Resource, namespace: str, deadline: float) -> list[Json] | Failure:
        what = f"list of {resource.plural} in namespace {namespace}"
        for _ in range(TRIES):
            found = self._pages(resource, namespace, deadline, what)
            if found is not None:
                return found
        return Failure(FailureReason.OTHER, f"{what}: expired {TRIES} times before its last page")

    def _pages(self, resource: Resource, namespace: str, deadline: float, what: str) -> list[Json] | Failure | None:
        """Read all pages of one listing; None where its token expired on the way."""
        found: list[Json] = []
        token = ""
        for _ in range(MAX_PAGES):
            answer = self._ask(lambda seconds: self._api.page(resource, namespace, token, seconds), deadline, what)  # noqa: B023
            if isinstance(answer, Failure):
                return answer
            if answer.status == EXPIRED_STATUS and token:
                return None
            if not answer.ok:
                return answer.failure(what)
            page = answer.json(what)
            if isinstance(page, Failure):
                return page
            objects = page.get("items", ())
            if objects is None:
                objects = []  # an empty list of Go
            if not isinstance(objects, list) or not all(fields.uid(item) and fields.name(item) for item in objects):
                return Failure(FailureReason.PARSE, f"{what}: the answer is no list of objects")
            found += map(_TRIMMED[resource], objects)
            before, token = token, fields.text(page, "metadata", "continue")
            if not token:
                return found
            if token == before:
                return Failure(FailureReason.PARSE, f"{what}: a page leads to itself")
        return Failure(FailureReason.OTHER, f"{what}: more than {MAX_PAGES} pages")

    def _ask(
        self, request: Callable[[float], HttpAnswer | Failure], deadline: float, what: str
    ) -> HttpAnswer | Failure:
        left = deadline - self._monotonic()
        if left <= 0:
            return Failure(FailureReason.TIMEOUT, f"{what}: no time left for it")
        answer = request(min(READ_SECONDS, left))
        if isinstance(answer, HttpAnswer) and answer.status == 429:
            self.retry_at = self._monotonic() + (answer.retry_after or 0.0)
        return answer

    def _missing(self, namespace: str, deadline: float) -> Failure | None:
        """A namespace that does not exist lists empty: then nothing is known of any job."""
        what = f"namespace {namespace}"
        answer = self._ask(lambda seconds: self._api.read_namespace(namespace, seconds), deadline, what)
        if isinstance(answer, Failure):
            return answer
        return answer.failure(f"{what} does not exist") if answer.status == 404 else None


def _made_by(records: list[Json], at: float | None) -> list[Json]:
    return [record for record in records if at is None or (fields.created(record) or 0.0) <= at]
