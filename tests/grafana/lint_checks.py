"""The checks of one dashboard, by name: each is a function that gives the faults that it found, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.grafana.dashboard_parts import Json
from tests.grafana.drawing_faults import axis_faults, line_faults, width_faults
from tests.grafana.layout_faults import layout_faults
from tests.grafana.link_faults import field_faults
from tests.grafana.panel_faults import (
    data_source_faults,
    missing_value_faults,
    threshold_faults,
    unit_faults,
    version_faults,
    word_faults,
)
from tests.grafana.query_faults import query_faults
from tests.grafana.sdk_faults import sdk_faults

Check = Callable[[Json], Iterable[str]]
CHECKS: dict[str, Check] = {
    "queries": query_faults,
    "words": word_faults,
    "units": unit_faults,
    "data sources": data_source_faults,
    "limits": threshold_faults,
    "missing values": missing_value_faults,
    "versions": version_faults,
    "types": sdk_faults,
    "layout": layout_faults,
    "widths": width_faults,
    "colours of lines": line_faults,
    "ends of axes": axis_faults,
    "columns of links": field_faults,
}
