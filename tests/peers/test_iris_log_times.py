"""The log of an Iris job: its lines have the times that the controller tells, from the first look on."""

from __future__ import annotations

import json
from pathlib import Path

from runwatch.config.model import Config
from runwatch.fleet import Job
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.peers.iris_server import SUBMITTED, job, serving_iris, stamp

REFUSED = "daytona.common.errors.DaytonaAuthenticationError: Unauthorized"


def entry(text: str, seconds: float) -> dict[str, object]:
    return {"timestamp": stamp(SUBMITTED + seconds), "key": "/u1/gen/0:0", "data": text}


def test_lines_without_a_stamp_are_as_old_as_the_controller_says(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    with serving_iris() as server:
        server.jobs = [job("/u1/gen")]
        lines = [entry(REFUSED, 100), entry('"POST /v1/chat/completions HTTP/1.1" 200', 160), entry("sleeping", 170)]
        server.answers["FetchLogs"] = (200, json.dumps({"entries": lines}).encode())
        sites = {"m": {"scheduler": "iris", "controller": server.url, "token_file": token}}
        config = Config.model_validate({"sites": sites, "stale_after": "1d"})
        listed = Job("gen", "datagen", "m", scheduler="iris", scheduler_job="/u1/gen")
        watch, sources = Watch(config, Telemetry(), clock=lambda: SUBMITTED + 3000), SourceSet(Telemetry())
        watch.set_jobs(config, [listed])
        for binding in sources.bindings(config, [listed]):
            watch.poll(binding)
        [report] = watch.reports()
        sources.close()
    measured = report.measurements
    assert measured.get("mljob_log_last_write_timestamp_seconds") == SUBMITTED + 170
    assert measured.get("mljob_engine_last_success_timestamp_seconds") == SUBMITTED + 160
    assert measured.get("mljob_observed_timestamp_seconds", source="log") == SUBMITTED + 3000
