"""The verdicts on attempts, at their limits."""

from __future__ import annotations

import pytest

from runwatch.derive.verdicts import verdicts
from tests.unit.small_fleet import HOUR, MINUTE, NOW, Value, measure

SEEN = NOW - 10
READ: dict[str, Value] = {"observed_timestamp_seconds": {"history": SEEN, "scheduler": SEEN}}


def words(
    values: dict[str, Value], state: str = "running", phase: str = "stepping", bucket: str = "sft"
) -> dict[str, str]:
    found = verdicts(measure(READ | values, state, phase), bucket, {}, NOW)
    return {verdict.word: verdict.text for verdict in found}


@pytest.mark.parametrize(
    ("bucket", "age", "holds"),
    [
        ("sft", 45 * MINUTE + 600, False),
        ("sft", 45 * MINUTE + 601, True),
        ("rl", 90 * MINUTE + 600, False),
        ("rl", 90 * MINUTE + 601, True),
    ],
)
def test_not_resumed_after_bring_up_and_replay(bucket: str, age: float, holds: bool) -> None:
    values: dict[str, Value] = {
        "interruption_timestamp_seconds": {"failure": SEEN - 9 * HOUR, "preemption": SEEN - age},
        "replay_expected_seconds": 600,
    }
    assert ("not_resumed" in words(values, phase="resuming", bucket=bucket)) is holds
    assert ("not_resumed" in words(values, state="preempted", phase="bringup", bucket=bucket)) is holds
    assert "not_resumed" not in words(values, bucket=bucket)


@pytest.mark.parametrize(
    ("started", "text"),
    [
        (45 * MINUTE, None),
        (46 * MINUTE, "no new step for 46 min since the next link started (limit 45 min)"),
        # The newest attempt is that of the link before: the next one does not run yet.
        (9 * HOUR, "no new step for 2 h since the interruption (limit 45 min)"),
    ],
)
def test_a_link_of_a_chain_counts_from_its_start(started: float, text: str | None) -> None:
    values: dict[str, Value] = {
        "interruption_timestamp_seconds": {"preemption": SEEN - 20 * HOUR, "chain": SEEN - 2 * HOUR},
        "attempt_start_timestamp_seconds": SEEN - started,
    }
    assert words(values, phase="resuming").get("not_resumed") == text


def test_an_interruption_after_a_link_began_counts_itself() -> None:
    values: dict[str, Value] = {
        "interruption_timestamp_seconds": {"preemption": SEEN - 50 * MINUTE, "chain": SEEN - 2 * HOUR},
        "attempt_start_timestamp_seconds": SEEN - 10 * MINUTE,
    }
    assert words(values, phase="resuming")["not_resumed"] == (
        "no new step for 50 min since the interruption (limit 45 min)"
    )


def test_a_job_without_steps_or_results_is_measured_by_its_scheduler() -> None:
    values: dict[str, Value] = {
        "interruption_timestamp_seconds": {"preemption": SEEN - 50 * MINUTE},
        "observed_timestamp_seconds": {"scheduler": SEEN},
    }
    found = verdicts(measure(values, "preempted", "resuming"), "other", {}, NOW)
    assert [verdict.text for verdict in found if verdict.word == "not_resumed"] == [
        "not placed again for 50 min since the interruption (limit 45 min)"
    ]


def test_the_older_of_two_answers_counts() -> None:
    values: dict[str, Value] = {
        "interruption_timestamp_seconds": {"preemption": SEEN - 50 * MINUTE},
        "observed_timestamp_seconds": {"history": SEEN, "scheduler": SEEN - 10 * MINUTE},
    }
    assert "not_resumed" not in words(values, phase="resuming")


@pytest.mark.parametrize(
    ("count", "age", "holds"), [(3, 6 * HOUR, True), (3, 6 * HOUR + 1, False), (2, HOUR, False), (7, HOUR, True)]
)
def test_restarts_without_progress(count: float, age: float, holds: bool) -> None:
    values: dict[str, Value] = {
        "interruptions_since_progress": count,
        "interruption_timestamp_seconds": {"failure": SEEN - age},
    }
    assert ("restarts_without_progress" in words(values)) is holds


def test_tasks_missing() -> None:
    some: dict[str, Value] = {"tasks_expected": 8, "tasks": {"running": 6, "pending": 1, "succeeded": 1, "failed": 0}}
    assert words(some)["tasks_missing"] == "7 of 8 tasks"
    all_there: dict[str, Value] = {"tasks_expected": 8, "tasks": {"running": 7, "succeeded": 1}}
    assert "tasks_missing" not in words(all_there)
    none: dict[str, Value] = {"tasks_expected": 8, "tasks": {"running": 0, "succeeded": 0, "pending": 8}}
    assert "tasks_missing" not in words(none)


@pytest.mark.parametrize(("age", "holds"), [(HOUR, True), (HOUR + 1, False)])
def test_a_failure_that_the_job_survived_is_shown_for_an_hour(age: float, holds: bool) -> None:
    assert ("task_failures" in words({"interruption_timestamp_seconds": {"failure": SEEN - age}})) is holds
    assert "task_failures" not in words({"interruption_timestamp_seconds": {"preemption": SEEN - age}})


def test_bring_up_counts_from_the_newest_attempt() -> None:
    values: dict[str, Value] = {
        "start_timestamp_seconds": SEEN - 9 * HOUR, "attempt_start_timestamp_seconds": SEEN - 45 * MINUTE,
    }  # fmt: skip
    assert "bringup_stuck" not in words(values, phase="bringup")
    assert "bringup_stuck" in words(values | {"attempt_start_timestamp_seconds": SEEN - 46 * MINUTE}, phase="bringup")


def test_the_replay_is_told_and_a_successor_is_named() -> None:
    assert words({"replay_expected_seconds": 2 * HOUR}, phase="resuming") == {
        "resuming": "resuming, no new step yet (about 2 h of steps to do again)"
    }
    assert words({"successor": {"1234568": 1}, "step": 120}, state="timeout", phase="finished") == {
        "timeout": "ended at the wall-time limit at step 120; successor 1234568 waits"
    }
