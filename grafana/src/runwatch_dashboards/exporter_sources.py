"""The *Runwatch* dashboard: the sources, how fresh each is, what it failed at, and what it costs its upstream."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import table, timeseries

from runwatch import thresholds as t
from runwatch.config.model import WandbSettings
from runwatch_dashboards import palette, queries
from runwatch_dashboards.graphs import dashed, graph, stacked
from runwatch_dashboards.joined import one_table, paired
from runwatch_dashboards.panels import coloured_cell, limited, plain_table, prop
from runwatch_dashboards.queries import series

SITES = 'site=~"$site"'
_BY = "by (source, site)"
_LEGEND = "{{source}} at {{site}}"

_IN_USE = f" and on (source, site) max {_BY} (runwatch_source_up{{{SITES}}})"
"""Counters outlive a source that no job uses any more; rows do not."""

MIN_INTERVAL = "30s"
"""Rates are taken over four of these at least: an exporter that is scraped once a minute still has them."""

DEFAULT_BUDGET: int = WandbSettings.model_fields["requests_per_minute"].default
"""W&B's requests a minute, where the config says nothing else."""


def _last_success(selection: str = SITES) -> str:
    return f"max {_BY} (runwatch_source_last_success_timestamp_seconds{{{selection}}})"


def _rate(metric: str, per: str, by: str = "source, site") -> str:
    return f"{per} * sum by ({by}) (rate({metric}{{{SITES}}}[$__rate_interval]))"


_HISTORY_REQUESTS = 'sum(rate(runwatch_source_requests_total{source="history"}[$__rate_interval])) * 60'
"""Of every site, whichever is chosen: the budget is one for all of them."""


def _poll_quantile(quantile: str, window: str) -> str:
    buckets = f"rate(runwatch_poll_duration_seconds_bucket{{{SITES}}}[{window}])"
    return f"histogram_quantile({quantile}, sum by (source, site, le) ({buckets}))"


def sources() -> table.Panel:
    """Return one row a source and site."""
    columns = (
        ("up", "Answers", f"max {_BY} (runwatch_source_up{{{SITES}}})", "none"),
        ("age", "Last read", f"round(time() - {_last_success()})", "s"),
        ("interval", "Read every", f"max {_BY} (runwatch_source_interval_seconds{{{SITES}}})", "s"),
        (
            "errors",
            "Failed looks, last hour",
            f"sum {_BY} (increase(runwatch_source_errors_total{{{SITES}}}[1h]))",
            "locale",
        ),
        (
            "requests",
            "Requests, last hour",
            f"sum {_BY} (increase(runwatch_source_requests_total{{{SITES}}}[1h]))",
            "locale",
        ),
        ("poll", "Poll, 95 %", _poll_quantile("0.95", "1h"), "s"),
    )
    panel = plain_table(
        "Sources",
        "A source answers while at least one job of it could be read in the last poll. Answers of jobs without a "
        "cluster stand "
        "under the site none.",
        "none",
        [queries.table(ref, paired(f"{expression}{_IN_USE}", "source", "site")) for ref, _, expression, _ in columns],
    ).transformations(
        one_table("Source", {ref: title for ref, title, *_ in columns}, sort="Last read", worst_first=True)
    )
    for ref, title, _, unit in columns:
        panel = panel.override_by_name(title, [prop("unit", unit), prop("decimals", 1 if ref == "poll" else 0)])
    limits = {
        "mode": "absolute",
        "steps": [
            {"color": palette.PLAIN, "value": None},
            {"color": palette.WARNING, "value": t.SOURCE_DOWN_SECONDS},
            {"color": palette.BAD, "value": t.SOURCE_DOWN_CRITICAL_SECONDS},
        ],
    }
    answers = palette.words({"0": ("no", palette.BAD), "1": ("yes", palette.PLAIN)})
    return (
        panel.override_by_name("Answers", [prop("mappings", [palette.missing(), answers]), coloured_cell()])
        .override_by_name("Last read", [prop("thresholds", limits), coloured_cell()])
        .height(9)
    )


def graphs() -> Iterator[timeseries.Panel]:
    """Yield the graphs about sources."""
    yield limited(
        graph(
            "Time since each source was last read",
            "By the clock. From the first line on it warns, from the second on it pages; later where three of the "
            "source's "
            "intervals are longer.",
            "s",
            [series("age", f"time() - {_last_success()}", _LEGEND)],
        ),
        (t.SOURCE_DOWN_SECONDS, palette.WARNING),
        (t.SOURCE_DOWN_CRITICAL_SECONDS, palette.BAD),
        base=palette.PLAIN,
    ).min(0)
    yield stacked(
        graph(
            "Failed looks a minute, by reason",
            "A look that failed is never an idle job: facts stand still meanwhile.",
            "none",
            [series("errors", _rate("runwatch_source_errors_total", "60", "source, reason"), "{{source}}: {{reason}}")],
        ).interval(MIN_INTERVAL)
    ).min(0)
    yield stacked(
        graph(
            "Failed looks a minute, by site",
            "The same, to tell one cluster's trouble from an upstream's.",
            "none",
            [series("errors", _rate("runwatch_source_errors_total", "60"), _LEGEND)],
        ).interval(MIN_INTERVAL)
    ).min(0)
    yield (
        graph(
            "Length of polls, 95 %",
            "19 of 20 polls were shorter. From the buckets of a histogram, so it is rough.",
            "s",
            [series("poll", _poll_quantile("0.95", "$__rate_interval"), _LEGEND)],
        )
        .interval(MIN_INTERVAL)
        .min(0)
        .span(12)
    )
    busy = f"max {_BY} (rate(runwatch_poll_duration_seconds_sum{{{SITES}}}[$__rate_interval]))"
    yield (
        graph(
            "Share of the time spent polling",
            "Seconds of polls a second, of the process with the most. Near 1 a source is read as fast as it answers, "
            "and no longer as often as asked.",
            "percentunit",
            [series("busy", busy, _LEGEND)],
        )
        .interval(MIN_INTERVAL)
        .min(0)
        .span(12)
    )
    yield (
        graph(
            "Requests a minute",
            "HTTP requests, listings, files opened, commands run.",
            "none",
            [series("requests", _rate("runwatch_source_requests_total", "60", "source"), "{{source}}")],
        )
        .decimals(0)
        .interval(MIN_INTERVAL)
        .min(0)
        .span(12)
    )
    yield (
        graph(
            "Requests for histories against W&B's budget",
            "Of W&B, and files of local histories opened: W&B's own are these at most. The budget is "
            "wandb.requests_per_minute of the config: set the same at the top. It is drawn while a job's history is "
            "in W&B.",
            "none",
            [
                series("requests", _HISTORY_REQUESTS, "histories"),
                series("budget", 'vector(${budget} + 0) > 0 and on () (mljob_info{wandb_run!=""})', "W&B's budget"),
            ],
        )
        .override_by_query("budget", dashed(palette.WARNING))
        .decimals(0)
        .interval(MIN_INTERVAL)
        .min(0)
        .span(12)
    )
