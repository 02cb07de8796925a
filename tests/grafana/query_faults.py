"""What is wrong with a dashboard's queries: they do not parse, or use what nothing exports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from promql_parser import Call, StringLiteral

from runwatch.alerting.records import RECORDINGS
from runwatch.catalogue import JOB_LABELS, JOB_METRICS, METRICS
from runwatch_dashboards.variables import NO_LABEL
from tests.alerts.expressions import named_labels, nodes, parse, selectors, unguarded_divisions
from tests.grafana.dashboard_parts import Json, Query, queries, variable_query, variables
from tests.grafana.grafana_variables import VALUES, filled, variable_names

TARGET_LABELS = {"job", "instance", "shard", NO_LABEL}
ALERT_LABELS = {"alertname", "alertstate", "severity", "action", "source", *JOB_LABELS}
OF_PROMETHEUS = {
    "ALERTS": ALERT_LABELS,
    "ALERTS_FOR_STATE": ALERT_LABELS,
    "up": set(),
    "scrape_duration_seconds": set(),
    "scrape_samples_scraped": set(),
    "scrape_samples_post_metric_relabeling": set(),
    "scrape_series_added": set(),
    "process_cpu_seconds_total": set(),
    "process_max_fds": set(),
    "process_open_fds": set(),
    "process_resident_memory_bytes": set(),
    "process_start_time_seconds": set(),
    "process_virtual_memory_bytes": set(),
}
"""What Prometheus makes of a scrape and of the rules, and client_python of a process: each with its labels."""

_RECORDED = {rule.name for rule in RECORDINGS}
_RECORDED_LABELS = {*JOB_LABELS, "source", "state", "phase", "signal"}
_JOB_NAMES = {metric.name for metric in JOB_METRICS}
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
_LEGEND_LABEL = re.compile(r"{{\s*(\w+)\s*}}")
_LABEL_MAKERS = {"label_replace", "label_join"}


def _labels_of(name: str) -> set[str] | None:
    """Return the labels that a series of this name may have, None where nothing exports it."""
    if name in OF_PROMETHEUS:
        return OF_PROMETHEUS[name] | TARGET_LABELS
    if name in _RECORDED:
        return _RECORDED_LABELS
    if name in METRICS:
        metric = METRICS[name]
        if metric.kind == "histogram":
            return None
        return {*metric.labels, *(JOB_LABELS if name in _JOB_NAMES else ()), *TARGET_LABELS}
    for part in _HISTOGRAM_PARTS:
        metric_or_none = METRICS.get(name.removesuffix(part)) if name.endswith(part) else None
        if metric_or_none is not None and metric_or_none.kind == "histogram":
            return {*metric_or_none.labels, *TARGET_LABELS, *({"le"} if part == "_bucket" else ())}
    return None


def _made_labels(tree: object) -> set[str]:
    """Return the labels that an expression makes itself."""
    made = set()
    for node in nodes(tree):
        if isinstance(node, Call) and node.func.name in _LABEL_MAKERS and isinstance(node.args[1], StringLiteral):
            made.add(node.args[1].val)
    return made


def _faults(query: Query, declared: Mapping[str, str]) -> Iterator[str]:
    undeclared = variable_names(query.text) - set(declared) - set(VALUES)
    if undeclared:
        yield f"{query.where}: no variable {', '.join(sorted(undeclared))}"
    expression = filled(query.text, declared)
    if not expression.strip():
        yield f"{query.where}: no query"
        return
    try:
        tree = parse(expression)
    except ValueError as error:
        yield f"{query.where}: does not parse: {error}"
        return
    known = _made_labels(tree)
    for selector in selectors(expression):
        labels = _labels_of(selector.name or "")
        if labels is None:
            yield f"{query.where}: no metric {selector.name}"
            continue
        known |= labels
        unknown = set(selector.labels) - labels
        if unknown:
            yield f"{query.where}: {selector.name} has no label {', '.join(sorted(unknown))}"
    unknown = (named_labels(expression) | set(_LEGEND_LABEL.findall(query.legend))) - known
    if unknown:
        yield f"{query.where}: no metric of the query has the label {', '.join(sorted(unknown))}"
    for divisor in unguarded_divisions(expression):
        yield f"{query.where}: may divide by zero: {divisor}"


def query_faults(dashboard: Json) -> list[str]:
    """Return what is wrong with the queries of a dashboard's panels, variables and annotations."""
    declared = {
        variable["name"]: variable_query(variable) if variable.get("type") == "textbox" else "x"
        for variable in variables(dashboard)
    }
    return [fault for query in queries(dashboard) for fault in _faults(query, declared)]
