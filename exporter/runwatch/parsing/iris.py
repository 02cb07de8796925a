"""Iris's JSON replies as records, and the one table of its states.

The replies are those of `iris.cluster.ControllerService` over Connect (`iris/rpc/controller.proto` and `job.proto` of
the package marin-iris, 0.2.20 to 0.2.227): keys in lowerCamelCase, 64-bit integers as texts, enums by name. Zero is
sometimes sent and sometimes left out, so what is missing counts as zero; what is no number counts as not known.
Unknown keys are ignored: the package is built daily.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runwatch.facts import SchedulerState, TaskCounts

KILLED_BY_USER = "Terminated by user"
"""What Iris writes as the error of a job, task and attempt that a person ended; a cascade has other words."""

_DETAIL_LENGTH = 200
_LONGEST_RANK = 6

ENDED_STATES: Mapping[str, SchedulerState] = {
    "JOB_STATE_SUCCEEDED": SchedulerState.SUCCEEDED,
    "JOB_STATE_FAILED": SchedulerState.FAILED,
    "JOB_STATE_KILLED": SchedulerState.KILLED,
    "JOB_STATE_WORKER_FAILED": SchedulerState.FAILED,  # the preemption budget is used up
    "JOB_STATE_UNSCHEDULABLE": SchedulerState.FAILED,
}
"""Iris's states of a job that is over. What is not over is told by its tasks: see `scheduler_state`."""

_PLACED = ("assigned", "building", "running")
_FAILED_TASKS = ("failed", "worker_failed", "unschedulable", "cosched_failed", "preempted")

# fmt: off
_WAITING_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("quota", ("quota",)),
    ("dependency", ("dependenc",)),
    ("image", ("imagepull", "errimage", "image pull", "pulling image", "invalidimagename")),
    # Has room, where other tasks are being built.
    ("queue", ("build slots",)),
    (
        "capacity",
        (
            "insufficient", "capacity", "no worker", "at_max", "autoscaler demand", "scaling up", "backoff",
            "coscheduling:", "in scale group",
        ),
    ),
    ("queue", ("building task limit", "next scheduling cycle")),
    ("setup", ("podinitializing", "containercreating", "downloading", "building", "syncing", "setup")),
    ("queue", ("kueue", "schedulinggated", "queued", "scheduler feedback", "awaiting", "admission", "retrying")),
)
# fmt: on
"""Words of `mljob_waiting` with what the texts of scheduler, autoscaler and Kueue hold; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job of a listing. Times are Unix seconds, states and task counts are in Iris's own words."""

    job_id: str
    state: str
    submitted: float | None = None
    started: float | None = None
    finished: float | None = None
    failures: int | None = 0
    preemptions: int | None = 0
    task_states: Mapping[str, int] = field(default_factory=dict)
    task_count: int | None = 0
    error: str = ""
    pending_reason: str = ""
    cluster: str = ""
    peer_status: str = ""

    @property
    def parent(self) -> str:
        """The id of the job above it; `/user` for one that has none."""
        return self.job_id.rpartition("/")[0]

    @property
    def identity(self) -> str:
        """The id and when it was submitted: a name that is submitted anew replaces the old record in place."""
        return self.job_id if self.submitted is None else f"{self.job_id}@{self.submitted * 1000:.0f}"

    @property
    def over(self) -> bool:
        """Whether Iris calls the job terminal."""
        return self.state in ENDED_STATES

    @property
    def counts(self) -> tuple[object, ...]:
        """What moves when an attempt of the job starts or ends: equal counts, nothing to read anew."""
        tasks = tuple(sorted(self.task_states.items()))
        return (self.submitted, self.state, self.failures, self.preemptions, self.task_count, tasks)


@dataclass(frozen=True, slots=True)
class JobsPage:
    """One page of `ListJobs`. `entries` counts the jobs sent, unreadable ones (`malformed`) included."""

    jobs: tuple[JobRecord, ...]
    entries: int
    malformed: int
    total: int | None
    more: bool


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt of a task, in Iris's own words; times are Unix seconds."""

    number: int
    state: str
    exit_code: int | None
    error: str
    reason: str
    started: float | None
    finished: float | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task. `current` is the number of its newest attempt, -1 before it was ever placed."""

    task_id: str
    current: int
    attempts: tuple[AttemptRecord, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Accelerators:
    """Chips of one task."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a task's log: Unix seconds, and whose it is (None or "" where the controller does not say)."""

    time: float | None
    text: str
    attempt: int | None
    task: str

    @property
    def rank(self) -> int | None:
        """The number of its task within its job, with which the task's id ends."""
        number = self.task.rpartition("/")[2]
        return int(number) if number.isascii() and number.isdigit() and len(number) <= _LONGEST_RANK else None


def valid_job_id(text: str) -> bool:
    """Whether a text is an id: `/<user>/<job>`, and parts of the same kind behind it for nested jobs.

    The controller answers anything else with `internal`, as if it were broken.
    """
    parts = text.split("/")
    return len(parts) >= 3 and parts[0] == "" and all(parts[1:])


def one_line(text: str) -> str:
    """A text from outside as one short line for people."""
    return " ".join(text.split())[:_DETAIL_LENGTH]


def parse_jobs_page(reply: Mapping[str, object]) -> JobsPage:
    """Read a reply of `ListJobs`; an entry without an id is counted and left out."""
    entries = _objects(reply.get("jobs"))
    jobs = tuple(record for entry in entries if (record := _job(entry)) is not None)
    total = _count(reply.get("totalCount")) if "totalCount" in reply else None
    return JobsPage(jobs, len(entries), len(entries) - len(jobs), total, reply.get("hasMore") is True)


def parse_tasks(reply: Mapping[str, object]) -> tuple[TaskRecord, ...]:
    """Read a reply of `ListTasks`: each task with its newest attempt only."""
    return tuple(task for entry in _objects(reply.get("tasks")) if (task := _task(entry)) is not None)


def parse_task(reply: Mapping[str, object]) -> tuple[TaskRecord | None, Accelerators | None]:
    """Read a reply of `GetTaskStatus`: one task with all its attempts, and the chips it asked for."""
    return _task(reply.get("task")), _accelerators(reply.get("jobResources"))


def parse_log_lines(reply: Mapping[str, object]) -> list[LogLine]:
    """Read a reply of finelog's `FetchLogs`, in its order; an entry without text is left out."""
    lines = []
    for entry in _objects(reply.get("entries")):
        if not isinstance(entry, dict) or not isinstance(entry.get("data"), str):
            continue
        # The key is `<task id>:<attempt>`; the attempt also stands by itself.
        task = _text(entry.get("key")).rpartition(":")[0]
        attempt = _count(entry.get("attemptId"))
        lines.append(LogLine(_time(entry.get("timestamp")), entry["data"], attempt, task))
    return lines


def scheduler_state(job: JobRecord) -> tuple[SchedulerState, str]:
    """Return the state of a job and, in one line, why: the table of Iris's states.

    Iris calls a job RUNNING from its first start on, also while every task waits to be placed again. Of one that it
    gave to a peer it knows what the peer has told, that it still has it, or that it is over: a peer refused it, or it
    was cancelled first.
    """
    ended = ENDED_STATES.get(job.state)
    if ended is None and job.cluster not in ("", "local") and job.peer_status != "PEER_STATUS_SYNCED":
        peer = job.peer_status.removeprefix("PEER_STATUS_").lower() or "unknown"
        if job.state == "JOB_STATE_PENDING" and job.peer_status == "PEER_STATUS_PENDING_SCHEDULING":
            return SchedulerState.PENDING, one_line(f"Iris says pending, to be handed to the peer {job.cluster}")
        return SchedulerState.UNKNOWN, one_line(
            f"runs on the peer {job.cluster}, of which this controller knows: {peer}"
        )
    word = job.state.removeprefix("JOB_STATE_").lower().replace("_", " ")
    if ended is not None:
        return ended, one_line(f"Iris says {word}: {job.error}" if job.error else f"Iris says {word}")
    placed = sum(job.task_states.get(state, 0) for state in _PLACED)
    if job.state == "JOB_STATE_PENDING":
        if job.preemptions and job.started is not None:
            return SchedulerState.PREEMPTED, "it ran, and Iris says pending"
        return SchedulerState.PENDING, "Iris says pending"
    if job.state == "JOB_STATE_BUILDING":
        return SchedulerState.RUNNING, "Iris says building"
    if job.state != "JOB_STATE_RUNNING":
        return SchedulerState.UNKNOWN, one_line(f"Iris says {job.state or 'nothing'}")
    if placed:
        return SchedulerState.RUNNING, "Iris says running"
    if job.task_states.get("pending", 0):
        if job.started is None:
            return SchedulerState.PENDING, "Iris says running, but no task ever started"
        return SchedulerState.PREEMPTED, "Iris says running, but every task waits to be placed again"
    if not job.task_states and not job.task_count:
        return SchedulerState.NO_TASKS, "Iris says running, but there is no task"
    return SchedulerState.RUNNING, "Iris says running, and no task is placed or waits"


def task_counts(job: JobRecord) -> TaskCounts | None:
    """Return the tasks by state, None where Iris did not count them.

    A task that is placed but not running yet counts as pending. Tasks that were killed, with their job or with a gang
    one of whose tasks failed, count in none.
    """
    states = job.task_states
    if not states and job.task_count != 0:
        return None
    running, succeeded = states.get("running", 0), states.get("succeeded", 0)
    pending = sum(states.get(state, 0) for state in ("pending", "assigned", "building"))
    return TaskCounts(running, pending, succeeded, sum(states.get(state, 0) for state in _FAILED_TASKS))


def waiting_word(job: JobRecord, state: SchedulerState, task_messages: Sequence[str] = ()) -> str:
    """Return the word of `mljob_waiting` for a job that waits, else "".

    Kueue's verdict and the pod's waiting reason are in the tasks' messages, the scheduler's in the job's.
    """
    if state is SchedulerState.RUNNING:
        starts = bool(job.task_states) and not job.task_states.get("running", 0)
        return (_known_word(task_messages) or "setup") if starts or job.state == "JOB_STATE_BUILDING" else ""
    if state not in (SchedulerState.PENDING, SchedulerState.PREEMPTED):
        return ""
    # Before the scheduler looked at it Iris says so; a pod's own message is then the better one.
    return _known_word([*task_messages, job.pending_reason]) or "unknown"


def _known_word(texts: Sequence[str]) -> str:
    held = [text.lower() for text in texts]
    return next((word for word, parts in _WAITING_WORDS if any(part in text for text in held for part in parts)), "")


def _job(value: object) -> JobRecord | None:
    if not isinstance(value, dict) or not isinstance(value.get("jobId"), str) or not value["jobId"]:
        return None
    states = value.get("taskStateCounts")
    counted = {key: _count(number) for key, number in states.items()} if isinstance(states, dict) else {}
    return JobRecord(
        job_id=value["jobId"],
        state=_text(value.get("state")),
        submitted=_time(value.get("submittedAt")),
        started=_time(value.get("startedAt")),
        finished=_time(value.get("finishedAt")),
        failures=_count(value.get("failureCount")),
        preemptions=_count(value.get("preemptionCount")),
        task_states={key: number for key, number in counted.items() if number},
        task_count=_count(value.get("taskCount")),
        error=_text(value.get("error")),
        pending_reason=_text(value.get("pendingReason")),
        cluster=_text(value.get("cluster")),
        peer_status=_text(value.get("peerStatus")),
    )


def _task(value: object) -> TaskRecord | None:
    if not isinstance(value, dict) or not isinstance(value.get("taskId"), str):
        return None
    attempts = [attempt for entry in _objects(value.get("attempts")) if (attempt := _attempt(entry)) is not None]
    attempts.sort(key=lambda attempt: attempt.number)
    current = value.get("currentAttemptId", 0)
    if not isinstance(current, int):
        return None
    message = _text(value.get("statusMessage")) or _text(value.get("pendingReason"))
    return TaskRecord(value["taskId"], current, tuple(attempts), message)


def _attempt(value: object) -> AttemptRecord | None:
    number = _count(value.get("attemptId")) if isinstance(value, dict) else None
    if not isinstance(value, dict) or number is None:
        return None
    code = value.get("exitCode", 0)
    return AttemptRecord(
        number=number,
        state=_text(value.get("state")),
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        error=_text(value.get("error")),
        reason=_text(value.get("terminalReason")),
        started=_time(value.get("startedAt")),
        finished=_time(value.get("finishedAt")),
    )


def _accelerators(resources: object) -> Accelerators | None:
    device = resources.get("device") if isinstance(resources, dict) else None
    for kind in ("tpu", "gpu"):
        chips = device.get(kind) if isinstance(device, dict) else None
        count = _count(chips.get("count")) if isinstance(chips, dict) else None
        if isinstance(chips, dict) and count:
            return Accelerators(_text(chips.get("variant")), count)
    return None


def _objects(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    """A number from 0 on, as a number or a text; what is missing is 0, anything else is not known."""
    if value is None:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _time(value: object) -> float | None:
    """Unix seconds of a `Timestamp`, whose epoch 0 stands for none."""
    milliseconds = _count(value.get("epochMs")) if isinstance(value, dict) else None
    return milliseconds / 1000 if milliseconds and milliseconds < 10**15 else None
