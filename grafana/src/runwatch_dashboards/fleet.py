"""The dashboard *Fleet*: what is on fire, how the sources are, and all tables of jobs."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import stat, table, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery

from runwatch import thresholds
from runwatch.alerting.exporter_alerts import DOWN
from runwatch.catalogue import JOB_STATES
from runwatch.report.columns import TABLES, TRAINING_HEALTH_TABLE
from runwatch_dashboards import alerts_now, links, palette, variables
from runwatch_dashboards.cells import GridColumn, label_column, width_of_header
from runwatch_dashboards.document import frame
from runwatch_dashboards.grid_table import grid_table
from runwatch_dashboards.panels import coloured_cell, plain_table, prop, single_stat, time_series
from runwatch_dashboards.queries import (
    NOT_OVER,
    RECORDED,
    SELECTED,
    equal,
    instant,
    matchers,
    series,
    told,
    value,
    with_verdict,
)
from runwatch_dashboards.queries import table as rows
from runwatch_dashboards.runbooks import to_runbook
from runwatch_dashboards.source_table import source_table
from runwatch_dashboards.tables import job_table, to_columns, transformation, with_columns

_PICKED = (SELECTED, 'bucket=~"$bucket"')
_PER_JOB = "max by (run, site, bucket)"
_POINTS = 72


def fleet_dashboard() -> builders.Dashboard:
    """Return the dashboard."""
    picked = [
        variables.datasource(),
        variables.site(),
        variables.bucket(),
        variables.owner(),
        variables.search(),
    ]
    dashboard = frame("Fleet", links.FLEET_UID, "All jobs of all sites: what is on fire, and the tables.", picked)
    for number in (_alerts("critical", palette.BAD), _alerts("warning", palette.WARNING), *_jobs_by_severity()):
        dashboard = dashboard.with_panel(number)
    dashboard = dashboard.with_panel(_jobs_by_bucket()).with_panel(_firing())
    dashboard = dashboard.with_panel(_jobs_by_state()).with_panel(source_table())
    dashboard = dashboard.with_panel(_goodput_by_site()).with_panel(_preempted_by_site())
    for kind in TABLES:
        if kind is not TRAINING_HEALTH_TABLE:
            dashboard = dashboard.with_panel(job_table(kind, _PICKED))
    dashboard = dashboard.with_panel(grid_table())
    # It asks for every job with steps once more: a row that is folded asks when it is opened.
    return dashboard.with_row(
        builders.Row(TRAINING_HEALTH_TABLE.title).collapsed(True).with_panel(job_table(TRAINING_HEALTH_TABLE, _PICKED))
    )


def _alerts(severity: str, colour: str) -> stat.Panel:
    count = f"count({alerts_now.firing(equal('severity', severity))}) or {alerts_now.RULES_ARE_READ}"
    return (
        single_stat(
            f"Firing: {severity}",
            "Alerts that fire now. A dash: this Prometheus does not evaluate the rules, so that nobody knows.",
            "none",
            [instant("alerts", count, severity)],
        )
        .thresholds(palette.steps((1, colour), base="text"))
        .span(3)
    )


_NOT_SCRAPED_SAYS = "Shards not scraped stand beside it while there are any: their jobs are not counted."


def _not_scraped() -> Dataquery:
    """Return how many shards of the exporter tell nothing; no series while all do: a count without them looks well."""
    return instant("unseen", f"count({' '.join(DOWN.split())})", "shards not scraped")


def _jobs_by_severity() -> list[stat.Panel]:
    """Return how many jobs have a verdict that pages, and how many one that warns."""
    coloured = {
        "Jobs in trouble": (palette.BAD, "pages"),
        "Jobs to look at": (palette.WARNING, "warns"),
    }
    panels = []
    worse = ""
    for title, (colour, does) in coloured.items():
        words = [word for word in thresholds.VERDICTS if palette.verdict_colour(word) == colour]
        jobs = with_verdict(words, *_PICKED)
        hit = f"count({jobs} unless on (run, site) {worse})" if worse else f"count({jobs})"
        worse = jobs
        panels.append(
            single_stat(
                title,
                f"Jobs whose worst verdict is one that {does}: {', '.join(word.replace('_', ' ') for word in words)}. "
                f"{_NOT_SCRAPED_SAYS}",
                "none",
                [instant("jobs", f"{hit} or 0 * count(mljob_trend{{{matchers(*_PICKED)}}})", title), _not_scraped()],
            )
            .thresholds(palette.steps((1, colour), base="text"))
            .span(3)
        )
    return panels


def _jobs_by_bucket() -> stat.Panel:
    states, _ = RECORDED["mljob_state"]
    not_over = f"{_PER_JOB} ({states}{{{matchers(*_PICKED, NOT_OVER)}}})"
    none = f"0 * count by (bucket) ({states}{{{matchers(*_PICKED)}}})"
    return single_stat(
        "Jobs that are not over, by bucket",
        "Jobs that run, wait or whose state is not known; by the rules' records. No bucket is shown without any job. "
        f"{_NOT_SCRAPED_SAYS}",
        "none",
        [instant("live", f"count by (bucket) ({not_over}) or {none}", "{{bucket}}"), _not_scraped()],
    ).span(12)


def _jobs_by_state() -> table.Panel:
    states = told("mljob_state", "state", *_PICKED)
    # A state that no job of a bucket is in has a zero; to count the zeros of `mljob_state` itself would cost much.
    nobody = [f'label_replace(0 * max by (bucket) (runwatch_jobs), "state", "{state}", "", "")' for state in JOB_STATES]
    zeros = f"({' or '.join(nobody)}) and on (bucket) {RECORDED['mljob_state'][0]}{{{matchers(*_PICKED)}}}"
    counted = f"count by (bucket, state) ({states}) or {zeros}"
    panel = plain_table(
        "Jobs by bucket and state",
        "How many jobs are in each state, by the rules' records, each job once. Ended jobs stay while the exporter "
        "remembers them.",
        "none",
        [rows("jobs", counted)],
    ).height(9)
    corner = "bucket\\state"
    order = {name: place for place, name in enumerate((corner, *JOB_STATES))}
    panel = panel.transformations(
        [
            transformation("sortBy", fields={}, sort=[{"field": "bucket", "desc": False}]),
            transformation("groupingToMatrix", rowField="bucket", columnField="state", valueField="Value"),
            transformation("organize", excludeByName={}, indexByName=order, renameByName={corner: "Bucket"}),
        ]
    )
    panel = panel.override_by_name("Bucket", [prop("custom.minWidth", 90)])
    for state in JOB_STATES:
        properties = [prop("custom.width", max(62, width_of_header(state))), prop("custom.filterable", False)]
        if (colour := palette.state_colour(state)) not in (palette.PLAIN, palette.GREY):
            properties += [coloured_cell(), prop("thresholds", palette.steps((1, colour)).build())]
        panel = panel.override_by_name(state, properties)
    return panel.span(14)


def _firing() -> table.Panel:
    colours = {"critical": palette.BAD, "warning": palette.WARNING, "info": palette.NEUTRAL}
    severity = palette.words({word: (word, colour) for word, colour in colours.items()})
    columns = [
        GridColumn("Alert", label="alertname", properties=(prop("links", [to_runbook()]),), width=230),
        label_column("Severity", "severity", width=90, texts=severity),
        GridColumn("Job", label="run", properties=(prop("links", [links.to_run()]),)),
        label_column("Site", "site", width=100),
        label_column("Bucket", "bucket", width=90),
        label_column("Source", "source", width=100),
        label_column("Action", "action", width=110),
        GridColumn(
            "Since", label="Value", properties=(prop("unit", "dateTimeAsIso"), prop("custom.align", "right")), width=170
        ),
    ]
    panel = plain_table(
        "Firing alerts",
        "Alerts that fire now, the ones that page first; since when their condition holds. A click on an alert opens "
        "its runbook, one on a job its page. Empty: none fires, or this Prometheus does not evaluate the rules, which "
        "the two counts above tell.",
        "none",
        [rows("firing", with_columns(alerts_now.firing_since(), *alerts_now.LABELS))],
    ).height(8)
    panel = panel.transformations(to_columns("", columns, ("Value", "severity"), shown="Value"))
    for column in columns:
        panel = panel.override_by_name(column.title, column.overrides())
    return panel


def _goodput_by_site() -> timeseries.Panel:
    mean = f"avg by (site) ({value('mljob_goodput_ratio', *_PICKED)})"
    return (
        time_series(
            "Goodput by site",
            "Productive step time / time since the start: the mean of a site's jobs.",
            "percentunit",
            [series("goodput", mean, "{{site}}")],
        )
        .max_data_points(_POINTS)
        .axis_soft_min(0)
        .axis_soft_max(1)
    )


def _preempted_by_site() -> timeseries.Panel:
    newest = value("mljob_interruption_timestamp_seconds", *_PICKED, equal("cause", "preemption"))
    hour = int(thresholds.HOUR)
    counted = f"sum by (site) ({newest} > bool (time() - {hour}))"
    return (
        time_series(
            "Jobs preempted within an hour, by site",
            "Jobs whose newest preemption of the whole gang began within the hour before. A site has a line once one "
            "of its jobs was preempted.",
            "none",
            [series("preempted", counted, "{{site}}")],
        )
        .max_data_points(_POINTS)
        .decimals(0)
        .axis_soft_max(5)
        .min(0)
    )
