"""The same upstreams give the same numbers: after a restart, and however often they were looked at in between."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

import pytest

from tests.scenarios.format import Scenario
from tests.scenarios.random_stories import random_scenario
from tests.scenarios.simulate import simulate

SEEDS = range(16)

_OWN = ("runwatch_", "up", "process_", "python_", "mljob_source_configured_timestamp_seconds")
"""What tells of the exporter itself."""
_SEEN = 'mljob_interruption_timestamp_seconds{run="RUN",'
"""Kubernetes shows no attempt but the one of now: when one fell is when it was first seen to have fallen."""


def at_the_end(scenario: Scenario) -> dict[str, float]:
    """Return what is scraped of the jobs at the last minute."""
    series = simulate(scenario, lambda name: not name.startswith(_OWN))
    return {line: values[-1] for line, values in series.items() if values[-1] is not None}


def without(found: Mapping[str, float], scenario: Scenario, *, all_of_kubernetes: bool) -> dict[str, float]:
    """Leave out what is known of jobs on Kubernetes only by having seen it."""
    kept: dict[str, float] = {}
    for line, value in found.items():
        run = re.search(r'run="([^"]*)"', line)
        assert run is not None, line
        scheduler = scenario.jobs[run[1]].scheduler
        is_seen = all_of_kubernetes or line.startswith(_SEEN.replace("RUN", run[1]))
        if scheduler is None or scheduler.kind != "kubernetes" or not is_seen:
            kept[line] = value
    return kept


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_changes_no_number(seed: int) -> None:
    scenario = random_scenario(seed)
    at = Random(seed).randint(1, scenario.minutes)
    again = at_the_end(random_scenario(seed, restarts=[f"{at}m"]))
    expected = without(at_the_end(scenario), scenario, all_of_kubernetes=True)
    assert without(again, scenario, all_of_kubernetes=True) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_how_often_it_looks_changes_no_number(seed: int) -> None:
    scenario = random_scenario(seed)
    seldom = at_the_end(random_scenario(seed, interval="5m"))
    found = at_the_end(scenario)
    assert len(found) >= 60
    expected = without(found, scenario, all_of_kubernetes=False)
    assert without(seldom, scenario, all_of_kubernetes=False) == expected
