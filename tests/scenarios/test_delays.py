"""docs/alert-delays.md is what the scenarios say, and no alert is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.scenarios.delays import COUNTED_FROM, Delay, delays, length, render
from tests.scenarios.format import load_scenario
from tests.scenarios.judge import rule_files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "alert-delays.md"


def test_the_page_is_what_the_command_prints() -> None:
    command = [sys.executable, "-m", "tests.scenarios.delays"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=120, cwd=ROOT).stdout.decode()
    assert PAGE.read_text(encoding="utf-8") == printed, "docs/alert-delays.md is stale: run `make docs` and commit it"


def test_every_alert_of_the_rules_has_a_row_for_each_of_its_severities() -> None:
    documents = [yaml.safe_load(path.read_text()) for path in rule_files()]
    alerts = [rule for document in documents for group in document["groups"] for rule in group["rules"]]
    wanted = {(rule["alert"], rule["labels"]["severity"]) for rule in alerts if "alert" in rule}
    assert set(delays()) == wanted - {("Watchdog", "none")}
    assert set(COUNTED_FROM) == {alert for alert, _ in wanted} - {"Watchdog"}


def test_delays_are_those_that_the_limits_lead_to() -> None:
    found = {key: (of_alert[0].seconds / 60, of_alert[-1].seconds / 60) for key, of_alert in delays().items()}
    # 15 min and five steps of 8 s, over it at minute 17, held for 5 min; 15 min and five steps of half an hour.
    assert found["MLJobStalled", "critical"] == (22, 171)
    # 45 min, over it at 46, held for 5 min; RL 90 min.
    assert found["MLJobBringupStuck", "warning"] == (51, 96)
    # Two minutes after the row.
    assert found["MLJobNonFinite", "critical"] == (2, 2)
    # An hour of failed looks; where they hang an hour after the last success, and 2 min.
    assert found["RunwatchSourceDown", "critical"] == (60, 62)


def test_the_page_has_the_shortest_and_the_longest_with_their_scenarios() -> None:
    of_alert = [Delay(140, "quick"), Delay(1320, "usual"), Delay(10260, "slow-a"), Delay(10260, "slow-b")]
    page = render({("MLJobStalled", "critical"): of_alert})
    assert (
        "| `MLJobStalled` | critical | the last step | 2 min 20 s ([quick](../tests/scenarios/corpus/quick.yaml))"
        " | 2 h 51 min ([slow-a](../tests/scenarios/corpus/slow-a.yaml)) |\n"
    ) in page
    assert length(0) == "0 s"
    with pytest.raises(KeyError, match="MLJobNew"):
        render({("MLJobNew", "warning"): of_alert})


def test_a_fact_after_its_alert_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "about: x\ncovers: []\nminutes: 5\njobs: {a: {bucket: other}}\n"
        "expect:\n  - {alert: MLJobFailed, severity: warning, fact: 3m, from: 2m}\n"
    )
    with pytest.raises(ValueError, match=r"wrong\.yaml: expect MLJobFailed: its `fact` comes after `from`"):
        load_scenario(path)
