"""The state file: what it keeps, for how long, and what happens when it cannot be read or written."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runwatch.found.jobs import KnownJob, Resolution
from runwatch.remembered import Remembered

DAY = 86_400.0
JOB = KnownJob(
    site="s",
    match="^n",
    name="n 'a|b'\n=$(x)",
    scheduler_job="1",
    ids=("1", "2"),
    first_seen=100_000.0,
    last_seen=100_000.0,
    submitted=90_000.0,
    resolved=(Resolution(template="/d/n-*", address="/d/n-1", submission="1 90000.0", child="c"),),
)


class Clock:
    now = 100_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(path: Path | None, clock: Clock, **options: bool) -> Remembered:
    return Remembered(path, DAY, clock=clock, **options)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(entry.levelname, entry.getMessage()) for entry in caplog.records]


def test_all_comes_back_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.json"
    first = made(path, clock)
    first.keep_found([JOB])
    first.remember("s", "1", "log_paths", ["/logs/a b.out", "/logs/'c'\n.out"])
    first.save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
    second = made(path, clock)
    assert second.found == (JOB,)
    assert second.recall("s", "1", "log_paths") == ("/logs/a b.out", "/logs/'c'\n.out")
    assert second.recall("t", "1", "log_paths") == second.recall("s", "1", "dependencies") == ()


def test_it_is_written_only_when_something_changed(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.json"
    kept = made(path, clock)
    kept.save()
    assert not path.exists()  # nothing to keep yet
    kept.keep_found([JOB])
    kept.save()
    writes = 0
    inode = path.stat().st_ino
    for _minute in range(120):
        clock.now += 60.0
        kept.keep_found([JOB.model_copy(update={"last_seen": clock.now, "alive_at": clock.now})])
        kept.save()
        writes, inode = writes + (path.stat().st_ino != inode), path.stat().st_ino
    assert 1 <= writes <= 6  # two hours hold two or three borders of an hour (a 24th of linger) for each of two times
    again = made(path, clock)
    before = path.stat().st_ino
    again.save()
    assert path.stat().st_ino == before


def test_what_was_not_used_for_linger_is_dropped(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.json"
    kept = made(path, clock)
    kept.remember("s", "asked", "k", ["a"])
    kept.remember("s", "not asked", "k", ["b"])
    clock.now += DAY
    assert kept.recall("s", "asked", "k") == ("a",)
    clock.now += 1.0
    kept.save()
    assert (kept.recall("s", "asked", "k"), kept.recall("s", "not asked", "k")) == (("a",), ())
    assert [note["scheduler_job"] for note in json.loads(path.read_text())["notes"]] == ["asked"]
    clock.now += 2 * DAY
    kept.save(linger=3 * DAY)
    assert kept.recall("s", "asked", "k") == ("a",)


def test_times_of_the_file_are_never_in_the_future(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.json"
    kept = made(path, clock)
    kept.keep_found([JOB])
    kept.remember("s", "1", "k", ["a"])
    kept.save()
    held = json.loads(path.read_text())
    held["found"][0]["last_seen"] = held["notes"][0]["seen"] = 1e12
    path.write_text(json.dumps(held))
    again = made(path, clock)
    assert [job.last_seen for job in again.found] == [clock.now]
    clock.now += DAY + 1.0
    again.save()
    assert again.recall("s", "1", "k") == ()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"version": 2, "found": []}', b"my own notes", b"[" * 100_000],
)
def test_a_file_that_is_no_state_file_is_told_once_and_kept_aside(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    kept = made(path, clock)
    assert kept.found == ()
    assert [level for level, _ in told(caplog)] == ["WARNING"]
    kept.save()
    assert path.read_bytes() == content
    kept.keep_found([JOB])
    kept.save()
    kept.save()
    assert (tmp_path / "state.json.unreadable").read_bytes() == content
    assert made(path, clock).found == (JOB,)
    assert len(told(caplog)) == 1


def test_entries_that_cannot_be_read_are_left_out_alone(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.json"
    kept = made(path, clock)
    kept.keep_found([JOB])
    kept.save()
    held = json.loads(path.read_text())
    held["found"] += [3, {"site": "s"}, {**held["found"][0], "ids": 7}, {**held["found"][0], "ids": []}]
    held["notes"] = "none"
    path.write_text(json.dumps(held))
    assert made(path, clock).found == (JOB,)
    assert [message.endswith("4 entries could not be read and are left out") for _, message in told(caplog)] == [True]
    again = made(path, clock)
    again.save()
    assert json.loads((tmp_path / "state.json.unreadable").read_text()) == held


def test_a_missing_file_and_one_that_is_not_wanted(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    made(tmp_path / "state.json", clock)
    assert [level for level, _ in told(caplog)] == ["INFO"]
    caplog.clear()
    kept = made(None, clock)
    kept.keep_found([JOB])
    kept.remember("s", "1", "k", ["a"])
    kept.save()
    assert (kept.found, kept.recall("s", "1", "k")) == ((JOB,), ("a",))
    assert (told(caplog), list(tmp_path.iterdir())) == ([], [])


def test_a_look_that_shall_leave_no_trace_reads_and_does_not_write(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.json"
    kept = made(path, clock)
    kept.keep_found([JOB])
    kept.save()
    before = path.read_bytes()
    once = made(path, clock, writes=False)
    assert once.found == (JOB,)
    once.keep_found([])
    once.save()
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_told_once_until_it_can(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "later"
    kept = made(folder / "state.json", clock)
    kept.keep_found([JOB])
    caplog.clear()
    for _ in range(3):
        kept.save()
    assert [(level, "cannot be written" in message) for level, message in told(caplog)] == [("WARNING", True)]
    assert kept.found == (JOB,)
    folder.mkdir()
    kept.save()
    assert made(folder / "state.json", clock).found == (JOB,)


READ_ONLY = """
import logging, os, sys
from pathlib import Path
from runwatch.remembered import Remembered
if os.geteuid() == 0:
    os.setuid(65534)
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
kept = Remembered(Path(sys.argv[1]) / "state.json", 60.0)
kept.remember("s", "1", "k", ["a"])
kept.save()
kept.save()
print(kept.recall("s", "1", "k"))
"""


@contextmanager
def unreadable_state_file(content: str, of_folder: int) -> Iterator[tuple[Path, str, str]]:
    """Run `READ_ONLY` on a state file that nobody may read; gives its folder and what was printed."""
    # Not below tmp_path, which nobody but its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "state.json").write_text(content)
        (folder / "state.json").chmod(0o000)
        folder.chmod(of_folder)
        ran = subprocess.run([sys.executable, "-c", READ_ONLY, name], capture_output=True, text=True, check=True)
        folder.chmod(0o755)
        yield folder, ran.stdout, ran.stderr


def test_a_file_that_may_not_be_read_is_kept_aside() -> None:
    with unreadable_state_file("somebody's own", 0o777) as (folder, _, _):
        aside = folder / "state.json.unreadable"
        aside.chmod(0o600)
        assert aside.read_text() == "somebody's own"
        (folder / "state.json").chmod(0o600)
        assert "somebody" not in (folder / "state.json").read_text()


def test_a_file_that_may_not_be_read_in_a_folder_that_may_not_be_written() -> None:
    with unreadable_state_file("{}", 0o555) as (folder, output, errors):
        assert [entry.name for entry in folder.iterdir()] == ["state.json"]
    assert output == "('a',)\n"
    lines = [line for line in errors.splitlines() if line.startswith("WARNING")]
    assert [("cannot be read" in line, "cannot be written" in line) for line in lines] == [
        (True, False),
        (False, True),
    ], errors
