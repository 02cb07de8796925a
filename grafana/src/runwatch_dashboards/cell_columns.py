"""From the exporter's table columns to Grafana's: what each `CellFormat` is in a Grafana table.

A cell of the terminal that holds several figures is several columns here, so that each can be sorted and filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runwatch.catalogue import CHUNK_STATES, INFRA_CHECKS, JOB_PHASES, WAITING_REASONS
from runwatch.report.columns import CellFormat, Column
from runwatch_dashboards import links, numbers, palette
from runwatch_dashboards.cells import (
    GridColumn,
    Selection,
    label_column,
    number_column,
    one_hot_column,
    state_column,
    trend_column,
)
from runwatch_dashboards.panels import prop
from runwatch_dashboards.queries import answered, any_of, equal, not_ended, total, value

Columns = tuple[GridColumn, ...]

CHECK_TITLES = {"tunnel": "Tunnel", "api_base": "API base", "engine": "Engine", "progress": "Progress"}
"""What the columns of the launch checks are called, which are Infra in the terminal."""

_SECONDS = "s"

_DURATION, _LARGE_NUMBER, _MOMENT = 78, 82, 155
"""Pixels that `12.5 hours`, `1,234,567` and a time with its date need."""


def columns_of(column: Column, selection: Selection) -> Columns:
    """Return Grafana's columns for one of the exporter's.

    Args:
        column: A column of `runwatch.report.columns`.
        selection: Label matchers of the table.

    Raises:
        KeyError: a `CellFormat` that has none yet.
    """
    return _FORMATS[column.format](column, selection)


def _name(column: Column, _selection: Selection) -> Columns:
    link = prop("links", [links.to_run()])
    return (
        GridColumn(column.title, label="run", properties=(link,), least_width=126),
        label_column("Site", "site", width=66),
    )


def _bucket(column: Column, _selection: Selection) -> Columns:
    return (label_column(column.title, "bucket", width=85),)


def _kind(column: Column, _selection: Selection) -> Columns:
    return (label_column(column.title, "kind", width=180),)


def _state(_column: Column, selection: Selection) -> Columns:
    return (state_column(selection),)


def _of_target(column: Column, selection: Selection) -> Columns:
    now, target = column.metrics
    return (
        number_column(column.title, value(now, *selection), "none"),
        number_column("Target", value(target, *selection), "none"),
    )


def _fixed(column: Column, selection: Selection) -> Columns:
    metric = column.metrics[0]
    picked = [equal(label, text) for label, text in column.labels]
    steps, base = numbers.limits(metric)
    return (
        number_column(
            column.title,
            value(metric, *selection, *picked),
            "none",
            decimals=column.decimals,
            mappings=numbers.tiny(column.decimals, signed=metric in numbers.SIGNED),
            steps=steps,
            base=base,
        ),
    )


def _fixed_of_largest_n(column: Column, selection: Selection) -> Columns:
    """Take the longest N, among those as long the highest value: with more tries at a task the ratio never falls."""
    metric = column.metrics[0]
    by_length = [value(metric, *selection, f'n=~"{digits}"', keep="n") for digits in ("[0-9]{3,}", "[0-9]{2}", "[0-9]")]
    query = f"topk by (run, site) (1, {' or on (run, site) '.join(by_length)})"
    shown = number_column(
        column.title,
        query,
        "none",
        decimals=column.decimals,
        mappings=numbers.tiny(column.decimals, signed=False),
    )
    return (
        shown,
        GridColumn(
            "N",
            shown.ref,
            label="n",
            properties=(prop("custom.align", "right"), prop("custom.filterable", False)),
            width=40,
        ),
    )


def _whole(column: Column, selection: Selection) -> Columns:
    return (number_column(column.title, value(column.metrics[0], *selection), "locale", width=_LARGE_NUMBER),)


def _percent(column: Column, selection: Selection) -> Columns:
    query = value(column.metrics[0], *selection)
    return (number_column(column.title, query, "percentunit", decimals=column.decimals),)


def _duration(column: Column, selection: Selection) -> Columns:
    query = not_ended(value(column.metrics[0], *selection), *selection)
    return (number_column(column.title, query, _SECONDS, decimals=1, width=_DURATION),)


def _preemptions(column: Column, selection: Selection) -> Columns:
    events, counted = column.metrics
    gang = value(events, *selection, equal("cause", "preemption"))
    return (
        number_column(column.title, gang, "none"),
        number_column(f"{column.title}*", f"{value(counted, *selection)} unless on (run, site) {gang}", "none"),
    )


def _gaps(column: Column, selection: Selection) -> Columns:
    counts, seconds = column.metrics
    return (
        number_column(column.title, total(counts, "cause", *selection), "none", width=54),
        number_column(
            "Gap time",
            total(seconds, "cause", *selection),
            _SECONDS,
            decimals=1,
            width=_DURATION,
        ),
        number_column(
            "Unexplained",
            value(counts, *selection, equal("cause", "unexplained")),
            "none",
            steps=((1, palette.WARNING),),
        ),
    )


def _checkpoint(column: Column, selection: Selection) -> Columns:
    """Give step, lag and age; -1 stands for a store that was read and holds no complete checkpoint."""
    step, lag, saved = column.metrics
    none = f"{value('mljob_checkpoints', *selection, equal('completeness', 'complete'))} == 0"
    age = f"{answered(*selection, equal('source', 'checkpoints'))} - {value(saved, *selection)}"
    return (
        number_column(
            column.title,
            f"{value(step, *selection)} or on (run, site) (({none}) - 1)",
            "none",
            mappings=(palette.words({"-1": ("none", palette.PLAIN)}),),
        ),
        number_column("Lag", value(lag, *selection), "none", width=50),
        number_column("Age", f"clamp_min({age}, 0)", _SECONDS, decimals=1, width=_DURATION),
    )


def _since(column: Column, selection: Selection) -> Columns:
    started = value(column.metrics[0], *selection)
    return (
        number_column(column.title, f"{started} * 1000", "dateTimeAsIso", width=_MOMENT),
        number_column(
            "For", f"clamp_min({answered(*selection)} - {started}, 0)", _SECONDS, decimals=1, width=_DURATION
        ),
    )


def _elapsed(column: Column, selection: Selection) -> Columns:
    started, ended = (value(metric, *selection) for metric in column.metrics)
    until = f"({ended} or on (run, site) ({not_ended(answered(*selection), *selection)}))"
    return (number_column(column.title, f"clamp_min({until} - {started}, 0)", _SECONDS, decimals=1, width=_DURATION),)


def _chunks(column: Column, selection: Selection) -> Columns:
    metric = column.metrics[0]
    colours = {"hung": palette.BAD, "failed": palette.WARNING}
    titles = {"done": column.title, "running": "Running", "hung": "Hung", "failed": "Failed"}
    counted = {
        state: number_column(
            title,
            value(metric, *selection, equal("state", state)),
            "none",
            steps=((1, colours[state]),) if state in colours else (),
        )
        for state, title in titles.items()
    }
    every = total(metric, "state", *selection, any_of("state", CHUNK_STATES))
    return (counted["done"], number_column("of", every, "none", width=45), *list(counted.values())[1:])


def _top_exception(column: Column, selection: Selection) -> Columns:
    metric, ratio = column.metrics
    classes = value(metric, *selection, 'exception!="other"', keep="exception")
    named = f"topk by (run, site) (1, {classes})"
    other = value(metric, *selection, equal("exception", "other"), keep="exception")
    none = f'label_replace({value(ratio, *selection)} == 0, "exception", "none", "", "")'
    count = number_column("Exceptions", f"{named} or on (run, site) {other} or on (run, site) {none}", "locale")
    return (GridColumn(column.title, count.ref, label="exception", width=165), count)


def _infrastructure(column: Column, selection: Selection) -> Columns:
    told = palette.words({"1": ("passed", palette.PLAIN), "0": ("failed", palette.BAD)})
    return tuple(
        number_column(
            CHECK_TITLES[check],
            value(column.metrics[0], *selection, equal("check", check)),
            "none",
            mappings=(told,),
            width=80 if len(CHECK_TITLES[check]) > 6 else 68,
        )
        for check in INFRA_CHECKS
    )


def _waiting(column: Column, selection: Selection) -> Columns:
    phase, waiting = column.metrics
    phases = palette.words({word: (word, palette.PLAIN) for word in JOB_PHASES})
    reasons = palette.words({word: (word, palette.PLAIN) for word in WAITING_REASONS})
    return (
        one_hot_column("Phase", phase, "phase", phases, selection),
        one_hot_column(column.title, waiting, "reason", reasons, selection),
        trend_column("Trend", selection),
    )


def _trend(column: Column, selection: Selection) -> Columns:
    return (trend_column(column.title, selection),)


_FORMATS: Mapping[CellFormat, Callable[[Column, Selection], Columns]] = {
    CellFormat.NAME: _name,
    CellFormat.BUCKET: _bucket,
    CellFormat.KIND: _kind,
    CellFormat.STATE: _state,
    CellFormat.STEP_OF_TARGET: _of_target,
    CellFormat.FIXED: _fixed,
    CellFormat.FIXED_OF_LARGEST_N: _fixed_of_largest_n,
    CellFormat.TRIALS_OF_TARGET: _of_target,
    CellFormat.CHUNKS: _chunks,
    CellFormat.TOP_EXCEPTION: _top_exception,
    CellFormat.INFRASTRUCTURE: _infrastructure,
    CellFormat.WHOLE: _whole,
    CellFormat.PERCENT: _percent,
    CellFormat.DURATION: _duration,
    CellFormat.PREEMPTIONS: _preemptions,
    CellFormat.GAPS: _gaps,
    CellFormat.CHECKPOINT: _checkpoint,
    CellFormat.SINCE: _since,
    CellFormat.ELAPSED: _elapsed,
    CellFormat.WAITING: _waiting,
    CellFormat.NOTE: _trend,
    CellFormat.TREND: _trend,
}
