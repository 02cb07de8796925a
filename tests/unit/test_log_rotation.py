"""Logs that are renamed, copied, cut, compressed or taken away while they are followed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from runwatch.derive.history_digest import HistoryDigest
from runwatch.facts import Failure, FailureReason
from runwatch.sources.log_tails import Tail
from tests.unit.log_watching import BANNER, BEGAN, Watched, bar, bytes_read, logged_step, steps, written

__all__ = ["bytes_read"]


def test_rotation_goes_on_in_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    written(path, BANNER.format(total=100) + logged_step(1, 100), BEGAN + 20)
    watched = Watched(path)
    assert steps(watched.history()) == [1]
    path.rename(tmp_path / "train.out.1")
    written(path, BANNER.format(total=100).replace("10:00", "10:30") + logged_step(2, 100, first=1), BEGAN + 1820)
    update = watched.history()
    assert (steps(update), update.reset) == ([2], False)
    assert update.rows[0].time == pytest.approx(BEGAN + 1820, abs=0.1)


def test_rotation_by_copying_and_cutting_is_no_second_run(tmp_path: Path) -> None:
    """logrotate's `copytruncate`: the copy is made between two looks, or one comes before the file is cut."""
    path, copy = tmp_path / "train.out", tmp_path / "train.out.1"
    whole = [BANNER.format(total=100) + "".join(logged_step(step, 100) for step in range(1, 6))]
    whole += [logged_step(step, 100) for step in range(6, 10)]
    written(path, whole[0], BEGAN + 100)
    watched = Watched(tmp_path / "train.out*")
    assert steps(watched.history()) == [1, 2, 3, 4, 5]
    # What was logged since the last look stands in the copy alone.
    written(copy, whole[0] + whole[1], BEGAN + 121)
    written(path, whole[2], BEGAN + 140)
    update = watched.history()
    assert (steps(update), update.reset, update.run.starts_mid_run) == ([6, 7], False, False)
    assert not any(row.begins_attempt for row in update.rows)
    # The next copy is there while the file is not cut yet.
    copy.rename(tmp_path / "train.out.2")
    written(copy, whole[2], BEGAN + 141)
    assert steps(watched.history()) == []
    written(path, whole[3], BEGAN + 160)
    assert steps(watched.history()) == [8]
    written(path, whole[3] + whole[4], BEGAN + 180)
    assert steps(watched.history()) == [9]


def test_links_of_a_chain_that_are_alike_to_the_byte_are_two(tmp_path: Path) -> None:
    text = "".join(logged_step(step, 100) for step in range(1, 6))
    written(tmp_path / "job_1.out", text, BEGAN + 100)
    watched = Watched(tmp_path / "job_*.out")
    assert steps(watched.history()) == [1, 2, 3, 4, 5]
    written(tmp_path / "job_2.out", text, BEGAN + 300)
    assert steps(watched.history()) == [1, 2, 3, 4, 5]


def test_compressed_logs_are_not_read_and_what_they_hold_is_not_known(tmp_path: Path) -> None:
    path, older = tmp_path / "train.out", tmp_path / "train.out.1"
    compressed = tmp_path / "train.out.1.gz"
    pattern = tmp_path / "train.out*"
    text = BANNER.format(total=100) + "".join(logged_step(step, 100) for step in range(1, 6))
    written(older, text, BEGAN + 100)
    written(path, logged_step(6, 100), BEGAN + 120)
    watched = Watched(pattern)
    assert steps(watched.history()) == [1, 2, 3, 4, 5, 6]
    compressed.write_bytes(gzip.compress(older.read_bytes()))
    os.utime(compressed, (BEGAN + 100, BEGAN + 100))
    older.unlink()
    written(path, logged_step(6, 100) + logged_step(7, 100), BEGAN + 140)
    update = watched.history()
    assert (steps(update), update.run.starts_mid_run) == ([7], False)
    # Another exporter, or this one started anew, never saw what is compressed now.
    fresh = Watched(pattern)
    update = fresh.history()
    assert (steps(update), update.run.starts_mid_run) == ([6, 7], True)
    assert any(f"compressed and not read: {compressed}" in note for note in fresh.facts().notes)
    path.unlink()
    fresh = Watched(pattern)
    for _ in range(2):
        alone = fresh.try_history()
        assert isinstance(alone, Failure) and alone.reason is FailureReason.PARSE


def test_a_copy_that_replaces_the_file_each_time_goes_on(tmp_path: Path, bytes_read: list[int]) -> None:
    """Logs that are copied from another machine: each copy is a file of its own under the old name."""
    texts = dict.fromkeys(("train_1.out", "train_2.out", "train_3.out"), "")
    watched = Watched(tmp_path / "train_*.out")
    seen: list[int | None] = []
    for step in range(1, 6):
        for number, name in enumerate(texts):
            texts[name] += logged_step(step, 100) if step > 1 else BANNER.format(total=100) + logged_step(step, 100)
            written(tmp_path / "copy", texts[name], BEGAN + number + 20 * step)
            (tmp_path / "copy").replace(tmp_path / name)  # its inode may be one that another of these had before
        seen += steps(watched.history())
    assert sorted(step for step in seen if step is not None) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert sum(bytes_read) <= sum(map(len, texts.values())) + 15 * 2 * 64
    # A later run of the same name is another one.
    written(tmp_path / "copy", (BANNER + "." * 5000).format(total=50) + logged_step(1, 50), BEGAN + 9000)
    (tmp_path / "copy").replace(tmp_path / "train_3.out")
    assert steps(watched.history()) == [1]


@pytest.mark.parametrize("banner", [BANNER.format(total=100), BANNER.format(total=100).splitlines()[-1]])
def test_a_log_whose_beginning_was_taken_away_tells_nothing_of_it(tmp_path: Path, banner: str) -> None:
    """Its first bar counted 820 s already: whether the run made 40 steps before, or began at 40, is not known."""
    path = tmp_path / "train.out"
    later = "".join(logged_step(step, 100) for step in range(41, 61))
    evaluation = f"{bar(0, 6, 0).replace('<09:59', '<?')}\r"
    written(path, evaluation + later, BEGAN + 1200)
    watched = Watched(path)
    update = watched.history()
    assert (steps(update)[0], update.run.starts_mid_run) == (41, True)
    assert any("not read from the run's beginning" in note for note in watched.facts().notes)
    # The same where Kubernetes rotated the pod's log, which is then short.
    tail = Watched("auto", tail=lambda job, lines: Tail(later.splitlines(), is_whole=True)).history()
    assert tail.run.starts_mid_run
    # A resumed run draws its bar at 0 before it jumps to where it goes on.
    written(path, banner + later, BEGAN + 1200)
    assert not Watched(path).history().run.starts_mid_run
    digest = HistoryDigest(is_rl=False)
    digest.add(update.rows)
    assert digest.summary().steps.step_duration == pytest.approx(20.0, abs=0.1)
