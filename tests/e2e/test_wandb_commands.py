"""The commands on runs that W&B keeps: a long run read whole, kill -9, failing upstreams, discovery."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.running_exporter import SERVING
from tests.e2e.running_server import eventually, written_so_far
from tests.ending_processes import end
from tests.peers.wandb_server import KEY, Fault, WandbServer
from tests.peers.wandb_server_runs import PeerRun

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

GAP_MINUTES = (6, 9, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90)
STEPS = 29_945


@pytest.fixture
def wandb_server() -> Iterator[WandbServer]:
    server = WandbServer()
    yield server
    server.close()


def long_run(server: WandbServer, end: float) -> PeerRun:
    """29,945 steps at 8 s within 5 %, 524,288 tokens a step, with twelve gaps; the last step is at `end`."""
    source = random.Random(11)
    after = dict(zip(sorted(source.sample(range(500, STEPS - 500), len(GAP_MINUTES))), GAP_MINUTES, strict=True))
    offsets = [0.0]
    for step in range(STEPS - 1):
        offsets.append(offsets[-1] + 8.0 * source.uniform(0.95, 1.05) + 60.0 * after.get(step, 0))
    first = end - offsets[-1]
    config = {"trainer": {"num_train_steps": 40_000, "train_batch_size": 128}, "train_seq_len": 4096}
    run = PeerRun("lab", "midtraining", "delphi", created_at=first - 60, heartbeat_at=end, config=json.dumps(config))
    for step, offset in enumerate(offsets):
        run.log({"_step": step, "_timestamp": first + offset, "train/loss": 2.0, "run_progress": step / 40_000})
    return server.add(run)


def write_config(folder: Path, server_url: str, jobs: str, **more: str) -> Path:
    path = folder / "runwatch.yaml"
    head = "".join(f"{key}: {value}\n" for key, value in more.items())
    (folder / "key").write_text(KEY)
    path.write_text(f"{head}wandb: {{base_url: '{server_url}', api_key_file: key, requests_per_minute: 6000}}\n{jobs}")
    return path


def command(*arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(
        [sys.executable, "-m", "runwatch", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def samples_of(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    found = [v for (n, pairs), v in samples.items() if n == name and set(labels.items()) <= set(pairs)]
    assert len(found) <= 1, (name, labels, found)
    return found[0] if found else None


LONG_JOB = "jobs: [{run: long, bucket: sft, history: {wandb: lab/midtraining/delphi}}]\n"


def test_the_long_run_is_read_whole_and_the_same_twice(wandb_server: WandbServer, tmp_path: Path) -> None:
    end = 1_790_000_000.0
    long_run(wandb_server, end)
    config = write_config(tmp_path, wandb_server.url, LONG_JOB)
    first = command("metrics", "--config", config, "--at", str(end + 20), home=tmp_path)
    assert first.returncode == 0, first.stderr
    samples = samples_of(first.stdout)
    assert value(samples, "mljob_step") == STEPS - 1
    assert value(samples, "mljob_gaps", cause="unknown") == 12
    hours = (value(samples, "mljob_gap_seconds", cause="unknown") or 0) / 3600
    assert hours == pytest.approx(7.2, abs=0.05)
    assert value(samples, "mljob_step_duration_seconds") == pytest.approx(8.0, abs=0.05)
    assert value(samples, "mljob_tokens_per_second_baseline") == pytest.approx(65_536, rel=0.01)
    assert value(samples, "mljob_state", state="running") == 1
    assert value(samples, "mljob_phase", phase="stepping") == 1
    second = command("metrics", "--config", config, "--at", str(end + 20), home=tmp_path)
    assert second.stdout == first.stdout
    line = command("line", "--config", config, "--at", str(end + 20), home=tmp_path)
    assert line.stdout.startswith("long state=running step=29944/40000 (74.9%) loss=2 ") or "loss=2.000" in line.stdout
    assert " gaps=12/7.2" in line.stdout


@dataclass
class Exporter:
    """A real `runwatch serve` at a port of its own."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def samples(self) -> Samples:
        response = httpx.get(f"{self.url}/metrics", timeout=60)
        return samples_of(response.text) if response.status_code == 200 else {}

    def wait(self, until: str, **labels: str) -> Samples:
        """Wait until a series is there."""
        return self.wait_for(
            f"{until}{labels}",
            lambda samples: any(name == until and set(labels.items()) <= set(pairs) for name, pairs in samples),
        )

    def wait_for(self, what: str, holds: Callable[[Samples], bool], seconds: float = 90.0) -> Samples:
        """Wait until something holds of the samples, and return them."""
        seen: list[Samples] = []

        def is_seen() -> bool:
            assert self.process.poll() is None, written_so_far(self.log)
            seen[:] = [self.samples()]
            return holds(seen[0])

        eventually(is_seen, what, seconds)
        return seen[0]

    def wait_ready(self) -> None:
        """Wait until every source was tried."""
        eventually(lambda: httpx.get(f"{self.url}/-/ready", timeout=60).status_code == 200, "it is ready", 60)


@contextmanager
def exporting(config: Path, home: Path) -> Iterator[Exporter]:
    """Run one, without the secrets of this process's environment."""
    config.write_text(f"listen: 127.0.0.1:0\n{config.read_text().removeprefix('listen: 127.0.0.1:0')}")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    log = home / "exporter.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "runwatch", "serve", "--config", str(config)]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        eventually(
            lambda: process.poll() is not None or SERVING.search(written_so_far(log)) is not None, "it serves", 60
        )
        found = SERVING.search(written_so_far(log))
        assert found is not None, written_so_far(log)
        yield Exporter(process, f"http://127.0.0.1:{found[1]}", log)
    finally:
        end(process, log)


_CHANGES_WITH_TIME = ("mljob_observed", "mljob_source_configured", "runwatch_", "process_", "python_", "mljob_goodput")


def steady(samples: Samples) -> Samples:
    return {key: number for key, number in samples.items() if not key[0].startswith(_CHANGES_WITH_TIME)}


def test_the_same_numbers_after_kill_9(wandb_server: WandbServer, tmp_path: Path) -> None:
    run = long_run(wandb_server, time.time() - 30)
    run.heartbeat_at = time.time()
    config = write_config(tmp_path, wandb_server.url, LONG_JOB, poll_interval="1s")
    with exporting(config, tmp_path) as exporter:
        before = steady(exporter.wait("mljob_gaps"))
        exporter.process.kill()
        exporter.process.wait()
    with exporting(config, tmp_path) as again:
        after = steady(again.wait("mljob_gaps"))
        again.wait_ready()
    assert again.process.returncode == 0
    without_eta = {key: number for key, number in before.items() if "with_interruptions" not in key[0]}
    assert {key: after.get(key) for key in without_eta} == without_eta
    assert value(after, "mljob_gaps") == 12


FAULTS = {
    "auth": lambda _: Fault(status=401),
    "not_found": lambda _: Fault(status=404),
    "throttled": lambda _: Fault(status=429, headers=(("Retry-After", "30"),)),
    "other": lambda _: Fault(status=500),
    "parse": lambda _: Fault(status=200, body=b"<html>a proxy's page</html>"),
}


def small_run(server: WandbServer, name: str, steps: int = 20) -> PeerRun:
    now = time.time()
    run = PeerRun("lab", "p", name, created_at=now - 900, heartbeat_at=now)
    for step in range(steps):
        run.log({"_step": step, "_timestamp": now - 400 + 8 * step, "train/loss": 2.0})
    return server.add(run)


@pytest.mark.parametrize("reason", sorted(FAULTS))
def test_a_failing_upstream_is_down_with_its_reason_and_gives_no_number(
    wandb_server: WandbServer, tmp_path: Path, reason: str
) -> None:
    small_run(wandb_server, "one")
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"_step": i, "_timestamp": time.time() - 100 + i}) + "\n" for i in range(9))
    )
    jobs = (
        "sites: {cw: {scheduler: none}}\n"
        "jobs:\n- {run: one, bucket: sft, site: cw, history: {wandb: lab/p/one}}\n"
        "- {run: two, bucket: sft, history: {jsonl: rows.jsonl}}\n"
    )
    config = write_config(tmp_path, wandb_server.url, jobs)
    wandb_server.fault = FAULTS[reason]
    result = command("metrics", "--config", config, home=tmp_path)
    assert result.returncode == 3, result.stderr
    samples = samples_of(result.stdout)
    assert value(samples, "runwatch_source_up", source="history", site="cw") == 0
    assert (value(samples, "runwatch_source_errors_total", source="history", site="cw", reason=reason) or 0) >= 1
    assert value(samples, "mljob_step", run="one") is None
    assert value(samples, "mljob_state", run="one", state="unknown") == 1
    assert value(samples, "mljob_phase", run="one", phase="finished") is None
    assert value(samples, "mljob_step", run="two") == 8
    assert value(samples, "runwatch_source_up", source="history", site="none") == 1
    assert KEY not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_an_upstream_that_hangs_is_a_timeout_and_delays_no_other(wandb_server: WandbServer, tmp_path: Path) -> None:
    small_run(wandb_server, "one")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"_step": 1, "_timestamp": time.time()}) + "\n")
    jobs = (
        "sites: {cw: {scheduler: none}}\n"
        "jobs:\n- {run: one, bucket: sft, site: cw, history: {wandb: lab/p/one}}\n"
        "- {run: two, bucket: sft, history: {jsonl: rows.jsonl}}\n"
    )
    config = write_config(tmp_path, wandb_server.url, jobs, poll_interval="1s")
    with exporting(config, tmp_path) as exporter:
        exporter.wait("mljob_step", run="one")
        wandb_server.fault = lambda _: Fault(hang=600.0)
        frozen = exporter.wait_for(
            "its history is down", lambda seen: value(seen, "runwatch_source_up", source="history", site="cw") == 0
        )
        assert (value(frozen, "runwatch_source_errors_total", site="cw", reason="timeout") or 0) >= 1
        last = value(frozen, "mljob_observed_timestamp_seconds", run="one", source="history")
        assert last is not None
        # The other goes on: what is written now is seen, while the hanging one's facts stand still.
        with rows.open("a") as file:
            file.write(json.dumps({"_step": 2, "_timestamp": time.time()}) + "\n")
        later = exporter.wait_for("the other goes on", lambda seen: value(seen, "mljob_step", run="two") == 2)
        assert (value(later, "mljob_observed_timestamp_seconds", run="two") or 0) > last
        assert value(later, "mljob_observed_timestamp_seconds", run="one", source="history") == last
        assert value(later, "mljob_step", run="one") == 19
    assert exporter.process.returncode == 0


def test_runs_of_a_project_are_discovered_and_kept_through_their_end(wandb_server: WandbServer, tmp_path: Path) -> None:
    runs = [small_run(wandb_server, name) for name in ("one", "two")]
    ended = small_run(wandb_server, "ended-long-ago")
    ended.state, ended.heartbeat_at, ended.created_at = "finished", time.time() - 400_000, time.time() - 500_000
    config = write_config(
        tmp_path, wandb_server.url, "discover: [{wandb: lab/p, bucket: sft, state: running}]\n", poll_interval="1s"
    )
    with exporting(config, tmp_path) as exporter:
        exporter.wait("mljob_step", run="one")
        exporter.wait("mljob_step", run="two")
        runs[0].state = "finished"
        exporter.wait_for("its end", lambda seen: value(seen, "mljob_state", run="one", state="succeeded") == 1)
        asked = len(wandb_server.requests)
        eventually(lambda: len(wandb_server.requests) >= asked + 4, "two more polls, and looks for runs, began", 60)
        samples = exporter.samples()
        assert value(samples, "mljob_step", run="one") == 19
        assert value(samples, "mljob_info", run="ended-long-ago") is None
        assert value(samples, "runwatch_jobs", bucket="sft") == 2
