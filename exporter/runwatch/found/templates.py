"""Templates of places: putting the parts of a found job's name into them, and choosing what their `*` stands for."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

FIELD = re.compile(r"\{([^{}]*)\}")
WRITTEN_AFTER_SECONDS = 300.0
_LEADS_ELSEWHERE = frozenset("/\\*?[]{}")


@dataclass(frozen=True, slots=True)
class StarPattern:
    """An address with one `*`, taken apart: `parent/` `prefix*suffix` `/rest`. `rest` is empty or begins with a slash.

    The star stands for any text without a slash.
    """

    parent: str
    prefix: str
    suffix: str
    rest: str

    @property
    def exactness(self) -> int:
        """How many characters of the name are given: of two patterns that fit, the more exact one is meant."""
        return len(self.prefix) + len(self.suffix)

    def star_of(self, name: str) -> str | None:
        """Return what the star stands for in a name; None where the name does not fit."""
        fits = name.startswith(self.prefix) and name.endswith(self.suffix) and len(name) >= self.exactness
        return name[len(self.prefix) : len(name) - len(self.suffix)] if fits else None

    def address(self, name: str) -> str:
        """Return the address with the given name in place of the part that holds the star."""
        return f"{self.parent}/{name}{self.rest}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name that exists and fits a pattern. Times are Unix seconds, None where they are not known.

    `time` says which is the newest: when it was made, or last written where only that is known. `made` is when it was
    made, `written` when it was last written.
    """

    name: str
    star: str
    time: float | None = None
    made: float | None = None
    written: float | None = None


def fitting(names: Sequence[str], pattern: StarPattern) -> Iterator[tuple[str, str]]:
    """Yield each name that fits a pattern, with what its star stands for. The names are sorted: few are looked at."""
    for name in islice(names, bisect_left(names, pattern.prefix), None):
        if not name.startswith(pattern.prefix):
            return
        star = pattern.star_of(name)
        if star is not None:
            yield name, star


def fill(template: str, values: Mapping[str, str | None]) -> str | None:
    """Put values into the fields of a template, each field `{KEY}`.

    Values are anybody's text. None is returned where one is missing or empty, or would lead to another folder or
    project than the template means: with a slash, a wildcard, a control character, or a dot at its beginning.
    """
    texts = {key: (values.get(key) or "").strip() for key in FIELD.findall(template)}
    if not all(_leads_nowhere_else(text) for text in texts.values()):
        return None
    # In one pass, so that no value's own text is taken for a field.
    return FIELD.sub(lambda field: texts[field[1]], template)


def _leads_nowhere_else(text: str) -> bool:
    return bool(text) and not text.startswith(".") and text.isprintable() and not _LEADS_ELSEWHERE & set(text)


def split_star(address: str) -> StarPattern | None:
    """Take an address apart at the part that holds its `*`; None where it holds none.

    Raises:
        ValueError: it holds more than one.
    """
    parts = address.split("/")
    starred = [index for index, part in enumerate(parts) if "*" in part]
    if not starred:
        return None
    index = starred[0]
    if len(starred) > 1 or parts[index].count("*") > 1:
        raise ValueError(f"{address!r}: expected one * at most")
    prefix, _, suffix = parts[index].partition("*")
    rest = "".join(f"/{part}" for part in parts[index + 1 :])
    return StarPattern("/".join(parts[:index]), prefix, suffix, rest)


def held_by(candidates: Sequence[Candidate], child: str) -> Sequence[Candidate]:
    """Return the candidates that a child's name holds: their whole name, else what the star stands for, as a word.

    Of those, only the longest: `a-12` is held by a name that holds `b-a-12`.
    """
    whole = [candidate for candidate in candidates if _holds(child, candidate.name)]
    held = whole or [candidate for candidate in candidates if _holds(child, candidate.star)]
    longest = max((len(candidate.star) for candidate in held), default=0)
    return [candidate for candidate in held if len(candidate.star) == longest]


def _holds(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) is not None


def choose(candidates: Sequence[Candidate], child: str, earlier: str = "") -> Candidate | None:
    """Choose what a star stands for.

    The only candidate; of several the one that the child's name holds, else the one chosen earlier, else the newest.
    The answer does not depend on the order of the candidates.

    Args:
        candidates: What exists.
        child: The name of the found job's child, "" where there is none.
        earlier: The name that was chosen before for the same submission.

    Returns:
        None where there is no candidate, or several of which none can be told to be the newest.
    """
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    held = held_by(candidates, child) if child else ()
    if not held:
        kept = next((candidate for candidate in candidates if candidate.name == earlier), None)
        if kept is not None:
            return kept
    dated = [candidate for candidate in held or candidates if candidate.time is not None]
    if not dated:
        return held[0] if len(held) == 1 else None
    return max(dated, key=lambda candidate: (-math.inf if candidate.time is None else candidate.time, candidate.name))


def belongs(candidate: Candidate, child: str, since: float | None) -> bool:
    """Tell whether something was surely made or used by a job that was submitted at a time (Unix seconds).

    What was written shortly after may have been written by the submission before it, in its last minute or by a clock
    that goes differently.
    """
    if since is None or (child and held_by([candidate], child)):
        return True
    was_made = candidate.made is not None and candidate.made >= since
    return was_made or (candidate.written is not None and candidate.written >= since + WRITTEN_AFTER_SECONDS)


def wants_times(
    candidates: Sequence[Candidate], child: str, earlier: str = "", since: float | None = None
) -> Sequence[Candidate]:
    """Return the candidates whose times decide; none where the choice does not hang on times.

    With `since` the only candidate's time is wanted too: it tells whether it is left of an earlier submission.
    """
    if len(candidates) <= 1:
        return () if all(belongs(candidate, child, since) for candidate in candidates) else candidates
    held = held_by(candidates, child) if child else ()
    if len(held) == 1 or (not held and any(candidate.name == earlier for candidate in candidates)):
        return ()
    return held or candidates
