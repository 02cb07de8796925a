"""What the keys of a site must be for its scheduler."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from runwatch.config.addresses import check_http_url, check_page_address
from runwatch.config.faults import Fault, shown
from runwatch.config.tree import Entry

KEYS_OF_SCHEDULER: dict[str, tuple[str, ...]] = {
    "iris": ("controller", "token_file", "token_command", "token_header"),
    "kubernetes": ("context", "namespace"),
    "slurm": ("command_prefix", "timezone"),
    "none": (),
}
PAGES: dict[str, str] = {"job_page": "{scheduler_job}", "checkpoint_page": "{path}"}
"""The keys that hold addresses of pages, and the placeholder of each."""

_REQUIRED = {"iris": "controller", "slurm": "timezone"}


def site_faults(root: Entry) -> Iterator[Fault]:
    """Find the faults of all sites."""
    sites = root.get("sites")
    for name, site in ({} if sites is None else sites.named()).items():
        if not name:
            yield site.fault("expected a name for the site, got an empty text")
        if isinstance(site.value, dict):
            yield from _one_site(name, site)


def _one_site(name: str, site: Entry) -> Iterator[Fault]:
    yield from _pages(site)
    scheduler = site.text("scheduler")
    if scheduler not in KEYS_OF_SCHEDULER:
        return
    if name == "none" and scheduler != "none":
        yield site.fault("the site none is that of jobs without a cluster: its scheduler is none")
    for other, keys in KEYS_OF_SCHEDULER.items():
        for key in keys:
            entry = site.get(key)
            if entry is not None and other != scheduler:
                yield entry.fault(f"only for scheduler {other}, and this site's is {scheduler}")
    required = _REQUIRED.get(scheduler)
    if required is not None and (site.get(required) is None or site.named()[required].value is None):
        yield site.fault(f"scheduler {scheduler} needs {required}")
    if scheduler == "iris":
        yield from _iris(site)
    if scheduler == "slurm" and (zone := site.text("timezone")) is not None and (message := _zone_fault(zone)):
        yield site.named()["timezone"].fault(message)


def _pages(site: Entry) -> Iterator[Fault]:
    for key, placeholder in PAGES.items():
        address = site.text(key)
        if address is None:
            continue
        try:
            check_page_address(address, placeholder)
        except ValueError as error:
            yield site.named()[key].fault(str(error))


def _iris(site: Entry) -> Iterator[Fault]:
    controller = site.text("controller")
    if controller is not None:
        try:
            check_http_url(controller)
        except ValueError as error:
            yield site.named()["controller"].fault(str(error))
    command = site.get("token_command")
    if command is not None and site.get("token_file") is not None:
        yield command.fault("give token_file or token_command, not both")
    if command is not None and command.value == []:
        yield command.fault("expected a program and its arguments, got an empty list")


def _zone_fault(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        if not zoneinfo.available_timezones():
            return "this machine has no time zone data: install the package tzdata"
        return f"expected a time zone such as Europe/Rome or UTC, got {shown(name)}"
    return ""
