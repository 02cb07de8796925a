"""One dashboard for each bucket: its table in full, and trends of the values that tell most."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as builders

from runwatch.report.columns import (
    DATAGEN_TABLE,
    EVAL_TABLE,
    OTHER_TABLE,
    RL_TABLE,
    SFT_TABLE,
    TRAINING_HEALTH_TABLE,
    TableKind,
)
from runwatch_dashboards import variables
from runwatch_dashboards.document import frame
from runwatch_dashboards.grid_table import grid_table
from runwatch_dashboards.links import bucket_uid
from runwatch_dashboards.queries import SELECTED, equal
from runwatch_dashboards.tables import job_table
from runwatch_dashboards.trends import TRENDS, trend_panel

_DESCRIPTIONS: Mapping[str, str] = {
    RL_TABLE.key: "All RL jobs: rewards, losses and the signals of a collapse.",
    SFT_TABLE.key: "All fine-tunes and other training: loss, gradient norm, throughput, progress.",
    DATAGEN_TABLE.key: "All datagen jobs: chunks, trials, turns, rewards, exceptions.",
    EVAL_TABLE.key: "All evals: trials, pass rates, exceptions and the launch checks.",
    OTHER_TABLE.key: "All jobs of no other kind.",
}


def bucket_dashboard(kind: TableKind) -> builders.Dashboard:
    """Return the dashboard of a bucket."""
    picked = [variables.datasource(), variables.site(), variables.owner(), variables.search()]
    dashboard = frame(kind.title, bucket_uid(kind.key), _DESCRIPTIONS[kind.key], picked)
    dashboard = dashboard.with_panel(job_table(kind, (SELECTED,), height=14))
    for trend in TRENDS[kind.key]:
        dashboard = dashboard.with_panel(trend_panel(trend, kind.key))
    if kind is SFT_TABLE:
        dashboard = dashboard.with_panel(grid_table())
    if kind in (RL_TABLE, SFT_TABLE):
        of_bucket = (equal("bucket", kind.key), SELECTED)
        dashboard = dashboard.with_panel(job_table(TRAINING_HEALTH_TABLE, of_bucket, height=12))
    return dashboard
