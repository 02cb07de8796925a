"""What Grafana asks a Prometheus when a dashboard opens: all its queries, with the variables as the file has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from tests.grafana.dashboard_parts import Json, label_of_variable, marks, promql_of_variable, rows, variables
from tests.grafana.grafana_variables import filled

RANGE_SECONDS = 86_400
"""The time range of the dashboards' files."""

BROWSER_POINTS = 600
"""What a graph asks for at most where its panel says nothing: it is as many pixels wide."""

_STEPS = ((15, 15), (25, 20), (45, 30), (90, 60), (210, 120), (450, 300), (750, 600), (1050, 900), (1500, 1200),
          (2700, 1800))  # fmt: skip
"""(below which seconds a point, the step): how Grafana rounds steps, `roundInterval` in packages/grafana-data."""


class Kind(Enum):
    """How a query is asked."""

    INSTANT = "instant"
    RANGE = "range"
    LABEL_VALUES = "label values"


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a dashboard.

    Attributes:
        panel: Its title, or what asks it.
        folded: Whether it is asked only when the reader unfolds a row.
        kind: How.
        text: PromQL.
        step: Seconds between the points of a range.
        label: Whose values are asked for.
    """

    panel: str
    folded: bool
    kind: Kind
    text: str
    step: int = 0
    label: str = ""


def step_of(points: int) -> int:
    """Return the step in seconds of a query over the time range that is to give at most so many points."""
    wanted = RANGE_SECONDS / points
    return next((step for below, step in _STEPS if wanted < below), 3600)


def asked_by(dashboard: Json, chosen: Mapping[str, str]) -> Iterator[Asked]:
    """Yield the queries of a dashboard in the order of its file.

    Args:
        dashboard: Its JSON.
        chosen: Values of variables that have none in the file, by name.
    """
    values = {**_first_values(dashboard), **chosen, "__range": f"{RANGE_SECONDS}s"}
    folded = {id(panel) for row in rows(dashboard) if row.get("collapsed") for panel in row.get("panels") or []}
    for panel in _all_panels(dashboard):
        step = step_of(panel.get("maxDataPoints") or BROWSER_POINTS)
        times = {"__interval": f"{step}s", "__rate_interval": f"{max(4 * 60, step + 60)}s"}
        for target in panel.get("targets") or []:
            kind = Kind.RANGE if target.get("range") else Kind.INSTANT
            text = filled(target["expr"], {**values, **times})
            yield Asked(panel["title"], id(panel) in folded, kind, text, step)
    for variable in variables(dashboard):
        if variable.get("type") != "query":
            continue
        label = label_of_variable(variable)
        text = filled(promql_of_variable(variable), values)
        kind = Kind.LABEL_VALUES if label else Kind.INSTANT
        yield Asked(f"variable {variable['name']}", False, kind, text, label=label)
    for mark in marks(dashboard):
        text = filled(mark.get("expr") or mark["target"]["expr"], values)
        yield Asked(f"annotation {mark['name']}", False, Kind.RANGE, text, 60)


def _all_panels(dashboard: Json) -> Iterator[Json]:
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels") or []


def _first_values(dashboard: Json) -> dict[str, str]:
    """Return the variables' values on the first opening: "All" where there is that, else what the file says."""
    found = {}
    for variable in variables(dashboard):
        current = (variable.get("current") or {}).get("value", "")
        value = current[0] if isinstance(current, list) and current else current
        if value == "$__all":
            value = variable.get("allValue") or ".*"
        elif variable["type"] in {"textbox", "constant"}:
            value = variable.get("query") or ""
        found[variable["name"]] = str(value)
    return found
