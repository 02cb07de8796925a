"""Rules of one alert with mutants beside them, each under names of its own, so that one evaluation judges them all.

A mutant is a copy of the alert in which every recording between the changed rule and the alert has a name of its own
too. Where a rule reads the alert's own state (`ALERTS{alertname="…"}`), the copy reads the copy's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.scenarios.format import seconds
from tests.scenarios.mutation.mutants import Mutant, Rule, unit_of
from tests.scenarios.mutation.tokens import names, renamed

MARK = "__"
"""Stands between an alert's name and the number of its mutant."""


class RuleBook:
    """The rules as they are, and which recordings and alerts read which."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        units = {unit_of(rule) for rule in rules}
        self.alerts = sorted({str(rule["alert"]) for rule in rules if "alert" in rule} - {"Watchdog"})
        self._reads: dict[str, set[str]] = {unit: set() for unit in units}
        for rule in rules:
            self._reads[unit_of(rule)] |= names(str(rule["expr"])) & units
        self._waits = dict.fromkeys(self.alerts, 0.0)
        for rule in rules:
            if unit_of(rule) in self._waits:
                self._waits[unit_of(rule)] = max(self._waits[unit_of(rule)], seconds(rule.get("for", 0)))
        self._needed = {unit: _reached(unit, self._reads) for unit in units}

    def needed(self, alert: str) -> set[str]:
        """Return the units that an alert is made from, itself among them."""
        return self._needed[alert]

    def renamed(self, unit: str, alert: str) -> set[str]:
        """Return the units that tell something else of an alert when one unit is changed."""
        return {other for other in self._needed[alert] if unit in self._needed[other]}

    def judges(self, unit: str) -> list[str]:
        """Return the alerts that a unit is part of.

        Those come first that need the fewest copies of other rules, of them those that wait longest: what begins and
        ends within a wait shows in no other.
        """
        if unit in self.alerts:
            return [unit]
        told = [alert for alert in self.alerts if unit in self._needed[alert]]
        return sorted(told, key=lambda alert: (len(self.renamed(unit, alert)), -self._waits[alert], alert))


def _reached(unit: str, reads: Mapping[str, set[str]]) -> set[str]:
    reached, waiting = {unit}, [unit]
    while waiting:
        more = reads[waiting.pop()] - reached
        reached |= more
        waiting += more
    return reached


@dataclass(frozen=True, slots=True)
class MutatedFile:
    """The rules of one alert as they are, and those of its mutants: the first has number 0."""

    alert: str
    mutants: tuple[Mutant, ...]
    rules: tuple[Rule, ...]


def mutated_file(alert: str, mutants: Sequence[Mutant], book: RuleBook) -> MutatedFile:
    """Return the rules that an alert is made from, and after them those of each mutant."""
    needed = book.needed(alert)
    written = [rule for rule in book.rules if unit_of(rule) in needed]
    for number, mutant in enumerate(mutants):
        written += _copies(mutant, number, book.rules, book.renamed(mutant.unit, alert))
    return MutatedFile(alert, tuple(mutants), tuple(written))


def _copies(mutant: Mutant, number: int, rules: Sequence[Rule], units: set[str]) -> Iterator[Rule]:
    new_names = {unit: f"{unit}{MARK}{number}" for unit in units}
    for position, rule in enumerate(rules):
        unit = unit_of(rule)
        if unit not in units:
            continue
        copied = dict(mutant.rule if position == mutant.position else rule)
        expression = renamed(str(copied["expr"]), new_names)
        is_as_before = position != mutant.position and expression == rule["expr"]
        if is_as_before and "record" in copied:  # another rule of the same recording: read rather than evaluated again
            expression = unit + _matchers(copied)
        key = "alert" if "alert" in copied else "record"
        yield {**copied, key: new_names[unit], "expr": expression}


def _matchers(rule: Rule) -> str:
    labels = rule.get("labels", {})
    assert isinstance(labels, dict)
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def number_of(alertname: str) -> int | None:
    """Return the number of the mutant that an alert's name tells, None for the alert as it is."""
    _, mark, number = alertname.partition(MARK)
    return int(number) if mark else None
