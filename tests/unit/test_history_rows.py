"""Logged rows and JSON lines: which values count as numbers, steps, times and cursors."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.parsing.history_rows import MalformedRow, number, parse_json_line, parse_row

JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
JSON_VALUES = st.recursive(
    JSON_SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (-2.5, -2.5),
        (12345678901234567891, 1.2345678901234567e19),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("inf", math.inf),
        ("-inf", -math.inf),
        (10**400, None),
        (True, None),
        (None, None),
        ("1.5", None),
        ("", None),
        ("nano", None),
        ([1.0], None),
        ({"a": 1}, None),
    ],
)
def test_number(value: object, expected: float | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", ["NaN", "nan", float("nan")])
def test_number_not_a_number(value: object) -> None:
    parsed = number(value)
    assert parsed is not None and math.isnan(parsed)


def test_row_keeps_numbers_under_full_keys() -> None:
    row = parse_row(
        {
            "_step": 7,
            "_timestamp": 1795975220.5,
            "_runtime": 12.25,
            "train/loss": "NaN",
            "eval": {"loss": 2, "deep": {"acc": 0.5, "name": "x"}},
            "weights": {"_type": "histogram", "count": 3, "bins": [1, 2]},
            "flag": True,
            "note": "text",
            "nothing": None,
            "after": 1,
        }
    )
    assert (row.cursor, row.time, row.trainer_step) == (7, 1795975220.5, None)
    assert math.isnan(row.values["train/loss"])
    rest = {key: value for key, value in row.values.items() if key != "train/loss"}
    assert rest == {"_runtime": 12.25, "eval.loss": 2.0, "eval.deep.acc": 0.5, "after": 1.0}


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ({"trainer/global_step": 5, "train/global_step": 6, "global_step": 7}, 5),
        ({"train/global_step": 6, "global_step": 7}, 6),
        ({"global_step": 5.0}, 5),
        ({"trainer/global_step": "NaN", "global_step": 7}, 7),
        ({"global_step": 5.5}, None),
        ({"global_step": -1}, None),
        ({"global_step": True}, None),
        ({"global_step": float("inf")}, None),
        ({"global_step": "5"}, None),
    ],
)
def test_trainer_step(logged: dict[str, object], expected: int | None) -> None:
    assert parse_row({"_step": 0, **logged}).trainer_step == expected


@pytest.mark.parametrize(
    "time", [1795975220500000, 1e18, 0, -5.0, "NaN", float("inf"), None, True, "1795975220", {"a": 1}]
)
def test_unusable_time_is_none(time: object) -> None:
    assert parse_row({"_step": 0, "_timestamp": time}).time is None


@pytest.mark.parametrize(
    ("logged", "seconds"),
    [(1795975220.5, 1795975220.5), (1795975220500, 1795975220.5), (1.7959752205e12, 1795975220.5), (1.0, 1.0)],
)
def test_a_time_in_milliseconds_is_told_by_its_size(logged: float, seconds: float) -> None:
    assert parse_row({"_step": 0, "_timestamp": logged}).time == seconds


@pytest.mark.parametrize("step", [None, "3", 3.5, -1, True, float("nan"), 2**63, [3]])
def test_no_usable_step_is_malformed(step: object) -> None:
    with pytest.raises(MalformedRow, match="_step"):
        parse_row({"_step": step, "loss": 1.0})


def test_given_cursor_wins() -> None:
    assert parse_row({"_step": 3}, cursor=9).cursor == 9
    assert parse_row({"loss": 1.0}, cursor=9).cursor == 9


@given(
    st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["_step", "_timestamp", "global_step"]), JSON_VALUES, max_size=5
    )
)
def test_any_row_is_read(logged: dict[str, object]) -> None:
    row = parse_row(logged, cursor=0)
    assert set(row.values) == _numeric_keys(logged, "") - {"_step", "_timestamp"}
    assert row.time is None or 0 < row.time < math.inf
    assert row.trainer_step is None or row.trainer_step >= 0


def _numeric_keys(logged: dict[str, object], prefix: str) -> set[str]:
    """Name every key that holds a number: recursive and slow, of Python's JSON values alone."""
    keys: set[str] = set()
    named = {"nan", "inf", "infinity", "+inf", "+infinity", "-inf", "-infinity"}
    for key, value in logged.items():
        if isinstance(value, dict):
            if "_type" not in value:
                keys |= _numeric_keys(value, f"{prefix}{key}.")
            continue
        is_number = type(value) is float or (type(value) is int and abs(value) < 10**308)
        if is_number or (isinstance(value, str) and value.lower() in named):
            keys.add(prefix + key)
    return keys


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5))
def test_json_line_is_read_back(logged: dict[str, object]) -> None:
    assert repr(parse_json_line(json.dumps(logged).encode())) == repr(json.loads(json.dumps(logged)))


def test_json_line_takes_bare_tokens_and_the_last_of_a_key() -> None:
    parsed = parse_json_line(b'{"a": NaN, "b": -Infinity, "c": 1, "c": 2}\r')
    assert math.isnan(parsed["a"])  # type: ignore[arg-type]
    assert (parsed["b"], parsed["c"]) == (-math.inf, 2)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"a": 1', "not JSON at character 7"),
        (b"", "not JSON"),
        (b"[1]", "expected a JSON object, got list"),
        (b"3", "expected a JSON object, got int"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a":' * 100_000, "nested too deeply|not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
    ],
)
def test_malformed_json_line(line: bytes, complaint: str) -> None:
    with pytest.raises(MalformedRow, match=complaint):
        parse_json_line(line)


@given(st.binary(max_size=60))
def test_any_line_is_an_object_or_malformed(line: bytes) -> None:
    try:
        parsed = parse_json_line(line)
    except MalformedRow as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(parsed, dict)
