"""No source of files reads outside the folders that the config allows, wherever links and `..` lead."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runwatch.config.load import load_config
from runwatch.config.model import Config
from runwatch.facts import Failure, FailureReason
from runwatch.fleet import Job, jobs_from_config
from runwatch.sources.file_roots import FileRoots
from runwatch.sources.log_files import LocalLogFiles
from runwatch.sources.protocol import Outcome, Source
from runwatch.sources.registry import SourceSet
from runwatch.sources.regular_file import OutsideRootsError
from runwatch.telemetry import Telemetry

ROW = json.dumps({"_step": 3, "_timestamp": 1_800_000_000.0, "loss": 1.0}) + "\n"
CAPTURES = Path(__file__).parent.parent / "data"

KINDS = {
    "jsonl": "history: {jsonl: PATH/rows.jsonl}",
    "offline W&B": "history: {wandb_offline: PATH/offline}",
    "log": "history: {log: PATH/run.out}",
    "log by glob": "history: {log: PATH/*.out}",
    "checkpoints": "checkpoints: [PATH/saved]",
    "trials": "trials: {path: PATH/trials}",
}


@pytest.fixture
def sources() -> Iterator[SourceSet]:
    made = SourceSet(Telemetry())
    yield made
    made.close()


def _fill(folder: Path) -> None:
    """Write something readable for every kind of source."""
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text(ROW)
    (folder / "run.out").write_text(ROW)
    (folder / "saved" / "step-3").mkdir(parents=True)
    (folder / "saved" / "step-3" / "metadata.json").write_text('{"step": 3, "timestamp": "2026-01-01T00:00:00"}')
    shutil.copytree(next((CAPTURES / "wandb_offline").glob("**/*.wandb")).parent, folder / "offline")
    trial = folder / "trials" / "task__abc"
    trial.mkdir(parents=True)
    (trial / "result.json").write_text('{"task_name": "task", "trial_name": "task__abc"}')
    (folder / "trials" / "config.json").write_text("{}")


def _config(folder: Path, job: str, roots: Path | None) -> Config:
    path = folder / "runwatch.yaml"
    allowed = "" if roots is None else f"file_roots: [{roots}]\n"
    path.write_text(
        f"{allowed}sites: {{desk: {{scheduler: none}}}}\njobs:\n  - {{run: watched, bucket: sft, site: desk, {job}}}\n"
    )
    return load_config(path)


def _look(sources: SourceSet, config: Config) -> Outcome:
    jobs = list(jobs_from_config(config))
    (binding,) = [b for b in sources.bindings(config, jobs) if b.source.kind.value != "log" or b.history_key]
    return _answer(binding.source, jobs[0])


def _answer(source: Source, job: Job) -> Outcome:
    outcomes: list[Outcome] = []
    source.poll([job], lambda _, outcome: outcomes.append(outcome))
    return outcomes[-1]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_link_that_leads_out_of_the_roots_is_refused(tmp_path: Path, sources: SourceSet, kind: str) -> None:
    _fill(tmp_path / "secret")
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    for name in ("rows.jsonl", "run.out", "saved", "offline", "trials"):
        (allowed / name).symlink_to(tmp_path / "secret" / name)
    outcome = _look(sources, _config(tmp_path, KINDS[kind].replace("PATH", str(allowed)), allowed))
    assert isinstance(outcome, Failure), outcome
    assert outcome.reason is FailureReason.OTHER
    assert "outside file_roots" in outcome.detail


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_root_that_is_a_link_itself_is_where_it_leads(tmp_path: Path, sources: SourceSet, kind: str) -> None:
    _fill(tmp_path / "disk")
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    outcome = _look(sources, _config(tmp_path, KINDS[kind].replace("PATH", f"{tmp_path}/data"), tmp_path / "data"))
    assert not isinstance(outcome, Failure), outcome


@pytest.mark.parametrize("kind", ["jsonl", "log"])
def test_a_job_added_in_a_new_folder_is_read_by_the_source_that_runs_already(
    tmp_path: Path, sources: SourceSet, kind: str
) -> None:
    _fill(tmp_path / "first")
    _fill(tmp_path / "second")
    before = _config(tmp_path, KINDS[kind].replace("PATH", f"{tmp_path}/first"), None)
    assert not isinstance(_look(sources, before), Failure)
    first = sources.bindings(before, jobs_from_config(before))[0].source
    after = _config(tmp_path, KINDS[kind].replace("PATH", f"{tmp_path}/second"), None)
    outcome = _look(sources, after)
    assert sources.bindings(after, jobs_from_config(after))[0].source is first
    assert not isinstance(outcome, Failure), outcome


def test_parents_that_are_climbed_out_of_are_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.txt").write_text("secret")
    roots = FileRoots((tmp_path / "in",))
    with pytest.raises(OutsideRootsError, match="outside file_roots"):
        roots.open(tmp_path / "in" / ".." / "out.txt")
    (tmp_path / "in" / "own.txt").write_text("ours")
    with roots.open(tmp_path / "in" / ".." / "in" / "own.txt") as file:
        assert file.read() == b"ours"


def test_a_root_that_is_made_later_is_known_once_it_is_there(tmp_path: Path) -> None:
    roots = FileRoots((tmp_path / "later",))
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a").write_text("ours")
    (tmp_path / "later").symlink_to(tmp_path / "disk")
    with roots.open(tmp_path / "later" / "a") as file:
        assert file.read() == b"ours"


def test_a_scheduler_s_path_is_read_in_its_folder_only(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "passwords").write_text("secret")
    (tmp_path / "job" / "run_7.out").symlink_to(tmp_path / "passwords")
    refused = LocalLogFiles(None).find(str(tmp_path / "job" / "run_7.out"), 0.0)
    assert isinstance(refused, Failure) and "leads outside its folder" in refused.detail
    (tmp_path / "job" / "run_8.out").write_text("line\n")
    found = LocalLogFiles(None).find(str(tmp_path / "job" / "run_8.out"), 0.0)
    assert not isinstance(found, Failure) and [file.path for file in found] == [str(tmp_path / "job" / "run_8.out")]
