"""What the `*` of a template stands for on a file system, and in a store that hangs or fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runwatch.facts import Failure, FailureReason
from runwatch.found.jobs import Resolution
from runwatch.found.star_resolver import StarRequest, StarResolver
from runwatch.found.templates import Candidate, split_star
from runwatch.sources.folder_listing import Level, LookFailedError
from runwatch.sources.wildcards import LevelListings
from runwatch.telemetry import Telemetry


class Resolving:
    """A resolver that keeps what it found from look to look."""

    def __init__(self, levels: LevelListings) -> None:
        self.resolver = StarResolver(Telemetry(), levels)
        self.request: StarRequest | None = None
        self.failures: tuple[Failure, ...] = ()

    def look(self, template: str, child: str = "", submission: str = "1", kind: str = "folder") -> str | None:
        earlier = self.request.earlier if self.request is not None else None
        request = StarRequest("j", template, kind, "s", child, submission, earlier)  # type: ignore[arg-type]
        resolved, self.failures = self.resolver.resolve([request], None, 0.0, 60.0)
        found = resolved.get(("j", template))
        self.request = StarRequest("j", template, "folder", "s", earlier=found)
        return None if found is None else found.address


def written(path: Path, seconds: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (seconds, seconds))
    return path


def test_a_folder_that_comes_and_stays(tmp_path: Path) -> None:
    requests: list[str] = []
    resolving = Resolving(LevelListings(requests.append))
    template = f"{tmp_path}/out/run-*"
    assert (resolving.look(template), resolving.failures) == (None, ())  # not even the folder above
    (tmp_path / "out" / "other-1").mkdir(parents=True)
    written(tmp_path / "out" / "run-file", 1.0)
    assert resolving.look(template) is None
    (tmp_path / "out" / "run-aa11").mkdir()
    assert resolving.look(template) == f"{tmp_path}/out/run-aa11"
    asked = len(requests)
    written(tmp_path / "out" / "run-bb22" / ".executor_info", 9e9)
    assert resolving.look(template) == f"{tmp_path}/out/run-aa11"
    assert (len(requests), set(requests)) == (asked, {"s"})
    assert resolving.look(template, submission="2") == f"{tmp_path}/out/run-bb22"
    assert resolving.look(template, child="checkpoints-run_aa11-ef", submission="2") == f"{tmp_path}/out/run-aa11"


def test_a_folder_that_an_earlier_submission_left_gives_way_to_a_newer_one(tmp_path: Path) -> None:
    requests: list[str] = []
    resolver = StarResolver(Telemetry(), LevelListings(requests.append))
    template = f"{tmp_path}/run-*"
    earlier: Resolution | None = None

    def look(now: float, *, goes_on: bool = True) -> str | None:
        nonlocal earlier
        request = StarRequest("j", template, "folder", "s", "", "1", earlier, since=10_000.0, goes_on=goes_on)
        resolved, _ = resolver.resolve([request], None, now, 60.0)
        earlier = resolved.get(("j", template))
        return None if earlier is None else earlier.address

    written(tmp_path / "run-aa" / "checkpoints" / "step-9" / "x", 9_000.0)
    assert look(10_200.0) == f"{tmp_path}/run-aa"
    asked = len(requests)
    assert (look(10_260.0), len(requests)) == (f"{tmp_path}/run-aa", asked)  # within the same 5 minutes
    written(tmp_path / "run-bb" / ".executor_info", 10_400.0)
    assert look(10_500.0, goes_on=False) == f"{tmp_path}/run-aa"  # it ended, and nothing of its own comes
    assert look(10_510.0) == f"{tmp_path}/run-bb"
    assert earlier is not None
    assert earlier.is_sure
    # From now on it is the job's own.
    written(tmp_path / "run-cc" / ".executor_info", 20_000.0)
    asked = len(requests)
    assert (look(30_000.0), len(requests)) == (f"{tmp_path}/run-bb", asked)


def test_the_newest_by_what_was_written_in_it(tmp_path: Path) -> None:
    written(tmp_path / "run-a" / ".executor_info", 1000.0)
    written(tmp_path / "run-b" / "checkpoints" / "step-9" / "metadata.json", 3000.0)
    written(tmp_path / "run-b" / "checkpoints" / "step-10" / "metadata.json", 2000.0)
    written(tmp_path / "run-c" / "x", 1500.0)
    (tmp_path / "run-empty").mkdir()
    # Of run-b the last step by number counts: 2000.
    assert Resolving(LevelListings(lambda _: None)).look(f"{tmp_path}/run-*") == f"{tmp_path}/run-b"
    pattern = split_star(f"{tmp_path}/run-*")
    assert pattern is not None
    levels = LevelListings(lambda _: None)
    dated = [levels.dated(pattern, Candidate(f"run-{name}", name), "s") for name in ("a", "b", "c", "empty", "gone")]
    assert [None if isinstance(each, Failure) else each.time for each in dated] == [1000.0, 2000.0, 1500.0, None, None]


def test_files_and_folders_behind_the_star(tmp_path: Path) -> None:
    written(tmp_path / "rows-1.jsonl", 100.0)
    written(tmp_path / "rows-2.jsonl", 50.0)
    (tmp_path / "rows-3.jsonl").mkdir()
    resolving = Resolving(LevelListings(lambda _: None))
    assert resolving.look(f"{tmp_path}/rows-*.jsonl", kind="file") == f"{tmp_path}/rows-1.jsonl"
    written(tmp_path / "run-1" / "checkpoints" / "x", 1.0)
    other = Resolving(LevelListings(lambda _: None))
    assert other.look(f"{tmp_path}/run-*/checkpoints") == f"{tmp_path}/run-1/checkpoints"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run-1").symlink_to(tmp_path / "secret")
    assert Resolving(LevelListings(lambda _: None)).look(f"{tmp_path}/out/run-*") is None


def test_several_that_cannot_be_told_apart_are_none(tmp_path: Path) -> None:
    for name in ("run-a", "run-b"):
        (tmp_path / name).mkdir()
    resolving = Resolving(LevelListings(lambda _: None))
    assert (resolving.look(f"{tmp_path}/run-*"), resolving.failures) == (None, ())


def test_too_many_to_look_at_is_a_failure(tmp_path: Path) -> None:
    for number in range(51):
        (tmp_path / f"run-{number}").mkdir()
    resolving = Resolving(LevelListings(lambda _: None))
    assert resolving.look(f"{tmp_path}/run-*") is None
    assert [failure.reason for failure in resolving.failures] == [FailureReason.OTHER]
    assert resolving.look(f"{tmp_path}/run-*", child="train-run-7") == f"{tmp_path}/run-7"


class Bucket:
    """A store whose listing does what a test says."""

    def __init__(self, listing: Callable[[], Level]) -> None:
        self._listing = listing

    def open(self, _bucket: str, _prefix: str, count: Callable[[], None]) -> Bucket:
        count()
        return self

    def list_level(self, _folder: str) -> Level:
        return self._listing()

    def read_small(self, path: str) -> bytes:
        raise AssertionError(path)

    def read_tail(self, path: str, length: int) -> bytes:
        raise AssertionError(path, length)

    def close(self) -> None:
        return None


@pytest.mark.parametrize("reason", [FailureReason.AUTH, FailureReason.TIMEOUT, FailureReason.THROTTLED])
def test_a_listing_that_fails_keeps_what_was_found(reason: FailureReason) -> None:
    broken: list[Failure] = []

    def listing() -> Level:
        if broken:
            raise LookFailedError(broken[0])
        return Level(("run-1",), {})

    resolving = Resolving(LevelListings(lambda _: None, connect_buckets=lambda: Bucket(listing)))
    broken.append(Failure(reason, "no"))
    assert (resolving.look("gs://bucket/run-*"), resolving.failures) == (None, (broken[0],))
    broken.clear()
    assert (resolving.look("gs://bucket/run-*"), resolving.failures) == ("gs://bucket/run-1", ())
    broken.append(Failure(reason, "no"))
    assert resolving.look("gs://bucket/run-*", submission="2") == "gs://bucket/run-1"
    assert resolving.failures == (broken[0],)
    broken[0] = Failure(FailureReason.NOT_FOUND, "lists empty")
    # An answer: for this submission nothing is there.
    assert (resolving.look("gs://bucket/run-*", submission="2"), resolving.failures) == (None, ())


def test_a_listing_that_hangs_is_waited_for_once(tmp_path: Path) -> None:
    released, begun = threading.Event(), [0]

    def listing() -> Level:
        begun[0] += 1
        released.wait(30)
        return Level(("run-1",), {})

    levels = LevelListings(lambda _: None, connect_buckets=lambda: Bucket(listing), seconds=0.2)
    resolving = Resolving(levels)
    for _ in range(3):
        assert resolving.look("gs://bucket/run-*") is None
        assert [failure.reason for failure in resolving.failures] == [FailureReason.TIMEOUT]
    assert begun == [1]
    # Another store is not held up.
    (tmp_path / "run-2").mkdir()
    assert Resolving(levels).look(f"{tmp_path}/run-*") == f"{tmp_path}/run-2"
    released.set()
    for _ in range(100):
        if resolving.look("gs://bucket/run-*"):
            break
        threading.Event().wait(0.02)
    assert resolving.look("gs://bucket/run-*") == "gs://bucket/run-1"
    levels.close()
