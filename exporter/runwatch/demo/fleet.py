"""The demo's jobs: captures copied into a folder, four of them replayed (two go on), and the config for them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from runwatch.demo.children import LOOPBACK
from runwatch.demo.replay import Replay, Stretch, read_capture, values_of_step
from runwatch.demo.saves import LevanterSaves, SkyrlSaves, write_at, write_hugging_face_checkpoint

CAPTURES = Path(__file__).parent / "captures"
POLL_SECONDS = 2

ENDED, LIVE, STALLED, RL, COLLAPSING, BRINGUP, FAILED, LOGGED, EVAL = (
    "delphi-tiny-abc123",
    "delphi-tiny-live",
    "delphi-tiny-stalled",
    "terminus-agentic-rl",
    "code-rl-collapsing",
    "math-rl-new-image",
    "qwen-coldstart",
    "llamafactory-tiny",
    "tb2-eval-tiny",
)

_TINY = {"train_batch_size": 16, "max_seq_len": 4096}
_LEVANTER_STEP_SECONDS = 2.0
_LEVANTER_TARGET = 20_000
_RL_STEP_SECONDS = 5.0
_RL_TARGET = 5_000
_STALLED_STEPS = 400
_STALL_AGE_SECONDS = 25 * 60.0  # a stall from 16 min 15 s on, at 2 s a step
_COLLAPSE_STEP = 47
_COLLAPSING_STEP_SECONDS = 600.0  # so long a step, that its latest one stays a collapse while the demo runs
_COLLAPSING_TARGET = 500
_BRINGUP_AGE_SECONDS = 12 * 60.0
_TEMPORARY_ROOT = Path("tmp", "ttl=14d", "checkpoints-temp")


@dataclass(frozen=True, slots=True)
class DemoFleet:
    """The jobs' config file and the replays that have to be advanced."""

    config: Path
    replays: tuple[Replay, ...]

    def advance(self, now: float) -> None:
        """Let time pass for the jobs that go on (Unix seconds)."""
        for replay in self.replays:
            replay.advance(now)


def write_fleet(folder: Path, port: int, now: float) -> DemoFleet:
    """Write the captures, what happened of the replays up to `now`, and the config.

    Args:
        folder: Everything goes below it.
        port: The exporter's port; 0 for any.
        now: Unix seconds.
    """
    ended = _write_ended(folder)
    live, replayed = _write_live(folder, now)
    stalled = _write_stalled(folder, now)
    rl, replayed_rl = _write_rl(folder, now)
    collapsing = _write_collapsing(folder, now)
    shutil.copytree(CAPTURES / "harbor", folder / "trials")
    others = [_write_bringup(folder, now), _write_failed(folder), _write_logged(folder), _EVAL_JOB]
    jobs = [ended, live, stalled, rl, collapsing, *others]
    config = folder / "runwatch.yaml"
    settings = {
        "poll_interval": f"{POLL_SECONDS}s",
        "linger": "3650d",  # the captures are old, and are to stay
        "listen": f"{LOOPBACK}:{port}",
        "sites": {"desk": {"scheduler": "none"}, "lab": {"scheduler": "none"}},
        "jobs": jobs,
    }
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return DemoFleet(config, (replayed, replayed_rl))


def _write_ended(folder: Path) -> dict[str, object]:
    shutil.copytree(CAPTURES / "wandb_offline", folder / "wandb", dirs_exist_ok=True)
    roots = [Path("perm", "run-abc123"), _TEMPORARY_ROOT / "run-abc123"]
    for root in roots:
        copied = folder / "checkpoints" / root
        shutil.copytree(CAPTURES / "levanter" / root, copied)
        for step in copied.iterdir():
            _age_as_recorded(step)
    return {
        "run": ENDED,
        "bucket": "sft",
        "site": "desk",
        "kind": "midtraining",
        "history": {"wandb_offline": "wandb"},
        "checkpoints": [str(Path("checkpoints", root)) for root in roots],
        "labels": {"owner": "ana", "tracker_row": "11", "note": "recorded with the real W&B client"},
    }


def _age_as_recorded(step: Path) -> None:
    """Give a checkpoint's files the time at which it was saved: a copy or a checkout is as old as itself."""
    record = json.loads((step / "metadata.json").read_text(encoding="utf-8"))
    saved = datetime.fromisoformat(record["timestamp"]).replace(tzinfo=UTC).timestamp()
    for file in step.iterdir():
        os.utime(file, (saved, saved))


def _write_live(folder: Path, now: float) -> tuple[dict[str, object], Replay]:
    capture = values_of_step(read_capture(CAPTURES / "wandb_offline"), first_step=0, repeated=40)
    saves = LevanterSaves(
        permanent=folder / "checkpoints" / "perm" / LIVE,
        temporary=folder / "checkpoints" / _TEMPORARY_ROOT / LIVE,
        manifest=(CAPTURES / "levanter" / "perm" / "run-abc123" / "step-4" / "manifest.json").read_text("utf-8"),
    )
    replay = Replay(
        path=folder / f"{LIVE}.jsonl",
        row_of_step=_stretched_levanter_row(capture),
        # Cut off in the save of step 250, so it went on from 200; later it stood still and nobody restarted it.
        plan=(Stretch(0, 251), Stretch(201, 499, pause=360.0, restarts=True), Stretch(500, 899, pause=540.0)),
        seconds_per_step=_LEVANTER_STEP_SECONDS,
        target=_LEVANTER_TARGET,
        saves=saves,
        cut_line='{"_step": 252, "train/lo',
    )
    replay.prefill(now)
    job: dict[str, object] = {
        "run": LIVE,
        "bucket": "sft",
        "site": "lab",
        "kind": "midtraining",
        "history": {"jsonl": replay.path.name},
        "checkpoints": [str(root.relative_to(folder)) for root in (saves.permanent, saves.temporary)],
        "config": {**_TINY, "num_train_steps": _LEVANTER_TARGET, "accelerators": 64, "accelerator": "v5p"},
        "labels": {"owner": "ana", "tracker_row": "12", "grid": "lr-sweep"},
    }
    return job, replay


def _stretched_levanter_row(capture: Callable[[int], Mapping[str, float]]) -> Callable[[int], dict[str, float]]:
    """Keep the capture's loss, gradient norm and learning rate; what tells of its speed becomes the replay's."""
    tokens = float(_TINY["train_batch_size"] * _TINY["max_seq_len"])

    def row(step: int) -> dict[str, float]:
        values = dict(capture(step))
        values |= {
            "global_step": step,
            "run_progress": (step + 1) / _LEVANTER_TARGET,
            "throughput/duration": _LEVANTER_STEP_SECONDS,
            "throughput/tokens_per_second": tokens / _LEVANTER_STEP_SECONDS,
            "throughput/total_tokens": tokens * (step + 1),
        }
        if step % 30 == 0 and step > 0:
            values["eval/loss"] = 1.03 * values["train/loss"]
        return values

    return row


def _write_stalled(folder: Path, now: float) -> dict[str, object]:
    """The live job's beginning, up to a last step that is so old that it counts as a stall."""
    capture = values_of_step(read_capture(CAPTURES / "wandb_offline"), first_step=0, repeated=40)
    path = folder / f"{STALLED}.jsonl"
    replay = Replay(
        path=path,
        row_of_step=_stretched_levanter_row(capture),
        plan=(Stretch(0, _STALLED_STEPS),),
        seconds_per_step=_LEVANTER_STEP_SECONDS,
        target=_LEVANTER_TARGET,
    )
    replay.prefill(now - _STALL_AGE_SECONDS)
    return {
        "run": STALLED,
        "bucket": "sft",
        "site": "lab",
        "kind": "midtraining",
        "history": {"jsonl": path.name},
        "config": {**_TINY, "num_train_steps": _LEVANTER_TARGET},
        "labels": {"owner": "ana", "tracker_row": "13", "grid": "lr-sweep"},
    }


def _write_collapsing(folder: Path, now: float) -> dict[str, object]:
    """The RL capture up to its collapse, as a job with long steps whose latest one is the collapse."""
    capture = values_of_step(read_capture(CAPTURES / "generated" / "agentic-rl"), first_step=1, repeated=30)
    path = folder / f"{COLLAPSING}.jsonl"
    replay = Replay(
        path=path,
        row_of_step=lambda step: {**capture(step), "trainer/global_step": step},
        plan=(Stretch(1, _COLLAPSE_STEP),),
        seconds_per_step=_COLLAPSING_STEP_SECONDS,
        target=_COLLAPSING_TARGET,
    )
    replay.prefill(now)
    return {
        "run": COLLAPSING,
        "bucket": "rl",
        "site": "lab",
        "kind": "agentic",
        "history": {"jsonl": path.name},
        "config": {"num_train_steps": _COLLAPSING_TARGET, "rollouts_per_step": 512},
        "labels": {"owner": "bo", "tracker_row": "32", "shaping": "on"},
    }


def _write_rl(folder: Path, now: float) -> tuple[dict[str, object], Replay]:
    capture = values_of_step(read_capture(CAPTURES / "generated" / "agentic-rl"), first_step=1, repeated=30)
    root = folder / "checkpoints" / RL
    replay = Replay(
        path=folder / f"{RL}.jsonl",
        row_of_step=lambda step: {**capture(step), "trainer/global_step": step},
        plan=(Stretch(1, 69), Stretch(61, 90, pause=480.0, restarts=True)),
        seconds_per_step=_RL_STEP_SECONDS,
        target=_RL_TARGET,
        saves=SkyrlSaves(root),
    )
    replay.prefill(now)
    job: dict[str, object] = {
        "run": RL,
        "bucket": "rl",
        "site": "lab",
        "kind": "agentic",
        "history": {"jsonl": replay.path.name},
        "checkpoints": [str(root.relative_to(folder))],
        "trials": {"path": "trials"},
        "config": {"num_train_steps": _RL_TARGET, "rollouts_per_step": 512, "accelerators": 16, "accelerator": "h100"},
        "labels": {"owner": "bo", "tracker_row": "31", "hold": "no-kill", "shaping": "on"},
    }
    return job, replay


def _write_logged(folder: Path) -> dict[str, object]:
    log = f"{LOGGED}.out"
    shutil.copyfile(CAPTURES / "logs" / "sft_llamafactory095_tf56.out", folder / log)
    return {"run": LOGGED, "bucket": "sft", "site": "desk", "history": {"log": log}, "labels": {"owner": "cy"}}


_EVAL_JOB: dict[str, object] = {
    "run": EVAL,
    "bucket": "eval",
    "site": "desk",
    "trials": {"path": "trials", "target": 16},
    "labels": {"owner": "cy", "tracker_row": "40"},
}


def _write_bringup(folder: Path, now: float) -> dict[str, object]:
    """An evaluation before the first update is logged at step 0: no step is made yet."""
    row = {"_step": 0, "_timestamp": now - _BRINGUP_AGE_SECONDS, "trainer/global_step": 0, "eval/all/avg_score": 0.183}
    write_at(folder / f"{BRINGUP}.jsonl", json.dumps(row) + "\n", now - _BRINGUP_AGE_SECONDS)
    return {
        "run": BRINGUP,
        "bucket": "rl",
        "site": "desk",
        "kind": "standard",
        "history": {"jsonl": f"{BRINGUP}.jsonl"},
        "config": {"num_train_steps": 200},
        "labels": {"owner": "bo", "ablation": "spike-mitigation", "new_setting": "yes"},
    }


def _write_failed(folder: Path) -> dict[str, object]:
    capture = CAPTURES / "generated" / "coldstart-failed"
    shutil.copytree(capture, folder / "wandb-coldstart")
    times = {row.trainer_step: row.time for row in read_capture(capture)}
    root = folder / "checkpoints" / FAILED
    for step in (50, 100):
        saved = times[step]
        if saved is not None:
            write_hugging_face_checkpoint(root, step, saved)
    return {
        "run": FAILED,
        "bucket": "sft",
        "site": "desk",
        "history": {"wandb_offline": "wandb-coldstart"},
        "checkpoints": [str(root.relative_to(folder))],
        "labels": {"owner": "cy", "tracker_row": "7"},
    }
