"""Drives the real exporter over a batch of the fleet, and lets promtool evaluate the rules over what was scraped."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.scenarios.format import Exporter, Outage, Scenario
from tests.scenarios.judge import Labels, run_lengths
from tests.scenarios.quiet.healthy import DAY, HOUR, MINUTE, Healthy, Span
from tests.scenarios.quiet.training_jobs import LINGER
from tests.scenarios.simulate import Clock, RunningExporter, with_target

_WANDB_GOES_AFTER = 10 * HOUR
_WANDB_IS_OUT = 20 * MINUTE
_RESTARTED_AFTER = 15 * HOUR
_TARGET = {"instance": "exporter-a:9877", "job": "runwatch"}
_ALL_FIRING = 'ALERTS{alertstate="firing"}'

_DIFFERS = re.compile(r"time: (?P<time>\S+?),\s+exp:\s*(?P<exp>.*?)\s+got:\s*(?P<got>.*?)\s*(?=\n\s*expr:|\Z)", re.S)
_ALERT = re.compile(r"\{([^{}]*)\}")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_DURATION = re.compile(r"(\d+)(w|d|h|m|s)")
_SECONDS = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert that fired: its labels, and the first and the last evaluation of one stretch, seconds from time 0."""

    labels: Labels
    first: float
    last: float

    def label(self, name: str) -> str:
        """Return a label's value; empty where it has none of that name."""
        return dict(self.labels).get(name, "")


def wandb_is_out(days: float) -> tuple[Span, ...]:
    """Return when W&B answers nobody: once a day, for the 20 min after a look that still succeeded."""
    return tuple((day * DAY + _WANDB_GOES_AFTER, day * DAY + _WANDB_GOES_AFTER + _WANDB_IS_OUT) for day in _days(days))


def _days(days: float) -> range:
    return range(max(1, int(days)))


def scenario_of(jobs: Sequence[Healthy], days: float, step: float) -> Scenario:
    """Return the batch as a scenario, with one exporter that looks each `step` seconds."""
    restarts = tuple(day * DAY + _RESTARTED_AFTER for day in _days(days))
    exporter = Exporter.model_construct(interval=step, linger=LINGER, restarts=restarts)
    # The look at which W&B comes back is the first after the last second of the outage.
    outages = tuple(
        Outage.model_validate({"source": "history", "origin": "wandb", "whole_source": True, "from": "0"}).model_copy(
            update={"since": since, "until": until + 1}
        )
        for since, until in wandb_is_out(days)
    )
    return Scenario.model_construct(
        about="a quiet fleet",
        covers=(),
        minutes=int(days * DAY / MINUTE),
        exporters={"a": exporter},
        jobs={job.run: job.story for job in jobs},
        outages=outages,
    )


def scraped(scenario: Scenario, step: float, wanted: Callable[[str], bool]) -> dict[str, list[float | None]]:
    """Return each wanted series with its value at each look; None where it is absent."""
    clock = Clock()
    exporter = RunningExporter("a", scenario.exporters["a"], scenario, clock)
    looks = int(scenario.minutes * MINUTE / step) + 1
    series: dict[str, list[float | None]] = {}
    for look in range(looks):
        clock.now = look * step
        samples = exporter.scrape()
        assert samples is not None, "this exporter is never down"
        for line, value in {"up": 1.0, **samples}.items():
            if wanted(line.partition("{")[0]):
                values = series.setdefault(line, [])
                values += [None] * (look - len(values))
                values.append(value)
    # A series that went away is absent until the end.
    return {with_target(line, _TARGET): [*values, *[None] * (looks - len(values))] for line, values in series.items()}


def watch(jobs: Sequence[Healthy], days: float, step: float, rules: Sequence[Path], folder: Path) -> list[Fired]:
    """Watch a batch and return every alert that fired, but for the dead man's switch.

    Args:
        jobs: the batch.
        days: how long it is watched, from the fleet's time 0.
        step: seconds between two looks, which are scraped and evaluated at once.
        rules: the rule files.
        folder: where promtool's file is written.

    Raises:
        RuntimeError: promtool failed, or did not evaluate the rules.
    """
    names = set(re.findall(r"[a-z0-9_]+", "".join(rule.read_text() for rule in rules)))
    scenario = scenario_of(jobs, days, step)
    series = scraped(scenario, step, names.__contains__)
    looks = int(scenario.minutes * MINUTE / step) + 1
    path = folder / "quiet.yaml"
    path.write_text(_test_file(series, looks, step, rules))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return _stretches(_firing(done.stdout + done.stderr, looks), step)


def _test_file(series: Mapping[str, Sequence[float | None]], looks: int, step: float, rules: Sequence[Path]) -> str:
    # Nothing is expected at any evaluation, not even the dead man's switch: so each of them must be told as a
    # difference, with all that fires there.
    checks = [{"expr": _ALL_FIRING, "eval_time": f"{round(look * step)}s"} for look in range(looks)]
    interval = f"{round(step)}s"
    inputs = [{"series": name, "values": run_lengths(values)} for name, values in series.items()]
    document = {
        "rule_files": [str(path.resolve()) for path in rules],
        "evaluation_interval": interval,
        "tests": [{"interval": interval, "input_series": inputs, "promql_expr_test": checks}],
    }
    return yaml.dump(document, Dumper=yaml.CSafeDumper, width=10_000, sort_keys=False)


def _firing(output: str, looks: int) -> dict[float, set[Labels]]:
    """Read promtool's differences: what fires at each evaluation."""
    found: dict[float, set[Labels]] = {}
    for difference in _DIFFERS.finditer(output):
        alerts = {_labels(inside) for inside in _ALERT.findall(difference["got"])}
        time = sum(int(number) * _SECONDS[unit] for number, unit in _DURATION.findall(difference["time"]))
        found[time] = alerts
    switch = (("alertname", "Watchdog"), ("severity", "none"))
    if len(found) != looks or any(switch not in alerts for alerts in found.values()):
        raise RuntimeError(f"promtool evaluated {len(found)} of {looks} times: {output[:2000]}")
    return {time: alerts - {switch} for time, alerts in found.items()}


def _labels(inside: str) -> Labels:
    return tuple(sorted(pair for pair in _LABEL.findall(inside) if pair[0] not in {"__name__", "alertstate"}))


def _stretches(firing: Mapping[float, set[Labels]], step: float) -> list[Fired]:
    """Join evaluations that follow on one another."""
    times: dict[Labels, list[float]] = {}
    for time in sorted(firing):
        for labels in firing[time]:
            times.setdefault(labels, []).append(time)
    found = []
    for labels, seen in times.items():
        first = last = seen[0]
        for time in seen[1:]:
            if time > last + step:
                found.append(Fired(labels, first, last))
                first = time
            last = time
        found.append(Fired(labels, first, last))
    return sorted(found, key=lambda fired: (fired.first, fired.labels))
