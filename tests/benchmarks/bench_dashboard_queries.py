"""What the dashboards cost a Prometheus with 5,000 live runs and 100,000 in its history: run it to see the table.

The rules are evaluated on these runs first, so that all recorded series and alerts are there. Each query's figure is
its best of `ROUNDS`, of more rounds where the panel is dear: a collection of garbage may fall into any query and costs
as much as ten of them. A panel's figure is the sum of its queries': Grafana asks several at once, which two cores
answer sooner. What a panel may cost is asserted in Prometheus' CPU time against the peer of `query_costs`, in the same
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.benchmarks.first_opening import Asked, Kind, asked_by
from tests.benchmarks.many_runs import LIVE_RUNS, ended_name
from tests.benchmarks.prometheus_of_many import LOOKED_AT, PrometheusOfMany
from tests.benchmarks.query_costs import PEER_SECONDS, Cost, ask, cost, peer
from tests.grafana.dashboard_parts import FOLDER, Json, promql_of_variable, variables
from tests.grafana.grafana_variables import filled

ROUNDS, ROUNDS_OF_DEAR = 2, 3
PANEL_SECONDS, FLEET_SECONDS = 2.0, 5.0
MONTH = "30d"


def costs(many: PrometheusOfMany, queries: list[Asked]) -> dict[tuple[bool, str], Cost]:
    """Return what each panel costs, by whether it is folded and its title."""
    best = [cost(many, asked) for asked in queries]
    for _ in range(1, ROUNDS):
        best = [before.least(cost(many, asked)) for before, asked in zip(best, queries, strict=True)]
    for _ in range(ROUNDS_OF_DEAR):
        dear = {where for where, found in _by_panel(queries, best).items() if found.cpu > PANEL_SECONDS / 2}
        for number, asked in enumerate(queries):
            if (asked.folded, asked.panel) in dear:
                best[number] = best[number].least(cost(many, asked))
    return _by_panel(queries, best)


def _by_panel(queries: list[Asked], found: list[Cost]) -> dict[tuple[bool, str], Cost]:
    panels: dict[tuple[bool, str], Cost] = {}
    for asked, each in zip(queries, found, strict=True):
        panels.setdefault((asked.folded, asked.panel), Cost()).add(each)
    return panels


def total(panels: Mapping[tuple[bool, str], Cost]) -> Cost:
    """Return what is asked when the dashboard opens: all but the rows that are folded."""
    summed = Cost()
    for (folded, _), found in panels.items():
        if not folded:
            summed.add(found)
    return summed


def print_table(name: str, panels: Mapping[tuple[bool, str], Cost]) -> None:
    print(f"{name:56}{'clock s':>9}{'CPU s':>9}")
    shown = [(folded, title, found) for (folded, title), found in panels.items() if found.clock >= 0.02]
    for folded, title, found in shown:
        print(f"  {'folded: ' if folded else ''}{title:{46 if folded else 54}}{found.clock:9.2f}{found.cpu:9.2f}")
    if len(shown) < len(panels):
        print(f"  {f'{len(panels) - len(shown)} others, each below 0.02 s':54}")
    summed = total(panels)
    print(f"  {'as it opens':54}{summed.clock:9.2f}{summed.cpu:9.2f}")


def test_no_panel_and_no_dashboard_costs_too_much(many: PrometheusOfMany) -> None:
    assert len(ask(many, Asked("", False, Kind.INSTANT, "mljob:state"))) == LIVE_RUNS
    found: dict[str, dict[tuple[bool, str], Cost]] = {}
    peers = [peer(many)]
    for path in sorted(FOLDER.glob("*.json")):
        dashboard: Json = json.loads(path.read_text())
        chosen = {"run": LOOKED_AT, "site": "lab"} if path.stem == "run" else {}
        found[path.stem] = costs(many, list(asked_by(dashboard, chosen)))
        peers.append(peer(many))
        print_table(path.stem, found[path.stem])
    unit = sorted(each.cpu for each in peers)[len(peers) // 2]
    slowest = max(
        (each.clock, f"{name} / {title}") for name, panels in found.items() for (_, title), each in panels.items()
    )
    fleet = total(found["fleet"])
    hold = "hold" if slowest[0] <= PANEL_SECONDS and fleet.clock <= FLEET_SECONDS else "DO NOT HOLD"
    print(f"peer {unit:.2f} s CPU; by the clock the slowest panel {slowest[0]:.2f} s ({slowest[1]}), ", end="")
    print(f"Fleet {fleet.clock:.2f} s: the limits of {PANEL_SECONDS:g} s and {FLEET_SECONDS:g} s {hold} here and now")
    dear = {
        f"{name} / {title}": each.cpu / unit
        for name, panels in found.items()
        for (_, title), each in panels.items()
        if each.cpu > PANEL_SECONDS / PEER_SECONDS * unit
    }
    assert dear == {}
    assert fleet.cpu < FLEET_SECONDS / PEER_SECONDS * unit


def test_a_run_of_a_month_is_found_by_its_beginning_and_cheaply(many: PrometheusOfMany) -> None:
    dashboard = json.loads((FOLDER / "run.json").read_text())
    [query] = [promql_of_variable(one) for one in variables(dashboard) if one["name"] == "run"]

    def selector(search: str) -> Asked:
        values = {"site": ".*", "search": search, "__range": MONTH}
        return Asked("run", False, Kind.INSTANT, filled(query, values))

    def found(search: str) -> set[object]:
        labels = [series["metric"] for series in ask(many, selector(search))]
        return {each["run"] for each in labels if isinstance(each, Mapping)}

    ended = ended_name(77_777)
    assert found(ended) == {ended}
    assert found(ended[:-1]) == {f"{ended[:-1]}{last}" for last in (2, 7)}  # the bucket is in the name: each fifth run
    assert found(LOOKED_AT[:-1]) == {f"{LOOKED_AT[:-1]}{last}" for last in range(10)}
    assert found("no-such") == set()
    assert len(found("")) == len(found("s")) == 500
    unit = min(peer(many).cpu for _ in range(3))
    searches = ("", "s", "sft-ended-0", ended)
    told = {search: min(cost(many, selector(search)).cpu for _ in range(ROUNDS)) for search in searches}
    print(f"the runs of {MONTH} by their beginning, CPU s: {', '.join(f'{k!r} {v:.2f}' for k, v in told.items())}")
    assert max(told.values()) < PANEL_SECONDS / PEER_SECONDS * unit


if __name__ == "__main__":
    pytest.main([str(Path(__file__)), "-s", "-p", "no:xdist"])
