"""tqdm's progress bars, as they stand in a log.

A bar is `desc:  19%|█▉        | 15/80 [27:46:40<32:30:00, 1800.00s/it, loss=3.1]` (`tqdm.std.tqdm.format_meter`). The
rate in it is read by nobody: after a resumption its first update jumps over all the steps that were done before, and
its smoothing keeps that figure for long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST_PREFIX = 300
_BAR = re.compile(
    r"\s{0,200}(?:(?P<description>[^|%\r\n]{0,200}?):\s{1,20})?\s{0,20}\d{1,3}%\|[^|]{0,1000}\|\s{0,20}"
    r"(?P<done>[\d.]{1,15}[kMGT]?)/(?P<total>[\d.]{1,15}[kMGT]?) "
    r"\[(?P<elapsed>[\d:]{1,15})<[\d:?]{1,15},[^\[\]]{0,400}\]",
    re.ASCII,
)
_ELAPSED = re.compile(r"(?:(\d{1,9}):)?(\d{1,2}):(\d{2})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """One drawing of a bar that has a total.

    `done` and `total` are None where they are no whole numbers (bytes, or counts shortened to `1.2k`). `elapsed` is in
    seconds since the bar was made.
    """

    description: str
    done: int | None
    total: int | None
    elapsed: float


def split_bar(text: str) -> tuple[ProgressBar | None, str]:
    """Return the bar that a piece of a log begins with, and the text behind it (all of it where there is no bar)."""
    mark = text.find("%|", 0, _LONGEST_PREFIX)
    if mark < 0:
        return None, text
    found = _BAR.match(text)
    if found is None:
        return None, text
    elapsed = clock_seconds(found["elapsed"])
    if elapsed is None:
        return None, text
    bar = ProgressBar((found["description"] or "").strip(), _whole(found["done"]), _whole(found["total"]), elapsed)
    return bar, text[found.end() :]


def clock_seconds(text: str) -> float | None:
    """Read `MM:SS` or `H:MM:SS`, hours unbounded, as seconds; None for anything else."""
    found = _ELAPSED.fullmatch(text)
    if found is None:
        return None
    return int(found[1] or 0) * 3600.0 + int(found[2]) * 60.0 + int(found[3])


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None
