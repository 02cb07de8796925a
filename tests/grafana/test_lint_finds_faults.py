"""Every check of the dashboards is run on a small one that has just the fault that it is there for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.grafana.dashboard_parts import Json
from tests.grafana.link_faults import link_faults, uid_faults
from tests.grafana.lint_checks import CHECKS
from tests.grafana.sound_dashboard import sound


def test_no_check_finds_a_fault_where_there_is_none() -> None:
    dashboard = sound()
    assert {name: list(check(dashboard)) for name, check in CHECKS.items()} == {name: [] for name in CHECKS}
    assert link_faults([dashboard], set()) == []
    assert uid_faults([dashboard], {"runwatch-fleet": "Fleet"}) == []


STAT, TABLE = ("panels", 0), ("panels", 2, "panels", 0)
STAT_DEFAULTS = (*STAT, "fieldConfig", "defaults")
GRAPH_DEFAULTS = ("panels", 1, "fieldConfig", "defaults")
ANNOTATION = ("annotations", "list", 0)
VARIABLE = ("templating", "list", 1)

BROKEN: list[tuple[str, tuple[str | int, ...], object, str]] = [
    ("queries", (*STAT, "targets", 0, "expr"), "max by (run (mljob_step)", "does not parse"),
    ("queries", (*STAT, "targets", 0, "expr"), "", "no query"),
    ("queries", (*STAT, "targets", 0, "expr"), "mljob_stepp", "no metric mljob_stepp"),
    ("queries", (*STAT, "targets", 0, "expr"), '{__name__="mljob_step"}', "no metric None"),
    ("queries", (*STAT, "targets", 0, "expr"), "runwatch_poll_duration_seconds", "no metric"),
    ("queries", (*STAT, "targets", 0, "expr"), 'mljob_step{cause="chain"}', "mljob_step has no label cause"),
    ("queries", (*STAT, "targets", 0, "expr"), "max by (run, cause) (mljob_step)", "the label cause"),
    ("queries", (*STAT, "targets", 0, "expr"), 'mljob_step{site="$cluster"}', "no variable cluster"),
    ("queries", (*STAT, "targets", 0, "expr"), "mljob_step / mljob_target_step", "may divide by zero"),
    ("queries", (*STAT, "targets", 0, "legendFormat"), "{{owner}}", "the label owner"),
    ("queries", (*TABLE, "targets", 1, "expr"), "mljob_no_eta", "Fleet / Jobs B: no metric mljob_no_eta"),
    ("queries", (*VARIABLE, "query", "query"), "label_values(mljob_infos, site)", "variable site: no metric"),
    ("queries", (*VARIABLE, "query", "query"), "query_result(mljob_infos)", "variable site: no metric"),
    ("queries", (*ANNOTATION, "expr"), "mljob_gap_end * 1000", "annotation Gaps: no metric"),
    ("queries", (*ANNOTATION, "titleFormat"), "{{reason}}", "annotation Gaps"),
    ("words", (*STAT, "description"), " ", "no description"),
    ("words", (*TABLE, "title"), "", "no title"),
    ("units", (*STAT_DEFAULTS, "unit"), "", "Fleet / Steps: no unit"),
    ("units", (*TABLE, "fieldConfig", "overrides", 1, "matcher", "options"), "Loss", "no unit for column ETA"),
    ("units", (*TABLE, "transformations", 1, "options", "renameByName"), {}, "no unit for column Value #A"),
    ("data sources", (*STAT, "datasource", "uid"), "P1809F7CD0C75ACF3", "not one of the variables"),
    ("data sources", (*STAT, "datasource"), None, "no data source"),
    ("data sources", (*TABLE, "targets", 0, "datasource"), {"type": "prometheus", "uid": "abc"}, "Fleet / Jobs A"),
    ("data sources", (*VARIABLE, "datasource", "type"), "loki", "of type loki"),
    ("data sources", (*ANNOTATION, "datasource", "uid"), "abc", "annotation Gaps"),
    ("limits", (*STAT_DEFAULTS, "thresholds", "steps", 1, "value"), 0.85, "limit 0.85 has no home"),
    ("missing values", (*STAT_DEFAULTS, "noValue"), "0", "is not —"),
    ("missing values", (*STAT_DEFAULTS, "mappings"), [], "has a colour"),
    ("missing values", (*STAT_DEFAULTS, "mappings", 0, "options", "result", "color"), "green", "has a colour"),
    (
        "missing values",
        (*STAT_DEFAULTS, "mappings", 0, "options", "result", "color"),
        "transparent",
        "Fleet / Steps: a value cannot be seen",
    ),
    (
        "missing values",
        (*TABLE, "fieldConfig", "defaults", "mappings", 0, "options", "result", "color"),
        "text",
        "Fleet / Jobs: a missing value has a colour",
    ),
    ("versions", ("schemaVersion",), 39, "schemaVersion 39"),
    ("versions", (*STAT, "type"), "canvas", "no panel type canvas"),
    ("versions", (*TABLE, "transformations", 0, "id"), "transpose", "no transformation transpose"),
    ("versions", (*STAT, "options"), {"wideLayout": True}, "wideLayout is newer"),
    ("layout", (*STAT, "gridPos"), {"x": 20, "y": 0, "w": 5, "h": 4}, "beyond the page"),
    ("layout", (*STAT, "gridPos"), {"x": 0, "y": 1, "w": 12, "h": 4}, "lies on another"),
    ("layout", (*TABLE, "id"), 1, "two panels have the id 1"),
    (
        "widths",
        (*TABLE, "fieldConfig", "overrides", 1, "properties"),
        [{"id": "unit", "value": "s"}, {"id": "custom.width", "value": 1241}],
        "the columns need 1391 pixels, there are 1390",
    ),
    ("colours of lines", (*GRAPH_DEFAULTS, "color", "mode"), "thresholds", "coloured by thresholds"),
    ("colours of lines", (*GRAPH_DEFAULTS, "color"), None, "coloured by None"),
    ("ends of axes", (*GRAPH_DEFAULTS, "custom"), {}, "Fleet / Goodput: no end of the axis"),
    ("columns of links", (*STAT_DEFAULTS, "links"), [{"url": '/d/x?var-run=${__data.fields["Name"]}'}], "column Name"),
    ("types", ("refreshRate",), "1m", "refreshRate is unknown"),
    ("types", (*STAT, "gridPos", "w"), "12", "grid_pos.w is '12'"),
    ("types", (*STAT, "options"), {"colorMode": "rainbow"}, "color_mode is 'rainbow'"),
    ("types", (*TABLE, "fieldConfig", "defaults", "units"), "s", "units is unknown"),
]


def broken(path: tuple[str | int, ...], value: object) -> Json:
    """Return the sound dashboard with one thing set to another value."""
    dashboard: Json = json.loads(json.dumps(sound()))
    place: Any = dashboard
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return dashboard


@pytest.mark.parametrize(("check", "path", "value", "said"), BROKEN)
def test_check_finds_its_fault(check: str, path: tuple[str | int, ...], value: object, said: str) -> None:
    assert [fault for fault in CHECKS[check](broken(path, value)) if said in fault]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/d/runwatch-flet", "no dashboard runwatch-flet"),
        ("/d/runwatch-fleet?var-run=x", "runwatch-fleet has no variable run"),
        ("/d/runwatch-fleet?${owner:queryparam}", "no variable owner"),
        ("/alerts/runbooks/MLJobStaled.md", "no such runbook"),
        ("docs/rules.md", "leads nowhere"),
        ("", "leads nowhere"),
    ],
)
def test_link_that_leads_nowhere_is_found(address: str, said: str) -> None:
    faults = link_faults([broken(("links", 0, "url"), address)], {"MLJobStalled"})
    assert [fault for fault in faults if said in fault]


def test_link_of_a_cell_is_looked_at() -> None:
    cell = [{"title": "", "url": "/d/nowhere"}]
    assert link_faults([broken((*STAT_DEFAULTS, "links"), cell)], set()) == [
        "Fleet / Steps: /d/nowhere: no dashboard nowhere"
    ]


def test_link_to_a_tag_that_no_dashboard_has_is_found() -> None:
    dashboard = broken(("links", 0, "type"), "dashboards")
    dashboard["links"][0]["tags"] = ["runwach"]
    assert link_faults([dashboard], set()) == ["Fleet: no dashboard has the tag runwach"]


@pytest.mark.parametrize(
    "found",
    [
        [],
        [("runwatch-fleet", "Flotilla")],
        [("runwatch-fleet", "Fleet"), ("runwatch-fleet", "Fleet")],
        [("runwatch-fleet", "Fleet"), ("generated-1", "RL")],
    ],
)
def test_changed_uids_are_found(found: list[tuple[str, str]]) -> None:
    assert uid_faults([{"uid": uid, "title": title} for uid, title in found], {"runwatch-fleet": "Fleet"})
