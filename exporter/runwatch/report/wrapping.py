"""Wrapping of text to columns of a terminal: nothing is lost, and a number is never parted from its unit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

_AT_SPACES = re.compile(r"(?<!\d) | (?!(?:%|×|min|h|s|d)(?:\W|$))")
_AT_COMMAS = re.compile(r"(?<=,) ")


def wrap(text: str, width: int, *, only_at_commas: bool = False) -> list[str]:
    """Divide a text into lines.

    A word that is wider than the line is folded, unless it may be wrapped only at commas: those pieces are figures,
    which stay whole however wide they are.

    Args:
        text: Printable text without line ends.
        width: Columns of the terminal; wide characters count as two.
        only_at_commas: Break behind `, ` and nowhere else.
    """
    words = _AT_COMMAS.split(text) if only_at_commas else _AT_SPACES.split(text)
    lines: list[str] = []
    for word in words:
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        elif only_at_commas:
            lines.append(word)
        else:
            lines.extend(_fold(word, max(width, 2)))
    return lines


def _fold(word: str, width: int) -> Iterator[str]:
    line = ""
    for character in word:
        if line and cell_len(line) + cell_len(character) > width:
            yield line
            line = ""
        line += character
    yield line
