"""What a sampled history makes of a run, against every row of it: run this file to see the table.

A run of 29,945 steps of 8 s (5 % either way), 524,288 tokens a step, with twelve gaps between 6 and 90 min: 7.2 h. Both
sides read it from the same stand-in server, which samples as W&B does: the real client's `run.history()`, and the
exporter's own source.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from runwatch.config.model import HistorySource, WandbSettings
from runwatch.facts import HistoryUpdate
from runwatch.fleet import Job
from runwatch.sources.protocol import Outcome
from runwatch.sources.wandb_client import WandbClient
from runwatch.sources.wandb_online import WandbHistory
from tests.peers.wandb_server import KEY, WandbServer
from tests.peers.wandb_server_runs import PeerRun

STEPS = 29_945
TOKENS_A_STEP = 524_288
GAP_MINUTES = (6, 9, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90)


@dataclass(frozen=True)
class Reading:
    """What one way of reading the run comes to."""

    rows: int
    gaps: int
    gap_hours: float
    median_seconds: float
    tokens_per_second: float


def run_of_twelve_gaps() -> PeerRun:
    run = PeerRun("entity", "project", "long")
    chance = random.Random(11)
    gaps = {(i + 1) * STEPS // (len(GAP_MINUTES) + 1): 60.0 * gap for i, gap in enumerate(GAP_MINUTES)}
    now = run.created_at
    for step in range(STEPS):
        now += gaps[step] if step in gaps else 8.0 * chance.uniform(0.95, 1.05)
        run.log({"_step": step, "_timestamp": now, "train/loss": 2.0})
    return run


def read_off(times: Sequence[float]) -> Reading:
    """Gaps by the rule that a gap is longer than 5 medians and a minute; the rate from the median interval."""
    intervals = [after - before for before, after in pairwise(times)]
    median = statistics.median(intervals)
    gaps = [interval for interval in intervals if interval > max(60.0, 5 * median)]
    return Reading(len(times), len(gaps), sum(gaps) / 3600, median, TOKENS_A_STEP / median)


def sampled_by_the_client(server: WandbServer) -> Reading:
    client = WandbClient(server.url)
    try:
        rows = client.call(KEY, lambda api: api.run("entity/project/long").history(pandas=False), 60)
    finally:
        client.close()
    assert isinstance(rows, list), rows
    return read_off([row["_timestamp"] for row in rows])


def whole_by_the_source(server: WandbServer) -> Reading:
    times: list[float] = []

    def deliver(_job: Job, outcome: Outcome) -> None:
        assert isinstance(outcome, HistoryUpdate), outcome
        times.extend(row.time for row in outcome.rows if row.time is not None)

    with tempfile.TemporaryDirectory() as folder:
        key_file = Path(folder) / "key"
        key_file.write_text(KEY)
        source = WandbHistory(WandbSettings(base_url=server.url, api_key_file=key_file), lambda _site: None)
        try:
            history = (HistorySource(wandb="entity/project/long"),)
            source.poll([Job(run="long", bucket="sft", history=history)], deliver)
        finally:
            source.close()
    return read_off(times)


def test_a_sampled_history_hides_gaps_and_slows_the_rate() -> None:
    server = WandbServer()
    server.add(run_of_twelve_gaps())
    try:
        began = time.perf_counter()
        sampled = sampled_by_the_client(server)
        between = time.perf_counter()
        whole = whole_by_the_source(server)
        ended = time.perf_counter()
    finally:
        server.close()
    print(f"\n{'':24}{'whole':>12}{'sampled':>12}{'whole/sampled':>15}")
    for name in ("rows", "gaps", "gap_hours", "median_seconds", "tokens_per_second"):
        one, other = getattr(whole, name), getattr(sampled, name)
        print(f"{name:24}{one:>12,.1f}{other:>12,.1f}{one / other:>15.2f}")
    print(f"{'seconds, login included':24}{ended - between:>12.2f}{between - began:>12.2f}")
    assert whole.rows == STEPS
    assert whole.gaps == 12
    assert abs(whole.gap_hours - 7.2) < 0.05
    assert abs(whole.tokens_per_second / 65_536 - 1) < 0.01
    assert sampled.rows == 500
    # 200 other samplings gave 5 to 7 of the 12 gaps; the rate is too low by 29,945 / 500.
    assert 5 <= sampled.gaps <= 7
    assert 55 < whole.tokens_per_second / sampled.tokens_per_second < 65


if __name__ == "__main__":
    test_a_sampled_history_hides_gaps_and_slows_the_rate()
