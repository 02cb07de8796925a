"""One logged row, as a mapping of keys to values, becomes a `HistoryRow`: the same for W&B, its files and JSON lines.

Trackers send anything: "NaN" as a string where their JSON is strict, bare `NaN` where it is not, histograms, nested
mappings, booleans, integers of any size. Only numbers are kept, under their full key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from runwatch.facts import HistoryRow

TRAINER_STEP_KEYS = ("trainer/global_step", "train/global_step", "global_step")
"""Keys under which trainers log their own counter, in order of preference.

Hugging Face's callback logs without `step=`, so W&B's `_step` counts its calls there and is no step.
"""

_CURSOR_KEY = "_step"
_TIME_KEY = "_timestamp"
_NAMED_FLOATS = frozenset({"nan", "inf", "infinity", "+inf", "+infinity", "-inf", "-infinity"})
_MILLISECONDS_FROM = 1e11  # as Unix seconds this is the year 5138, as milliseconds 1973
_MILLISECONDS_UNTIL = 1e14
_LARGEST_CURSOR = 2**63 - 1  # W&B's `_step` is an int64


class MalformedRow(ValueError):  # noqa: N818 - names the fault as its callers count it
    """A row or line that cannot be read. The text says why in one line and quotes no value of the row."""


def number(value: object) -> float | None:
    """Read a logged value as a number.

    Args:
        value: Whatever a tracker delivered for one key.

    Returns:
        Integers and floats as a float, NaN and infinities included, also where they come by name ("NaN",
        "Infinity", "-Infinity", "inf", in any case). None for all else: booleans, other strings (also "1.5"),
        None, containers, and integers beyond a float's range.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and value.lower() in _NAMED_FLOATS:
        return float(value)
    return None


def parse_row(row: Mapping[str, object], *, cursor: int | None = None) -> HistoryRow:
    """Read one logged row.

    Args:
        row: Keys and values as logged; nested mappings are flattened with "." as the W&B client's files do, and
            histograms (mappings with `_type`) are left out.
        cursor: The row's place in its source; by default its `_step`.

    Returns:
        The row, with every numeric value except `_step` and `_timestamp`, which are its cursor and its time
        (Unix seconds, also where it is logged in milliseconds, which its size tells; None where absent, not finite,
        not positive, or too large for either).

    Raises:
        MalformedRow: There is no `cursor` and `_step` is not a whole number that is 0 or more.
    """
    values: dict[str, float] = {}
    for key, value in _leaves(row, prefix=""):
        parsed = number(value)
        if parsed is not None:
            values[key] = parsed
    values.pop(_CURSOR_KEY, None)
    values.pop(_TIME_KEY, None)
    return HistoryRow(
        cursor=_cursor(row) if cursor is None else cursor,
        time=_time(row.get(_TIME_KEY)),
        trainer_step=_trainer_step(row),
        values=values,
    )


def parse_json_line(line: bytes) -> Mapping[str, object]:
    """Read one line as a JSON object.

    Bare `NaN`, `Infinity` and `-Infinity` are numbers here, as Python's `json` writes them; of a key given twice the
    last wins.

    Raises:
        MalformedRow: The line is no UTF-8, no JSON, or no object.
    """
    try:
        parsed = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedRow(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise MalformedRow(f"not JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise MalformedRow("JSON nested too deeply") from None
    except ValueError:
        # Python refuses to convert integers of more than some thousand digits.
        raise MalformedRow("an integer with too many digits") from None
    if not isinstance(parsed, dict):
        raise MalformedRow(f"expected a JSON object, got {type(parsed).__name__}")
    return parsed


def _leaves(row: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Yield the full key and the value of everything in a row that is no mapping; nested ones before what follows."""
    pending = [(prefix, iter(row.items()))]
    while pending:
        prefix, items = pending[-1]
        for key, value in items:
            if not isinstance(value, Mapping):
                yield prefix + key, value
                continue
            if "_type" not in value:
                pending.append((f"{prefix}{key}.", iter(value.items())))
                break
        else:
            pending.pop()


def _cursor(row: Mapping[str, object]) -> int:
    step = whole_number(row.get(_CURSOR_KEY))
    if step is None:
        raise MalformedRow("no usable _step: expected a whole number, 0 or more")
    return step


def _time(value: object) -> float | None:
    time = number(value)
    if time is None or not 0 < time < _MILLISECONDS_UNTIL:  # NaN is not
        return None
    return time if time < _MILLISECONDS_FROM else time / 1000.0


def _trainer_step(row: Mapping[str, object]) -> int | None:
    for key in TRAINER_STEP_KEYS:
        step = whole_number(row.get(key))
        if step is not None:
            return step
    return None


def whole_number(value: object) -> int | None:
    """Read a counter: an integer of 0 or more; a float is accepted where it is whole.

    W&B turns every integer of a read by keys into a float.

    Returns:
        The counter, or None for all else (booleans, strings, negative or broken numbers, beyond 64 bits).
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and 0 <= value <= _LARGEST_CURSOR:
        return value
    return None
