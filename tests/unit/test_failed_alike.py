"""Whether a job failed again as it did before: the same failure twice is not transient."""

from __future__ import annotations

import pytest

from runwatch.facts import Attempt, SchedulerState
from tests.unit.scheduler_stories import FAILED, PREEMPTED, UNKNOWN, attempt, facts
from tests.unit.trial_stories import report_of, words_of


def ended(number: int, end: float, detail: str, code: int | None, how: object = FAILED) -> Attempt:
    return attempt("a", number, end - 500, end, how, exit_code=code, detail=detail)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 1), "Error, exit 1"),
        (ended(0, 1000, "OOMKilled", 137), ended(1, 2000, "OOMKilled", 137), "OOMKilled, exit 137"),
        (ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 2), None),
        (ended(0, 1000, "Error", 1), ended(1, 2000, "OOMKilled", 1), None),
        # nothing that the two could have in common
        (ended(0, 1000, "", None), ended(1, 2000, "", None), None),
        (ended(0, 1000, "", 1), ended(1, 2000, "", 1), "failed, exit 1"),
        # a preemption in between
        (ended(0, 1000, "Error", 1, PREEMPTED), ended(1, 2000, "Error", 1), None),
    ],
)
def test_of_a_job_that_failed_for_good(first: Attempt, second: Attempt, alike: str | None) -> None:
    said = facts([first, second], SchedulerState.FAILED, exit_code=second.exit_code)
    text = words_of(report_of((2100, said), at=2100, bucket="sft"))["failed"]
    assert text.endswith(f": diagnose, failed again alike ({alike}): not transient") is (alike is not None)
    assert ("alike" in text) is (alike is not None)


@pytest.mark.parametrize(
    ("ends", "value"),
    [
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 1)], 1.0),
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 2)], 0.0),
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "OOMKilled", 1)], 0.0),
        # Only the last two count: a preemption between two equal failures, or after them.
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "", None, PREEMPTED), ended(2, 3000, "Error", 1)], 0.0),
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 1), ended(2, 3000, "", None, PREEMPTED)], 0.0),
        ([ended(0, 1000, "Error", 2), ended(1, 2000, "Error", 1), ended(2, 3000, "Error", 1)], 1.0),
        # Nothing to compare, and nothing that is known of one of them.
        ([], None),
        ([ended(0, 1000, "Error", 1)], None),
        ([ended(0, 1000, "", None, PREEMPTED), ended(1, 2000, "", None, PREEMPTED)], None),
        ([ended(0, 1000, "", None), ended(1, 2000, "", None)], None),
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "", None)], None),
        ([ended(0, 1000, "Error", 1), ended(1, 2000, "", None, UNKNOWN)], None),
    ],
)
def test_the_gauge_tells_alike_unlike_and_not_known_apart(ends: list[Attempt], value: float | None) -> None:
    goes_on = facts([*ends, attempt("a", len(ends), 3050)])
    report = report_of((3100, goes_on), at=3100, bucket="sft")
    assert report.measurements.get("mljob_failures_ended_alike") == value
    lines = [e for e in report.evidence if "alike" in e.fields]
    assert [e.fields["alike"] for e in lines] == ([] if value is None else [value == 1.0])


def test_the_gauge_of_a_job_that_failed_for_good_counts_its_own_end() -> None:
    said = facts([ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 1)], SchedulerState.FAILED, exit_code=1)
    assert report_of((2100, said), at=2100, bucket="sft").measurements.get("mljob_failures_ended_alike") == 1
    killed = facts([ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 1)], SchedulerState.KILLED)
    assert report_of((2100, killed), at=2100, bucket="sft").measurements.get("mljob_failures_ended_alike") == 0


def test_of_a_job_that_goes_on() -> None:
    again = attempt("a", 2, 2050)
    said = facts([ended(0, 1000, "Error", 1), ended(1, 2000, "Error", 1), again])
    found = words_of(report_of((2120, said), at=2120, bucket="sft"))
    assert found["task_failures"] == (
        "interrupted by a failure 2 min ago, failed again alike (Error, exit 1): not transient"
    )
    other = facts([ended(0, 1000, "Error", 2), ended(1, 2000, "Error", 1), again])
    assert words_of(report_of((2120, other), at=2120, bucket="sft"))["task_failures"] == (
        "interrupted by a failure 2 min ago"
    )
