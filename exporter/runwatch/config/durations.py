"""Durations as people write them in the config: `90s`, `5m`, `2h`, `1d12h`."""

from __future__ import annotations

import re

DURATION_EXPECTED = "expected a duration such as 90s, 5m, 2h or 1d12h"
LONGEST_SECONDS = 10 * 365 * 86400.0

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")


def parse_duration(value: object) -> float:
    """Return seconds.

    Raises:
        ValueError: the text is not a sequence of numbers with units, or the duration is not above zero, or it is
            over ten years.
    """
    text = str(value).strip()
    shown = text if len(text) <= 40 else text[:40] + "..."
    parts = _PART.findall(text)
    if isinstance(value, bool) or not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{DURATION_EXPECTED}, got {shown!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        raise ValueError(f"expected a duration above zero, got {shown!r}")
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"expected a duration of at most ten years, got {shown!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the duration as people write it, in whole units from the largest down: 5400.0 is `1h30m`."""
    rest = round(seconds * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
