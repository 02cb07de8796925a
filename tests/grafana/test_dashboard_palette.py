"""Colours of verdicts agree with the alerts, and small numbers are never written as zero."""

from __future__ import annotations

import math

import pytest
from grafana_foundation_sdk.models import dashboard as models
from hypothesis import given
from hypothesis import strategies as st

from runwatch import thresholds
from runwatch.alerting.files import ALERTS
from runwatch.catalogue import ENDED_STATES, JOB_STATES
from runwatch_dashboards import numbers, palette

ALERT_OF = {
    "collapse": "MLJobRLCollapse", "failed": "MLJobFailed", "vanished": "MLJobVanished",
    "nonfinite": "MLJobNonFinite", "stalled": "MLJobStalled", "trials_stalled": "MLJobTrialsStalled",
    "dead_engine": "MLJobDeadEngine", "instant_failures": "MLJobInstantFailures",
    "not_resumed": "MLJobNotResumed", "restarts_without_progress": "MLJobRestartsWithoutProgress",
    "no_checkpoint": "MLJobNoCheckpoint", "grad_explosion": "MLJobGradExplosion",
    "loss_diverging": "MLJobLossDiverging", "traces_stranded": "MLJobTracesStranded",
    "state_conflict": "MLJobStateConflict", "silent_stall": "MLJobSilentStall",
    "tasks_missing": "MLJobTasksMissing", "task_failures": "MLJobTaskFailures",
    "bringup_stuck": "MLJobBringupStuck", "engine_idle": "MLJobEngineIdle",
    "auth_failures": "MLJobAuthFailures", "zombie": "MLJobZombie", "checkpoint_stale": "MLJobCheckpointStale",
    "grad_norm_high": "MLJobRLGradNormHigh", "clip_ratio_high": "MLJobRLClipRatioHigh",
    "importance_ratio_off": "MLJobRLImportanceRatioOff", "throughput_degraded": "MLJobThroughputDegraded",
    "timeout": "MLJobTimedOut", "unobserved": "RunwatchJobUnobserved",
}  # fmt: skip
WARNS_ALONE = {"deep_probe", "entropy_drift", "log_ratio_drift", "unknown"}
OVER = {"killed", "completed"}
WITHOUT_COLOUR = {"queued", "bringup", "resuming", "finishing", "resumed", "checkpoint_saved", "stable"}


@pytest.mark.parametrize(("word", "alert"), ALERT_OF.items())
def test_a_verdict_is_red_when_its_alert_pages_and_orange_when_it_warns(word: str, alert: str) -> None:
    severities = {each.severity for each in ALERTS if each.name == alert}
    assert severities
    assert palette.verdict_colour(word) == ("red" if "critical" in severities else "orange")


def test_the_other_verdicts_have_the_colours_that_they_mean() -> None:
    assert {*ALERT_OF, *WARNS_ALONE, *OVER, *WITHOUT_COLOUR} == set(thresholds.VERDICTS)
    assert {palette.verdict_colour(word) for word in WARNS_ALONE} == {palette.WARNING}
    assert {palette.verdict_colour(word) for word in OVER} == {palette.GREY}
    assert {palette.verdict_colour(word) for word in WITHOUT_COLOUR} == {palette.PLAIN}


def test_an_ended_job_is_grey_unless_its_end_is_a_fault() -> None:
    colours = {state: palette.state_colour(state) for state in JOB_STATES}
    assert {state for state, colour in colours.items() if colour == palette.GREY} == {"succeeded", "killed"}
    assert {state for state, colour in colours.items() if colour == palette.BAD} == {"failed", "vanished"}
    assert all(colours[state] != palette.PLAIN for state in ENDED_STATES)


def written(value: float, mappings: list[models.ValueMapping]) -> str | None:
    """The text that Grafana takes: that of the first range that holds the value."""
    for mapping in mappings:
        assert isinstance(mapping, models.RangeMap)
        low, high = mapping.options.from_val, mapping.options.to
        assert low is not None
        assert high is not None
        if low <= value <= high:
            return mapping.options.result.text
    return None


@given(st.integers(3, 4), st.floats(1e-7, 1e-3), st.booleans())
def test_a_small_number_is_written_with_its_first_digit(decimals: int, size: float, negative: bool) -> None:
    value = -size if negative else size
    mantissa, exponent = f"{size:.0e}".split("e")
    rounded = size / 10.0 ** math.floor(math.log10(size))
    told = written(value, numbers.tiny(decimals, signed=True))
    if size > 0.5 * 10.0**-decimals:
        assert told is None
    elif not math.isclose(rounded % 1, 0.5, abs_tol=1e-6) and size < 0.499 * 10.0**-decimals:
        assert told == f"{'-' if negative else ''}{mantissa}e{int(exponent)}"


@pytest.mark.parametrize("decimals", [3, 4])
def test_zero_is_a_zero_and_less_than_all_digits_is_said_to_be(decimals: int) -> None:
    mappings = numbers.tiny(decimals, signed=True)
    assert written(0.0, mappings) == {3: "0.000", 4: "0.0000"}[decimals]
    assert written(1e-12, mappings) == "<1e-7"
    assert written(-1e-12, mappings) == "-<1e-7"
    assert written(1e-5, mappings) == "1e-5"
    assert written(-1e-5, numbers.tiny(decimals, signed=False)) is None
    assert written({3: 0.0006, 4: 0.00006}[decimals], mappings) is None
