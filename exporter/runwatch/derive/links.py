"""Where people can open what a job is made of: its page at the scheduler, and its folders of checkpoints.

Only addresses that a site's config gives, and Google Cloud's own pages for its buckets: what the exporter itself asks
is often reached through a tunnel or inside a cluster, where no browser gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from runwatch.measurements import Evidence, Measurements

GOOGLE_CLOUD_PAGE = "https://console.cloud.google.com/storage/browser/{path}"
"""Where Google Cloud shows a folder of a bucket, `{path}` being `BUCKET/PREFIX`."""

_BUCKET = "gs://"


@dataclass(frozen=True, slots=True)
class SitePages:
    """A site's addresses of pages, empty where there are none.

    `job` holds `{scheduler_job}`, `checkpoints` holds `{path}`: a folder without its first `/`, or `BUCKET/PREFIX`.
    """

    job: str = ""
    checkpoints: str = ""


NO_PAGES = SitePages()


def measure_links(
    measured: Measurements, pages: SitePages, scheduler_job: str, checkpoints: Sequence[str]
) -> list[Evidence]:
    """Set a link to each page that there is.

    Args:
        measured: is filled.
        pages: the addresses of the job's site.
        scheduler_job: the scheduler's id of the job, empty where none is known.
        checkpoints: the roots of its checkpoints.
    """
    found: list[tuple[str, str]] = []
    if pages.job and scheduler_job:
        # A slash of an id belongs to its name and separates nothing: Iris' pages want it encoded too.
        found.append(("scheduler", pages.job.replace("{scheduler_job}", quote(scheduler_job, safe=""))))
    found += [("checkpoints", url) for root in checkpoints if (url := _folder_page(pages, root))]
    for target, url in found:
        measured.set("mljob_link", 1.0, target=target, url=url)
    return [Evidence("links", f"{target}: {url}") for target, url in found]


def _folder_page(pages: SitePages, root: str) -> str:
    if "*" in root:  # what it stands for is not known
        return ""
    in_bucket = root.startswith(_BUCKET)
    template = pages.checkpoints or (GOOGLE_CLOUD_PAGE if in_bucket else "")
    path = root.removeprefix(_BUCKET) if in_bucket else root.lstrip("/")
    return template.replace("{path}", quote(path.rstrip("/"), safe="/"))
