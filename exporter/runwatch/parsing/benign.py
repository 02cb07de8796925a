"""Lines that look like faults and are none: patterns as data, and counting what they set aside.

A pattern may name what beside it makes it a fault all the same: an engine's shared-memory heartbeat is one only beside
a NCCL timeout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from runwatch.config.faults import ConfigError, Fault, did_you_mean
from runwatch.config.tree import Entry, read_tree

DEFAULT_WITHIN_LINES = 1000
_OWN_FILE = "benign_lines.yaml"
_KEYS = ("pattern", "reason", "site", "fault_beside", "within")
_SHOWN_CHARACTERS = 200
_SEARCHED_CHARACTERS = 4096
_LARGEST_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BenignPattern:
    """One kind of line that is no fault; `site` "" means everywhere, `within` counts lines."""

    pattern: re.Pattern[str]
    reason: str
    site: str = ""
    fault_beside: tuple[re.Pattern[str], ...] = ()
    within: int = DEFAULT_WITHIN_LINES


@dataclass(frozen=True, slots=True)
class BenignCount:
    """How many lines were set aside for one reason, and the newest of one pattern.

    `fault` is the line that stood beside one of them and makes it a fault, "" without one; `fault_time` its stamp.
    """

    reason: str
    count: int
    example: str
    fault: str = ""
    fault_time: float | None = None


@dataclass(slots=True)
class _Seen:
    count: int = 0
    line: int | None = None
    example: str = ""
    beside_line: int | None = None
    beside: str = ""
    beside_time: float | None = None
    fault: str = ""
    fault_time: float | None = None


class BenignLines:
    """Takes the lines of one log in order, and tells which of them are set aside.

    Args:
        patterns: those to look for.
        site: the site of the log; patterns of other sites do not hold.
    """

    def __init__(self, patterns: Sequence[BenignPattern], site: str) -> None:
        self._patterns = [pattern for pattern in patterns if pattern.site in ("", site)]
        self._seen = [_Seen() for _ in self._patterns]
        self._line = 0

    def take(self, text: str, time: float | None) -> bool:
        """Take the next line, and tell whether it is benign. Only its first 4096 characters are looked at."""
        self._line += 1
        text = text[:_SEARCHED_CHARACTERS]
        benign = False
        reasons: list[str] = []
        for pattern, seen in zip(self._patterns, self._seen, strict=True):
            if pattern.pattern.search(text) is not None:
                benign = True
                seen.count += pattern.reason not in reasons  # a line counts once for each reason
                reasons.append(pattern.reason)
                seen.line, seen.example = self._line, text[:_SHOWN_CHARACTERS]
                if seen.beside_line is not None and self._line - seen.beside_line <= pattern.within:
                    seen.fault, seen.fault_time = seen.beside, seen.beside_time
            if pattern.fault_beside and any(beside.search(text) is not None for beside in pattern.fault_beside):
                benign = False
                seen.beside_line, seen.beside, seen.beside_time = self._line, text[:_SHOWN_CHARACTERS], time
                if seen.line is not None and self._line - seen.line <= pattern.within:
                    seen.fault, seen.fault_time = seen.beside, time
        return benign

    def covers(self, text: str) -> bool:
        """Tell whether a text is benign by itself, without counting it: a failure that another parser found, say."""
        text = text[:_SEARCHED_CHARACTERS]
        return any(
            pattern.pattern.search(text) is not None
            and not any(beside.search(text) is not None for beside in pattern.fault_beside)
            for pattern in self._patterns
        )

    def counts(self) -> tuple[BenignCount, ...]:
        """Return what was set aside so far by reason, in the order of the patterns."""
        by_reason: dict[str, BenignCount] = {}
        for pattern, seen in zip(self._patterns, self._seen, strict=True):
            if seen.line is None:
                continue
            found = BenignCount(pattern.reason, seen.count, seen.example, seen.fault, seen.fault_time)
            before = by_reason.get(pattern.reason)
            if before is not None:
                found = replace(before if before.fault else found, count=before.count + seen.count)
            by_reason[pattern.reason] = found
        return tuple(by_reason.values())


@cache
def shipped_patterns() -> tuple[BenignPattern, ...]:
    """Return the patterns that come with the product."""
    text = files("runwatch.parsing").joinpath(_OWN_FILE).read_text(encoding="utf-8")
    return parse_patterns(text, _OWN_FILE)


def read_patterns(path: Path) -> tuple[BenignPattern, ...]:
    """Read patterns from a file of the user.

    Raises:
        ConfigError: it cannot be read, or every fault in it, with file, line and key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Fault(str(path), None, "", f"cannot be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Fault(str(path), None, "", "expected UTF-8")]) from error
    if len(content) > _LARGEST_FILE_BYTES:
        raise ConfigError([Fault(str(path), None, "", f"larger than {_LARGEST_FILE_BYTES >> 20} MiB")])
    return parse_patterns(text, str(path))


def parse_patterns(text: str, file: str) -> tuple[BenignPattern, ...]:
    """Read patterns from YAML text.

    Raises:
        ConfigError: every fault of the text, with file, line and key.
    """
    root, faults = read_tree(text, file)
    if root is None:
        raise ConfigError(faults)
    if not isinstance(root.value, list):
        raise ConfigError([*faults, root.fault("expected a list of entries with pattern and reason")])
    patterns = [_pattern(entry, faults) for entry in root.value]
    if faults:
        raise ConfigError(faults)
    return tuple(pattern for pattern in patterns if pattern is not None)


def _pattern(entry: Entry, faults: list[Fault]) -> BenignPattern | None:
    if not isinstance(entry.value, dict):
        faults.append(entry.fault("expected a mapping with pattern and reason"))
        return None
    for name, value in entry.named().items():
        if name not in _KEYS:
            faults.append(value.fault(f"unknown key{did_you_mean(name, _KEYS)}"))
    expression = _expression(entry.get("pattern"), entry, faults)
    reason = _text(entry.get("reason"), "why the line is no fault, as text", faults)
    if entry.get("reason") is None:
        faults.append(entry.fault("reason is missing: expected why the line is no fault"))
    site = _text(entry.get("site"), "the name of a site", faults)
    beside = tuple(_expression(each, entry, faults) for each in entry.listed("fault_beside"))
    listed = entry.get("fault_beside")
    if listed is not None and not isinstance(listed.value, list):
        faults.append(listed.fault("expected a list of regular expressions"))
    within = _within(entry.get("within"), faults)
    if expression is None:
        return None
    known = tuple(each for each in beside if each is not None)
    return BenignPattern(expression, reason, site, known, within)


def _expression(entry: Entry | None, holder: Entry, faults: list[Fault]) -> re.Pattern[str] | None:
    if entry is None:
        faults.append(holder.fault("pattern is missing: expected a regular expression"))
        return None
    if not isinstance(entry.value, str) or not entry.value:
        faults.append(entry.fault("expected a regular expression as text"))
        return None
    try:
        expression = re.compile(entry.value)
    except (re.error, OverflowError, RecursionError) as error:
        faults.append(entry.fault(f"not a regular expression: {error}"))
        return None
    if expression.search("") is not None:
        faults.append(entry.fault("matches every line: expected an expression that needs some text"))
        return None
    return expression


def _text(entry: Entry | None, expected: str, faults: list[Fault]) -> str:
    if entry is None:
        return ""
    if isinstance(entry.value, str) and entry.value:
        return entry.value
    faults.append(entry.fault(f"expected {expected}"))
    return ""


def _within(entry: Entry | None, faults: list[Fault]) -> int:
    if entry is None:
        return DEFAULT_WITHIN_LINES
    if isinstance(entry.value, int) and not isinstance(entry.value, bool) and 1 <= entry.value <= 10**6:
        return entry.value
    faults.append(entry.fault("expected a whole number of lines from 1 to 1000000"))
    return DEFAULT_WITHIN_LINES
