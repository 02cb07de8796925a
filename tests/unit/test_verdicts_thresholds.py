"""Each verdict at its threshold, just below and just above, and beside what looks like it and is harmless."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from runwatch.derive.verdicts import verdicts
from tests.unit.small_fleet import HOUR, MINUTE, NOW, Value, measure

SEEN = NOW - 10
OBSERVED: dict[str, Value] = {"observed_timestamp_seconds": {"history": SEEN, "checkpoints": SEEN}}


def words(
    values: Mapping[str, Value],
    bucket: str = "sft",
    state: str = "running",
    phase: str = "stepping",
    info: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the verdicts of a job with sources that answered ten seconds ago, by word."""
    measured = measure(OBSERVED | dict(values), state, phase)
    return {verdict.word: verdict.text for verdict in verdicts(measured, bucket, info or {}, NOW)}


def step_age(seconds: float) -> dict[str, Value]:
    return {"step": 100, "last_step_timestamp_seconds": SEEN - seconds}


@pytest.mark.parametrize(
    ("age", "threshold", "bucket", "holds"),
    [
        # 300 s / 4 + 15 min = 975 s; the contract's figure for 8 s a step, 15 min + 1440 s / 4 = 21 min, and
        # for 30 min a step, 15 min + 36000 s / 4 = 2 h 45 min.
        (975, 300, "sft", False),
        (976, 300, "sft", True),
        (1260, 1440, "sft", False),
        (1261, 1440, "sft", True),
        (9900, 36000, "rl", False),
        (9901, 36000, "rl", True),
        (2700, None, "sft", False),
        (2701, None, "sft", True),
        (2701, None, "rl", False),
        (5400, None, "rl", False),
        (5401, None, "rl", True),
    ],
)
def test_stalled(age: float, threshold: float | None, bucket: str, holds: bool) -> None:
    values = step_age(age) | ({} if threshold is None else {"gap_threshold_seconds": threshold})
    assert ("stalled" in words(values, bucket)) is holds


def test_rows_that_come_no_more_are_no_stall_where_results_tell() -> None:
    assert "stalled" in words(step_age(5 * HOUR), "eval")
    assert "stalled" not in words(step_age(5 * HOUR) | {"trials": 3}, "eval")
    assert "stalled" in words(step_age(5 * HOUR) | {"trials": 3}, "rl")


def test_stalled_says_age_and_limit() -> None:
    assert (
        words(step_age(50 * MINUTE) | {"gap_threshold_seconds": 1440})["stalled"] == "no step for 50 min (limit 21 min)"
    )


@pytest.mark.parametrize(("phase", "holds"), [("queued", False), ("resuming", False), ("finishing", True)])
def test_nothing_can_be_saved_before_the_first_new_step(phase: str, holds: bool) -> None:
    assert ("no_checkpoint" in words(NO_SAVE | {FIRST_STEP: SEEN - 9 * HOUR}, phase=phase)) is holds


def test_an_age_that_just_crossed_its_limit_does_not_read_as_the_limit() -> None:
    step, saved = {"step": 100, "first_step_timestamp_seconds": SEEN - 9 * HOUR}, "checkpoint_timestamp_seconds"
    started: dict[str, Value] = {"start_timestamp_seconds": SEEN - 45 * MINUTE - 7}
    interrupted = started | {"interruption_timestamp_seconds": {"preemption": SEEN - 45 * MINUTE - 7}}
    late: dict[str, Value] = {"trials": 5, "last_trial_timestamp_seconds": SEEN - HOUR - 7}
    late |= {"observed_timestamp_seconds": {"trials": SEEN}}
    none: dict[str, Value] = {"checkpoints": {"complete": 0}, "checkpoint_interval_seconds": 60}
    assert words(step_age(45 * MINUTE + 7))["stalled"] == "no step for 45 min 7 s (limit 45 min)"
    assert words(started, phase="bringup")["bringup_stuck"] == "no first step for 45 min 7 s (limit 45 min)"
    assert words(interrupted, phase="resuming")["not_resumed"] == (
        "no new step for 45 min 7 s since the interruption (limit 45 min)"
    )
    assert words(late, "eval")["trials_stalled"] == "no new result for 1 h 7 s (limit 1 h)"
    assert words(step | {saved: SEEN - 6 * HOUR - 7})["checkpoint_stale"] == "no new checkpoint for 6 h 7 s (limit 6 h)"
    assert words(none | {"first_step_timestamp_seconds": SEEN - HOUR - 7})["no_checkpoint"] == (
        "no complete checkpoint after 1 h 7 s of steps (limit 1 h)"
    )


@pytest.mark.parametrize("phase", ["bringup", "resuming", "finishing", "queued"])
def test_only_a_job_that_steps_can_stall(phase: str) -> None:
    assert "stalled" not in words(step_age(5 * HOUR), phase=phase)


@pytest.mark.parametrize("state", ["preempted", "pending", "unknown", "succeeded", "failed"])
def test_only_a_running_job_can_stall(state: str) -> None:
    assert "stalled" not in words(step_age(5 * HOUR), state=state)


@pytest.mark.parametrize(("newer_by", "holds"), [(600, True), (601, False)])
def test_a_newer_checkpoint_shows_that_only_the_history_is_cut_off(newer_by: float, holds: bool) -> None:
    values = step_age(5 * HOUR) | {"checkpoint_timestamp_seconds": SEEN - 5 * HOUR + newer_by}
    assert ("stalled" in words(values)) is holds


def test_a_stall_is_measured_against_the_older_of_history_and_scheduler() -> None:
    observed: dict[str, Value] = {"observed_timestamp_seconds": {"history": SEEN, "scheduler": SEEN - 3 * HOUR}}
    # The history is three hours newer than the scheduler: as of the scheduler's answer the step is 44 min old.
    assert "stalled" not in words(step_age(3 * HOUR + 44 * MINUTE) | observed)
    assert "stalled" in words(step_age(3 * HOUR + 46 * MINUTE) | observed)


def test_a_blind_history_starts_no_stall() -> None:
    values: dict[str, Value] = {
        "last_step_timestamp_seconds": NOW - 5 * HOUR,
        "observed_timestamp_seconds": {"history": NOW - 5 * HOUR + 60},
    }
    found = words(values)
    assert "stalled" not in found
    assert found["unobserved"] == "history not read for 4 h 59 min"


NAN = {"nonfinite": {"loss": 1.0, "grad_norm": 0.0}}
EXPLOSION = {"grad_norm": 1.01, "grad_norm_window_ratio": 10.1}
DIVERGING = {"loss": 0.5, "loss_trend_last5_min_ratio": 1.51}
SLOW = {"tokens_per_second": 69.9, "tokens_per_second_baseline": 100}
FIRST_STEP = "first_step_timestamp_seconds"
NO_SAVE: dict[str, Value] = {"checkpoints": {"complete": 0, "partial": 1}}
SAVED = "checkpoint_timestamp_seconds"
INTERVAL = "checkpoint_interval_seconds"


@pytest.mark.parametrize(
    ("values", "word", "text"),
    [
        (NAN, "nonfinite", "loss not finite"),
        (EXPLOSION, "grad_explosion", "grad 10.1 × its window"),
        (DIVERGING, "loss_diverging", "loss 1.51 × its window, five values in a row"),
        (SLOW, "throughput_degraded", "tok/s 69.9 % of its baseline"),
        (
            NO_SAVE | {FIRST_STEP: SEEN - HOUR - 60, INTERVAL: 600},
            "no_checkpoint",
            "no complete checkpoint after 1 h 1 min of steps (limit 1 h)",
        ),
        (NO_SAVE | {FIRST_STEP: SEEN - 2 * HOUR - 60, INTERVAL: 2400}, "no_checkpoint", None),
        (NO_SAVE | {FIRST_STEP: SEEN - 6 * HOUR - 60}, "no_checkpoint", None),
        ({SAVED: SEEN - 31 * MINUTE, INTERVAL: 300}, "checkpoint_stale", "no new checkpoint for 31 min (limit 30 min)"),
        ({SAVED: SEEN - 61 * MINUTE, INTERVAL: 1200}, "checkpoint_stale", None),
        ({SAVED: SEEN - 6 * HOUR - 60}, "checkpoint_stale", None),
        ({"state_conflict": 1}, "state_conflict", "sources disagree on whether it runs"),
        ({"gap_end_timestamp_seconds": {"unexplained": SEEN - HOUR}}, "silent_stall", "silent stall ended 1 h ago"),
    ],
)
def test_holds(values: Mapping[str, Value], word: str, text: str | None) -> None:
    found = words(values)
    assert word in found
    assert text is None or found[word] == text


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"nonfinite": {"loss": 0.0, "grad_norm": 0.0}}, "nonfinite"),
        (EXPLOSION | {"grad_norm_window_ratio": 10.0}, "grad_explosion"),
        (EXPLOSION | {"grad_norm": 1.0}, "grad_explosion"),
        ({"grad_norm_window_ratio": 50}, "grad_explosion"),
        (DIVERGING | {"loss_trend_last5_min_ratio": 1.5}, "loss_diverging"),
        (DIVERGING | {"loss": 9e-4, "loss_trend_last5_min_ratio": 40}, "loss_diverging"),
        (SLOW | {"tokens_per_second": 70}, "throughput_degraded"),
        ({"tokens_per_second": 5}, "throughput_degraded"),
        (NO_SAVE | {FIRST_STEP: SEEN - HOUR, INTERVAL: 600}, "no_checkpoint"),
        (NO_SAVE | {FIRST_STEP: SEEN - 2 * HOUR, INTERVAL: 2400}, "no_checkpoint"),
        (NO_SAVE | {FIRST_STEP: SEEN - 6 * HOUR}, "no_checkpoint"),
        # Never listed is not "none there".
        ({FIRST_STEP: SEEN - 60 * HOUR}, "no_checkpoint"),
        (NO_SAVE, "no_checkpoint"),
        ({SAVED: SEEN - 30 * MINUTE, INTERVAL: 300}, "checkpoint_stale"),
        ({SAVED: SEEN - 6 * HOUR}, "checkpoint_stale"),
        # Resumed five minutes ago after three hours: the age counts from the first new step.
        (
            {
                SAVED: SEEN - 3 * HOUR,
                INTERVAL: 300,
                FIRST_STEP: SEEN - 9 * HOUR,
                "gap_end_timestamp_seconds": {"unknown": SEEN - 5 * MINUTE},
            },
            "checkpoint_stale",
        ),
        ({"state_conflict": 0}, "state_conflict"),
        ({"gap_end_timestamp_seconds": {"unexplained": SEEN - HOUR - 1}}, "silent_stall"),
        ({"gap_end_timestamp_seconds": {"unknown": SEEN - 60}}, "silent_stall"),
    ],
)
def test_does_not_hold(values: Mapping[str, Value], word: str) -> None:
    assert word not in words(values)


def test_rules_for_fine_tuning_are_not_for_rl() -> None:
    found = words(EXPLOSION | DIVERGING | SLOW, bucket="rl")
    assert not {"grad_explosion", "loss_diverging", "throughput_degraded"} & set(found)


def test_what_a_job_does_is_no_verdict_once_it_is_over() -> None:
    values = NAN | EXPLOSION | DIVERGING | SLOW | NO_SAVE | {FIRST_STEP: SEEN - 60 * HOUR, "state_conflict": 1}
    assert set(words(values, state="killed", phase="finished")) == {"killed"}


@pytest.mark.parametrize(
    ("bucket", "age", "state", "holds"),
    [
        ("sft", 2700, "running", False),
        ("sft", 2701, "running", True),
        ("rl", 5400, "running", False),
        ("rl", 5401, "running", True),
        ("sft", 9999, "preempted", False),
        ("eval", 9999, "running", False),
    ],
)
def test_bringup_stuck(bucket: str, age: float, state: str, holds: bool) -> None:
    found = words({"start_timestamp_seconds": SEEN - age}, bucket, state, phase="bringup")
    assert ("bringup_stuck" in found) is holds
    assert "bringup" in found


@pytest.mark.parametrize(("age", "holds"), [(7200, False), (7201, True)])
def test_zombie(age: float, holds: bool) -> None:
    found = words(step_age(age), phase="finishing")
    assert ("zombie" in found) is holds
    began_anew = step_age(9 * HOUR) | {"attempt_start_timestamp_seconds": SEEN - age}
    assert ("zombie" in words(began_anew, phase="finishing")) is holds
    assert found["finishing"] == "last step reached, still running"
