"""Prometheus's own tool accepts a body that holds every metric there is."""

from __future__ import annotations

import pytest

from runwatch.catalogue import JOB_METRICS
from runwatch.exposition import Exposition
from runwatch.facts import FailureReason, SourceKind
from runwatch.measurements import JobReport, Measurements
from runwatch.telemetry import Telemetry
from tests.e2e.prometheus_tools import promtool

HOSTILE = 'a"b\\c\nd{e}=,\t€😀\u2028\ud800' + "x" * 2000


def full_telemetry() -> Telemetry:
    telemetry = Telemetry()
    telemetry.count_request(SourceKind.HISTORY, HOSTILE)
    telemetry.count_error(SourceKind.HISTORY, HOSTILE, FailureReason.TIMEOUT)
    telemetry.observe_poll(SourceKind.HISTORY, HOSTILE, 1.0)
    telemetry.set_source_up(SourceKind.HISTORY, HOSTILE, True)
    telemetry.set_last_success(SourceKind.HISTORY, HOSTILE, 1764449286.0)
    telemetry.set_interval(SourceKind.HISTORY, HOSTILE, 60.0)
    telemetry.set_jobs({"rl": 2})
    telemetry.set_series(100)
    telemetry.set_jobs_dropped(0)
    telemetry.add_malformed(HOSTILE, 1)
    telemetry.set_reload(True, 1764449286.0)
    return telemetry


def full_body() -> bytes:
    exposition = Exposition()
    for run in ("plain-name", HOSTILE):
        measurements = Measurements()
        for metric in JOB_METRICS:
            if metric.name != "mljob_info":
                measurements.set(metric.name, 1e-9, **dict.fromkeys(metric.labels, run))
        exposition.update(JobReport(run, "rl", "desk", {"owner": run}, measurements, (), ()))
    return exposition.render(full_telemetry().render(reproducible=False)).plain


def test_promtool_has_nothing_to_say() -> None:
    body = full_body()
    checked = promtool("check", "metrics", stdin=body)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


@pytest.mark.parametrize("line", [b'mljob_step{run="a"b"} 1\n', b"# TYPE mljob_step counter\n"])
def test_promtool_would_say_something(line: bytes) -> None:
    assert promtool("check", "metrics", stdin=full_body() + line).returncode != 0
