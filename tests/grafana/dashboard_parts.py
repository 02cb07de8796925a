"""Reads dashboards as Grafana does, and gives their parts: panels, queries, variables, links, thresholds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
FOLDER = TOP / "grafana" / "dashboards"

Json = dict[str, Any]

_VARIABLE_FUNCTION = re.compile(r"^(label_values|query_result)\((.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class Query:
    """A PromQL query and where in a dashboard it stands. `legend` is what its series are called by."""

    where: str
    text: str
    legend: str = ""


def dashboards() -> list[Json]:
    """Return every dashboard that is committed, in the order of the files' names."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]


def name_of(dashboard: Json, panel: Json | None = None) -> str:
    """Return how a fault names a dashboard, or a panel of it."""
    name = str(dashboard.get("title", dashboard.get("uid", "?")))
    return name if panel is None else f"{name} / {panel.get('title') or panel.get('type', '?')}"


def panels(dashboard: Json) -> Iterator[Json]:
    """Yield every panel that shows something, also those in folded rows; the rows themselves are left out."""
    for panel in dashboard.get("panels", []):
        if panel.get("type") != "row":
            yield panel
        yield from panel.get("panels") or []


def rows(dashboard: Json) -> Iterator[Json]:
    """Yield the rows."""
    yield from (panel for panel in dashboard.get("panels", []) if panel.get("type") == "row")


def variables(dashboard: Json) -> list[Json]:
    """Return the variables."""
    return list(dashboard.get("templating", {}).get("list", []))


def marks(dashboard: Json) -> list[Json]:
    """Return the annotations that are made from queries."""
    return [one for one in dashboard.get("annotations", {}).get("list", []) if not one.get("builtIn")]


def variable_query(variable: Json) -> str:
    """Return what a variable is filled from, as its author wrote it."""
    query = variable.get("query", "")
    return str(query.get("query", "")) if isinstance(query, dict) else str(query)


def promql_of_variable(variable: Json) -> str:
    """Return the PromQL in a variable's query, nothing for one that names only a label."""
    text = variable_query(variable)
    function = _VARIABLE_FUNCTION.match(text.strip())
    if function is None:
        return text
    if function[1] == "query_result":
        return function[2]
    return function[2].rpartition(",")[0]


def label_of_variable(variable: Json) -> str:
    """Return the label whose values a variable has, nothing for one that has a query's results."""
    function = _VARIABLE_FUNCTION.match(variable_query(variable).strip())
    return function[2].rpartition(",")[2].strip() if function is not None and function[1] == "label_values" else ""


def queries(dashboard: Json) -> Iterator[Query]:
    """Yield every query: of panels, variables and annotations."""
    for panel in panels(dashboard):
        for target in panel.get("targets") or []:
            yield Query(
                f"{name_of(dashboard, panel)} {target['refId']}", target["expr"], target.get("legendFormat", "")
            )
    for variable in variables(dashboard):
        if variable.get("type") == "query":
            where = f"{name_of(dashboard)} variable {variable['name']}"
            yield Query(where, promql_of_variable(variable))
    for annotation in marks(dashboard):
        expression = annotation.get("expr") or annotation.get("target", {}).get("expr", "")
        words = f"{annotation.get('titleFormat', '')} {annotation.get('textFormat', '')}"
        yield Query(f"{name_of(dashboard)} annotation {annotation['name']}", expression, words)


def field_settings(panel: Json) -> Iterator[tuple[str, Any]]:
    """Yield every setting of a panel's fields, (name, value): the defaults' and those of each override."""
    config = panel.get("fieldConfig") or {}
    yield from (config.get("defaults") or {}).items()
    for override in config.get("overrides") or []:
        for setting in override["properties"]:
            yield setting["id"], setting.get("value")


def links(dashboard: Json) -> Iterator[tuple[str, Json]]:
    """Yield every link with where it stands: of the dashboard, of panels, of cells and series."""
    for link in dashboard.get("links") or []:
        yield name_of(dashboard), link
    for panel in panels(dashboard):
        where = name_of(dashboard, panel)
        yield from ((where, link) for link in panel.get("links") or [])
        for name, value in field_settings(panel):
            if name == "links":
                yield from ((where, link) for link in value or [])


def threshold_values(panel: Json) -> Iterator[float]:
    """Yield the numbers at which a panel changes its colour or draws a line; the base has none."""
    for name, value in field_settings(panel):
        if name == "thresholds":
            yield from (step["value"] for step in value["steps"] if step.get("value") is not None)


def data_sources(dashboard: Json) -> Iterator[tuple[str, Any]]:
    """Yield what each query, panel, variable and annotation says of its data source; None where it says nothing."""
    for panel in panels(dashboard):
        where = name_of(dashboard, panel)
        targets = panel.get("targets") or []
        if targets:
            yield where, panel.get("datasource")
        yield from ((f"{where} {one['refId']}", one["datasource"]) for one in targets if "datasource" in one)
    for variable in variables(dashboard):
        if variable.get("type") == "query":
            yield f"{name_of(dashboard)} variable {variable['name']}", variable.get("datasource")
    for annotation in marks(dashboard):
        yield f"{name_of(dashboard)} annotation {annotation['name']}", annotation.get("datasource")
