"""Lets promtool judge: the series of a scenario, the rules as they are, and what must fire at every minute."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import yaml

from tests.scenarios.format import Firing, Scenario, load_scenario
from tests.scenarios.simulate import MINUTE, simulate

RULES = Path(__file__).parents[2] / "alerts" / "rules"
WATCHDOG = {"alertname": "Watchdog", "severity": "none"}

_MARK = "~"  # stands before the number of a scenario in the names that are its own
_MARKED = ("site", "run")
_OWN_LABELS = re.compile(r'\b(site|run|instance)="([^"]*)"')
_NUMBER = re.compile(rf"{_MARK}([0-9]+)")
_FAILED = re.compile(
    r"expr: (?P<expr>.*?), time: (?P<time>\S+?),\s+exp:\s*(?P<exp>.*?)\s+got:\s*(?P<got>.*?)\s*(?=\n\s*expr:|\Z)", re.S
)
_ALERT = re.compile(r"\{([^{}]*)\}")
_HOURS_MINUTES = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")

Labels = tuple[tuple[str, str], ...]


def rule_files(folder: Path = RULES) -> list[Path]:
    """Return the rule files."""
    return sorted(folder.glob("*.yaml"))


def labels_of(firing: Firing, scenario: Scenario) -> dict[str, str]:
    """Return every label that the alert must have."""
    labels = {"alertname": firing.alert, "severity": firing.severity, **firing.labels}
    if firing.alert.startswith("MLJob") or firing.job:
        key = firing.job or next(iter(scenario.jobs))
        story = scenario.jobs[key]
        labels |= {"run": story.run or key, "bucket": story.bucket, "site": story.site}
    return labels


def expected_at(scenario: Scenario, minute: int) -> list[dict[str, str]]:
    """Return the labels of every alert that must fire at a minute; the dead man's switch always does."""
    now = minute * MINUTE
    firing = [labels_of(f, scenario) for f in scenario.expect if f.since <= now < f.until]
    return [WATCHDOG, *firing]


def run_lengths(values: Sequence[float | None]) -> str:
    """Write values in promtool's notation: a series that goes away is stale at once, as after a real scrape."""
    written: list[str] = []
    there = False
    for value, repeats in ((value, len(list(group))) for value, group in groupby(values)):
        if value is not None:
            written.append(f"{value!r}x{repeats - 1}" if repeats > 1 else repr(value))
        else:
            rest = repeats
            if there:
                written.append("stale")
                rest -= 1
            if rest:
                written.append(f"_x{rest}")
        there = value is not None
    return " ".join(written)


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario that was simulated: its name, what it says, and its series."""

    name: str
    scenario: Scenario
    series: Mapping[str, Sequence[float | None]]


def play(path: Path, rules: Sequence[Path] | None = None) -> Played:
    """Read a scenario and simulate it; with `rules` only series that they may read are kept."""
    names = set(re.findall(r"[a-z0-9_]+", "".join(rule.read_text() for rule in rules))) if rules is not None else None
    scenario = load_scenario(path)
    return Played(path.stem, scenario, simulate(scenario, lambda name: names is None or name in names))


def is_alone(scenario: Scenario) -> bool:
    """Tell whether a scenario is about the exporter as a whole, and so cannot share an evaluation with others."""
    return any(e.down or e.gone or e.dropped or e.reloads or e.target for e in scenario.exporters.values())


def judge(batch: Sequence[Played], rules: Sequence[Path], folder: Path) -> dict[str, str]:
    """Let promtool judge scenarios in one evaluation.

    Evaluating rules costs the same for one job as for many. So that scenarios do not meet, each has sites, runs and
    exporters of its own: their names get the scenario's number.

    Args:
        batch: what happened and what must fire.
        rules: the rule files.
        folder: where the test file is written.

    Returns:
        What differs, by scenario, one line for each alert and span of minutes; empty where nothing does.
    """
    failures, output = _failures_of(batch, rules, folder, expected_at)
    found = {
        played.name: "\n".join(_differences([f for f in failures if f.number == number]))
        for number, played in enumerate(batch)
    }
    whole = "\n".join(_differences([f for f in failures if f.number is None]))
    if whole or (output and not failures):
        found["the batch as a whole"] = whole or output
    return {name: text for name, text in found.items() if text}


def fired(played: Played, rules: Sequence[Path], folder: Path) -> dict[Labels, list[tuple[int, int]]]:
    """Return which alerts fire in a scenario, each with its spans of minutes (the last one included)."""
    failures, _ = _failures_of([played], rules, folder, lambda scenario, minute: [])
    found: dict[Labels, list[int]] = {}
    for failure in failures:
        for labels in failure.got:
            found.setdefault(labels, []).append(failure.minute)
    return {labels: list(_spans(minutes)) for labels, minutes in found.items() if dict(labels) != WATCHDOG}


@dataclass(frozen=True, slots=True)
class _Failure:
    """A minute of the scenario of that number (None: alerts without a site) at which promtool saw something else."""

    number: int | None
    minute: int
    expected: frozenset[Labels]
    got: frozenset[Labels]


def _failures_of(
    batch: Sequence[Played],
    rules: Sequence[Path],
    folder: Path,
    expected: Callable[[Scenario, int], list[dict[str, str]]],
) -> tuple[list[_Failure], str]:
    path = folder / "test.yaml"
    path.write_text(_test_file(batch, [rule.resolve() for rule in rules], expected))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    output = "" if done.returncode == 0 else done.stdout + done.stderr
    return _parsed(output, batch), output


def _test_file(
    batch: Sequence[Played], rules: Sequence[Path], expected: Callable[[Scenario, int], list[dict[str, str]]]
) -> str:
    """Return a promtool test file: at each minute exactly these alerts fire, with exactly these labels."""
    inputs, checks = [], []
    whole: dict[int, list[dict[str, str]]] = {}
    for number, played in enumerate(batch):
        mark = f"{_MARK}{number}"
        for name, values in played.series.items():
            inputs.append({"series": marked_series(name, number), "values": run_lengths(values)})
        for past, minute in enumerate(played.scenario.watched):
            firing = expected(played.scenario, minute)
            own = [_marked(labels, mark) for labels in firing if "site" in labels]
            checks.append(_check(f'ALERTS{{alertstate="firing",site=~".*{mark}"}}', past, own))
            whole[past] = [labels for labels in firing if "site" not in labels]
    shortest = min(len(played.scenario.watched) for played in batch)
    checks += [_check('ALERTS{alertstate="firing",site=""}', past, whole[past]) for past in range(shortest)]
    document = {
        "rule_files": [str(path) for path in rules],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": checks}],
    }
    return yaml.dump(document, Dumper=yaml.CSafeDumper, width=10_000, sort_keys=False)


def marked_series(series: str, number: int) -> str:
    """Return a series with the number of its scenario in the names that are its own: site, run and exporter."""
    return _OWN_LABELS.sub(rf'\1="\2{_MARK}{number}"', series)


def _marked(labels: Mapping[str, str], mark: str) -> dict[str, str]:
    return {name: value + mark if name in _MARKED else value for name, value in labels.items()}


def _check(expression: str, minute: int, firing: Sequence[Mapping[str, str]]) -> dict[str, object]:
    samples = [{"labels": _alerts_series(labels), "value": 1} for labels in firing]
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": samples}


def _alerts_series(labels: Mapping[str, str]) -> str:
    pairs = {**labels, "alertstate": "firing"}
    return "ALERTS{" + ",".join(f'{name}="{value}"' for name, value in sorted(pairs.items())) + "}"


def _differences(failures: Sequence[_Failure]) -> Iterator[str]:
    """Put failures in a few lines: missing and unexpected alerts with their minutes."""
    missing: dict[Labels, list[int]] = {}
    unexpected: dict[Labels, list[int]] = {}
    for failure in failures:
        for labels in failure.expected - failure.got:
            missing.setdefault(labels, []).append(failure.minute)
        for labels in failure.got - failure.expected:
            unexpected.setdefault(labels, []).append(failure.minute)
    for what, found in (("does not fire", missing), ("must not fire", unexpected)):
        for labels, minutes in found.items():
            spans = ", ".join(f"{first}..{last}" for first, last in _spans(minutes))
            yield f"{what} at minutes {spans}: " + ",".join(f"{name}={value}" for name, value in labels)


def _parsed(output: str, batch: Sequence[Played]) -> list[_Failure]:
    failures = []
    for found in _FAILED.finditer(output):
        marked = _NUMBER.search(found["expr"])
        number = None if marked is None else int(marked[1])
        first = batch[number or 0].scenario.watched.start
        failures.append(
            _Failure(
                number,
                first + _minute(found["time"]),
                _alerts_in(found["exp"]),
                _alerts_in(found["got"]),
            )
        )
    return failures


def _minute(text: str) -> int:
    matched = _HOURS_MINUTES.fullmatch(text)
    if matched is None:
        raise ValueError(f"expected a time such as 1h30m, got {text!r}")
    hours, minutes, _ = (int(part or 0) for part in matched.groups())
    return 60 * hours + minutes


def _alerts_in(text: str) -> frozenset[Labels]:
    found = set()
    for inside in _ALERT.findall(text):
        pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', inside))
        pairs.pop("alertstate", None)
        pairs.pop("__name__", None)
        found.add(tuple(sorted((name, value.partition(_MARK)[0]) for name, value in pairs.items())))
    return frozenset(found)


def _spans(minutes: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = minutes[0]
    for minute in minutes[1:]:
        if minute != last + 1:
            yield first, last
            first = minute
        last = minute
    yield first, last
