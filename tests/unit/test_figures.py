"""How figures are written: expected texts are written by hand."""

from __future__ import annotations

import pytest

from runwatch.figures import (
    beyond,
    duration,
    fixed,
    integer,
    past_limit,
    percent,
    signed_percent_beyond,
    significant,
    utc,
    whole,
)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.619, 3, "0.619"),
        (-0.004, 4, "-0.0040"),
        (0, 3, "0.000"),
        (-0.0, 3, "0.000"),
        (1e-5, 3, "1.0e-5"),
        (-1e-5, 4, "-1.0e-5"),
        (0.00049, 3, "4.9e-4"),
        (0.00051, 3, "0.001"),
        (0.000049, 4, "4.9e-5"),
        (0.000051, 4, "0.0001"),
        (1.5e12, 3, "1.5e12"),
        (999999.0, 1, "999999.0"),
        (5e-324, 3, "4.9e-324"),
    ],
)
def test_fixed(value: float, decimals: int, text: str) -> None:
    assert fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.21, "1.210"),
        (0.004, "0.004000"),
        (12.3456, "12.35"),
        (1234.5678, "1235"),
        (1e-5, "1.000e-5"),
        (123456.0, "1.235e5"),
        (0, "0.000"),
        (-0.093, "-0.09300"),
    ],
)
def test_four_significant_digits(value: float, text: str) -> None:
    assert significant(value, 4) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (42.4, "42 s"),
        (59.6, "1 min"),
        (1380, "23 min"),
        (3569, "59 min"),
        (3571, "1 h"),
        (11520, "3 h 12 min"),
        (86369, "23 h 59 min"),
        (86371, "1 d"),
        (187200, "2 d 4 h"),
        (-90, "-2 min"),
        (-0.3, "0 s"),
        (-0.6, "-1 s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "decimals", "text"),
    [
        (0.9341, 1, "93.4 %"),
        (0, 1, "0.0 %"),
        (1, 1, "100.0 %"),
        # What is neither none nor all does not read as such, as far as three more decimals tell.
        (1 / 5000, 1, "0.02 %"),
        (29990 / 29995, 1, "99.98 %"),
        (0.999999, 1, "99.9999 %"),
        (0.99999999, 1, "100.0 %"),
        (0.004, 0, "0.4 %"),
        (1.0004, 1, "100.04 %"),
        (-0.0002, 1, "-0.02 %"),
    ],
)
def test_percent(ratio: float, decimals: int, text: str) -> None:
    assert percent(ratio, decimals) == text


def test_counts() -> None:
    assert whole(65535.6) == "65,536"
    assert integer(29945.0) == "29945"
    assert integer(-0.0) == "0"


def test_a_figure_that_crossed_a_limit_is_told_from_it() -> None:
    assert beyond(1.3, 1.0, 1) == "1.3"
    assert beyond(1.004, 1.0, 1) == "1.004"
    assert signed_percent_beyond(-0.34, 0.3) == "−34 %"
    assert signed_percent_beyond(0.3004, 0.3) == "+30.04 %"


@pytest.mark.parametrize(
    ("seconds", "limit", "texts"),
    [
        (3000, 2700, ("50 min", "45 min")),
        (2705, 2700, ("45 min 5 s", "45 min")),
        # Both round to 22 min.
        (1310, 1300, ("21 min 50 s", "21 min 40 s")),
        (2 * 86400 + 3 * 3600 + 1200, 2 * 86400 + 3 * 3600, ("2 d 3 h 20 min", "2 d 3 h")),
        (2700.2, 2700, ("over 45 min", "45 min")),
    ],
)
def test_a_length_of_time_that_crossed_a_limit_is_told_from_it(
    seconds: float, limit: float, texts: tuple[str, str]
) -> None:
    assert past_limit(seconds, limit) == texts


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (1_772_366_400.0, "2026-03-01T12:00:00Z"),
        (1_772_366_400.25, "2026-03-01T12:00:00.250Z"),
        (0.0, "1970-01-01T00:00:00Z"),
        (1e20, "1e+20 s"),
    ],
)
def test_utc(timestamp: float, text: str) -> None:
    assert utc(timestamp) == text
