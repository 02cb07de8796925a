"""The last lines of a Kubernetes job's log: which pod speaks for the job, and reads that are bounded in bytes."""

from __future__ import annotations

import re
import time

from runwatch.facts import Failure, FailureReason
from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json
from runwatch.parsing.kubernetes_gangs import gang_pods
from runwatch.parsing.kubernetes_objects import PodRecord
from runwatch.parsing.kubernetes_workloads import Gang
from runwatch.parsing.log_lines import each_redrawing
from runwatch.sources.kubernetes_client import KubernetesApi
from runwatch.sources.log_tails import Tail, TailLine

MAX_BYTES = 1024 * 1024
ROLE_LABELS = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role", "ray.io/node-type")
LEADERS = frozenset({"master", "chief", "launcher", "leader", "head"})
"""Roles, by these labels, of the pod that speaks for the others."""

INDEX_LABELS = (
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_NUMBER_AT_THE_END = re.compile(r"-(\d+)\Z")


def read_log_tail(api: KubernetesApi, gang: Gang, max_lines: int, deadline: float) -> Tail | Failure:
    """Read the last lines of the pod that speaks for a gang, with when its node took them down.

    A bar that is redrawn makes more than one of a line. `limitBytes` cuts the newest lines off, not the oldest: an
    answer of that size is asked for again with fewer lines.
    No request is begun after the deadline (monotonic seconds).
    """
    spokes = spokesman(gang)
    if spokes is None:
        return Failure(FailureReason.NOT_FOUND, f"no pod of {gang.shown_as} has started")
    namespace, pod = spokes
    lines = max(1, max_lines)
    while True:
        answer = api.pod_log(
            namespace, pod.name, pod.container, previous=pod.previous_log, lines=lines, limit_bytes=MAX_BYTES
        )
        if isinstance(answer, Failure):
            return answer
        if answer.status in {400, 404}:
            # The pod went, or its container was not made yet: an answer about this job alone.
            return Failure(FailureReason.NOT_FOUND, f"HTTP {answer.status}: pod {pod.name} has no log")
        if not answer.ok:
            return answer.failure(f"log of pod {pod.name} in namespace {namespace}")
        if len(answer.body) < MAX_BYTES or lines == 1:
            text = answer.body.decode("utf-8", errors="replace")
            is_whole = lines == max(1, max_lines) and len(answer.body) < MAX_BYTES and text.count("\n") < lines
            return Tail(_lines(text), is_whole)
        if time.monotonic() > deadline:
            return Failure(FailureReason.TIMEOUT, f"log of pod {pod.name}: its lines are too long to be read in time")
        lines = max(1, lines // 4)


def _lines(text: str) -> list[TailLine]:
    """Split a log into lines, and each into what it was redrawn as.

    A stamp tells when its line began. What was drawn behind a carriage return came later, and nothing tells when.
    """
    found: list[TailLine] = []
    for line in text.split("\n"):
        stamp, _, rest = line.partition(" ")
        time = fields.moment({"stamp": stamp}, "stamp") if _STAMP.fullmatch(stamp) else None
        for number, drawn in enumerate(each_redrawing(line if time is None else rest)):
            found.append(TailLine(drawn, None if number else time))
    return found


def spokesman(gang: Gang) -> tuple[str, PodRecord] | None:
    """Return namespace and record of the pod whose log is the job's: the first task's newest pod that started.

    The first task is completion index 0 of the first Job of the first replicated job; of bare pods the leader by its
    role, else that of the lowest number. Where pods have no number it is the one made last.
    """
    order = {
        fields.text(replicated, "name"): place
        for place, replicated in enumerate(fields.items(gang.record, "spec", "replicatedJobs"))
    }
    candidates = [
        (
            (
                order.get(fields.label(pod, "jobset.sigs.k8s.io/replicatedjob-name"), 0),
                _number(fields.label(pod, "jobset.sigs.k8s.io/job-index")),
                *_rank(pod, record),
                -(record.created or 0.0),
                record.name,
            ),
            (fields.text(pod, "metadata", "namespace"), record),
        )
        for pod, record in zip(gang.pods, gang_pods(gang), strict=True)
        if record.attempts
    ]
    return min(candidates, key=lambda pair: pair[0])[1] if candidates else None


def _rank(pod: Json, record: PodRecord) -> tuple[bool, int]:
    if record.index is not None:
        return False, record.index
    follows = not any(fields.label(pod, key).lower() in LEADERS for key in ROLE_LABELS)
    numbered = _NUMBER_AT_THE_END.search(record.name)
    # Names that the API makes up may end in digits by chance; a StatefulSet asks for such names, and gives its own.
    of_a_set = fields.text(fields.controller(pod), "kind") == "StatefulSet"
    is_made_up = bool(fields.text(pod, "metadata", "generateName")) and not of_a_set
    by_name = numbered[1] if numbered is not None and not is_made_up else ""
    return follows, _number(fields.label(pod, *INDEX_LABELS) or by_name)


def _number(written: str) -> int:
    return int(written) if written.isascii() and written.isdigit() else 0
