"""The bases of the panels. Each takes title, description and unit, for a panel without one of them tells too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common, dashboard

from runwatch.catalogue import METRICS
from runwatch.figures import MISSING
from runwatch.metric_kinds import Unit
from runwatch_dashboards import palette
from runwatch_dashboards.variables import DATASOURCE

UNITS = {
    Unit.NONE: "none",
    Unit.SECONDS: "s",
    Unit.TIMESTAMP: "dateTimeAsIso",
    Unit.RATIO: "percentunit",
    Unit.STEPS: "none",
    Unit.TOKENS: "locale",
    Unit.TOKENS_PER_SECOND: "locale",
    Unit.COUNT: "locale",
    Unit.BOOLEAN: "none",
    Unit.BYTES: "bytes",
}
"""Grafana's id of each unit of the catalogue. `locale` writes thousands separators. Timestamps are given in ms."""

NOT_MEASURED = f"{MISSING} not measured"
"""What a graph without a series says: it is no fault of a job that it has no such value."""

_SMALL_RATIO = 0.1
"""How far the axis of a ratio reaches at least."""

Query = Builder[Dataquery]


class _Described(Protocol):
    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: dashboard.DataSourceRef) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def targets(self, targets: list[Query]) -> Self: ...


PanelT = TypeVar("PanelT", bound=_Described)


def unit_of(metric: str) -> str:
    """Return Grafana's unit id of a metric of the catalogue.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    return UNITS[METRICS[metric].unit]


def described(panel: PanelT, title: str, description: str, unit: str, queries: Sequence[Query]) -> PanelT:
    """Give a panel of any kind what every panel has.

    Raises:
        ValueError: title, description or unit is empty.
    """
    if not (title and description and unit):
        raise ValueError(f"the panel {title!r} needs a title, a description and a unit")
    return panel.title(title).description(description).unit(unit).datasource(DATASOURCE).targets(list(queries))


def time_series(title: str, description: str, unit: str, queries: Sequence[Query]) -> timeseries.Panel:
    """Return a graph over time. A gap in the data stays a gap in the line: nothing was measured there.

    A line has a colour of its own: in that of a threshold a healthy one could not be seen, or told from another.
    """
    tooltip = (
        common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    )
    panel = (
        described(timeseries.Panel(), title, description, unit, queries)
        .color_scheme(dashboard_builders.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC))
        .draw_style(common.GraphDrawStyle.LINE)
        .no_value(NOT_MEASURED)
        .line_width(1)
        .fill_opacity(0)
        .span_nulls(False)
        .show_points(common.VisibilityMode.AUTO)
        .legend(legend(highest_first=True))
        .tooltip(tooltip)
        .height(8)
        .span(12)
    )
    return reaching(panel, _SMALL_RATIO) if unit == UNITS[Unit.RATIO] else panel


def legend(*, highest_first: bool) -> common_builders.VizLegendOptions:
    """Return the legend of a graph: a table of each line's newest value, which tells the lines that matter first."""
    return (
        common_builders.VizLegendOptions()
        .show_legend(True)
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs(["lastNotNull"])
        .sort_by("Last *")
        .sort_desc(highest_first)
    )


def reaching(panel: timeseries.Panel, high: float, low: float = 0) -> timeseries.Panel:
    """Let the axis of a graph span these values at least.

    Grafana's axis of a line that stays at 0 ends at 100, which of a ratio is 10,000 %.
    """
    return panel.axis_soft_min(low).axis_soft_max(high)


def limited(panel: timeseries.Panel, *above: tuple[float, str], base: str) -> timeseries.Panel:
    """Draw limits as lines, and what lies between them in its colour: `base` below all, then from each value upward.

    The axis reaches beyond the limits, so that it is seen how far a line is from them.
    """
    values = [value for value, _ in above]
    lowest, highest = min(values), max(values)
    margin = (highest - lowest) / 2 or highest / 4
    low = lowest - margin if len(above) > 1 else 0
    style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.LINE_AND_AREA)
    panel = panel.thresholds(palette.steps(*above, base=base)).thresholds_style(style)
    if palette.GOOD in (base, *(colour for _, colour in above)):
        # The palette's first colour is green, which on a green area is hardly seen.
        panel = panel.color_scheme(
            dashboard_builders.FieldColor().mode(dashboard.FieldColorModeId.SHADES).fixed_color(palette.NEUTRAL)
        )
    return reaching(panel, highest + margin, low if lowest < 0 else max(low, 0))


def single_stat(title: str, description: str, unit: str, queries: Sequence[Query]) -> stat.Panel:
    """Return one big value a series, without a line below it. What is not measured is a dash."""
    return (
        described(stat.Panel(), title, description, unit, queries)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .text_mode(common.BigValueTextMode.AUTO)
        .no_value(MISSING)
        .mappings([palette.missing(palette.TEXT)])
        .thresholds(palette.steps(base="text"))
        .height(4)
        .span(4)
    )


def label_stat(title: str, description: str, query: Query, label: str) -> stat.Panel:
    """Return the values of a label of a query for a table, or a dash where there is no series."""
    reduced = common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(True).fields(f"/^{label}$/")
    panel = single_stat(title, description, "none", [query]).reduce_options(reduced)
    return panel.text_mode(common.BigValueTextMode.VALUE)


def plain_table(title: str, description: str, unit: str, queries: Sequence[Query]) -> table.Panel:
    """Return a table over the whole width. What is not measured is a dash without a colour, as is an empty label."""
    return (
        described(table.Panel(), title, description, unit, queries)
        .show_header(True)
        .cell_height(common.TableCellHeight.SM)
        .footer(common_builders.TableFooterOptions().show(False).reducer(["sum"]).count_rows(False))
        .no_value(MISSING)
        .mappings([palette.missing(), palette.empty_text()])
        .thresholds(palette.steps())
        .filterable(True)
        .height(9)
        .span(24)
    )


def organized(titles: Mapping[str, str], *left_out: str) -> dashboard.DataTransformerConfig:
    """Return the transformation that orders a table's columns and names them.

    Args:
        titles: the title of each column, in their order, by the name that the data has for it.
        left_out: names of columns that are not shown.
    """
    return dashboard.DataTransformerConfig(
        id_val="organize",
        options={
            "excludeByName": dict.fromkeys(left_out, True),
            "indexByName": {name: place for place, name in enumerate(titles)},
            "renameByName": dict(titles),
        },
    )


def prop(option: str, value: object) -> dashboard.DynamicConfigValue:
    """Return one property of a field override: `prop("custom.width", 90)`."""
    return dashboard.DynamicConfigValue(id_val=option, value=value)


def coloured_cell() -> dashboard.DynamicConfigValue:
    """Return the property that draws a cell on the colour of its value's mapping or step."""
    return prop("custom.cellOptions", {"type": "color-background", "mode": "basic"})
