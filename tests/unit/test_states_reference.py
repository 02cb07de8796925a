"""docs/states.md is made from the parsers' tables, and misses no state."""

from __future__ import annotations

from pathlib import Path

from runwatch.facts import AttemptEnd, SchedulerState
from runwatch.parsing.slurm_states import STATES
from runwatch.states_reference import _END_WORDS, _state, render

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == render(), "docs/states.md is stale: run make docs"


def test_every_state_and_every_end_has_words() -> None:
    assert set(_END_WORDS) == set(AttemptEnd)
    assert all(_state(state) for state in SchedulerState)
    assert all(f"`{word}`" in render() for word in STATES)
