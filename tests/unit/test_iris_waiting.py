"""Why a job of Iris waits: the texts of its scheduler, its autoscaler and Kueue."""

from __future__ import annotations

import pytest

from runwatch.facts import SchedulerState
from runwatch.parsing.iris import JobRecord, waiting_word


def record(state: str = "RUNNING", tasks: dict[str, int] | None = None, pending_reason: str = "") -> JobRecord:
    return JobRecord("/u1/run", f"JOB_STATE_{state}", task_states=tasks or {}, pending_reason=pending_reason)


CAPACITY = (
    "Scheduler: Insufficient CPU (need 14 cores, available 1 cores) - 4 worker(s)\n\n"
    "Autoscaler: Unsatisfied autoscaler demand: no_capacity: cpu=at_max_slices"
)


@pytest.mark.parametrize(
    ("reason", "messages", "word"),
    [
        (CAPACITY, (), "capacity"),
        ("Scheduler: No workers match constraints: ['tpu']", (), "capacity"),
        # As 0.2.227 writes them (controller/scheduling/scheduler.py, controller/autoscaler/status.py).
        ("Coscheduling: need 8 workers in same 'tpu-name' group, largest group has 4", (), "capacity"),
        ("No worker matches constraints and has sufficient resources (need cpu=8 cores)", (), "capacity"),
        ("Autoscaler: Waiting for workers in scale group 'v5p-64' to become ready (allowed)", (), "capacity"),
        ("Autoscaler: (scaling up) Waiting for worker scale-up in scale group 'v5p-64' (1 slice(s))", (), "capacity"),
        ("Unsatisfied autoscaler demand: tier_blocked: 1 group(s) blocked by quota-pool tier", (), "quota"),
        ("Waiting for build slots: 4 worker(s) at building limit, but have sufficient resources", (), "queue"),
        ("Worker at building task limit (4/4 concurrent builds) - 3 worker(s)", (), "queue"),
        ("Schedulable — waiting for next scheduling cycle", (), "queue"),
        ("Autoscaler: quota exceeded: TPUS_PER_PROJECT", (), "quota"),
        ("Pending scheduler feedback", (), "queue"),
        ("Pending scheduler feedback", ("ImagePullBackOff: back-off pulling image",), "image"),
        ("", ("SchedulingGated: Kueue has not admitted the workload",), "queue"),
        ("", ("ContainerCreating",), "setup"),
        ("Awaiting acceptance by peer west", (), "queue"),
        ("Queued for peer west to report free capacity", (), "capacity"),
        ("", (), "unknown"),
        ("words that nobody knows", (), "unknown"),
    ],
)
def test_why_a_pending_job_waits(reason: str, messages: tuple[str, ...], word: str) -> None:
    job = record("PENDING", {"pending": 1}, pending_reason=reason)
    assert waiting_word(job, SchedulerState.PENDING, messages) == word
    assert waiting_word(job, SchedulerState.FAILED, messages) == ""


def test_a_running_job_waits_only_while_its_tasks_are_set_up() -> None:
    assert waiting_word(record(tasks={"building": 2}), SchedulerState.RUNNING) == "setup"
    assert waiting_word(record(tasks={"building": 2}), SchedulerState.RUNNING, ["ErrImagePull"]) == "image"
    assert waiting_word(record(tasks={"running": 1, "building": 1}), SchedulerState.RUNNING) == ""
