"""What must hold between the values of the config. Looks at the tree, so that it speaks also where types are wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from runwatch.config.addresses import check_http_url, split_listen
from runwatch.config.discovery_faults import discovery_faults
from runwatch.config.durations import format_duration, parse_duration
from runwatch.config.faults import Fault, did_you_mean, shown
from runwatch.config.model import Config, Count, TrainerConfig, Trials, WandbSettings
from runwatch.config.paths import AUTO, history_entries, path_faults, scheme
from runwatch.config.secret_keys import secret_faults
from runwatch.config.site_faults import site_faults
from runwatch.config.tree import Entry
from runwatch.facts import SourceKind
from runwatch.parsing.checkpoint_roots import parse_root

HISTORY_KEYS = ("wandb", "wandb_offline", "jsonl", "log")
READABLE_KEYS = ("history", "checkpoints", "trials", "scheduler_job")
STALE_INTERVALS = 3.0
COUNTS = frozenset(
    name
    for model in (Config, WandbSettings, Trials, TrainerConfig)
    for name, key in model.model_fields.items()
    if key.annotation in (int, Count | None)
)
"""The keys that take a whole number."""


def semantic_faults(root: Entry) -> Iterator[Fault]:
    """Find everything that the types do not tell. The tree's paths are resolved already."""
    yield from secret_faults(root)
    yield from _number_faults(root)
    yield from _server_faults(root)
    yield from _stale_after_faults(root)
    yield from site_faults(root)
    yield from path_faults(root)
    schedulers = _schedulers(root)
    for job in (*root.listed("jobs"), *root.listed("discover")):
        yield from _site_fault(job, schedulers)
        yield from _place_faults(job)
    yield from _twice_faults(root)
    for job in root.listed("jobs"):
        yield from _readable_faults(job, schedulers)
        yield from _star_faults(job)
    for discover in root.listed("discover"):
        if isinstance(discover.value, dict):
            yield from discovery_faults(discover, schedulers)


def _server_faults(root: Entry) -> Iterator[Fault]:
    for entry, check in ((root.get("listen"), split_listen), (_in_section(root, "wandb", "base_url"), check_http_url)):
        if entry is not None and isinstance(entry.value, str):
            try:
                check(entry.value)
            except ValueError as error:
                yield entry.fault(str(error))
    variable = _in_section(root, "wandb", "api_key_env")
    if variable is not None and isinstance(variable.value, str):
        name = variable.value
        looks_like_key = len(name) >= 40 and not name.isupper()
        if not (name.isascii() and name.isidentifier()) or looks_like_key:
            # Not repeated: a key that was put here by mistake is a secret.
            yield variable.fault("expected the name of an environment variable, such as WANDB_API_KEY")
    yield from _state_file_faults(root)
    roots = root.get("file_roots")
    if roots is not None and roots.value == []:
        yield roots.fault("expected folders, got an empty list")


def _number_faults(entry: Entry) -> Iterator[Fault]:
    """Find counts that YAML reads as another number than people do: `010` is 8 there, and `1:30` is 90."""
    if isinstance(entry.value, int) and not isinstance(entry.value, bool) and entry.name in COUNTS:
        if entry.written != "0" and re.fullmatch(r"[-+]?0[0-7_]+|.*:.*", entry.written):
            yield entry.fault(f"expected a whole number, got {shown(entry.written)}, which YAML reads as {entry.value}")
        return
    for child in entry.value if isinstance(entry.value, list) else entry.named().values():
        yield from _number_faults(child)


def _state_file_faults(root: Entry) -> Iterator[Fault]:
    """Find a state file that would be written over something else."""
    state_file = root.get("state_file")
    if state_file is None or not isinstance(state_file.value, str) or not state_file.value:
        return
    sites = root.get("sites")
    read = [root.get("web_config"), _in_section(root, "wandb", "api_key_file")]
    read += [site.get("token_file") for site in ({} if sites is None else sites.named()).values()]
    also = next((entry for entry in read if entry is not None and entry.value == state_file.value), None)
    if also is not None:
        yield state_file.fault(f"is written, and cannot be the file of {also.key} too")
    elif os.path.abspath(root.file) == state_file.value:  # noqa: PTH100 as the paths of the config are made
        yield state_file.fault("is written, and cannot be the config itself")
    elif "\0" not in state_file.value and Path(state_file.value).is_dir():
        yield state_file.fault(f"expected a file, and {state_file.value} is a folder")


def _in_section(root: Entry, section: str, name: str) -> Entry | None:
    entry = root.get(section)
    return None if entry is None else entry.get(name)


def _seconds(root: Entry, name: str) -> float | None:
    entry = root.get(name)
    if entry is None or entry.value is None:
        default = Config.model_fields[name].default
        return default if isinstance(default, float) else None
    if not isinstance(entry.value, str):
        return None
    try:
        return parse_duration(entry.value)
    except ValueError:
        return None  # told by the types


def _stale_after_faults(root: Entry) -> Iterator[Fault]:
    stale_after, poll_interval = _seconds(root, "stale_after"), _seconds(root, "poll_interval")
    overrides = {f"{kind}_interval": _seconds(root, f"{kind}_interval") for kind in SourceKind}
    intervals = {name: seconds for name, seconds in overrides.items() if seconds is not None}
    if len(intervals) < len(SourceKind) and poll_interval is not None:
        intervals["poll_interval"] = poll_interval
    if stale_after is None or not intervals:
        return
    name, longest = max(intervals.items(), key=lambda item: item[1])
    if stale_after < STALE_INTERVALS * longest:
        entry = root.get("stale_after") or root.get(name) or root
        least = format_duration(STALE_INTERVALS * longest)
        where = "" if entry.name == "stale_after" else "stale_after: "
        yield entry.fault(
            f"{where}expected at least 3 x the longest interval ({name} is {format_duration(longest)}), "
            f"so {least} or more, got {format_duration(stale_after)}"
        )


def _schedulers(root: Entry) -> dict[str, str | None]:
    sites = root.get("sites")
    named = {} if sites is None else sites.named()
    return {"none": "none"} | {name: site.text("scheduler") for name, site in named.items()}


def _site_fault(job: Entry, schedulers: dict[str, str | None]) -> Iterator[Fault]:
    site = job.get("site")
    if site is not None and isinstance(site.value, str) and site.value and site.value not in schedulers:
        close = did_you_mean(site.value, schedulers)
        yield site.fault(f"unknown site {shown(site.value)}{close or '; known: ' + ', '.join(schedulers)[:200]}")


def _place_faults(job: Entry) -> Iterator[Fault]:
    for name in ("history", "checkpoints"):
        entry = job.get(name)
        if entry is not None and entry.value == []:
            yield entry.fault("got an empty list: name at least one, or leave the key out")
    for history in history_entries(job):
        yield from _history_faults(history)
    for entry in _folders(job):
        if isinstance(entry.value, str) and scheme(entry.value):
            yield from _store_faults(entry, entry.value)


def _folders(job: Entry) -> list[Entry]:
    """Return the entries that name folders of checkpoints or of trials."""
    trials = job.get("trials")
    path = None if trials is None else trials.get("path")
    return [*job.listed("checkpoints"), *([] if path is None else [path])]


def _star_faults(job: Entry) -> Iterator[Fault]:
    for entry in _folders(job):
        if isinstance(entry.value, str) and "*" in entry.value:
            yield entry.fault("no `*` here: name the folder itself (only `discover` looks for what one stands for)")


def _store_faults(entry: Entry, address: str) -> Iterator[Fault]:
    try:
        parse_root(address)
    except ValueError as error:
        yield entry.fault(str(error))


def _history_faults(history: Entry) -> Iterator[Fault]:
    if not isinstance(history.value, dict):
        return
    given = [name for name in HISTORY_KEYS if name in history.value]
    if len(given) > 1 or not history.value:
        got = " and ".join(given) or "none"
        yield history.fault(f"expected exactly one of {', '.join(HISTORY_KEYS)}, got {got}")
    for name in given:
        entry = history.value[name]
        if entry.value is None:
            yield entry.fault("expected text, got nothing")
        elif isinstance(entry.value, str) and name == "wandb":
            yield from _wandb_run_faults(entry, entry.value)
        elif isinstance(entry.value, str) and scheme(entry.value):
            yield entry.fault(f"expected a path, got {shown(entry.value)}: only files are read here")


def _wandb_run_faults(entry: Entry, text: str) -> Iterator[Fault]:
    parts = text.split("/")
    if len(parts) == 3 and all(part and part == part.strip() for part in parts):
        return
    hint = ""
    if scheme(text) and "runs" in parts[3:]:
        # The address of a run's page: https://wandb.ai/ENTITY/PROJECT/runs/RUN_ID
        place = parts.index("runs", 3)
        run_id = parts[place + 1].split("?")[0] if len(parts) > place + 1 else ""
        hint = f"; did you mean {'/'.join((*parts[place - 2 : place], run_id))}?" if run_id and place >= 5 else ""
    yield entry.fault(f"expected ENTITY/PROJECT/RUN_ID, got {shown(text)}{hint}")


def _twice_faults(root: Entry) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for job in root.listed("jobs"):
        run = job.text("run")
        if run is None:
            continue
        if run in first:
            yield job.named()["run"].fault(f"the name {shown(run)} is used twice, first on line {first[run]}")
            continue
        first[run] = job.named()["run"].line


def _readable_faults(job: Entry, schedulers: dict[str, str | None]) -> Iterator[Fault]:
    if not isinstance(job.value, dict):
        return
    given = [name for name in READABLE_KEYS if (entry := job.get(name)) is not None and entry.value not in (None, "")]
    if not given:
        yield job.fault("nothing to read: give history, checkpoints, trials or scheduler_job")
        return
    site = job.text("site") or "none"
    if given == ["scheduler_job"] and schedulers.get(site, "") == "none":
        yield job.named()["scheduler_job"].fault(f"nothing to read: the site {shown(site)} has no scheduler")
    for history in history_entries(job):
        log = history.get("log")
        has_scheduler = "scheduler_job" in given and schedulers.get(site, "") != "none"
        if log is not None and log.value == AUTO and not has_scheduler:
            yield log.fault("auto takes the path from the scheduler: give scheduler_job, and a site with a scheduler")
