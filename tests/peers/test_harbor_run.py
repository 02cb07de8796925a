"""A real `harbor run`, with a sandbox that is a folder and an agent without a model, read while it runs and after.

Harbor needs Python 3.12 and pins much, so it has an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from runwatch.config.model import Trials
from runwatch.derive.trials import TrialsSummary, measure_trials, summarise_trials
from runwatch.facts import FailureReason, TrialsUpdate
from runwatch.fleet import Job
from runwatch.measurements import Measurements
from runwatch.sources.trials import TrialsReader
from tests.required_programs import lacking

TOP = Path(__file__).parents[2]
RIG = Path(__file__).parent / "harbor_rig"
HARBOR = TOP / ".venv-harbor" / "bin" / "harbor"
_INSTALL = (
    "harbor is missing: with Python 3.12 or newer, python3.12 -m venv .venv-harbor && "
    ".venv-harbor/bin/pip install harbor==0.26.0"
)


@pytest.fixture
def harbor() -> str:
    """Return the program, or say how it is installed."""
    if not HARBOR.exists():
        lacking(_INSTALL)
    return str(HARBOR)


def configure(folder: Path) -> Path:
    """Lay out the rig below a folder and return Harbor's config: 8 tasks, 2 attempts each."""
    shutil.copytree(RIG, folder / "rig")
    config = {
        "job_name": "eval-fake__tb",
        "jobs_dir": str(folder / "jobs"),
        "n_attempts": 2,
        "n_concurrent_trials": 4,
        "environment": {"import_path": "local_environment:LocalEnvironment"},
        "agents": [{"import_path": "three_turn_agent:ThreeTurnAgent", "model_name": "hosted_vllm/my-model"}],
        "datasets": [{"path": str(folder / "rig" / "htasks")}],
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def start(harbor: str, folder: Path, config: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "rig"), "RIG_ROOT": str(folder / "roots")}
    environment |= {"HARBOR_TELEMETRY": "0", "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return subprocess.Popen(
        [harbor, "run", "-c", str(config), "-y"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


# Harbor alone takes some 15 s of computing to start.
@pytest.mark.timeout(400)
def test_read_while_it_runs_and_after(harbor: str, tmp_path: Path) -> None:
    began = time.time()
    reader = TrialsReader(lambda site: None)
    job = Job(run="e", bucket="eval", trials=Trials(path=str(tmp_path / "jobs")))
    seen: list[TrialsSummary] = []
    with start(harbor, tmp_path, configure(tmp_path)) as process:
        try:
            while process.poll() is None:
                outcome = reader.read(job)
                # Before Harbor has made its folder there is nothing to be read; after that no look may fail.
                if isinstance(outcome, TrialsUpdate):
                    seen.append(summarise_trials(outcome))
                else:
                    assert outcome.reason is FailureReason.NOT_FOUND
                    assert not seen
                assert time.time() - began < 300
                time.sleep(0.1)
        finally:
            process.kill()
    assert process.returncode == 0
    counts = [summary.trials for summary in seen]
    assert counts == sorted(counts)
    assert any(0 < count < 16 for count in counts)
    running = [sum(folder.running for folder in summary.folders) for summary in seen]
    assert max(running) in {1, 2, 3, 4}
    after = reader.read(job)
    assert isinstance(after, TrialsUpdate)
    summary = summarise_trials(after)
    # Each of 8 tasks twice: pass-0, pass-1 (1.0), half-0 (0.5), fail-0, ctx-0, tmo-0 (0), norew-0, envfail-0 (none).
    assert (summary.trials, summary.scored, summary.passed, summary.total) == (16, 12, 6, 16)
    assert summary.reward_mean == pytest.approx(5 / 12)
    assert (summary.agent_ran, summary.turns_mean, summary.instant) == (14, 3.0, 0)
    assert dict(summary.exceptions) == {
        "AgentTimeoutError": 2,
        "ContextLengthExceededError": 2,
        "RewardFileNotFoundError": 2,
        "RuntimeError": 2,
    }
    assert summary.last is not None
    assert began < summary.last < time.time()
    # One that never saw it running comes to the same.
    fresh = TrialsReader(lambda site: None).read(job)
    assert fresh == after
    measured = Measurements()
    measure_trials(measured, summary, bucket="eval", target=None, observed=time.time(), is_over=True)
    assert measured.get("mljob_trial_pass_ratio") == 0.5
    assert measured.get("mljob_trial_exception_ratio") == 0.5
    assert measured.get("mljob_trials_target") == 16
