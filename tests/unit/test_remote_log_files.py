"""Logs behind a command prefix: the real `stat`, `dd` and `ls` run by a program that stands where ssh would."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from runwatch.facts import Failure, FailureReason
from runwatch.sources import bounded_command
from runwatch.sources.bounded_command import CommandOutput, run_command
from runwatch.sources.remote_log_files import RemoteLogFiles
from tests.e2e.running_server import eventually
from tests.unit.log_watching import BANNER, Watched, logged_step, steps

PREFIX = ("nice",)


@pytest.fixture(autouse=True)
def coreutils() -> None:
    for program in ("nice", "stat", "dd", "ls"):
        assert shutil.which(program) is not None, f"{program} is missing: install coreutils"


def prefix_script(tmp_path: Path, body: str) -> tuple[str, ...]:
    """Write a program that stands for ssh: it is given the command as its arguments."""
    script = tmp_path / "connect.py"
    script.write_text(f"import os, subprocess, sys, time\ncommand = sys.argv[1:]\n{body}\n", encoding="utf-8")
    return (sys.executable, str(script))


def deadline(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def test_history_over_a_prefix_reads_only_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "slurm-7.out"
    path.write_text(BANNER.format(total=10) + logged_step(1, 10), encoding="utf-8")
    watched = Watched("auto", prefix=PREFIX, paths=[str(path)])
    update = watched.history()
    assert (steps(update), update.run.config) == ([1], {"num_train_steps": 10})
    assert watched.requests == ["here", "here"]  # stat and dd
    assert steps(watched.history()) == []
    assert len(watched.requests) == 3  # stat alone
    with path.open("a", encoding="utf-8") as file:
        file.write(logged_step(2, 10))
    os.utime(path, (path.stat().st_mtime + 5, path.stat().st_mtime + 5))
    assert steps(watched.history()) == [2]
    assert watched.facts().last_write == int(path.stat().st_mtime)


def test_ranges_and_times_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_bytes(bytes(range(256)) * 1000)
    counted: list[int] = []
    files = RemoteLogFiles(PREFIX, lambda: counted.append(1))
    found = files.find(str(path), deadline())
    assert not isinstance(found, Failure)
    (file,) = found
    assert (file.path, file.size, file.modified) == (str(path), 256_000, int(path.stat().st_mtime))
    assert file.identity == (path.stat().st_dev, path.stat().st_ino)
    assert files.read(file, 70_001, 130_003, deadline()) == path.read_bytes()[70_001:200_004]
    assert files.read(file, 255_990, 100, deadline()) == path.read_bytes()[255_990:]
    assert len(counted) == 3


def test_globs_are_matched_on_this_side(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for number, name in enumerate(("one/a_9.out", "two/a_10.out", "one/other.log", "one/.a_8.out")):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1000 + number, 1000 + number))
    (tmp_path / "one" / "a_11.out").mkdir()
    files = RemoteLogFiles(PREFIX, lambda: None)
    found = files.find(f"{tmp_path}/*/a_*.out", deadline())
    assert not isinstance(found, Failure)
    assert [file.path for file in found] == [f"{tmp_path}/one/a_9.out", f"{tmp_path}/two/a_10.out"]
    none = files.find(f"{tmp_path}/one/b_*.out", deadline())
    assert isinstance(none, Failure) and none.reason is FailureReason.NOT_FOUND


@pytest.mark.parametrize("path", ["/tmp/a b.out", "/tmp/$(reboot).out", "/tmp/a;b", "/tmp/a\nb", "/tmp/'a'"])
def test_words_that_a_remote_shell_would_read_are_never_passed(path: str) -> None:
    counted: list[int] = []
    found = RemoteLogFiles(PREFIX, lambda: counted.append(1)).find(path, deadline())
    assert isinstance(found, Failure) and "not passed to a remote shell" in found.detail
    assert counted == []


def test_a_missing_file_a_refusal_and_a_lost_connection_are_told_apart(tmp_path: Path) -> None:
    missing = RemoteLogFiles(PREFIX, lambda: None).find(f"{tmp_path}/none.out", deadline())
    assert isinstance(missing, Failure) and missing.reason is FailureReason.NOT_FOUND
    for said, reason in (
        ("u@h: Permission denied (publickey).", FailureReason.AUTH),
        ("ssh: connect to host h port 22: Connection timed out", FailureReason.NETWORK),
    ):
        prefix = prefix_script(tmp_path, f"print({said!r}, file=sys.stderr)\nsys.exit(255)")
        failed = RemoteLogFiles(prefix, lambda: None).find("/var/x.out", deadline())
        assert isinstance(failed, Failure) and failed.reason is reason, failed


def test_an_error_in_the_stream_of_the_log_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_text("text\n")
    chatty = prefix_script(tmp_path, "print('Welcome to login01')\nsys.stdout.flush()\nos.execvp(command[0], command)")
    failed = Watched("auto", prefix=chatty, paths=[str(path)]).try_history()
    assert isinstance(failed, Failure) and failed.reason is FailureReason.PARSE


def test_a_transfer_that_breaks_off_is_made_once_more_and_then_a_failure(tmp_path: Path) -> None:
    path, calls = tmp_path / "a.out", tmp_path / "calls"
    path.write_text(BANNER.format(total=10) + logged_step(1, 10), encoding="utf-8")
    body = f"""
with open({str(calls)!r}, "a") as file:
    file.write(command[0] + "\\n")
cut = command[0] == "dd" and open({str(calls)!r}).read().count("dd") <= LIMIT
out = subprocess.run(command, capture_output=True).stdout
sys.stdout.buffer.write(out[:10] if cut else out)
"""
    once = Watched("auto", prefix=prefix_script(tmp_path, body.replace("LIMIT", "1")), paths=[str(path)])
    assert steps(once.history()) == [1]
    assert calls.read_text().split() == ["stat", "dd", "dd"]
    calls.unlink()
    twice = Watched("auto", prefix=prefix_script(tmp_path, body.replace("LIMIT", "2")), paths=[str(path)])
    failed = twice.try_history()
    assert isinstance(failed, Failure) and failed.reason is FailureReason.NETWORK
    assert "10 of " in failed.detail
    # Nothing was taken of it: the next look has the whole.
    assert steps(twice.history()) == [1]


def child_of(pid_file: Path) -> str:
    """Return the state of the process whose id a file holds, as Linux has it; empty where it is gone."""
    try:
        return Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_hung_command_is_killed_at_its_deadline_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    prefix = ("sh", "-c", f"sleep 600 & echo $! >{pid_file}; wait")
    started = time.monotonic()
    failed = RemoteLogFiles(prefix, lambda: None).find("/var/x.out", deadline(3.0))
    assert time.monotonic() - started < 60
    assert isinstance(failed, Failure) and failed.reason is FailureReason.TIMEOUT
    assert pid_file.exists()
    eventually(lambda: child_of(pid_file) in ("", "Z", "X"), "the child of the hung command has ended")


def test_a_command_that_ended_in_time_is_read_to_its_end_by_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read

    def late(descriptor: int, count: int) -> bytes:
        part = read(descriptor, count)
        time.sleep(0.6)
        return part

    monkeypatch.setattr(os, "read", late)
    ran = run_command(["seq", "30000"], deadline(60.0), 1 << 20)  # more than two pipes hold
    assert isinstance(ran, CommandOutput), ran
    assert ran.output.split()[-1] == b"30000"


def test_a_killed_command_that_takes_its_time_to_end_is_waited_for_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_command, "_KILL_SECONDS", 0.0)
    late = run_command(["sleep", "600"], time.monotonic() + 0.01, 10)
    assert isinstance(late, Failure) and late.reason is FailureReason.TIMEOUT
    gc.collect()  # a process that nobody waits for any more is remarked on

    def is_over() -> bool:
        run_command(["true"], deadline(), 10)
        return not bounded_command._killed

    eventually(is_over, "it has ended, and was waited for")


def test_a_program_that_is_not_there_and_one_that_prints_too_much() -> None:
    missing = run_command(["/no/such/program"], deadline(), 10)
    assert isinstance(missing, Failure) and "could not be started" in missing.detail
    much = run_command(["seq", "100000"], deadline(), 1000)
    assert isinstance(much, Failure) and much.reason is FailureReason.PARSE
    late = run_command(["true"], time.monotonic() - 1, 10)
    assert isinstance(late, Failure) and late.reason is FailureReason.TIMEOUT
