"""`docs/metrics.md` is what the catalogue and the thresholds say, and is a page that Markdown readers can read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from runwatch import catalogue, reference, thresholds
from runwatch.catalogue import METRICS
from runwatch.metric_kinds import Metric, Section

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BAR = re.compile(r"(?<!\\)\|")


def tables(text: str) -> dict[str, list[list[str]]]:
    """Read each heading's table as rows of cells, without its two header lines."""
    found: dict[str, list[list[str]]] = {}
    for part in text.split("\n## ")[1:]:
        heading, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if line.startswith("|")]
        found[heading] = [[cell.strip() for cell in BAR.split(line)[1:-1]] for line in lines[2:]]
    return found


def test_the_page_is_what_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "runwatch.reference"], capture_output=True, check=True, timeout=60
    ).stdout.decode()
    assert PAGE.read_text(encoding="utf-8") == printed, "docs/metrics.md is stale: run `make docs` and commit it"


def test_every_metric_has_one_row_in_its_section() -> None:
    page = tables(reference.render())
    for section in Section:
        names = [row[0].strip("`") for row in page[section.value]]
        assert names == [metric.name for metric in METRICS.values() if metric.section is section]
        assert names, section


def test_rows_hold_labels_unit_type_and_meaning() -> None:
    page = tables(reference.render())
    assert [
        "`mljob_gap_seconds`",
        "`cause`",
        "seconds",
        "gauge",
        "Sum of the whole lengths of closed gaps, by cause.",
    ] in page["Progress"]
    errors = next(row for row in page["The exporter about itself"] if row[0] == "`runwatch_source_errors_total`")
    assert errors[1:4] == ["`source`, `site`, `reason`", "count", "counter"]


def test_thresholds_stand_with_value_and_unit() -> None:
    rows = tables(reference.render())["Thresholds"]
    for expected in (
        ["`GAP_FLOOR_SECONDS`", "5m", "duration"],
        ["`GAP_MEDIAN_FACTOR`", "20", ""],
        ["`BRINGUP_LIMIT_RL_SECONDS`", "1h30m", "duration"],
        ["`SUBSTANCE_MINIMUM`", "0.001", ""],
        ["`RL_WINDOW`", "10", "logged values"],
        ["`RL_COLLAPSE_SIGNALS`", "2", "signals"],
    ):
        assert expected in rows
    source = Path(thresholds.__file__).read_text(encoding="utf-8")
    assigned = re.findall(r"^([A-Z][A-Z0-9_]+) = [0-9]", source, re.MULTILINE)
    assert [row[0].strip("`") for row in rows] == [name for name in assigned if name not in {"MINUTE", "HOUR"}]


def test_verdicts_stand_worst_first_each_with_its_condition() -> None:
    rows = tables(reference.render())["Verdicts"]
    assert [row[0].strip("`") for row in rows] == list(thresholds.VERDICTS)
    assert all(len(row) == 2 and row[1] for row in rows)


def test_values_of_labels_are_complete() -> None:
    rows = {row[0]: row[2] for row in tables(reference.render())["Values of labels"]}
    assert rows["`phase`"] == "`queued`, `bringup`, `stepping`, `finishing`, `resuming`, `finished`"
    assert rows["`reason`"] == "`timeout`, `auth`, `throttled`, `not_found`, `network`, `parse`, `other`"


def test_a_bar_in_a_meaning_does_not_end_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Metric("mljob_odd", "the |value|\nof it", Section.RL)
    monkeypatch.setitem(catalogue.METRICS, odd.name, odd)
    assert ["`mljob_odd`", "", "", "gauge", "the \\|value\\| of it"] in tables(reference.render())["RL"]
