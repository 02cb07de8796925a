"""What `trainer_state.json` and `trainer_log.jsonl` add to a look at checkpoints, from folders to measurements."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runwatch.config.model import TrainerConfig
from runwatch.derive.checkpoint_interval import Interval, checkpoint_interval
from runwatch.derive.checkpoints import measure_checkpoints
from runwatch.derive.trainer_config import Origin, target_steps
from runwatch.facts import Checkpoint, CheckpointListing, Failure, FailureReason, TrainerFacts
from runwatch.fleet import Job
from runwatch.measurements import Measurements
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.folder_listing import LookFailedError
from tests.unit.test_checkpoint_requests import Bucket, Reading

CAPTURES = Path(__file__).parents[1] / "data" / "logs" / "sft"
SAVED = 1_790_000_000.0

# Read off the end of the capture by eye: its last entry is an evaluation, the one before it has the loss.
CAPTURED = TrainerFacts(80, 80, 30, 2.0, 80, 5.3738, 1.0840812921524048, 5e-05)

RUNNING = b'{"current_steps":45,"total_steps":50,"loss":5.7,"lr":0.0003,"epoch":0.9,"elapsed_time":"0:00:09"}\n'
DONE = b'{"current_steps":50,"total_steps":50,"epoch":1.0,"percentage":100.0,"elapsed_time":"0:00:10"}\n'


def save(folder: Path, step: int, state: bytes | None = None, saved: float = SAVED) -> None:
    marker = folder / f"checkpoint-{step}" / "trainer_state.json"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_bytes(state if state is not None else json.dumps({"global_step": step}).encode())
    os.utime(marker, (saved, saved))


def look(*roots: Path, at: float | None = None) -> CheckpointListing:
    reader = CheckpointReader(lambda site: None, at=at)
    outcome = reader.read(Job(run="r", bucket="sft", checkpoints=tuple(str(root) for root in roots)))
    assert isinstance(outcome, CheckpointListing), outcome
    return outcome


def test_the_newest_complete_state_is_kept_from_a_real_one(tmp_path: Path) -> None:
    save(tmp_path, 60, b'{"global_step": 60, "max_steps": 70, "save_steps": 20}')
    save(tmp_path, 80, (CAPTURES / "trainer_state_checkpoint-80.json").read_bytes())
    save(tmp_path, 90, b'{"global_step": 90, "max_steps": 100')  # being written
    assert look(tmp_path).trainer == CAPTURED


def test_a_state_with_minus_one_or_zero_steps_says_none(tmp_path: Path) -> None:
    save(tmp_path, 20, b'{"global_step": 20, "max_steps": -1, "save_steps": 0, "log_history": []}')
    assert look(tmp_path).trainer == TrainerFacts(20)
    save(tmp_path, 30, b'{"global_step": 30, "max_steps": 0, "save_steps": 0.1}')
    assert look(tmp_path).trainer == TrainerFacts(30)


def test_other_layouts_and_states_too_large_to_read_tell_nothing() -> None:
    bucket = Bucket({"run/checkpoint-5/trainer_state.json": (b'{"global_step": 5, "max_steps": 9}', 1.0)})
    outcome = Reading(bucket).look()
    assert isinstance(outcome, CheckpointListing)
    assert outcome.trainer == TrainerFacts(5, 9)
    bucket.sizes["run/checkpoint-5/trainer_state.json"] = 2**40
    outcome = Reading(bucket).look()
    assert isinstance(outcome, CheckpointListing)
    assert outcome.trainer is None
    bucket.objects["run/step-7/metadata.json"] = (b'{"step": 7, "timestamp": "2026-01-01T00:00:00"}', 2.0)
    outcome = Reading(bucket).look()
    assert isinstance(outcome, CheckpointListing)
    assert outcome.trainer is None


def test_the_state_is_read_once_and_told_at_each_look() -> None:
    bucket = Bucket({"run/checkpoint-5/trainer_state.json": (b'{"global_step": 5, "max_steps": 9}', 1.0)})
    reading = Reading(bucket)
    first = reading.look()
    assert reading.look() == first
    assert isinstance(first, CheckpointListing)
    assert first.trainer == TrainerFacts(5, 9)
    assert bucket.asked == ["list run/", "list run/checkpoint-5/"]


def complete(*steps: int, layout: str = "hf") -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(s, "r", f"r/checkpoint-{s}", True, "seen", 1000.0, layout=layout) for s in steps)


@pytest.mark.parametrize(
    ("steps", "trainer", "borne_out"),
    [
        ((30, 60, 80), CAPTURED, True),  # the capture's own run: 80 is its last step
        ((80,), CAPTURED, False),  # the last step is saved whatever the strategy is
        ((40, 80), CAPTURED, False),
        ((1000, 2000), TrainerFacts(2000, 5000, 500, 2.0), False),  # each epoch, beside the default of 500
        ((250, 500, 750), TrainerFacts(750, 5000, 500, 3.0), False),
        ((500, 2000, 2500), TrainerFacts(2500, 5000, 500, 1.7), True),  # the oldest are deleted, the best is kept
        ((1500,), TrainerFacts(1500, 5000, 500, 1.37), True),
        ((1500,), TrainerFacts(1500, 5000, 500, 3.0), False),  # may be the end of an epoch
        ((1500,), TrainerFacts(1500, 5000, 500), False),
        ((1500,), TrainerFacts(1500, 5000, None, 1.37), False),
    ],
)
def test_save_steps_counts_where_the_saved_steps_bear_it_out(
    steps: tuple[int, ...], trainer: TrainerFacts, borne_out: bool
) -> None:
    def interval(config: dict[str, object], step_duration: float | None = 3.0) -> Interval | None:
        return checkpoint_interval(
            complete(*steps), step_duration=step_duration, trainer_config=config, configured=None, trainer=trainer
        )

    # The checkpoints all carry one time, so no interval can be measured from them.
    seconds = {30: 90.0, 500: 1500.0}.get(trainer.save_steps or 0, 0.0)
    source = f"save_steps {trainer.save_steps} in trainer_state.json x 3 s a step"
    assert interval({}) == (Interval(seconds, source) if borne_out else None)
    assert interval({"save_strategy": "epoch"}) is None
    assert interval({}, step_duration=None) is None
    assert interval({"save_steps": 7}) == Interval(21.0, "tracker's config save_steps 7 x 3 s a step")


def test_the_number_of_steps_is_the_last_to_be_asked() -> None:
    own = TrainerConfig()
    assert target_steps({}, own, CAPTURED) == Origin(80, "max_steps in trainer_state.json of the checkpoint at step 80")
    assert target_steps({"num_train_steps": 120}, own, CAPTURED) == Origin(120, "tracker's config num_train_steps")
    assert target_steps({"max_steps": -1}, own, CAPTURED, step=80) == target_steps({}, own, CAPTURED)
    assert target_steps({}, TrainerConfig(num_train_steps=90), CAPTURED) == Origin(90, "config.num_train_steps")
    assert target_steps({}, own, CAPTURED, step=81) is None  # resumed for more steps
    assert target_steps({}, own, TrainerFacts(80)) is None
    assert target_steps({}, own) is None


def test_the_evidence_names_what_the_state_says(tmp_path: Path) -> None:
    save(tmp_path, 20, (CAPTURES / "trainer_state_nan_checkpoint-20.json").read_bytes())
    measured = Measurements()
    (tmp_path / "trainer_log.jsonl").write_bytes(DONE)
    evidence = measure_checkpoints(
        measured, look(tmp_path), step=20, step_duration=3.0, trainer_config={}, configured_interval=None
    )
    texts = [line.text for line in evidence]
    assert (
        f"trainer_state.json of {tmp_path}/checkpoint-20: step 20 of 20, save_steps 30; it last logged at step 20: "
        "loss 0, grad norm nan, learning rate 0.0002"
    ) in texts
    assert f"{tmp_path}/trainer_log.jsonl ends at step 50 of 50: every step is done" in texts
    assert measured.get("mljob_step") is None
    assert measured.get("mljob_loss") is None


def test_a_trainer_log_confirms_the_end_and_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "trainer_log.jsonl"
    log.write_bytes(RUNNING)
    os.utime(log, (SAVED, SAVED))
    found = look(tmp_path)
    assert (found.completed, found.completed_at) == (False, None)
    assert found.trainer_log == f"{log} ends at step 45 of 50: it confirms no end"
    log.write_bytes(RUNNING + DONE)
    os.utime(log, (SAVED + 9, SAVED + 9))
    found = look(tmp_path)
    assert (found.completed, found.completed_at) == (True, SAVED + 9)
    # Written in the past of today's look, but later than the time that is asked for.
    earlier = look(tmp_path, at=SAVED)
    assert (earlier.completed, earlier.trainer_log) == (False, "")
    assert any("trainer_log.jsonl was written later" in note for note in earlier.notes)
    log.write_bytes(RUNNING + DONE + RUNNING)  # resumed for more: steps went back
    assert not look(tmp_path).completed
    log.write_bytes(b"")
    assert look(tmp_path).trainer_log == f"{log} holds no line with a step: it confirms nothing"
    (tmp_path / "sub").mkdir()
    log.rename(tmp_path / "sub" / log.name)
    assert look(tmp_path).trainer_log == ""


def test_of_two_roots_the_trainer_log_that_was_written_last_counts(tmp_path: Path) -> None:
    for name, content, written in (("old", DONE, SAVED), ("new", RUNNING, SAVED + 60)):
        (tmp_path / name).mkdir()
        log = tmp_path / name / "trainer_log.jsonl"
        log.write_bytes(content)
        os.utime(log, (written, written))
    assert not look(tmp_path / "old", tmp_path / "new").completed
    assert look(tmp_path / "old").completed


def test_of_a_long_trainer_log_the_last_64_kib_are_read(tmp_path: Path) -> None:
    log = tmp_path / "trainer_log.jsonl"
    log.write_bytes(RUNNING * 5000 + DONE)
    assert look(tmp_path).completed
    log.write_bytes(DONE + b"x" * 65536)  # no line begins in what is read
    assert look(tmp_path).trainer_log == f"{log} holds no line with a step: it confirms nothing"


def test_a_pipe_in_its_place_hides_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 20)
    os.mkfifo(tmp_path / "trainer_log.jsonl")
    assert [c.step for c in look(tmp_path).checkpoints] == [20]


def test_a_trainer_log_costs_a_request_when_it_was_written_anew() -> None:
    bucket = Bucket({"run/trainer_log.jsonl": (RUNNING, 1000.0)})
    reading = Reading(bucket)
    first = reading.look()
    assert isinstance(first, CheckpointListing)
    assert (first.completed, bucket.asked) == (False, ["list run/", "tail run/trainer_log.jsonl"])
    assert reading.look() == first
    assert bucket.asked == ["list run/"]
    bucket.objects["run/trainer_log.jsonl"] = (RUNNING + DONE, 1000.0)  # another size alone
    second = reading.look()
    assert isinstance(second, CheckpointListing)
    assert (second.completed, second.completed_at) == (True, 1000.0)
    assert bucket.asked == ["list run/", "tail run/trainer_log.jsonl"]
    bucket.objects["run/trainer_log.jsonl"] = (DONE + RUNNING, 1001.0)  # another time alone
    third = reading.look()
    assert isinstance(third, CheckpointListing)
    assert (third.completed, bucket.asked) == (False, ["list run/", "tail run/trainer_log.jsonl"])


@pytest.mark.parametrize("reason", list(FailureReason))
def test_a_trainer_log_that_cannot_be_read(reason: FailureReason) -> None:
    bucket = Bucket({"run/trainer_log.jsonl": (DONE, 1000.0)})
    broken = [True]

    def fail(asked: str) -> None:
        if asked.startswith("tail") and broken[0]:
            raise LookFailedError(Failure(reason, "as told"))

    bucket.before = fail
    reading = Reading(bucket)
    outcome = reading.reader.read(Job(run="r", bucket="sft", checkpoints=("gs://bucket/run",)))
    if reason in {FailureReason.TIMEOUT, FailureReason.NETWORK, FailureReason.THROTTLED}:
        assert outcome == Failure(reason, "as told")
    else:
        assert isinstance(outcome, CheckpointListing)
        assert (outcome.completed, outcome.trainer_log) == (False, "")
        noted = any("so it confirms no end: as told" in note for note in outcome.notes)
        assert noted == (reason is not FailureReason.NOT_FOUND)
    broken[0] = False
    again = reading.look()
    assert isinstance(again, CheckpointListing)
    assert again.completed
