"""Durations as people write them in the config: `90s`, `5m`, `2h`, `1d12h`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse_duration(value: object) -> float:
    """Return seconds.

    Raises:
        ValueError: the text is not a sequence of numbers with units, or the duration is not above zero.
    """
    text = str(value).strip()
    parts = _PART.findall(text)
    if isinstance(value, bool) or not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"expected a duration such as 90s, 5m, 2h or 1d12h, got {text!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        raise ValueError(f"expected a duration above zero, got {text!r}")
    return seconds
