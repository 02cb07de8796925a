"""What Kubernetes and Kueue write as the reason of an end or a wait, and what it counts as: one table of each.

Reasons and conditions are those of the Pod lifecycle and Disruptions pages of the Kubernetes documentation, of the Job
API (batch/v1) and of Kueue's API (`Evicted` conditions and `TerminationTarget`).
"""

from __future__ import annotations

from collections.abc import Mapping

from runwatch.facts import AttemptEnd, SchedulerState

POD_REASONS: Mapping[str, AttemptEnd] = {
    "Evicted": AttemptEnd.PREEMPTED,
    "Preempting": AttemptEnd.PREEMPTED,
    "NodeShutdown": AttemptEnd.PREEMPTED,
    "Shutdown": AttemptEnd.PREEMPTED,
    "Terminated": AttemptEnd.PREEMPTED,
    "NodeLost": AttemptEnd.PREEMPTED,
    "DeadlineExceeded": AttemptEnd.WALL_TIME,
}
"""`status.reason` of a pod that did not end by itself (`Terminated`: its node was shut down gracefully)."""

CONTAINER_REASONS: Mapping[str, AttemptEnd] = {
    "OOMKilled": AttemptEnd.FAILED,
    "ContainerStatusUnknown": AttemptEnd.UNKNOWN,
    "Unknown": AttemptEnd.UNKNOWN,
}
"""Reasons of a terminated container that say more than its exit code. Out of memory is the program's own failure,
whatever else happened to the pod. Of the two unknown ones the kubelet (137) and containerd (255, after its node was
started again) found nothing but that the container is gone: the code beside them is made up."""

TERMINATION_TARGET_REASONS: Mapping[str, AttemptEnd] = {
    "WorkloadDeleted": AttemptEnd.CANCELLED,
    "NoMatchingWorkload": AttemptEnd.CANCELLED,
}
"""Kueue marks pods that it stops by `TerminationTarget`; with any other reason the workload was evicted."""

EVICTION_REASONS: Mapping[str, AttemptEnd] = {
    "Preempted": AttemptEnd.PREEMPTED,
    "PodsReadyTimeout": AttemptEnd.PREEMPTED,
    "AdmissionCheck": AttemptEnd.PREEMPTED,
    "ClusterQueueStopped": AttemptEnd.PREEMPTED,
    "LocalQueueStopped": AttemptEnd.PREEMPTED,
    "NodeFailures": AttemptEnd.PREEMPTED,
    "RequeuingLimitExceeded": AttemptEnd.PREEMPTED,
    "MaximumExecutionTimeExceeded": AttemptEnd.WALL_TIME,
    "Deactivated": AttemptEnd.CANCELLED,
    "InactiveWorkload": AttemptEnd.CANCELLED,
}
"""Reason of the `Evicted` condition of Kueue's Workload, without `EVICTION_PREFIXES`. Kueue itself deactivates a job
that it had to evict too often, and one that ran for as long as it may; by `Deactivated` alone a person did."""

EVICTION_PREFIXES = ("EvictedDueTo", "DeactivatedDueTo", "InactiveWorkload")
"""What events put before the reason, and Kueue before the cause for which it deactivated a job (the last until 0.9)."""

FAILED_REASONS: Mapping[str, SchedulerState] = {"DeadlineExceeded": SchedulerState.TIMEOUT}
"""Reason of the `Failed` condition of a Job; any other (`BackoffLimitExceeded`, `PodFailurePolicy`) is a failure."""

WAITING_REASONS: Mapping[str, str] = {
    "ImagePullBackOff": "image",
    "ErrImagePull": "image",
    "ErrImageNeverPull": "image",
    "ImageInspectError": "image",
    "InvalidImageName": "image",
    "RegistryUnavailable": "image",
    "SignatureValidationFailed": "image",
    "PodInitializing": "setup",
    "ContainerCreating": "setup",
}
"""Reason of a waiting container, in the words of `mljob_waiting`; what is not listed is `unknown`."""

EARLIEST_WAIT_FIRST = ("quota", "queue", "capacity", "image", "unknown", "setup")
"""A gang waits for the pod that is furthest from its start."""

REFUSALS = ("Pod was rejected", "Pod Pod was rejected", "Pod The node had condition")
"""How a kubelet begins its message on a pod that it does not admit, and how older ones did. The reason alone may be one
of a pod that ran (`Evicted`, `NodeShutdown`)."""

LOST = "ContainerStatusUnknown"
"""Reason of a container that the kubelet could not find."""
