"""What a query costs a Prometheus of many runs, and the peer that costs are held against: one pass over one metric."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.benchmarks.first_opening import RANGE_SECONDS, Asked, Kind
from tests.benchmarks.prometheus_of_many import PrometheusOfMany
from tests.e2e.prometheus_process import get

PEER = "count(mljob_state)"
"""One pass over the 45,000 series of the state of 5,000 live runs."""

PEER_SECONDS = 0.25
"""What the peer takes on two idle cores, where limits are meant: a quicker machine must be as quick at all else."""

_CPU = re.compile(rb"^process_cpu_seconds_total (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Cost:
    """Seconds by the clock and of Prometheus' CPU time, of one query its least of all rounds."""

    clock: float = 0.0
    cpu: float = 0.0

    def add(self, other: Cost) -> None:
        self.clock += other.clock
        self.cpu += other.cpu

    def least(self, other: Cost) -> Cost:
        return Cost(min(self.clock, other.clock), min(self.cpu, other.cpu))


def ask(many: PrometheusOfMany, asked: Asked) -> list[Mapping[str, object]]:
    """Return the series (or label values) of an answer.

    Raises:
        HTTPError: the query fails.
    """
    url, arguments = f"{many.prometheus.url}/api/v1/query", {"query": asked.text, "time": str(many.now)}
    if asked.kind is Kind.RANGE:
        end = many.now // asked.step * asked.step
        url += "_range"
        arguments = {"query": asked.text, "start": str(end - RANGE_SECONDS), "end": str(end), "step": str(asked.step)}
    if asked.kind is Kind.LABEL_VALUES:
        url = f"{many.prometheus.url}/api/v1/label/{asked.label}/values?"
        url += urlencode({"match[]": asked.text, "start": str(many.now - RANGE_SECONDS), "end": str(many.now)})
    body = None if asked.kind is Kind.LABEL_VALUES else urlencode(arguments).encode()
    with urlopen(Request(url, data=body), timeout=120) as answer:
        data = json.loads(answer.read())["data"]
    return data if isinstance(data, list) else data["result"]


def cpu_seconds(many: PrometheusOfMany) -> float:
    found = _CPU.search(get(f"{many.prometheus.url}/metrics"))
    assert found is not None
    return float(found[1])


def cost(many: PrometheusOfMany, asked: Asked) -> Cost:
    cpu, began = cpu_seconds(many), time.perf_counter()
    ask(many, asked)
    return Cost(time.perf_counter() - began, cpu_seconds(many) - cpu)


def peer(many: PrometheusOfMany) -> Cost:
    return cost(many, Asked("peer", False, Kind.INSTANT, PEER))
