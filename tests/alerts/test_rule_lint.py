"""The rule files against the contract's table, the catalogue and what makes an alert usable."""

from __future__ import annotations

import re

import pytest
from promql_parser import BinaryExpr

from runwatch.catalogue import JOB_LABELS, JOB_METRICS, METRICS
from tests.alerts.contract import ALERTS, NAMES, TABLE, Row, alerts, groups, rules, seconds
from tests.alerts.expressions import named_labels, nodes, parse, selectors, unguarded_divisions

OF_PROMETHEUS = {"up": {"job", "shard"}, "ALERTS": {"alertname", "alertstate", "severity"}}
RECORDED_LABELS = {*JOB_LABELS, "source", "state", "phase", "signal"}
TARGET_LABELS = {"shard"}

EXPRESSIONS = [
    (str(rule.get("alert", rule.get("record"))), str(rule["expr"])) for rule in [*rules("record"), *alerts()]
]
QUERY = re.compile(r"printf `([^`]*)`")


def templates() -> list[tuple[str, str]]:
    return [
        (f"{rule['alert']} {name}", str(text))
        for rule in alerts()
        for name, text in rule["annotations"].items()  # type: ignore[attr-defined]
    ]


def queries() -> list[tuple[str, str]]:
    found = [
        (where, query.replace("%q", '"x"').replace("\\", ""))
        for where, text in templates()
        for query in QUERY.findall(text)
    ]
    assert found
    return found


def identity(rule: dict[str, object]) -> tuple[str, str, str]:
    labels: dict[str, str] = rule["labels"]  # type: ignore[assignment]
    return str(rule["alert"]), labels["severity"], labels.get("action", "")


def test_alerts_are_those_of_the_contract_each_once() -> None:
    assert sorted(map(identity, alerts())) == sorted((row.name, row.severity, row.action) for row in TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.name}-{row.severity}{row.action}")
def test_alert_waits_as_long_as_the_contract_says_and_pages_are_kept(row: Row) -> None:
    [rule] = [rule for rule in alerts() if identity(rule) == (row.name, row.severity, row.action)]
    assert seconds(rule.get("for")) == row.wait
    kept = row.severity == "critical" and row.name != "MLJobRLCollapse"
    assert seconds(rule.get("keep_firing_for")) == (300 if kept else 0)


def test_every_condition_holds_at_two_evaluations_before_it_fires() -> None:
    [interval] = {seconds(group["interval"]) for group in groups()}
    waits = {rule["alert"]: seconds(rule.get("for")) for rule in alerts()}
    assert waits.pop("Watchdog") == 0
    assert min(waits.values()) >= 2 * interval > 0


def test_labels_hold_no_template() -> None:
    assert all(
        "{{" not in str(value) and "$" not in str(value) for rule in alerts() for value in rule["labels"].values()
    )  # type: ignore[attr-defined]


def test_every_alert_has_its_four_annotations_and_paths() -> None:
    for rule in alerts():
        annotations: dict[str, str] = rule["annotations"]  # type: ignore[assignment]
        assert set(annotations) == {"summary", "description", "runbook_url", "dashboard_url"}
        assert annotations["runbook_url"] == f"/alerts/runbooks/{rule['alert']}.md"
        assert annotations["dashboard_url"].startswith("/d/")
        assert "\n" not in annotations["summary"]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert sorted(path.stem for path in (ALERTS / "runbooks").glob("*.md")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_runbook_says_what_a_woken_person_needs(name: str) -> None:
    text = (ALERTS / "runbooks" / f"{name}.md").read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert headings == [name, "Meaning", "Impact", "How to look", "What to do", "What looks like it and is not"]
    assert len(text.splitlines()) <= 60
    if name.startswith("MLJob"):
        assert "runwatch explain" in text


@pytest.mark.parametrize("name", NAMES)
def test_queries_of_a_runbook_use_what_exists(name: str) -> None:
    text = (ALERTS / "runbooks" / f"{name}.md").read_text()
    blocks = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    assert blocks
    for query in (line for block in blocks for line in block.splitlines() if line.strip()):
        _check_selectors(f"{name}.md", query.replace("RUN", "x"))


def _check_selectors(where: str, expression: str) -> None:
    recorded = {str(rule["record"]) for rule in rules("record")}
    of_jobs = {metric.name for metric in JOB_METRICS}
    for selector in selectors(expression):
        if selector.name in OF_PROMETHEUS:
            known = OF_PROMETHEUS[selector.name] | set(JOB_LABELS)
        elif selector.name in recorded:
            known = RECORDED_LABELS
        else:
            assert selector.name in METRICS, f"{where}: no metric {selector.name}"
            job_labels = JOB_LABELS if selector.name in of_jobs else ()
            known = {*METRICS[selector.name].labels, *job_labels}
        assert set(selector.labels) <= known, f"{where}: {selector}"


@pytest.mark.parametrize(("where", "expression"), [*EXPRESSIONS, *queries()])
def test_expression_uses_what_exists(where: str, expression: str) -> None:
    _check_selectors(where, expression)
    known = {label for metric in METRICS.values() for label in metric.labels} | RECORDED_LABELS | TARGET_LABELS
    assert named_labels(expression) <= known
    assert not unguarded_divisions(expression)


@pytest.mark.parametrize("expression", ["a / b", "a / (b >= 0)", "a % b", "a / 0", "(a / (b)) > 1", "sum(a) / sum(b)"])
def test_unguarded_division_is_found(expression: str) -> None:
    assert unguarded_divisions(expression)


@pytest.mark.parametrize("expression", ["a / (b > 0)", "a / 2", "a / (sum(b) > 0)"])
def test_guarded_division_is_none(expression: str) -> None:
    assert not unguarded_divisions(expression)


def test_no_rule_but_the_dead_mans_switch_lacks_a_comparison() -> None:
    for name, expression in EXPRESSIONS:
        if name == "Watchdog" or ":" in name:
            continue
        operators = {str(node.op) for node in nodes(parse(expression)) if isinstance(node, BinaryExpr)}
        compares = operators & {">", "<", ">=", "<=", "==", "!="}
        assert compares or 'state="vanished"' in expression, name


def test_recorded_jobs_carry_no_target_label_but_where_replicas_are_compared() -> None:
    for rule in rules("record"):
        used = {selector.name for selector in selectors(str(rule["expr"]))} & set(METRICS)
        if used and rule["record"] != "mljob:replica_outdated":
            assert " by (" in str(rule["expr"]) or "and on (run, site)" in str(rule["expr"]), rule["record"]
