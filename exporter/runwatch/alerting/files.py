"""Every generated file under `alerts/`, by its path there."""

from __future__ import annotations

from collections.abc import Sequence

from runwatch.alerting.alertmanager import alertmanager_config
from runwatch.alerting.end_alerts import END_ALERTS
from runwatch.alerting.exporter_alerts import EXPORTER_ALERTS
from runwatch.alerting.progress_alerts import PROGRESS_ALERTS
from runwatch.alerting.records import RECORDINGS
from runwatch.alerting.rules import Alert, rule_file
from runwatch.alerting.training_alerts import TRAINING_ALERTS
from runwatch.alerting.trial_alerts import TRIAL_ALERTS


def critical_first(alerts: Sequence[Alert]) -> list[Alert]:
    """Return alerts in their order, but of those of one name the critical ones first."""
    names = list(dict.fromkeys(alert.name for alert in alerts))
    return sorted(alerts, key=lambda alert: (names.index(alert.name), alert.severity != "critical"))


# After an outage Alertmanager sends old alerts on at once, in the order in which it hears of them. What mutes others
# comes before them: sources that are down, ends, and of one alert's severities the critical one.
ALERTS: tuple[Alert, ...] = tuple(
    alert
    for alerts in (EXPORTER_ALERTS, END_ALERTS, PROGRESS_ALERTS, TRAINING_ALERTS, TRIAL_ALERTS)
    for alert in critical_first(alerts)
)
"""All alerts, in the order of the rule file."""

_COMMENT = """Made by `make docs` (python -m runwatch.alerting) from runwatch/thresholds.py and runwatch/alerting/.
One group, for its rules are evaluated in order: recording rules first, then the alerts that read them."""


def generated_files() -> dict[str, str]:
    """Return the text of each generated file, by its path below `alerts/`."""
    return {
        "rules/runwatch.yaml": rule_file("runwatch", [*RECORDINGS, *ALERTS], _COMMENT),
        "alertmanager.yml": alertmanager_config(),
    }
