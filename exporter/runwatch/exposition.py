"""Renders job reports as Prometheus text format 0.0.4.

A job's lines are rendered when its measurements change and are kept; a whole body is put together from lines that
are ready. The format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from runwatch.catalogue import INFO_LABELS, JOB_LABELS, JOB_METRICS, METRICS
from runwatch.measurements import JobReport
from runwatch.metric_kinds import Metric

MAX_LABEL_VALUE_BYTES = 1024
"""Longest label value in UTF-8 bytes, before escaping. Longer ones are cut, so that no upstream text fills a scrape."""

_GZIP_LEVEL = 1  # Level 9 takes ten times the time for a tenth fewer bytes.
_NOT_EXPORTABLE = re.compile("[\x00\ud800-\udfff]")  # Lone surrogates have no UTF-8; NUL ends some parsers' input.
_HASH_DIGITS = 12
_PLAIN_LABEL_VALUE = re.compile(rf"[ !#-\[\]-~]{{0,{MAX_LABEL_VALUE_BYTES}}}")  # ASCII that nothing is done to.

_INFO = "mljob_info"
_INFO_KEYS = frozenset(INFO_LABELS)

Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Body:
    """A whole exposition, ready to be sent.

    `plain` is text format 0.0.4 in UTF-8, `gzip` the same as ONE gzip member (many clients stop after the first),
    `series` the number of series of jobs in it.
    """

    plain: bytes
    gzip: bytes
    series: int


def printable_label_value(value: str) -> str:
    """Return the value as it can be exported: valid UTF-8 of at most `MAX_LABEL_VALUE_BYTES` bytes.

    A value that had to be changed ends in `~` and a hash of the original, so that two values never become one:
    a duplicate series would make Prometheus drop samples.
    """
    changed = _NOT_EXPORTABLE.sub("\ufffd", value)
    encoded = changed.encode()
    if changed == value and len(encoded) <= MAX_LABEL_VALUE_BYTES:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    kept = encoded[: MAX_LABEL_VALUE_BYTES - _HASH_DIGITS - 1].decode("utf-8", "ignore")
    return f"{kept}~{digest}"


def escape_label_value(value: str) -> str:
    """Escape a label value as the format wants it: backslash, double quote and line feed."""
    if _PLAIN_LABEL_VALUE.fullmatch(value):
        return value
    return printable_label_value(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escape_help(text: str) -> str:
    """Escape a help text as the format wants it: backslash and line feed."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def format_value(value: float) -> str:
    """Return the shortest text that reads back as the same float; whole numbers without a fraction."""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def compress(plain: bytes) -> bytes:
    """Return one gzip member, the same bytes for the same input."""
    return gzip.compress(plain, compresslevel=_GZIP_LEVEL, mtime=0)


def _label_pairs(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(f'{name}="{escape_label_value(value)}"' for name, value in zip(names, values, strict=True))


def _render_family(metric: Metric, job_pairs: str, values: Values) -> bytes:
    if not metric.labels:
        [value] = values.values()
        return f"{metric.name}{{{job_pairs}}} {format_value(value)}\n".encode()
    return "".join(
        f"{metric.name}{{{job_pairs},{_label_pairs(metric.labels, key)}}} {format_value(value)}\n"
        for key, value in sorted(values.items())
    ).encode()


def _families(report: JobReport) -> dict[str, Values]:
    """Copy all that is exported of a report, so that a later change of the report is seen as one.

    Raises:
        ValueError: the report's info holds a label that `mljob_info` does not have.
    """
    unknown = set(report.info) - _INFO_KEYS
    if unknown:
        raise ValueError(f"{_INFO} has no label {', '.join(sorted(unknown))}")
    families: dict[str, Values] = {
        name: dict(report.measurements.family(name)) for name in report.measurements.names() if name != _INFO
    }
    families[_INFO] = {tuple(report.info.get(label, "") for label in INFO_LABELS): 1.0}
    return families


class Exposition:
    """The lines of all jobs. Not safe for use from several threads at once."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[str, ...], dict[str, Values]]] = {}
        self._fragments: dict[str, dict[str, bytes]] = {metric.name: {} for metric in JOB_METRICS}
        self._series = 0

    @property
    def series(self) -> int:
        """Number of series of all jobs: `runwatch_series`."""
        return self._series

    def update(self, report: JobReport) -> bool:
        """Take a job's newest report; its lines are rendered anew only where they differ from the last.

        Returns:
            Whether anything changed.

        Raises:
            ValueError: the report's info holds a label that `mljob_info` does not have.
        """
        labels = report.job_labels
        families = _families(report)
        before_labels, before = self._seen.get(report.run, ((), {}))
        if before_labels == labels and before == families:
            return False
        job_pairs = _label_pairs(JOB_LABELS, labels)
        for name in before.keys() - families.keys():
            self._fragments[name].pop(report.run, None)
        for name, values in families.items():
            if before_labels != labels or before.get(name) != values:
                self._fragments[name][report.run] = _render_family(METRICS[name], job_pairs, values)
        self._series += sum(map(len, families.values())) - sum(map(len, before.values()))
        self._seen[report.run] = (labels, families)
        return True

    def remove(self, run: str) -> None:
        """Drop every series of a job; one that is not there is no fault."""
        _, before = self._seen.pop(run, ((), {}))
        self._series -= sum(map(len, before.values()))
        for fragments in self._fragments.values():
            fragments.pop(run, None)

    def render(self, extra: bytes = b"") -> Body:
        """Put the whole body together: families in the catalogue's order, in them jobs in order of their name.

        Args:
            extra: Families of other metrics in the same format, appended as they are (the exporter's own).
        """
        runs = sorted(self._seen)
        parts: list[bytes] = []
        for metric in JOB_METRICS:
            fragments = self._fragments[metric.name]
            if not fragments:
                continue
            parts.append(f"# HELP {metric.name} {escape_help(metric.help)}\n".encode())
            parts.append(f"# TYPE {metric.name} {metric.kind}\n".encode())
            parts.extend(filter(None, map(fragments.get, runs)))
        parts.append(extra)
        plain = b"".join(parts)
        return Body(plain=plain, gzip=compress(plain), series=self._series)
