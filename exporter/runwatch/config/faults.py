"""What is wrong with a configuration file: each fault with its file, line and key, and all of them at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One complaint about the config.

    `line` counts from 1 and is None where no line can be named (the file cannot be opened). `key` is the way to the
    value, such as `jobs[1].bucket`, and empty for the file as a whole.
    """

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        """Return `FILE:LINE: KEY: message`, on one line, without the parts that are not known."""
        place = ":".join(part for part in (self.file, "" if self.line is None else str(self.line)) if part)
        return one_line(": ".join(part for part in (place, self.key, self.message) if part))


class ConfigError(Exception):
    """The config cannot be used. `faults` holds everything that is wrong with it, in the order of the file."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def one_line(text: str) -> str:
    """Return the text with everything that is not printable (line breaks, lone surrogates) escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def shown(text: str, limit: int = 80) -> str:
    """Return the text in quotes, on one line and cut to `limit` characters, for the end of a message."""
    return one_line(f"'{text if len(text) <= limit else text[:limit] + '...'}'")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` when a known word is close, else an empty text."""
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.6)
    return f"; did you mean {one_line(close[0])}?" if close else ""
