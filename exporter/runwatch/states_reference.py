"""Prints docs/states.md, the table that maps every scheduler's states to `mljob_state`, from the parsers' tables."""

from __future__ import annotations

from collections.abc import Iterable

from runwatch.facts import AttemptEnd, SchedulerState
from runwatch.parsing.iris import ENDED_STATES
from runwatch.parsing.iris_attempts import ATTEMPT_ENDS
from runwatch.parsing.kubernetes_reasons import CONTAINER_REASONS, EVICTION_REASONS, FAILED_REASONS, POD_REASONS
from runwatch.parsing.slurm_states import STATES
from runwatch.terminal import write

_STATE_WORDS = {
    SchedulerState.NO_TASKS: "`running`, `vanished` after a tolerance",
    SchedulerState.GONE: "`vanished`, unless another source saw it end",
}
_END_WORDS = {
    AttemptEnd.RUNNING: "goes on",
    AttemptEnd.SUCCEEDED: "done",
    AttemptEnd.PREEMPTED: "interruption, `preemption`",
    AttemptEnd.FAILED: "interruption, `failure`",
    AttemptEnd.WALL_TIME: "interruption, `chain`, when a later link runs or waits",
    AttemptEnd.CANCELLED: "no interruption",
    AttemptEnd.UNKNOWN: "interruption, `unknown`, when the job goes on",
}

_IRIS_ALIVE = (
    ("`PENDING`, never started", "`pending`"),
    ("`BUILDING`; `RUNNING` with a task that runs, builds or is assigned", "`running`"),
    ("`RUNNING`, every task `pending` after an earlier start", "`preempted`"),
    ("`RUNNING` without any task", _STATE_WORDS[SchedulerState.NO_TASKS]),
    ("no record, confirmed by a second question", _STATE_WORDS[SchedulerState.GONE]),
    ("`PENDING` before a peer took it (`PENDING_SCHEDULING`)", "`pending`"),
    ("any other state on a peer that is not `SYNCED`, unless it is over", "`unknown`"),
)
_KUBERNETES_JOB = (
    ("Job `Complete`, JobSet `Completed`; all bare pods `Succeeded`", "`succeeded`"),
    ("Job `Failed`, any other reason than below", "`failed`"),
    ("being deleted, no pod runs", "`killed`"),
    ("some container runs", "`running`"),
    ("suspended or all pods pending, after an earlier start", "`preempted`"),
    ("suspended or all pods pending, never started", "`pending`"),
    ("pods count as active, and none is there", _STATE_WORDS[SchedulerState.NO_TASKS]),
    ("none counts as active, and none is there", "`pending`, once it ran `preempted`"),
    ("no record and no pod", _STATE_WORDS[SchedulerState.GONE]),
    ("the same, and its `ttlSecondsAfterFinished` was over since the look before", "`unknown`"),
    ("pods' phase `Unknown`", "`unknown`"),
)

_HEAD = """# States

What each scheduler says, and what it becomes in `mljob_state` and in the interruptions that gaps are compared with.
Made from the parsers' tables by `make docs`; how state, phase and interruptions are put together stands in
[rules.md](rules.md).
"""


def render() -> str:
    """Return the page."""
    parts = [
        _HEAD,
        _section("SLURM: job", ("state", "becomes"), ((f"`{w}`", _state(m.state)) for w, m in STATES.items())),
        "While a job's successor waits, the state of the run is `timeout` (or how its newest link ended); once the\n"
        "successor runs, it is `running`. A job in `COMPLETING` is over once sacct tells its end. A record that\n"
        "neither squeue nor sacct shows is `vanished`; where SLURM keeps no accounting it is `unknown`.\n",
        _section(
            "SLURM: attempt",
            ("state", "counts as"),
            ((f"`{w}`", _END_WORDS[m.end]) for w, m in STATES.items() if m.state is not SchedulerState.PENDING),
        ),
        _section(
            "Iris: job", ("state", "becomes"), [*_IRIS_ALIVE, *((_bare(w), _state(s)) for w, s in ENDED_STATES.items())]
        ),
        "The job is the newest training child of the configured job; while there is none, the coordinator's own state "
        "counts.\n",
        _section("Iris: attempt", ("state", "counts as"), ((_bare(w), _END_WORDS[e]) for w, e in ATTEMPT_ENDS.items())),
        "`KILLED` is a user's cancel, unless the job went on; `COSCHED_FAILED` takes the cause of the task that fell "
        "first.\n",
        _section(
            "Kubernetes: job",
            ("seen", "becomes"),
            [*_KUBERNETES_JOB, *((f"Job `Failed`, reason `{w}`", _state(s)) for w, s in FAILED_REASONS.items())],
        ),
        _section(
            "Kubernetes: attempt",
            ("reason", "counts as"),
            [
                *((f"container `{w}`", _END_WORDS[e]) for w, e in CONTAINER_REASONS.items()),
                *((f"pod `{w}`", _END_WORDS[e]) for w, e in POD_REASONS.items()),
                ("condition `DisruptionTarget`", _END_WORDS[AttemptEnd.PREEMPTED]),
                *((f"Kueue evicted: `{w}`", _END_WORDS[e]) for w, e in EVICTION_REASONS.items()),
                ("any other exit code than 0", _END_WORDS[AttemptEnd.FAILED]),
            ],
        ),
        "More, with the rights that this takes: [kubernetes-rbac.md](kubernetes-rbac.md).\n",
    ]
    return "\n".join(parts)


def _state(state: SchedulerState) -> str:
    return _STATE_WORDS.get(state, f"`{state.value}`")


def _bare(word: str) -> str:
    return f"`{word.removeprefix('JOB_STATE_').removeprefix('TASK_STATE_')}`"


def _section(title: str, head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {left} | {right} |" for left, right in rows]
    return "\n".join([f"## {title}\n", f"| {head[0]} | {head[1]} |", "|---|---|", *lines, ""])


if __name__ == "__main__":
    write(render())
