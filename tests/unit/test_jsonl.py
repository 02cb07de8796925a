"""JSON-lines histories: files that grow, are cut, replaced, rewritten, broken or not there."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from runwatch.config.model import HistorySource
from runwatch.derive.history_digest import HistoryDigest
from runwatch.facts import Failure, FailureReason, HistoryUpdate
from runwatch.fleet import Job
from runwatch.sources.jsonl import JsonLinesReader


def job_of(path: Path) -> Job:
    return Job(run="run", bucket="sft", history=(HistorySource(jsonl=path),))


def line(step: int, **values: object) -> str:
    return json.dumps({"_step": step, "_timestamp": 1000.0 + step, **values}) + "\n"


def read(reader: JsonLinesReader, path: Path) -> HistoryUpdate:
    update = reader.read(job_of(path))
    assert isinstance(update, HistoryUpdate), update
    return update


def steps(updates: Iterable[HistoryUpdate]) -> list[int | None]:
    return [row.tracker_step for update in updates for row in update.rows]


def test_reads_each_line_once_and_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    content = "".join(line(step, loss=step / 2) for step in range(4)).encode()
    reader = JsonLinesReader()
    updates = []
    with path.open("wb", buffering=0) as file:
        for byte in content:
            file.write(bytes([byte]))
            updates.append(read(reader, path))
    assert steps(updates) == [0, 1, 2, 3]
    rows = [row for update in updates for row in update.rows]
    assert [row.cursor for row in rows] == [1, 2, 3, 4]
    assert [row.values for row in rows] == [{"loss": 0.0}, {"loss": 0.5}, {"loss": 1.0}, {"loss": 1.5}]
    assert not any(update.reset or update.malformed for update in updates)
    assert updates[-1].run.heartbeat == 1003.0


def test_truncated_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line(0) + line(1) + line(2))
    reader = JsonLinesReader()
    read(reader, path)
    path.write_text(line(7))
    update = read(reader, path)
    assert (update.reset, steps([update])) == (True, [7])
    assert not read(reader, path).reset


def test_replaced_and_rewritten_files_are_read_again(tmp_path: Path) -> None:
    path, other = tmp_path / "history.jsonl", tmp_path / "other"
    path.write_text(line(0) + line(1))
    reader = JsonLinesReader()
    read(reader, path)
    other.write_text(line(4) + line(5) + line(6))
    other.rename(path)
    update = read(reader, path)
    assert (update.reset, steps([update])) == (True, [4, 5, 6])
    path.write_text("".join(line(step) for step in range(10, 15)))  # the same inode, and longer than before
    update = read(reader, path)
    assert (update.reset, steps([update])) == (True, [10, 11, 12, 13, 14])


def test_another_path_or_a_forgotten_job_begins_anew(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(line(0))
    second.write_text(line(1))
    reader = JsonLinesReader()
    read(reader, first)
    assert read(reader, second).reset
    reader.forget("run")
    update = read(reader, second)
    assert (update.reset, steps([update])) == (False, [1])


def test_malformed_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + line(0).encode() + b"\n"  # byte order mark; an empty line is no fault
        b"not json\n[1]\n" + b'{"_step": 1, "s": "\xff"}\n'
        b'{"loss": 1.0}\n' + line(2).encode() + b'{"_step": 3, "loss": NaN}\r\n'
    )
    update = read(JsonLinesReader(), path)
    assert steps([update]) == [0, 2, 3]
    assert [row.cursor for row in update.rows] == [1, 7, 8]
    assert update.malformed == 4


@pytest.mark.parametrize(
    "content",
    ["step 1 loss 2.0\n", "[1]\n[2]\n", '{"iteration": 1, "loss": 2.0}\n' * 10, '{"a": 1}\n' + "\x00" * 9 + "\n"],
)
def test_a_file_without_any_row_is_not_a_run_without_a_step(tmp_path: Path, content: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(content)
    reader = JsonLinesReader()
    lines = content.count("\n")
    for malformed in (lines, 0):  # counted once, told as long as it is so
        failure = reader.read(job_of(path))
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.malformed) == (FailureReason.PARSE, malformed)
        assert f"{path}: none of its {lines} lines is a row" in failure.detail
    with path.open("a") as file:
        file.write(line(7))
    assert steps([read(reader, path)]) == [7]


@pytest.mark.parametrize("content", ["", "\n\n", '{"config": {"seed": 1}}\n' * 9, "step 1"])
def test_a_file_that_holds_no_row_yet_is_a_run_without_a_step(tmp_path: Path, content: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(content)
    update = read(JsonLinesReader(), path)
    assert (update.rows, update.caught_up, update.malformed) == ([], True, content.count("{") // 2)


def test_long_lines_are_skipped_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    long = line(1, text="x" * 1000)
    path.write_text(line(0) + long + line(2) + line(3, text="y" * 150) + line(4))
    reader = JsonLinesReader(max_read_bytes=300, max_line_bytes=120)
    updates = [read(reader, path)]
    while not updates[-1].caught_up:
        updates.append(read(reader, path))
    assert steps(updates) == [0, 2, 4]
    assert sum(update.malformed for update in updates) == 2
    assert [row.cursor for update in updates for row in update.rows] == [1, 3, 5]
    assert len(updates) > 4


def test_bounded_reads_tell_that_more_waits(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(line(step) for step in range(50)))
    reader = JsonLinesReader(max_read_bytes=200, max_line_bytes=100)
    updates = [read(reader, path)]
    while not updates[-1].caught_up:
        updates.append(read(reader, path))
    assert steps(updates) == list(range(50))
    assert len(updates) >= path.stat().st_size // 200
    assert read(reader, path).rows == []


def test_the_trainers_own_step_turns_step_into_a_mere_call_count(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = [line(0, note=1), line(1, note=1)]
    lines += [line(2 + i, **{"train/global_step": 5 * (i + 1), "train/loss": 2.0}) for i in range(3)]
    path.write_text("".join([*lines, line(9, note=1)]))
    digest = HistoryDigest(is_rl=False)
    digest.add(read(JsonLinesReader(), path).rows)
    summary = digest.summary()
    assert (summary.step, summary.steps.first_step, summary.steps.first_time) == (15, 5, 1002.0)
    assert (summary.steps.replayed_steps, summary.counts_from_zero) == (0, False)
    assert summary.step_key == "the trainer's global step"


def test_without_the_trainers_own_step_the_trackers_is_the_step_whatever_the_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(line(step, loss=1.0) for step in (10, 20, 30)))
    digest = HistoryDigest(is_rl=False)
    digest.add(read(JsonLinesReader(), path).rows)
    assert (digest.summary().step, digest.summary().step_key) == (30, "_step")


@pytest.mark.parametrize("rest", ["\n", " \r\n", ""])
def test_a_last_line_without_its_newline_is_read_once_its_object_is_complete(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "history.jsonl"
    whole = line(0, x={"y": 1}) + line(1, x={"y": 1}).rstrip("\n")
    reader = JsonLinesReader()
    path.write_text(whole[:-1])  # the inner mapping's brace is there, the row's is not
    assert steps([read(reader, path)]) == [0]
    path.write_text(whole)
    assert steps([read(reader, path)]) == [1]
    path.write_text(whole + rest)
    update = read(reader, path)
    assert (steps([update]), update.reset, update.malformed) == ([], False, 0)
    path.write_text(whole + (rest or "\n") + line(2))
    (row,) = read(reader, path).rows
    assert (row.tracker_step, row.cursor) == (2, 3)


def test_at_hides_later_rows_and_what_follows_without_a_time(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    rows = [
        {"_step": 0, "_timestamp": 100},
        {"_step": 1},
        {"_step": 2, "_timestamp": 300},
        {"_step": 3},
        {"_step": 4, "_timestamp": 200},
    ]
    lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join([lines[0], "no JSON", *lines[1:], "no JSON either", "[5]"]) + "\n")
    assert read(JsonLinesReader(), path).malformed == 3
    update = read(JsonLinesReader(at=200.0), path)
    assert steps([update]) == [0, 1, 4]
    assert update.malformed == 1  # the lines after a row that is hidden were written after it
    assert update.run.heartbeat == 200.0


def test_heartbeat_without_row_times_is_the_files(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"_step": 0}\n')
    os.utime(path, (500.0, 500.0))
    assert read(JsonLinesReader(), path).run.heartbeat == 500.0
    assert read(JsonLinesReader(at=400.0), path).run.heartbeat is None


def reason(outcome: object) -> FailureReason:
    assert isinstance(outcome, Failure)
    return outcome.reason


def test_what_cannot_be_read_is_a_typed_failure(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = JsonLinesReader()
    assert reason(reader.read(job_of(tmp_path / "none.jsonl"))) is FailureReason.NOT_FOUND
    assert reason(reader.read(job_of(tmp_path))) is FailureReason.PARSE
    assert reason(reader.read(job_of(pipe))) is FailureReason.PARSE
    assert reason(reader.read(Job(run="run", bucket="sft"))) is FailureReason.NOT_FOUND


def test_permission_denied_is_auth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line(0))
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything: have the system's answer given by hand

        def refuse(*arguments: object) -> int:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "open", refuse)
    assert reason(JsonLinesReader().read(job_of(path))) is FailureReason.AUTH
    monkeypatch.undo()
    path.chmod(stat.S_IRUSR)


def test_a_failure_between_reads_loses_nothing(tmp_path: Path) -> None:
    path, aside = tmp_path / "history.jsonl", tmp_path / "aside"
    path.write_text(line(0))
    reader = JsonLinesReader()
    read(reader, path)
    path.rename(aside)
    assert reason(reader.read(job_of(path))) is FailureReason.NOT_FOUND
    aside.rename(path)
    with path.open("a") as file:
        file.write(line(1))
    update = read(reader, path)
    assert (update.reset, steps([update])) == (False, [1])
