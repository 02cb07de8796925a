"""Every generated dashboard file, by its name below `grafana/dashboards/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from grafana_foundation_sdk.builders.dashboard import Dashboard

from runwatch.report.columns import DATAGEN_TABLE, EVAL_TABLE, OTHER_TABLE, RL_TABLE, SFT_TABLE
from runwatch_dashboards import exporter, run
from runwatch_dashboards.buckets import bucket_dashboard
from runwatch_dashboards.document import json_text
from runwatch_dashboards.fleet import fleet_dashboard

_BUCKETS = (RL_TABLE, SFT_TABLE, DATAGEN_TABLE, EVAL_TABLE, OTHER_TABLE)

DASHBOARDS: Mapping[str, Callable[[], Dashboard]] = {
    "fleet": fleet_dashboard,
    **{kind.key: partial(bucket_dashboard, kind) for kind in _BUCKETS},
    "run": run.dashboard,
    "runwatch": exporter.dashboard,
}
"""What makes each dashboard, by the name of its file without `.json`."""


def generated_files() -> dict[str, str]:
    """Return the text of each dashboard file by its name."""
    return {f"{name}.json": json_text(make()) for name, make in DASHBOARDS.items()}
