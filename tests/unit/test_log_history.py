"""Histories from logs: times, totals, growth, cuts, chains, what was not read, and what was read twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from runwatch.derive.history_digest import HistoryDigest
from runwatch.facts import Failure, FailureReason, HistoryEnd
from runwatch.sources.log_files import LocalLogFiles
from runwatch.sources.log_history import LogHistoryReader
from tests.unit.log_watching import BANNER, BEGAN, Watched, bar, bytes_read, logged_step, steps, written

__all__ = ["bytes_read"]

LOGS = Path(__file__).parents[1] / "data" / "logs"


def test_a_capture_gives_step_total_values_and_times(tmp_path: Path) -> None:
    path = tmp_path / "job_7.out"
    path.write_bytes((LOGS / "sft" / "sft_llamafactory095_tf4571.out").read_bytes())
    update = Watched(path).history()
    assert update.run.config == {"num_train_steps": 100}
    assert not update.run.starts_mid_run
    assert (update.caught_up, update.reset, update.malformed) == (True, False, 0)
    last = update.rows[-1]
    assert last.trainer_step == 100
    assert last.values["train/loss"] == 2.8944
    assert last.values["train/grad_norm"] == 0.39810678362846375
    assert update.run.end is HistoryEnd.SUCCEEDED
    assert update.run.ended_at == datetime(2026, 11, 29, 17, 50, 46, 584000, UTC).timestamp()
    # The bar stands at 02:17 (its second update) when the log's own stamps say 17:50:46; both within two seconds.
    timed = [row.time for row in update.rows if row.time is not None]
    assert timed == sorted(timed)
    first_bar = datetime(2026, 11, 29, 17, 48, 29, tzinfo=UTC).timestamp()
    assert timed[0] == pytest.approx(first_bar, abs=3)


def test_only_new_bytes_are_read_and_each_row_comes_once(tmp_path: Path, bytes_read: list[int]) -> None:
    path = tmp_path / "train.out"
    first = BANNER.format(total=100) + "".join(logged_step(step, 100) for step in range(1, 4))
    written(path, first, BEGAN + 60)
    watched = Watched(path)
    update = watched.history()
    assert steps(update) == [1, 2, 3]
    assert [row.time for row in update.rows] == pytest.approx([BEGAN + 20, BEGAN + 40, BEGAN + 60], abs=0.1)
    assert [row.values["train/loss"] for row in update.rows] == [4.99, 4.98, 4.97]
    assert sum(bytes_read) == len(first)
    bytes_read.clear()
    assert steps(watched.history()) == []
    assert sum(bytes_read) == 0
    new = logged_step(4, 100)
    written(path, new, BEGAN + 80, append=True)
    update = watched.history()
    assert (steps(update), update.reset, update.run.heartbeat) == ([4], False, BEGAN + 80)
    assert [row.cursor for row in update.rows] == [4]
    assert sum(bytes_read) <= len(new) + 64
    # The facts are made of the same reading.
    bytes_read.clear()
    assert watched.facts().last_write == BEGAN + 80
    assert sum(bytes_read) == 0


def test_two_gigabytes_cost_eight_megabytes_once(tmp_path: Path, bytes_read: list[int]) -> None:
    path = tmp_path / "train.out"
    head = BANNER.format(total=100_000) + "".join(logged_step(step, 100_000) for step in range(1, 40))
    tail = "".join(logged_step(step, 100_000) for step in range(50_000, 50_100))
    with path.open("wb") as file:
        file.write(head.encode())
        file.truncate(2_000_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + tail.encode())
    os.utime(path, (BEGAN + 50_099 * 20, BEGAN + 50_099 * 20))
    watched = Watched(path)
    update = watched.history()
    assert 7_000_000 < sum(bytes_read) <= 8_000_000
    assert update.run.starts_mid_run
    assert update.run.config == {"num_train_steps": 100_000}
    assert update.run.created == BEGAN
    # The parser was told of the gap: no row is put together from both sides of it, and the tail's own are whole.
    assert steps(update) == list(range(50_000, 50_100))
    assert update.rows[-1].time == pytest.approx(BEGAN + 50_099 * 20, abs=0.1)
    assert any("not read from the run's beginning" in note for note in watched.facts().notes)
    bytes_read.clear()
    new = logged_step(50_100, 100_000)
    written(path, new, BEGAN + 50_100 * 20, append=True)
    assert steps(watched.history()) == [50_100]
    assert sum(bytes_read) <= len(new) + 64


def test_a_requeue_that_cuts_the_file_is_the_same_job_going_back(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    written(path, BANNER.format(total=100) + "".join(logged_step(s, 100) for s in range(1, 11)), BEGAN + 200)
    watched = Watched(path)
    assert steps(watched.history()) == list(range(1, 11))
    resumed = (
        BANNER.format(total=100).replace("10:00", "11:00") + logged_step(7, 100, first=6) + logged_step(8, 100, first=6)
    )
    written(path, resumed, BEGAN + 3640)
    update = watched.history()
    assert (steps(update), update.reset) == ([7, 8], False)
    assert [row.time for row in update.rows] == pytest.approx([BEGAN + 3620, BEGAN + 3640], abs=0.1)


def test_a_file_written_anew_in_place_and_longer_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    written(path, BANNER.format(total=100) + logged_step(1, 100), BEGAN + 20)
    watched = Watched(path)
    assert steps(watched.history()) == [1]
    written(path, BANNER.format(total=50) + "".join(logged_step(s, 50) for s in range(1, 6)), BEGAN + 300)
    update = watched.history()
    assert steps(update) == [1, 2, 3, 4, 5]
    assert update.run.config == {"num_train_steps": 50}


def test_a_chain_is_one_job_in_the_order_of_its_links(tmp_path: Path) -> None:
    for number, first, hour in ((9, 0, "10"), (10, 6, "11")):
        text = BANNER.format(total=100).replace("10:00", f"{hour}:00")
        text += "".join(logged_step(step, 100, first=first) for step in range(first + 1, first + 9))
        written(tmp_path / f"grid_{number}.out", text, BEGAN + (number - 9) * 3600 + 160)
    watched = Watched(tmp_path / "grid_*.out")
    update = watched.history()
    assert steps(update) == [*range(1, 9), *range(7, 15)]
    assert update.rows[8].time == pytest.approx(BEGAN + 3620, abs=0.1)
    # A third link appears.
    text = BANNER.format(total=100).replace("10:00", "12:00") + logged_step(15, 100, first=14)
    written(tmp_path / "grid_11.out", text, BEGAN + 7220)
    update = watched.history()
    assert (steps(update), update.reset) == ([15], False)
    assert update.rows[0].time == pytest.approx(BEGAN + 7220, abs=0.1)


def test_without_any_stamp_the_file_s_time_anchors_the_bar(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    text = "  Total optimization steps = 100\n" + "".join(logged_step(step, 100) for step in range(1, 6))
    written(path, text, BEGAN + 1000)
    watched = Watched(path)
    assert [row.time for row in watched.history().rows] == [BEGAN + 920 + 20 * n for n in range(5)]
    written(path, logged_step(6, 100), BEGAN + 1021, append=True)
    assert [row.time for row in watched.history().rows] == [BEGAN + 1020]


def test_marins_stamps_tell_when_levanters_lines_were_written(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    lines = [
        f"I20261129 10:{minute:02}:00 139872 tqdm_loggable.tqdm_logging Progress on:train {done}it/500it "
        f"rate:8.0s/it remaining:1:00:00 elapsed:{minute:02}:00 postfix:loss=3.1\n"
        for minute, done in ((1, 8), (2, 16), (3, 24))
    ]
    written(path, "".join(lines), BEGAN + 40_000)  # a copy is as old as its copying
    update = Watched(path).history()
    assert [(row.trainer_step, row.time) for row in update.rows] == [
        (7, BEGAN + 60),
        (15, BEGAN + 120),
        (23, BEGAN + 180),
    ]


def test_an_anchor_that_was_far_too_late_is_put_right(tmp_path: Path) -> None:
    """A bar that stood for an hour when it was first seen tells a start that is an hour late: the next one shows it."""
    path = tmp_path / "train.out"
    text = "  Total optimization steps = 1000\n" + "".join(logged_step(step, 1000) for step in range(1, 6))
    written(path, text + "\nsome other line\n", BEGAN + 3600)
    watched = Watched(path)
    assert watched.history().rows[-1].time == BEGAN + 3600
    # It was step 5 at BEGAN + 100; what was written then came from something else. Step 200 comes at BEGAN + 4000.
    written(path, logged_step(200, 1000), BEGAN + 4000, append=True)
    update = watched.history()
    assert update.reset
    assert steps(update) == [1, 2, 3, 4, 5, 200]
    assert [row.time for row in update.rows] == [*(BEGAN + 20 * n for n in range(1, 6)), BEGAN + 4000]


def test_steps_quicker_than_the_bar_s_seconds_have_no_times_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    # Seven steps in ten seconds: 1.43 s each, which the bar shows as one or two.
    text = BANNER.format(total=1000) + "".join(bar(step, 1000, step * 10 // 7) for step in range(1, 351))
    written(path, text, BEGAN + 500)
    rows = Watched(path).history().rows
    assert [row.trainer_step for row in rows] == list(range(1, 351))
    timed = [(row.trainer_step or 0, row.time) for row in rows if row.time is not None]
    late = [(step, time) for step, time in timed if step > 30]
    durations = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(late))
    assert durations[len(durations) // 2] == pytest.approx(10 / 7, rel=0.05)


def test_at_hides_what_was_written_later(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    written(path, BANNER.format(total=100) + "".join(logged_step(s, 100) for s in range(1, 6)), BEGAN + 100)
    update = Watched(path, at=BEGAN + 45).history()
    assert steps(update) == [1, 2]
    assert (update.run.heartbeat, update.run.end) == (None, None)


LEVANTER_BAR = "{} - 0 - tqdm_loggable.tqdm_logging - tqdm_logging.py:154 - INFO :: Progress on:train {}\n"
STAMPED = (
    "2026-11-29T10:00:00 - 0 - levanter.main.train_lm - train_lm.py:1 - INFO :: Loading model\n"
    + LEVANTER_BAR.format("2026-11-29T10:00:03", "-/400 rate:- remaining:? elapsed:00:00 postfix:-")
    + LEVANTER_BAR.format(
        "2026-11-29T10:00:06", "1.0it/400it rate:0.3it/s remaining:19:57 elapsed:00:03 postfix:loss=4"
    )
)
UNSTAMPED = "***** Running training *****\n  Total optimization steps = 100\n" + "".join(
    logged_step(step, 100) for step in (1, 2, 3)
)


@pytest.mark.parametrize(
    ("text", "at", "total"),
    [
        # The first bar comes 3 s after the first line, the first that has a step 6 s after it.
        (STAMPED, -5, None),
        (STAMPED, 1, None),
        (STAMPED, 7, 400),
        # Step 1 is logged at 20 s by the bar: before it nothing tells that the log was there.
        (UNSTAMPED, -5, None),
        (UNSTAMPED, 30, 100),
    ],
)
def test_at_hides_a_total_that_was_told_later(tmp_path: Path, text: str, at: float, total: int | None) -> None:
    path = tmp_path / "train.out"
    written(path, text, BEGAN + 60)
    config = Watched(path, at=BEGAN + at).history().run.config
    assert config == ({} if total is None else {"num_train_steps": total})


def test_missing_files_foreign_kinds_and_links_out_are_failures(tmp_path: Path) -> None:
    missing = Watched(tmp_path / "none.out").try_history()
    assert isinstance(missing, Failure) and missing.reason is FailureReason.NOT_FOUND
    (tmp_path / "folder.out").mkdir()
    folder = Watched(tmp_path / "folder.out").try_history()
    assert isinstance(folder, Failure) and folder.reason is FailureReason.PARSE
    os.mkfifo(tmp_path / "pipe.out")
    pipe = Watched(tmp_path / "pipe.out").try_history()
    assert isinstance(pipe, Failure) and pipe.reason is FailureReason.PARSE
    none = Watched(tmp_path / "none_*.out").try_history()
    assert isinstance(none, Failure) and none.reason is FailureReason.NOT_FOUND
    (tmp_path / "file").write_text("")
    no_folder = LocalLogFiles(None).find(f"{tmp_path}/file/*.out", 0.0)
    assert isinstance(no_folder, Failure)
    allowed, secret = tmp_path / "logs", tmp_path / "secret.out"
    allowed.mkdir()
    secret.write_text("Total optimization steps = 5\n")
    (allowed / "link.out").symlink_to(secret)
    refused = Watched(allowed / "link.out", roots=(allowed,)).try_history()
    assert isinstance(refused, Failure) and "outside file_roots" in refused.detail
    outside = Watched("auto", roots=(allowed,), paths=[str(secret)]).try_history()
    assert isinstance(outside, Failure) and "outside file_roots" in outside.detail
    by_glob = Watched(allowed / "*.out", roots=(allowed,)).try_history()
    assert isinstance(by_glob, Failure) and "outside file_roots" in by_glob.detail
    # It may be the newest link: a link that can be read beside it is not the whole log.
    (allowed / "first.out").write_text("Total optimization steps = 5\n")
    beside = Watched(allowed / "*.out", roots=(allowed,)).try_history()
    assert isinstance(beside, Failure) and "outside file_roots" in beside.detail
    (allowed / "link.out").unlink()
    (allowed / "folder.out").mkdir()
    assert Watched(allowed / "*.out", roots=(allowed,)).facts().files == (str(allowed / "first.out"),)


def test_auto_takes_the_scheduler_s_paths_once_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "slurm-7.out"
    watched = Watched("auto")
    waiting = watched.try_history()
    assert isinstance(waiting, Failure) and waiting.reason is FailureReason.NOT_FOUND
    written(path, BANNER.format(total=10) + logged_step(1, 10), BEGAN + 20)
    watched.paths = [str(path)]
    assert steps(watched.history()) == [1]


def test_a_log_that_both_readers_let_go_of_is_delivered_as_new(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    written(path, BANNER.format(total=10) + logged_step(1, 10), BEGAN + 20)
    watched = Watched(path)
    assert not watched.history().reset
    watched.watch.forget("run")  # the facts' source forgot the job, the history's did not
    update = watched.history()
    assert (update.reset, steps(update)) == (True, [1])
    watched.reader.forget("run")
    update = watched.history()
    assert (update.reset, steps(update)) == (False, [1])


def test_a_resumed_capture_counts_the_steps_done_again(tmp_path: Path) -> None:
    """Stopped at step 32, it resumed from a checkpoint at 30; steps take about a second."""
    path = tmp_path / "train.out"
    path.write_bytes((LOGS / "sft" / "hf_trainer_tf4571_resumed.out").read_bytes())
    update = Watched(path).history()
    digest = HistoryDigest(is_rl=False)
    digest.add(update.rows)
    summary = digest.summary()
    assert (summary.step, update.run.config) == (80, {"num_train_steps": 80})
    assert summary.steps.replayed_steps == 2
    assert summary.steps.latest_time is not None and update.run.ended_at is not None
    assert summary.steps.latest_time == pytest.approx(update.run.ended_at, abs=11)


@pytest.mark.parametrize("by_facts", [True, False])
def test_rows_that_went_to_another_reader_are_read_again(tmp_path: Path, by_facts: bool) -> None:
    log = tmp_path / "log"
    log.write_text(BANNER.format(total=100) + logged_step(1, 100) + logged_step(2, 100))
    watched = Watched(log)
    if by_facts:  # asked for before the log became the job's history
        watched.watch.look(watched.job, lambda job_log: job_log.drop_rows(), until_caught_up=True)
    else:
        assert steps(watched.history()) == [1, 2]
    watched.reader = LogHistoryReader(watched.watch)
    with log.open("a") as more:
        more.write(logged_step(3, 100))
    assert steps(watched.history()) == [1, 2, 3]
    assert steps(watched.history()) == []
