"""Offline runs of the real wandb client: a capture of 300 steps, and runs that it writes here and now."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runwatch.config.model import HistorySource
from runwatch.facts import Failure, FailureReason, HistoryEnd, HistoryRow, HistoryUpdate
from runwatch.fleet import Job
from runwatch.sources.wandb_offline import WandbOfflineReader

CAPTURE = Path(__file__).parents[1] / "data" / "wandb_offline"
RUN_DIRECTORY = "offline-run-20261129_180019-delphi-tiny-abc123"
LOG_NAME = "run-delphi-tiny-abc123.wandb"
START = 1795975219.926607  # the capture's run record, read with protobuf's text format

WRITER = """
import sys
import wandb

first, last, exit_code = (int(argument) for argument in sys.argv[1:])
with wandb.init(project="p", entity="e", id="abc", name="a name", resume="allow",
                config={"model": {"max_seq_len": 4096}, "seed": first}) as run:
    for step in range(first, last):
        run.log({"loss": step / 2, "big": 12345678901234567891, "eval": {"a": 1, "b": {"c": 2}}, "note": "text",
                 "flag": True, "bad": float("nan"), "low": float("-inf"), "nothing": None,
                 "weights": wandb.Histogram([1, 2, 3])}, step=step)
    run.log({"loss": -1.0}, step=first)
    run.config.update({"late": {"x": 1}})
    run.finish(exit_code=exit_code)
"""


def job_of(directory: Path) -> Job:
    return Job(run="run", bucket="sft", history=(HistorySource(wandb_offline=directory),))


def read(reader: WandbOfflineReader, directory: Path) -> HistoryUpdate:
    update = reader.read(job_of(directory))
    assert isinstance(update, HistoryUpdate), update
    return update


def write_run(directory: Path, first: int, last: int, exit_code: int) -> None:
    """Have the real client write an offline run of the steps first to last - 1.

    The client names the folder by the second: two runs that begin within one would write over each other.
    """
    time.sleep(1.0 - time.time() % 1.0)
    environment = {
        **os.environ,
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_DIR": str(directory),
        "WANDB_CACHE_DIR": str(directory / "cache"),
        "WANDB_CONFIG_DIR": str(directory / "config"),
    }
    command = [sys.executable, "-c", WRITER, str(first), str(last), str(exit_code)]
    subprocess.run(command, check=True, env=environment, cwd=directory, timeout=120, capture_output=True)


@pytest.mark.parametrize("directory", [CAPTURE, CAPTURE / RUN_DIRECTORY])
def test_capture(directory: Path) -> None:
    update = read(WandbOfflineReader(), directory)
    assert [row.cursor for row in update.rows] == list(range(300))
    assert [row.trainer_step for row in update.rows] == list(range(300))
    assert [row.cursor for row in update.rows if math.isnan(row.values["train/loss"])] == [250]
    assert (update.caught_up, update.reset, update.malformed) == (True, False, 0)
    first = update.rows[0]
    assert first.time == pytest.approx(1795975220.1634657, abs=1e-6)
    assert first.values["train/loss"] == 5.025763695063109
    assert first.values["throughput/total_tokens"] == 65536.0
    assert first.values["_runtime"] == 0.246078377
    run = update.run
    assert run.created == pytest.approx(START, abs=1e-5)
    assert run.name == "delphi-tiny-abc123"
    assert run.config == {
        "trainer": {"num_train_steps": 400, "train_batch_size": 16, "id": "delphi-tiny-abc123"},
        "train_seq_len": None,
        "model": {"max_seq_len": 4096},
    }
    last_row_time = update.rows[-1].time
    assert last_row_time is not None
    assert (run.end, run.exit_code) == (HistoryEnd.SUCCEEDED, 0)
    assert run.ended_at == pytest.approx(max(START + 4, last_row_time))  # its recorded run time is 4 whole seconds
    assert run.heartbeat == last_row_time
    assert not run.drops_replayed_steps


def test_growing_file_gives_each_row_once(tmp_path: Path) -> None:
    content = (CAPTURE / RUN_DIRECTORY / LOG_NAME).read_bytes()
    log = tmp_path / RUN_DIRECTORY / LOG_NAME
    log.parent.mkdir()
    reader = WandbOfflineReader()
    rows: list[HistoryRow] = []
    ends = []
    with log.open("wb", buffering=0) as file:
        for start in range(0, len(content), 5003):
            file.write(content[start : start + 5003])
            update = read(reader, tmp_path)
            rows += update.rows
            ends.append(update.run.end)
            assert (update.malformed, update.reset, update.caught_up) == (0, False, True)
    assert [row.cursor for row in rows] == list(range(300))
    assert ends == [None] * (len(ends) - 1) + [HistoryEnd.SUCCEEDED]
    assert rows == read(WandbOfflineReader(), CAPTURE).rows


def test_bounded_reads_and_truncation(tmp_path: Path) -> None:
    shutil.copytree(CAPTURE, tmp_path, dirs_exist_ok=True)
    reader = WandbOfflineReader(max_read_bytes=100)  # less than the largest records
    cursors: list[int] = []
    while not (update := read(reader, tmp_path)).caught_up:
        cursors += [row.cursor for row in update.rows]
        assert update.run.end is None
    assert cursors + [row.cursor for row in update.rows] == list(range(300))
    log = tmp_path / RUN_DIRECTORY / LOG_NAME
    log.write_bytes(log.read_bytes()[:100_000])
    assert read(reader, tmp_path).reset
    cursors = []
    while not (update := read(reader, tmp_path)).caught_up:
        assert not update.reset
        cursors += [row.cursor for row in update.rows]
    assert cursors == list(range(len(cursors)))
    assert 100 < len(cursors) < 200  # 100 kB of 214 kB


def test_corruption_costs_the_rest_of_a_block_and_is_counted(tmp_path: Path) -> None:
    shutil.copytree(CAPTURE, tmp_path, dirs_exist_ok=True)
    log = tmp_path / RUN_DIRECTORY / LOG_NAME
    content = bytearray(log.read_bytes())
    content[40_000] ^= 0xFF  # in the second of seven blocks
    log.write_bytes(bytes(content))
    update = read(WandbOfflineReader(), tmp_path)
    cursors = [row.cursor for row in update.rows]
    assert update.malformed == 1
    missing = sorted(set(range(300)) - set(cursors))
    assert missing == list(range(missing[0], missing[-1] + 1))
    assert 1 <= len(missing) <= 60  # 300 rows in 6.5 blocks: one block holds about 46
    assert cursors[-1] == 299


def test_at_hides_later_rows_and_the_end() -> None:
    rows = read(WandbOfflineReader(), CAPTURE).rows
    at = rows[250].time
    assert at is not None
    update = read(WandbOfflineReader(at=at), CAPTURE)
    assert [row.cursor for row in update.rows] == list(range(251))
    assert (update.run.end, update.run.ended_at, update.run.exit_code) == (None, None, None)
    assert update.run.heartbeat == at
    before = read(WandbOfflineReader(at=START - 1), CAPTURE)
    assert (before.rows, before.run.created, before.run.config) == ([], None, {})


def test_real_client_writes_a_run_and_resumes_it(tmp_path: Path) -> None:
    write_run(tmp_path, 0, 5, exit_code=0)
    reader = WandbOfflineReader()
    update = read(reader, tmp_path)
    assert [row.cursor for row in update.rows] == [0, 1, 2, 3, 4]  # the client refused the lower step
    row = update.rows[3]
    assert math.isnan(row.values["bad"])
    numbers = {key: value for key, value in row.values.items() if key not in {"bad", "_runtime"}}
    assert numbers == {"loss": 1.5, "big": 1.2345678901234567e19, "eval.a": 1.0, "eval.b.c": 2.0, "low": -math.inf}
    run = update.run
    assert run.config == {"model": {"max_seq_len": 4096}, "seed": 0, "late": {"x": 1}}
    assert (run.name, run.end, run.exit_code) == ("a name", HistoryEnd.SUCCEEDED, 0)
    assert run.created is not None and run.ended_at is not None and run.created < run.ended_at

    write_run(tmp_path, 3, 8, exit_code=7)
    resumed = read(reader, tmp_path)
    assert [row.cursor for row in resumed.rows] == [3, 4, 5, 6, 7]  # a replay is there to be seen
    assert [row.begins_attempt for row in resumed.rows] == [True, False, False, False, False]
    assert (resumed.reset, resumed.malformed) == (False, 0)
    assert (resumed.run.end, resumed.run.exit_code) == (HistoryEnd.FAILED, 7)
    assert resumed.run.created == run.created
    assert resumed.run.config["seed"] == 3
    whole = read(WandbOfflineReader(), tmp_path)
    assert [row.cursor for row in whole.rows] == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7]
    assert whole.run == resumed.run
    in_between = read(WandbOfflineReader(at=run.ended_at), tmp_path)
    assert in_between.run == run


def test_newest_run_is_followed(tmp_path: Path) -> None:
    shutil.copytree(CAPTURE, tmp_path, dirs_exist_ok=True)
    reader = WandbOfflineReader()
    assert not read(reader, tmp_path).reset
    newer = tmp_path / "offline-run-20261130_000000-other"
    newer.mkdir()
    assert not read(reader, tmp_path).reset  # its file is not there yet
    (newer / "run-other.wandb").write_bytes(b":W&B\xe1\xbe\x00")  # all that a reader sees for the first 15 s
    update = read(reader, tmp_path)
    assert (update.reset, update.rows, update.run.end) == (True, [], None)


def test_spoilt_older_attempt_does_not_hide_the_next(tmp_path: Path) -> None:
    shutil.copytree(CAPTURE, tmp_path, dirs_exist_ok=True)
    older = tmp_path / "offline-run-20261128_000000-delphi-tiny-abc123"
    older.mkdir()
    (older / LOG_NAME).write_bytes(bytes(100))
    reader = WandbOfflineReader()
    update = read(reader, tmp_path)
    assert (len(update.rows), update.malformed) == (300, 1)
    assert read(reader, tmp_path).malformed == 0


def test_what_cannot_be_read_is_a_typed_failure(tmp_path: Path) -> None:
    reader = WandbOfflineReader()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "run-x.wandb").write_text("no log")
    cases = [
        (tmp_path / "none", FailureReason.NOT_FOUND),
        (tmp_path / "empty", FailureReason.NOT_FOUND),
        (tmp_path / "file", FailureReason.PARSE),
        (tmp_path, FailureReason.PARSE),
    ]
    for directory, reason in cases:
        outcome = reader.read(job_of(directory))
        assert isinstance(outcome, Failure)
        assert outcome.reason is reason
        assert "\n" not in outcome.detail
