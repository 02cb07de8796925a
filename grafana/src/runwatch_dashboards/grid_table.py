"""The table of grids: how many of a grid's cells run, wait and are done, and which of them ends last."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table

from runwatch.catalogue import GRID_CELL_STATES, JOB_LABELS
from runwatch_dashboards import palette
from runwatch_dashboards.cells import GridColumn, label_column, number_column
from runwatch_dashboards.panels import plain_table
from runwatch_dashboards.queries import KEY, SEEN_LIVING, SELECTED, equal, matchers
from runwatch_dashboards.queries import table as rows
from runwatch_dashboards.tables import keyed, to_columns

_LABELS = ("grid", "site")
_ALL_REF = "cells"


def grid_table() -> table.Panel:
    """Return the panel: one row a grid and site."""
    cells = f"sum by (grid, site) (max by (grid, site, state) ({_told_now('runwatch_grid_cells', 'site', SELECTED)}))"
    last = f"topk by (grid) (1, max by (grid, run) ({_told_now('runwatch_grid_long_pole', 'run')}))"
    eta = f"({cells} * 0 + 1) * on (grid) group_left (run) {last}"
    pole = number_column("Long pole's ETA", eta, "s", decimals=1)
    columns = [
        label_column("Grid", "grid"),
        label_column("Site", "site", width=100),
        *(_cells_in(state) for state in GRID_CELL_STATES),
        GridColumn("Long pole", pole.ref, label="run"),
        pole,
    ]
    queries = [rows(_ALL_REF, keyed(cells, *_LABELS, of=_LABELS))]
    queries += [rows(column.ref, keyed(column.query, of=_LABELS)) for column in columns[2:-2]]
    queries.append(rows(pole.ref, keyed(pole.query, "run", of=_LABELS)))
    panel = plain_table(
        "SFT grids",
        "Distinct cells: restart copies, and backups of a running cell, are not counted. The long pole is the running "
        "cell that ends last, of all sites of the grid.",
        "none",
        queries,
    ).height(6)
    panel = panel.transformations(to_columns(KEY, columns, ("site", "grid"), shown=f"Value #{_ALL_REF}"))
    for column in columns:
        panel = panel.override_by_name(column.title, column.overrides())
    return panel


def _told_now(metric: str, of: str, selection: str = "") -> str:
    """Return the series of a metric of grids from the replicas that the sources of its jobs answer, else from all.

    A replica that goes blind keeps its counts, and the largest of each state would count a cell twice.

    Args:
        metric: A name of the catalogue.
        of: The label of a job that the metric has too: of it none may be outdated.
        selection: Label matchers.
    """
    selector = f"{metric}{{{selection}}}"
    ignored = ", ".join(label for label in ("grid", "state", "source", *JOB_LABELS) if label != of)
    outdated = f'mljob:replica_outdated{{source=~"{SEEN_LIVING}"}}'
    return f"({selector} unless ignoring ({ignored}) {outdated}) or on (grid, {of}) {selector}"


def _cells_in(state: str) -> GridColumn:
    told_now = _told_now("runwatch_grid_cells", "site", matchers(SELECTED, equal("state", state)))
    told = f"max by (grid, site) ({told_now})"
    steps = ((1, palette.WARNING),) if state == "failed" else ()
    return number_column(state.capitalize(), told, "none", steps=steps)
