"""Checkpoints of trainers whose layout is not known: nobody can say that there is none, nor that one is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runwatch.facts import CheckpointListing, Failure, FailureReason
from runwatch.fleet import Job
from runwatch.parsing.checkpoint_layouts import foreign_checkpoint
from runwatch.sources.checkpoints import CheckpointReader


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["iter_0000500", "latest_checkpointed_iteration.txt"], "iter_0000500"),  # Megatron
        (["global_step500", "latest", "zero_to_fp32.py"], "global_step500"),  # DeepSpeed
        (["epoch=1-step=500.ckpt", "hparams.yaml"], "epoch=1-step=500.ckpt"),  # Lightning
        (["last.ckpt"], "last.ckpt"),
        (["step_500"], "step_500"),  # accelerate
        (["checkpoint_500"], "checkpoint_500"),
        (["1000", "2000.orbax-checkpoint-tmp-17", "_CHECKPOINT_METADATA"], "1000"),  # orbax
        (["1000", "wandb"], None),
        (["step-5", "checkpoint-5", "global_step_5"], None),
        (["tmp-checkpoint-5", "checkpoint-5-hf", "global_step_5_evals", "step-5.tmp", "checkpoint-best"], None),
        (
            [".executor_info", "hf", "runs", "trainer_log.jsonl", "tokenizer.json", "logs", "tracker_metrics.jsonl"],
            None,
        ),
        ([], None),
    ],
)
def test_names(names: list[str], found: str | None) -> None:
    assert foreign_checkpoint(names) == found


def look(root: Path) -> CheckpointListing | Failure:
    return CheckpointReader(lambda site: None).read(Job(run="r", bucket="sft", checkpoints=(str(root),)))


@pytest.mark.parametrize("folder", ["", "checkpoints"])
def test_they_are_no_answer_that_there_is_none(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder / "iter_0000500" / "mp_rank_00").mkdir(parents=True)
    refused = look(tmp_path)
    assert isinstance(refused, Failure)
    assert refused.reason is FailureReason.NOT_FOUND
    assert f"{tmp_path / folder / 'iter_0000500'} looks like a checkpoint of no known layout" in refused.detail


def test_beside_known_ones_they_are_told(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-500").mkdir()
    (tmp_path / "checkpoint-500" / "trainer_state.json").write_text(json.dumps({"global_step": 500}))
    (tmp_path / "epoch_1").mkdir()
    found = look(tmp_path)
    assert isinstance(found, CheckpointListing)
    assert [(checkpoint.step, checkpoint.complete) for checkpoint in found.checkpoints] == [(500, True)]
    assert f"{tmp_path / 'epoch_1'}: a checkpoint of no known layout is left out" in found.notes
