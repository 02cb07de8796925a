"""Measurements and evidence from what a job's logs say."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runwatch.derive.log import measure_log
from runwatch.facts import LogFacts, SourceKind
from runwatch.fleet import Job
from runwatch.job_record import JobRecord
from runwatch.measurements import Evidence, Measurements
from runwatch.sources import log_follower
from tests.unit.log_watching import Watched

LOGS = Path(__file__).parents[1] / "data" / "logs"
NOW = datetime(2026, 11, 29, 8, 0, tzinfo=UTC).timestamp()


def measured(facts: LogFacts, bucket: str, observed: float = NOW) -> tuple[Measurements, list[Evidence]]:
    found = Measurements()
    evidence = measure_log(found, facts, bucket=bucket, observed=observed)
    return found, evidence


def facts_of(tmp_path: Path, text: str, modified: float = NOW) -> LogFacts:
    path = tmp_path / "job.out"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (modified, modified))
    return Watched(path).facts()


EVAL_LOG = """[compute] API base: http://10.1.2.3:8000/v1
[INFO] Docker tunnel OK.
(APIServer pid=1) INFO 11-29 07:49:31 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs
(APIServer pid=1) INFO:     172.18.0.3:48374 - "POST /v1/chat/completions HTTP/1.1" 200 OK
2026-11-29 07:20:00 daytona.common.errors.DaytonaAuthenticationError: Unauthorized
2026-11-29 07:40:00 daytona.common.errors.DaytonaAuthenticationError: Unauthorized
2026-11-29 07:45:00 daytona.common.errors.DaytonaAuthenticationError: Unauthorized
2026-11-29 07:50:00 harbor.errors.AgentTimeoutError: Agent execution timed out after 900.0 seconds
2026-11-29 07:51:00 harbor.errors.AgentTimeoutError: Agent execution timed out after 900.0 seconds
"""


def test_an_eval_s_log(tmp_path: Path) -> None:
    found, evidence = measured(facts_of(tmp_path, EVAL_LOG), "eval")
    assert found.get("mljob_log_last_write_timestamp_seconds") == NOW
    assert found.get("mljob_engine_running_requests") == 0
    success = datetime(2026, 11, 29, 7, 49, 31, tzinfo=UTC).timestamp()
    assert found.get("mljob_engine_last_success_timestamp_seconds") == success
    assert found.get("mljob_auth_failures") == 2  # 07:20 is over 30 min ago
    assert found.family("mljob_infra_check") == {("tunnel",): 1.0, ("api_base",): 0.0, ("engine",): 0.0}
    assert found.get("mljob_upload_complete") is None
    texts = [line.text for line in evidence]
    assert "ignored 2 lines as benign: a trial that times out is still scored, even if most do" in texts
    assert "api_base points at 10.1.2.3, internal: a sandbox elsewhere cannot reach it" in texts
    assert not any(text.startswith("end: ") for text in texts)
    # Ten minutes earlier the same engine had answered just before.
    earlier, _ = measured(facts_of(tmp_path, EVAL_LOG), "eval", observed=NOW - 600)
    assert earlier.get("mljob_infra_check", check="engine") == 1.0


def test_a_count_of_running_requests_is_not_of_now_once_its_engine_fell_silent(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, EVAL_LOG.replace("Running: 0 reqs", "Running: 5 reqs"))
    reported = datetime(2026, 11, 29, 7, 49, 31, tzinfo=UTC).timestamp()
    for observed, expected in ((reported + 600, 5), (reported + 601, None)):
        found, _ = measured(facts, "eval", observed=observed)
        assert found.get("mljob_engine_running_requests") == expected
    # One without requests has nothing more to report: it is idle until it says otherwise.
    found, _ = measured(facts_of(tmp_path, EVAL_LOG), "eval", observed=reported + 3600)
    assert found.get("mljob_engine_running_requests") == 0


def test_what_was_not_seen_has_no_series(tmp_path: Path) -> None:
    found, _ = measured(facts_of(tmp_path, "hello\n"), "eval")
    assert set(found.names()) == {"mljob_log_last_write_timestamp_seconds"}


@pytest.mark.parametrize("bucket", ["rl", "sft", "other"])
def test_training_jobs_have_no_engine_series(tmp_path: Path, bucket: str) -> None:
    found, _ = measured(facts_of(tmp_path, EVAL_LOG), bucket)
    assert set(found.names()) == {"mljob_log_last_write_timestamp_seconds"}


def test_uploads_of_a_datagen_job(tmp_path: Path) -> None:
    begun = (
        "Chunk Index: 3 / 20\nslurmstepd: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T07:31:14 DUE TO TIME LIMIT ***"
    )
    facts = facts_of(tmp_path, begun)
    assert (facts.chunk, facts.chunks, dict(facts.chunk_last_writes)) == (3, 20, {3: NOW})
    found, _ = measured(facts, "datagen")
    assert (found.get("mljob_upload_complete"), found.get("mljob_upload_timestamp_seconds")) == (0.0, None)
    done = "2026-11-29 07:59:00 - data.commons - INFO - Successfully uploaded dataset to: https://huggingface.co/a/b\n"
    found, _ = measured(facts_of(tmp_path, done), "datagen")
    uploaded = datetime(2026, 11, 29, 7, 59, tzinfo=UTC).timestamp()
    assert (found.get("mljob_upload_complete"), found.get("mljob_upload_timestamp_seconds")) == (1.0, uploaded)


def test_an_upload_of_one_chunk_of_several_is_not_the_jobs(tmp_path: Path) -> None:
    for number in (0, 1):
        path = tmp_path / f"gen_{number}.out"
        uploaded = f"2026-11-29 07:5{number}:00 Successfully uploaded dataset to: https://huggingface.co/a/b\n"
        path.write_text(f"Chunk Index: {number} / 2\n" + (uploaded if number else "vLLM is up\n"))
        os.utime(path, (NOW + number, NOW + number))
    facts = Watched(tmp_path / "gen_*.out").facts()
    found, evidence = measured(facts, "datagen")
    assert (found.get("mljob_upload_complete"), found.get("mljob_upload_timestamp_seconds")) == (0.0, None)
    assert any(line.text == "upload: the logs say that 1 chunk is uploaded, not that all are" for line in evidence)
    with (tmp_path / "gen_0.out").open("a") as log:
        log.write("2026-11-29 07:58:00 Successfully uploaded dataset to: https://huggingface.co/a/b\n")
    found, _ = measured(Watched(tmp_path / "gen_*.out").facts(), "datagen")
    last = datetime(2026, 11, 29, 7, 58, tzinfo=UTC).timestamp()
    assert (found.get("mljob_upload_complete"), found.get("mljob_upload_timestamp_seconds")) == (1.0, last)


FAILED = "✗ Trace generation failed with exit code: 1\n"
SUCCEEDED = "✓ Trace generation completed successfully\n"
LIMIT = "slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T07:31:14 DUE TO TIME LIMIT ***\n"
PREEMPTED = "slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T07:31:14 DUE TO PREEMPTION ***\n"


@pytest.mark.parametrize(
    ("logs", "failed"),
    [
        (["vLLM is up\n"], set()),
        ([FAILED], {3}),
        ([LIMIT], {3}),
        ([PREEMPTED], set()),
        ([SUCCEEDED], set()),
        ([SUCCEEDED + LIMIT], set()),  # its engine outlived it
        ([FAILED + LIMIT], {3}),
        ([FAILED + "Chunk Index: 3 / 20\nvLLM is up\n"], set()),  # begun again in the same file
        ([FAILED, "vLLM is up\n"], set()),  # the newer task of the chunk goes on
        (["vLLM is up\n", FAILED], {3}),
    ],
)
def test_chunks_whose_newest_log_ends_in_their_failure(tmp_path: Path, logs: list[str], failed: set[int]) -> None:
    for number, text in enumerate(logs):
        path = tmp_path / f"gen_{number}.out"
        path.write_text("Chunk Index: 3 / 20\n" + text, encoding="utf-8")
        os.utime(path, (NOW + number, NOW + number))
    assert Watched(tmp_path / "gen_*.out").facts().failed_chunks == failed


def test_chunks_without_a_log_are_not_uploaded() -> None:
    facts = LogFacts(("/l",), upload_complete=True, upload_time=NOW, chunk=0, chunks=None, uploaded_chunks={0})
    found = Measurements()
    for state, count in {"done": 1, "pending": 2}.items():
        found.set("mljob_chunks", count, state=state)
    measure_log(found, facts, bucket="datagen", observed=NOW)
    assert (found.get("mljob_upload_complete"), found.get("mljob_upload_timestamp_seconds")) == (0.0, None)


def test_failures_come_from_the_log_and_benign_ones_do_not(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, (LOGS / "sft" / "el_exc.out").read_text(encoding="utf-8"), NOW + 86400 / 2)
    assert facts.failures[0].reason == "traceback"
    assert "RuntimeError: CUDA error: device-side assert triggered" in facts.failures[0].text
    _, evidence = measured(facts, "sft")
    assert any(line.text.startswith("end: traceback: RuntimeError: CUDA error") for line in evidence)


def test_a_heartbeat_beside_a_hang_is_told_as_a_fault(tmp_path: Path) -> None:
    text = "No available shared memory broadcast block found in 60 seconds\n" * 3
    alone = facts_of(tmp_path, text)
    assert [(kind.count, kind.fault) for kind in alone.ignored] == [(3, "")]
    hang = "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81) ran for 600000 ms\n"
    beside = facts_of(tmp_path, text + hang)
    _, evidence = measured(beside, "rl")
    (line,) = [line for line in evidence if line.text.startswith("not benign here")]
    assert "WorkNCCL(SeqNum=81)" in str(line.fields["beside"])


def test_stamps_ahead_of_the_file_ask_for_the_time_zone(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, "2026-11-29 10:00:00 started\n", NOW)
    assert facts.notes == ("stamps are 7200 s ahead of the file's time: is the site's timezone right?",)


def test_facts_of_a_log_that_is_not_read_to_its_end_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first lines are of long ago: what they say of the engine and of uploads is not what holds now."""
    monkeypatch.setattr(log_follower, "NEWS_BYTES", 400)
    path = tmp_path / "job.out"
    path.write_text("INFO Avg generation throughput: 9.0 tokens/s, Running: 5 reqs, Waiting: 0 reqs\n" * 4)
    watched = Watched(path)
    first = watched.watch.look(watched.job, lambda log: log.facts(), until_caught_up=False)
    assert isinstance(first, LogFacts)
    assert first.caught_up
    idle = "INFO Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs\n"
    with path.open("a") as log:
        log.write("INFO Avg generation throughput: 9.0 tokens/s, Running: 7 reqs, Waiting: 0 reqs\n" * 6 + idle)
    half = watched.watch.look(watched.job, lambda log: log.facts(), until_caught_up=False)
    assert isinstance(half, LogFacts)
    assert (half.running_requests, half.caught_up) == (7, False)
    record = JobRecord(Job(run="run", bucket="datagen"), 0.0)
    record.apply(SourceKind.LOG, half, 5.0, position=0, interval=60.0)
    assert (record.view(5.0, 60.0).log, record.view(5.0, 60.0).observed) == (None, {})
    whole = watched.facts()
    assert (whole.running_requests, whole.caught_up) == (0, True)
    record.apply(SourceKind.LOG, whole, 6.0, position=0, interval=60.0)
    record.apply(SourceKind.LOG, half, 7.0, position=0, interval=60.0)
    assert (record.view(7.0, 60.0).log, record.view(7.0, 60.0).observed) == (whole, {SourceKind.LOG: 6.0})
