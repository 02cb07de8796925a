"""Stamps of the loggers that trainers and engines use, in the site's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.parsing.log_stamps import StampReader

WRITTEN = datetime(2026, 11, 29, 18, 0, tzinfo=UTC).timestamp()


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29 17:45:07.397 | INFO     | a:b:1 - x", utc(2026, 11, 29, 17, 45, 7) + 0.397),
        (
            "[INFO|trainer.py:1478] 2026-11-29 17:45:52,283 >>   Num examples = 400",
            utc(2026, 11, 29, 17, 45, 52) + 0.283,
        ),
        ("[INFO|2026-11-29 17:45:53] llamafactory.model.loader:144 >> x", utc(2026, 11, 29, 17, 45, 53)),
        ("2026-11-29 17:45:05,099\tINFO worker.py:2012 -- Started", utc(2026, 11, 29, 17, 45, 5) + 0.099),
        ("2026-11-29T17:45:05.5Z hello", utc(2026, 11, 29, 17, 45, 5) + 0.5),
        ("2026-11-29T17:45:05+01:30 hello", utc(2026, 11, 29, 16, 15, 5)),
        ("[2026-11-29 17:02:44 TP0] Decode batch, #running-req: 4", utc(2026, 11, 29, 17, 2, 44)),
        ("W1129 17:51:30.032000 10286 torch/run.py:1028] Sending", utc(2026, 11, 29, 17, 51, 30) + 0.032),
        ("[E1129 17:51:30.032 ProcessGroupNCCL.cpp:632] [Rank 0]", utc(2026, 11, 29, 17, 51, 30) + 0.032),
        ("INFO 11-29 17:49:31 [loggers.py:271] Engine 000: Avg", utc(2026, 11, 29, 17, 49, 31)),
        ("I20261129 17:45:53 139872 levanter.trainer resuming", utc(2026, 11, 29, 17, 45, 53)),
        ("W20261399 17:45:53 139872 no such month", None),
        ("I202611291 17:45:53 nine digits", None),
        ("INFO 12-31 23:59:59 [loggers.py:271] last year's", utc(2025, 12, 31, 23, 59, 59)),
        ("2026-02-30 17:45:07 no such day", None),
        ("2026-11-29 25:45:07 no such hour", None),
        ("2027-11-29 17:45:07 later than the file", None),
        ("it is 2026-11-29 17:45:07", None),
        ("2026-11-29 05:45:07 PM a clock of twelve hours", None),
        ("2026-11-29 05:45:07 pmap compiled", utc(2026, 11, 29, 5, 45, 7)),
        ("2026-11-29", None),
        ("", None),
    ],
)
def test_stamps(text: str, expected: float | None) -> None:
    found = StampReader(UTC, WRITTEN).read(text)
    assert found == (expected if expected is None else pytest.approx(expected, abs=1e-6))


def test_a_year_needs_the_time_of_the_file() -> None:
    assert StampReader(UTC, None).read("W1129 17:51:30.032000 1 a] b") is None


def test_the_site_s_zone_and_the_hour_that_comes_twice() -> None:
    reader = StampReader(ZoneInfo("Europe/Rome"), WRITTEN)
    assert reader.read("2026-07-01 12:00:00 x") == utc(2026, 7, 1, 10)
    # On 2026-10-25 the clocks go from 03:00 back to 02:00.
    lines = ["01:59:00", "02:30:00", "02:59:30", "02:10:00", "02:50:00", "03:00:00"]
    found = [reader.read(f"2026-10-25 {line} x") for line in lines]
    expected = [utc(2026, 10, 24, 23, 59), utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 0, 59, 30)]
    assert found == [*expected, utc(2026, 10, 25, 1, 10), utc(2026, 10, 25, 1, 50), utc(2026, 10, 25, 2)]


@given(
    st.text(max_size=60), st.sampled_from(["", "[", "INFO ", "W1129 ", "2026-11-29 17:45:0", "9999-12-31 23:59:59Z"])
)
def test_no_text_raises(text: str, start: str) -> None:
    reader = StampReader(ZoneInfo("Europe/Rome"), WRITTEN)
    found = reader.read(start + text)
    assert found is None or found <= WRITTEN + 86400
