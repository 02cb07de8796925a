"""Which record and which pods a configured `scheduler_job` means, among what one look at a namespace listed.

It is written `name`, `kind/name` (`job`, `jobset`, `pod`), `namespace/name`, `namespace/kind/name`, or as labels
`key=value[,key=value]` (of the site's namespace). A plain name means the JobSet of that name, else
the Job, else bare pods: the one of that name, those of that name with `-<number>` behind it, or those that an object
of that name controls. Of several that labels match, the one made last counts: it is the resubmission.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_workloads import Gang, WorkloadKind

JOBSET_NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID_LABEL = "jobset.sigs.k8s.io/jobset-uid"
JOB_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
JOB_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
SERVICE_CONTROLLERS = frozenset({"ReplicaSet", "DaemonSet", "Node", "ReplicationController"})
"""Controllers whose pods are services, or belong to a node: discovery leaves them out."""

_KINDS = {
    "job": WorkloadKind.JOB,
    "jobs": WorkloadKind.JOB,
    "jobset": WorkloadKind.JOBSET,
    "jobsets": WorkloadKind.JOBSET,
    "pod": WorkloadKind.PODS,
    "pods": WorkloadKind.PODS,
}
_WITH_INDEX = re.compile(r"(?P<name>.+)-\d+\Z")


@dataclass(frozen=True, slots=True)
class JobReference:
    """A `scheduler_job`, taken apart. `kind` is None for any; `labels` is empty where a name is given."""

    namespace: str
    kind: WorkloadKind | None
    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """The reference as text."""
        return ",".join(f"{key}={value}" for key, value in self.labels) or self.name


def read_reference(written: str, namespace: str) -> JobReference | None:
    """Take a `scheduler_job` apart; None where it is written in no known way.

    Args:
        written: the configured text.
        namespace: the site's own namespace.
    """
    if "=" in written:
        pairs = [part.partition("=") for part in written.split(",")]
        labels = tuple((key.strip(), value.removeprefix("=").strip()) for key, _, value in pairs)
        return JobReference(namespace, None, "", labels) if all(key for key, _ in labels) else None
    *before, name = written.strip().split("/")
    if not name or len(before) > 2 or not all(before):
        return None
    if len(before) == 2:
        kind = _KINDS.get(before[1].lower())
        return None if kind is None else JobReference(before[0], kind, name)
    if not before:
        return JobReference(namespace, None, name)
    kind = _KINDS.get(before[0].lower())
    return JobReference(before[0] if kind is None else namespace, kind, name)


class NamespaceObjects:
    """What one look at a namespace listed, indexed.

    Args:
        pods: all pods.
        jobs: all Jobs.
        jobsets: all JobSets, None where they could not be read (which is not "there are none").
        workloads: Kueue's Workloads, None where they could not be read.
    """

    def __init__(
        self,
        pods: Sequence[Json],
        jobs: Sequence[Json],
        jobsets: Sequence[Json] | None,
        workloads: Sequence[Json] | None = (),
    ) -> None:
        self.pods = tuple(pods)
        self.jobs = tuple(jobs)
        self.jobsets_known = jobsets is not None
        self.jobsets = tuple(jobsets or ())
        self.workloads_known = workloads is not None
        self._records = {fields.uid(record): record for record in (*self.jobs, *self.jobsets)}
        self._job_named = {fields.name(job): job for job in self.jobs}
        self._jobset_named = {fields.name(jobset): jobset for jobset in self.jobsets}
        by_age = sorted(workloads or (), key=lambda found: (fields.created(found) or 0.0, fields.uid(found)))
        self._workloads = {owner: workload for workload in by_age for owner in fields.owner_uids(workload)}
        self._workload_named = {
            fields.text(owner, "name"): workload
            for workload in by_age
            if fields.text(owner := fields.controller(workload), "kind") not in {"", "Job", "JobSet", "Pod"}
        }
        self._children: dict[str, list[Json]] = defaultdict(list)
        for job in self.jobs:
            self._children[fields.text(fields.controller(job), "uid")].append(job)
        self._pods_of: dict[str, list[Json]] = defaultdict(list)
        self._orphans_of_jobset: dict[str, list[Json]] = defaultdict(list)
        self._by_name: dict[str, list[Json]] = defaultdict(list)
        for pod in self.pods:
            self._index(pod)

    def _index(self, pod: Json) -> None:
        owner = fields.text(fields.controller(pod), "uid") or fields.label(pod, *JOB_UID_LABELS)
        if owner:
            self._pods_of[owner].append(pod)
        if owner not in self._records and (jobset := fields.label(pod, JOBSET_NAME_LABEL)):
            # The Job that a restarted JobSet had made is gone, and its pods are on their way.
            self._orphans_of_jobset[jobset].append(pod)
        if owner not in self._records:
            for known_as in _names_of_bare(pod):
                self._by_name[known_as].append(pod)

    def find(self, reference: JobReference) -> Gang | None:
        """Return the job that is meant, None where there is none."""
        if reference.labels:
            return self._by_labels(reference)
        if reference.kind in (None, WorkloadKind.JOBSET):
            jobset = self._jobset_named.get(reference.name)
            if jobset is not None:
                return self._gang(WorkloadKind.JOBSET, jobset)
        if reference.kind in (None, WorkloadKind.JOB):
            job = self._job_named.get(reference.name)
            if job is not None:
                return self._gang(WorkloadKind.JOB, job)
        if reference.kind in (None, WorkloadKind.PODS) and reference.name in self._by_name:
            return self._bare(f"pod/{reference.name}", self._by_name[reference.name])
        if reference.kind in (None, WorkloadKind.PODS) and (held := self._workload_named.get(reference.name)):
            return Gang(WorkloadKind.PODS, f"pod/{reference.name}", {}, (), workload=held)
        return None

    def gangs(self) -> list[Gang]:
        """Return every job there is: JobSets, Jobs that no JobSet made, and bare pods by their common name."""
        found = [self._gang(WorkloadKind.JOBSET, jobset) for jobset in self.jobsets]
        found += [
            self._gang(WorkloadKind.JOB, job)
            for job in self.jobs
            if fields.text(fields.controller(job), "kind") != "JobSet"
        ]
        bare: dict[str, list[Json]] = defaultdict(list)
        for pod in self.pods:
            owner = fields.controller(pod)
            if fields.text(owner, "kind") in {*SERVICE_CONTROLLERS, "Job", "JobSet"}:
                continue
            indexed = _WITH_INDEX.fullmatch(fields.name(pod))
            stem = indexed["name"] if indexed is not None else fields.name(pod)
            bare[fields.text(owner, "name") or stem].append(pod)
        return found + [self._bare(f"pod/{name}", pods) for name, pods in bare.items()]

    def hidden_jobsets(self) -> list[str]:
        """Return the names of JobSets that Jobs here are part of, and that may not be read themselves."""
        if self.jobsets_known:
            return []
        makers = (fields.controller(job) for job in self.jobs)
        return sorted({fields.text(maker, "name") for maker in makers if fields.text(maker, "kind") == "JobSet"} - {""})

    def _by_labels(self, reference: JobReference) -> Gang | None:
        matching = [record for record in self._records.values() if _has(record, reference.labels)]
        pods = [pod for pod in self.pods if _has(pod, reference.labels)]
        owners = {fields.text(fields.controller(pod), "uid") for pod in pods}
        matching += [record for owner in owners if (record := self._records.get(owner)) is not None]
        tops = {fields.uid(top): top for record in matching for top in [self._top(record)]}
        if not tops:
            return self._bare(reference.shown, pods) if pods else None
        newest = max(tops.values(), key=lambda record: (fields.created(record) or 0.0, fields.uid(record)))
        kind = WorkloadKind.JOBSET if any(newest is jobset for jobset in self.jobsets) else WorkloadKind.JOB
        note = f"the newest of {len(tops)} that have these labels" if len(tops) > 1 else ""
        return self._gang(kind, newest, note)

    def _top(self, record: Json) -> Json:
        return self._records.get(fields.text(fields.controller(record), "uid"), record)

    def _gang(self, kind: WorkloadKind, record: Json, note: str = "") -> Gang:
        uid, name = fields.uid(record), fields.name(record)
        children = tuple(self._children.get(uid, ())) if kind is WorkloadKind.JOBSET else ()
        makers = [uid, *(fields.uid(child) for child in children)]
        pods = [pod for maker in makers for pod in self._pods_of.get(maker, ())]
        if kind is WorkloadKind.JOBSET:
            pods += [pod for pod in self._orphans_of_jobset.get(name, ()) if _may_belong(pod, record)]
        workload = self._workloads.get(uid)
        return Gang(kind, f"{kind.value}/{name}", record, tuple(pods), children, workload, note)

    def _bare(self, shown_as: str, pods: Sequence[Json]) -> Gang:
        owners = [uid for pod in pods for uid in (fields.uid(pod), fields.text(fields.controller(pod), "uid"))]
        workload = next((found for uid in owners if (found := self._workloads.get(uid)) is not None), None)
        return Gang(WorkloadKind.PODS, shown_as, {}, tuple(pods), workload=workload)


def _names_of_bare(pod: Json) -> set[str]:
    name = fields.name(pod)
    if fields.text(fields.controller(pod), "kind") in {"Job", "JobSet"}:
        # Its record is gone, and so is the job: what is left of its pods is no job of its own.
        return {name}
    indexed = _WITH_INDEX.fullmatch(name)
    names = {name, fields.text(fields.controller(pod), "name"), fields.label(pod, *JOB_NAME_LABELS)}
    if indexed is not None:
        names.add(indexed["name"])
    return names - {""}


def _may_belong(pod: Json, jobset: Json) -> bool:
    """Whether a pod that bears a JobSet's name is of this one, and not of one of that name before it."""
    marked = fields.label(pod, JOBSET_UID_LABEL)
    if marked:
        return marked == fields.uid(jobset)
    return (fields.created(pod) or 0.0) >= (fields.created(jobset) or 0.0)


def _has(record: Json, labels: Sequence[tuple[str, str]]) -> bool:
    there = fields.mapping(record, "metadata", "labels")
    return all(there.get(key) == value for key, value in labels)
