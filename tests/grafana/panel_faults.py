"""What is wrong with a dashboard's panels: no words, no units, limits of their own, or more than Grafana 10.1 knows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from runwatch import thresholds
from tests.grafana.dashboard_parts import (
    Json,
    data_sources,
    field_settings,
    name_of,
    panels,
    threshold_values,
    variables,
)

NEWEST_SCHEMA = 38
"""What Grafana 10.1 itself writes. A newer number would keep it from migrating a dashboard it could have read."""

PANEL_TYPES = {
    "alertlist", "bargauge", "barchart", "gauge", "heatmap", "histogram", "piechart", "row", "stat", "state-timeline",
    "status-history", "table", "text", "timeseries",
}  # fmt: skip
TRANSFORMATIONS = {
    "calculateField", "concatenate", "configFromData", "convertFieldType", "extractFields", "filterByRefId",
    "filterByValue", "filterFieldsByName", "groupBy", "groupingToMatrix", "joinByField", "joinByLabels",
    "labelsToFields", "limit", "merge", "organize", "partitionByValues", "prepareTimeSeries", "reduce",
    "renameByRegex", "rowsToFields", "seriesToRows", "sortBy",
}  # fmt: skip
NEWER = frozenset({
    "allowCustomValue", "applyToRow", "axisBorderShow", "hideZeros", "maxHeight", "maxVizHeight", "maxWidth",
    "namePlacement", "nowDelay", "perPage", "percentChangeColorMode", "percentSize", "preload", "quick_ranges",
    "showPercentChange", "sizing", "topic", "wideLayout", "wrapText",
})  # fmt: skip
"""Settings that the SDK's build for Grafana 11.6 has and its build for 10.1 has not."""

_NOTHING = re.compile(r"—|No [a-z].*\.")
"""How a panel says that there is nothing: the dash, or a sentence."""

DATA_SOURCE_TYPES = {"prometheus", "alertmanager"}

LIMITS = {
    float(value)
    for name, value in vars(thresholds).items()
    if name.isupper() and isinstance(value, int | float) and name not in {"MINUTE", "HOUR"}
}
"""Every number that has its home in `thresholds.py`."""


def word_faults(dashboard: Json) -> Iterator[str]:
    """Yield the panels without a title or a description."""
    for panel in panels(dashboard):
        yield from (
            f"{name_of(dashboard, panel)}: no {name}"
            for name in ("title", "description")
            if not str(panel.get(name) or "").strip()
        )


def _override_names(panel: Json) -> Iterator[tuple[str, str]]:
    for override in (panel.get("fieldConfig") or {}).get("overrides") or []:
        if any(setting["id"] == "unit" and setting.get("value") for setting in override["properties"]):
            yield override["matcher"]["id"], str(override["matcher"].get("options"))


def _value_columns(panel: Json) -> Iterator[tuple[str, str]]:
    """Yield each column of numbers of a table, (refId, the name that it is shown by)."""
    renamed: dict[str, str] = {}
    hidden: set[str] = set()
    for transformation in panel.get("transformations") or []:
        options = transformation.get("options") or {}
        if transformation["id"] == "organize":
            renamed |= options.get("renameByName") or {}
            hidden |= {name for name, out in (options.get("excludeByName") or {}).items() if out}
    targets = panel.get("targets") or []
    for target in targets:
        name = "Value" if len(targets) == 1 and "Value" in {*renamed, *hidden} else f"Value #{target['refId']}"
        if name not in hidden:
            yield target["refId"], renamed.get(name) or name


def _has_unit(column: tuple[str, str], matchers: list[tuple[str, str]]) -> bool:
    ref, name = column
    for kind, options in matchers:
        if (kind, options) in {("byName", name), ("byFrameRefID", ref)}:
            return True
        if kind == "byRegexp" and re.search(options.strip("/"), name):
            return True
    return False


def unit_faults(dashboard: Json) -> Iterator[str]:
    """Yield the panels that draw numbers without saying of what; of tables each column."""
    for panel in panels(dashboard):
        if not panel.get("targets") or ((panel.get("fieldConfig") or {}).get("defaults") or {}).get("unit"):
            continue
        if panel["type"] != "table":
            yield f"{name_of(dashboard, panel)}: no unit"
            continue
        matchers = list(_override_names(panel))
        for column in _value_columns(panel):
            if not _has_unit(column, matchers):
                yield f"{name_of(dashboard, panel)}: no unit for column {column[1]}"


def data_source_faults(dashboard: Json) -> Iterator[str]:
    """Yield what asks a data source other than the one that is chosen at the top."""
    chosen = {
        f"${{{variable['name']}}}": variable["query"]
        for variable in variables(dashboard)
        if variable.get("type") == "datasource"
    }
    for where, source in data_sources(dashboard):
        if not isinstance(source, dict):
            yield f"{where}: no data source"
        elif source.get("uid") not in chosen:
            yield f"{where}: data source {source.get('uid')}, not one of the variables"
        elif source.get("type") not in DATA_SOURCE_TYPES or source["type"] != chosen[source["uid"]]:
            yield f"{where}: data source of type {source.get('type')}"


def threshold_faults(dashboard: Json) -> Iterator[str]:
    """Yield the limits of panels that are not a number of `thresholds.py`, its negative, or the least one above it."""
    for panel in panels(dashboard):
        for value in threshold_values(panel):
            if LIMITS.isdisjoint((float(value), -float(value), math.nextafter(float(value), -math.inf))):
                yield f"{name_of(dashboard, panel)}: limit {value} has no home in thresholds.py"


def missing_value_faults(dashboard: Json) -> Iterator[str]:
    """Yield the panels in which a value that was not measured has a colour, no sign at all, or cannot be seen.

    Grafana draws a null on the base threshold's colour, which reads as healthy: a mapping of null takes it away. The
    colour of a table's cell is its background, that of a stat the text itself: `transparent` would hide it.
    """
    for panel in panels(dashboard):
        if panel["type"] not in {"stat", "table"} or not panel.get("targets"):
            continue
        settings = list(field_settings(panel))
        if not any(name == "noValue" and _NOTHING.fullmatch(str(value)) for name, value in settings):
            yield f"{name_of(dashboard, panel)}: a missing value is not —"
        colour = "transparent" if panel["type"] == "table" else "text"
        mappings = [value or [] for name, value in settings if name == "mappings"]
        if not mappings or any(_null(mapping) != ("—", colour) for mapping in mappings):
            yield f"{name_of(dashboard, panel)}: a missing value has a colour"
        if colour == "text" and any("transparent" in _colours(mapping) for mapping in mappings):
            yield f"{name_of(dashboard, panel)}: a value cannot be seen"


def _null(mappings: list[Json]) -> tuple[str | None, str | None]:
    """Return the text and the colour that a null is mapped to."""
    for mapping in mappings:
        options = mapping.get("options") or {}
        if mapping["type"] == "special" and options.get("match") in {"null", "null+nan"}:
            result = options.get("result") or {}
            return result.get("text"), result.get("color")
    return None, None


def _colours(value: Any) -> set[str]:
    """Return every colour in the mappings of a field."""
    if isinstance(value, list):
        return {colour for one in value for colour in _colours(one)}
    if isinstance(value, dict):
        own = {value["color"]} if isinstance(value.get("color"), str) else set()
        return own | {colour for one in value.values() for colour in _colours(one)}
    return set()


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        if "id" in value and "value" in value:
            yield str(value["id"]).removeprefix("custom.")
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(child)


def version_faults(dashboard: Json) -> Iterator[str]:
    """Yield what Grafana 10.1 does not know."""
    if not 0 < dashboard.get("schemaVersion", 0) <= NEWEST_SCHEMA:
        yield f"{name_of(dashboard)}: schemaVersion {dashboard.get('schemaVersion')}, {NEWEST_SCHEMA} is 10.1's"
    for panel in panels(dashboard):
        if panel["type"] not in PANEL_TYPES:
            yield f"{name_of(dashboard, panel)}: no panel type {panel['type']}"
        for transformation in panel.get("transformations") or []:
            if transformation["id"] not in TRANSFORMATIONS:
                yield f"{name_of(dashboard, panel)}: no transformation {transformation['id']}"
    for key in sorted(set(_keys(dashboard)) & NEWER):
        yield f"{name_of(dashboard)}: {key} is newer than Grafana 10.1"
