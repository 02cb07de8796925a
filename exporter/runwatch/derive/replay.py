"""Steps done again after resuming from an older checkpoint.

Where the history shows steps going back they are counted there. W&B drops rows below the highest step ever sent, so
after a restart its history is frozen while the trainer works its way back up: then the checkpoint that the restart
resumed from tells how many steps were done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.derive.step_timeline import StepInterval
from runwatch.facts import Checkpoint

_SAVE_SLACK_SECONDS = 60.0
"""The trainer's clock and the object store's differ a little, and the run's clock begins before its first step."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Steps done again within one interval; None when no checkpoint tells. `resumed_from` is the checkpoint's step."""

    interval: StepInterval
    steps: int | None
    resumed_from: int | None


def replays_behind_high_water(
    restarts: Sequence[StepInterval], checkpoints: Sequence[Checkpoint], step_duration: float | None
) -> tuple[Replay, ...]:
    """Say for each restart of a frozen history how many steps were done again.

    The checkpoint resumed from is the newest complete one that was saved before the restart, at or below the
    high-water step. The restart lies where the run's own clock, counted back from the interval's end, begins. A
    checkpoint whose steps would take longer than the run has been up since is not the one (that has been deleted, as
    temporary ones are): then the number is not known.
    """
    complete = sorted(
        ((c.step, c.saved_at) for c in checkpoints if c.complete and c.saved_at is not None), reverse=True
    )
    found: list[Replay] = []
    for interval in restarts:
        running = interval.running_seconds if interval.running_seconds is not None else 0.0
        restart = interval.end - running + _SAVE_SLACK_SECONDS
        resumed_from = next(
            (step for step, saved in complete if step <= interval.start_step and saved <= restart), None
        )
        steps = None
        if resumed_from is not None and step_duration is not None:
            again = interval.start_step - resumed_from
            steps = again if again * step_duration <= running else None
        found.append(Replay(interval, steps, resumed_from if steps is not None else None))
    return tuple(found)
