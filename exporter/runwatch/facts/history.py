"""What a history of steps holds: W&B, offline W&B, JSON lines or a trainer's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One logged row of a run's history.

    `cursor` orders rows in their source (W&B's `_step`); it is the step only where the trainer logs none of its
    own. `trainer_step` is `trainer/global_step`, `train/global_step` or `global_step`. `values` holds every numeric
    value of the row under its full key, NaN and infinities included; what is not a number is left out.
    `tracker_step` is the row's `_step` where the cursor is another thing (a line's number). `begins_attempt` marks the
    first row of another start of the run, where the source shows that.
    """

    cursor: int
    time: float | None
    trainer_step: int | None
    values: Mapping[str, float]
    tracker_step: int | None = None
    begins_attempt: bool = False


class HistoryEnd(StrEnum):
    """How a history says that its run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """What a history says of the run as a whole, beside its rows.

    `state` is the upstream's own word (`running`, `finished`, `crashed`, ...; "" where there is none).
    `heartbeat` is when the run last spoke to its tracker. `end` is set only where the run itself said that it
    ended: W&B's `crashed` is the server's guess after five minutes of silence and is no end.
    `drops_replayed_steps` is true for W&B: rows below the highest step ever sent are never written.
    `starts_mid_run` is true where what came before the first row was not read (the middle of a huge log): the time of
    the first step, gaps, replayed steps and goodput of the whole run are not known then.
    """

    state: str = ""
    heartbeat: float | None = None
    created: float | None = None
    end: HistoryEnd | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    name: str = ""
    url: str = ""
    drops_replayed_steps: bool = False
    starts_mid_run: bool = False


@dataclass(frozen=True, slots=True)
class HistoryUpdate:
    """New rows of one history, in the order of their source, each row delivered exactly once.

    `reset` tells that everything delivered before is void (the file was rewritten, the run was made anew): the
    digest starts again with these rows. `caught_up` is false while more rows wait at the source (a long first
    read): the job has no progress series until one update was caught up. `malformed` counts the rows or lines of
    this update that could not be read. `age` tells how many seconds ago it was read, where that is not now: it was
    delivered late.
    """

    run: HistoryRun
    rows: Sequence[HistoryRow]
    caught_up: bool = True
    reset: bool = False
    malformed: int = 0
    age: float = 0.0
