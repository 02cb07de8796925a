"""A dashboard's frame, and its JSON for Grafana 10.1 and later.

The SDK writes the schema of 11.6. 10.1's is 38: its later versions change transformations and variables that are not
used here, so that the number alone is set down, and what 10.1 does not know is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from runwatch_dashboards import links

SCHEMA_VERSION = 38
"""The newest that Grafana 10.1 knows (10.2 has 39)."""

_NEWER_VARIABLE_KEYS = frozenset({"allowCustomValue"})
_NEWER_OPTION_KEYS = frozenset({"perPage", "percentChangeColorMode", "showPercentChange", "wideLayout"})
_NEWER_OPTIONS = frozenset({"percentChangeColorMode", "showPercentChange", "wideLayout", "perPage"})
_INTERVAL_KEYS = frozenset({"auto", "auto_min", "auto_count"})


def frame(
    title: str,
    uid: str,
    description: str,
    variables: Sequence[Builder[models.VariableModel]],
    *,
    hours: int = 24,
    refresh: str = "1m",
) -> builders.Dashboard:
    """Return a dashboard without panels: title, uid, variables, links and the time range it opens with."""
    dashboard = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([links.TAG])
        .readonly()
        .timezone("browser")
        .time(f"now-{hours}h", "now")
        .refresh(refresh)
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(links.among_dashboards())
    )
    for variable in variables:
        dashboard = dashboard.with_variable(variable)
    return dashboard


def json_text(dashboard: builders.Dashboard) -> str:
    """Return the dashboard as Grafana reads it from a file, panels numbered from 1 in their order."""
    document: dict[str, Any] = json.loads(json.dumps(dashboard.build(), cls=JSONEncoder))
    document["schemaVersion"] = SCHEMA_VERSION
    document["id"] = None
    document["version"] = 1
    for place, panel in enumerate(_all_panels(document["panels"]), start=1):
        panel["id"] = place
        for option in _NEWER_OPTIONS & panel.get("options", {}).keys():
            del panel["options"][option]
        for key in _NEWER_OPTION_KEYS & panel.get("options", {}).keys():
            del panel["options"][key]
    for variable in document.get("templating", {}).get("list", []):
        unknown = _NEWER_VARIABLE_KEYS if variable["type"] == "interval" else _NEWER_VARIABLE_KEYS | _INTERVAL_KEYS
        for key in unknown & variable.keys():
            del variable[key]
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _all_panels(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the panels and those inside of rows that are folded."""
    return [inner for panel in panels for inner in (panel, *panel.get("panels", []))]
