"""All single changes of the rules: thresholds, operators, `for`, `keep_firing_for` and severities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from promql_parser import parse

from runwatch.alerting.promql import duration, number
from tests.scenarios.format import seconds
from tests.scenarios.mutation.tokens import (
    ARITHMETIC,
    COMPARISONS,
    Token,
    operand_after,
    operand_before,
    tokens,
)

Rule = Mapping[str, object]
"""A rule as its file has it."""

_BOUNDARY = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
_REVERSE = {">": "<", ">=": "<", "<": ">", "<=": ">", "==": "!=", "!=": "=="}
_OTHER_ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*"}
_ALL_SET_OPERATORS = frozenset({"and", "or", "unless"})
_FACTORS = (0.8, 1.25)
_COUNT_LIMIT = 30  # whole numbers up to it are counts and multiples: they are changed by one


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one change.

    Attributes:
        position: The rule's place among all rules.
        unit: The name of its recording or alert.
        change: Which change of which piece, in words; with `unit` and `arm` it is the mutant's name.
        rule: The rule as it would be.
        place: The line of the expression that is changed, with the line before it; empty for what is not in it.
        arm: Tells rules of one name apart: the severity or another label.
    """

    position: int
    unit: str
    change: str
    rule: Rule
    place: str = ""
    arm: str = ""

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.unit}{f' ({self.arm})' if self.arm else ''}: {self.change}"


def read_rules(paths: list[Path]) -> list[Rule]:
    """Return the rules of files, without what only people read."""
    documents = [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in paths]
    return [
        {key: value for key, value in rule.items() if key != "annotations"}
        for document in documents
        for group in document["groups"]
        for rule in group["rules"]
    ]


def unit_of(rule: Rule) -> str:
    """Return the name of a rule's recording or alert."""
    return str(rule.get("alert", rule.get("record")))


def _labels(rule: Rule) -> dict[str, str]:
    labels = rule.get("labels", {})
    assert isinstance(labels, dict)
    return labels


def mutants_of(rules: Sequence[Rule]) -> list[Mutant]:
    """Return every mutant of every rule, the dead man's switch left out (it has no condition)."""
    found = []
    for position, rule in enumerate(rules):
        unit = unit_of(rule)
        if unit == "Watchdog":
            continue
        arm = "/".join(_labels(rule).values()) if sum(unit_of(other) == unit for other in rules) > 1 else ""
        expression = str(rule["expr"])
        for line, change, changed in expression_changes(expression):
            parse(changed)
            place = " ".join(" ".join(expression.splitlines()[max(0, line - 2) : line]).split())
            name = f"line {line}: {change}"
            found.append(Mutant(position, unit, name, {**rule, "expr": changed}, place, arm))
        found += [Mutant(position, unit, change, changed, arm=arm) for change, changed in _other_changes(rule)]
    return found


def _other_changes(rule: Rule) -> Iterator[tuple[str, Rule]]:
    for key in ("for", "keep_firing_for"):
        if key in rule:
            length = seconds(rule[key])
            for other in (0.0, length / 2, length * 2):
                text = duration(other) if other else "0s"
                yield f"{key} {rule[key]} → {text}", {**rule, key: text}
    labels = _labels(rule)
    if "severity" in labels:
        # No rule has this one: another arm of the alert may have the other two, and would write the same series.
        yield "severity → info", {**rule, "labels": {**labels, "severity": "info"}}


def expression_changes(expression: str) -> Iterator[tuple[int, str, str]]:
    """Yield each change of an expression: its line (from 1), the change in words, and the expression that it makes.

    Whole numbers up to 30 change by one, others and durations by a fifth down and a quarter up. A comparison is moved
    to the other side of its boundary and reversed, arithmetic reversed. The right side of `and` and `unless` is
    dropped, and the one becomes the other; each side of an `or` is dropped. Matchers of labels are not changed.
    """
    found = tokens(expression)
    for index, token in enumerate(found):
        line = expression.count("\n", 0, token.start) + 1

        def replaced(text: str, token: Token = token) -> str:
            return expression[: token.start] + text + expression[token.end :]

        if token.kind == "number":
            for other in _other_numbers(float(token.text)):
                yield line, f"{token.text} → {number(other)}", replaced(number(other))
        elif token.kind == "duration":
            for factor in _FACTORS:
                text = duration(round(seconds(token.text) * factor))
                yield line, f"{token.text} → {text}", replaced(text)
        elif token.kind == "operator" and token.text in COMPARISONS:
            for table in (_BOUNDARY, _REVERSE):
                if token.text in table:
                    yield line, f"{token.text} → {table[token.text]}", replaced(table[token.text])
        elif token.kind == "operator" and token.text in ARITHMETIC and _is_binary(found, index):
            if not (token.text == "*" and found[index - 1].text == "0"):  # 0 / x is 0 as 0 * x is
                text = _OTHER_ARITHMETIC[token.text]
                yield line, f"{token.text} → {text}", replaced(text)
        elif token.text in {"and", "unless"}:
            other_operator = "unless" if token.text == "and" else "and"
            yield line, f"{token.text} → {other_operator}", replaced(other_operator)
            end = operand_after(found, index, _ALL_SET_OPERATORS)
            yield line, f"{token.text} … dropped", _without(expression, found, index, end)
        elif token.text == "or":
            end = operand_after(found, index, frozenset({"or"}))
            yield line, "right of or dropped", _without(expression, found, index, end)
            start = operand_before(found, index)
            yield line, "left of or dropped", _without(expression, found, start, index + 1)


def _other_numbers(value: float) -> list[float]:
    if value == 0:
        return [1.0]
    if value == int(value) and value <= _COUNT_LIMIT:
        return [value - 1, value + 1]
    return [round(value * factor, 9) for factor in _FACTORS]


def _is_binary(found: list[Token], index: int) -> bool:
    if index == 0:
        return False
    before = found[index - 1]
    return before.kind in {"number", "duration", "name"} or before.text in {")", "}", "]"}


def _without(expression: str, found: list[Token], start: int, end: int) -> str:
    cut = found[end].start if end < len(found) else len(expression)
    return expression[: found[start].start] + expression[cut:]
