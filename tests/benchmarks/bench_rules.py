"""What one evaluation of all rules costs a Prometheus with 5,000 live runs: run it to see the dearest.

It is measured as Prometheus measures it, by the clock, while it evaluates one rule after the other on one core; the
peer is measured in the same run.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.benchmarks.prometheus_of_many import RULES, PrometheusOfMany
from tests.benchmarks.query_costs import PEER_SECONDS, peer

SHARE_OF_INTERVAL = 0.3
"""How much of the time between two evaluations they may take: what takes longer than all of it skips evaluations."""

DEAREST = 10


def test_an_evaluation_takes_little_of_its_interval(many: PrometheusOfMany) -> None:
    [interval] = {group["interval"] for group in yaml.safe_load(RULES.read_text())["groups"]}
    limit = SHARE_OF_INTERVAL * float(interval.removesuffix("s"))
    unit = sorted(peer(many).clock for _ in range(5))[2]
    print(f"one evaluation of {len(many.rules)} rules: {many.rule_seconds:.2f} s; peer {unit:.2f} s. The dearest:")
    for seconds, name in many.rules[:DEAREST]:
        print(f"  {name:48}{seconds:6.2f} s")
    hold = "holds" if many.rule_seconds <= limit else "DOES NOT HOLD"
    print(f"the limit of {limit:g} s, {SHARE_OF_INTERVAL:.0%} of the interval, {hold} here and now")
    assert many.rule_seconds < limit / PEER_SECONDS * unit


if __name__ == "__main__":
    pytest.main([str(Path(__file__)), "-s", "-p", "no:xdist"])
