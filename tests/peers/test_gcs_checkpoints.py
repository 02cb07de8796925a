"""Checkpoints in a bucket, through the real client, on the real fake-gcs-server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from google.cloud import storage

from runwatch.facts import CheckpointListing, Failure, FailureReason
from runwatch.fleet import Job
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.folder_listing import LookFailedError
from runwatch.sources.gcs import GcsConnection
from tests.peers.gcs_server import client_of, files_below, running_gcs_server, upload

LEVANTER = Path(__file__).parents[1] / "data" / "levanter"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_gcs_server() as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[storage.Client]:
    with client_of(url) as connected:
        yield connected


def job_with(*roots: str) -> Job:
    return Job(run="r", bucket="sft", site="marin", checkpoints=roots)


def metadata(step: int, *, temporary: bool = False) -> bytes:
    return json.dumps({"step": step, "timestamp": "2026-01-02T03:04:05", "is_temporary": temporary}).encode()


class Reading:
    """A reader on the server, and how many requests it made."""

    def __init__(self, client: storage.Client, at: float | None = None) -> None:
        self.requests: list[str] = []
        self.reader = CheckpointReader(
            self.requests.append, at=at, connect_buckets=lambda: GcsConnection(client, timeout=5.0)
        )

    def look(self, *roots: str) -> CheckpointListing | Failure:
        self.requests.clear()
        return self.reader.read(job_with(*roots))


def listed(outcome: CheckpointListing | Failure) -> list[tuple[int, bool]]:
    assert isinstance(outcome, CheckpointListing), outcome
    return [(checkpoint.step, checkpoint.complete) for checkpoint in outcome.checkpoints]


def test_real_levanter_capture_in_permanent_and_temporary_root(client: storage.Client) -> None:
    upload(client, "capture", files_below(LEVANTER))
    before = time.time()
    reading = Reading(client)
    outcome = reading.look("gs://capture/perm/run-abc123", "gs://capture/tmp/ttl=14d/checkpoints-temp/run-abc123/")
    assert listed(outcome) == [(4, True), (6, True)]
    assert isinstance(outcome, CheckpointListing)
    permanent, temporary = outcome.checkpoints
    assert (permanent.kind, temporary.kind) == ("permanent", "temporary")
    assert temporary.path == "gs://capture/tmp/ttl=14d/checkpoints-temp/run-abc123/step-6"
    # The age comes from the object, which was written just now, not from the time inside it (in 2026-11).
    assert temporary.saved_at is not None
    assert abs(temporary.saved_at - before) < 60


def test_the_partial_newest_does_not_win_and_text_order_does_not_either(client: storage.Client) -> None:
    objects = {f"out/checkpoints/step-{step}/metadata.json": metadata(step) for step in (500, 9000)}
    upload(client, "order", {**objects, "out/.executor_info": b"{}", "out/checkpoints/step-10000/d/0a": b"x"})
    assert listed(Reading(client).look("gs://order/out")) == [(500, True), (9000, True), (10000, False)]


def test_second_look_lists_the_parents_the_partial_and_the_newest_complete_alone(client: storage.Client) -> None:
    objects = {f"run/checkpoints/step-{step}/metadata.json": metadata(step) for step in (1, 2, 3)}
    upload(client, "counting", {**objects, "run/checkpoints/step-4/manifest.json": b"{}"})
    reading = Reading(client)
    first = reading.look("gs://counting/run")
    # The root, its checkpoints/, four step folders, and the metadata of the three that have it.
    assert reading.requests == ["marin"] * 9
    assert reading.look("gs://counting/run") == first
    # The root, its checkpoints/, the partial folder, the newest complete one, and one of the older in turn.
    assert reading.requests == ["marin"] * 5
    upload(client, "counting", {"run/checkpoints/step-4/metadata.json": metadata(4)})
    assert listed(reading.look("gs://counting/run")) == [(1, True), (2, True), (3, True), (4, True)]
    # The root, its checkpoints/, the folder that was partial, its metadata, and one of the older in turn.
    assert reading.requests == ["marin"] * 5
    reading.look("gs://counting/run")
    assert reading.requests == ["marin"] * 4


def test_an_empty_root_is_not_found_and_one_with_the_executors_file_is_read(client: storage.Client) -> None:
    upload(client, "early", {"run/.executor_status": b"RUNNING", "folder/": b""})
    outcome = Reading(client).look("gs://early/nothing-there")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NOT_FOUND
    outcome = Reading(client).look("gs://early/folder")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NOT_FOUND
    assert listed(Reading(client).look("gs://early/run")) == []
    outcome = Reading(client).look("gs://early/run", "gs://early/nothing-there")
    assert listed(outcome) == []
    assert isinstance(outcome, CheckpointListing)
    assert any("nothing-there" in note for note in outcome.notes)


def test_a_prefix_is_a_folder_and_not_the_start_of_a_name(client: storage.Client) -> None:
    upload(client, "prefixes", {"run-2/step-5/metadata.json": metadata(5), "run/step-1/metadata.json": metadata(1)})
    assert listed(Reading(client).look("gs://prefixes/run")) == [(1, True)]


def test_missing_bucket_is_not_found(client: storage.Client) -> None:
    outcome = Reading(client).look("gs://no-such-bucket/run")
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NOT_FOUND
    assert "gs://no-such-bucket/run" in outcome.detail


def test_at_hides_what_was_written_after_it(client: storage.Client) -> None:
    upload(client, "past", {"run/step-1/metadata.json": metadata(1), "run/step-2/manifest.json": b"{}"})
    # Between the two by the server's own clock, which is what object times are.
    between = client.bucket("past").get_blob("run/step-2/manifest.json").updated.timestamp() + 0.01
    time.sleep(0.05)
    upload(client, "past", {"run/step-2/metadata.json": metadata(2), "run/step-3/metadata.json": metadata(3)})
    assert listed(Reading(client, at=between).look("gs://past/run")) == [(1, True), (2, False)]
    assert listed(Reading(client).look("gs://past/run")) == [(1, True), (2, True), (3, True)]


def test_the_emulators_environment_variable_is_enough(
    url: str, client: storage.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(client, "environment", {"run/step-3/metadata.json": metadata(3)})
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    reader = CheckpointReader(lambda site: None)
    try:
        assert listed(reader.read(job_with("gs://environment/run"))) == [(3, True)]
    finally:
        reader.close()


def test_the_end_of_an_object_is_read_alone(client: storage.Client) -> None:
    upload(client, "tails", {"run/long": b"0123456789" * 1000 + b"end", "run/short": b"abc", "run/empty": b""})
    counted: list[str] = []
    store = GcsConnection(client, timeout=5.0).open("tails", "run", lambda: counted.append("one"))
    answers: list[requests.Response] = []
    client._http.hooks["response"].append(lambda answer, **_: answers.append(answer))
    assert store.read_tail("long", 7) == b"6789end"
    assert [(answer.status_code, answer.headers["Content-Length"]) for answer in answers] == [(206, "7")]
    assert store.read_tail("short", 3) == b"abc"
    assert store.read_tail("short", 1000) == b"abc"
    assert store.read_tail("empty", 10) == b""
    with pytest.raises(LookFailedError) as gone:
        store.read_tail("missing", 10)
    assert gone.value.failure.reason is FailureReason.NOT_FOUND
    assert counted == ["one"] * 5


def test_a_trainer_log_in_a_bucket_confirms_the_end_for_one_request_each_time_it_is_written(
    client: storage.Client,
) -> None:
    running, done = b'{"current_steps":45,"total_steps":50}\n', b'{"current_steps":50,"total_steps":50}\n'
    upload(client, "llama", {"out/trainer_log.jsonl": running * 4000})
    reading = Reading(client)
    first = reading.look("gs://llama/out")
    assert isinstance(first, CheckpointListing)
    assert (first.completed, len(reading.requests)) == (False, 2)
    assert reading.look("gs://llama/out") == first
    assert len(reading.requests) == 1
    upload(client, "llama", {"out/trainer_log.jsonl": running * 4000 + done})
    second = reading.look("gs://llama/out")
    assert isinstance(second, CheckpointListing)
    assert (second.completed, len(reading.requests)) == (True, 2)


def test_a_rank_of_which_the_part_was_never_uploaded(client: storage.Client) -> None:
    """An empty object is what a mounted bucket shows of a file that is still being written."""
    parts = {f"{kind}_world_size_16_rank_{rank}.pt" for kind in ("model", "optim", "extra_state") for rank in range(16)}
    objects = {"run/latest_ckpt_global_step.txt": b"20"}
    for step in (10, 20):
        objects[f"run/global_step_{step}/trainer_state.pt"] = b"x"
        objects |= {f"run/global_step_{step}/policy/{part}": b"x" for part in parts}
    missing = "run/global_step_20/policy/optim_world_size_16_rank_11.pt"
    del objects[missing]
    upload(client, "ranks", objects)
    reading = Reading(client)
    outcome = reading.look("gs://ranks/run")
    assert listed(outcome) == [(10, True), (20, False)]
    assert isinstance(outcome, CheckpointListing)
    assert "in policy of the 16 parts of optim number 11 is missing" in outcome.checkpoints[1].evidence
    upload(client, "ranks", {missing: b""})
    assert listed(reading.look("gs://ranks/run")) == [(10, True), (20, False)]
    upload(client, "ranks", {missing: b"x"})
    assert listed(reading.look("gs://ranks/run")) == [(10, True), (20, True)]
