"""The alerts that users rely on: names, severities, waiting times and what they say, written down by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

ALERTS = Path(__file__).parents[2] / "alerts"
RULES = sorted((ALERTS / "rules").glob("*.yaml"))

MINUTE = 60
JOB = ("run", "site", "bucket")
SOURCE = ("source", "site")


@dataclass(frozen=True)
class Row:
    """One alert of one severity: `wait` is its `for` in seconds, `labels` those that tell its instances apart."""

    name: str
    severity: str
    wait: int = 2 * MINUTE
    labels: tuple[str, ...] = JOB
    action: str = ""


TABLE = (
    Row("MLJobStalled", "critical", 5 * MINUTE),
    Row("MLJobBringupStuck", "warning", 5 * MINUTE),
    Row("MLJobNotResumed", "warning"),
    Row("MLJobNotResumed", "critical"),
    Row("MLJobSilentStall", "warning"),
    Row("MLJobRestartsWithoutProgress", "critical"),
    Row("MLJobThroughputDegraded", "warning", 30 * MINUTE),
    Row("MLJobNoCheckpoint", "critical"),
    Row("MLJobCheckpointStale", "warning"),
    Row("MLJobNonFinite", "critical"),
    Row("MLJobGradExplosion", "warning"),
    Row("MLJobRLCollapse", "critical", action="cancel"),
    Row("MLJobRLCollapse", "critical", action="recommend"),
    Row("MLJobRLGradNormHigh", "warning"),
    Row("MLJobRLClipRatioHigh", "warning"),
    Row("MLJobRLImportanceRatioOff", "warning", 10 * MINUTE),
    Row("MLJobDeadEngine", "critical"),
    Row("MLJobTrialsStalled", "critical"),
    Row("MLJobEngineIdle", "warning"),
    Row("MLJobZombie", "warning"),
    Row("MLJobInstantFailures", "critical"),
    Row("MLJobTracesStranded", "warning"),
    Row("MLJobTimedOut", "warning"),
    Row("MLJobTaskFailures", "warning"),
    Row("MLJobAuthFailures", "warning"),
    Row("MLJobLossDiverging", "warning"),
    Row("MLJobFailed", "critical"),
    Row("MLJobFailed", "warning"),
    Row("MLJobVanished", "critical", 5 * MINUTE),
    Row("MLJobTasksMissing", "warning", 15 * MINUTE),
    Row("MLJobStateConflict", "warning", 10 * MINUTE),
    Row("RunwatchSourceDown", "warning", labels=SOURCE),
    Row("RunwatchSourceDown", "critical", labels=SOURCE),
    Row("RunwatchJobUnobserved", "warning", labels=(*JOB, "source")),
    Row("RunwatchDown", "critical", 5 * MINUTE, labels=("shard",)),
    Row("RunwatchJobsDropped", "warning", labels=()),
    Row("RunwatchConfigReloadFailed", "warning", labels=()),
    Row("Watchdog", "none", 0, labels=()),
)

NAMES = sorted({row.name for row in TABLE})


def groups() -> list[dict[str, object]]:
    """Return the rule groups of all rule files."""
    return [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]


def rules(kind: str) -> list[dict[str, object]]:
    """Return all rules of a kind, `alert` or `record`."""
    found = [rule for group in groups() for rule in group["rules"] if kind in rule]  # type: ignore[attr-defined]
    assert found
    return found


def alerts() -> list[dict[str, object]]:
    """Return the alerting rules."""
    return rules("alert")


def seconds(duration: object) -> int:
    """Return the seconds of a duration in one unit, such as `5m`; None is 0."""
    if duration is None:
        return 0
    text = str(duration)
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
