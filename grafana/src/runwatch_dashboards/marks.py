"""Annotations: events of a job that graphs mark on their time axis.

The SDK's type has not what Grafana's Prometheus data source reads of an annotation: the titles, and that the value of a
series, in ms, is the time of the event (packages/grafana-prometheus of Grafana, `processAnnotationResponse`).
"""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from runwatch_dashboards.variables import DATASOURCE


class _PrometheusAnnotation(models.AnnotationQuery):
    """An annotation with the settings of the Prometheus data source."""

    def __init__(self, name: str, colour: str, expression: str, settings: dict[str, object], *, enable: bool) -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=enable, icon_color=colour, expr=expression)
        self._settings = settings

    def to_json(self) -> dict[str, object]:
        """Return the annotation as Grafana reads it."""
        return {**super().to_json(), **self._settings}


class Mark(Builder[models.AnnotationQuery]):
    """Builds an annotation.

    Args:
        name: What its switch at the top is called.
        colour: One of the palette's.
        expression: A query over the time range.
        title: What a mark says; `{{label}}` stands for a label's value.
        at_value: Whether the values are the times of the events, in ms. Else an event lasts as long as the series.
        step: How far samples of one event may be apart, as Grafana writes durations.
        shown: Whether the switch is on at first.
    """

    def __init__(
        self,
        name: str,
        colour: str,
        expression: str,
        title: str,
        *,
        at_value: bool,
        step: str = "60s",
        shown: bool = True,
    ) -> None:
        settings: dict[str, object] = {"titleFormat": title, "useValueForTime": at_value, "step": step}
        self._annotation = _PrometheusAnnotation(name, colour, expression, settings, enable=shown)

    def build(self) -> models.AnnotationQuery:
        """Return the annotation."""
        return self._annotation
