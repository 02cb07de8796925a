"""Harbor job trees in a bucket, through the real client, on the real fake-gcs-server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud import storage

from runwatch.config.model import Trials
from runwatch.derive.trials import summarise_trials
from runwatch.facts import Failure, FailureReason, TrialsUpdate
from runwatch.fleet import Job
from runwatch.sources.gcs import GcsConnection
from runwatch.sources.trials import TrialsReader
from tests.peers.gcs_server import client_of, files_below, running_gcs_server, upload

CAPTURE = Path(__file__).parents[1] / "data" / "harbor" / "captured_0_26"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_gcs_server() as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[storage.Client]:
    with client_of(url) as connected:
        yield connected


class Reading:
    """A reader on the server, and how many requests it made."""

    def __init__(self, client: storage.Client, at: float | None = None) -> None:
        self.requests: list[str] = []
        # Long after every result: none is watched for a retry.
        self.reader = TrialsReader(
            self.requests.append,
            at=at,
            clock=lambda: time.time() + 1e6,
            connect_buckets=lambda: GcsConnection(client, timeout=5.0),
        )

    def look(self, root: str) -> TrialsUpdate | Failure:
        self.requests.clear()
        return self.reader.read(Job(run="e", bucket="eval", site="marin", trials=Trials(path=root)))

    def update(self, root: str) -> TrialsUpdate:
        outcome = self.look(root)
        assert isinstance(outcome, TrialsUpdate), outcome
        return outcome


def result(name: str, reward: float | None) -> bytes:
    rewards = None if reward is None else {"rewards": {"reward": reward}}
    phase = {"started_at": "2025-11-01T10:00:00", "finished_at": "2025-11-01T10:02:00"}
    agent = {"n_output_tokens": 9, "metadata": {"n_episodes": 2}}
    value = {"trial_name": name, "verifier_result": rewards, "agent_execution": phase, "agent_result": agent}
    return json.dumps(value).encode()


def test_the_captured_job(client: storage.Client) -> None:
    before = time.time()
    upload(client, "capture", {f"evals/{name}": content for name, content in files_below(CAPTURE).items()})
    for root in ("gs://capture/evals", "gs://capture/evals/eval-fake__tb/"):
        summary = summarise_trials(Reading(client).update(root))
        assert (summary.trials, summary.scored, summary.passed, summary.total) == (16, 12, 6, 16)
        assert summary.reward_mean == pytest.approx(5 / 12)
        assert (summary.agent_ran, summary.turns_mean) == (14, 3.0)
        # The object's time, which is now, not what the file says.
        assert summary.last is not None
        assert abs(summary.last - before) < 60


def test_what_a_look_costs(client: storage.Client) -> None:
    objects = {f"job/t{number:02}__aaaaaaa/result.json": result(f"t{number:02}", 1.0) for number in range(30)}
    objects |= {f"job/t00__aaaaaaa/artifacts/{number}/result.json": b"{}" for number in range(40)}
    upload(client, "cost", {**objects, "job/job.log": b"", "job/running__aaaaaaa/trial.log": b""})
    reading = Reading(client)
    first = reading.update("gs://cost/job")
    # The folder, 31 trial folders, and 30 results; artifacts are not looked at.
    assert reading.requests == ["marin"] * (1 + 31 + 30)
    assert (len(first.folders[0].results), first.folders[0].running) == (30, 1)
    assert reading.update("gs://cost/job") == first
    # The folder, the trial that runs, and 20 in their turn.
    assert reading.requests == ["marin"] * (1 + 1 + 20)
    upload(client, "cost", {"job/running__aaaaaaa/result.json": result("running", 0.0)})
    summary = summarise_trials(reading.update("gs://cost/job"))
    assert reading.requests == ["marin"] * (1 + 2 + 20)
    assert (summary.trials, summary.passed) == (31, 30)


def test_chunks(client: storage.Client) -> None:
    done = json.dumps({"n_total_trials": 1, "finished_at": "2025-11-01T10:00:00", "stats": {}}).encode()
    upload(
        client,
        "gen",
        {
            **{f"exp/trace_jobs/task_chunks/chunk_{number:03}/t/task.toml": b"" for number in range(3)},
            "exp/trace_jobs/chunk_000/g_trace_000/result.json": done,
            "exp/trace_jobs/chunk_000/g_trace_000/t__aaaaaaa/result.json": result("t", None),
            "exp/trace_jobs/chunk_001/g_trace_001/job.log": b"",
            "exp/outputs/traces/chunk_000/x": b"",
        },
    )
    update = Reading(client).update("gs://gen/exp")
    assert update.chunks == (0, 1, 2)
    assert [(folder.chunk, folder.finished, len(folder.results)) for folder in update.folders] == [
        (0, True, 1),
        (1, False, 0),
    ]


def test_at_hides_what_was_written_after_it(client: storage.Client) -> None:
    upload(client, "past", {"job/job.log": b"", "job/a__aaaaaaa/result.json": result("a", 1.0)})
    between = client.bucket("past").get_blob("job/a__aaaaaaa/result.json").updated.timestamp() + 0.01
    time.sleep(0.05)
    upload(client, "past", {"job/b__bbbbbbb/result.json": result("b", 1.0)})
    assert len(Reading(client, at=between).update("gs://past/job").folders[0].results) == 1
    assert len(Reading(client).update("gs://past/job").folders[0].results) == 2


@pytest.mark.parametrize("root", ["gs://none-such/x", "gs://empty/nothing-there", "gs://empty/other"])
def test_nothing_there_is_not_found(client: storage.Client, root: str) -> None:
    upload(client, "empty", {"other/readme.txt": b"x"})
    outcome = Reading(client).look(root)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NOT_FOUND


def test_an_unreachable_server_is_a_failure_and_what_was_read_stays(client: storage.Client) -> None:
    upload(client, "keep", {"job/job.log": b"", "job/a__aaaaaaa/result.json": result("a", 1.0)})
    reading = Reading(client)
    before = reading.update("gs://keep/job")
    address = client._connection.API_BASE_URL
    client._connection.API_BASE_URL = "http://127.0.0.1:1"
    try:
        outcome = reading.look("gs://keep/job")
    finally:
        client._connection.API_BASE_URL = address
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NETWORK
    assert reading.update("gs://keep/job") == before
    assert reading.requests == ["marin"] * 2  # the folder, and the trial in its turn
