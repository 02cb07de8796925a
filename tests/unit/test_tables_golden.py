"""Whole tables of a small fleet, written down and checked by hand, at three widths; and what holds at any width."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from runwatch.report.tables import render_tables
from tests.unit.small_fleet import NOW, rl_collapsing, rl_seqnorm, sft_degraded, small_fleet
from tests.unit.whole_fleet import whole_fleet

DATA = Path(__file__).parents[1] / "data" / "tables"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_whole_tables(width: int) -> None:
    expected = (DATA / f"small_fleet_{width}.txt").read_text(encoding="utf-8")
    assert render_tables(small_fleet(), NOW, bucket=None, width=width) == expected


@pytest.mark.parametrize("width", [80, 120, 200])
def test_whole_tables_of_all_buckets(width: int) -> None:
    expected = (DATA / f"whole_fleet_{width}.txt").read_text(encoding="utf-8")
    assert render_tables(whole_fleet(), NOW, width=width) == expected
    assert render_tables(whole_fleet()[::-1], NOW, width=width) == expected


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_order_of_the_reports_does_not_matter(width: int) -> None:
    forwards = render_tables(small_fleet(), NOW, bucket=None, width=width)
    assert render_tables(small_fleet()[::-1], NOW, bucket=None, width=width) == forwards


@pytest.mark.parametrize("width", range(40, 240, 9))
def test_no_figure_of_datagen_and_evals_is_cut(width: int) -> None:
    text = render_tables(whole_fleet(), NOW, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    cells = {cell.strip() for line in text.splitlines() for cell in line.split("│")}
    assert {"8,612", "5.10", "0.531", "19.1 %", "142/300", "12/—", "0.211", "89/89"} <= cells


@pytest.mark.parametrize("width", range(40, 240, 7))
def test_no_line_is_too_wide_and_no_figure_is_cut(width: int) -> None:
    text = render_tables(small_fleet(), NOW, bucket=None, width=width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    cells = {cell.strip() for line in text.splitlines() for cell in line.split("│")}
    figures = {
        "41/80", "0.451", "0.700", "-0.0930", "1.310", "0.212", "0.0121", "0.0310", "15/80", "0.000", "1.2e-5",
        "3.0e-5", "4.0e-5", "29001/29945", "1.2104", "0.840", "40,632", "2 d 4 h", "93.4 %", "87.6 %", "3 h 12 min",
    }  # fmt: skip
    assert figures <= cells


def test_one_bucket() -> None:
    text = render_tables(small_fleet(), NOW, bucket="rl", width=200)
    assert "rl-base" in text
    assert "rl-new" in text
    assert "cell-" not in text
    assert "tb2-eval" not in text
    assert render_tables([rl_seqnorm()], NOW, bucket="eval", width=80) == "No jobs of bucket eval.\n"
    assert render_tables([], NOW, bucket=None, width=80) == "No jobs.\n"


def test_a_small_table_is_as_narrow_as_its_cells() -> None:
    expected = """\
SFT
┌────────────────────────────────────────┬─────────────┬────────┬───────────┬────────┬─────────┬────────────────────────────┐
│ Job                                    │ Step        │ Loss   │ Grad Norm │ tok/s  │ ETA     │ Trend                      │
├────────────────────────────────────────┼─────────────┼────────┼───────────┼────────┼─────────┼────────────────────────────┤
│ delphi-1e23-p33m67-k0p20-lr0.67-b6607e │ 29001/29945 │ 1.2104 │ 0.840     │ 40,632 │ 2 d 4 h │ tok/s 62 % of its baseline │
└────────────────────────────────────────┴─────────────┴────────┴───────────┴────────┴─────────┴────────────────────────────┘
"""  # noqa: E501
    assert render_tables([sft_degraded()], NOW, bucket=None, width=200).startswith(expected)


def test_an_environment_that_forces_colour_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = render_tables([rl_collapsing()], NOW, bucket=None, width=120)
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "60", "TERM": "dumb", "TTY_COMPATIBLE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert render_tables([rl_collapsing()], NOW, bucket=None, width=120) == plain
    assert "\x1b" not in plain
