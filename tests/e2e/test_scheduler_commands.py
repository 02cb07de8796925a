"""The commands on jobs of a scheduler: found by pattern, and a gap explained by the preemption that made it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.e2e.test_wandb_commands import command, samples_of, value
from tests.peers.iris_server import SUBMITTED, IrisServer, attempt, job, serving_iris

COORDINATOR = "/u1/delphi-coord"
CHILD = f"{COORDINATOR}/checkpoints-delphi-1a2b"
PREEMPTED_AT, AGAIN_AT, NEW_STEP_AT, LAST_AT = 4000.0, 4300.0, 4648.0, 5600.0


def rows() -> str:
    """Steps every 8 s until the preemption, 40 of them done again after it, then new ones; no row while it is down."""
    lines = []
    step, time_ = 0, 100.0
    while time_ < PREEMPTED_AT:
        lines.append({"_step": step, "_timestamp": SUBMITTED + time_, "train/loss": 2.0})
        step, time_ = step + 1, time_ + 8.0
    high_water = step - 1
    step, time_ = high_water - 39, NEW_STEP_AT - 40 * 8.0
    while time_ <= LAST_AT:
        lines.append({"_step": step, "_timestamp": SUBMITTED + time_, "train/loss": 2.0})
        step, time_ = step + 1, time_ + 8.0
    return "".join(json.dumps(line) + "\n" for line in lines)


def preempted_once(server: IrisServer) -> None:
    server.jobs = [
        job(COORDINATOR, hasChildren=True),
        job(CHILD, tasks={"running": 2}, preemptionCount=2, submittedAt={"epochMs": str(round(SUBMITTED * 1000) + 5)}),
    ]
    for task in (0, 1):
        server.attempts[f"{CHILD}/{task}"] = [
            attempt(0, "PREEMPTED", 20, PREEMPTED_AT + 3 * task),
            attempt(1, "RUNNING", AGAIN_AT),
        ]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "delphi.jsonl").write_text(rows())
    return tmp_path / "runwatch.yaml"


def write(config: Path, server: IrisServer, **more: str) -> None:
    config.write_text(
        f"sites: {{marin: {{scheduler: iris, controller: '{server.url}'}}}}\n"
        "discover:\n"
        "- {site: marin, match: '^/u1/(?P<name>.+)-coord$', bucket: sft, history: {jsonl: 'runs/{name}.jsonl'}}\n"
    )


def test_a_gap_is_explained_by_the_preemption_that_made_it(config: Path) -> None:
    with serving_iris() as server:
        preempted_once(server)
        write(config, server)
        at = str(SUBMITTED + LAST_AT + 30)
        result = command("metrics", "--config", config, "--at", at, home=config.parent)
        assert result.returncode == 0, result.stderr
        samples = samples_of(result.stdout)
        for cause, count in (("preemption", 1), ("failure", 0), ("chain", 0), ("unexplained", 0), ("unknown", 0)):
            assert value(samples, "mljob_gaps", cause=cause) == count, cause
        # Two tasks of one gang were hit: one event, though the scheduler counts two.
        assert value(samples, "mljob_interruptions", cause="preemption") == 1
        assert value(samples, "mljob_replayed_steps") == 40
        lost = NEW_STEP_AT - (100 + 8 * 487)
        assert value(samples, "mljob_gap_seconds", cause="preemption") == pytest.approx(lost, abs=8.1)
        assert command("metrics", "--config", config, "--at", at, home=config.parent).stdout == result.stdout
        explained = command("explain", "--config", config, "--at", at, "delphi", home=config.parent)
        assert explained.returncode == 0, explained.stderr
        assert "preemption" in explained.stdout
        line = command("line", "--config", config, "--at", at, home=config.parent)
        assert " preempts=1 gaps=1/" in line.stdout


def test_what_a_scheduler_says_of_the_present(config: Path) -> None:
    with serving_iris() as server:
        preempted_once(server)
        write(config, server)
        samples = samples_of(command("metrics", "--config", config, home=config.parent).stdout)
        assert value(samples, "mljob_state", state="running") == 1
        assert value(samples, "mljob_tasks", state="running") == 2
        assert value(samples, "mljob_tasks_expected") == 2
        assert value(samples, "mljob_preemptions") == 2
        assert value(samples, "mljob_info", run="delphi", scheduler="iris") == 1
        server.jobs[1]["taskStateCounts"] = {"pending": 2}
        samples = samples_of(command("metrics", "--config", config, home=config.parent).stdout)
        assert value(samples, "mljob_state", state="preempted") == 1
        assert value(samples, "mljob_phase", phase="resuming") == 1


def test_a_scheduler_that_cannot_be_read_is_down_and_its_jobs_are_not_gone(config: Path) -> None:
    with serving_iris() as server:
        preempted_once(server)
        config.write_text(
            f"sites: {{marin: {{scheduler: iris, controller: '{server.url}'}}}}\n"
            f"jobs: [{{run: delphi, bucket: sft, site: marin, scheduler_job: {COORDINATOR},"
            " history: {jsonl: runs/delphi.jsonl}}]\n"
        )
        server.answers["ListJobs"] = (503, b'{"code":"unavailable","message":"overloaded"}')
        began = time.monotonic()
        result = command("metrics", "--config", config, home=config.parent)
        assert time.monotonic() - began < 60
        assert result.returncode == 3
        samples = samples_of(result.stdout)
        assert value(samples, "runwatch_source_up", source="scheduler", site="marin") == 0
        assert value(samples, "mljob_state", state="vanished") == 0
        assert value(samples, "mljob_tasks", state="running") is None
        assert dict(cause_counts(samples)) == {"unknown": 1.0}


def cause_counts(samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> list[tuple[str, float]]:
    return [(dict(labels)["cause"], number) for (name, labels), number in samples.items() if name == "mljob_gaps"]
