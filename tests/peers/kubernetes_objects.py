"""Objects as a Kubernetes cluster shows them, by the API reference of v1, batch/v1 and jobset.x-k8s.io/v1alpha2."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

T0 = 1_790_000_000.0
"""When the jobs of the tests are made, Unix seconds."""


def stamp(seconds: float) -> str:
    """A time that many seconds after `T0`, as the API writes it."""
    return datetime.fromtimestamp(T0 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(name: str, made: float, labels: dict[str, str] | None = None, owner: Object | None = None) -> Object:
    found: Object = {
        "name": name,
        "namespace": "runs",
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {made}")),
        "creationTimestamp": stamp(made),
        "labels": labels or {},
    }
    if owner is not None:
        meta = owner["metadata"]
        found["ownerReferences"] = [
            {
                "apiVersion": owner.get("apiVersion", "apps/v1"),
                "kind": owner["kind"],
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
            }
        ]
    return found


def pod_spec(chips: int = 0, **more: Any) -> Object:
    container: Object = {"name": "main", "image": "trainer:1"}
    if chips:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(chips)}, "requests": {"nvidia.com/gpu": str(chips)}}
    return {"containers": [container], "restartPolicy": "Never", **more}


def job(
    name: str, *, size: int = 1, made: float = 0.0, chips: int = 0, owner: Object | None = None, **more: Any
) -> Object:
    """A Job. `more`: `labels`, `status`, `suspend`, `spec` (which is added to the spec)."""
    spec = {"parallelism": size, "completions": size, "template": {"spec": pod_spec(chips)}} | more.get("spec", {})
    if "suspend" in more:
        spec["suspend"] = more["suspend"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(name, made, more.get("labels"), owner) | {"generation": 1},
        "spec": spec,
        "status": more.get("status", {"startTime": stamp(made), "active": size}),
    }


def condition(kind: str, at: float, *, reason: str = "", message: str = "", holds: str = "True") -> Object:
    return {"type": kind, "status": holds, "reason": reason, "message": message, "lastTransitionTime": stamp(at)}


def running(at: float) -> Object:
    return {"running": {"startedAt": stamp(at)}}


def terminated(started: float, ended: float, code: int, reason: str = "") -> Object:
    said = reason or ("Completed" if code == 0 else "Error")
    times = {"startedAt": stamp(started), "finishedAt": stamp(ended)}
    return {"terminated": {"exitCode": code, "reason": said, **times}}


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def pod(name: str, owner: Object | None, phase: str, state: Object | None, *, made: float = 0.0, **more: Any) -> Object:
    """A pod. `more`: `last`, `restarts`, `container`, `labels`, `conditions`, `reason`, `spec`, `status`, `meta`."""
    found: Object = {"phase": phase, "conditions": more.get("conditions", []), "startTime": stamp(made)}
    if state is not None:
        found["containerStatuses"] = [
            {
                "name": "main",
                "image": "trainer:1",
                "imageID": "registry/trainer@sha256:1",
                "state": state,
                "lastState": more.get("last", {}),
                "restartCount": more.get("restarts", 0),
                "ready": "running" in state,
            }
            | more.get("container", {})
        ]
    if "reason" in more:
        found["reason"] = more["reason"]
    labels = dict(more.get("labels", {}))
    if owner is not None and owner["kind"] == "Job":
        labels["batch.kubernetes.io/job-name"] = owner["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, made, labels, owner) | more.get("meta", {}),
        "spec": pod_spec() | {"nodeName": "node-1"} | more.get("spec", {}),
        "status": found | more.get("status", {}),
    }


def jobset(name: str, replicated: dict[str, tuple[int, int, int]], *, made: float = 0.0, **more: Any) -> Object:
    """A JobSet; `replicated` is name to (replicas, parallelism, chips a pod)."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(name, made, more.get("labels")),
        "spec": {
            "replicatedJobs": [
                {
                    "name": part,
                    "replicas": replicas,
                    "template": {
                        "spec": {"parallelism": size, "completions": size, "template": {"spec": pod_spec(chips)}}
                    },
                }
                for part, (replicas, size, chips) in replicated.items()
            ]
        }
        | more.get("spec", {}),
        "status": more.get("status", {"restarts": 0}),
    }


def workload(owner: Object, *conditions: Object, evictions: int = 0) -> Object:
    """Kueue's Workload of a job, with how often it preempted the job."""
    stats = {"schedulingStats": {"evictions": [{"reason": "Preempted", "count": evictions}]}} if evictions else {}
    return {
        "kind": "Workload",
        "metadata": metadata("job-train-1", 0, owner=owner),
        "status": {"conditions": list(conditions)} | stats,
    }
