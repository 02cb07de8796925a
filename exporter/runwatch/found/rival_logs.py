"""Which logs are another job's, where the glob of one job fits them too: `a-*.out` of a job `a` fits those of `a-b`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from runwatch.found.templates import StarPattern, split_star

_PAST_ALL = "\U0010ffff"


def rival_logs(logs: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Say by run which other jobs' logs its own glob fits, though a more exact one means them.

    Globs with one `*` and no other wildcard are told apart, and plain paths from them.

    Args:
        logs: By run the path or glob that is its log.

    Returns:
        For runs that have any, the paths and globs of the others, sorted.
    """
    patterns = {run: pattern for run, log in logs.items() if (pattern := _pattern(log)) is not None}
    levels: dict[tuple[str, str], list[str]] = {}
    for run, pattern in patterns.items():
        levels.setdefault((pattern.parent, pattern.rest), []).append(run)
    found: dict[str, tuple[str, ...]] = {}
    for runs in levels.values():
        by_prefix = sorted((patterns[run].prefix, run) for run in runs)
        by_suffix = sorted((_end(patterns[run])[::-1], run) for run in runs)
        for run in runs:
            own = patterns[run]
            if "*" not in logs[run]:
                continue
            near = min(_beginning_with(by_prefix, own.prefix), _beginning_with(by_suffix, own.suffix[::-1]), key=len)
            others = {logs[other] for _, other in near if _is_narrower(patterns[other], own)}
            if others:
                found[run] = tuple(sorted(others))
    return found


def is_one_of(path: str, logs: Iterable[str]) -> bool:
    """Tell whether a log file is meant by one of the given paths or globs (as `rival_logs` returns them).

    Only the parts from the one with the `*` on are compared: the folders before may be reached by links.
    """
    parts = PurePath(path).parts
    for log in logs:
        pattern = _pattern(log)
        if pattern is None:
            continue
        rest = PurePath(pattern.rest.lstrip("/")).parts
        place = len(parts) - len(rest) - 1
        if place < 0 or parts[place + 1 :] != rest:
            continue
        name = parts[place]
        if (pattern.star_of(name) is not None) if "*" in log else (name == pattern.prefix):
            return True
    return False


def _pattern(log: str) -> StarPattern | None:
    """Take a log's address apart; one without a star at its last part. None for a glob of another kind."""
    if any(character in log for character in "?[") or log.count("*") > 1:
        return None
    if "*" in log:
        return split_star(log)
    parent, _, name = log.rpartition("/")
    return StarPattern(parent, name, "", "")


def _beginning_with(texts: list[tuple[str, str]], beginning: str) -> list[tuple[str, str]]:
    first = bisect_left(texts, (beginning, ""))
    return texts[first : bisect_left(texts, (beginning + _PAST_ALL, ""))]


def _is_narrower(other: StarPattern, own: StarPattern) -> bool:
    return other.exactness > own.exactness and other.prefix.startswith(own.prefix) and _end(other).endswith(own.suffix)


def _end(pattern: StarPattern) -> str:
    return pattern.suffix or pattern.prefix
