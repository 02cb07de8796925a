"""Numbers, printed dicts and logger prefixes in the text of a trainer's log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PLAIN = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3}){1,12}(?:\.\d{1,40})?", re.ASCII)
_SHORTENED = re.compile(r"([+-]?\d{1,15}(?:\.\d{1,15})?)([kKMGTB%])", re.ASCII)
_NAMED = frozenset({"nan", "+nan", "-nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})
_FACTORS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "%": 1e-2}
_LONGEST_NUMBER = 90

_PAIR = re.compile(
    r"\s{0,20}'(?P<key>[^'\\]{1,200})': {0,2}"
    r"(?:'(?P<quoted>[^'\\]{0,200})'|\"[^\"\\]{0,200}\"|(?P<made>[A-Za-z_][\w.]{0,60}\([^()]{0,120}\))"
    r"|(?P<bare>[^\s,'\"{}\[\]()]{1,90}))"
    r"\s{0,20}(?P<end>,|\}|\Z)",
)
_LOGURU = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{1,9} \| [A-Z]{4,8} {0,5}\| [^\s|]{1,200}:[^\s|:]{1,100}:\d{1,7} - ",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class PrintedPairs:
    """The pairs of a Python dict's text: the numbers among the values, all keys, and whether its `}` was there."""

    values: Mapping[str, float]
    keys: frozenset[str]
    closed: bool


def log_number(text: str) -> float | None:
    """Read a number as logs print them.

    Accepts `3.142`, `1.235e+05`, `-0.0000`, `nan` and `inf` in any case, `42,080`, `12.3k` and `100.00%` (as 1.0, the
    share that it is). None for anything else.
    """
    if not 0 < len(text) <= _LONGEST_NUMBER:
        return None
    if _PLAIN.fullmatch(text) or text.lower() in _NAMED:
        return float(text)
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if (shortened := _SHORTENED.fullmatch(text)) is not None:
        return float(shortened[1]) * _FACTORS[shortened[2]]
    return None


def scan_pairs(text: str) -> PrintedPairs | None:
    """Read `{'loss': 5.8, 'grad_norm': '0.92', ...}`, or a line of one that `pprint` broke into several.

    Values may be bare or quoted, or wrapped as NumPy and torch print theirs (`np.float64(0.5)`, `tensor(0.5)`).

    Returns:
        The pairs; None where the text is anything else, goes on behind the closing brace, or holds no pair.
    """
    values: dict[str, float] = {}
    keys: set[str] = set()
    position = 1 if text.startswith("{") else 0
    while (pair := _PAIR.match(text, position)) is not None:
        keys.add(pair["key"])
        number = _value(pair)
        if number is None:
            values.pop(pair["key"], None)
        else:
            values[pair["key"]] = number
        position = pair.end()
        if pair["end"] == "}":
            return PrintedPairs(values, frozenset(keys), closed=True) if not text[position:].strip() else None
    if not keys or text[position:].strip():
        return None
    return PrintedPairs(values, frozenset(keys), closed=False)


def _value(pair: re.Match[str]) -> float | None:
    if pair["made"] is not None:
        return log_number(pair["made"].split("(", 1)[1].rstrip(")").split(",", 1)[0].strip())
    text: str | None = pair["quoted"] if pair["quoted"] is not None else pair["bare"]
    return log_number(text) if text is not None else None


def loguru_message(text: str) -> str | None:
    """Return what stands behind loguru's `TIME | LEVEL | module:function:line - `, None without that prefix."""
    found = _LOGURU.match(text)
    return text[found.end() :].rstrip() if found is not None else None
