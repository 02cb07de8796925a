"""A trainer_log.jsonl that confirms the last step ends a job that nothing else speaks of."""

from __future__ import annotations

import pytest

from runwatch.derive.own_word import OwnSources, without_scheduler
from runwatch.derive.state import JobState

DONE = 1_790_000_000.0
MINUTE = 60.0
ALONE = JobState("running", "stepping", DONE - 3600, None, None, "nothing says that it ended")


@pytest.mark.parametrize(
    ("observed", "busy", "expected"),
    [
        (DONE + 4 * MINUTE, DONE - MINUTE, "running"),  # the last save may go on
        (DONE + 6 * MINUTE, DONE - MINUTE, "succeeded"),
        (DONE + 6 * MINUTE, DONE + 1, "running"),  # another run in the same folder
        (DONE + 6 * MINUTE, None, "succeeded"),
    ],
)
def test_the_confirmation_counts_when_nothing_followed(observed: float, busy: float | None, expected: str) -> None:
    own = OwnSources(trainer_log_completed=DONE, checkpoints_observed=observed, busy=busy)
    state = without_scheduler("sft", ALONE, own)
    assert state is not None
    assert state.state == expected
    assert state.end == (DONE if expected == "succeeded" else None)


def test_without_a_confirmation_nothing_ends() -> None:
    own = OwnSources(checkpoints_observed=DONE + 3600)
    state = without_scheduler("sft", ALONE, own)
    assert state is not None
    assert state.state == "running"
