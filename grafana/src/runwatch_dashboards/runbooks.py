"""Links to the runbooks: the path that the alerts give too, below the address of Grafana itself."""

from __future__ import annotations


def to_runbook(alert_field: str = "Alert") -> dict[str, object]:
    """Return a data link from a row to the runbook of its alert, in a tab of its own: it is no page of Grafana.

    Args:
        alert_field: What the column with the alert's name is called in the table.
    """
    address = f'/alerts/runbooks/${{__data.fields["{alert_field}"]:percentencode}}.md'
    return {"title": "Open the runbook", "url": address, "targetBlank": True}
