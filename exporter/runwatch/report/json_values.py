"""Measured values as JSON, the same in the tables' and in `explain`'s document."""

from __future__ import annotations

from runwatch.catalogue import METRICS
from runwatch.derive.observation import blind_sources
from runwatch.measurements import JobReport, Measurements


def blind_json(report: JobReport, now: float) -> list[dict[str, object]]:
    """Return the sources that are blind now, and for how many seconds they have been."""
    return [
        {"source": blindness.source, "age_seconds": blindness.age, "ever_read": blindness.ever_read}
        for blindness in blind_sources(report, now)
    ]


def metrics_json(measurements: Measurements) -> dict[str, object]:
    """Return every measured value by metric name, in the catalogue's order.

    A metric without added labels is a number; one with labels is a list of objects with the labels and `value`.
    """
    measured = set(measurements.names())
    return {name: _family_json(name, measurements) for name in METRICS if name in measured}


def _family_json(name: str, measurements: Measurements) -> object:
    labels = METRICS[name].labels
    if not labels:
        return measurements.get(name)
    family = sorted(measurements.family(name).items())
    return [{**dict(zip(labels, values, strict=True)), "value": value} for values, value in family]
