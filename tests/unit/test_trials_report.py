"""Trials and logs in the one record of a job: what measures, tells and takes part in the collapse rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from runwatch.catalogue import ENDED_STATES
from runwatch.config.model import Bucket
from runwatch.facts import LogFacts, SchedulerState, Successor
from runwatch.report.tables import render_tables
from tests.unit.scheduler_reports import state_of
from tests.unit.scheduler_stories import FAILED, SUCCEEDED, T0, facts, gang
from tests.unit.trial_stories import HOUR, MINUTE, failure, folder, log, report_of, trial, words_of
from tests.unit.trial_trees import WRITTEN, capture, update_of


def many(passed: int, failed: int, turns: float = 5.0) -> list[object]:
    rewards = [1.0] * passed + [0.0] * failed
    return [trial(i, reward, turns) for i, reward in enumerate(rewards)]


def test_trials_and_logs_are_measured_with_the_state() -> None:
    engine = log(
        4000, running_requests=3, running_requests_time=T0 + 3990, last_success=T0 + 3995, tunnel_up=True,
        auth_failures=(T0 + 100, T0 + 3000),
    )  # fmt: skip
    report = report_of(
        (4000, facts(gang(0, 0))), at=4000, logs=engine, target=4,
        trials=[folder(trial(1000), trial(2000, 0.0, exception="AgentTimeoutError"), trial(3900, None, None))],
    )  # fmt: skip
    measured = report.measurements
    expected = {
        "mljob_trials": 3, "mljob_trials_target": 4, "mljob_trials_scored": 2, "mljob_trials_agent_ran": 2,
        "mljob_trial_pass_ratio": 0.5, "mljob_trial_turns": 5, "mljob_last_trial_timestamp_seconds": T0 + 3900,
        "mljob_engine_running_requests": 3, "mljob_auth_failures": 1,
        "mljob_log_last_write_timestamp_seconds": T0 + 4000,
    }  # fmt: skip
    assert {name: measured.get(name) for name in expected} == expected
    assert measured.family("mljob_infra_check") == {("tunnel",): 1, ("engine",): 1, ("progress",): 1}
    assert measured.get("mljob_observed_timestamp_seconds", source="trials") == T0 + 4000
    assert state_of(report) == ("running", "stepping")
    assert words_of(report) == {"stable": "stable"}
    assert {entry.topic for entry in report.evidence} >= {"trials", "log", "state", "sources"}


def test_the_captured_job_in_its_table(tmp_path: Path) -> None:
    # 16 trials, 12 of them scored and 6 of those passed; two each of four exceptions. Harbor's own total is 16.
    update = update_of(capture(tmp_path))
    at = WRITTEN + 60 - T0
    report = report_of((at, facts(gang(0, at - 3000))), at=at, trials=update.folders)
    assert state_of(report) == ("running", "finishing")
    row = next(line for line in render_tables([report], T0 + at, width=200).splitlines() if "tb2-qwen" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "tb2-qwen", "16/16", "0.500", "AgentTimeoutError (2)", "tunnel —, engine —, progress ✓",
        "all results are there, still running",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("trials", "at", "progress"),
    [([], 3600, None), ([], 3601, 0), ([trial(100)], 200, 1), ([trial(100)], 3700, 1), ([trial(100)], 3701, 0)],
)
def test_the_launch_check_of_progress(trials: list[object], at: float, progress: float | None) -> None:
    said = facts(gang(0, 0))
    report = report_of((at, said), at=at, trials=[folder(*trials)], target=9)  # type: ignore[arg-type]
    assert report.measurements.get("mljob_infra_check", check="progress") == progress
    assert ("trials_stalled" in words_of(report)) is (progress == 0)


def test_a_low_pass_ratio_and_high_grad_norms_collapse_a_run_at_its_newest_step() -> None:
    # 9 of the last 100 trials passed: one signal. The history below brings no other.
    low = report_of(at=10_000, bucket="rl", rewards=[0.1] * 20, trials=[folder(*many(9, 91))])  # type: ignore[arg-type]
    assert low.measurements.get("mljob_rl_trial_pass_ratio") == 0.09
    assert low.measurements.get("mljob_rl_collapse_step") is None
    assert "collapse" not in words_of(low)
    signals = [e for e in low.evidence if e.text.startswith("collapse rule:")]
    assert [e.fields["signals"] for e in signals] == [["pass_ratio"]]
    fine = report_of(at=10_000, bucket="rl", rewards=[0.1] * 20, trials=[folder(*many(10, 90))])  # type: ignore[arg-type]
    assert [e.fields["signals"] for e in fine.evidence if e.text.startswith("collapse rule:")] == [[]]


def test_an_rl_run_that_takes_one_turn_a_trial_is_probed() -> None:
    one = [folder(*many(5, 15, turns=1.0))]  # type: ignore[arg-type]
    assert words_of(report_of(at=10_000, bucket="rl", rewards=[0.1] * 5, trials=one))["deep_probe"] == (
        "deep-probe: 1.00 turns a trial"
    )
    few = [folder(*many(5, 14, turns=1.0))]  # type: ignore[arg-type]
    assert "deep_probe" not in words_of(report_of(at=10_000, bucket="rl", rewards=[0.1] * 5, trials=few))
    assert "deep_probe" not in words_of(
        report_of(at=10_000, bucket="rl", rewards=[0.1] * 5, trials=one, labels={"turns": "single"})
    )


def test_nothing_of_rl_comes_from_trials_that_a_job_does_not_have() -> None:
    report = report_of(at=10_000, bucket="rl", kind="standard", rewards=[0.1] * 5)
    assert report.measurements.get("mljob_rl_trials_in_window") is None
    assert "deep_probe" not in words_of(report)


@pytest.mark.parametrize(
    ("path", "gone", "text"),
    [
        ("/data/evals/tb2", False, "completed; clean-up open: eval-agentic-cleanup"),
        ("/data/evals/tb2", True, "completed; clean-up done: the trial tree is gone"),
        ("gs://bucket/evals/tb2", False, "completed; clean-up: eval-agentic-cleanup"),
    ],
)
def test_clean_up_is_open_until_the_trial_tree_is_gone(path: str, gone: bool, text: str) -> None:
    over = facts(gang(0, 0, 1000, SUCCEEDED), SchedulerState.SUCCEEDED, ended=T0 + 1000)
    report = report_of(
        (1100, over), at=1100, trials=[folder(trial(900))], target=1, path=path, tree_is_gone=gone, now=9000
    )
    assert words_of(report) == {"completed": text}


def test_a_chunk_that_began_has_failed_once_the_job_is_over_for_good() -> None:
    chunks = [folder(trial(100), path="a", chunk=0, finished=True), folder(trial(200), path="b", chunk=1)]
    over = facts(gang(0, 0, 1000, FAILED), SchedulerState.TIMEOUT, ended=T0 + 1000)
    chained = dataclasses.replace(over, successor=Successor("813", running=False, can_start=True))
    for said, began in ((over, "failed"), (chained, "running"), (facts(gang(0, 0)), "running")):
        report = report_of((1100, said), at=1100, bucket="datagen", trials=chunks, chunks=(0, 1, 2))
        states = {state: n for (state,), n in report.measurements.family("mljob_chunks").items() if n}
        assert states == {"done": 1, began: 1, "pending": 1}


def test_a_chunk_whose_log_is_silent_hangs_while_others_go_on() -> None:
    at = 3 * HOUR
    chunks = [
        folder(trial(at - 60), path="a", chunk=0, changed=T0 + at - 60),
        folder(trial(60), path="b", chunk=1, changed=T0 + 60),
    ]
    said = log(at - 30, chunk_last_writes={0: T0 + at - 30, 1: T0 + 90})
    report = report_of((at, facts(gang(0, 0))), at=at, bucket="datagen", trials=chunks, chunks=(0, 1), logs=said)
    assert report.measurements.get("mljob_chunks", state="hung") == 1
    assert words_of(report)["trials_stalled"] == "1 chunk hangs: log and trials silent for over 2 h"


def test_traces_are_stranded_at_the_wall_time_limit() -> None:
    over = facts(gang(0, 0, 1000, FAILED), SchedulerState.TIMEOUT, ended=T0 + 1000)
    found = words_of(report_of((1100, over), at=1100, bucket="datagen", trials=[folder(trial(900))], logs=log(990)))
    assert list(found) == ["traces_stranded", "timeout"]
    uploaded = log(990, upload_complete=True, upload_time=T0 + 980)
    safe = report_of((1100, over), at=1100, bucket="datagen", trials=[folder(trial(900))], logs=uploaded)
    assert list(words_of(safe)) == ["timeout"]


def test_a_note_is_told_and_becomes_no_label() -> None:
    report = report_of(at=60, logs=log(50), bucket="other", kind="upload", labels={"note": "pushes 9 rows"})
    assert "pushes 9 rows" not in report.info.values()
    assert "│ upload │ running │ —       │ pushes 9 rows │" in render_tables([report], T0 + 60, width=120)


def test_a_log_that_says_nothing_measures_nothing() -> None:
    report = report_of(at=60, logs=LogFacts(("/logs/a.out",)), bucket="eval")
    names = set(report.measurements.names())
    assert not {name for name in names if "trial" in name or "engine" in name or "infra" in name}
    assert state_of(report) == ("unknown", None)


def test_a_stall_of_a_preempted_eval_is_told_as_not_resumed() -> None:
    preempted = dataclasses.replace(facts(gang(0, 0, 300, FAILED)), state=SchedulerState.PREEMPTED)
    at = 300 + 46 * MINUTE
    report = report_of((at, preempted), at=at, trials=[folder(trial(200))], target=9)
    assert words_of(report)["not_resumed"] == "not placed again for 46 min since the interruption (limit 45 min)"
    again = facts([*gang(0, 0, 300, FAILED), *gang(1, 400)])
    report = report_of((at, again), at=at, trials=[folder(trial(200))], target=9)
    assert words_of(report)["not_resumed"] == "no new result for 46 min since the interruption (limit 45 min)"


def test_why_it_failed_is_told_beside_its_end() -> None:
    over = facts(gang(0, 0, 1000, FAILED), SchedulerState.FAILED, ended=T0 + 1000, exit_code=1)
    broken = log(1000, failure("cuda_out_of_memory", 990))
    report = report_of((1100, over), at=1100, logs=broken, bucket="sft")
    assert words_of(report) == {"failed": "failed, exit 1 (cuda_out_of_memory): diagnose"}


@settings(max_examples=80)
@given(
    results=st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from([None, 0.0, 1.0])), max_size=30),
    target=st.none() | st.integers(1, 30),
    said=st.none() | st.sampled_from(SchedulerState),
    at=st.integers(20_000, 200_000),
    written=st.none() | st.integers(0, 20_000),
    broken=st.booleans(),
    bucket=st.sampled_from(["rl", "datagen", "eval", "other"]),
)
def test_whatever_is_read_there_is_one_state_and_ages_accuse_only_what_runs(
    *,
    results: list[tuple[int, float | None]],
    target: int | None,
    said: SchedulerState | None,
    at: int,
    written: int | None,
    broken: bool,
    bucket: Bucket,
) -> None:
    polls = [] if said is None else [(float(at), facts(gang(0, 0), said))]
    logs = None if written is None else log(written, *([failure("traceback", written)] if broken else []))
    trials = [folder(*(trial(time, reward) for time, reward in results))]
    report = report_of(*polls, at=at, trials=trials, target=target, logs=logs, bucket=bucket)
    state, phase = state_of(report)
    assert list(report.measurements.family("mljob_state").values()).count(1.0) == 1
    assert (phase == "finished") is (state in ENDED_STATES) or phase is None
    words = set(words_of(report))
    if state != "running":
        assert not words & {"trials_stalled", "zombie", "engine_idle"}
    assert ("zombie" not in words) or len(results) >= (target or 0)
    assert (report.measurements.get("mljob_end_timestamp_seconds") is None) or state in ENDED_STATES
    for width in (40, 80):
        assert all(cell_len(line) <= width for line in render_tables([report], T0 + at, width=width).splitlines())
