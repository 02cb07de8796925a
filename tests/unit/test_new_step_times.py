"""The first new step after a time, in little memory: exact where a restart lies, near elsewhere."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from runwatch.derive.new_step_times import NewStepTimes


def kept(times: list[float], usual: float = 8.0) -> NewStepTimes:
    steps = NewStepTimes()
    for time in times:
        steps.add(time)
    return steps


def test_before_the_first_and_after_the_last() -> None:
    steps = kept([100.0, 108.0]).snapshot(8.0)
    assert steps.first_at_or_after(50.0) == 100.0
    assert steps.first_at_or_after(108.0) == 108.0
    assert steps.first_at_or_after(108.5) is None
    assert NewStepTimes().snapshot(None).first_at_or_after(0.0) is None


def test_restarts_of_a_long_run_are_exact_and_the_rest_is_within_one_interval() -> None:
    source = random.Random(3)
    times, time, restarts = [], 0.0, []
    for step in range(30_000):
        times.append(time)
        time += 8.0 * source.uniform(0.9, 1.1)
        if step % 700 == 350:
            start = time + source.uniform(20.0, 200.0)  # placed again
            restarts.append(start)
            time = start + source.uniform(10.0, 60.0)
    steps = kept(times).snapshot(8.0)
    for start in restarts:
        assert steps.first_at_or_after(start) == times[bisect_left(times, start)]
    for _ in range(500):
        asked = source.uniform(0.0, times[-1])
        found = steps.first_at_or_after(asked)
        assert found == pytest.approx(times[bisect_left(times, asked)], abs=9.0)


def test_what_is_kept_is_bounded() -> None:
    times, time = [], 0.0
    for step in range(20_000):
        time += 200.0 if step % 2 else 8.0
        times.append(time)
    snapshot = kept(times).snapshot(104.0)
    assert len(snapshot.recent) <= 512
    assert len(snapshot.long_intervals) <= 2048
