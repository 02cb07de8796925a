"""Grafana's tables have the columns of `runwatch.report.columns`, in their order and with their metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator

import promql_parser
import pytest
from grafana_foundation_sdk.models import dashboard as models

from runwatch.report.columns import TABLES, CellFormat, Column, TableKind
from runwatch_dashboards.cell_columns import columns_of
from runwatch_dashboards.cells import GridColumn
from runwatch_dashboards.tables import job_columns, job_table

SELECTED = ('site=~"$site"',)
BY_KEY = {kind.key: kind for kind in TABLES}

# Worked out by hand from columns.py: a cell of several figures is a column for each of them.
TITLES = {
    "rl": [
        "Job", "Site", "Shaping", "State", "Step", "Target", "Reward", "pass@N", "N", "Policy Loss", "Grad Norm",
        "Entropy", "log-ratio (policy)", "TIS log-ratio", "Trend",
    ],
    "sft": ["Job", "Site", "State", "Step", "Target", "Loss", "Grad Norm", "tok/s", "ETA", "Trend"],
    "datagen": [
        "Run", "Site", "Tracker row", "State", "Chunks", "of", "Running", "Hung", "Failed", "Trials", "avg_turns",
        "Mean", "exc%", "Trend",
    ],
    "eval": [
        "Model × benchmark", "Site", "Kind", "State", "Trials", "Target", "pass-rate", "top exception", "Exceptions",
        "Tunnel", "API base", "Engine", "Progress", "Trend",
    ],
    "other": ["Job", "Site", "Type", "State", "Elapsed", "Note"],
    "training_health": [
        "Job", "Site", "State", "Step", "Target", "tok/s", "Preempts", "Preempts*", "Gaps", "Gap time", "Unexplained",
        "Checkpoint", "Lag", "Age", "Goodput", "ETA", "Trend",
    ],
    "bringup": [
        "Job", "Site", "Bucket", "State", "Since", "For", "Step", "Target", "Phase", "Waits for", "Trend",
    ],
}  # fmt: skip


def all_columns() -> Iterator[tuple[TableKind, Column]]:
    for kind in TABLES:
        for column in kind.columns:
            yield kind, column


def metrics_in(query: str) -> set[str]:
    """Return the metrics that a query is made of; `mljob:x` is what the rules record of `mljob_x`."""
    promql_parser.parse(query)
    return {name.replace(":", "_") for name in re.findall(r"\bmljob[:_][a-z0-9_]+", query)}


@pytest.mark.parametrize("key", sorted(TITLES))
def test_a_table_has_its_columns_in_order(key: str) -> None:
    assert [column.title for column in job_columns(BY_KEY[key], SELECTED)] == TITLES[key]


def test_every_table_is_expected_here() -> None:
    assert set(TITLES) == set(BY_KEY)


@pytest.mark.parametrize("cell_format", list(CellFormat))
def test_every_format_has_columns_and_is_used(cell_format: CellFormat) -> None:
    used = [column for _, column in all_columns() if column.format is cell_format]
    assert used
    assert all(columns_of(column, SELECTED) for column in used)


@pytest.mark.parametrize(("kind", "column"), list(all_columns()), ids=lambda each: getattr(each, "title", ""))
def test_a_column_keeps_its_title_and_asks_all_its_metrics(kind: TableKind, column: Column) -> None:
    made = columns_of(column, SELECTED)
    asked = set().union(*(metrics_in(each.query) for each in made if each.query))
    led_by = "Tunnel" if column.format is CellFormat.INFRASTRUCTURE else column.title
    assert led_by in {each.title for each in made}, kind.title
    assert set(column.metrics) <= asked, kind.title


def test_the_picked_label_of_a_column_is_asked_for() -> None:
    [(_, column)] = [(kind, column) for kind, column in all_columns() if column.labels]
    [made] = columns_of(column, SELECTED)
    assert 'stat="mean"' in made.query


def number_of_decimals(made: GridColumn) -> object:
    [decimals] = [each.value for each in made.properties if each.id_val == "decimals"]
    return decimals


def test_decimals_are_those_of_the_column() -> None:
    shown = {
        (kind.key, column.title): number_of_decimals(columns_of(column, SELECTED)[0])
        for kind, column in all_columns()
        if column.format in {CellFormat.FIXED, CellFormat.FIXED_OF_LARGEST_N, CellFormat.PERCENT}
    }
    assert shown[("rl", "Reward")] == shown[("rl", "pass@N")] == 3
    assert shown[("rl", "Policy Loss")] == shown[("sft", "Loss")] == 4
    assert shown[("training_health", "Goodput")] == 1


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.key)
def test_a_missing_value_is_a_dash_without_a_colour_in_every_column(kind: TableKind) -> None:
    panel = job_table(kind, SELECTED).build()
    assert panel.field_config is not None
    everywhere = panel.field_config.defaults.mappings
    overridden = [
        each.value for override in panel.field_config.overrides for each in override.properties
        if each.id_val == "mappings"
    ]  # fmt: skip
    assert overridden
    for mappings in (everywhere, *overridden):
        assert isinstance(mappings, list)
        first = mappings[0]
        assert isinstance(first, models.SpecialValueMap)
        assert first.options.match == models.SpecialValueMatch.NULL_AND_NAN
        assert (first.options.result.text, first.options.result.color) == ("—", "transparent")


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.key)
def test_a_coloured_column_has_no_colour_below_its_limits_but_where_low_is_bad(kind: TableKind) -> None:
    panel = job_table(kind, SELECTED).build()
    assert panel.field_config is not None
    bases = {}
    for override in panel.field_config.overrides:
        for each in override.properties:
            if each.id_val == "thresholds":
                assert isinstance(each.value, models.ThresholdsConfig)
                bases[override.matcher.options] = each.value.steps[0].color
    assert {title: colour for title, colour in bases.items() if colour != "transparent"} == (
        {"avg_turns": "orange"} if kind.key == "datagen" else {}
    )
    assert panel.field_config.defaults.thresholds is not None
    assert [step.color for step in panel.field_config.defaults.thresholds.steps] == ["transparent"]
