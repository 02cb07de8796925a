"""The log of a Kubernetes job: its lines have the times that the API tells, from the first look on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runwatch.config.model import Config, HistorySource
from runwatch.fleet import Job
from runwatch.measurements import JobReport
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.peers.kubernetes_api import KubernetesApiServer
from tests.peers.kubernetes_fixtures import kubernetes_server
from tests.peers.kubernetes_objects import T0, job, pod, running

__all__ = ["kubernetes_server"]

STEPS = 200
BEGUN = T0 + 30.0


def bar(step: int) -> str:
    done = 20 * step
    return f" {step // 4}%|##        | {step}/800 [{done // 60:02d}:{done % 60:02d}<1:00:00, 20.00s/it]"


def lines_apart() -> list[str]:
    """A bar and a row of metrics a step, each a line of its own."""
    rows = [f"{{'loss': {2 - step / 400:.4f}, 'grad_norm': 0.5, 'epoch': 0.1}}" for step in range(1, STEPS + 1)]
    return [line for step, row in enumerate(rows, start=1) for line in (bar(step), row)]


def lines_redrawn() -> list[str]:
    """As Hugging Face's trainer writes to a pipe: ten redrawn bars, then a row, in one line."""
    found = []
    for last in range(10, STEPS + 1, 10):
        bars = "\r".join(bar(step) for step in range(last - 9, last + 1))
        found.append(f"\r{bars}\r{' ' * 60}\r{{'loss': {2 - last / 400:.4f}, 'grad_norm': 0.5, 'epoch': 0.1}}")
    return [*found, f"\r{bar(STEPS)}"]


def report_at(server: KubernetesApiServer, folder: Path, now: float) -> JobReport:
    """What an exporter that starts now tells of the job."""
    context = {"name": "cw", "context": {"cluster": "c", "user": "u", "namespace": "runs"}}
    cluster, user = {"name": "c", "cluster": {"server": server.url}}, {"name": "u", "user": {"token": "t"}}
    known = {"current-context": "cw", "clusters": [cluster], "users": [user], "contexts": [context]}
    (folder / "kubeconfig").write_text(yaml.safe_dump(known), encoding="utf-8")
    config = Config.model_validate({"sites": {"cw": {"scheduler": "kubernetes", "context": "cw"}}})
    listed = Job(
        "train", "sft", "cw", scheduler="kubernetes", scheduler_job="train", history=(HistorySource(log="auto"),)
    )
    watch, sources = Watch(config, Telemetry(), clock=lambda: now), SourceSet(Telemetry(), clock=lambda: now)
    watch.set_jobs(config, [listed])
    for binding in sources.bindings(config, [listed]):
        watch.poll(binding)
    [report] = watch.reports()
    sources.close()
    return report


@pytest.mark.parametrize(
    ("lines", "a_line"), [(lines_apart(), 10.0), (lines_redrawn(), 200.0)], ids=["apart", "redrawn"]
)
def test_a_job_that_hung_before_the_exporter_started_is_stalled(
    kubernetes_server: KubernetesApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
    a_line: float,
) -> None:
    """200 steps of 20 s end 4,000 s after the first line; three hours later somebody starts the exporter."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    whole = kubernetes_server.put("jobs", job("train"))
    kubernetes_server.put("pods", pod("train-a", whole, "Running", running(10)))
    kubernetes_server.logs[("runs", "train-a", False)] = lines
    kubernetes_server.log_begins, kubernetes_server.log_line_seconds = BEGUN, a_line
    report = report_at(kubernetes_server, tmp_path, BEGUN + 4000 + 3 * 3600)
    measured = report.measurements
    assert measured.get("mljob_step") == STEPS
    last_step = measured.get("mljob_last_step_timestamp_seconds")
    assert last_step is not None
    # A bar that is redrawn in its line is dated by the line that follows it, one of ten steps later at most.
    assert abs(last_step - (BEGUN + 4000)) <= 200
    assert measured.get("mljob_step_duration_seconds") == pytest.approx(20, abs=0.5)
    assert measured.one_hot("mljob_trend") == "stalled"
