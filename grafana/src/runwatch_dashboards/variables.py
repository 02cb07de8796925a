"""The variables of the dashboards, and the reference to the data source. Their names are relied upon by links."""

from __future__ import annotations

from typing import get_args

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from runwatch.config.model import Bucket

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source of every panel, variable and annotation: the one that the reader picked."""

BUCKETS: tuple[str, ...] = get_args(Bucket)

ALL = ".*"
"""What a selector stands for when nothing is picked."""

RUNS_IN_SELECTOR = 500
"""A selector with more options is of no use to people, and 100,000 of them stop a browser."""

PREFIX = "`${search:regex}.*`"
"""The pattern of runs that begin with what was typed. In back-ticks: a backslash of the pattern is one in PromQL."""


NO_LABEL = "__no_label__"
"""A label that no series has: Prometheus drops what begins with two underscores when it scrapes. It reads as empty."""


def _all() -> models.VariableOption:
    return models.VariableOption(selected=True, text=["All"], value=["$__all"])


def datasource() -> builders.DatasourceVariable:
    """Return the picker of the Prometheus."""
    return builders.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _labels_of_jobs(name: str, label: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": query, "refId": f"variable-{name}"})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(ALL)
        .current(_all())
    )


def site() -> builders.QueryVariable:
    """Return the picker of clusters, of all jobs within the time range: use it as `site=~"$site"`."""
    return _labels_of_jobs("site", "Site", "label_values(mljob_info, site)")


def owner() -> builders.QueryVariable:
    """Return the picker of owners: a label of `mljob_info` only."""
    return _labels_of_jobs("owner", "Owner", 'label_values(mljob_info{site=~"$site"}, owner)')


def bucket() -> builders.CustomVariable:
    """Return the picker of buckets: use it as `bucket=~"$bucket"`."""
    return (
        builders.CustomVariable("bucket")
        .label("Bucket")
        .values(",".join(BUCKETS))
        .multi(True)
        .include_all(True)
        .all_value(ALL)
        .current(_all())
    )


def search() -> builders.TextBoxVariable:
    """Return the box for the beginning of a run's name: use it as `run=~` + `PREFIX`."""
    return builders.TextBoxVariable("search").label("Run begins with").default_value("")


def run() -> builders.QueryVariable:
    """Return the selector of one run: of those that are watched now, or of all of the time range that begin so.

    Only once something was typed the time range is searched: all names of a month may be 100,000. While nothing was,
    the matcher of a label that no series has picks nothing, as the empty text then is what it must not be.

    The server picks the runs, at most `RUNS_IN_SELECTOR`. Options are read when the dashboard opens and when site or
    search changes, not when the time range does: Grafana then leaves a run that is not among the options for the first
    that is, and the page would silently show another job. Use it as `queries.OF_RUN` does.
    """
    named = f'site=~"$site", run=~{PREFIX}'
    past = f"last_over_time(mljob_info{{{named}, {NO_LABEL}!~`${{search:regex}}`}}[$__range])"
    found = f"topk({RUNS_IN_SELECTOR}, group by (run) (mljob_info{{{named}}} or {past}))"
    return (
        builders.QueryVariable("run")
        .label("Run")
        .datasource(DATASOURCE)
        .query({"query": f"query_result({found})", "refId": "variable-run"})
        .regex('/^\\{run="(.*)"\\} /')
        .refresh(models.VariableRefresh.ON_DASHBOARD_LOAD)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
