"""The records that pass between the log reader, the trainers' parsers and the log's own facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogFragment:
    """One piece of a log between two of newline, carriage return and cursor-up, stripped of ANSI and of prefixes.

    `rank` is the process that wrote it where a prefix says so (`[rank3]: `, srun's `3: `), `actor` Ray's. `time` is
    the line's own stamp in Unix seconds, where it has one that the parser of prefixes knows. `bar` is true for a
    piece that ended in a carriage return or cursor-up: a progress bar redraws itself so.
    """

    text: str
    rank: int | None = None
    actor: str = ""
    time: float | None = None
    bar: bool = False


@dataclass(frozen=True, slots=True)
class LogRow:
    """One step's metrics in a trainer's log, in the order of the log.

    `values` are under the keys that W&B would have for this trainer (`train/loss`, `policy/policy_loss`, ...).
    `time` is the line's own stamp, `elapsed` the seconds of the attempt's progress bar; either may be None.
    `attempt` counts the starts of the trainer within the log: elapsed times of different attempts do not compare.
    """

    step: int
    values: Mapping[str, float]
    time: float | None = None
    elapsed: float | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class LogFailure:
    """A line that tells how a job ended. `reason` is a word of `mljob_end_reason`; `text` the line, for `explain`."""

    reason: str
    text: str
    time: float | None = None


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One finished trial of a Harbor job, as its `result.json` tells it; times are Unix seconds.

    `reward` is None without a valid one. `turns` is None where the agent did not run or counts none. `exception` is
    the bare class name, "" without. `instant` is true when it made no output tokens and its agent phase lasted under
    5 s.
    """

    name: str
    reward: float | None
    agent_ran: bool
    turns: float | None
    exception: str
    instant: bool
    finished: float | None
