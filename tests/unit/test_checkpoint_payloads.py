"""What of a checkpoint's data is seen to be empty or missing beside a marker that says that it is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.facts import CheckpointListing
from runwatch.fleet import Job
from runwatch.parsing.checkpoint_payloads import lacking_payload
from runwatch.sources.checkpoints import CheckpointReader

SHARDS = [f"model-0000{number}-of-00004.safetensors" for number in (1, 2, 3, 4)]


def ranks(kind: str, total: int) -> list[str]:
    return [f"{kind}_world_size_{total}_rank_{rank}.pt" for rank in range(total)]


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        ([], ""),
        (["trainer_state.json", "model.safetensors", "optimizer.pt", "rng_state_0.pth"], ""),
        ([*SHARDS, "model.safetensors.index.json"], ""),
        ([*SHARDS[:2], SHARDS[3], "model.safetensors.index.json"], "of the 4 parts of model number 3 is missing"),
        (SHARDS[1:], "of the 4 parts of model number 1 is missing"),
        (["pytorch_model-00001-of-00002.bin"], "of the 2 parts of pytorch_model number 2 is missing"),
        # What a save in one piece left of the one before it is not missed.
        (["model-00001-of-00002.safetensors", "model.safetensors"], ""),
        (["model.safetensors.index.json", "optimizer.pt"], "model.safetensors.index.json is there and no shard"),
        (["model.safetensors.index.json", "model.safetensors"], ""),
        (["vocab.index.json"], ""),
        (
            ["config.json", "optimizer.pt", "training_args.bin", "rng_state_0.pth", "scheduler.pt"],
            "config.json is there",
        ),
        (["adapter_config.json", "README.md", "optimizer.pt"], "adapter_config.json is there and no weights"),
        (["adapter_config.json", "adapter_model.safetensors"], ""),
        (["config.json", "pytorch_model.bin", "optimizer.pt"], ""),
        (ranks("model", 8) + ranks("optim", 8) + ranks("extra_state", 8), ""),
        (ranks("model", 8) + ranks("optim", 8)[:-1], "of the 8 parts of optim number 7 is missing"),
        # Saved by two nodes, then by four, of which one failed: the older division is whole and can be loaded.
        (ranks("model", 4)[:3] + ranks("model", 2), ""),
        (ranks("model", 4)[:3] + ranks("model", 2)[:1], "of the 4 parts of model number 3 is missing"),
        (["__0_0.distcp", "__1_0.distcp", "common.pt"], "it holds *.distcp without .metadata"),
        (["__0_0.distcp", "__1_0.distcp", "common.pt", ".metadata"], ""),
    ],
)
def test_names_that_contradict_a_marker(names: list[str], lacking: str) -> None:
    found = lacking_payload(dict.fromkeys(names, 100))
    assert found.startswith(lacking)
    assert bool(found) == bool(lacking)


@pytest.mark.parametrize(
    ("name", "size", "lacking"),
    [
        ("optimizer.pt", 0, "optimizer.pt is empty"),
        ("__0_0.distcp", 0, "__0_0.distcp is empty"),
        ("trainer_state.json", 0, "trainer_state.json is empty"),
        ("merges.txt", 0, ""),
        ("optimizer.pt", 1, ""),
        ("optimizer.pt", None, ""),
    ],
)
def test_an_empty_file(name: str, size: int | None, lacking: str) -> None:
    assert lacking_payload({name: size, ".metadata": 1}) == lacking


def test_where_every_file_is_empty_only_names_were_kept(tmp_path: Path) -> None:
    """Nobody commits a checkpoint of which not one byte could be written: such a folder is a listing of one."""
    skyrl(tmp_path, 10, parts=[])
    for name in ("trainer_state.pt", "data.pt", "policy/model_world_size_1_rank_0.pt"):
        write(tmp_path / "global_step_10" / name, "")
    write(tmp_path / "latest_ckpt_global_step.txt", "10")
    reader = CheckpointReader(lambda site: None)
    assert [found[:2] for found in look(reader, tmp_path)] == [(10, True)]
    write(tmp_path / "global_step_10" / "policy" / "model_world_size_1_rank_0.pt")
    after = look(reader, tmp_path)
    assert [found[:2] for found in after] == [(10, False)]
    assert after[0][2].endswith("but data.pt is empty")


@given(st.integers(1, 40), st.data())
def test_whichever_part_is_missing_is_named(total: int, data: st.DataObject) -> None:
    names = {f"model-{number:05}-of-{total:05}.safetensors": number for number in range(1, total + 1)}
    assert lacking_payload(dict.fromkeys(names, 9)) == ""
    kept = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    missing = sorted(number for name, number in names.items() if name not in kept)
    found = lacking_payload(dict.fromkeys(kept, 9))
    assert found == (f"of the {total} parts of model number {missing[0]} is missing" if missing else "")


def write(path: Path, content: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def look(reader: CheckpointReader, root: Path) -> list[tuple[int, bool, str]]:
    outcome = reader.read(Job(run="r", bucket="rl", checkpoints=(str(root),)))
    assert isinstance(outcome, CheckpointListing), outcome
    return [(found.step, found.complete, found.evidence) for found in outcome.checkpoints]


def test_hugging_face_weights_of_which_a_shard_is_missing(tmp_path: Path) -> None:
    for step in (500, 1000):
        write(tmp_path / f"checkpoint-{step}" / "trainer_state.json", json.dumps({"global_step": step}))
        for shard in SHARDS:
            write(tmp_path / f"checkpoint-{step}" / shard)
    reader = CheckpointReader(lambda site: None)
    assert [found[:2] for found in look(reader, tmp_path)] == [(500, True), (1000, True)]
    (tmp_path / "checkpoint-1000" / SHARDS[2]).unlink()
    after = look(reader, tmp_path)
    assert [found[:2] for found in after] == [(500, True), (1000, False)]
    assert after[1][2] == "trainer_state.json: step 1000, but of the 4 parts of model number 3 is missing"
    # A shard behind a link out of the root is there, though it is not followed.
    write(tmp_path.parent / "elsewhere.safetensors")
    (tmp_path / "checkpoint-1000" / SHARDS[2]).symlink_to(tmp_path.parent / "elsewhere.safetensors")
    assert [found[:2] for found in look(reader, tmp_path)] == [(500, True), (1000, True)]


def test_weights_that_were_deleted_to_spare_room(tmp_path: Path) -> None:
    for step in (500, 1000):
        write(tmp_path / f"checkpoint-{step}" / "trainer_state.json", json.dumps({"global_step": step}))
        write(tmp_path / f"checkpoint-{step}" / "config.json", "{}")
    (tmp_path / "checkpoint-500" / "global_step500").mkdir()  # DeepSpeed keeps its own in a folder
    assert look(CheckpointReader(lambda site: None), tmp_path) == [
        (500, True, "trainer_state.json: step 500"),
        (1000, False, "trainer_state.json: step 1000, but config.json is there and no weights"),
    ]


def skyrl(root: Path, step: int, *, folder: str = "policy", parts: list[str]) -> None:
    write(root / f"global_step_{step}" / "trainer_state.pt")
    for part in parts:
        write(root / f"global_step_{step}" / folder / part)


@pytest.mark.parametrize("folder", ["policy", "critic"])
def test_a_rank_of_skyrl_whose_part_is_missing(tmp_path: Path, folder: str) -> None:
    every = [part for kind in ("model", "optim", "extra_state") for part in ranks(kind, 4)]
    skyrl(tmp_path, 10, parts=every)
    skyrl(tmp_path, 10, folder="critic", parts=every)
    skyrl(tmp_path, 20, parts=every)
    skyrl(tmp_path, 20, folder=folder, parts=every)
    write(tmp_path / "latest_ckpt_global_step.txt", "20")
    reader = CheckpointReader(lambda site: None)
    assert [found[:2] for found in look(reader, tmp_path)] == [(10, True), (20, True)]
    (tmp_path / "global_step_20" / folder / "extra_state_world_size_4_rank_2.pt").unlink()
    after = look(reader, tmp_path)
    assert [found[:2] for found in after] == [(10, True), (20, False)]
    assert after[1][2].endswith(f"but in {folder} of the 4 parts of extra_state number 2 is missing")


def test_megatron_saves_that_go_on_behind_the_latest_file(tmp_path: Path) -> None:
    skyrl(tmp_path, 10, parts=["__0_0.distcp", "common.pt"])
    write(tmp_path / "latest_ckpt_global_step.txt", "10")
    reader = CheckpointReader(lambda site: None)
    assert [found[:2] for found in look(reader, tmp_path)] == [(10, False)]
    write(tmp_path / "global_step_10" / "policy" / ".metadata")
    assert [found[:2] for found in look(reader, tmp_path)] == [(10, True)]


def test_an_empty_state_is_none(tmp_path: Path) -> None:
    """The asynchronous trainer writes its own state after the latest file: until it is closed it has no byte."""
    for step in (10, 20):
        skyrl(tmp_path, step, parts=ranks("model", 2))
    write(tmp_path / "latest_ckpt_global_step.txt", "20")
    write(tmp_path / "global_step_10" / "fully_async_state.pt")
    write(tmp_path / "global_step_20" / "fully_async_state.pt", "")
    reader = CheckpointReader(lambda site: None)
    assert [found[:2] for found in look(reader, tmp_path)] == [(10, True), (20, False)]
    write(tmp_path / "global_step_20" / "fully_async_state.pt")
    write(tmp_path / "global_step_10" / "trainer_state.pt", "")
    assert [found[:2] for found in look(reader, tmp_path)] == [(10, True), (20, True)]  # its turn comes
    assert [found[:2] for found in look(CheckpointReader(lambda site: None), tmp_path)] == [(10, False), (20, True)]


def test_an_empty_marker_is_none_where_its_content_is_not_read(tmp_path: Path) -> None:
    for step in range(1, 11):
        text = "" if step == 1 else json.dumps({"step": step, "timestamp": "2001-02-03T04:05:06"})
        write(tmp_path / f"step-{step}" / "metadata.json", text)
    found = look(CheckpointReader(lambda site: None), tmp_path)
    assert [step for step, complete, _ in found if not complete] == [1]
    assert found[1][2] == "metadata.json is there (content not read)"
