"""The one record a job that exposition, tables, line and page all read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from runwatch.catalogue import JOB_LABELS, METRICS

Intervals = Mapping[str, float]
"""Seconds between two looks at a job, by source (`history`, ...)."""

NO_INTERVALS: Intervals = MappingProxyType({})


class Measurements:
    """The measured values of one job, by metric name and the metric's added label values.

    A value that was not measured is absent: `set` ignores None, and `get` returns None for it. Names and labels are
    checked against the catalogue, so a metric cannot be exported without being documented.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], float]] = {}

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Record a value.

        Raises:
            KeyError: the catalogue has no such metric.
            ValueError: the labels are not the catalogue's, or the value is NaN or infinite.
        """
        metric = METRICS[name]
        if set(labels) != set(metric.labels):
            raise ValueError(f"{name} takes the labels {metric.labels}, got {tuple(labels)}")
        if value is None:
            return
        if not math.isfinite(value):
            raise ValueError(f"{name} would export {value}: leave it out instead")
        key = tuple(labels[label] for label in metric.labels)
        self._values.setdefault(name, {})[key] = float(value)

    def get(self, name: str, /, **labels: str) -> float | None:
        """Return the value, or None when it was not measured.

        Raises:
            KeyError: the catalogue has no such metric, or a label of it is missing.
        """
        metric = METRICS[name]
        return self._values.get(name, {}).get(tuple(labels[label] for label in metric.labels))

    def family(self, name: str) -> Mapping[tuple[str, ...], float]:
        """Return all values of a metric, keyed by its added labels in the catalogue's order."""
        _ = METRICS[name]
        return self._values.get(name, {})

    def one_hot(self, name: str) -> str | None:
        """Return the label value whose series is 1 in a one-label, one-hot metric (`mljob_state`)."""
        return next((key[0] for key, value in self.family(name).items() if value == 1.0), None)

    def names(self) -> Iterator[str]:
        """Iterate over the metrics that have at least one value."""
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measurements) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of the reasoning behind a number, for `explain`.

    `topic` groups lines ("gaps", "checkpoints", "values", "verdicts", "attempts", "sources"). `fields` holds the
    figures by name; times are Unix seconds under names that end in `_timestamp_seconds`.
    """

    topic: str
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word of the fixed list in `thresholds.VERDICTS`, with its figure in words for the Trend column."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class JobReport:
    """All that is known of one job now: identity labels, measurements, verdicts (worst first) and evidence.

    `intervals` are the seconds between two looks of each source at it, which tell when one is blind; a source that is
    not in it looks each minute.
    """

    run: str
    bucket: str
    site: str
    info: Mapping[str, str]
    measurements: Measurements
    verdicts: tuple[Verdict, ...]
    evidence: tuple[Evidence, ...]
    intervals: Intervals = field(default_factory=lambda: NO_INTERVALS)

    @property
    def job_labels(self) -> tuple[str, ...]:
        """The values of the labels that every series of the job carries, in the order of `JOB_LABELS`."""
        values = {"run": self.run, "bucket": self.bucket, "site": self.site}
        return tuple(values[label] for label in JOB_LABELS)
