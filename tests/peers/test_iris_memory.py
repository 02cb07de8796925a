"""When the peak memory of an Iris job is asked for; what it is, `test_iris_controller.py` reads from a real one."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import replace

import pytest

from runwatch.config.model import Site
from runwatch.parsing.iris import JobRecord
from runwatch.sources.iris_credentials import IrisCredentials
from runwatch.sources.iris_memory import PeakMemory
from runwatch.sources.iris_rpc import IrisClient
from tests.peers.iris_server import serving_iris

RUNS = JobRecord("/u1/short", "JOB_STATE_RUNNING", 100.0, 110.0, task_states={"running": 1}, task_count=1)
OVER = replace(RUNS, state="JOB_STATE_FAILED", finished=250.0)


def test_a_job_is_asked_about_until_its_last_samples_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran for 140 s: what was asked at 120 is not its peak. Samples may come until five minutes after its end."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    looks = ((120.0, RUNS), (180.0, RUNS), (300.0, OVER), (420.0, OVER), (720.0, OVER), (1020.0, OVER), (5000.0, OVER))
    times = [time_ for time_, _ in looks]
    with serving_iris() as server:
        site = Site(scheduler="iris", controller=server.url)
        client = IrisClient(server.url, IrisCredentials(site), lambda: None)
        memory = PeakMemory(client, lambda: times.pop(0))
        asked = []
        for _, record in looks:
            memory.read([record], time.monotonic() + 5)
            asked.append(server.calls["Query"])
        client.close()
    assert asked == [1, 1, 1, 2, 3, 3, 3]
