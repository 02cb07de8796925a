"""What looks cost, and what happens between two requests: the reader on a bucket held in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.facts import CheckpointListing, Failure, FailureReason
from runwatch.fleet import Job
from runwatch.sources import checkpoint_folders
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.folder_listing import READ_LIMIT_BYTES, Level, LookFailedError, ObjectStat


@dataclass
class Bucket:
    """Objects by name with their content and time, and everything that was asked for, in order."""

    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda asked: None
    sizes: dict[str, int] = field(default_factory=dict)

    def open(self, bucket: str, prefix: str, count: Callable[[], None]) -> Store:
        return Store(self, prefix, count)

    def close(self) -> None:
        self.asked.append("close")

    def ask(self, what: str) -> None:
        self.before(what)
        self.asked.append(what)


@dataclass
class Store:
    bucket: Bucket
    prefix: str
    count: Callable[[], None]

    def list_level(self, folder: str) -> Level:
        self.count()
        prefix = "".join(f"{part}/" for part in (self.prefix, folder) if part)
        self.bucket.ask(f"list {prefix}")
        rest = {name[len(prefix) :]: value for name, value in self.bucket.objects.items() if name.startswith(prefix)}
        if not rest:
            raise LookFailedError(Failure(FailureReason.NOT_FOUND, f"{prefix} lists empty"))
        folders = tuple(sorted({name.split("/")[0] for name in rest if "/" in name}))
        sizes = {name: self.bucket.sizes.get(prefix + name, len(content)) for name, (content, _) in rest.items()}
        return Level(folders, {name: ObjectStat(sizes[name], rest[name][1]) for name in rest if "/" not in name})

    def read_small(self, path: str) -> bytes:
        self.count()
        name = f"{self.prefix}/{path}"
        self.bucket.ask(f"read {name}")
        if name not in self.bucket.objects:
            raise LookFailedError(Failure(FailureReason.NOT_FOUND, f"{name} is gone"))
        return self.bucket.objects[name][0]

    def read_tail(self, path: str, length: int) -> bytes:
        self.count()
        name = f"{self.prefix}/{path}"
        self.bucket.ask(f"tail {name}")
        if name not in self.bucket.objects:
            raise LookFailedError(Failure(FailureReason.NOT_FOUND, f"{name} is gone"))
        return self.bucket.objects[name][0][-length:]


def metadata(step: int) -> bytes:
    return json.dumps({"step": step, "timestamp": "2026-01-01T00:00:00", "is_temporary": False}).encode()


def levanter(*complete: int, partial: tuple[int, ...] = (), prefix: str = "run") -> dict[str, tuple[bytes, float]]:
    objects = {f"{prefix}/step-{step}/metadata.json": (metadata(step), 1000.0 + step) for step in complete}
    return objects | {f"{prefix}/step-{step}/manifest.json": (b"{}", 1000.0 + step) for step in partial}


class Reading:
    def __init__(self, bucket: Bucket, at: float | None = None) -> None:
        self.bucket = bucket
        self.counted: list[str] = []
        self.reader = CheckpointReader(self.counted.append, at=at, connect_buckets=lambda: bucket)

    def look(self, *prefixes: str) -> CheckpointListing | Failure:
        self.bucket.asked.clear()
        self.counted.clear()
        roots = tuple(f"gs://bucket/{prefix}" for prefix in prefixes or ("run",))
        outcome = self.reader.read(Job(run="r", bucket="sft", site="s", checkpoints=roots))
        assert self.counted == ["s"] * len(self.bucket.asked)
        return outcome

    def steps(self, *prefixes: str) -> list[tuple[int, bool]]:
        outcome = self.look(*prefixes)
        assert isinstance(outcome, CheckpointListing), outcome
        return [(checkpoint.step, checkpoint.complete) for checkpoint in outcome.checkpoints]


def test_a_first_look_lists_each_level_once_and_reads_the_markers_from_the_newest_down() -> None:
    reading = Reading(Bucket(levanter(8, 9, partial=(10,))))
    assert reading.steps() == [(8, True), (9, True), (10, False)]
    assert reading.bucket.asked == [
        "list run/",
        "list run/step-10/",
        "list run/step-9/",
        "list run/step-8/",
        "read run/step-9/metadata.json",
        "read run/step-8/metadata.json",
    ]


def test_later_looks_list_parents_partials_and_the_newest_complete() -> None:
    bucket = Bucket(levanter(7, 8, 9, partial=(10,)))
    reading = Reading(bucket)
    first = reading.look()
    assert reading.look() == first
    assert bucket.asked == ["list run/", "list run/step-7/", "list run/step-10/", "list run/step-9/"]
    del bucket.objects["run/step-10/manifest.json"]
    assert reading.steps() == [(7, True), (8, True), (9, True)]
    assert bucket.asked == ["list run/", "list run/step-8/", "list run/step-9/"]


def test_an_older_one_that_lost_its_marker_and_stays_is_found_in_its_turn() -> None:
    """A deletion that was cut off leaves a folder with data and no marker. Each look goes into one of the older."""
    bucket = Bucket(levanter(*range(1, 7), partial=tuple(range(1, 7))))
    reading = Reading(bucket)
    assert reading.steps() == [(step, True) for step in range(1, 7)]
    del bucket.objects["run/step-4/metadata.json"]
    looks = [reading.steps() for _ in range(5)]  # five are older than the newest
    assert looks[-1] == [(1, True), (2, True), (3, True), (4, False), (5, True), (6, True)]
    assert looks[-1] == Reading(bucket).steps()


def test_when_the_newest_vanishes_the_next_is_looked_into_before_it_is_exported() -> None:
    bucket = Bucket(levanter(7, 8, 9, partial=(8,)))
    reading = Reading(bucket)
    reading.look()
    del bucket.objects["run/step-9/metadata.json"]
    del bucket.objects["run/step-8/metadata.json"]  # half deleted: its manifest is still there
    assert reading.steps() == [(7, True), (8, False)]
    assert bucket.asked[:3] == ["list run/", "list run/step-7/", "list run/step-8/"]


def rotate(bucket: Bucket, at: str, new: dict[str, tuple[bytes, float]], old: str) -> None:
    """Save a checkpoint and delete another, as a trainer does, just before something is asked for."""

    def save_and_delete(asked: str) -> None:
        if asked == at and not new.keys() <= bucket.objects.keys():
            bucket.objects |= new
            for name in [name for name in bucket.objects if name.startswith(old)]:
                del bucket.objects[name]

    bucket.before = save_and_delete


def test_a_rotation_during_the_look_hides_neither_the_old_nor_the_new_one() -> None:
    """`save_total_limit` 1, and a look that listed the root before the new one was there."""
    bucket = Bucket(levanter(500))
    reading = Reading(bucket)
    assert reading.steps() == [(500, True)]
    rotate(bucket, "list run/step-500/", levanter(1000), "run/step-500/")
    assert reading.steps() == [(1000, True)]


def test_a_permanent_save_that_deletes_the_temporary_one_during_the_look() -> None:
    """The permanent root is listed, then comes the save, and the temporary root is listed when it is gone there."""
    bucket = Bucket(levanter(1000, prefix="perm") | levanter(1900, prefix="temp") | {"temp/.keep": (b"", 1.0)})
    reading = Reading(bucket)
    assert reading.steps("perm", "temp") == [(1000, True), (1900, True)]
    rotate(bucket, "list temp/", levanter(2000, prefix="perm"), "temp/step-1900/")
    assert reading.steps("perm", "temp") == [(1000, True), (2000, True)]


def test_what_fell_back_for_good_is_looked_at_twice_once() -> None:
    bucket = Bucket(levanter(8, 9))
    reading = Reading(bucket)
    reading.look()
    del bucket.objects["run/step-9/metadata.json"]
    assert reading.steps() == [(8, True)]
    assert bucket.asked.count("list run/") == 2
    assert reading.steps() == [(8, True)]
    assert bucket.asked.count("list run/") == 1


def test_a_connection_is_made_once_and_closed() -> None:
    reading = Reading(Bucket(levanter(1)))
    reading.look()
    reading.reader.close()
    assert reading.bucket.asked[-1] == "close"


def test_of_many_complete_ones_only_the_newest_markers_are_read() -> None:
    bucket = Bucket(levanter(*range(1, 101)))
    bucket.objects["run/step-3/metadata.json"] = (b"garbage", 1003.0)
    reading = Reading(bucket)
    first = reading.steps()
    assert first == [(step, True) for step in range(1, 101)]  # below the limit, presence decides
    assert [asked for asked in bucket.asked if asked.startswith("read")] == [
        f"read run/step-{step}/metadata.json" for step in range(100, 92, -1)
    ]


def test_a_garbage_marker_at_the_top_is_partial_and_the_next_is_read() -> None:
    bucket = Bucket(levanter(1, 2))
    bucket.objects["run/step-3/metadata.json"] = (b'{"step": 3', 1003.0)
    reading = Reading(bucket)
    assert reading.steps() == [(1, True), (2, True), (3, False)]
    bucket.objects["run/step-3/metadata.json"] = (metadata(3), 1003.0)
    assert reading.steps() == [(1, True), (2, True), (3, True)]


def test_an_unreadable_marker_is_read_again_even_where_size_and_time_are_the_same() -> None:
    bucket = Bucket({"run/step-3/metadata.json": (b" " * len(metadata(3)), 1003.0)})
    reading = Reading(bucket)
    assert reading.steps() == [(3, False)]
    bucket.objects["run/step-3/metadata.json"] = (metadata(3), 1003.0)
    assert reading.steps() == [(3, True)]


def test_a_newest_marker_that_is_written_anew_is_read_anew() -> None:
    bucket = Bucket(levanter(2, 3))
    reading = Reading(bucket)
    assert reading.steps() == [(2, True), (3, True)]
    bucket.objects["run/step-3/metadata.json"] = (b"{", 1004.0)
    assert reading.steps() == [(2, True), (3, False)]


def test_markers_that_fell_below_the_limit_count_as_for_a_fresh_reader() -> None:
    bucket = Bucket(levanter(*range(1, 9)))
    reading = Reading(bucket)
    first = reading.look()
    assert isinstance(first, CheckpointListing)
    assert {checkpoint.kind for checkpoint in first.checkpoints} == {"permanent"}
    bucket.objects |= levanter(*range(9, 17))
    later = reading.look()
    assert later == Reading(Bucket(dict(bucket.objects))).look()
    assert isinstance(later, CheckpointListing)
    assert [checkpoint.kind for checkpoint in later.checkpoints] == [""] * 8 + ["permanent"] * 8


def test_older_folders_beyond_the_window_are_not_called_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(Bucket(levanter(*range(1, 3001))))
    outcome = reading.look()
    assert isinstance(outcome, CheckpointListing)
    assert [checkpoint.step for checkpoint in outcome.checkpoints] == list(range(2801, 3001))
    assert len(reading.bucket.asked) == 1 + 200 + 8
    assert "the 2800 oldest of 3000 checkpoint folders were not looked into" in outcome.notes[0]
    assert outcome.not_looked_into == 2800


def test_the_window_grows_until_a_complete_one_is_found() -> None:
    reading = Reading(Bucket(levanter(5, partial=tuple(range(100, 400)))))
    found = reading.steps()
    assert found[0] == (5, True)
    assert len(found) == 301
    listed = [asked for asked in reading.bucket.asked if asked.startswith("list")]
    assert len(listed) == len(set(listed)) == 302


def test_nothing_complete_within_the_limit_is_a_failure_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_folders, "FULL_WINDOW", 2)
    monkeypatch.setattr(checkpoint_folders, "LOOK_LIMIT", 4)
    outcome = Reading(Bucket(levanter(1, partial=(2, 3, 4, 5)))).look()
    assert isinstance(outcome, Failure)
    assert "none of the newest 4 checkpoint folders is complete" in outcome.detail
    assert Reading(Bucket(levanter(partial=(2, 3, 4, 5)))).steps() == [(step, False) for step in (2, 3, 4, 5)]


def test_folders_and_markers_that_vanish_meanwhile_are_skipped() -> None:
    bucket = Bucket(levanter(1, 2, 3))

    def delete(asked: str) -> None:
        if asked == "list run/step-2/":
            del bucket.objects["run/step-2/metadata.json"]
        if asked == "read run/step-3/metadata.json":
            del bucket.objects["run/step-3/metadata.json"]

    bucket.before = delete
    assert Reading(bucket).steps() == [(1, True)]


def test_the_checkpoints_folder_may_vanish_meanwhile() -> None:
    bucket = Bucket(levanter(1, prefix="run/checkpoints") | {"run/.executor_info": (b"{}", 1.0)})
    bucket.before = lambda asked: bucket.objects.pop("run/checkpoints/step-1/metadata.json", None) and None
    bucket.before("list run/")
    bucket.objects["run/checkpoints/step-1/metadata.json"] = (metadata(1), 1.0)
    forget = bucket.before
    bucket.before = lambda asked: forget(asked) if asked == "list run/checkpoints/" else None
    assert Reading(bucket).steps() == []


@pytest.mark.parametrize("what", ["list run/", "list run/step-9/", "read run/step-9/metadata.json"])
def test_any_failing_request_fails_the_look_and_the_next_look_is_whole(what: str) -> None:
    bucket = Bucket(levanter(8, 9))
    broken = [True]

    def fail(asked: str) -> None:
        if asked == what and broken[0]:
            raise LookFailedError(Failure(FailureReason.TIMEOUT, "no answer"))

    bucket.before = fail
    reading = Reading(bucket)
    outcome = reading.reader.read(Job(run="r", bucket="sft", checkpoints=("gs://bucket/run",)))
    assert outcome == Failure(FailureReason.TIMEOUT, "no answer")
    broken[0] = False
    assert reading.steps() == [(8, True), (9, True)]


def test_an_object_too_large_to_read_is_not_read() -> None:
    bucket = Bucket({"run/checkpoint-5/trainer_state.json": (b"", 1.0)})
    bucket.sizes["run/checkpoint-5/trainer_state.json"] = READ_LIMIT_BYTES + 1
    reading = Reading(bucket)
    assert reading.steps() == [(5, True)]
    assert not any(asked.startswith("read") for asked in bucket.asked)


FOLDERS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b/checkpoints"]), st.integers(0, 40)), st.booleans(), max_size=12
)


def bucket_of(folders: dict[tuple[str, int], bool]) -> dict[str, tuple[bytes, float]]:
    made: dict[str, tuple[bytes, float]] = {"a/.executor_info": (b"", 1.0), "b/.executor_info": (b"", 1.0)}
    for (prefix, step), complete in folders.items():
        made |= levanter(*[step] * complete, partial=(step,), prefix=prefix)
    return made


@given(FOLDERS, FOLDERS, st.sets(st.integers(0, 11)), st.booleans())
def test_memory_never_changes_an_answer(
    first: dict[tuple[str, int], bool],
    added: dict[tuple[str, int], bool],
    removed: set[int],
    newest_loses_its_marker: bool,
) -> None:
    """Folders come, go and become complete as trainers make them, and the newest may lose its marker: whatever was
    seen before, a look sees what a fresh reader sees, and what the bucket's names say."""
    bucket = Bucket(bucket_of(first))
    reading = Reading(bucket)
    reading.look("a", "b")
    kept = {key: complete for number, (key, complete) in enumerate(first.items()) if number not in removed}
    then = kept | {key: complete or first.get(key, False) for key, complete in added.items()}
    if newest_loses_its_marker and any(then.values()):
        then[max((key for key, complete in then.items() if complete), key=lambda key: key[1])] = False
    bucket.objects = bucket_of(then)
    fresh = Reading(Bucket(bucket_of(then))).look("a", "b")
    assert reading.look("a", "b") == fresh
    assert isinstance(fresh, CheckpointListing)
    assert {(c.path.removeprefix("gs://bucket/"), c.complete) for c in fresh.checkpoints} == {
        (f"{prefix}/step-{step}", complete) for (prefix, step), complete in then.items()
    }
    assert [c.step for c in fresh.checkpoints] == sorted(step for _, step in then)
