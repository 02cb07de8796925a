"""What is wrong with links between dashboards, from the alerts to them, and to the runbooks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import get_args
from urllib.parse import parse_qsl, urlsplit

from runwatch.config.model import Bucket
from tests.grafana.dashboard_parts import Json, field_settings, links, name_of, panels, variables
from tests.grafana.grafana_variables import OF_LINKS, variable_names

BUCKETS: tuple[str, ...] = get_args(Bucket)

_TARGET = re.compile(r"^/d/([\w-]+)(?:/[\w-]*)?$")
_PASSED_ON = re.compile(r"\$\{(\w+):queryparam\}")
_FIELD = re.compile(r'\$\{__data\.fields\["?([^"\]}]+)"?\]')
_OF_BUCKET = '${__data.fields["Bucket"]}'
_RUNBOOK = re.compile(r"^/alerts/runbooks/(.+)\.md$")


def variables_by_uid(dashboards: list[Json]) -> dict[str, set[str]]:
    """Return the names of each dashboard's variables."""
    return {one["uid"]: {variable["name"] for variable in variables(one)} for one in dashboards}


def address_faults(address: str, known: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield what is wrong with a link to a dashboard: there is none, or it has not the variables that are passed."""
    parts = urlsplit(address)
    target = _TARGET.match(parts.path)
    if target is None:
        yield f"{address} is no path of a dashboard"
        return
    if target[1] not in known:
        yield f"{address}: no dashboard {target[1]}"
        return
    passed = {name.removeprefix("var-") for name, _ in parse_qsl(parts.query) if name.startswith("var-")}
    for name in sorted((passed | set(_PASSED_ON.findall(address))) - known[target[1]]):
        yield f"{address}: {target[1]} has no variable {name}"


def _one_of_each(address: str) -> list[str]:
    """Return the addresses that a link may have whose dashboard is the bucket of its row."""
    return [address.replace(_OF_BUCKET, bucket) for bucket in BUCKETS] if _OF_BUCKET in address else [address]


def field_faults(dashboard: Json) -> Iterator[str]:
    """Yield the links of tables that take a column which the table has not."""
    for panel in panels(dashboard):
        columns = set()
        for transformation in panel.get("transformations") or []:
            columns |= set((transformation.get("options") or {}).get("renameByName", {}).values())
        for name, value in field_settings(panel):
            for link in value or [] if name == "links" else []:
                for field in _FIELD.findall(str(link.get("url"))):
                    if field not in columns:
                        yield f"{name_of(dashboard, panel)}: a link takes the column {field}, which is not there"


def _link_faults(
    link: Json, own: set[str], known: Mapping[str, set[str]], tags: set[str], runbooks: set[str]
) -> Iterator[str]:
    address = str(link.get("url") or "")
    if link.get("type") == "dashboards":
        yield from (f"no dashboard has the tag {tag}" for tag in link.get("tags") or [] if tag not in tags)
        return
    yield from (f"{address}: no variable {name}" for name in sorted(variable_names(address) - own - OF_LINKS))
    if address.startswith("/d/"):
        for one in _one_of_each(address):
            yield from address_faults(one, known)
    elif runbook := _RUNBOOK.match(address):
        if "${" not in runbook[1] and runbook[1] not in runbooks:
            yield f"{address}: no such runbook"
    elif not address.startswith(("https://", "${__data.fields", "${__value")):
        yield f"{address or 'a link without an address'} leads nowhere"


def link_faults(dashboards: list[Json], runbooks: set[str]) -> list[str]:
    """Return what is wrong with the links of all dashboards; `runbooks` are the names of the alerts that have one."""
    known = variables_by_uid(dashboards)
    tags = {tag for one in dashboards for tag in one.get("tags") or []}
    return [
        f"{where}: {fault}"
        for one in dashboards
        for where, link in links(one)
        for fault in _link_faults(link, known[one["uid"]], known, tags, runbooks)
    ]


def uid_faults(dashboards: list[Json], expected: Mapping[str, str]) -> list[str]:
    """Return which dashboards have another uid than their title's, which is one that links and rules rely on."""
    found = [(one.get("uid", ""), name_of(one)) for one in dashboards]
    return [
        *(f"{title}: uid {uid} is not stable" for uid, title in found if expected.get(uid) != title),
        *(f"no dashboard {uid}" for uid in expected if uid not in {known for known, _ in found}),
        *(f"uid {uid} twice" for uid in sorted({uid for uid, _ in found if [u for u, _ in found].count(uid) > 1})),
    ]
