"""Where the dashboards are, and links between them. The uids are relied upon by alerts and by people's bookmarks."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

FLEET_UID = "runwatch-fleet"
RUN_UID = "runwatch-job"
EXPORTER_UID = "runwatch-exporter"
TAG = "runwatch"

KEPT = "${datasource:queryparam}&${__url_time_range}"
"""What a link to another dashboard always keeps."""


def bucket_uid(bucket: str) -> str:
    """Return the uid of a bucket's dashboard."""
    return f"runwatch-{bucket}"


def among_dashboards() -> builders.DashboardLink:
    """Return the list of all dashboards of the product, with the time range and the variables kept."""
    return (
        builders.DashboardLink("Dashboards")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def to_run(site_field: str = "Site") -> dict[str, object]:
    """Return a data link to the job's page, for the field override `links` of the column that holds the run's name.

    The name is encoded (it may hold `#` and `@`) by way of the cell's own value: Grafana 10.1 encodes no other field.

    Args:
        site_field: What the column with the job's site is called in the table.
    """
    job = f'var-run=${{__value.raw:percentencode}}&var-site=${{__data.fields["{site_field}"]:percentencode}}'
    return {"title": "Open the job's page", "url": f"/d/{RUN_UID}?{KEPT}&{job}", "targetBlank": False}


def series_to_run() -> dict[str, object]:
    """Return a data link from a line of a graph, whose labels are `run` and `site`, to the job's page."""
    job = "var-run=${__field.labels.run:percentencode}&var-site=${__field.labels.site:percentencode}"
    return {"title": "Open the job's page", "url": f"/d/{RUN_UID}?{KEPT}&{job}", "targetBlank": False}
