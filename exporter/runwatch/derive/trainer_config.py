"""What a trainer's own configuration, as a tracker recorded it, says of steps, batch and sequence length.

Formats: Levanter's nested dataclass (`trainer.num_train_steps`, `trainer.train_batch_size` as a number or a schedule
of `{start, value}`, `train_seq_len` or `model.max_seq_len`), HF's flat TrainingArguments (`max_steps`, -1 for none).
HF's `train_batch_size` is that of one process, not of the job, so it is not taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runwatch.config.model import TrainerConfig
from runwatch.facts import TrainerFacts


@dataclass(frozen=True, slots=True)
class Origin:
    """A whole number above zero and where it was found, for `explain`."""

    value: int
    source: str


def lookup(config: Mapping[str, object], dotted: str) -> object:
    """Return the value at a dotted path of a nested mapping, or under the dotted name itself; None if there is none."""
    if dotted in config:
        return config[dotted]
    value: object = config
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value != int(value) or value < 1:
        return None
    return int(value)


def _first(config: Mapping[str, object], paths: Sequence[str]) -> Origin | None:
    for path in paths:
        value = _whole(lookup(config, path))
        if value is not None:
            return Origin(value, f"tracker's config {path}")
    return None


def target_steps(
    config: Mapping[str, object], own: TrainerConfig, trainer: TrainerFacts | None = None, *, step: int | None = None
) -> Origin | None:
    """Return how many steps the job is to make.

    Args:
        config: the trainer's configuration, as a tracker or a log tells it.
        own: the job's configuration here, which comes first.
        trainer: what the newest checkpoint says of the trainer, which comes last: a job that was resumed for more
            steps has the former number in it until its next save.
        step: the job's newest step. A number of steps that lies below it is such a former one.
    """
    if own.num_train_steps is not None:
        return Origin(own.num_train_steps, "config.num_train_steps")
    told = _first(config, ("trainer.num_train_steps", "num_train_steps", "max_steps"))
    if told is not None or trainer is None or trainer.max_steps is None:
        return told
    if step is not None and step > trainer.max_steps:
        return None
    return Origin(trainer.max_steps, f"max_steps in trainer_state.json of the checkpoint at step {trainer.global_step}")


def sequence_length(config: Mapping[str, object], own: TrainerConfig) -> Origin | None:
    """Return tokens a sequence."""
    if own.max_seq_len is not None:
        return Origin(own.max_seq_len, "config.max_seq_len")
    return _first(config, ("train_seq_len", "model.max_seq_len"))


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Sequences a step, over the run: `values[i]` holds from step `starts[i]` on. `starts[0]` is 0."""

    starts: tuple[int, ...]
    values: tuple[int, ...]
    source: str

    def at(self, step: int) -> int:
        """Return the batch size of a step."""
        return next(
            value for start, value in zip(reversed(self.starts), reversed(self.values), strict=True) if start <= step
        )


def batch_size(config: Mapping[str, object], own: TrainerConfig) -> BatchSize | None:
    """Return sequences a step (a number or Levanter's schedule), or None when it is not known or not understood."""
    if own.train_batch_size is not None:
        return BatchSize((0,), (own.train_batch_size,), "config.train_batch_size")
    if "per_device_train_batch_size" in config or lookup(config, "generator.n_samples_per_prompt") is not None:
        return None  # HF: a process's; SkyRL: prompts, not sequences
    for path in ("trainer.train_batch_size", "train_batch_size"):
        value = lookup(config, path)
        whole = _whole(value)
        if whole is not None:
            return BatchSize((0,), (whole,), f"tracker's config {path}")
        schedule = _schedule(value)
        if schedule is not None:
            return BatchSize(*schedule, f"tracker's config {path}")
    return None


def _schedule(value: object) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    segments: list[tuple[int, int]] = []
    for entry in value:
        if not isinstance(entry, Mapping):
            return None
        start, size = entry.get("start"), _whole(entry.get("value"))
        if isinstance(start, bool) or not isinstance(start, int) or start < 0 or size is None:
            return None
        segments.append((start, size))
    segments.sort()
    if segments[0][0] != 0:
        return None
    return tuple(start for start, _ in segments), tuple(size for _, size in segments)
