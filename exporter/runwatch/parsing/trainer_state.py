"""Hugging Face's `trainer_state.json`, in every checkpoint and at the end: rows in full precision, with their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runwatch.facts import TrainerFacts
from runwatch.parsing.history_rows import MalformedRow, number, parse_json_line, whole_number
from runwatch.parsing.hugging_face_log import metric_key
from runwatch.parsing.log_records import LogRow


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What the state says: the step of the checkpoint, the steps to do (None where not said), and the logged rows.

    `malformed` counts entries of the log without a step. `save_steps` is None unless it is a number of steps. `epoch`
    is how far the checkpoint is, in epochs.
    """

    global_step: int
    max_steps: int | None
    rows: tuple[LogRow, ...]
    save_steps: int | None = None
    malformed: int = 0
    epoch: float | None = None


def parse_trainer_state(content: bytes) -> TrainerState:
    """Read a `trainer_state.json`.

    Raises:
        MalformedRow: it is no JSON object (it is not written atomically), or has no `global_step`.
    """
    return read_trainer_state(parse_json_line(content))


def read_trainer_state(state: Mapping[str, object]) -> TrainerState:
    """Read the object that a `trainer_state.json` holds.

    Raises:
        MalformedRow: it has no `global_step`.
    """
    step = whole_number(state.get("global_step"))
    if step is None:
        raise MalformedRow("no global_step: expected a whole number, 0 or more")
    history = state.get("log_history")
    entries: list[object] = history if isinstance(history, list) else []
    rows: list[LogRow] = []
    malformed = 0
    for entry in entries:
        row = _read_entry(entry)
        if row is None:
            malformed += 1
        elif "train/train_runtime" not in row.values:  # the summary of the whole run is no step's row
            rows.append(row)
    max_steps = whole_number(state.get("max_steps"))
    save_steps = _steps_between_saves(state.get("save_steps"))
    return TrainerState(step, max_steps or None, tuple(rows), save_steps, malformed, number(state.get("epoch")))


def trainer_facts(state: TrainerState) -> TrainerFacts:
    """Return what is kept of a state: its counters, and its newest row with a training loss."""
    row = next((row for row in reversed(state.rows) if "train/loss" in row.values), None)
    return TrainerFacts(
        global_step=state.global_step,
        max_steps=state.max_steps,
        save_steps=state.save_steps,
        epoch=state.epoch,
        logged_step=None if row is None else row.step,
        loss=None if row is None else row.values["train/loss"],
        grad_norm=None if row is None else row.values.get("train/grad_norm"),
        learning_rate=None if row is None else row.values.get("train/learning_rate"),
    )


def _read_entry(entry: object) -> LogRow | None:
    if not isinstance(entry, dict):
        return None
    step = whole_number(entry.get("step"))
    if step is None:
        return None
    values = {
        metric_key(key): value for key, raw in entry.items() if key != "step" and (value := number(raw)) is not None
    }
    return LogRow(step, values)


def _steps_between_saves(value: object) -> int | None:
    """Read `save_steps`; a fraction of the whole run, which the Trainer also takes, is resolved before it is stored."""
    steps = whole_number(value)
    return steps if steps else None
