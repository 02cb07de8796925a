"""What is wrong with how panels are drawn: columns cut off, lines that cannot be seen, axes that end far too high."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.grafana.dashboard_parts import Json, name_of, panels

SCREEN = 1440
"""The width of a screen in pixels, on which a table is to be read without scrolling to its side."""

_AROUND_PAGE, _BETWEEN_PANELS, _IN_PANEL, _COLUMNS = 32, 8, 18, 24
"""Grafana's own: pixels beside all panels, between two of them, and between a panel's edges and its table."""

_LEAST_WIDTH = 150
"""Pixels of a column that tells none: https://grafana.com/docs/grafana/v10.1/panels-visualizations/visualizations/table/"""

_LINE_COLOURS = {"palette-classic", "palette-classic-by-name", "shades", "fixed"}


def _shown_columns(panel: Json) -> list[str] | None:
    """Return the titles of a table's columns, or None where its data tells them."""
    for transformation in panel.get("transformations") or []:
        if transformation["id"] == "organize":
            options = transformation["options"]
            renamed: dict[str, str] = options.get("renameByName") or {}
            hidden = {name for name, out in (options.get("excludeByName") or {}).items() if out}
            return [title for name, title in renamed.items() if name not in hidden]
    return None


def _settings_by_column(panel: Json) -> dict[str, dict[str, Any]]:
    settings: dict[str, dict[str, Any]] = {}
    for override in panel["fieldConfig"].get("overrides") or []:
        if override["matcher"]["id"] == "byName":
            column = settings.setdefault(override["matcher"]["options"], {})
            column.update({setting["id"]: setting.get("value") for setting in override["properties"]})
    return settings


def width_faults(dashboard: Json) -> Iterator[str]:
    """Yield the tables that are wider than their panel on a screen of `SCREEN` pixels: what is last is then cut off."""
    for panel in panels(dashboard):
        if panel["type"] != "table":
            continue
        settings = _settings_by_column(panel)
        least = (panel["fieldConfig"]["defaults"].get("custom") or {}).get("minWidth") or _LEAST_WIDTH
        columns = dict.fromkeys([*(_shown_columns(panel) or ()), *settings])
        widths = [settings.get(column, {}) for column in columns]
        needed = sum(one.get("custom.width") or one.get("custom.minWidth") or least for one in widths)
        grid = SCREEN - _AROUND_PAGE + _BETWEEN_PANELS
        there = panel["gridPos"]["w"] * grid // _COLUMNS - _BETWEEN_PANELS - _IN_PANEL
        if needed > there:
            yield f"{name_of(dashboard, panel)}: the columns need {needed} pixels, there are {there}"


def line_faults(dashboard: Json) -> Iterator[str]:
    """Yield the graphs whose lines have the colour of a limit: below all limits that is often none at all."""
    for panel in panels(dashboard):
        if panel["type"] != "timeseries":
            continue
        colour = panel["fieldConfig"]["defaults"].get("color") or {}
        if colour.get("mode") not in _LINE_COLOURS:
            yield f"{name_of(dashboard, panel)}: lines are coloured by {colour.get('mode')}"


def axis_faults(dashboard: Json) -> Iterator[str]:
    """Yield the graphs of ratios whose axis would end at 10,000 %: Grafana's does where a line stays at 0."""
    for panel in panels(dashboard):
        defaults = (panel.get("fieldConfig") or {}).get("defaults") or {}
        if panel["type"] != "timeseries" or defaults.get("unit") != "percentunit":
            continue
        if defaults.get("max") is None and (defaults.get("custom") or {}).get("axisSoftMax") is None:
            yield f"{name_of(dashboard, panel)}: no end of the axis of a ratio"
