"""Which folders are checkpoints, and which of them are complete.

A checkpoint is complete once its commit marker is there, the object that the trainer writes last:

| layout | folder | commit marker |
|---|---|---|
| Levanter (`levanter/checkpoint.py`) | `step-N` | `metadata.json` with a whole `step` and an ISO `timestamp` |
| Hugging Face Trainer (`transformers/trainer.py`) | `checkpoint-N` | `trainer_state.json` with a `global_step` |
| SkyRL (`trainer.py`) | `global_step_N` | `trainer_state.pt`, and N <= the parent's `latest_ckpt_global_step.txt` |
| SkyRL, fully async (`fully_async_trainer.py`) | `global_step_N` | the same, and `fully_async_state.pt` |
| MarinSkyRL (`checkpoint_generation.py`) | `global_step_N` | `checkpoint_commit.json` whose step is N |

The Trainer's `_save_checkpoint` writes model, optimizer, scheduler and random states before `trainer_state.json`, so
that file closes what its process writes (other ranks' random states may follow within moments). It is not written
atomically, so its content decides. SkyRL writes `fully_async_state.pt` after the latest file, and nothing in a folder
tells a synchronous run from an asynchronous one that died before it: a run is taken for asynchronous as soon as any
step folder beside it holds that file.

A marker whose data is seen to be empty or missing makes nothing complete: `checkpoint_payloads` says what shows that.
SkyRL with Megatron may write the latest file before its asynchronous saves are on disk; torch's own index tells then.
A committed attempt of MarinSkyRL is believed, and so is Levanter's marker: by Levanter's own rule it alone decides.

What cannot be told: where `export_path` is `ckpt_path` an export's `global_step_N` without a checkpoint looks like a
partial one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from runwatch.facts import TrainerFacts
from runwatch.parsing.history_rows import MalformedRow
from runwatch.parsing.trainer_state import read_trainer_state, trainer_facts

LEVANTER_MARKER = "metadata.json"
HUGGING_FACE_MARKER = "trainer_state.json"
SKYRL_STATE = "trainer_state.pt"
SKYRL_ASYNC_STATE = "fully_async_state.pt"
SKYRL_LATEST = "latest_ckpt_global_step.txt"
SKYRL_COMMIT = "checkpoint_commit.json"
STEP_MARKERS = frozenset({LEVANTER_MARKER, HUGGING_FACE_MARKER, SKYRL_STATE, SKYRL_ASYNC_STATE, SKYRL_COMMIT})
"""The objects directly in a step folder that decide anything."""

_WHOLE_NUMBER = re.compile(rb"\s*([0-9]{1,18})\s*")


class Layout(StrEnum):
    """The trainers whose checkpoint folders are known."""

    LEVANTER = "levanter"
    HUGGING_FACE = "hf"
    SKYRL = "skyrl"


# Anchored by fullmatch: `global_step_5_eval` (dumped rollouts) and `tmp-checkpoint-5` are no checkpoints.
_FOLDER_NAMES = {
    Layout.LEVANTER: re.compile(r"step-([0-9]{1,18})"),
    Layout.HUGGING_FACE: re.compile(r"checkpoint-([0-9]{1,18})"),
    Layout.SKYRL: re.compile(r"global_step_([0-9]{1,18})"),
}

# `iter_0000500` (Megatron), `global_step500` (DeepSpeed), `step_500` (accelerate), `epoch=1-step=500.ckpt` (Lightning),
# `checkpoint_500`, `ckpt-500`, `epoch_1` and their like. What is being written or dumped has another word before or
# behind the number (`tmp-checkpoint-5`, `global_step_5_evals`).
_FOREIGN_NAME = re.compile(
    r"(?:(?:global[_-]?)?steps?|iter|iteration|checkpoint|ckpt|epoch)[_=-]?[0-9]{1,18}"
    r"(?:[_-]steps?[_=-]?[0-9]{1,18})?(?:\.ckpt)?|.+\.ckpt",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"[0-9]{1,18}")
_ORBAX_OWN = re.compile(r"orbax|^metrics$|^_")


@dataclass(frozen=True, slots=True)
class StepFolder:
    """A folder whose name says that it is a checkpoint."""

    name: str
    layout: Layout
    step: int


@dataclass(frozen=True, slots=True)
class MarkerReading:
    """What the content of a commit marker says. `kind` is "permanent", "temporary" or "", `trainer` Hugging Face's."""

    valid: bool
    evidence: str
    kind: str = ""
    trainer: TrainerFacts | None = None


@dataclass(frozen=True, slots=True)
class SkyrlParent:
    """What the folder above `global_step_N` tells: the number in the latest file (None: no such file), and whether
    any step folder in it shows that the run is asynchronous."""

    latest_step: int | None = None
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a checkpoint is complete, why, and when it became so (Unix seconds; None while partial)."""

    complete: bool
    evidence: str
    saved_at: float | None = None
    kind: str = ""


def parse_step_folder(name: str) -> StepFolder | None:
    """Return what a folder's name says, or None when it is no checkpoint's name."""
    for layout, pattern in _FOLDER_NAMES.items():
        if matched := pattern.fullmatch(name):
            return StepFolder(name, layout, int(matched[1]))
    return None


def foreign_checkpoint(names: Iterable[str]) -> str | None:
    """Return a name that is one of a checkpoint in a layout that cannot be judged; None where there is none.

    Args:
        names: what lies in one folder. Bare numbers are checkpoints (of orbax) only where nothing else lies beside them
            but what orbax itself writes.
    """
    there = sorted(names)
    named = next((name for name in there if _FOREIGN_NAME.fullmatch(name) and parse_step_folder(name) is None), None)
    if named is not None:
        return named
    numbers = [name for name in there if _BARE_NUMBER.fullmatch(name)]
    others = [name for name in there if name not in numbers and not _ORBAX_OWN.search(name)]
    return numbers[0] if numbers and not others else None


def newest_first(names: Iterable[str]) -> list[StepFolder]:
    """Return the checkpoint folders among the names, by step as a number, the highest first."""
    folders = [folder for name in names if (folder := parse_step_folder(name)) is not None]
    return sorted(folders, key=lambda folder: (folder.step, folder.name), reverse=True)


def parse_latest_step(content: bytes) -> int:
    """Read SkyRL's `latest_ckpt_global_step.txt`: one whole number.

    Raises:
        ValueError: it holds something else (it may be in the middle of being written).
    """
    matched = _WHOLE_NUMBER.fullmatch(content)
    if matched is None:
        raise ValueError(f"{SKYRL_LATEST} holds {content[:40]!r}, expected a whole number")
    return int(matched[1])


def content_marker(folder: StepFolder, markers: Mapping[str, float]) -> str | None:
    """Return the object in this folder whose content can deny that the checkpoint is complete, if there is one."""
    wanted = {
        Layout.LEVANTER: LEVANTER_MARKER,
        Layout.HUGGING_FACE: HUGGING_FACE_MARKER,
        Layout.SKYRL: SKYRL_COMMIT,
    }[folder.layout]
    return wanted if wanted in markers else None


def read_marker(folder: StepFolder, content: bytes) -> MarkerReading:
    """Read the content of the folder's `content_marker`."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return MarkerReading(False, "its marker is not readable JSON (being written, or cut off)")
    if not isinstance(value, dict):
        return MarkerReading(False, "its marker is not a JSON object")
    match folder.layout:
        case Layout.LEVANTER:
            return _read_levanter(folder, value)
        case Layout.HUGGING_FACE:
            return _read_hugging_face(folder, value)
        case Layout.SKYRL:
            return _read_commit(folder, value)


def judge(
    folder: StepFolder,
    markers: Mapping[str, float],
    reading: MarkerReading | None,
    parent: SkyrlParent,
    lacking: str = "",
) -> Judgement:
    """Decide whether a checkpoint is complete.

    Args:
        folder: the step folder.
        markers: which of `STEP_MARKERS` lie directly in it, with the time of each object in Unix seconds.
        reading: the content of its `content_marker`, or None when it was not read: then its presence decides.
        parent: what the folder above tells (SkyRL only).
        lacking: what of its data is seen to be empty or missing, "" where nothing is.
    """
    judgement = _judge_by_marker(folder, markers, reading, parent)
    if lacking and judgement.complete:
        return Judgement(False, f"{judgement.evidence}, but {lacking}")
    return judgement


def _judge_by_marker(
    folder: StepFolder, markers: Mapping[str, float], reading: MarkerReading | None, parent: SkyrlParent
) -> Judgement:
    marker = content_marker(folder, markers)
    if marker is not None:
        if reading is None:
            return Judgement(True, f"{marker} is there (content not read)", markers[marker])
        if not reading.valid:
            return Judgement(False, f"{marker} is there, but {reading.evidence}")
        return Judgement(True, f"{marker}: {reading.evidence}", markers[marker], reading.kind)
    if folder.layout is Layout.SKYRL:
        return _judge_skyrl_states(folder, markers, parent)
    missing = LEVANTER_MARKER if folder.layout is Layout.LEVANTER else HUGGING_FACE_MARKER
    return Judgement(False, f"no {missing}: being written, aborted, or being deleted")


def _judge_skyrl_states(folder: StepFolder, markers: Mapping[str, float], parent: SkyrlParent) -> Judgement:
    """The rule without a commit record. `saved_at` is the step's own last object: the latest file moves on."""
    if SKYRL_STATE not in markers:
        return Judgement(False, f"neither {SKYRL_COMMIT} nor {SKYRL_STATE}")
    if parent.latest_step is None:
        return Judgement(False, f"{SKYRL_STATE} is there, but no {SKYRL_LATEST} beside the step folders")
    if folder.step > parent.latest_step:
        return Judgement(False, f"{SKYRL_STATE} is there, but {SKYRL_LATEST} says {parent.latest_step}")
    committed = f"{SKYRL_STATE} is there and {SKYRL_LATEST} says {parent.latest_step}"
    if not parent.is_async:
        return Judgement(True, committed, markers[SKYRL_STATE])
    if SKYRL_ASYNC_STATE not in markers:
        return Judgement(False, f"{committed}, but the run is asynchronous and {SKYRL_ASYNC_STATE} is missing")
    return Judgement(True, f"{committed}, {SKYRL_ASYNC_STATE} too", markers[SKYRL_ASYNC_STATE])


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _named_step(folder: StepFolder, step: int) -> str:
    return f"step {step}" + ("" if step == folder.step else f", though the folder is {folder.name}")


def _read_levanter(folder: StepFolder, value: Mapping[str, object]) -> MarkerReading:
    step, timestamp = _whole(value.get("step")), value.get("timestamp")
    if step is None:
        return MarkerReading(False, "it has no whole number `step`")
    if not isinstance(timestamp, str) or not _is_iso_time(timestamp):
        return MarkerReading(False, "it has no ISO `timestamp`")
    # Levanter takes a missing is_temporary for permanent.
    kind = "temporary" if value.get("is_temporary") is True else "permanent"
    return MarkerReading(True, f"{_named_step(folder, step)}, {kind}", kind)


def _is_iso_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _read_hugging_face(folder: StepFolder, value: Mapping[str, object]) -> MarkerReading:
    try:
        facts = trainer_facts(read_trainer_state(value))
    except MalformedRow:
        return MarkerReading(False, "it has no whole number `global_step`")
    return MarkerReading(True, _named_step(folder, facts.global_step), trainer=facts)


def _read_commit(folder: StepFolder, value: Mapping[str, object]) -> MarkerReading:
    if _whole(value.get("schema_version")) is None:
        return MarkerReading(False, "it has no whole number `schema_version`")
    for key in ("attempt_id", "manifest_sha256"):
        if not isinstance(value.get(key), str) or not value[key]:
            return MarkerReading(False, f"it has no `{key}`")
    step = _whole(value.get("step"))
    # MarinSkyRL itself refuses to resume from a record of another step.
    if step != folder.step:
        return MarkerReading(False, f"its step is {value.get('step')!r}, not {folder.step}")
    return MarkerReading(True, f"attempt {value['attempt_id']} committed")
