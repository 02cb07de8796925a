"""Prints docs/alert-delays.md: how long after a fact each alert fires. `python -m tests.scenarios.delays`.

Nothing is run: `test_scenarios.py` proves that each scenario's alerts fire at exactly the times that are read here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.format import load_scenario

CORPUS = Path(__file__).parent / "corpus"

COUNTED_FROM = {
    "MLJobStalled": "the last step",
    "MLJobBringupStuck": "the start of the newest attempt",
    "MLJobNotResumed": "the interruption, of a chain the start of its next link; critical: the new attempt's start",
    "MLJobSilentStall": "the step that ends the silence",
    "MLJobRestartsWithoutProgress": "the third interruption",
    "MLJobThroughputDegraded": "the first slow step",
    "MLJobNoCheckpoint": "the first step",
    "MLJobCheckpointStale": "the last complete save",
    "MLJobNonFinite": "the first row that is not finite",
    "MLJobGradExplosion": "the row with the jump",
    "MLJobRLCollapse": "the first step with two signals",
    "MLJobRLGradNormHigh": "the first step above the limit",
    "MLJobRLClipRatioHigh": "the first step above the limit",
    "MLJobRLImportanceRatioOff": "the first step outside the range",
    "MLJobDeadEngine": "the first trial's end",
    "MLJobTrialsStalled": "the last result; without one the attempt's start",
    "MLJobEngineIdle": "the first report of no running request",
    "MLJobZombie": "the last result, upload or step",
    "MLJobInstantFailures": "the first instant failure",
    "MLJobTracesStranded": "the end",
    "MLJobTimedOut": "the end",
    "MLJobTaskFailures": "the failure",
    "MLJobAuthFailures": "the first of the failures",
    "MLJobLossDiverging": "the first row above the limit",
    "MLJobFailed": "the failure",
    "MLJobVanished": "its tasks or its record go",
    "MLJobTasksMissing": "the task goes, or stays away when the others start",
    "MLJobStateConflict": "the end that one source tells, or the last row of a history that is cut off",
    "RunwatchSourceDown": "the source stops answering",
    "RunwatchJobUnobserved": "the source stops answering for the job, or is first asked in vain",
    "RunwatchDown": "the first scrape that fails",
    "RunwatchJobsDropped": "the jobs exceed the limit",
    "RunwatchConfigReloadFailed": "the reload",
}
"""What counts as the fact behind an alert: the time that `fact` holds in a scenario, by alert in the table's order."""

_HEAD = """\
# From the fact to the alert

Made by `make docs` from `tests/scenarios/corpus/`; do not edit. Each scenario holds the true time of a fact and the
minute at which the alert fires, and a test proves that minute with the real exporter and `promtool`: one look, one
scrape and one evaluation a minute. So a delay holds what the rule waits for and up to a minute until the next look; an
exporter that polls more slowly adds the difference. Alertmanager's `group_wait` comes on top. Where the shortest and
the longest differ, the limit follows the job (its step time, its save interval, its bucket) or who saw the fact.

| alert | severity | counted from | shortest | longest |
|---|---|---|---|---|
"""
_FOOT = """
`Watchdog` fires from the first evaluation on.
"""


@dataclass(frozen=True, slots=True, order=True)
class Delay:
    """How long after its fact an alert fires in a scenario, seconds."""

    seconds: float
    scenario: str


def delays(corpus: Path = CORPUS) -> dict[tuple[str, str], list[Delay]]:
    """Return the delays in all scenarios of a folder, by alert and severity, the shortest first."""
    found: dict[tuple[str, str], list[Delay]] = {}
    for path in sorted(corpus.glob("*.yaml")):
        for firing in load_scenario(path).expect:
            if firing.fact is not None:
                delay = Delay(firing.since - firing.fact, path.stem)
                found.setdefault((firing.alert, firing.severity), []).append(delay)
    return {key: sorted(of_alert) for key, of_alert in found.items()}


def length(seconds: float) -> str:
    """Write a delay to the second: `22 min`, `2 min 20 s`, `2 h 51 min`."""
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def render(found: dict[tuple[str, str], list[Delay]]) -> str:
    """Return the page.

    Raises:
        KeyError: an alert of which `COUNTED_FROM` does not say what its fact is.
    """
    order = list(COUNTED_FROM)
    unknown = sorted({alert for alert, _ in found} - set(order))
    if unknown:
        raise KeyError(f"say in COUNTED_FROM what the fact behind these alerts is: {', '.join(unknown)}")
    keys = sorted(found, key=lambda key: (order.index(key[0]), key[1]))
    return _HEAD + "\n".join(_row(alert, severity, found[alert, severity]) for alert, severity in keys) + "\n" + _FOOT


def _row(alert: str, severity: str, of_alert: list[Delay]) -> str:
    shortest = of_alert[0]
    longest = min(delay for delay in of_alert if delay.seconds == of_alert[-1].seconds)
    cells = [f"`{alert}`", severity, COUNTED_FROM[alert], *_cells(shortest, longest)]
    return f"| {' | '.join(cells)} |"


def _cells(shortest: Delay, longest: Delay) -> Iterator[str]:
    yield f"{length(shortest.seconds)} ({_link(shortest)})"
    same = shortest.seconds == longest.seconds
    yield "the same" if same else f"{length(longest.seconds)} ({_link(longest)})"


def _link(delay: Delay) -> str:
    return f"[{delay.scenario}](../tests/scenarios/corpus/{delay.scenario}.yaml)"


if __name__ == "__main__":
    sys.stdout.write(render(delays()))
