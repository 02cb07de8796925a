"""The reader on real folders: what is counted, what a look costs, what changes under its hands."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runwatch.facts import Failure, FailureReason
from runwatch.fleet import Job
from runwatch.sources import trial_folders
from runwatch.sources.trials import TrialsReader
from tests.unit.trial_trees import WRITTEN, Reading, capture, job_result, trial, update_of, write

NOW = WRITTEN + 1e6


def test_only_results_one_level_below_the_job_folder_count(tmp_path: Path) -> None:
    job_result(tmp_path, 4)
    trial(tmp_path / "a__aaaaaaa")
    trial(tmp_path / "a__aaaaaaa" / "artifacts" / "b__bbbbbbb")
    write(tmp_path / "a__aaaaaaa" / "artifacts" / "result.json", "{}")
    write(tmp_path / "c__ccccccc" / "trial.log", "")
    (folder,) = update_of(tmp_path).folders
    assert [result.name for result in folder.results] == ["a__aaaaaaa"]
    assert (folder.path, folder.running, folder.unreadable, folder.total) == ("", 1, 0, 4)


@pytest.mark.parametrize("markers", [True, False])
def test_the_captured_job_from_its_own_folder_and_from_the_one_above(tmp_path: Path, markers: bool) -> None:
    job = capture(tmp_path)
    if not markers:
        (job / "job.log").unlink()
        (job / "result.json").unlink()
    from_job, from_above = update_of(job), update_of(tmp_path)
    assert [folder.path for folder in (*from_job.folders, *from_above.folders)] == ["", "eval-fake__tb"]
    assert from_job.folders[0].results == from_above.folders[0].results
    assert len(from_job.folders[0].results) == 16
    assert from_job.folders[0].total == (16 if markers else None)
    assert from_job.folders[0].changed == WRITTEN + (99 if markers else 15)


def test_job_folders_whose_names_look_like_trials(tmp_path: Path) -> None:
    for name in ("model__datset1", "model__datset2"):  # `__` and seven characters, like a trial
        trial(tmp_path / name / "task__aaaaaaa")
    update = update_of(tmp_path)
    assert [folder.path for folder in update.folders] == ["model__datset1", "model__datset2"]
    # Copied without anything but the results themselves.
    for name in ("model__datset1", "model__datset2"):
        (tmp_path / name / "task__aaaaaaa" / "trial.log").unlink()
    assert update_of(tmp_path) == update
    assert [result.name for folder in update_of(tmp_path / "model__datset1").folders for result in folder.results] == [
        "task__aaaaaaa"
    ]


def test_chunks_of_datagen(tmp_path: Path) -> None:
    jobs = tmp_path / "trace_jobs"
    for number in range(4):
        write(jobs / "task_chunks" / f"chunk_{number:03}" / "task" / "instruction.md", "")
    write(jobs / "task_chunks" / "task_chunk_map.json", "{}")
    job_result(jobs / "chunk_000" / "gen_trace_000", 1, finished=True, written=WRITTEN + 5)
    trial(jobs / "chunk_000" / "gen_trace_000" / "t__aaaaaaa")
    job_result(jobs / "chunk_001" / "gen_trace_001", 2)
    trial(jobs / "chunk_001" / "gen_trace_001" / "t__bbbbbbb", written=WRITTEN + 9)
    (jobs / "chunk_002").mkdir()
    for root, prefix in ((tmp_path, "trace_jobs/"), (jobs, "")):
        update = update_of(root)
        assert update.chunks == (0, 1, 2, 3)
        assert [(folder.path, folder.chunk, folder.finished, folder.changed) for folder in update.folders] == [
            (f"{prefix}chunk_000/gen_trace_000", 0, True, WRITTEN + 5),
            (f"{prefix}chunk_001/gen_trace_001", 1, False, WRITTEN + 9),
        ]


def test_a_run_of_terminal_bench_and_a_folder_of_runs(tmp_path: Path) -> None:
    run = tmp_path / "2025-07-01__10-00-00"
    write(run / "run_metadata.json", "{}")
    assert update_of(tmp_path).folders[0].results == ()
    write(run / "results.json", '{"results": [{"trial_name": "a", "task_id": "t", "is_resolved": true}]}')
    write(run / "t" / "a" / "results.json", "{}")
    reading = Reading()
    (folder,) = reading.update(tmp_path).folders
    assert [(result.name, result.reward, result.finished) for result in folder.results] == [("t/a", 1.0, WRITTEN)]
    assert reading.update(run).folders[0].results == folder.results
    write(run / "results.json", '{"results": [{"trial_na', WRITTEN + 1)
    assert reading.update(run).folders[0].results == folder.results
    (hidden,) = update_of(run, at=WRITTEN - 1).folders
    assert hidden.results == ()


def test_a_run_that_was_never_read_whole_has_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading()
    write(tmp_path / "results.json", '{"results": [{"trial_na')
    cut_off = reading.look(tmp_path)
    assert isinstance(cut_off, Failure)
    assert (cut_off.reason, "results.json" in cut_off.detail) == (FailureReason.PARSE, True)
    write(tmp_path / "results.json", '{"results": [{"trial_name": "a", "task_id": "t", "is_resolved": true}]}')
    assert reading.names(tmp_path) == ["t/a"]
    monkeypatch.setattr(trial_folders, "READ_LIMIT_BYTES", 70)
    too_large = Reading().look(tmp_path)
    assert isinstance(too_large, Failure)
    assert too_large.reason is FailureReason.OTHER


def test_a_finished_trial_is_read_once(tmp_path: Path) -> None:
    job_result(tmp_path, 500)
    for number in range(200):
        trial(tmp_path / f"t{number}__aaaaaaa")
    write(tmp_path / "r__aaaaaaa" / "trial.log", "")
    reading = Reading(clock=lambda: NOW)
    first = reading.update(tmp_path)
    # The folder, the job's result, 201 trial folders and 200 results.
    assert len(reading.requests) == 1 + 1 + 201 + 200
    assert reading.update(tmp_path) == first
    # The folder, the one that waits, and 20 that are looked at again in turn.
    assert len(reading.requests) == 1 + 1 + 20
    trial(tmp_path / "r__aaaaaaa", 0.0)
    second = reading.update(tmp_path)
    assert len(reading.requests) == 1 + 2 + 20
    assert len(second.folders[0].results) == 201


def test_a_result_graded_anew_is_seen_in_its_turn(tmp_path: Path) -> None:
    job_result(tmp_path, 50)
    for number in range(50):
        trial(tmp_path / f"t{number}__aaaaaaa", 0.0)
    reading = Reading(clock=lambda: NOW)
    reading.update(tmp_path)
    trial(tmp_path / "t7__aaaaaaa", 1.0, written=WRITTEN + 60)
    rewards = [sum(result.reward or 0 for result in reading.update(tmp_path).folders[0].results) for _ in range(3)]
    assert rewards[-1] == 1.0  # 20 a look: 50 are through after three


def test_half_written_results_are_tried_again_and_reported_when_that_lasts(tmp_path: Path) -> None:
    job_result(tmp_path, 2)
    trial(tmp_path / "a__aaaaaaa", 0.0)
    write(tmp_path / "b__bbbbbbb" / "result.json", '{"trial_name": "b__bb')
    reading = Reading(clock=lambda: NOW)
    seen = [reading.update(tmp_path).folders[0] for _ in range(3)]
    assert [(len(folder.results), folder.running, folder.unreadable) for folder in seen] == [
        (1, 1, 0),
        (1, 1, 0),
        (1, 0, 1),
    ]
    trial(tmp_path / "b__bbbbbbb")
    (folder,) = reading.update(tmp_path).folders
    assert (len(folder.results), folder.unreadable) == (2, 0)
    # One that is being written anew keeps its former value meanwhile.
    write(tmp_path / "a__aaaaaaa" / "result.json", "{", WRITTEN + 5)
    assert len(reading.update(tmp_path).folders[0].results) == 2
    trial(tmp_path / "a__aaaaaaa", 1.0, written=WRITTEN + 6)
    assert [result.reward for result in reading.update(tmp_path).folders[0].results] == [1.0, 1.0]
    # So does the job's own.
    write(tmp_path / "result.json", '{"n_total_tr', WRITTEN + 7)
    assert reading.update(tmp_path).folders[0].total == 2
    job_result(tmp_path, 3, written=WRITTEN + 8)
    assert reading.update(tmp_path).folders[0].total == 3


def test_a_retry_replaces_the_attempt_under_the_same_name(tmp_path: Path) -> None:
    now = WRITTEN + 30
    job_result(tmp_path, 100)
    for number in range(99):
        trial(tmp_path / f"t{number:02}__aaaaaaa")
    trial(tmp_path / "z__zzzzzzz", None, exception="DaytonaError")
    reading = Reading(clock=lambda: now)
    assert len(reading.names(tmp_path)) == 100
    shutil.rmtree(tmp_path / "z__zzzzzzz")
    write(tmp_path / "z__zzzzzzz" / "trial.log", "")
    assert len(reading.names(tmp_path)) == 99
    trial(tmp_path / "z__zzzzzzz", 1.0, written=WRITTEN + 200)
    assert reading.update(tmp_path).folders[0].results[-1].reward == 1.0


def test_the_count_goes_down_when_a_resumed_job_removes_trials(tmp_path: Path) -> None:
    job = capture(tmp_path)
    reading = Reading(clock=lambda: NOW)
    assert len(reading.names(job)) == 16
    for path in job.glob("envfail-*"):
        shutil.rmtree(path)
    assert len(reading.names(job)) == 14


def test_at_hides_later_results_and_a_later_job_result(tmp_path: Path) -> None:
    job = capture(tmp_path)
    (folder,) = update_of(job, at=WRITTEN + 4).folders
    assert (len(folder.results), folder.running, folder.total, folder.finished) == (5, 11, None, False)
    (folder,) = update_of(job, at=WRITTEN + 99).folders
    assert (len(folder.results), folder.total, folder.finished) == (16, 16, True)


def test_a_long_first_read_is_cut_into_looks(tmp_path: Path) -> None:
    job = capture(tmp_path)
    reading = Reading(new_a_look=6, clock=lambda: NOW)
    updates = [reading.update(job) for _ in range(3)]
    assert [(len(update.folders[0].results), update.caught_up) for update in updates] == [
        (6, False),
        (12, False),
        (16, True),
    ]
    assert updates[-1] == update_of(job)
    slow = iter(range(0, 1000, 3))
    by_time = Reading(monotonic=lambda: float(next(slow)))
    assert not by_time.update(job).caught_up


def test_turns_come_from_the_trajectory_where_the_result_counts_none(tmp_path: Path) -> None:
    job_result(tmp_path, 3)
    trial(tmp_path / "a__aaaaaaa", turns=None)
    steps = '{"steps": [{"source": "user"}, {"source": "agent"}, {"source": "agent"}]}'
    write(tmp_path / "a__aaaaaaa" / "agent" / "trajectory.json", steps)
    write(tmp_path / "a__aaaaaaa" / "agent" / "trajectory.cont-1.json", '{"steps": [{"source": "agent"}]}')
    trial(tmp_path / "b__bbbbbbb", turns=None)
    trial(tmp_path / "c__ccccccc", turns=None)
    write(tmp_path / "c__ccccccc" / "agent" / "trajectory.json", '{"steps": [')
    reading = Reading()
    (folder,) = reading.update(tmp_path).folders
    assert [(result.turns, result.agent_ran) for result in folder.results] == [(3.0, True), (None, True), (None, True)]


@pytest.mark.parametrize("made", ["nothing", "empty", "other"])
def test_where_nothing_of_harbors_lies_is_not_found(tmp_path: Path, made: str) -> None:
    root = tmp_path / "root"
    if made != "nothing":
        root.mkdir()
    if made == "other":
        write(root / "notes" / "readme.txt", "x")
    outcome = Reading().look(root)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.NOT_FOUND
    assert str(root) in outcome.detail


def test_a_job_without_a_result_yet_is_read_and_has_none(tmp_path: Path) -> None:
    write(tmp_path / "job.log", "")
    (folder,) = update_of(tmp_path).folders
    assert (folder.results, folder.running, folder.changed) == ((), 0, None)


def test_a_folder_that_fails_fails_the_look_and_what_was_read_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        job_result(tmp_path / name, 1)
        trial(tmp_path / name / "t__aaaaaaa")
    reading = Reading(clock=lambda: NOW)
    before = reading.update(tmp_path)
    scandir = os.scandir

    def refuses(path: os.PathLike[str]) -> object:
        if Path(path).name == "two":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuses)
        outcome = reading.look(tmp_path)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.AUTH
    assert reading.update(tmp_path) == before
    assert len(reading.requests) == 5  # root, two job folders, and both trials in their turn: no result is read again


def test_what_is_wrong_with_the_config_is_a_failure() -> None:
    outcome = Reading().look("s3://bucket/x")
    assert isinstance(outcome, Failure)
    assert "S3 is not supported" in outcome.detail
    outcome = TrialsReader(lambda site: None).read(Job(run="r", bucket="eval"))
    assert isinstance(outcome, Failure)


def test_a_folder_of_too_many_folders_that_is_no_job(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / f"n{number}").mkdir()
    outcome = Reading().look(tmp_path)
    assert isinstance(outcome, Failure)
    assert "name the folder of the jobs" in outcome.detail


@pytest.mark.parametrize(
    "name", ["t__bbbbbbb", "t__aaaaaaa/result.json", "trace_jobs", "chunk_001", "results.json", "run/results.json"]
)
def test_a_link_out_of_the_root_that_may_hold_results_leaves_no_count(tmp_path: Path, name: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    write(root / "job.log", "")
    write(root / "run" / "run_metadata.json", "{}")
    trial(root / "t__aaaaaaa")
    trial(elsewhere / "t__bbbbbbb")
    if name in {"trace_jobs", "chunk_001", "results.json", "run/results.json"}:
        (root / "job.log").unlink()
        shutil.rmtree(root / "t__aaaaaaa")
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(elsewhere / "t__bbbbbbb" / ("result.json" if "." in name else ""))
    refused = Reading().look(root)
    assert isinstance(refused, Failure)
    assert refused.reason is FailureReason.OTHER
    assert f"{root / name} is a link that leads out of the root" in refused.detail


def test_another_link_out_of_the_root_is_only_told(tmp_path: Path) -> None:
    job_result(tmp_path / "job", 1)
    trial(tmp_path / "job" / "t__aaaaaaa")
    (tmp_path / "job" / "data").symlink_to(tmp_path.parent)
    (tmp_path / "job" / "t__aaaaaaa" / "artifacts").symlink_to(tmp_path.parent)
    update = update_of(tmp_path / "job")
    assert [result.name for result in update.folders[0].results] == ["t__aaaaaaa"]
    assert any("links that lead out of the root are not followed: data" in note for note in update.notes)
