"""Times and durations as SLURM prints them.

SLURM's text times have no offset: they are in the zone of the machine that ran the command. Where clocks are set back
such a time happens twice, and what is known beside it (how long the job has run) tells which one is meant. A number is
taken as Unix seconds, which is what `SLURM_TIME_FORMAT=%s` gives.

Formats: `squeue(1)`, `scontrol(1)` and `sacct(1)`, TIME FORMAT and ELAPSED, unchanged from 21.08 to 25.11.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?\Z")

_QUARTER_SECONDS = 900.0  # zones differ by whole quarters of an hour
_ZONE_TOLERANCE_SECONDS = 60.0  # how long squeue may take, and clocks be apart


def parse_time(text: str, zone: ZoneInfo, *, near: float | None = None) -> float | None:
    """Return a time in Unix seconds.

    Args:
        text: `2026-11-29T17:30:05` or Unix seconds; anything else (`N/A`, `NONE`, `None`, `Unknown`) is no time.
        zone: zone of a text time.
        near: of the two times that a text means where clocks were set back, the one closer to this is taken, without
            it the earlier.
    """
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= 12 and int(text) > 0 else None
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        return None
    if local.tzinfo is not None:
        return local.timestamp()
    first = local.replace(tzinfo=zone, fold=0).timestamp()
    second = local.replace(tzinfo=zone, fold=1).timestamp()
    if near is None or second <= first:
        # In the hour that is left out when clocks are set forward, the later offset comes first: no such time exists.
        return first
    return first if abs(first - near) <= abs(second - near) else second


def parse_duration(text: str) -> float | None:
    """Return seconds of `[D-]HH:MM:SS` or `M:SS`; None for `UNLIMITED`, `INVALID`, `N/A` and the like."""
    match = _DURATION.match(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def parse_span(
    submit: str, start: str, end: str, elapsed: float | None, zone: ZoneInfo, *, ended: bool, now: float
) -> tuple[float | None, float | None, float | None]:
    """Return when a job was submitted, when it started and when it ended, each settled by the others.

    Args:
        submit: When it was submitted.
        start: When it started.
        end: When it ended, or is expected to.
        elapsed: Seconds for which it ran.
        zone: Zone of the texts.
        ended: Whether it has ended; before that `end` is a forecast.
        now: Unix seconds; what runs started `elapsed` before it.
    """
    ended_at = parse_time(end, zone) if ended else now
    began = parse_time(start, zone, near=_sum(ended_at, -(elapsed or 0.0)))
    if ended:
        ended_at = parse_time(end, zone, near=_sum(began, elapsed or 0.0))
    # A job waits before it starts: the later of two is the likelier, as long as it is not after the start.
    latest = began if began is not None else ended_at
    submitted = parse_time(submit, zone, near=latest)
    if submitted is not None and latest is not None and submitted > latest + 1:
        submitted = parse_time(submit, zone)
    return submitted, began, ended_at if ended else None


def zone_error(offsets: Iterable[float]) -> float | None:
    """Return by how many seconds a site's times are off because they are in another zone than the one they are read in.

    Args:
        offsets: Of each running job, seconds by which its start is later than the time tells for which it has run. A
            job that was suspended may have run for less.

    Returns:
        Seconds ahead; None where most of the jobs tell of no such error, or there is none.
    """
    quarters = [(round(offset / _QUARTER_SECONDS), offset) for offset in offsets]
    told = Counter(n for n, offset in quarters if abs(offset - n * _QUARTER_SECONDS) <= _ZONE_TOLERANCE_SECONDS)
    if not told:
        return None
    quarter, count = told.most_common(1)[0]
    return quarter * _QUARTER_SECONDS if quarter and 2 * count > len(quarters) else None


def _sum(time: float | None, seconds: float) -> float | None:
    return None if time is None else time + seconds
