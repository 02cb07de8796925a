"""The dashboards against the catalogue, the thresholds, Grafana 10.1, the SDK's types, and one another."""

from __future__ import annotations

import pytest

from tests.alerts.contract import NAMES, alerts
from tests.grafana.dashboard_parts import FOLDER, Json, dashboards, name_of, queries
from tests.grafana.link_faults import address_faults, link_faults, uid_faults, variables_by_uid
from tests.grafana.lint_checks import CHECKS

UIDS = {
    "runwatch-fleet": "Fleet",
    "runwatch-rl": "RL",
    "runwatch-sft": "SFT",
    "runwatch-datagen": "Datagen",
    "runwatch-eval": "Eval",
    "runwatch-other": "Other",
    "runwatch-job": "Run",
    "runwatch-exporter": "Runwatch",
}
"""Bookmarks and alerts lead to these: a uid is never changed."""

LARGEST_FILE_BYTES = 900_000
"""A ConfigMap holds 1 MiB at most, and each dashboard is in one of its own."""

DASHBOARDS = dashboards()


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=name_of)
@pytest.mark.parametrize("check", CHECKS)
def test_dashboard_has_no_fault(dashboard: Json, check: str) -> None:
    assert list(CHECKS[check](dashboard)) == []


def test_uids_are_those_that_bookmarks_and_alerts_rely_on() -> None:
    assert uid_faults(DASHBOARDS, UIDS) == []


def test_links_lead_somewhere() -> None:
    assert link_faults(DASHBOARDS, set(NAMES)) == []


def test_alerts_lead_to_dashboards() -> None:
    known = variables_by_uid(DASHBOARDS)
    addresses = {str(rule["annotations"]["dashboard_url"]) for rule in alerts()}  # type: ignore[index]
    assert len(addresses) >= 2
    assert [fault for address in addresses for fault in address_faults(address, known)] == []


def test_files_are_small_and_end_in_a_newline() -> None:
    for path in FOLDER.glob("*.json"):
        content = path.read_bytes()
        assert len(content) < LARGEST_FILE_BYTES, path.name
        assert content.endswith(b"}\n"), path.name


def test_no_dashboard_can_be_edited_or_remembers_a_server() -> None:
    for dashboard in DASHBOARDS:
        assert dashboard["editable"] is False
        assert dashboard.get("id") is None
        assert "runwatch" in dashboard["tags"]


def test_every_dashboard_asks_something() -> None:
    for dashboard in DASHBOARDS:
        assert len(list(queries(dashboard))) >= 5, name_of(dashboard)
