"""How figures and upstream text are written for people: one home for tables, line, page, `explain` and verdicts.

Numbers carry the ASCII hyphen-minus, so that they can be pasted into a program. Signed percentages in words carry the
typographic signs, as in "entropy −34 % vs trend".
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

from runwatch.thresholds import HOUR, MINUTE

MISSING = "—"
"""Stands for what is not measured. Never a zero."""

DAY = 24 * HOUR
_FIXED_LIMIT = 1e6  # above this a fixed-point number is wider than it is readable
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_MOST_DECIMALS = 12
_NONE_AND_ALL = (0.0, 100.0)
_MORE_DECIMALS = 3  # of a percentage that else would read as none or all


def scientific(value: float, digits: int = 2) -> str:
    """Write a number as `1.2e-5`, with a short exponent."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def fixed(value: float, decimals: int) -> str:
    """Write a number with fixed decimals, or in scientific notation where those would show a false zero.

    An exact zero is `0.000`; a value below half of the last decimal is `1.0e-5`: a small gradient norm is a regime,
    a zero is a fault.
    """
    if value == 0:
        return f"{0.0:.{decimals}f}"
    text = f"{value:.{decimals}f}"
    if float(text) == 0 or abs(value) >= _FIXED_LIMIT:
        return scientific(value)
    return text


def whole(value: float) -> str:
    """Write a count with thousands separators: `65,536`."""
    return f"{value:,.0f}"


def integer(value: float) -> str:
    """Write a step without separators, as trainers and checkpoint folders do: `29945`."""
    return f"{value + 0.0:.0f}"  # adding nothing makes a negative zero a zero


def significant(value: float, digits: int) -> str:
    """Write a number with so many significant digits: `1.210`, `0.004000`, `1.000e-5`."""
    if value == 0:
        return f"{0.0:.{digits - 1}f}"
    text = f"{value:#.{digits}g}"
    if "e" in text:
        return scientific(value, digits)
    return text.removesuffix(".")


def percent(ratio: float, decimals: int = 0) -> str:
    """Write a ratio as percent: `93.4 %`. What is neither none nor all does not read as such: `0.02 %`, `99.98 %`."""
    value = 100 * ratio
    for shown in range(decimals, decimals + _MORE_DECIMALS + 1):
        text = f"{value:.{shown}f}"
        if value in _NONE_AND_ALL or float(text) not in _NONE_AND_ALL:
            return f"{text} %"
    return f"{value:.{decimals}f} %"


def beyond(value: float, limit: float, decimals: int) -> str:
    """Write a value that crossed a limit with as many decimals as it takes to tell it from the limit."""
    for shown in range(decimals, _MOST_DECIMALS):
        text = f"{value:.{shown}f}"
        if float(text) != limit:
            return text
    return repr(value)


def signed_percent_beyond(ratio: float, limit: float) -> str:
    """Write a signed ratio that crossed a limit: `−34 %`, `+41 %`."""
    sign = "−" if ratio < 0 else "+"
    return f"{sign}{beyond(100 * abs(ratio), round(100 * limit, 9), 0)} %"


def duration(seconds: float) -> str:
    """Write a length of time: `42 s`, `12 min`, `3 h 12 min`, `2 d 4 h`; rounded to the smaller unit shown."""
    sign = "-" if round(seconds) < 0 else ""  # what rounds to nothing has no sign
    seconds = abs(seconds)
    if round(seconds) < MINUTE:
        return f"{sign}{round(seconds)} s"
    minutes = round(seconds / MINUTE)
    if minutes < 60:
        return f"{sign}{minutes} min"
    if minutes < 24 * 60:
        return sign + _two_units(*divmod(minutes, 60), "h", "min")
    return sign + _two_units(*divmod(round(seconds / HOUR), 24), "d", "h")


def past_limit(seconds: float, limit: float) -> tuple[str, str]:
    """Write a length of time that crossed a limit, and the limit, to the second where else both would read alike."""
    told, allowed = duration(seconds), duration(limit)
    if told == allowed:
        told, allowed = _to_the_second(seconds), _to_the_second(limit)
    return (f"over {told}" if told == allowed else told), allowed


def _to_the_second(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), round(MINUTE))
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"


def _two_units(large: int, small: int, large_unit: str, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


def utc(timestamp: float) -> str:
    """Write Unix seconds as ISO 8601 in UTC: `2026-03-01T12:00:00Z`, with milliseconds where there are any.

    A time outside the calendar's years 1 to 9999 is written as the number it is.
    """
    try:
        moment = datetime.fromtimestamp(round(timestamp, 3), UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp!r} s"
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def printable(text: str) -> str:
    """Make upstream text safe to show: control, format and unassigned characters become visible escapes.

    A backslash is doubled, so that two different names never look the same.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_printable_character(character) for character in text)


def _printable_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
