"""Checkpoint folders without their data, laid out and committed as Levanter and SkyRL do it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


def write_at(path: Path, text: str, time: float) -> None:
    """Write a small file that is as old as `time` (Unix seconds)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (time, time))


@dataclass(slots=True)
class LevanterSaves:
    """A permanent and a temporary root: of the temporary checkpoints only the newest is kept, as Levanter does.

    `metadata.json` is written last, some steps after the save began: until then, and for ever where the attempt ended
    in between, the checkpoint is partial.

    Attributes:
        permanent: Root of the checkpoints of every `permanent_every` steps.
        temporary: Root of those of every `temporary_every` steps of an attempt.
        manifest: Text of a real `manifest.json`.
    """

    permanent: Path
    temporary: Path
    manifest: str
    permanent_every: int = 150
    temporary_every: int = 50
    steps_to_commit: int = 2

    def step_done(self, step: int, attempt_first: int, now: float) -> None:
        """Begin a save, and commit the one that began some steps ago."""
        root = self._root(step, attempt_first)
        if root is not None:
            write_at(root / f"step-{step}" / "manifest.json", self.manifest, now)
        begun = step - self.steps_to_commit
        root = self._root(begun, attempt_first)
        if root is not None:
            self._commit(root, begun, now)

    def _root(self, step: int, attempt_first: int) -> Path | None:
        if step <= attempt_first:
            return None
        if step % self.permanent_every == 0:
            return self.permanent
        return self.temporary if (step - attempt_first) % self.temporary_every == 0 else None

    def _commit(self, root: Path, step: int, now: float) -> None:
        is_temporary = root == self.temporary
        stamp = datetime.fromtimestamp(now, UTC).replace(tzinfo=None).isoformat()
        record = {"step": step, "timestamp": stamp, "is_temporary": is_temporary}
        write_at(root / f"step-{step}" / "metadata.json", json.dumps(record), now)
        if not is_temporary:
            return
        for older in root.glob("step-*"):
            if older.name != f"step-{step}" and (older / "metadata.json").exists():
                shutil.rmtree(older)


@dataclass(slots=True)
class SkyrlSaves:
    """`global_step_N` folders of synchronous SkyRL: the state, then `latest_ckpt_global_step.txt`."""

    root: Path
    every: int = 10

    def step_done(self, step: int, attempt_first: int, now: float) -> None:
        """Save where it is time to."""
        if step % self.every != 0 or step < attempt_first:
            return
        folder = self.root / f"global_step_{step}"
        for name in ("policy/fsdp_config.json", "data.pt", "trainer_state.pt"):
            write_at(folder / name, "{}" if name.endswith("json") else "", now)
        write_at(self.root / "latest_ckpt_global_step.txt", str(step), now)


def write_hugging_face_checkpoint(root: Path, step: int, time: float) -> None:
    """Write `checkpoint-N` of the Hugging Face Trainer as it was at `time`."""
    folder = root / f"checkpoint-{step}"
    write_at(folder / "optimizer.pt", "", time)
    write_at(folder / "trainer_state.json", json.dumps({"global_step": step}), time)
