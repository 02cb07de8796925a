"""The one table of SLURM's job states, reasons and exit codes, and what each means here.

States: `squeue(1)`, JOB STATE CODES, and `sacct(1)`, 21.08 to 25.11. Reasons: `squeue(1)`, JOB REASON CODES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runwatch.facts import AttemptEnd, SchedulerState


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """What a SLURM state says of the job, of its attempt, and whether its record will change no more."""

    state: SchedulerState
    end: AttemptEnd
    terminal: bool = False


_WAITS = StateMeaning(SchedulerState.PENDING, AttemptEnd.UNKNOWN)
_RUNS = StateMeaning(SchedulerState.RUNNING, AttemptEnd.RUNNING)
# Put back into the queue by a person, by itself before its time limit, or by a rule of the site. A preemption has a
# word of its own in accounting; where only squeue tells, they look alike.
_WAITS_AGAIN = StateMeaning(SchedulerState.PREEMPTED, AttemptEnd.UNKNOWN)
_FAILED = StateMeaning(SchedulerState.FAILED, AttemptEnd.FAILED, terminal=True)

COMPLETING = "COMPLETING"

STATES: Mapping[str, StateMeaning] = {
    "PENDING": _WAITS,
    "RESV_DEL_HOLD": _WAITS,
    "RUNNING": _RUNS,
    # Has its nodes, which boot: the attempt has begun.
    "CONFIGURING": _RUNS,
    # Its end is told by accounting alone before the last process is gone.
    COMPLETING: _RUNS,
    "RESIZING": _RUNS,
    "SIGNALING": _RUNS,
    "STAGE_OUT": _RUNS,
    # Stopped by a signal with its nodes kept.
    "STOPPED": _RUNS,
    # Gave its nodes to another job and goes on later: the same attempt, waiting.
    "SUSPENDED": StateMeaning(SchedulerState.PREEMPTED, AttemptEnd.RUNNING),
    "REQUEUED": _WAITS_AGAIN,
    "REQUEUE_FED": _WAITS_AGAIN,
    "REQUEUE_HOLD": _WAITS_AGAIN,
    "SPECIAL_EXIT": _WAITS_AGAIN,
    # Ended by preemption for good: one that is to run again is shown as PENDING, and this row of it is followed.
    "PREEMPTED": StateMeaning(SchedulerState.FAILED, AttemptEnd.PREEMPTED, terminal=True),
    "COMPLETED": StateMeaning(SchedulerState.SUCCEEDED, AttemptEnd.SUCCEEDED, terminal=True),
    "TIMEOUT": StateMeaning(SchedulerState.TIMEOUT, AttemptEnd.WALL_TIME, terminal=True),
    "CANCELLED": StateMeaning(SchedulerState.KILLED, AttemptEnd.CANCELLED, terminal=True),
    "FAILED": _FAILED,
    "NODE_FAIL": _FAILED,
    "BOOT_FAIL": _FAILED,
    "LAUNCH_FAILED": _FAILED,
    "RECONFIG_FAIL": _FAILED,
    "OUT_OF_MEMORY": _FAILED,
    # Not the wall-time limit: the point in time that its owner set, past which the work is of no use.
    "DEADLINE": _FAILED,
    # Another cluster of the federation started it: nothing is known of it here.
    "REVOKED": StateMeaning(SchedulerState.UNKNOWN, AttemptEnd.UNKNOWN, terminal=True),
}

OVER_FOR_GOOD = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
"""Ends after which SLURM does not start a job anew by itself, as it may after that of a node or a preemption."""

_NOT_KNOWN = StateMeaning(SchedulerState.UNKNOWN, AttemptEnd.UNKNOWN)

_ENDED_FROM_OUTSIDE = frozenset({"TIMEOUT", "CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REQUEUED"})
"""Ends that the program did not choose.

scontrol gives the signal that SLURM sent, or the code of a shell that caught it (0:15, 143:0), sacct gives 0:0.
"""


_LARGEST_SIGNAL = 64
"""Linux has no signal above. SLURM marks what the kernel killed for want of memory with 125, which is no signal."""

OUT_OF_MEMORY = (0, 125)
"""That mark, as exit code and signal: of a step too, whose job then ends with what its script makes of it."""


def meaning(word: str) -> StateMeaning:
    """Return what a state means; a word that is not known says neither that the job lives nor that it ended."""
    return STATES.get(word, _NOT_KNOWN)


def state_word(text: str) -> str:
    """Return the state of `CANCELLED by 1000` (sacct) or `COMPLETING+` without what stands behind it."""
    return text.split(" ", 1)[0].rstrip("+").upper() if text else ""


def parse_exit(text: str) -> tuple[int, int] | None:
    """Read `3:0` or `0:9`: the exit code and the signal; None where there is neither."""
    code, colon, sent = text.partition(":")
    if not (colon and code.isascii() and code.isdigit() and sent.isascii() and sent.isdigit()):
        return None
    return int(code), int(sent)


def exit_code(word: str, exited: tuple[int, int] | None) -> int | None:
    """Return a job's exit code; of a program that a signal ended, 128 and the signal, as shells count.

    None while the job is not over, where SLURM ended it, and where it only marks a kill for want of memory.
    """
    if exited is None or not meaning(word).terminal or word in _ENDED_FROM_OUTSIDE:
        return None
    return as_shells_count(*exited)


def as_shells_count(code: int, sent: int) -> int | None:
    """Return the code, or 128 and the signal where there is none; None for a mark that is neither."""
    if code or not sent:
        return code
    return 128 + sent if sent <= _LARGEST_SIGNAL else None


def how_it_ended(code: int, sent: int) -> str:
    """Say which signal or exit code ended a program."""
    if code or not sent:
        return f"exit code {code}"
    return f"signal {sent}" if sent <= _LARGEST_SIGNAL else "killed for want of memory"


# fmt: off
_WAITING: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dependency", ("Dependency",)),
    ("capacity", ("MaxPoweredUpNodes",)),
    (
        "quota",
        (
            "QOS", "Assoc", "Max", "AccountNotAllowed", "AccountingPolicy", "InvalidQOS", "InvalidAccount",
            "JobArrayTaskLimit", "PartitionTimeLimit", "PartitionNodeLimit",
        ),
    ),
    (
        "capacity",
        (
            "Resources", "Nodes", "ReqNodeNotAvail", "Licenses", "NodeDown", "BurstBuffer", "PartitionDown",
            "PartitionInactive", "FrontEndDown", "Power",
        ),
    ),
    (
        "queue",
        (
            "Priority", "BeginTime", "Prolog", "Reservation", "Held", "JobHeld", "JobHold", "None", "Cleaning",
            "SchedDefer", "FedJobLock", "job requeued in held state", "launch failed requeued held",
        ),
    ),
)
# fmt: on
"""The words of `mljob_waiting` with how SLURM's reasons begin; the first that fits counts."""


def waiting(reason: str) -> str:
    """Return the word of `mljob_waiting` for the reason that squeue gives of a pending job."""
    bare = reason.strip("()")
    return next((word for word, starts in _WAITING if bare.startswith(starts)), "unknown")


def can_start(reason: str) -> bool:
    """Tell whether a pending job may still start."""
    return not reason.strip("()").startswith(
        ("DependencyNeverSatisfied", "BadConstraints", "InvalidAccount", "InvalidQOS")
    )
