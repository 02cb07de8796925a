"""The evidence behind a job's numbers, for people and, as JSON, for scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import TypeGuard

from runwatch.catalogue import METRICS
from runwatch.derive.observation import blind_sources
from runwatch.derive.verdict_rules import rule_of
from runwatch.figures import MISSING, duration, printable, utc
from runwatch.measurements import Evidence, JobReport, Measurements
from runwatch.metric_kinds import Unit
from runwatch.report.json_values import blind_json, metrics_json
from runwatch.thresholds import MINUTE

_TIMESTAMP_SUFFIX = "_timestamp_seconds"
_SECONDS_SUFFIX = "_seconds"


def explain_text(report: JobReport, now: float) -> str:
    """Return everything that is known of a job and why: verdicts with their rules, values, evidence by topic.

    Args:
        report: The job.
        now: Unix seconds, to tell how long ago sources answered.
    """
    lines = [
        f"{printable(report.run)} (bucket {printable(report.bucket)}, site {printable(report.site)}) at {utc(now)}",
        *_section("identity", [f"{key}: {printable(value)}" for key, value in sorted(report.info.items()) if value]),
        *_section("verdicts, worst first", _verdict_lines(report)),
        *_section("sources", _source_lines(report, now)),
        *_section("values", _value_lines(report.measurements)),
    ]
    for topic, entries in _by_topic(report).items():
        lines += _section(f"evidence: {printable(topic)}", [_evidence_line(entry) for entry in entries])
    return "\n".join(lines) + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines or [MISSING])]


def _verdict_lines(report: JobReport) -> list[str]:
    return [
        f"{verdict.word}: {printable(verdict.text)} [holds when: {rule_of(verdict.word)}]"
        for verdict in report.verdicts
    ]


def _source_lines(report: JobReport, now: float) -> list[str]:
    answered = report.measurements.family("mljob_observed_timestamp_seconds")
    asked = report.measurements.family("mljob_source_configured_timestamp_seconds")
    blind = {blindness.source for blindness in blind_sources(report, now)}
    lines = []
    for (source,) in sorted({*answered, *asked}):
        seen = answered.get((source,))
        said = "never answered" if seen is None else f"last answered {utc(seen)}, {duration(max(0.0, now - seen))} ago"
        since = asked.get((source,))
        configured = "" if since is None else f", asked since {utc(since)}"
        lines.append(f"{source}: {said}{configured}{' (blind)' if source in blind else ''}")
    return lines


def _value_lines(measurements: Measurements) -> list[str]:
    measured = set(measurements.names())
    lines = []
    for name, metric in METRICS.items():
        if name not in measured:
            continue
        for values, value in sorted(measurements.family(name).items()):
            pairs = ",".join(f'{label}="{printable(text)}"' for label, text in zip(metric.labels, values, strict=True))
            lines.append(f"{name}{f'{{{pairs}}}' if pairs else ''} = {_with_unit(value, metric.unit)}")
    return lines


def _with_unit(value: float, unit: Unit) -> str:
    if unit is Unit.TIMESTAMP:
        return f"{utc(value)} ({_number(value)})"
    if unit is Unit.SECONDS:
        return f"{_number(value)} s" + (f" ({duration(value)})" if abs(value) >= MINUTE else "")
    return _number(value)


def _number(value: float) -> str:
    """Write a number so that it reads back as exactly the same: `29945`, `0.1`."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _by_topic(report: JobReport) -> dict[str, list[Evidence]]:
    topics: dict[str, list[Evidence]] = {}
    for entry in report.evidence:
        topics.setdefault(entry.topic, []).append(entry)
    return topics


def _evidence_line(entry: Evidence) -> str:
    figures = ", ".join(f"{printable(name)}={_field(name, value)}" for name, value in entry.fields.items())
    return f"{printable(entry.text)}{f' [{figures}]' if figures else ''}"


def _is_several(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, list | tuple)


def _field(name: str, value: object) -> str:
    if value is None:
        return MISSING
    if _is_several(value):
        return f"[{', '.join(_field(name, each) for each in value)}]"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return printable(str(value))
    number = float(value)
    if not math.isfinite(number):
        return str(value)
    if name.endswith(_TIMESTAMP_SUFFIX):
        return utc(number)
    if name.endswith(_SECONDS_SUFFIX):
        return f"{_number(number)} s"
    return _number(number)


def explain_json(report: JobReport, now: float) -> str:
    """Return the same as one JSON object.

    `verdicts` have `verdict`, `text` and `rule`; `evidence` maps a topic to entries with `text` and `fields`, where
    each time also stands in UTC under its name with `_utc`; `metrics` is as in the tables' JSON.
    """
    document = {
        "run": report.run,
        "bucket": report.bucket,
        "site": report.site,
        "now": now,
        "now_utc": utc(now),
        "info": dict(report.info),
        "verdicts": [{"verdict": v.word, "text": v.text, "rule": rule_of(v.word)} for v in report.verdicts],
        "blind_sources": blind_json(report, now),
        "metrics": metrics_json(report.measurements),
        "evidence": {
            topic: [{"text": entry.text, "fields": _fields_json(entry.fields)} for entry in entries]
            for topic, entries in _by_topic(report).items()
        },
    }
    return json.dumps(document, ensure_ascii=True, indent=2, allow_nan=False) + "\n"


def _fields_json(fields: Mapping[str, object]) -> dict[str, object]:
    written: dict[str, object] = {}
    for name, value in fields.items():
        written[name] = _value_json(value)
        if name.endswith(_TIMESTAMP_SUFFIX) and isinstance(value, int | float) and math.isfinite(value):
            written[name.removesuffix(_TIMESTAMP_SUFFIX) + "_utc"] = utc(float(value))
    return written


def _value_json(value: object) -> object:
    """Return the value as JSON has it; NaN and infinities, which JSON has not, as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if _is_several(value):
        return [_value_json(each) for each in value]
    return str(value)
