"""Medians from counts, against the statistics module."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.interval_counts import IntervalCounts, RateCounts


@given(st.lists(st.floats(0, 100_000), max_size=200))
def test_below_a_thousand_values_the_median_is_exact_to_a_nanosecond(values: list[float]) -> None:
    found = IntervalCounts(values).median()
    assert found == (pytest.approx(median(values), abs=1e-9) if values else None)


@given(st.lists(st.floats(0.2, 100), min_size=1, max_size=100), st.integers(11, 15))
def test_beyond_that_to_a_millisecond(values: list[float], times: int) -> None:
    many = values * (times * 1000 // len(values) + 1)
    assert IntervalCounts(many).median() == pytest.approx(median(many), abs=0.00051)


def test_quick_steps_stay_exact_to_a_microsecond() -> None:
    values = [0.000_100 + i * 0.000_001 for i in range(3001)]
    assert IntervalCounts(values).median() == pytest.approx(median(values), abs=1e-9)


@pytest.mark.parametrize("count", [10, 5000])
def test_steps_that_are_tokens_keep_their_rate(count: int) -> None:
    values = [10.0 / tokens for tokens in (4_194_304, 16_777_216, 50_331_648)]  # seconds a token, of steps of 10 s
    assert IntervalCounts(values * count).median() == pytest.approx(10.0 / 16_777_216, rel=2e-3)


def test_paging_does_not_matter_and_memory_stays_small() -> None:
    values = [8.0 + (i * 7919 % 800) / 1000 for i in range(100_000)]
    counts = IntervalCounts(values)
    assert counts.median() == pytest.approx(median(values), abs=0.00051)
    assert len(counts._counts) <= 801


def test_rates_are_exact_to_a_part_in_a_thousand() -> None:
    rates = RateCounts()
    assert rates.median() is None
    for value in (65_536.2, 1.0, 90_000.0):
        rates.add(value)
    assert rates.median() == pytest.approx(65_536.2, rel=1e-3)


def test_the_median_of_an_even_number_of_rates_lies_between_the_two_in_the_middle() -> None:
    rates = RateCounts()
    for value in (100.0, 100.0, 200.0, 200.0):
        rates.add(value)
    assert rates.median() == 150.0
    rates.add(200.0)
    assert rates.median() == 200.0
