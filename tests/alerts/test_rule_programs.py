"""The rules as Prometheus's own tools see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.alerting.files import generated_files
from tests.alerts.contract import ALERTS, RULES
from tests.e2e.prometheus_tools import promtool

UNIT_TESTS = sorted((Path(__file__).parent / "promtool").glob("*.yaml"))


def test_promtool_finds_no_fault_in_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.stem)
def test_rules_fire_when_they_should(path: Path) -> None:
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_generated_files_are_fresh() -> None:
    for path, text in generated_files().items():
        assert (ALERTS / path).read_text() == text, f"alerts/{path} is stale: python -m runwatch.alerting alerts"
