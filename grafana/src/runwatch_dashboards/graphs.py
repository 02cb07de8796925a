"""What graphs and timelines have beside their lines: limits, healthy bands, dashed lines, words instead of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import stat, statetimeline, text, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import text as text_models

from runwatch_dashboards import palette
from runwatch_dashboards.panels import NOT_MEASURED, Query, described, prop, reaching, time_series
from runwatch_dashboards.queries import series

_FEW = 5
"""How far the axis of counts reaches at least."""


def graph(title: str, description: str, unit: str, queries: Sequence[Query]) -> timeseries.Panel:
    """Return a graph of one job or of the exporter, three to a row at most."""
    return time_series(title, description, unit, queries).span(8)


def line(ref: str, expression: str, legend: str) -> Dataquery:
    """Return the query of a line of one job. Its site is told, since a name may run at two."""
    return series(ref, expression, f"{legend} at {{{{site}}}}")


def dashed(colour: str) -> list[dashboard.DynamicConfigValue]:
    """Return the properties of a line that is no measurement: a target, a limit."""
    return [
        prop("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}),
        prop("color", {"mode": "fixed", "fixedColor": colour}),
    ]


def second_line() -> list[dashboard.DynamicConfigValue]:
    """Return the properties of the second line of a graph with a healthy band."""
    return [prop("color", {"mode": "fixed", "fixedColor": palette.SECOND})]


def coloured(panel: timeseries.Panel, colours: Mapping[str, str]) -> timeseries.Panel:
    """Give lines that are named by a word, as `line` names them, the colour of the word: {word: colour}."""
    for word, colour in colours.items():
        panel = panel.override_by_regexp(f"/^{word} at /", [prop("color", {"mode": "fixed", "fixedColor": colour})])
    return panel


def stacked(panel: timeseries.Panel) -> timeseries.Panel:
    """Draw the parts of a whole one on the other."""
    stacking = common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A")
    return panel.stacking(stacking).fill_opacity(40)


def stepped(panel: timeseries.Panel) -> timeseries.Panel:
    """Draw counts as steps: between two scrapes nothing is known of a slope."""
    return reaching(panel, _FEW).line_interpolation(common.LineInterpolation.STEP_AFTER)


def timeline(title: str, description: str, queries: Sequence[Query]) -> statetimeline.Panel:
    """Return bars over time, one a series, whose values are words. Where nothing was measured there is no bar."""
    return (
        described(statetimeline.Panel(), title, description, "none", queries)
        .color_scheme(dashboard_builders.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .thresholds(palette.steps(base=palette.GREY))
        .mappings([palette.missing()])
        .no_value(NOT_MEASURED)
        .merge_values(True)
        .show_value(common.VisibilityMode.AUTO)
        .align_value(common.TimelineValueAlignment.LEFT)
        .row_height(0.8)
        .fill_opacity(70)
        .line_width(0)
        .legend(
            common_builders.VizLegendOptions()
            .show_legend(False)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .calcs([])
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE).sort(common.SortOrder.NONE))
        .height(7)
        .span(24)
    )


def saying(panel: stat.Panel, words: Mapping[str, tuple[str, str]]) -> stat.Panel:
    """Write the values of a stat as words: {value: (text, colour)}."""
    return panel.mappings([palette.missing(palette.TEXT), palette.words(words)])


def worded(values: Sequence[str], colours: Mapping[str, str]) -> list[dashboard.DynamicConfigValue]:
    """Return the properties of a row of a timeline that is made by `queries.code`."""
    return [prop("mappings", [palette.missing(), palette.codes(values, colours)])]


def note(title: str, description: str, markdown: str) -> text.Panel:
    """Return a panel of words."""
    return (
        text.Panel()
        .title(title)
        .description(description)
        .mode(text_models.TextMode.MARKDOWN)
        .content(markdown)
        .height(4)
        .span(24)
    )
