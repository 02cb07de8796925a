"""The *Runwatch* dashboard: whether the exporter itself can be trusted now, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import stat, timeseries

from runwatch_dashboards import exporter_sources, links, palette, variables
from runwatch_dashboards.document import frame
from runwatch_dashboards.exporter_sources import DEFAULT_BUDGET, MIN_INTERVAL
from runwatch_dashboards.graphs import graph, saying, stepped
from runwatch_dashboards.panels import label_stat, single_stat
from runwatch_dashboards.queries import instant, series, table

SCRAPE = 'job="runwatch"'
"""The scrape job has this name: the rules rely on it too."""


def budget() -> builders.TextBoxVariable:
    """Return the box for the requests a minute that the config allows for W&B: no metric tells."""
    return builders.TextBoxVariable("budget").label("W&B requests a minute").default_value(str(DEFAULT_BUDGET))


def _stat(title: str, description: str, unit: str, expression: str) -> stat.Panel:
    return single_stat(title, description, unit, [instant("value", expression, title)]).span(3)


def _stats() -> Iterator[stat.Panel]:
    yield _stat(
        "Scraped",
        "How many of the exporter's processes (shards, replicas) the last scrapes reached. None: Prometheus has no "
        "target.",
        "percentunit",
        f"avg(up{{{SCRAPE}}})",
    )
    # The version is a label: a value of 1 says nothing.
    yield (
        label_stat(
            "Version", "Of each process.", table("version", "count by (version) (runwatch_build_info)"), "version"
        ).span(3)
    )
    # Two exporters may be replicas, or watch different jobs: their own counts do not tell which, the jobs' names do.
    yield _stat(
        "Jobs",
        "Watched now, each once, however many replicas watch it; those that ended and linger too.",
        "locale",
        f"count(group by (run, site) (mljob_info{{{exporter_sources.SITES}}}))",
    )
    yield _stat(
        "Samples a scrape",
        "What one round of scrapes brings into Prometheus, of all processes.",
        "locale",
        f"sum(scrape_samples_scraped{{{SCRAPE}}})",
    )
    yield _stat(
        "Jobs over the limit",
        "Found by discovery and not watched, by the process with the most: raise the limit, or find fewer.",
        "locale",
        "max(runwatch_jobs_dropped)",
    )
    reload = _stat(
        "Config",
        "Whether the last reload succeeded. While it did not, the config before it is in use.",
        "none",
        "min(runwatch_config_last_reload_successful)",
    )
    yield saying(reload, {"0": ("refused", palette.BAD), "1": ("loaded", palette.TEXT)})
    yield _stat(
        "Config loaded",
        "When the config in use was loaded, of the process where that is longest ago.",
        "dateTimeFromNow",
        "min(runwatch_config_last_reload_success_timestamp_seconds) * 1000",
    )
    yield _stat(
        "Sources down",
        "Sources that no job of theirs could be read from in the last poll, and that no other replica reads.",
        "none",
        f"count(max by (source, site) (runwatch_source_up{{{exporter_sources.SITES}}}) == 0) "
        f"or 0 * count(runwatch_source_up{{{exporter_sources.SITES}}})",
    )


def _exposition() -> Iterator[timeseries.Panel]:
    yield stepped(
        graph(
            "Jobs by bucket",
            "As each process counts them, those that ended and linger too.",
            "locale",
            [series("jobs", "sum by (instance, bucket) (runwatch_jobs)", "{{bucket}}, {{instance}}")],
        )
    )
    yield stepped(
        graph(
            "Series",
            "Of jobs, in the exposition of each process; and samples of a scrape, the exporter's own with them.",
            "locale",
            [
                series("series", "max by (instance) (runwatch_series)", "series of jobs, {{instance}}"),
                series("samples", f"max by (instance) (scrape_samples_scraped{{{SCRAPE}}})", "samples, {{instance}}"),
            ],
        )
    )
    yield stepped(
        graph(
            "Jobs over the limit, by process",
            "Found by discovery and not watched.",
            "locale",
            [series("dropped", "max by (instance) (runwatch_jobs_dropped)", "{{instance}}")],
        )
        .decimals(0)
        .axis_soft_max(5)
    ).min(0)
    yield graph(
        "Length of a scrape",
        "As Prometheus measures it, the network with it.",
        "s",
        [series("scrape", f"max by (instance) (scrape_duration_seconds{{{SCRAPE}}})", "{{instance}}")],
    ).min(0)
    yield stepped(
        graph(
            "Scrapes that succeed",
            "1 while the last scrape of a process did. RunwatchDown pages when none of a shard does.",
            "none",
            [series("up", f"max by (instance) (up{{{SCRAPE}}})", "{{instance}}")],
        )
        .min(0)
        .max(1)
    )
    yield stepped(
        graph(
            "Config reloads that succeed",
            "1 while the last one did.",
            "none",
            [series("reload", "max by (instance) (runwatch_config_last_reload_successful)", "{{instance}}")],
        )
        .min(0)
        .max(1)
    )


def _skipped() -> Iterator[timeseries.Panel]:
    for title, description, metric in (
        (
            "Rows of histories that could not be read",
            "They are skipped: a figure may lack them. By run, as each process counts them since it began to watch "
            "the run.",
            "runwatch_history_rows_malformed_total",
        ),
        (
            "Lines of logs that could not be read",
            "Lines that look like metrics. By run, as each process counts them since it began to watch the run.",
            "runwatch_log_lines_unparsed_total",
        ),
    ):
        # The counter of a run appears with its first such row, which an increase would not show.
        counted = f"sum by (run, instance) ({metric}) > 0"
        yield stepped(
            graph(title, description, "locale", [series("skipped", counted, "{{run}}, {{instance}}")])
            .no_value("None counted.")
            .decimals(0)
            .min(0)
            .span(12)
        )


def _process() -> Iterator[timeseries.Panel]:
    yield (
        graph(
            "CPU",
            "Seconds of CPU a second of each process.",
            "percentunit",
            [
                series(
                    "cpu",
                    f"max by (instance) (rate(process_cpu_seconds_total{{{SCRAPE}}}[$__rate_interval]))",
                    "{{instance}}",
                )
            ],
        )
        .interval(MIN_INTERVAL)
        .min(0)
    )
    yield graph(
        "Memory",
        "Resident memory of each process.",
        "bytes",
        [series("memory", f"max by (instance) (process_resident_memory_bytes{{{SCRAPE}}})", "{{instance}}")],
    ).min(0)
    yield (
        graph(
            "Open files",
            "Of each process. process_max_fds tells how many it may open.",
            "locale",
            [series("open", f"max by (instance) (process_open_fds{{{SCRAPE}}})", "{{instance}}")],
        )
        .decimals(0)
        .min(0)
    )
    yield (
        graph(
            "Time since the start",
            "Of each process: a line that falls to 0 is a restart.",
            "s",
            [series("start", f"time() - max by (instance) (process_start_time_seconds{{{SCRAPE}}})", "{{instance}}")],
        )
        .min(0)
        .span(24)
    )


def dashboard() -> builders.Dashboard:
    """Return the dashboard."""
    board = frame(
        "Runwatch",
        links.EXPORTER_UID,
        "The exporter itself: how fresh its sources are, what they failed at, what it costs them and Prometheus.",
        [variables.datasource(), variables.site(), budget()],
    )
    for value in _stats():
        board = board.with_panel(value)
    board = board.with_panel(exporter_sources.sources()).with_row(builders.Row("Sources"))
    for panel in exporter_sources.graphs():
        board = board.with_panel(panel)
    board = board.with_row(builders.Row("Jobs, series, scrapes"))
    for panel in _exposition():
        board = board.with_panel(panel)
    board = board.with_row(builders.Row("What could not be read"))
    for panel in _skipped():
        board = board.with_panel(panel)
    board = board.with_row(builders.Row("Processes"))
    for panel in _process():
        board = board.with_panel(panel)
    return board
