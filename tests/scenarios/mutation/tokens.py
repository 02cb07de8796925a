"""PromQL as tokens with their places, so that one of them can be changed and the rest stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<duration>[0-9]+[smhdwy](?:[0-9]+[smhdwy])*)
  | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)
  | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<operator>=~|!~|==|!=|>=|<=|[-+*/%^<>=])
  | (?P<bracket>[(){}\[\],])
    """,
    re.X,
)

COMPARISONS = frozenset({">", ">=", "<", "<=", "==", "!="})
ARITHMETIC = frozenset({"+", "-", "*", "/"})
SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression.

    Attributes:
        kind: `string`, `duration`, `number`, `name`, `operator`, `matcher` (an operator in braces) or `bracket`.
        text: As it is written.
        start: Where it begins in the expression.
        depth: How many brackets stand open around it; an opening bracket and its closing one have the same.
    """

    kind: str
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """Where it is over in the expression."""
        return self.start + len(self.text)


def tokens(expression: str) -> list[Token]:
    """Return the tokens of an expression.

    Raises:
        ValueError: there is something that no token begins with.
    """
    found: list[Token] = []
    opened: list[str] = []
    at = 0
    while at < len(expression):
        matched = _TOKEN.match(expression, at)
        if matched is None:
            raise ValueError(f"no PromQL token at {expression[at : at + 20]!r}")
        kind, text = str(matched.lastgroup), matched[0]
        if text in {")", "}", "]"} and kind == "bracket":
            opened.pop()
        if kind == "operator" and "{" in opened:
            kind = "matcher"
        if kind != "space":
            found.append(Token(kind, text, at, len(opened)))
        if text in {"(", "{", "["} and kind == "bracket":
            opened.append(text)
        at = matched.end()
    return found


def operand_after(found: Sequence[Token], index: int, ends: frozenset[str]) -> int:
    """Return the index after the right operand of the set operator at `index`.

    Args:
        found: all tokens.
        index: the operator's place among them.
        ends: the set operators that bind no tighter, and so end its operand.
    """
    depth = found[index].depth
    for i in range(index + 1, len(found)):
        token = found[i]
        if token.depth < depth or (token.depth == depth and (token.text in ends or _is_end(token))):
            return i
    return len(found)


def operand_before(found: Sequence[Token], index: int) -> int:
    """Return the index at which the left operand of the `or` at `index` begins, back to the `or` before it."""
    depth = found[index].depth
    for i in range(index - 1, -1, -1):
        token = found[i]
        opens = token.depth == depth - 1 and token.text in {"(", "["}
        if opens or (token.depth == depth and token.text in {"or", ","}):
            return i + 1
    return 0


def _is_end(token: Token) -> bool:
    return token.kind == "bracket" and token.text == ","


def names(expression: str) -> set[str]:
    """Return the names that an expression reads, of series and functions, and `ALERTS` with the alert it is about."""
    return {token.text for token in tokens(expression) if token.kind == "name"} | set(alerts_read(expression))


def alerts_read(expression: str) -> Iterator[str]:
    """Yield the alerts whose state an expression reads: `ALERTS{alertname="…"}`."""
    yield from (string.text[1:-1] for string in _alert_names(tokens(expression)))


def renamed(expression: str, new_names: dict[str, str]) -> str:
    """Return the expression with other names of recordings and of the alerts whose state it reads."""
    found = tokens(expression)
    of_alerts = set(_alert_names(found))
    pieces, at = [], 0
    for token in found:
        name = token.text[1:-1] if token in of_alerts else token.text if token.kind == "name" else None
        if name in new_names:
            text = f'"{new_names[name]}"' if token in of_alerts else new_names[name]
            pieces += [expression[at : token.start], text]
            at = token.end
    return "".join(pieces) + expression[at:]


def _alert_names(found: Sequence[Token]) -> Iterator[Token]:
    for label, matcher, value in zip(found, found[1:], found[2:], strict=False):
        if label.text == "alertname" and matcher.kind == "matcher":
            yield value
