"""The reader on real folders."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from runwatch.facts import CheckpointListing, Failure, FailureReason
from runwatch.fleet import Job
from runwatch.sources.checkpoints import CheckpointReader

CAPTURE = Path(__file__).parents[1] / "data" / "levanter"
SAVED = 1_790_000_000.0


def write(path: Path, content: str | bytes = b"x", saved: float = SAVED) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (saved, saved))


def levanter(folder: Path, step: int, saved: float = SAVED, *, temporary: bool = False) -> None:
    # The time inside is that of another zone on purpose: it must never be used.
    value = {"step": step, "timestamp": "2001-02-03T04:05:06.789", "is_temporary": temporary}
    write(folder / f"step-{step}" / "manifest.json", "{}", saved - 5)
    write(folder / f"step-{step}" / "metadata.json", json.dumps(value), saved)


def look(*roots: Path | str, at: float | None = None, now: float = SAVED + 1e6) -> CheckpointListing | Failure:
    reader = CheckpointReader(lambda site: None, at=at, clock=lambda: now)
    return reader.read(Job(run="r", bucket="sft", checkpoints=tuple(str(root) for root in roots)))


def listing(*roots: Path | str, at: float | None = None, now: float = SAVED + 1e6) -> CheckpointListing:
    outcome = look(*roots, at=at, now=now)
    assert isinstance(outcome, CheckpointListing), outcome
    return outcome


def steps(found: CheckpointListing) -> list[tuple[int, bool]]:
    return [(checkpoint.step, checkpoint.complete) for checkpoint in found.checkpoints]


def failure(*roots: Path | str) -> Failure:
    outcome = look(*roots)
    assert isinstance(outcome, Failure)
    return outcome


def test_the_partial_newest_and_text_order(tmp_path: Path) -> None:
    levanter(tmp_path / "checkpoints", 500)
    levanter(tmp_path / "checkpoints", 9000, SAVED + 60)
    write(tmp_path / "checkpoints" / "step-10000" / "manifest.json")
    found = listing(tmp_path)
    assert steps(found) == [(500, True), (9000, True), (10000, False)]
    assert found.checkpoints[1].saved_at == SAVED + 60
    assert found.checkpoints[2].saved_at is None


def test_directly_below_a_root_and_below_its_checkpoints_folder_and_never_deeper(tmp_path: Path) -> None:
    levanter(tmp_path, 1)
    levanter(tmp_path / "checkpoints", 2)
    levanter(tmp_path / "hf", 3)
    levanter(tmp_path / "exports", 4)
    levanter(tmp_path / "checkpoints" / "other-run", 5)
    levanter(tmp_path / "checkpoints" / "checkpoints", 6)
    assert steps(listing(tmp_path)) == [(1, True), (2, True)]


@pytest.mark.parametrize(
    ("name", "why"), [("hf", "holds exports, no checkpoints"), ("step-3", "is a checkpoint itself")]
)
def test_a_root_that_can_hold_none_by_its_name_is_no_answer_that_there_is_none(
    tmp_path: Path, name: str, why: str
) -> None:
    levanter(tmp_path, 3)
    levanter(tmp_path / "hf", 3)
    refused = failure(tmp_path / name)
    assert refused == Failure(FailureReason.NOT_FOUND, f"{tmp_path}/{name} {why}: name the folder above it")
    found = listing(tmp_path, tmp_path / name)
    assert steps(found) == [(3, True)]
    assert found.notes == (refused.detail,)


def test_a_run_that_is_called_like_a_checkpoint(tmp_path: Path) -> None:
    levanter(tmp_path / "step-3", 7)
    assert steps(listing(tmp_path / "step-3")) == [(7, True)]


def test_a_newer_complete_one_in_the_temporary_root_is_there_too(tmp_path: Path) -> None:
    levanter(tmp_path / "permanent", 10_000)
    levanter(tmp_path / "temporary", 10_500, SAVED + 9, temporary=True)
    found = listing(tmp_path / "permanent", tmp_path / "temporary")
    assert [(c.step, c.kind, c.root, c.saved_at) for c in found.checkpoints] == [
        (10_000, "permanent", str(tmp_path / "permanent"), SAVED),
        (10_500, "temporary", str(tmp_path / "temporary"), SAVED + 9),
    ]


def test_the_real_capture() -> None:
    found = listing(CAPTURE / "perm/run-abc123", CAPTURE / "tmp/ttl=14d/checkpoints-temp/run-abc123")
    assert [(c.step, c.complete, c.kind) for c in found.checkpoints] == [
        (4, True, "permanent"),
        (6, True, "temporary"),
    ]


def test_a_file_url_and_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levanter(tmp_path / "run 1", 3)
    monkeypatch.chdir(tmp_path)
    assert steps(listing("run 1")) == [(3, True)]


def test_a_folder_named_twice_is_counted_once(tmp_path: Path) -> None:
    levanter(tmp_path / "checkpoints", 3)
    assert steps(listing(tmp_path, tmp_path / "checkpoints", tmp_path)) == [(3, True)]
    assert steps(listing(tmp_path / "checkpoints", tmp_path)) == [(3, True)]


@pytest.mark.parametrize("remains", [".executor_info", ".executor_status", ".executor_status.lock"])
def test_only_the_executors_files_is_before_the_first_checkpoint(tmp_path: Path, remains: str) -> None:
    write(tmp_path / remains)
    found = listing(tmp_path)
    assert found.checkpoints == ()
    assert "still before its first checkpoint" in found.notes[0]


def test_an_empty_or_missing_root_is_not_found_unless_another_has_content(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert failure(tmp_path / "empty").reason is FailureReason.NOT_FOUND
    assert failure(tmp_path / "missing").reason is FailureReason.NOT_FOUND
    both = failure(tmp_path / "empty", tmp_path / "missing")
    assert both.reason is FailureReason.NOT_FOUND
    assert "empty lists empty" in both.detail
    assert "missing does not exist" in both.detail
    levanter(tmp_path / "full", 3)
    found = listing(tmp_path / "empty", tmp_path / "full", tmp_path / "missing")
    assert steps(found) == [(3, True)]
    assert len(found.notes) == 2


def test_a_root_that_is_a_file_is_a_mistake_and_not_missing(tmp_path: Path) -> None:
    levanter(tmp_path / "full", 3)
    (tmp_path / "file").write_text("")
    found = failure(tmp_path / "file", tmp_path / "full")
    assert found.reason is FailureReason.PARSE
    assert found.detail.endswith("file is a file, not a directory")
    assert failure(tmp_path / "file" / "below").reason is FailureReason.NOT_FOUND


def test_a_forbidden_folder_fails_the_whole_look() -> None:
    user = os.geteuid()
    # Not in tmp_path, whose parents are closed to others: root may read everything, so it looks as somebody else.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        levanter(root / "open", 3)
        levanter(root / "closed", 4)
        (root / "closed" / "step-4").chmod(0)
        if user == 0:
            os.seteuid(65534)
        try:
            assert steps(listing(root / "open")) == [(3, True)]
            refused = failure(root / "open", root / "closed")
        finally:
            os.seteuid(user)
            (root / "closed" / "step-4").chmod(0o700)
    assert refused.reason is FailureReason.AUTH
    assert refused.detail == f"{root}/closed/step-4: permission denied"


def test_s3_is_refused_with_a_clear_text() -> None:
    assert "S3 is not supported" in failure("s3://bucket/run").detail


def test_hugging_face_folders(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-40" / "trainer_state.json", '{"global_step": 40}', SAVED)
    write(tmp_path / "checkpoint-60" / "trainer_state.json", '{"global_step": 60, "log_hi', SAVED)
    write(tmp_path / "checkpoint-80" / "optimizer.pt")
    write(tmp_path / "tmp-checkpoint-100" / "trainer_state.json", '{"global_step": 100}')
    write(tmp_path / "trainer_state.json", '{"global_step": 100}')
    assert steps(listing(tmp_path)) == [(40, True), (60, False), (80, False)]


def test_skyrl_is_complete_up_to_the_latest_file(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    for step in (9, 10, 15):
        write(root / f"global_step_{step}" / "trainer_state.pt", saved=SAVED + step)
    (root / "global_step_20" / "policy").mkdir(parents=True)
    write(root / "latest_ckpt_global_step.txt", "10", SAVED + 900)
    found = listing(tmp_path)
    assert steps(found) == [(9, True), (10, True), (15, False), (20, False)]
    assert found.checkpoints[1].saved_at == SAVED + 10


def test_an_asynchronous_skyrl_run_needs_its_own_state_as_well(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        write(tmp_path / f"global_step_{step}" / "trainer_state.pt", saved=SAVED + step)
    write(tmp_path / "latest_ckpt_global_step.txt", "15")
    assert steps(listing(tmp_path)) == [(5, True), (10, True), (15, True)]
    write(tmp_path / "global_step_10" / "fully_async_state.pt", saved=SAVED + 40)
    found = listing(tmp_path)
    assert steps(found) == [(5, False), (10, True), (15, False)]
    assert found.checkpoints[1].saved_at == SAVED + 40


def test_a_latest_file_that_holds_no_number_is_a_failure_and_not_partial_checkpoints(tmp_path: Path) -> None:
    write(tmp_path / "global_step_5" / "trainer_state.pt")
    write(tmp_path / "latest_ckpt_global_step.txt", "")
    refused = failure(tmp_path)
    assert refused.reason is FailureReason.PARSE
    assert "latest_ckpt_global_step.txt" in refused.detail


def test_a_commit_record_needs_no_latest_file(tmp_path: Path) -> None:
    for step, recorded in ((10, 10), (20, 19)):
        record = {"schema_version": 1, "step": recorded, "attempt_id": "a" * 32, "manifest_sha256": "b" * 64}
        write(tmp_path / f"global_step_{step}" / "checkpoint_commit.json", json.dumps(record), SAVED + step)
    write(tmp_path / "global_step_30" / "_attempts" / ("c" * 32) / "trainer_state.pt")
    found = listing(tmp_path)
    assert steps(found) == [(10, True), (20, False), (30, False)]
    assert found.checkpoints[0].saved_at == SAVED + 10


def test_a_half_deleted_folder_is_partial(tmp_path: Path) -> None:
    levanter(tmp_path, 3)
    write(tmp_path / "step-4" / "d" / "0a")
    (tmp_path / "step-5").mkdir()
    assert steps(listing(tmp_path)) == [(3, True), (4, False), (5, False)]


def test_links_are_followed_within_the_root_alone(tmp_path: Path) -> None:
    levanter(tmp_path / "elsewhere", 9)
    levanter(tmp_path / "root" / "kept", 3)
    (tmp_path / "root" / "step-3").symlink_to(tmp_path / "root" / "kept" / "step-3")
    (tmp_path / "root" / "step-9").symlink_to(tmp_path / "elsewhere" / "step-9")
    (tmp_path / "root" / "step-10").symlink_to(tmp_path / "root" / "nowhere")
    (tmp_path / "root" / "step-11").symlink_to("step-11")
    levanter(tmp_path / "root", 12)
    found = listing(tmp_path / "root")
    assert steps(found) == [(3, True), (12, True)]
    assert any("step-9 is a link that leads out of the root" in note for note in found.notes)


@pytest.mark.parametrize("name", ["checkpoints", "step-12", "step-12/metadata.json", "step-12/checkpoint_commit.json"])
def test_a_link_out_of_the_root_that_may_hold_the_newest_is_no_answer(tmp_path: Path, name: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    levanter(root, 3)
    levanter(elsewhere, 12)
    link = root / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere / name.removeprefix("checkpoints"))
    refused = failure(root)
    assert refused.reason is FailureReason.OTHER
    assert f"{link} is a link that leads out of the root: not followed, so the newest" in refused.detail


@pytest.mark.parametrize("name", ["checkpoints", "step-12"])
def test_where_a_link_leads_may_be_a_root_of_its_own(tmp_path: Path, name: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    levanter(root, 3)
    levanter(elsewhere / "run", 12)
    (root / name).symlink_to(elsewhere / "run" / name.removeprefix("checkpoints"))
    assert steps(listing(root, elsewhere / "run")) == [(3, True), (12, True)]
    (elsewhere / "run").rename(elsewhere / "checkpoints")
    (root / name).unlink()
    (root / name).symlink_to(elsewhere / "checkpoints" / name.removeprefix("checkpoints"))
    assert steps(listing(elsewhere, root)) == [(3, True), (12, True)]


def test_one_folder_under_two_names_is_counted_once(tmp_path: Path) -> None:
    levanter(tmp_path / "data" / "run" / "checkpoints", 3)
    (tmp_path / "scratch").symlink_to(tmp_path / "data")
    one = listing(tmp_path / "data" / "run")
    assert steps(one) == [(3, True)]
    assert steps(listing(tmp_path / "data" / "run", tmp_path / "scratch" / "run")) == [(3, True)]
    assert steps(listing(tmp_path / "data" / "run", tmp_path / "data" / "." / "x" / ".." / "run" / "checkpoints")) == [
        (3, True)
    ]
    assert steps(listing(tmp_path / "scratch" / "run" / "checkpoints", tmp_path / "data" / "run")) == [(3, True)]


def test_a_latest_file_that_leads_out_of_the_root_is_not_missing(tmp_path: Path) -> None:
    write(tmp_path / "root" / "global_step_5" / "trainer_state.pt")
    write(tmp_path / "latest", "5")
    (tmp_path / "root" / "latest_ckpt_global_step.txt").symlink_to(tmp_path / "latest")
    assert failure(tmp_path / "root").reason is FailureReason.OTHER


def test_a_pipe_in_a_markers_place_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / "step-3").mkdir()
    os.mkfifo(tmp_path / "step-3" / "metadata.json")
    assert failure(tmp_path).reason is FailureReason.PARSE


def test_at_hides_what_was_written_later(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        levanter(tmp_path, step, SAVED + 100 * step)
    write(tmp_path / "step-4" / "d" / "0a")  # no file of its own: nobody knows since when it is there
    assert steps(listing(tmp_path, at=SAVED + 197)) == [(1, True), (2, False)]
    assert steps(listing(tmp_path, at=SAVED + 300)) == [(1, True), (2, True), (3, True)]
    assert steps(listing(tmp_path, at=SAVED + 300, now=SAVED + 310))[-1] == (4, False)
    assert steps(listing(tmp_path, at=SAVED)) == []


def test_a_folder_that_vanishes_drops_out_and_a_rewritten_newest_has_its_new_time(tmp_path: Path) -> None:
    reader = CheckpointReader(lambda site: None)
    job = Job(run="r", bucket="sft", checkpoints=(str(tmp_path),))
    for step in (1, 2):
        levanter(tmp_path, step)
    first = reader.read(job)
    assert isinstance(first, CheckpointListing)
    shutil.rmtree(tmp_path / "step-1")
    levanter(tmp_path, 2, SAVED + 500)
    second = reader.read(job)
    assert isinstance(second, CheckpointListing)
    assert [(c.step, c.saved_at) for c in second.checkpoints] == [(2, SAVED + 500)]
    (tmp_path / "step-2" / "metadata.json").unlink()
    third = reader.read(job)
    assert isinstance(third, CheckpointListing)
    assert steps(third) == [(2, False)]
    reader.forget("r")
    assert reader.read(job) == third
