"""State and phase of jobs whose work is trials, with and without a scheduler, and of jobs with nothing but a log."""

from __future__ import annotations

import pytest

from runwatch.facts import HistoryRun, LogFacts, SchedulerState, TrialsFolder
from runwatch.measurements import JobReport
from runwatch.parsing.log_records import LogFailure
from tests.unit.scheduler_reports import state_of
from tests.unit.scheduler_stories import FAILED, PREEMPTED, SUCCEEDED, T0, attempt, facts, gang
from tests.unit.trial_stories import HOUR, failure, folder, log, report_of, trial

TWO = (trial(100), trial(200))
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("trials", "target", "at", "state", "phase"),
    [
        # a job folder that wrote its own result, and no trial's
        ([folder(changed=T0 + 50)], 2, 60, "running", "bringup"),
        ([folder(*TWO)], 3, 260, "running", "stepping"),
        ([folder(*TWO)], None, 260, "running", "stepping"),
        ([folder(*TWO)], 2, 260, "succeeded", "finished"),
        ([folder(*TWO, total=2)], None, 260, "succeeded", "finished"),
        # Harbor wrote that it ended, with less than it wanted to do
        ([folder(*TWO, total=3, finished=True)], None, 260, "succeeded", "finished"),
        # but a number that people configured is believed more: another job may come
        ([folder(*TWO, finished=True)], 3, 260, "running", "stepping"),
        ([folder(*TWO), folder(path="two")], None, 260, "running", "stepping"),
        ([folder(*TWO)], 3, 200 + DAY, "running", "stepping"),
        ([folder(*TWO)], 3, 201 + DAY, "unknown", "stepping"),
        # what is known of no time tells nothing of life
        ([folder(running=2)], 3, 60, "unknown", "bringup"),
    ],
)
def test_without_a_scheduler(trials: list[TrialsFolder], target: int | None, at: float, state: str, phase: str) -> None:
    report = report_of(at=at, trials=trials, target=target)
    assert state_of(report) == (state, phase)
    end = report.measurements.get("mljob_end_timestamp_seconds")
    assert end == (T0 + 200 if state == "succeeded" else None)


def test_it_starts_with_its_first_fact() -> None:
    report = report_of(at=260, trials=[folder(*TWO, changed=T0 + 210)])
    assert report.measurements.get("mljob_start_timestamp_seconds") == T0 + 100
    waiting = report_of(at=260, trials=[folder(changed=T0 + 40)])
    assert waiting.measurements.get("mljob_start_timestamp_seconds") == T0 + 40


def test_chunks_that_did_not_begin_are_missing() -> None:
    done = folder(*TWO, total=2, finished=True, chunk=0)
    report = report_of(at=260, trials=[done], chunks=(0, 1), bucket="datagen")
    assert state_of(report) == ("running", "stepping")
    assert state_of(report_of(at=260, trials=[done], chunks=(0,), bucket="datagen")) == ("succeeded", "finished")


def test_all_results_are_there_and_its_log_still_grows() -> None:
    for silence, told in ((300, ("running", "finishing")), (301, ("succeeded", "finished"))):
        report = report_of(at=1000, trials=[folder(*TWO)], target=2, logs=log(1000 - silence))
        assert state_of(report) == told


def test_a_fresh_heartbeat_says_that_it_runs() -> None:
    run = HistoryRun(state="running", heartbeat=T0 + 990)
    report = report_of(at=1000, trials=[folder(*TWO)], target=2, history=run)
    assert state_of(report) == ("running", "finishing")


def test_datagen_whose_number_is_not_known_is_done_when_it_is_uploaded() -> None:
    uploaded = log(100, upload_complete=True, upload_time=T0 + 90)
    assert state_of(report_of(at=900, trials=[folder(*TWO)], logs=uploaded, bucket="datagen"))[0] == "succeeded"
    assert state_of(report_of(at=900, trials=[folder(*TWO)], logs=log(100), bucket="datagen"))[0] == "running"
    # what is uploaded of an eval is not its end
    assert state_of(report_of(at=900, trials=[folder(*TWO)], logs=uploaded, bucket="eval"))[0] == "running"


@pytest.mark.parametrize(
    ("found", "at", "state", "reason"),
    [
        (failure("cuda_out_of_memory", 1000), 1301, "failed", "cuda_out_of_memory"),
        (failure("traceback"), 1301, "failed", "traceback"),
        (failure("wall_time", 1000), 1301, "timeout", "wall_time"),
        (failure("cancelled", 1000), 1301, "killed", "cancelled"),
        (failure("preempted", 1000), 1301, "preempted", None),
        # it was written to until a moment ago: whether it ended is not known yet
        (failure("traceback", 1000), 1300, "running", None),
        # it went on for more than ten minutes after it
        (failure("traceback", 399), 1301, "running", None),
        (failure("traceback", 400), 1301, "failed", "traceback"),
    ],
)
def test_an_end_in_the_log_where_no_scheduler_tells(
    found: LogFailure, at: float, state: str, reason: str | None
) -> None:
    for bucket in ("sft", "other", "eval"):
        report = report_of(at=at, logs=log(1000, found), bucket=bucket)  # type: ignore[arg-type]
        assert state_of(report)[0] == state
        assert report.measurements.one_hot("mljob_end_reason") == reason
        ended = report.measurements.get("mljob_end_timestamp_seconds")
        assert ended == (T0 + 1000 if reason else None)


@pytest.mark.parametrize(
    ("bucket", "reason", "uploaded", "target", "state"),
    [
        # a launch script that ends its engine once all is done: "line 88: 4711 Terminated  vllm serve ..."
        ("eval", "sigterm", None, 2, "succeeded"),
        ("eval", "sigkill", None, 2, "succeeded"),
        ("datagen", "sigterm", True, 2, "succeeded"),
        # its work is not done by its results alone
        ("datagen", "sigterm", None, 2, "failed"),
        ("eval", "sigterm", None, 3, "failed"),
        ("eval", "traceback", None, 2, "failed"),
    ],
)
def test_a_signal_after_all_work_is_no_failure(
    bucket: str, reason: str, uploaded: bool | None, target: int, state: str
) -> None:
    said = log(260, failure(reason, 260), upload_complete=uploaded)
    report = report_of(at=900, trials=[folder(*TWO)], target=target, logs=said, bucket=bucket)  # type: ignore[arg-type]
    assert state_of(report)[0] == state


def test_results_after_a_failure_show_that_it_went_on() -> None:
    broken = log(1000, failure("traceback", 1000))
    assert state_of(report_of(at=2000, trials=[folder(trial(1601))], target=2, logs=broken))[0] == "running"
    assert state_of(report_of(at=2000, trials=[folder(trial(1600))], target=2, logs=broken))[0] == "failed"


def test_a_log_alone() -> None:
    assert state_of(report_of(at=1000, logs=log(990), bucket="other")) == ("running", "stepping")
    assert state_of(report_of(at=1000, logs=log(990), bucket="sft")) == ("running", None)
    assert state_of(report_of(at=1000 + DAY, logs=log(990), bucket="sft")) == ("unknown", None)
    assert state_of(report_of(at=1000, logs=log(600, completed=True), bucket="other")) == ("succeeded", "finished")


def test_nothing_read_is_unknown_and_has_no_phase() -> None:
    assert state_of(report_of(at=60)) == ("unknown", None)
    assert state_of(report_of(at=60, logs=LogFacts(()))) == ("unknown", None)


def scheduled(said: object, at: float, **fields: object) -> JobReport:
    return report_of((at, said), at=at, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "trials", "state", "phase"),
    [
        (facts(state=SchedulerState.PENDING), [folder()], "pending", "queued"),
        (facts(gang(0, 0)), [folder()], "running", "bringup"),
        (facts(gang(0, 0)), [folder(*TWO)], "running", "stepping"),
        (facts(gang(0, 0)), [folder(*TWO, trial(300))], "running", "finishing"),
        (facts([*gang(0, 0, 250, PREEMPTED), *gang(1, 300)]), [folder(*TWO)], "running", "resuming"),
        (facts(gang(0, 0, 250, PREEMPTED), SchedulerState.PREEMPTED), [folder(*TWO)], "preempted", "resuming"),
        (facts(gang(0, 0, 250, PREEMPTED), SchedulerState.PREEMPTED), [folder()], "preempted", "bringup"),
        (facts(gang(0, 0, 350, FAILED), SchedulerState.FAILED), [folder(*TWO)], "failed", "finished"),
        # the last trial saw the end that a record which is gone cannot tell of
        (facts(state=SchedulerState.GONE), [folder(*TWO, trial(300))], "succeeded", "finished"),
        (facts(state=SchedulerState.GONE), [folder(*TWO)], "vanished", "finished"),
        (facts(state=SchedulerState.UNKNOWN), [folder(*TWO, trial(300))], "succeeded", "finished"),
    ],
)
def test_with_a_scheduler(said: object, trials: list[TrialsFolder], state: str, phase: str) -> None:
    assert state_of(scheduled(said, 400, trials=trials, target=3)) == (state, phase)


def test_a_log_that_ended_in_a_failure_is_no_end_while_the_scheduler_says_that_it_runs() -> None:
    broken = log(100, failure("traceback", 100))
    assert state_of(scheduled(facts(gang(0, 0)), 4000, logs=broken, bucket="sft"))[0] == "running"
    assert state_of(scheduled(facts(state=SchedulerState.GONE), 4000, logs=broken, bucket="sft"))[0] == "failed"


def test_results_of_another_job_in_its_folder_do_not_make_it_older() -> None:
    report = scheduled(facts(gang(0, 5000)), 6000, trials=[folder(*TWO, trial(5500))], target=9)
    assert report.measurements.get("mljob_start_timestamp_seconds") == T0 + 5000


def test_results_after_its_end_are_a_conflict() -> None:
    over = facts(gang(0, 0, 1000, SUCCEEDED), SchedulerState.SUCCEEDED, ended=T0 + 1000)
    for last, conflict in ((1090, 0), (1091, 1)):
        report = scheduled(over, 2000, trials=[folder(trial(last))])
        assert report.measurements.get("mljob_state_conflict") == conflict


def test_interruptions_count_from_the_newest_result() -> None:
    said = facts([*gang(0, 0, 100, FAILED), *gang(1, 150, 300, FAILED), *gang(2, 350, 500, FAILED), *gang(3, 550)])
    name = "mljob_interruptions_since_progress"
    for results, count in (([], 3), ([trial(200)], 2), ([trial(600)], 0)):
        assert scheduled(said, 700, trials=[folder(*results)]).measurements.get(name) == count
    assert scheduled(said, 700).measurements.get(name) is None
    # the trials of an RL job are not its progress
    rl = scheduled(said, 700, trials=[folder(trial(600))], rewards=[0.5, 0.5, 0.5], bucket="rl")
    assert rl.measurements.get(name) == 2


@pytest.mark.parametrize(
    ("code", "detail", "found", "reason"),
    [
        # what the log knows beside a bare exit code
        (1, "Error", [failure("traceback", 900)], "traceback"),
        (1, "Error", [failure("cuda_out_of_memory", 900), failure("sigterm", 905)], "cuda_out_of_memory"),
        (137, "Error", [failure("nccl", 900)], "nccl"),
        (143, "Error", [failure("sigkill", 900)], "sigterm"),
        (137, "Error", [], "sigkill"),
        # the scheduler knows memory, nodes and preemptions better
        (137, "OOMKilled", [failure("traceback", 900)], "out_of_memory"),
        (1, "NODE_FAIL", [failure("nccl", 900)], "node"),
        # a failure of an attempt before this one
        (1, "Error", [failure("traceback", -91)], "unknown"),
        (1, "Error", [failure("traceback", -89)], "traceback"),
    ],
)
def test_why_it_ended_by_scheduler_and_log(code: int, detail: str, found: list[LogFailure], reason: str) -> None:
    last = attempt("a", 0, 0, 1000, FAILED, exit_code=code, detail=detail)
    said = facts([last], SchedulerState.FAILED, exit_code=code)
    report = scheduled(said, 1100, logs=log(1000, *found), bucket="sft")
    assert report.measurements.one_hot("mljob_end_reason") == reason
