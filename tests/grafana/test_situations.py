"""What panels show of two replicas that see unlike things, of the past, of a shard that is down, and of odd names.

Two replicas `a` and `b` of one shard tell of jobs that are each one situation, `c` is a shard of its own. The panels
are looked at once; then labels of a job change, another source of a job goes unread, a job is forgotten, `c` goes down,
and they are looked at again: now, and at the first moment.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.e2e.prometheus_process import Prometheus
from tests.e2e.running_server import eventually
from tests.grafana.expected_tables import DASH, ORANGE
from tests.grafana.node_programs import build_panel_program, node_programs
from tests.grafana.told_jobs import NAMES, Replicas
from tests.grafana.told_pages import HOUR, Page, sample, served
from tests.grafana.watched_fleet import prometheus_of, settle

DASHBOARDS = Path(__file__).parents[2] / "grafana" / "dashboards"
RANGE_SECONDS = 60
PLAIN = "#00000000"
BUSY = "Share of the time spent polling"
OF_NOW = {"Last confirmed", "Config loaded"}
"""Panels that say how long ago something was, by the reader's clock."""

Panels = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Looked:
    """The panels of dashboards and of runs' pages by their titles, and the marks of the pages, at one look."""

    dashboards: dict[str, Panels]
    pages: dict[str, Panels]
    marks: dict[str, list[tuple[str, float]]]


RUNS = {"log-blind": "s", "gap": "s", "half-each": "s", "next-link": "s", "relabelled": "s", "unread": "unread"}


def looked(program: Any, prometheus: Prometheus, at: float, *, drawn: bool = False) -> Looked:
    """Return what the dashboards show at a moment; of runs with odd names the first panel of the page alone.

    Args:
        program: The panels' program.
        prometheus: What it asks.
        at: The end of the time range, in Unix seconds.
        drawn: Whether graphs reach beyond it, to the next full minute: some have points there alone.
    """
    files = {name: json.loads((DASHBOARDS / f"{name}.json").read_text()) for name in ("fleet", "runwatch", "run")}
    state = {**files["run"], "panels": files["run"]["panels"][:1]}
    asked = [("fleet", files["fleet"], {}), ("runwatch", files["runwatch"], {"budget": ""})]
    asked += [(run, files["run"], {"run": run, "site": site}) for run, site in RUNS.items()]
    asked += [(name, state, {"run": name, "site": "names"}) for name in NAMES]
    answers = program.run(
        {
            "dashboards": [{"dashboard": dashboard, "variables": chosen} for _, dashboard, chosen in asked],
            "prometheus": prometheus.url,
            "scrapeInterval": "1s",
            "from": (at - RANGE_SECONDS) * 1000,
            "to": at * 1000,
            "rangesTo": (math.ceil(at / 60) * 60 if drawn else at) * 1000,
        }
    )
    panels: dict[str, Panels] = {}
    marks: dict[str, list[tuple[str, float]]] = {}
    for (name, _, _), answer in zip(asked, answers, strict=True):
        panels[name] = {panel["title"]: panel for panel in answer["panels"] if panel["type"] != "row"}
        marks[name] = [(mark["title"], mark["time"]) for one in answer["annotations"] for mark in one.get("marks", ())]
    dashboards = {name: panels.pop(name) for name in ("fleet", "runwatch")}
    return Looked(dashboards, panels, marks)


@dataclass(frozen=True, slots=True)
class Looks:
    """When the replicas answered, the runs that the selector has, and what is shown then, later, and when all is over.

    `polling` is the share of the time that each source is polled.
    `drawn` is the first look with graphs that reach further, `again` the first moment as it is shown later.
    """

    now: float
    selectable: set[str]
    polling: dict[str, float]
    first: Looked
    drawn: Looked
    later: Looked
    again: Looked
    over: Looked


def _selectable(prometheus: Prometheus) -> set[str]:
    """Return the runs that the selector of *Run* has: its query's answer as Grafana writes it, cut by its pattern."""
    listed = json.loads((DASHBOARDS / "run.json").read_text())["templating"]["list"]
    [variable] = [each for each in listed if each["name"] == "run"]
    query = variable["query"]["query"].removeprefix("query_result(").removesuffix(")")
    query = query.replace("$site", ".*").replace("${search:regex}", "").replace("$__range", "60s")
    cut = re.compile(variable["regex"].strip("/"))
    texts = [f'{{run="{labels["run"]}"}} {value} 1700000000000' for labels, value in prometheus.query(query)]
    return {found[1] for found in map(cut.match, texts) if found is not None}


def _polling(prometheus: Prometheus) -> dict[str, float]:
    """Return what the graph of polls draws of each source, over as few seconds as the replicas are watched for.

    The graph has a point each half minute, of which none may have samples before it yet.
    """
    panels = json.loads((DASHBOARDS / "runwatch.json").read_text())["panels"]
    [panel] = [each for each in panels if each["title"] == BUSY]
    query = panel["targets"][0]["expr"].replace("$site", ".*").replace("$__rate_interval", "5s")
    return {labels["source"]: value for labels, value in prometheus.query(query)}


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looks]:
    node_programs()
    folder = tmp_path_factory.mktemp("situations")
    program = build_panel_program(folder)
    replicas = Replicas(time.time())
    up = "".join(
        sample("runwatch_source_up", 1, source=source, site="unread")
        + sample("runwatch_source_interval_seconds", 60, source=source, site="unread")
        for source in ("history", "log")
    )
    pages: dict[str, Page] = {"a": lambda: replicas.a() + up, "b": lambda: replicas.b() + up, "c": replicas.c}
    with served(pages) as target:
        targets = [
            {
                "targets": [target],
                "labels": {"instance": name, "__metrics_path__": f"/{name}", "shard": "1" if name == "c" else "0"},
            }
            for name in pages
        ]
        with prometheus_of(targets, folder) as prometheus:
            eventually(lambda: bool(prometheus.query('mljob:state{run="elsewhere"}')), "all is recorded", 90)
            outdated = 'mljob:replica_outdated{run="gap", source="scheduler", instance="b"}'
            eventually(lambda: bool(prometheus.query(outdated)), "b is known to be blind", 90)
            replicas.gap_ended = True
            settle(prometheus)
            selectable, polling, at = _selectable(prometheus), _polling(prometheus), time.time()
            first, drawn = looked(program, prometheus, at), looked(program, prometheus, at, drawn=True)
            replicas.later = True
            down = 'ALERTS{alertname="RunwatchJobUnobserved", source="log", alertstate="firing"}'
            eventually(lambda: bool(prometheus.query(down)), "the second source is known to be unread", 90)
            later = looked(program, prometheus, time.time())
            again = looked(program, prometheus, at)
            replicas.over, up = True, ""
            eventually(lambda: len(prometheus.query("mljob:state")) == 1, "the rules know that all is over", 90)
            over = looked(program, prometheus, time.time())
            yield Looks(replicas.now, selectable, polling, first, drawn, later, again, over)


def rows(panel: dict[str, Any]) -> list[dict[str, str]]:
    """Return a table's rows, each the texts of its cells by column."""
    columns = panel["table"]["columns"]
    return [{column: cell["text"] for column, cell in zip(columns, row, strict=True)} for row in panel["table"]["rows"]]


def row_of(panel: dict[str, Any], column: str, text: str) -> dict[str, str]:
    [found] = [row for row in rows(panel) if row[column] == text]
    return found


def texts(panel: dict[str, Any]) -> list[str]:
    return [value["text"] for value in panel["values"]]


def colour(panel: dict[str, Any], first: str, column: str) -> str:
    """Return the colour of a cell of the row that begins with a text."""
    [row] = [row for row in panel["table"]["rows"] if row[0]["text"] == first]
    return str(row[panel["table"]["columns"].index(column)].get("color", PLAIN))


def test_a_replica_that_a_single_source_does_not_answer_says_nothing_of_the_trend(looks: Looks) -> None:
    fleet, page = looks.first.dashboards["fleet"], looks.first.pages["log-blind"]
    assert row_of(fleet["Bring-up: no step or result yet"], "Job", "log-blind")["Trend"] == "stable"
    assert texts(page["Trend"]) == ["stable"]


def test_jobs_are_counted_by_what_the_replica_says_that_sees(looks: Looks) -> None:
    fleet = looks.first.dashboards["fleet"]
    # `disagree` has failed, as one of two replicas says that both see; both lack a source of `unread`.
    assert texts(fleet["Jobs in trouble"]) == ["1"]
    assert texts(fleet["Jobs to look at"]) == ["1"]


def test_a_job_whose_replicas_disagree_is_counted_once(looks: Looks) -> None:
    fleet = looks.first.dashboards["fleet"]
    counted = row_of(fleet["Jobs by bucket and state"], "Bucket", "sft")
    jobs = 6 + len(NAMES) + 3  # in `s` (with `forgotten` and `disagree`), of odd names, and at the three other sites
    assert sum(int(count) for state, count in counted.items() if state != "Bucket") == jobs + 1
    assert counted["failed"] == counted["timeout"] == "0"
    assert row_of(fleet["SFT"], "Job", "disagree")["State"] == "running"


def test_a_gap_is_one_gap_whatever_causes_two_replicas_tell(looks: Looks) -> None:
    health = row_of(looks.first.dashboards["fleet"]["Training health"], "Job", "gap")
    assert (health["Gaps"], health["Gap time"]) == ("1", "25.0 mins")
    page = looks.first.pages["gap"]
    table = {row["Cause"]: (row["Gaps"], row["Time in gaps"]) for row in rows(page["Interruptions and gaps by cause"])}
    assert table == {"preemption at s": ("1", "25 mins"), "unknown at s": ("0", "0 s")}
    lost = {line["name"]: line["last"] for line in page["Time lost in gaps, by cause"]["series"]}
    assert lost == {"preemption at s": "25 mins", "unknown at s": "0 s"}


def test_the_end_of_a_gap_is_marked_once_at_its_time_on_its_own_page(looks: Looks) -> None:
    marked = {run: marks for run, marks in looks.drawn.marks.items() if marks}
    assert list(marked) == ["gap"]
    [(title, when)] = marked["gap"]
    assert title == "A gap ended: preemption"
    assert when == pytest.approx((looks.now - HOUR / 2) * 1000, abs=1)


def test_two_replicas_that_see_a_half_each_are_not_as_good_as_blind(looks: Looks) -> None:
    page = looks.first.pages["half-each"]
    assert [texts(page[title]) for title in ("State", "Phase", "Trend")] == [["running"], ["stepping"], ["stable"]]
    bars = {line["name"]: line["last"] for line in page["State, phase and trend"]["series"]}
    assert bars == {"State at s": "running", "Phase at s": "stepping", "Trend at s": "stable"}


def test_a_blind_replica_ends_no_job_that_goes_on(looks: Looks) -> None:
    page = looks.first.pages["next-link"]
    assert [texts(page[title]) for title in ("State", "Ended", "Exit code")] == [["running"], [DASH], [DASH]]
    assert row_of(looks.first.dashboards["fleet"]["SFT"], "Job", "next-link")["ETA"] == "1.0 hour"


def test_chunks_that_moved_between_two_polls_are_no_more_of_them(looks: Looks) -> None:
    assert row_of(looks.first.dashboards["fleet"]["Datagen"], "Run", "dead")["of"] == "5"


def test_cells_of_a_grid_are_those_that_the_replica_sees_now(looks: Looks) -> None:
    [row] = rows(looks.first.dashboards["fleet"]["SFT grids"])
    assert (row["Running"], row["Done"], row["Long pole's ETA"]) == ("1", "2", "1.0 hour")


def test_colours_begin_where_the_rules_do(looks: Looks) -> None:
    fleet = looks.first.dashboards["fleet"]
    assert [colour(fleet["Datagen"], job, "avg_turns") for job in ("dead", "alive")] == [ORANGE, PLAIN]
    assert [colour(fleet["RL"], job, "Grad Norm") for job in ("at-limit", "above-limit")] == [PLAIN, ORANGE]


def test_two_replicas_do_not_poll_twice_as_long(looks: Looks) -> None:
    # Replica `a` polls both sources for 0.6 s of each second, `b` the history too.
    # A scrape that comes a second late moves a rate over five seconds by a fifth; two replicas would be 1.2.
    assert looks.polling == {"history": pytest.approx(0.6, abs=0.25), "log": pytest.approx(0.6, abs=0.25)}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_an_odd_name_is_found_and_linked(looks: Looks, name: str) -> None:
    assert name in looks.selectable
    assert texts(looks.first.pages[name]["State"]) == ["running"]
    table = looks.first.dashboards["fleet"]["SFT"]["table"]
    [links] = [row[0]["links"] for row in table["rows"] if row[0]["text"] == name]
    [address] = links
    parts = dict(part.split("=", 1) for part in address.partition("?")[2].split("&"))
    assert (unquote(parts["var-run"]), parts["var-site"]) == (name, "names")


def test_of_a_job_whose_labels_changed_it_is_said_which_hold(looks: Looks) -> None:
    told = [
        [(row["Owner"], row["When"]) for row in rows(look.pages["relabelled"]["What it is, and links out"])]
        for look in (looks.first, looks.later)
    ]
    assert told == [[("ana", "now")], [("bo", "now"), ("ana", "earlier")]]
    owners = [row for row in rows(looks.later.dashboards["fleet"]["SFT"]) if row["Job"] == "relabelled"]
    assert len(owners) == 1


def test_alerts_on_two_sources_of_a_job_are_two_each_since_its_own_time(looks: Looks) -> None:
    since = {row["Source"]: row["Since"] for row in rows(looks.later.pages["unread"]["Alerts now"])}
    assert set(since) == {"history", "log"}
    assert since["history"] < since["log"]


def test_a_shard_that_is_down_is_said_beside_the_counts_that_lack_it(looks: Looks) -> None:
    for title in ("Jobs in trouble", "Jobs to look at", "Jobs that are not over, by bucket"):
        shown = [
            {value["title"]: value["text"] for value in look.dashboards["fleet"][title]["values"]}
            for look in (looks.first, looks.later)
        ]
        assert "shards not scraped" not in shown[0]
        assert shown[1]["shards not scraped"] == "1"
    listed = {row["Job"] for row in rows(looks.later.dashboards["fleet"]["SFT"])}
    assert not {"elsewhere", "forgotten"} & listed


def test_a_moment_of_the_past_is_shown_as_it_was(looks: Looks) -> None:
    for of in ("dashboards", "pages"):
        then, again = (getattr(look, of) for look in (looks.first, looks.again))
        assert then.keys() == again.keys()
        for name, panels in then.items():
            kept = {title: panel for title, panel in panels.items() if title not in OF_NOW}
            assert {title: again[name][title] for title in kept} == kept, name


def test_alerts_are_counted_where_no_source_is_in_use(looks: Looks) -> None:
    fleet = looks.over.dashboards["fleet"]
    assert texts(fleet["Firing: warning"]) == ["0"]
    assert texts(fleet["Jobs in trouble"])[0] == "0"


def test_a_budget_that_was_emptied_is_no_fault(looks: Looks) -> None:
    assert "error" not in looks.first.dashboards["runwatch"]["Requests for histories against W&B's budget"]
