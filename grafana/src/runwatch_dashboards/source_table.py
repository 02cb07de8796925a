"""The table of sources: which can be read, and since when not."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table

from runwatch import thresholds
from runwatch_dashboards import palette
from runwatch_dashboards.cells import label_column, number_column
from runwatch_dashboards.panels import plain_table
from runwatch_dashboards.queries import KEY, SELECTED
from runwatch_dashboards.queries import table as rows
from runwatch_dashboards.tables import keyed, to_columns

_PER_SOURCE = "max by (source, site)"


def source_table() -> table.Panel:
    """Return the panel: one row a source and site, those that are down first."""
    up = palette.words({"1": ("up", palette.PLAIN), "0": ("down", palette.BAD)})
    read = f"{_PER_SOURCE} (runwatch_source_last_success_timestamp_seconds{{{SELECTED}}})"
    errors = f"sum by (source, site) (increase(runwatch_source_errors_total{{{SELECTED}}}[1h]))"
    answering = f"{_PER_SOURCE} (runwatch_source_up{{{SELECTED}}})"
    labels = ("source", "site")
    interval = f"{_PER_SOURCE} (runwatch_source_interval_seconds{{{SELECTED}}})"
    columns = [
        label_column("Source", "source"),
        label_column("Site", "site", width=90),
        number_column("Up", answering, "none", mappings=(up,), width=60),
        number_column(
            "Read ago",
            f"round(time() - {read}) and on (source, site) {answering}",
            "s",
            decimals=0,
            steps=((thresholds.SOURCE_DOWN_SECONDS, palette.WARNING),),
        ),
        number_column("Interval", f"{interval} and on (source, site) {answering}", "s"),
        number_column("Errors in 1 h", errors, "locale"),
    ]
    panel = plain_table(
        "Source health",
        "Down: not one job of this source at this site could be read in the last poll. What is shown of these jobs is "
        "what was read last. Orange: not read for so long that it is an alert, where the interval is short.",
        "none",
        [
            rows(column.ref, keyed(column.query, *(labels if column.ref == "up" else ()), of=labels))
            for column in columns
            if column.query
        ],
    ).height(9)
    panel = panel.transformations(to_columns(KEY, columns, ("site", "source", "Value #up"), shown="Value #interval"))
    for column in columns:
        panel = panel.override_by_name(column.title, column.overrides())
    return panel.span(10)
