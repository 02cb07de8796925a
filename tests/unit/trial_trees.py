"""Small Harbor trees for tests, with files' times set."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from runwatch.config.model import Bucket, Trials
from runwatch.facts import Failure, TrialsUpdate
from runwatch.fleet import Job
from runwatch.sources.trials import TrialsReader

CAPTURES = Path(__file__).parents[1] / "data" / "harbor"
WRITTEN = 1_790_000_000.0


def write(path: Path, content: str, written: float = WRITTEN) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (written, written))


def trial(
    folder: Path,
    reward: float | None = 1.0,
    *,
    exception: str = "",
    turns: int | None = 3,
    written: float = WRITTEN,
) -> None:
    """Write a trial as Harbor 0.1.x does."""
    value: dict[str, Any] = {
        "trial_name": folder.name,
        "agent_result": {"n_output_tokens": 50, "metadata": None if turns is None else {"n_episodes": turns}},
        "agent_execution": {"started_at": "2025-11-01T10:00:00", "finished_at": "2025-11-01T10:02:00"},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": {"exception_type": exception} if exception else None,
    }
    write(folder / "trial.log", "")
    write(folder / "result.json", json.dumps(value), written)


def job_result(folder: Path, total: int, *, finished: bool = False, written: float = WRITTEN, **stats: Any) -> None:
    """Write a job's own result."""
    value = {"n_total_trials": total, "finished_at": "2025-11-01T10:00:00" if finished else None, "stats": stats}
    write(folder / "job.log", "")
    write(folder / "result.json", json.dumps(value), written)


def capture(folder: Path, version: str = "0_26") -> Path:
    """Lay out the job that a Harbor captured, one second between the results in the order of their names.

    Both captures are of 8 tasks, twice each: pass-0 and pass-1, half-0, fail-0, ctx-0 (leaves its context), tmo-0
    (times out), norew-0 (writes no reward) and envfail-0 (its sandbox does not start).
    """
    target = folder / "eval-fake__tb"
    shutil.copytree(CAPTURES / f"captured_{version}" / "eval-fake__tb", target)
    for second, path in enumerate(sorted(target.glob("*/result.json"))):
        os.utime(path, (WRITTEN + second, WRITTEN + second))
    os.utime(target / "result.json", (WRITTEN + 99, WRITTEN + 99))
    return target


class Reading:
    """A reader, and how many requests its latest look made."""

    def __init__(self, **options: Any) -> None:
        self.requests: list[str] = []
        self.reader = TrialsReader(self.requests.append, **options)

    def look(self, root: Path | str, bucket: Bucket = "eval") -> TrialsUpdate | Failure:
        self.requests.clear()
        return self.reader.read(Job(run="r", bucket=bucket, site="s", trials=Trials(path=str(root))))

    def update(self, root: Path | str) -> TrialsUpdate:
        outcome = self.look(root)
        assert isinstance(outcome, TrialsUpdate), outcome
        return outcome

    def names(self, root: Path | str) -> list[str]:
        return [result.name for folder in self.update(root).folders for result in folder.results]


def update_of(root: Path | str, **options: Any) -> TrialsUpdate:
    return Reading(**options).update(root)
