"""Every panel, run by Grafana's own code on a real Prometheus that scrapes real exporters on a fleet of all buckets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.grafana.expected_tables import DASH, FLEET_STATS, FLEET_TABLES, Moment, Table, shows
from tests.grafana.node_programs import build_panel_program, node_programs
from tests.grafana.watched_fleet import watched_fleet

DASHBOARDS = Path(__file__).parents[2] / "grafana" / "dashboards"
RANGE_SECONDS = 60
PLAIN = "#00000000"
"""Grafana's colour of `transparent`."""

RUNS = (("math-rl", "lab"), ("collapsed-rl", "desk"), ("delphi", "lab"), ("delphi", "desk"), ("lr-b", "lab"),
        ("datagen-qwen", "desk"), ("gpu-ci", "lab"))  # fmt: skip
"""The jobs whose page is looked at: together they have what there is."""

WITHOUT_DATA = {
    ("other", "Peak memory"): "neither squeue, scontrol nor sacct of a whole job tells memory; Iris does",
    ("run", "Peak memory of the largest task"): "as above",
    (
        "runwatch",
        "Lines of logs that could not be read",
    ): "every line of these logs that looks like metrics can be read",
    ("run", "Preemptions and failures by the scheduler"): "SLURM counts none by itself; Iris does",
}
"""Panels, by dashboard and title, that the fleet has nothing for, each with the reason."""

Panel = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """What all dashboards show: of the page of one job once for each of `RUNS`."""

    dashboards: dict[str, dict[str, Panel]]
    pages: dict[tuple[str, str], dict[str, Panel]]
    annotations: dict[str, list[dict[str, Any]]]


def has_data(panel: Panel) -> bool:
    if "table" in panel:
        return bool(panel["table"]["rows"])
    if "values" in panel:
        return any(value["number"] is not None or value["text"] != DASH for value in panel["values"])
    return any(series["points"] for series in panel["series"])


def asks(panel: Panel) -> bool:
    """Tell whether a panel is one with queries."""
    return any(kind in panel for kind in ("table", "values", "series", "error"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    node_programs()
    folder = tmp_path_factory.mktemp("panels")
    program = build_panel_program(folder)
    files = {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}
    asked: list[tuple[str, dict[str, str]]] = [(name, {}) for name in files if name != "run"]
    asked += [("run", {"run": run, "site": site}) for run, site in RUNS]
    with watched_fleet(folder) as watched:
        answers = program.run(
            {
                "dashboards": [{"dashboard": files[name], "variables": variables} for name, variables in asked],
                "prometheus": watched.prometheus.url,
                "scrapeInterval": "1s",
                "from": (watched.looked - RANGE_SECONDS) * 1000,
                "to": watched.looked * 1000,
                # A graph of one point a minute has points at full minutes alone, and the fleet is watched for less.
                "rangesTo": math.ceil(watched.looked / 60) * 60 * 1000,
            }
        )
    dashboards: dict[str, dict[str, Panel]] = {}
    pages: dict[tuple[str, str], dict[str, Panel]] = {}
    annotations: dict[str, list[dict[str, Any]]] = {}
    for (name, variables), answer in zip(asked, answers, strict=True):
        panels = {panel["title"]: panel for panel in answer["panels"] if panel["type"] != "row"}
        annotations.setdefault(name, []).extend(answer["annotations"])
        if name == "run":
            pages[variables["run"], variables["site"]] = panels
        else:
            dashboards[name] = panels
    yield Shown(dashboards, pages, annotations)


def check_table(panel: Panel, expected: Table) -> None:
    """Compare a table with what it must be: columns, rows in order, texts, and which cells have which colour."""
    table = panel["table"]
    assert tuple(table["columns"]) == expected.columns
    texts = [tuple(cell["text"] for cell in row) for row in table["rows"]]
    assert [row[:2] for row in texts] == [row[:2] for row in expected.rows]
    for number, (row, wanted) in enumerate(zip(texts, expected.rows, strict=True)):
        for column, text, cell in zip(expected.columns, row, wanted, strict=True):
            assert shows(cell, text), f"row {number}, {column}: {text!r} instead of {cell!r}"
    coloured = {
        (number, column): cell["color"]
        for number, row in enumerate(table["rows"])
        for column, cell in zip(expected.columns, row, strict=True)
        if cell.get("color", PLAIN) != PLAIN
    }
    assert coloured == expected.coloured


def test_no_query_and_no_transformation_fails(shown: Shown) -> None:
    every = [*shown.dashboards.items(), *shown.pages.items()]
    assert len(every) == 7 + len(RUNS)
    errors = [
        (where, panel["title"], panel["error"])
        for where, panels in every
        for panel in panels.values()
        if "error" in panel
    ]
    assert errors == []
    marks = [mark for found in shown.annotations.values() for mark in found]
    assert [mark for mark in marks if "error" in mark] == []


def test_every_panel_shows_data_or_is_listed(shown: Shown) -> None:
    empty = {
        (name, title)
        for name, panels in shown.dashboards.items()
        for title, panel in panels.items()
        if asks(panel) and not has_data(panel)
    }
    titles = {title for panels in shown.pages.values() for title, panel in panels.items() if asks(panel)}
    empty |= {("run", title) for title in titles if not any(has_data(page[title]) for page in shown.pages.values())}
    assert empty == set(WITHOUT_DATA)


@pytest.mark.parametrize("title", [title for title in FLEET_TABLES if title != "Firing alerts"])
def test_tables_of_the_fleet_are_as_worked_out(shown: Shown, title: str) -> None:
    check_table(shown.dashboards["fleet"][title], FLEET_TABLES[title])


def test_firing_alerts_are_told_what_pages_first_then_the_oldest(shown: Shown) -> None:
    panel = shown.dashboards["fleet"]["Firing alerts"]
    columns, rows = panel["table"]["columns"], panel["table"]["rows"]
    severity, since, name = (columns.index(title) for title in ("Severity", "Since", "Alert"))
    told = [(row[severity]["text"], row[since]["text"]) for row in rows]
    assert told == sorted(told)
    # Which of two warnings is the older depends on when the rules are evaluated, so by name.
    by_name = sorted(rows, key=lambda row: (row[severity]["text"], row[name]["text"]))
    check_table({**panel, "table": {**panel["table"], "rows": by_name}}, FLEET_TABLES["Firing alerts"])


@pytest.mark.parametrize(
    ("dashboard", "title"), [("rl", "RL"), ("sft", "SFT"), ("datagen", "Datagen"), ("eval", "Eval"), ("other", "Other")]
)
def test_a_buckets_own_dashboard_has_its_table(shown: Shown, dashboard: str, title: str) -> None:
    check_table(shown.dashboards[dashboard][title], FLEET_TABLES[title])


@pytest.mark.parametrize("title", FLEET_STATS)
def test_numbers_of_the_fleet_are_as_worked_out(shown: Shown, title: str) -> None:
    values = shown.dashboards["fleet"][title]["values"]
    assert {value["title"]: value["text"] for value in values} == FLEET_STATS[title]


def test_what_is_missing_is_a_dash_without_a_colour(shown: Shown) -> None:
    missing = 0
    for panels in (*shown.dashboards.values(), *shown.pages.values()):
        for panel in panels.values():
            for row in panel.get("table", {}).get("rows", ()):
                for cell in row:
                    assert cell["text"] not in {"", "null", "undefined", "NaN", "No data"}, panel["title"]
                    if cell["text"] == DASH:
                        missing += 1
                        assert cell.get("color", PLAIN) == PLAIN, panel["title"]
    assert missing > 50


def test_two_sites_with_a_run_of_one_name_do_not_mix(shown: Shown) -> None:
    at_lab, at_desk = shown.pages["delphi", "lab"], shown.pages["delphi", "desk"]
    steps = [{series["last"] for series in page["Step against target"]["series"]} for page in (at_lab, at_desk)]
    assert steps == [{"214", "400", "200"}, {"100"}]
    losses = [[series["last"] for series in page["Loss"]["series"]] for page in (at_lab, at_desk)]
    assert [[float(loss) for loss in found] for found in losses] == [[2.25, 2.75], [3.0, 3.5]]


def test_rows_link_to_the_page_of_their_job(shown: Shown) -> None:
    table = shown.dashboards["fleet"]["SFT"]["table"]
    links = [[link for cell in row for link in cell.get("links", ())] for row in table["rows"]]
    assert len(links) == 4 and all(len(found) == 1 for found in links)
    assert [found[0].split("?")[0] for found in links] == ["/d/runwatch-job"] * 4
    jobs = [dict(part.split("=", 1) for part in found[0].split("?")[1].split("&")) for found in links]
    assert [(job["var-run"], job["var-site"]) for job in jobs] == [
        ("done-sft", "lab"), ("delphi", "lab"), ("delphi", "desk"), ("lr-a", "lab"),
    ]  # fmt: skip
    for job in jobs:
        assert math.isclose(float(job["to"]) - float(job["from"]), RANGE_SECONDS * 1000)


def test_a_job_leads_to_its_page_at_the_scheduler_and_to_its_checkpoints(shown: Shown) -> None:
    tables = {job: page["Scheduler and checkpoints"]["table"] for job, page in shown.pages.items()}
    assert tables["delphi", "lab"]["columns"] == ["What", "Page", "Site", "When"]
    rows = sorted(tables["delphi", "lab"]["rows"], key=lambda row: str(row[0]["text"]))
    told = [(row[0]["text"], row[2]["text"], row[3]["text"]) for row in rows]
    assert told == [("checkpoints", "lab", "now"), ("scheduler", "lab", "now")]
    for row in rows:
        assert row[1]["links"] == [row[1]["text"]]
    checkpoints, scheduler = (row[1]["text"] for row in rows)
    assert scheduler == "https://slurm.example.org/jobs?id=102"
    assert checkpoints.startswith("https://files.example.org/") and checkpoints.endswith("/lab/delphi")
    # The desk's config names no pages, and its folders are on a disk of its own.
    assert tables["delphi", "desk"]["rows"] == []


def test_a_jobs_table_of_causes_has_all_columns_whatever_was_measured(shown: Shown) -> None:
    titles = ["Cause", "Interruptions", "Newest interruption", "Gaps", "Time in gaps", "Newest gap ended"]
    tables = {job: page["Interruptions and gaps by cause"]["table"] for job, page in shown.pages.items()}
    assert {job: table["columns"] for job, table in tables.items()} == dict.fromkeys(RUNS, titles)
    causes = ("chain", "failure", "preemption", "unexplained", "unknown")
    rows = {row[0]["text"]: [cell["text"] for cell in row[1:]] for row in tables["delphi", "lab"]["rows"]}
    assert list(rows) == [f"{cause} at lab" for cause in causes]
    assert [rows["preemption at lab"][column] for column in (0, 2, 3)] == ["1", "1", "25 mins"]
    assert all(Moment().holds(rows["preemption at lab"][column]) for column in (1, 4))
    assert rows["unexplained at lab"] == [DASH, DASH, "0", "0 s", DASH]
    # Without a scheduler nobody knows of interruptions, nor why steps stood still.
    alone = [[cell["text"] for cell in row] for row in tables["delphi", "desk"]["rows"]]
    assert alone == [["unknown at desk", DASH, DASH, "0", "0 s", DASH]]


def test_the_first_row_that_cannot_be_read_is_seen(shown: Shown) -> None:
    [line] = shown.dashboards["runwatch"]["Rows of histories that could not be read"]["series"]
    assert line["name"].startswith("delphi, 127.0.0.1:")
    assert line["last"] == "1"


def test_only_requests_for_histories_are_set_against_the_budget(shown: Shown) -> None:
    panels = shown.dashboards["runwatch"]
    lines = [line["name"] for line in panels["Requests for histories against W&B's budget"]["series"]]
    assert lines == ["histories"]  # no history of the fleet is in W&B, so no budget
    sources = {line["name"] for line in panels["Requests a minute"]["series"]}
    assert {"history", "checkpoints", "scheduler"} < sources


def test_the_exporters_own_numbers_are_as_worked_out(shown: Shown) -> None:
    panels = shown.dashboards["runwatch"]
    assert [value["text"] for value in panels["Jobs"]["values"]] == ["15"]
    assert [value["text"] for value in panels["Scraped"]["values"]] == ["100%"]
    assert [value["text"] for value in panels["Sources down"]["values"]] == ["0"]
