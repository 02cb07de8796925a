"""How often a job saves a checkpoint: as its config says, else as its checkpoints' times show."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runwatch.config.durations import parse_duration
from runwatch.derive.trainer_config import lookup
from runwatch.facts import Checkpoint, TrainerFacts
from runwatch.thresholds import MEDIAN_MINIMUM_COUNT

_TIMEDELTA_TEXT = re.compile(r"(?:([0-9]{1,6}) days?, )?([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]+)?)")
_TIMEDELTA_PARTS = {
    "weeks": 604800.0,
    "days": 86400.0,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "milliseconds": 1e-3,
    "microseconds": 1e-6,
}
_LONGEST_SPAN = 1e15  # numbers beyond mean nothing here, and very large whole numbers have no float


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds between checkpoints, and where they come from."""

    seconds: float
    source: str


def read_time_span(value: object) -> float | None:
    """Return seconds above zero, or None for what is no span of time.

    Forms in which trackers store Levanter's `timedelta`: a number of seconds, `str(timedelta)` ("0:15:00",
    "1 day, 2:00:00"), a mapping of `timedelta`'s arguments, and texts with units ("10m").
    """
    seconds = _seconds(value)
    return seconds if seconds is not None and 0 < seconds <= _LONGEST_SPAN else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) <= _LONGEST_SPAN else None
    if isinstance(value, Mapping):
        return _sum_of_parts(value)
    if not isinstance(value, str):
        return None
    if matched := _TIMEDELTA_TEXT.fullmatch(value.strip()):
        days, hours, minutes, seconds = matched.groups(default="0")
        return int(days) * 86400.0 + int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)
    try:
        return parse_duration(value)
    except ValueError:
        return None


def _sum_of_parts(parts: Mapping[object, object]) -> float | None:
    total = 0.0
    for name, amount in parts.items():
        if name not in _TIMEDELTA_PARTS or isinstance(amount, bool) or not isinstance(amount, int | float):
            return None
        if abs(amount) > _LONGEST_SPAN:
            return None
        total += _TIMEDELTA_PARTS[str(name)] * amount
    return total


def checkpoint_interval(
    checkpoints: Sequence[Checkpoint],
    *,
    step_duration: float | None,
    trainer_config: Mapping[str, object],
    configured: float | None,
    trainer: TrainerFacts | None = None,
) -> Interval | None:
    """Return the interval from the first of these that gives one.

    The job's `config.checkpoint_interval`; Levanter's `trainer.checkpointer.save_interval`; HF's `save_steps` (a
    whole number, under the save strategy `steps`) and SkyRL's `ckpt_interval`, times `step_duration` in seconds;
    `save_steps` of the newest checkpoint's `trainer_state.json`, times the same, where the saved steps bear it out;
    the median time between complete checkpoints.
    """
    if configured is not None:
        return Interval(configured, "config.checkpoint_interval")
    path = "trainer.checkpointer.save_interval"
    saved_each = read_time_span(lookup(trainer_config, path))
    if saved_each is not None:
        return Interval(saved_each, f"tracker's config {path}")
    return (
        _from_steps(trainer_config, step_duration)
        or _from_state(trainer, checkpoints, trainer_config, step_duration)
        or _measured(checkpoints)
    )


def _from_steps(trainer_config: Mapping[str, object], step_duration: float | None) -> Interval | None:
    if step_duration is None or step_duration <= 0:
        return None
    for path in ("save_steps", "trainer.ckpt_interval", "ckpt_interval"):
        if path == "save_steps" and not _saves_by_steps(trainer_config):
            continue
        steps = _whole_number(lookup(trainer_config, path))
        if steps is not None:
            source = f"tracker's config {path} {steps} x {step_duration:g} s a step"
            return Interval(steps * step_duration, source)
    return None


def _from_state(
    trainer: TrainerFacts | None,
    checkpoints: Sequence[Checkpoint],
    trainer_config: Mapping[str, object],
    step_duration: float | None,
) -> Interval | None:
    """Use `save_steps` of the state, which does not hold the save strategy: the saved steps have to agree with it."""
    if trainer is None or trainer.save_steps is None or step_duration is None or step_duration <= 0:
        return None
    if not _saves_by_steps(trainer_config) or not _bears_out(trainer, trainer.save_steps, checkpoints):
        return None
    source = f"save_steps {trainer.save_steps} in trainer_state.json x {step_duration:g} s a step"
    return Interval(trainer.save_steps * step_duration, source)


def _bears_out(trainer: TrainerFacts, save_steps: int, checkpoints: Sequence[Checkpoint]) -> bool:
    """Tell whether the complete checkpoints are those of a job that saves each `save_steps` steps.

    The last step is saved in any case. All others lie on multiples, and two neighbours one interval apart; where fewer
    are kept, the newest must not have been saved at the end of an epoch.
    """
    saved = {c.step for c in checkpoints if c.complete and c.layout == "hf"}
    regular = sorted(step for step in saved if step != trainer.max_steps)
    if not regular or any(step % save_steps for step in regular):
        return False
    if len(regular) > 1:
        return any(later - earlier == save_steps for earlier, later in pairwise(regular))
    return trainer.global_step == regular[0] and trainer.epoch is not None and trainer.epoch % 1 > 0


def _saves_by_steps(trainer_config: Mapping[str, object]) -> bool:
    """HF keeps the default `save_steps` beside the strategies `epoch`, `best` and `no`, which do not use it."""
    strategy = lookup(trainer_config, "save_strategy")
    return strategy is None or str(strategy).lower().rpartition(".")[2] == "steps"


def _whole_number(value: object) -> int | None:
    """Steps from 1 on. HF's `save_steps` below 1 is a share of the run, SkyRL's `ckpt_interval` -1 means never."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _LONGEST_SPAN:
        return None
    return int(value) if value == int(value) else None


def _measured(checkpoints: Sequence[Checkpoint]) -> Interval | None:
    """Temporary and permanent ones have rhythms of their own. Where both show one, the shorter is how often a
    checkpoint comes. A step below several roots was saved once and copied since."""
    times: dict[str, dict[int, float]] = {}
    for checkpoint in checkpoints:
        unknown_kind = checkpoint.layout == "levanter" and not checkpoint.kind
        if checkpoint.saved_at is not None and checkpoint.complete and not unknown_kind:
            by_step = times.setdefault(checkpoint.kind, {})
            by_step[checkpoint.step] = min(checkpoint.saved_at, by_step.get(checkpoint.step, checkpoint.saved_at))
    intervals: list[Interval] = []
    for kind, by_step in sorted(times.items()):
        saved = sorted(by_step.values())
        if len(saved) < MEDIAN_MINIMUM_COUNT:
            continue
        median = statistics.median(later - earlier for earlier, later in pairwise(saved))
        if median > 0:  # copied folders may all carry one time
            named = f"{kind} checkpoints" if kind else "checkpoints"
            intervals.append(Interval(median, f"median time between {len(saved)} complete {named}"))
    return min(intervals, key=lambda interval: interval.seconds, default=None)
