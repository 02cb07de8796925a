"""Time stamps at the beginning of a line, as loggers write them.

Read are ISO dates (Python's logging, loguru, SGLang, container runtimes), HF's `[INFO|trainer.py:1478] DATE >>`,
LLaMA-Factory's `[INFO|DATE]`, marin's `I20261129 17:45:53` (`rigging.log_setup`), vLLM's `INFO 11-29 17:45:07` and
glog's `W1129 17:51:30.032000` (torch). The last two name no year: it is told from the time of the file.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

_ISO = re.compile(
    r"(?:\[(?:[A-Z]+\|(?:[\w./-]{1,200}:\d+\] )?)?)?"
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
    r"(?=[\s\]|]|\Z)(?! ?[AaPp][Mm]\b)",  # a clock of twelve hours is not read as one of 24
    re.ASCII,
)
_COMPACT = re.compile(r"[DIWEC](\d{4})(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?=\s)", re.ASCII)
_NO_YEAR = re.compile(
    r"(?:\[?[IWEF](\d\d)(\d\d) |(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) )"
    r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?=[\s\]])",
    re.ASCII,
)
_FIRST_CHARACTERS = frozenset("0123456789[IWEFDC")
_ONE_DAY_SECONDS = 86400.0
_AGO_SECONDS = 60.0


class StampReader:
    """Reads the stamp of one line after another.

    Args:
        zone: the time zone of stamps that name none.
        file_time: when the file was last written, Unix seconds; a stamp of more than a day later is none (it is text
            that a model wrote, say), and without it a stamp without a year cannot be read.
    """

    def __init__(self, zone: tzinfo = UTC, file_time: float | None = None) -> None:
        self._zone = zone
        self.file_time = file_time
        self._minute: tuple[int, int, int, int, int] | None = None
        self._minute_starts = (0.0, 0.0)
        self._latest: float | None = None

    def read(self, text: str) -> float | None:
        """Return the line's stamp in Unix seconds, None where it begins with none."""
        if text[:1] not in _FIRST_CHARACTERS:
            return None
        stamp = self._iso(text)
        if stamp is None:
            stamp = self._compact(text)
        if stamp is None:
            stamp = self._without_year(text)
        if stamp is None or (self.file_time is not None and stamp > self.file_time + _ONE_DAY_SECONDS):
            return None
        self._latest = stamp
        return stamp

    def _iso(self, text: str) -> float | None:
        found = _ISO.match(text)
        if found is None:
            return None
        year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
        seconds = second + _fraction(found[7])
        if found[8] is None:
            return self._local((year, month, day, hour, minute), seconds)
        return _with_offset((year, month, day, hour, minute), seconds, found[8])

    def _compact(self, text: str) -> float | None:
        found = _COMPACT.match(text)
        if found is None:
            return None
        year, month, day, hour, minute, second = (int(part) for part in found.groups())
        return self._local((year, month, day, hour, minute), second)

    def _without_year(self, text: str) -> float | None:
        found = _NO_YEAR.match(text)
        if found is None or self.file_time is None:
            return None
        month, day = int(found[1] or found[3]), int(found[2] or found[4])
        seconds = int(found[7]) + _fraction(found[8])
        year = datetime.fromtimestamp(self.file_time, UTC).year
        for candidate in (year + 1, year, year - 1):
            stamp = self._local((candidate, month, day, int(found[5]), int(found[6])), seconds)
            if stamp is not None and stamp <= self.file_time + _ONE_DAY_SECONDS:
                return stamp
        return None

    def _local(self, minute: tuple[int, int, int, int, int], seconds: float) -> float | None:
        if seconds >= 61:
            return None
        if minute != self._minute:
            try:
                starts = tuple(datetime(*minute, tzinfo=self._zone, fold=fold).timestamp() for fold in (0, 1))
            except (ValueError, OverflowError):
                return None
            self._minute, self._minute_starts = minute, (starts[0], starts[1])
        first, second = (start + seconds for start in self._minute_starts)
        # An hour that the clocks go through twice: the second time is told by what was written before.
        if second > first and self._latest is not None and first < self._latest - _AGO_SECONDS:
            return second
        return first


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


def _with_offset(minute: tuple[int, int, int, int, int], seconds: float, offset: str) -> float | None:
    if seconds >= 61:
        return None
    try:
        if offset == "Z":
            zone: tzinfo = UTC
        else:
            digits = offset[1:].replace(":", "")
            shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
            zone = timezone(-shift if offset[0] == "-" else shift)
        return datetime(*minute, tzinfo=zone).timestamp() + seconds
    except (ValueError, OverflowError):
        return None
