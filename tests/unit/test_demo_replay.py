"""The demo's replays: what they write of the past, how they go on, and how their checkpoints come about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runwatch.demo.replay import Replay, Stretch, moments, values_of_step
from runwatch.demo.saves import LevanterSaves, SkyrlSaves
from runwatch.facts import HistoryRow

NOW = 1_800_000_000.0


class NoSaves:
    """Takes note of the steps alone."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []

    def step_done(self, step: int, attempt_first: int, now: float) -> None:
        self.steps.append((step, now))


def replay(path: Path, *plan: Stretch, target: int = 100, cut_line: str = "") -> tuple[Replay, NoSaves]:
    saves = NoSaves()
    return Replay(path, lambda step: {"loss": step / 2}, plan, 10.0, target, saves, cut_line), saves


def test_a_pause_is_down_time_where_the_run_restarts_and_running_time_where_not() -> None:
    plan = (Stretch(0, 2), Stretch(2, 3, pause=100.0, restarts=True), Stretch(4, 4, pause=50.0))
    found = [(m.step, m.offset, m.runtime, m.attempt_first) for m in moments(plan, 10.0)]
    assert found == [
        (0, 10.0, 10.0, 0),
        (1, 20.0, 20.0, 0),
        (2, 30.0, 30.0, 0),
        (2, 140.0, 70.0, 2),  # 30 s of the 100 are loading, which the run's own clock counts
        (3, 150.0, 80.0, 2),
        (4, 210.0, 140.0, 2),
    ]


def test_the_past_ends_now_and_a_killed_attempt_leaves_its_cut_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    replayed, saves = replay(path, Stretch(0, 1), Stretch(1, 2, pause=100.0, restarts=True), cut_line='{"_st')
    replayed.prefill(NOW)
    lines = path.read_text().splitlines()
    assert lines[2] == '{"_st'
    rows = [json.loads(line) for line in lines if line != '{"_st']
    assert [(row["_step"], row["_timestamp"] - NOW) for row in rows] == [(0, -130), (1, -120), (1, -10), (2, 0)]
    assert [row["loss"] for row in rows] == [0.0, 0.5, 0.5, 1.0]
    assert saves.steps == [(row["_step"], row["_timestamp"]) for row in rows]


def test_it_goes_on_one_row_at_a_time_catches_nothing_up_and_stops_before_its_target(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    replayed, _ = replay(path, Stretch(0, 1), target=4)
    replayed.prefill(NOW)
    for seconds in (9.9, 10.0, 19.9, 500.0, 500.1, 510.0, 600.0):
        replayed.advance(NOW + seconds)
    rows = [json.loads(line) for line in path.read_text().splitlines()][2:]
    assert [(row["_step"], row["_timestamp"] - NOW) for row in rows] == [(2, 10.0), (3, 500.0)]
    assert [row["_runtime"] for row in rows] == [30.0, 520.0]


def test_behind_the_captures_end_its_last_rows_come_again() -> None:
    rows = [HistoryRow(i, None, None, {"loss": float(i), "_runtime": 1.0}) for i in range(5)]
    values = values_of_step(rows, first_step=1, repeated=2)
    assert [values(step) for step in (1, 5, 6, 7, 8)] == [{"loss": value} for value in (0.0, 4.0, 3.0, 4.0, 3.0)]


@pytest.fixture
def levanter(tmp_path: Path) -> LevanterSaves:
    return LevanterSaves(tmp_path / "perm", tmp_path / "tmp", "{}", permanent_every=6, temporary_every=4)


def folders(root: Path) -> dict[str, bool]:
    """Each step folder, and whether it was committed."""
    return {step.name: (step / "metadata.json").exists() for step in root.glob("step-*")}


def test_levanter_commits_later_and_keeps_one_temporary_checkpoint(levanter: LevanterSaves) -> None:
    for step in range(9):
        levanter.step_done(step, 0, NOW + step)
    assert (folders(levanter.temporary), folders(levanter.permanent)) == (
        {"step-4": True, "step-8": False},
        {"step-6": True},
    )
    for step in (9, 10):
        levanter.step_done(step, 0, NOW + step)
    assert folders(levanter.temporary) == {"step-8": True}
    marker = levanter.permanent / "step-6" / "metadata.json"
    assert json.loads(marker.read_text()) == {"step": 6, "timestamp": "2027-01-15T08:00:08", "is_temporary": False}
    assert marker.stat().st_mtime == NOW + 8


def test_a_save_that_was_cut_off_stays_partial(levanter: LevanterSaves) -> None:
    for step in range(9):
        levanter.step_done(step, 0, NOW + step)
    for step in range(5, 20):  # resumed from 4: the saves of this attempt come at 9, 13 and 17
        levanter.step_done(step, 5, NOW + 100 + step)
    assert folders(levanter.temporary) == {"step-8": False, "step-17": True}


def test_skyrl_names_the_newest_step_beside_the_folders(tmp_path: Path) -> None:
    saves = SkyrlSaves(tmp_path, every=2)
    for step in range(1, 6):
        saves.step_done(step, 1, NOW + step)
    assert sorted(folder.name for folder in tmp_path.glob("global_step_*")) == ["global_step_2", "global_step_4"]
    assert (tmp_path / "latest_ckpt_global_step.txt").read_text() == "4"
    assert (tmp_path / "global_step_2" / "trainer_state.pt").stat().st_mtime == NOW + 2
