"""Steps done again: counted by steps alone, and from logs of which only some rows have a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runwatch.derive.history_digest import HistoryDigest, HistorySummary
from runwatch.derive.steps_done_again import StepsDoneAgain
from runwatch.facts import HistoryRow
from tests.unit.log_watching import BANNER, Watched, logged_step

Row = tuple[int, bool]
OLD = {"policy/raw_grad_norm": 5.0, "policy/policy_entropy": 0.1}


@pytest.mark.parametrize(
    ("rows", "again"),
    [
        ([(step, False) for step in (5, 5, 6, 6)], 0),  # logged in two rows each
        ([(5, False), (6, False), (6, True), (7, False)], 1),  # from checkpoint 5
        ([(0, False), (0, True)], 1),
        ([(10, False), (20, False), (20, True), (30, False)], 10),  # every tenth step is logged
        ([(9, False), (10, False), (8, True), (9, False), (10, False), (11, False)], 3),
        ([(9, False), (10, False), (8, True), (12, False)], 3),  # 8, 9 and 10
        ([(9, False), (10, False), (11, True)], 0),  # exactly on
    ],
)
def test_counts_by_hand(rows: list[Row], again: int) -> None:
    counted = StepsDoneAgain()
    for step, restarted in rows:
        counted.add(step, restarted=restarted)
    assert counted.count == again


def summary_of_log(tmp_path: Path, *contents: str) -> HistorySummary:
    watched = Watched(tmp_path / "*.out")
    for number, content in enumerate(contents):
        path = tmp_path / f"job_{number}.out"
        path.write_text(content)
        os.utime(path, (1_796_000_000 + 7200 * number,) * 2)
    digest = HistoryDigest(is_rl=False)
    digest.add(watched.history().rows)
    return digest.summary()


def quick_steps(first: int, last: int) -> str:
    return "".join(logged_step(step, 200, seconds_a_step=3, first=first - 1) for step in range(first, last + 1))


@pytest.mark.parametrize("resumed_from", [100, 80, 95, 101])
def test_a_log_counts_every_step_though_rows_so_close_have_no_time_each(tmp_path: Path, resumed_from: int) -> None:
    banner = BANNER.format(total=200)
    whole = banner + quick_steps(1, 101) + "\n" + banner + quick_steps(resumed_from + 1, 130)
    steps = summary_of_log(tmp_path, whole).steps
    assert steps.replayed_steps == 101 - resumed_from
    assert len(steps.restarts) == 1
    assert steps.high_water_step is not None
    assert steps.high_water_step > 120


def test_a_log_that_was_cut_into_two_files_shows_no_restart(tmp_path: Path) -> None:
    head = BANNER.format(total=200) + quick_steps(1, 60)
    tail = "".join(logged_step(step, 200, seconds_a_step=3) for step in range(61, 100))
    steps = summary_of_log(tmp_path, head, tail).steps
    assert (steps.replayed_steps, steps.restarts) == (0, ())


def test_an_evaluation_at_the_resumed_step_does_not_hide_the_new_start() -> None:
    digest = HistoryDigest(is_rl=True)
    reward = {"reward/avg_raw_reward": 0.5}
    digest.add(HistoryRow(step, 60.0 * step, step, reward) for step in range(1, 7))
    digest.add([HistoryRow(7, 1000.0, 5, {"eval/all/avg_score": 0.1}, begins_attempt=True)])
    digest.add([HistoryRow(8, 1100.0, 6, reward), HistoryRow(9, 1160.0, 7, reward)])
    steps = digest.summary().steps
    assert steps.replayed_steps == 1
    assert [(found.start_step, found.end_step) for found in steps.restarts] == [(6, 7)]


def test_a_step_done_again_keeps_nothing_of_the_one_before_even_where_it_was_the_newest() -> None:
    digest = HistoryDigest(is_rl=True)
    digest.add([HistoryRow(1, 60.0, 5, {"policy/raw_grad_norm": 0.3}), HistoryRow(2, 120.0, 6, OLD)])
    digest.add([HistoryRow(3, 900.0, 6, {"policy/raw_grad_norm": 0.2}, begins_attempt=True)])
    summary = digest.summary().rl
    assert summary is not None
    assert (summary.step, dict(summary.values.values), summary.since) == (6, {"policy/raw_grad_norm": 0.2}, 900.0)
    assert summary.figures.grad_norm_last2_min == 0.2
