"""Objects of Kubernetes without what is never read: most of a listing's bytes, and the environment of containers.

A listing is kept until the next one. What tells who set which field, mounts, variables (which may hold secrets),
commands and tolerations are dropped as each page comes in.
"""

from __future__ import annotations

from collections.abc import Mapping

from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json

_POD_SPEC_KEPT = (
    "restartPolicy",
    "nodeName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "nodeSelector",
    "affinity",
)
_CONTAINERS = ("containers", "initContainers")
_CONTAINER_KEPT = ("name", "resources")
_METADATA_DROPPED = frozenset({"managedFields", "selfLink"})
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trimmed_pod(pod: Json) -> Json:
    """Return a pod without what is never read."""
    return {**_trimmed_metadata(pod), "spec": _trimmed_pod_spec(fields.mapping(pod, "spec"))}


def trimmed_job(job: Json) -> Json:
    """The same of a Job, or of the template of one."""
    spec = dict(fields.mapping(job, "spec"))
    return {
        **_trimmed_metadata(job),
        "spec": {**spec, "template": {"spec": _trimmed_pod_spec(fields.mapping(spec, "template", "spec"))}},
    }


def trimmed_jobset(jobset: Json) -> Json:
    """The same of a JobSet."""
    replicated = [
        {**part, "template": trimmed_job(fields.mapping(part, "template"))}
        for part in fields.items(jobset, "spec", "replicatedJobs")
    ]
    return {
        **_trimmed_metadata(jobset),
        "spec": {**fields.mapping(jobset, "spec"), "replicatedJobs": replicated},
    }


def trimmed_workload(workload: Json) -> Json:
    """The same of Kueue's Workload, whose spec repeats the pods'."""
    return {**_trimmed_metadata(workload), "spec": {}}


def _trimmed_metadata(record: Json) -> Mapping[str, object]:
    metadata = {key: value for key, value in fields.mapping(record, "metadata").items() if key not in _METADATA_DROPPED}
    annotations = fields.mapping(metadata, "annotations")
    if _APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _APPLIED}
    return {**record, "metadata": metadata}


def _trimmed_pod_spec(spec: Json) -> dict[str, object]:
    kept: dict[str, object] = {key: spec[key] for key in _POD_SPEC_KEPT if key in spec}
    for kind in _CONTAINERS:
        kept[kind] = [
            {key: container[key] for key in _CONTAINER_KEPT if key in container}
            for container in fields.items(spec, kind)
        ]
    return kept
