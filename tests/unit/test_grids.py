"""Grids: each cell counted once, whatever copies of it the fleet holds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from runwatch.catalogue import JOB_METRICS
from runwatch.measurements import JobReport
from runwatch.report.grids import cell_name, grid_cells, grid_samples, render_grids
from tests.unit.small_fleet import Value, job, measure


def cell(
    run: str, state: str | None, *, eta: float | None = None, site: str = "marin", grid: str = "lr", successor: str = ""
) -> JobReport:
    values: dict[str, Value] = {} if eta is None else {"eta_seconds": eta}
    if successor:
        values["successor"] = {successor: 1}
    return job(run, "sft", measure(values, state), site=site, info={"grid": grid})


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("lr-3e-5", "lr-3e-5"),
        ("lr-3e-5@marin", "lr-3e-5"),
        ("lr-3e-5@marin#812", "lr-3e-5"),
        ("lr-3e-5@marin#/u1/it-coord#7", "lr-3e-5"),
        ("lr-3e-5@leonardo", "lr-3e-5@leonardo"),  # not what the fleet adds to a job of this site
        ("mail@marine", "mail@marine"),
        ("lr-3e-5-restart2", "lr-3e-5"),
        ("lr-3e-5_resume", "lr-3e-5"),
        ("lr-3e-5.backup-01@marin", "lr-3e-5"),
        ("lr-3e-5-r2", "lr-3e-5-r2"),  # may be a cell of its own
        ("no-restart-schedule", "no-restart-schedule"),
        ("-restart2", "-restart2"),
    ],
)
def test_the_name_of_a_cell(run: str, name: str) -> None:
    assert cell_name(cell(run, "running")) == name


def tally(*reports: JobReport) -> list[tuple[str, str]]:
    return [(found.name, found.state) for found in grid_cells(reports)]


def test_copies_and_backups_are_one_cell() -> None:
    assert tally(
        cell("a", "running"), cell("a@marin#2", "pending"), cell("a-restart1", "failed"),
        cell("b@marin#9", "pending"), cell("b", "succeeded"),
        cell("c", "failed"), cell("c-restart1", "pending"), cell("c-restart2", "pending"),
        cell("d", "failed"), cell("d-restart1", "killed"),
        cell("e", None),
    ) == [("a", "running"), ("b", "done"), ("c", "pending"), ("d", "failed"), ("e", "")]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "successor", "expected"),
    [
        ("running", "", "running"),
        ("pending", "", "pending"),
        ("preempted", "", "pending"),
        ("succeeded", "", "done"),
        ("timeout", "", "failed"),
        ("timeout", "813", "pending"),  # its chain goes on
        ("failed", "", "failed"),
        ("killed", "", "failed"),
        ("vanished", "", "failed"),
        ("unknown", "", ""),
    ],
)
def test_the_state_of_a_cell(state: str, successor: str, expected: str) -> None:
    assert tally(cell("a", state, successor=successor)) == [("a", expected)]


def test_the_metrics_of_grids() -> None:
    reports = [
        cell("a", "running", eta=7200), cell("a@marin#2", "pending"), cell("b", "running", eta=3600),
        cell("c", "running", site="leonardo"), cell("d", "pending"), cell("e", "unknown"),
        cell("x", "pending", eta=9e9), cell("alone", "succeeded", grid='of "one"'),
        job("none", "sft", measure({}, "running")),
    ]  # fmt: skip
    families = {family.name: family for family in text_string_to_metric_families(render_grids(reports).decode())}
    cells = {
        (s.labels["grid"], s.labels["site"], s.labels["state"]): s.value
        for s in families["runwatch_grid_cells"].samples
    }
    assert {key: value for key, value in cells.items() if value} == {
        ("lr", "marin", "running"): 2, ("lr", "marin", "pending"): 2, ("lr", "leonardo", "running"): 1,
        ('of "one"', "marin", "done"): 1,
    }  # fmt: skip
    assert len(cells) == 3 * 4
    assert [(s.labels, s.value) for s in families["runwatch_grid_long_pole"].samples] == [
        ({"grid": "lr", "run": "a"}, 7200.0)
    ]
    assert render_grids([]) == b""
    assert not [metric.name for metric in JOB_METRICS if metric.name.startswith("runwatch_")]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "a@marin#1", "a-restart1", "b_backup"]),
            st.sampled_from(["running", "pending", "succeeded", "failed", "unknown"]),
        ),
        unique_by=lambda pair: pair[0],
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
def test_counts_are_of_distinct_cells_in_any_order(jobs: list[tuple[str, str]], shuffle: random.Random) -> None:
    reports = [cell(run, state) for run, state in jobs]
    samples = list(grid_samples(reports))
    shuffle.shuffle(reports)
    assert list(grid_samples(reports)) == samples
    known = {name for name, state in tally(*reports) if state}
    assert sum(value for name, _, value in samples if name == "runwatch_grid_cells") == len(known) <= 2
