"""Runs mutants through scenarios: which of them fire at other minutes than the alert as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.scenarios.format import Scenario
from tests.scenarios.judge import Played, expected_at, is_alone, marked_series, run_lengths
from tests.scenarios.mutation.mutants import Mutant
from tests.scenarios.mutation.rename import MARK, MutatedFile, RuleBook, mutated_file, number_of
from tests.scenarios.mutation.tokens import names

_RESULT = re.compile(r'expr: "(?P<expr>[^\n]*)", time: \S+?,\s+exp:[^\n]*\s+got:(?P<got>[^\n]*)')
_COUNTED = re.compile(r'\{(?:alertname="(?P<name>[^"]*)")?\} (?P<count>[0-9.E+]+)')


_RUN = re.compile(r'[{,]run="([^"]*)"')
_FIRST = 2
"""How many scenarios the first evaluation has; each one after it has twice as many."""
_MEMORY_FOR_TIME = {"GOGC": "800"}  # promtool spends a quarter of its time on collecting garbage
_WITH, _WITHOUT = "judged:with_original", "judged:without_original"


class HarnessError(Exception):
    """The rules as they are do not fire as the scenario says: then the mutants say nothing."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many minutes the alert as it is fires, and its mutants with it (`both`) and without it (`other`)."""

    original: int
    both: dict[int, int]
    other: dict[int, int]

    def kills(self, number: int) -> bool:
        return self.other.get(number, 0) > 0 or self.both.get(number, 0) < self.original


def killed(
    alert: str, mutants: Sequence[Mutant], rules: RuleBook, scenarios: Sequence[Played], folder: Path
) -> set[str]:
    """Return the names of the mutants that some scenario kills.

    What a few small scenarios kill need not be evaluated over all the others.

    Args:
        alert: the alert that is watched.
        mutants: the changes of what it is made from.
        rules: the rules as they are.
        scenarios: those that are about the alert.
        folder: where files may be written.

    Raises:
        HarnessError: promtool refuses the rules, or the alert as it is does not fire as often as a scenario says.
    """
    dead: set[str] = set()
    for batch in _batches(alert, scenarios):
        alive = [mutant for mutant in mutants if mutant.name not in dead]
        if not alive:
            break
        mutated = mutated_file(alert, alive, rules)
        counts = _run(mutated, batch, folder / f"{alert}.{batch[0].name}")
        for played, counted in zip(batch, counts, strict=True):
            _check(alert, played, counted)
            dead |= {mutant.name for number, mutant in enumerate(alive) if counted.kills(number)}
    return dead


def _check(alert: str, played: Played, counts: _Counts) -> None:
    expected = sum(
        labels["alertname"] == alert
        for minute in played.scenario.watched
        for labels in expected_at(played.scenario, minute)
    )
    if counts.original != expected:
        raise HarnessError(f"{played.name}: {alert} fires {counts.original} times, the scenario says {expected}")


def _batches(alert: str, scenarios: Sequence[Played]) -> Iterator[list[Played]]:
    """Put scenarios into ever more at once, those first in which the alert fires, the small ones of them first.

    What is about the exporter as a whole has an evaluation of its own.
    """
    has_site = alert.startswith("MLJob") or alert in {"RunwatchSourceDown", "RunwatchJobUnobserved"}
    size, batch = _FIRST, list[Played]()
    for played in sorted(scenarios, key=lambda p: (all(f.alert != alert for f in p.scenario.expect), _cost(p), p.name)):
        if not has_site or is_alone(played.scenario):
            yield [played]
            continue
        batch.append(played)
        if len(batch) == size:
            yield batch
            size, batch = 2 * size, []
    if batch:
        yield batch


def _cost(played: Played) -> int:
    return len(played.series) * len(played.scenario.watched)


def _run(mutated: MutatedFile, batch: Sequence[Played], stem: Path) -> list[_Counts]:
    rules, path = stem.with_name(f"{stem.name}.rules.yaml"), stem.with_name(f"{stem.name}.test.yaml")
    rules.write_text(
        yaml.dump(
            {"groups": [{"name": "mutants", "rules": [*mutated.rules, *_comparisons(mutated.alert)]}]},
            Dumper=yaml.CSafeDumper,
            width=10_000,
        )
    )
    shared = len(batch) > 1
    asked = [_questions(mutated.alert, n if shared else None, played.scenario) for n, played in enumerate(batch)]
    read: set[str] = set().union(*(names(str(rule["expr"])) for rule in mutated.rules))
    document = {
        "rule_files": [str(rules.resolve())],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": marked_series(series, number) if shared else series, "values": run_lengths(values)}
                    for number, played in enumerate(batch)
                    for series, values in _told_of(mutated.alert, played)
                    if series.partition("{")[0] in read
                ],
                "promql_expr_test": [
                    {"expr": question, "eval_time": f"{len(played.scenario.watched) - 1}m", "exp_samples": []}
                    for played, questions in zip(batch, asked, strict=True)
                    for question in questions
                ],
            }
        ],
    }
    path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper, width=10_000, sort_keys=False))
    command = ["promtool", "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | _MEMORY_FOR_TIME)
    output = done.stdout + done.stderr
    answers = {json.loads(f'"{m["expr"]}"'): _counted(m["got"]) for m in _RESULT.finditer(output)}
    if done.returncode != 0 and not answers:
        raise HarnessError(f"{mutated.alert}: promtool says {output[:2000]}")
    return [_counts(*(answers.get(question, {}) for question in questions)) for questions in asked]


def _told_of(alert: str, played: Played) -> Iterator[tuple[str, Sequence[float | None]]]:
    """Yield the series of the jobs that a scenario says something of, in the words of this alert.

    Where it is silent for some that come near it, all of them; else those for which it fires.
    """
    scenario = played.scenario
    is_silent = any(words.startswith(f"{alert}: ") and not words.endswith(": fires") for words in scenario.covers)
    firing = {firing.job or next(iter(scenario.jobs), "") for firing in scenario.expect if firing.alert == alert}
    runs = {scenario.jobs[key].run or key for key in firing if key in scenario.jobs}
    for series, values in played.series.items():
        run = _RUN.search(series)
        if is_silent or not alert.startswith("MLJob") or run is None or run[1] in runs:
            yield series, values


def _comparisons(alert: str) -> Iterator[dict[str, object]]:
    """Yield rules that count by site the alerts of each mutant beside the alert as it is, and those without it."""
    original = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    mutants = f'ALERTS{{alertname=~"{alert}{MARK}.+",alertstate="firing"}}'
    for record, operator in ((_WITH, "and"), (_WITHOUT, "unless")):
        compared = f"{mutants} {operator} ignoring (alertname) {original}"
        yield {"record": record, "expr": f"count by (alertname, site) ({compared})"}


def _questions(alert: str, number: int | None, scenario: Scenario) -> tuple[str, str, str]:
    """Ask at a scenario's end for its minutes: with the alert as it is, of mutants with it, and of mutants without."""
    at_site = "" if number is None else f',site=~".*~{number}"'
    minutes = f"[{len(scenario.watched)}m]"
    matchers = f"{{{at_site.removeprefix(',')}}}"
    return (
        f'sum(count_over_time(ALERTS{{alertname="{alert}",alertstate="firing"{at_site}}}{minutes}))',
        f"sum by (alertname) (sum_over_time({_WITH}{matchers}{minutes}))",
        f"sum by (alertname) (sum_over_time({_WITHOUT}{matchers}{minutes}))",
    )


def _counted(got: str) -> dict[str, int]:
    return {m["name"] or "": int(float(m["count"])) for m in _COUNTED.finditer(got)}


def _counts(original: dict[str, int], both: dict[str, int], other: dict[str, int]) -> _Counts:
    return _Counts(original.get("", 0), _numbered(both), _numbered(other))


def _numbered(by_name: dict[str, int]) -> dict[int, int]:
    return {number: count for name, count in by_name.items() if (number := number_of(name)) is not None}
