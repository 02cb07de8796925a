"""Checkpoint folders, complete and partial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint folder.

    `saved_at` is the time of the commit marker's object, never a time written inside it (Levanter's is naive local
    time); None while partial. `kind` is "permanent", "temporary" or "" where the layout does not say.
    `evidence` says in one line why it is complete or partial.
    """

    step: int
    root: str
    path: str
    complete: bool
    evidence: str
    saved_at: float | None = None
    kind: str = ""
    layout: str = ""


def newest_complete(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the complete checkpoint of the highest step, over every root; of two at one step the later saved."""
    complete = [checkpoint for checkpoint in checkpoints if checkpoint.complete]
    return max(complete, key=lambda checkpoint: (checkpoint.step, checkpoint.saved_at or 0.0), default=None)


@dataclass(frozen=True, slots=True)
class TrainerFacts:
    """What a Hugging Face checkpoint's `trainer_state.json` says. None is "not said".

    `max_steps` are the steps to do in all, `save_steps` how many lie between saves where the job saves by steps: the
    Trainer keeps its default there also where it does not. `epoch` is how far it was, a whole number at an epoch's end.
    `logged_step` is the step of the newest row with a training loss; its values may be NaN or infinite.
    """

    global_step: int
    max_steps: int | None = None
    save_steps: int | None = None
    epoch: float | None = None
    logged_step: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None


@dataclass(frozen=True, slots=True)
class CheckpointListing:
    """Every checkpoint folder below all roots of a job, and notes for `explain` (an empty root beside a full one).

    `trainer` is what the newest complete checkpoint says of the trainer, None where it is of another layout or was not
    read. `completed` is whether the end of the newest `trainer_log.jsonl` directly below a root confirms that every
    step is done: false is "not confirmed", never "not done". `completed_at` is when that was written, Unix seconds by
    the store's clock; `trainer_log` says in one line what was read, "" where there is no such file.
    `not_looked_into` counts the oldest folders, where there are too many to look into each: whether they are complete
    is not known. `age` tells how many seconds ago the look began, where it was too slow to be delivered at once.
    """

    checkpoints: tuple[Checkpoint, ...]
    notes: tuple[str, ...] = ()
    trainer: TrainerFacts | None = None
    completed: bool = False
    completed_at: float | None = None
    trainer_log: str = ""
    not_looked_into: int = 0
    age: float = 0.0
