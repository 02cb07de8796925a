"""What Prometheus says of the alerts that are made from `alerts/rules`. `ALERTS` is Prometheus' own series."""

from __future__ import annotations

NAMES = 'alertname=~"MLJob.*|Runwatch.*"'
"""The product's alerts without its dead man's switch, whose name others use too."""

OF_SITE = 'site=~"$site|"'
"""The sites that are picked, and alerts that are about no site."""

RULES_ARE_READ = f"(0 * (count(runwatch:source_up) or count(mljob:state) or count(ALERTS{{{NAMES}}})))"
"""0 while this Prometheus evaluates the rules, absent where it does not: then no count of alerts is to be had.

Where all jobs are over no source is in use, and where no exporter is scraped an alert says so.
"""

LABELS = ("alertname", "severity", "run", "site", "bucket", "source", "action")


def firing(*matchers: str) -> str:
    """Return the selector of alerts that fire."""
    selection = ", ".join(('alertstate="firing"', NAMES, OF_SITE, *matchers))
    return f"ALERTS{{{selection}}}"


def firing_since() -> str:
    """Return for each alert that fires the time in ms at which its condition began to hold."""
    started = f"ALERTS_FOR_STATE{{{NAMES}, {OF_SITE}}}"
    return f"max by ({', '.join(LABELS)}) ({started} and ignoring (alertstate) {firing()}) * 1000"
