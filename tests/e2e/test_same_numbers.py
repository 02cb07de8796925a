"""The same captures give the same numbers: after `kill -9`, and in two looks at one moment."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from runwatch.demo.fleet import ENDED, FAILED, write_fleet
from tests.e2e.running_exporter import Exporter, serving
from tests.e2e.running_server import eventually

# What tells when this exporter looked, or how it fares itself.
OF_THIS_EXPORTER = (
    "mljob_observed_timestamp_seconds",
    "mljob_source_configured_timestamp_seconds",
    "runwatch_source_interval_seconds",
    "runwatch_source_last_success_timestamp_seconds",
    "runwatch_config_last_reload_success_timestamp_seconds",
    "process_",
)
# Of jobs that are not over these move with the time of the look.
MOVING = ("mljob_goodput_ratio", "mljob_eta_with_interruptions_seconds")

STEP_250 = 1795975223.6651177  # time of its row in the capture: the loss is NaN there and nowhere else

Gauges = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def gauges(exporter: Exporter) -> Gauges:
    # Both jobs with checkpoints there are over, which is known once their histories were read.
    unused = 'runwatch_source_up{site="desk",source="checkpoints"}'
    eventually(lambda: unused not in exporter.metrics(), "a source that no job needs any more is left out")
    found: Gauges = {}
    for family in text_string_to_metric_families(exporter.metrics()):
        if family.type != "gauge" or family.name.startswith(OF_THIS_EXPORTER):
            continue
        for sample in family.samples:
            if family.name not in MOVING or sample.labels["run"] in (ENDED, FAILED):
                found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_after_kill_9_the_same_gauges_come_back(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, port=0, now=time.time())
    with serving(fleet.config) as exporter:
        before = gauges(exporter)
        exporter.process.kill()
        exporter.process.wait(30)
    with serving(fleet.config) as exporter:
        after = gauges(exporter)
    assert len(before) > 250
    assert ("mljob_goodput_ratio", (("bucket", "sft"), ("run", ENDED), ("site", "desk"))) in before
    assert after == before


def look(config: Path, *arguments: str) -> bytes:
    command = [sys.executable, "-m", "runwatch", "metrics", "--config", str(config), *arguments]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout


def test_two_looks_at_one_moment_are_equal_byte_for_byte(tmp_path: Path) -> None:
    now = time.time()
    fleet = write_fleet(tmp_path, port=0, now=now)
    first = look(fleet.config, "--at", str(now))
    assert b'mljob_step{run="delphi-tiny-live",' in first
    assert look(fleet.config, "--at", str(now)) == first


@pytest.mark.parametrize(
    ("at", "step", "nonfinite"),
    [(STEP_250 - 0.001, 249, 0), (STEP_250 + 0.001, 250, 1), (None, 299, 0)],
)
def test_the_one_nan_of_the_capture(tmp_path: Path, at: float | None, step: int, nonfinite: int) -> None:
    fleet = write_fleet(tmp_path, port=0, now=time.time())
    settings = yaml.safe_load(fleet.config.read_text())
    [job] = [job for job in settings["jobs"] if job["run"] == ENDED]
    del job["checkpoints"]
    fleet.config.write_text(yaml.safe_dump({**settings, "jobs": [job]}))
    body = look(fleet.config, *(() if at is None else ("--at", repr(at)))).decode()
    values = {
        (sample.name, sample.labels.get("metric")): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    assert values["mljob_step", None] == step
    assert values["mljob_nonfinite", "loss"] == nonfinite
