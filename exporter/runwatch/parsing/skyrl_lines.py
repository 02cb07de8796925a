"""The lines of a SkyRL driver's log, each read by itself.

All are loguru lines (`TIME | LEVEL | module:function:line - message`); only the continuation of a printed block is
not. Sources: SkyRL's `train/trainer.py`, `train/utils/tracking.py` and the fork marin-community/MarinSkyRL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runwatch.parsing.history_rows import MalformedRow, parse_json_line, parse_row
from runwatch.parsing.log_values import log_number, scan_pairs

BAR_DESCRIPTIONS = frozenset({"Training Batches Processed", "Training Step Progress"})
"""The sync and the fully async trainer's bar; generation, buffer and workers have others."""

POLICY_STATUS_KEYS = frozenset({"policy_loss", "final_loss"})
CRITIC_STATUS_KEY = "critic_loss"
_BLOCK_KEYS = re.compile(
    r"(?:policy|reward|reward_dropped|trainer|generate|timing|async|loss|eval|critic|tis|vllm|train)/"
)
_MIRROR = re.compile(r"WANDB_MIRROR kind=\w{1,30} step=(\d{1,15}) metrics=", re.ASCII)
_MIRROR_START = "WANDB_MIRROR "
_BLOCK_HEADER = re.compile(r"Step (\d{1,15}):", re.ASCII)
_SFT_STEP = re.compile(r"Step (\d{1,15}): (loss=.{1,400})", re.ASCII)
_TIMER = re.compile(r"Finished: '([\w/]{1,80})', time cost: (\d{1,12}(?:\.\d{1,12})?)s", re.ASCII)
_TOTAL = re.compile(r"Total training steps: ([\d,]{1,20})", re.ASCII)
_SAVED = re.compile(r"Successfully saved checkpoint for global_step_(\d{1,15}) to: .{0,2000}", re.ASCII)
_LOADED = re.compile(r"Successfully loaded complete checkpoint state from global_step_(\d{1,15})\b.{0,2000}", re.ASCII)
_COMPLETED = frozenset({"Training done!", "Training already complete on resume — exiting cleanly."})
_ROLLOUTS = re.compile(r" \(effective_batch=(\d{1,9}|N/A) samples\)\Z", re.ASCII)
"""The fork says behind the rewards over how many rollouts they are the mean, where its trainer drops some."""


@dataclass(frozen=True, slots=True)
class Values:
    """Metrics of the current step; `begins` tells that their kind comes once a step."""

    values: Mapping[str, float]
    begins: bool = True


@dataclass(frozen=True, slots=True)
class StepValues:
    """Metrics with their step. `mirrored` marks the fork's own line, which has every key in full precision."""

    step: int
    values: Mapping[str, float]
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """A block of metrics follows, one or more pairs a line."""

    step: int


@dataclass(frozen=True, slots=True)
class Total:
    """How many steps there will be."""

    steps: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint of this step was saved."""

    step: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The trainer goes on from this step."""

    step: int


@dataclass(frozen=True, slots=True)
class Completed:
    """Training came to its end."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """It looks like metrics and cannot be read."""


SkyrlLine = Values | StepValues | BlockHeader | Total | Saved | Loaded | Completed | Unreadable


def read_message(message: str) -> SkyrlLine | None:
    """Read the message of one loguru line; None where it is none of these."""
    first = message[:1]
    if first == "{":
        return _read_status(message)
    if first == "r" and message.startswith("reward/"):
        return _read_rewards(message)
    if first == "W" and message.startswith(_MIRROR_START):
        return _read_mirror(message)
    if first == "F" and (timer := _TIMER.fullmatch(message)) is not None:
        return Values({f"timing/{timer[1]}": float(timer[2])}, begins=False)
    if first == "S":
        return _read_step(message)
    if first == "T":
        if message in _COMPLETED:
            return Completed()
        if (total := _TOTAL.fullmatch(message)) is not None:
            number = log_number(total[1])
            return Total(int(number)) if number is not None and number > 0 else None
    return None


def read_block_line(text: str) -> tuple[Mapping[str, float], bool] | None:
    """Read one line of a printed block.

    Returns:
        Its values, and whether the block ends with it; None where the line is no part of a block.
    """
    stripped = text.strip()
    if not stripped.startswith(("'", "{'")):
        return None
    pairs = scan_pairs(stripped)
    if pairs is None:
        return None
    return pairs.values, pairs.closed


def is_training_bar(text: str) -> bool:
    """Tell whether a progress bar is the trainer's own."""
    return text.lstrip().startswith(tuple(f"{description}: " for description in BAR_DESCRIPTIONS))


def is_metrics_block(values: Mapping[str, float]) -> bool:
    """Tell whether a block has at least one of SkyRL's keys."""
    return any(_BLOCK_KEYS.match(key) for key in values)


def _read_status(message: str) -> SkyrlLine | None:
    """Read the status dict of the policy's or the critic's training, whose keys lack their prefix."""
    pairs = scan_pairs(message)
    if pairs is None or not pairs.closed:
        return Unreadable() if message.startswith(("{'policy_loss'", "{'final_loss'")) else None
    if not pairs.keys.isdisjoint(POLICY_STATUS_KEYS):
        return Values({f"policy/{key}": value for key, value in pairs.values.items()})
    if CRITIC_STATUS_KEY in pairs.keys:
        return Values({f"critic/{key}": value for key, value in pairs.values.items()})
    return None


def _read_rewards(message: str) -> SkyrlLine:
    values: dict[str, float] = {}
    if (rollouts := _ROLLOUTS.search(message)) is not None:
        message = message[: rollouts.start()]
        if rollouts[1] != "N/A":
            values["async/effective_batch_samples"] = float(rollouts[1])
    for pair in message.split(", "):
        key, colon, value = pair.partition(": ")
        number = log_number(value)
        if not colon or not key.startswith("reward/") or number is None or len(values) >= 50:
            return Unreadable()
        values[key] = number
    return Values(values)


def _read_mirror(message: str) -> SkyrlLine:
    found = _MIRROR.match(message)
    if found is None:
        return Unreadable()
    step = int(found[1])
    try:
        row = parse_row(parse_json_line(message[found.end() :].encode("utf-8", errors="replace")), cursor=step)
    except MalformedRow:
        return Unreadable()
    return StepValues(step, row.values, mirrored=True)


def _read_step(message: str) -> SkyrlLine | None:
    if (header := _BLOCK_HEADER.fullmatch(message)) is not None:
        return BlockHeader(int(header[1]))
    if (saved := _SAVED.fullmatch(message)) is not None:
        return Saved(int(saved[1]))
    if (loaded := _LOADED.fullmatch(message)) is not None:
        return Loaded(int(loaded[1]))
    if (sft := _SFT_STEP.fullmatch(message)) is not None:
        pairs = [pair.partition("=") for pair in sft[2].split(", ")]
        values = {f"train/{key}": number for key, _, value in pairs if (number := log_number(value)) is not None}
        return StepValues(int(sft[1]), values) if "train/loss" in values else Unreadable()
    return None
