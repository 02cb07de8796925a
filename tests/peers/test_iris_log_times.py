"""The log of an Iris job: its lines have the times and the tasks that the controller tells, from the first look on."""

from __future__ import annotations

import json
from pathlib import Path

from runwatch.config.model import Config, HistorySource
from runwatch.fleet import Job
from runwatch.measurements import Measurements
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.peers.iris_server import SUBMITTED, IrisServer, job, serving_iris, stamp

REFUSED = "daytona.common.errors.DaytonaAuthenticationError: Unauthorized"


def entry(text: str, seconds: float, key: str = "/u1/gen/0:0") -> dict[str, object]:
    return {"timestamp": stamp(SUBMITTED + seconds), "key": key, "data": text}


def measured_of(listed: Job, server: IrisServer, token: Path, now: float) -> Measurements:
    """Look once at everything of a job of site `m`, at a time (Unix seconds)."""
    sites = {"m": {"scheduler": "iris", "controller": server.url, "token_file": token}}
    config = Config.model_validate({"sites": sites, "stale_after": "1d"})
    watch, sources = Watch(config, Telemetry(), clock=lambda: now), SourceSet(Telemetry())
    watch.set_jobs(config, [listed])
    for binding in sources.bindings(config, [listed]):
        watch.poll(binding)
    [report] = watch.reports()
    sources.close()
    return report.measurements


def test_lines_without_a_stamp_are_as_old_as_the_controller_says(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    with serving_iris() as server:
        server.jobs = [job("/u1/gen")]
        lines = [entry(REFUSED, 100), entry('"POST /v1/chat/completions HTTP/1.1" 200', 160), entry("sleeping", 170)]
        server.answers["FetchLogs"] = (200, json.dumps({"entries": lines}).encode())
        listed = Job("gen", "datagen", "m", scheduler="iris", scheduler_job="/u1/gen")
        measured = measured_of(listed, server, token, SUBMITTED + 3000)
    assert measured.get("mljob_log_last_write_timestamp_seconds") == SUBMITTED + 170
    assert measured.get("mljob_engine_last_success_timestamp_seconds") == SUBMITTED + 160
    assert measured.get("mljob_observed_timestamp_seconds", source="log") == SUBMITTED + 3000


def test_of_a_gang_the_first_task_tells_the_steps(tmp_path: Path) -> None:
    """Two hosts print each step, the second 40 s after the first and with a loss of its own."""
    token = tmp_path / "token"
    token.write_text("t")
    child = "/u1/coord/checkpoints-delphi"
    lines = [entry("Submitting checkpoints-delphi", 90, "/u1/coord/0:0")]
    for step in range(1, 9):
        for task in (0, 1):
            told = {"tracker": "json_logger", "event": "log", "step": step}
            text = json.dumps({**told, "metrics": {"train/loss": 4.0 - step / 10 - task}})
            lines.append(entry(text, 100 + 60 * step + 40 * task, f"{child}/{task}:0"))
    with serving_iris() as server:
        server.jobs = [job("/u1/coord"), job(child)]
        server.answers["FetchLogs"] = (200, json.dumps({"entries": lines}).encode())
        history = (HistorySource(log="auto"),)
        listed = Job("delphi", "sft", "m", scheduler="iris", scheduler_job="/u1/coord", history=history)
        measured = measured_of(listed, server, token, SUBMITTED + 700)
    assert measured.get("mljob_step") == 8
    assert measured.get("mljob_loss") == 3.2
    assert measured.get("mljob_last_step_timestamp_seconds") == SUBMITTED + 580
    assert measured.get("mljob_step_duration_seconds") == 60
    assert measured.get("mljob_replayed_steps") == 0
