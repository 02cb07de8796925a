"""A column of a Grafana table, and the kinds there are: a label, a number, a word for a place in a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.models import dashboard as models

from runwatch import thresholds
from runwatch.catalogue import JOB_STATES
from runwatch.figures import MISSING
from runwatch_dashboards import palette
from runwatch_dashboards.panels import coloured_cell, prop
from runwatch_dashboards.queries import code, matchers, told

Selection = tuple[str, ...]
"""Label matchers that all queries of a table have in common."""

NOT_TOLD = len(thresholds.VERDICTS)
"""The place of a job without a verdict in the order of how bad jobs are: behind all others."""

_FILTER = 20
"""Pixels of a filter beside a title."""

_LEAST_NUMBER = 62
"""Pixels that `123,456` needs."""

TREND_REF = "trend"
"""The query that tables are sorted by."""


@dataclass(frozen=True, slots=True)
class GridColumn:
    """One column of a Grafana table.

    Attributes:
        title: What stands above it.
        ref: The id of its query; empty where it is a label of the table's first query.
        query: PromQL with one series a job; empty where `ref` is, or where another column has the query already.
        label: The label that is the cell's text; empty where the query's value is.
        properties: Overrides of the field.
        mappings: How values are written, before which a missing one always is a dash.
        width: In pixels; 0 lets Grafana share out what is left.
        least_width: Of a column without a width, in pixels; 0 for Grafana's own, 150.
    """

    title: str
    ref: str = ""
    query: str = ""
    label: str = ""
    properties: tuple[models.DynamicConfigValue, ...] = ()
    mappings: tuple[models.ValueMapping, ...] = ()
    width: int = 0
    least_width: int = 0

    @property
    def field_name(self) -> str:
        """The name that the field has before it is renamed."""
        return self.label or f"Value #{self.ref}"

    def overrides(self) -> list[models.DynamicConfigValue]:
        """Return the overrides of the column."""
        own = list(self.properties)
        if self.mappings:
            own.append(prop("mappings", [palette.missing(), palette.empty_text(), *self.mappings]))
        if self.width:
            own.append(prop("custom.width", self.width))
        if self.least_width:
            own.append(prop("custom.minWidth", self.least_width))
        return own


def label_column(title: str, label: str, *, width: int = 0, texts: models.ValueMapping | None = None) -> GridColumn:
    """Return a column of a label of the table's first query; coloured where its texts are mapped."""
    if texts is None:
        return GridColumn(title, label=label, width=width)
    return GridColumn(title, label=label, width=width, mappings=(texts,), properties=(coloured_cell(),))


def number_column(
    title: str,
    query: str,
    unit: str,
    *,
    decimals: int = 0,
    mappings: Sequence[models.ValueMapping] = (),
    steps: Sequence[tuple[float, str]] = (),
    base: str = palette.PLAIN,
    width: int = 0,
) -> GridColumn:
    """Return a column of numbers, which nobody picks rows by: it has no filter.

    Args:
        title: What stands above it.
        query: PromQL with one series a job.
        unit: Grafana's id of the unit.
        decimals: How many.
        mappings: How some values are written.
        steps: (value, colour) from which the cell is coloured.
        base: The colour below all steps.
        width: In pixels; 0 for what title or number need.
    """
    properties = [
        prop("unit", unit),
        prop("decimals", decimals),
        prop("custom.align", "right"),
        prop("custom.filterable", False),
    ]
    if steps or any(isinstance(mapping, models.ValueMap) for mapping in mappings):
        properties.append(coloured_cell())
    if steps:
        properties.append(prop("thresholds", palette.steps(*steps, base=base).build()))
    return GridColumn(
        title,
        ref_of(title),
        query,
        properties=tuple(properties),
        mappings=tuple(mappings),
        width=width or max(_LEAST_NUMBER, width_of_header(title)),
    )


def width_of_header(title: str) -> int:
    """Return how many pixels a title needs above a column without a filter, in Grafana's font (Inter, 14 px)."""
    return 19 + round(sum(_letter_width(letter) for letter in title))


def _letter_width(letter: str) -> float:
    if letter in "mwMW@%":
        return 12.5
    if letter in "iljtfr ()*'/-":
        return 5
    return 10 if letter.isupper() else 8


def word_column(
    title: str, ref: str, query: str, words: Sequence[str], colours: dict[str, str], *, least_width: int
) -> GridColumn:
    """Return a column of words, made of their places in a list (see `queries.code`)."""
    return GridColumn(
        title,
        ref,
        query,
        properties=(prop("unit", "none"), prop("custom.align", "left"), coloured_cell()),
        mappings=(palette.codes(words, colours),),
        least_width=least_width,
    )


def trend_column(title: str, selection: Selection) -> GridColumn:
    """Return the column of the worst verdict that holds, which tables are sorted by: 0 is the worst.

    A job of which nothing is known has a place too, for a missing value would break the order.
    """
    words = [word.replace("_", " ") for word in thresholds.VERDICTS]
    colours = {word.replace("_", " "): palette.verdict_colour(word) for word in thresholds.VERDICTS}
    place = code("mljob_trend", "verdict", thresholds.VERDICTS, *selection)
    unknown = f"max by (run, site, bucket) (mljob_info{{{matchers(*selection)}}}) * {NOT_TOLD}"
    query = f"{place} or on (run, site) {unknown}"
    return word_column(title, TREND_REF, query, [*words, MISSING], colours, least_width=125)


def one_hot_column(title: str, metric: str, label: str, texts: models.ValueMapping, selection: Selection) -> GridColumn:
    """Return the column of the label of a one-hot metric that is 1."""
    return GridColumn(
        title,
        label,
        told(metric, label, *selection),
        label=label,
        properties=(coloured_cell(),),
        mappings=(texts,),
        width=max(84, width_of_header(title) + _FILTER),
    )


def state_column(selection: Selection) -> GridColumn:
    """Return the column of the job's state; grey where it is over without a fault."""
    texts = palette.words({state: (state, palette.state_colour(state)) for state in JOB_STATES})
    return one_hot_column("State", "mljob_state", "state", texts, selection)


def ref_of(title: str) -> str:
    """Return a query's id from a column's title: `tok/s` is `tok_s`."""
    return re.sub(r"[^a-z0-9]+", "_", title.lower().replace("%", " percent").replace("*", " sum")).strip("_")
