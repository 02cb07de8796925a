"""How rules are written: durations, operands, the command that writes the files, the table of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.alerting.__main__ import main
from runwatch.alerting.alert_sources import ALERT_SOURCES
from runwatch.alerting.files import ALERTS
from runwatch.alerting.promql import current, duration, either, not_blind, number

ENDS_THAT_STAY_TRUE = {"MLJobFailed", "MLJobTimedOut", "MLJobTracesStranded"}


@pytest.mark.parametrize(("seconds", "text"), [(90, "90s"), (300.0, "5m"), (3600, "1h"), (5400, "90m"), (21600, "6h")])
def test_duration_is_written_in_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("seconds", [0, -60, 1.5])
def test_duration_that_prometheus_cannot_read_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="whole number of seconds"):
        duration(seconds)


@pytest.mark.parametrize(("value", "text"), [(2.0, "2"), (0.25, "0.25"), (0.001, "0.001")])
def test_number_has_no_needless_fraction(value: float, text: str) -> None:
    assert number(value) == text


def test_operands_are_kept_together() -> None:
    assert either('a{b="c"}', "d > 1") == 'a{b="c"}\nor\n(d > 1)'


def test_metric_that_the_catalogue_lacks_is_refused() -> None:
    with pytest.raises(KeyError):
        current("mljob_stpe")


def test_every_alert_on_a_living_job_tells_its_sources() -> None:
    of_jobs = {alert.name for alert in ALERTS if alert.name.startswith("MLJob")}
    assert set(ALERT_SOURCES) == of_jobs - ENDS_THAT_STAY_TRUE
    with pytest.raises(KeyError):
        not_blind("MLJobFailed", "critical")


def test_what_mutes_others_comes_before_them() -> None:
    places = {(alert.name, alert.severity): place for place, alert in enumerate(ALERTS)}
    of_sources = [place for (name, _), place in places.items() if name.startswith("Runwatch")]
    of_ends = [places[name, "critical"] for name in ("MLJobFailed", "MLJobVanished")]
    stalls = ("MLJobStalled", "MLJobNotResumed", "MLJobTrialsStalled", "MLJobRLCollapse")
    assert max(of_sources) < min(of_ends)
    assert max(of_ends) < min(places[name, "critical"] for name in stalls)
    pairs = {name for name, severity in places if severity == "warning"} & {
        name for name, severity in places if severity == "critical"
    }
    assert pairs == {"RunwatchSourceDown", "MLJobFailed", "MLJobNotResumed"}
    assert all(places[name, "critical"] < places[name, "warning"] for name in pairs)
    assert places["MLJobRLCollapse", "critical"] < places["MLJobRLGradNormHigh", "warning"]


def test_command_writes_the_files(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.y*ml")) == [
        "alertmanager.yml",
        "rules/runwatch.yaml",
    ]


def test_command_without_a_folder_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
