"""Rules as records, and their rendering as a Prometheus rule file.

The format: https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/ (2.42 and later: it is the first
with `keep_firing_for`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from runwatch import thresholds
from runwatch.alerting.promql import duration

EVALUATION_SECONDS = 30.0
"""How often the rules are evaluated: the shortest `for` is four evaluations."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule. `labels` are added to what the expression gives."""

    name: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Return the rule as Prometheus reads it."""
        rule: dict[str, object] = {"record": self.name, "expr": self.expression}
        return {**rule, "labels": dict(self.labels)} if self.labels else rule


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: The alert's name; its runbook has the same.
        severity: `critical`, `warning` or `none`.
        expression: Its value is the figure that the text tells.
        summary: One line, a template.
        description: What was seen against which limit, a template.
        wait: Seconds that the condition must hold (`for`).
        keep: Seconds that the alert outlives its condition (`keep_firing_for`); those that page have it.
        labels: Labels beside the severity.
        dashboard: Path of the dashboard, a template.
    """

    name: str
    severity: str
    expression: str
    summary: str
    description: str
    wait: float = thresholds.ALERT_FOR_SECONDS
    keep: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    dashboard: str = "/d/runwatch-job?var-site={{ $labels.site | urlquery }}&var-run={{ $labels.run | urlquery }}"

    def document(self) -> dict[str, object]:
        """Return the rule as Prometheus reads it."""
        rule: dict[str, object] = {"alert": self.name, "expr": self.expression}
        if self.wait:
            rule["for"] = duration(self.wait)
        if self.keep:
            rule["keep_firing_for"] = duration(self.keep)
        rule["labels"] = {"severity": self.severity, **self.labels}
        rule["annotations"] = {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"/alerts/runbooks/{self.name}.md",
            "dashboard_url": self.dashboard,
        }
        return rule


class _Dumper(yaml.SafeDumper):
    """Writes expressions as blocks, so that they read as they were written."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def rule_file(group: str, rules: Sequence[Recording | Alert], comment: str) -> str:
    """Return a rule file with one group.

    One group alone evaluates its rules in order: an alert never sees what a recording rule said one round before.
    """
    document = {
        "groups": [
            {
                "name": group,
                "interval": duration(EVALUATION_SECONDS),
                "rules": [rule.document() for rule in rules],
            }
        ]
    }
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return "".join(f"# {line}\n" for line in comment.splitlines()) + text
