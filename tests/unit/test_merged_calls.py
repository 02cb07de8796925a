"""A slow action that many threads ask for: never two at a time, and never done before the last that was brought."""

from __future__ import annotations

import threading
import time

import pytest

from runwatch.merged_calls import MergedCalls


def test_calls_that_come_while_one_runs_are_one_more_run() -> None:
    brought: list[int] = []
    taken: list[list[int]] = []
    begun, may_end = threading.Event(), threading.Event()

    def action() -> None:
        taken.append(list(brought))
        begun.set()
        assert may_end.wait(20)

    merged = MergedCalls(action)

    def bring(number: int) -> None:
        brought.append(number)
        merged.call()

    first = threading.Thread(target=bring, args=(0,))
    first.start()
    assert begun.wait(20)
    others = [threading.Thread(target=bring, args=(number,)) for number in range(1, 11)]
    for thread in others:
        thread.start()
    end = time.monotonic() + 20
    # Nine of the ten go on at once; one waits for the first to end.
    while sum(thread.is_alive() for thread in others) > 1 and time.monotonic() < end:
        time.sleep(0.005)
    assert sum(thread.is_alive() for thread in others) == 1
    may_end.set()
    for thread in (first, *others):
        thread.join(20)
    assert taken[0] == [0]
    assert [sorted(each) for each in taken[1:]] == [list(range(11))]


def test_an_action_that_fails_is_run_again() -> None:
    runs: list[None] = []

    def action() -> None:
        runs.append(None)
        raise RuntimeError("a fault")

    merged = MergedCalls(action)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            merged.call()
    assert len(runs) == 2
