"""Paths in the config: relative ones start at the config file's folder, and all must stay below `file_roots`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from runwatch.config.faults import Fault, shown
from runwatch.config.model import Config
from runwatch.config.tree import Entry

AUTO = "auto"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def scheme(text: str) -> str:
    """Return what stands before `:/` in an address such as `gs://bucket/prefix`; empty for a path."""
    found = _SCHEME.match(text)
    return "" if found is None else found.group(1)


def history_entries(job: Entry) -> list[Entry]:
    """Return the mappings of a job's history, which may be one or a list of them."""
    history = job.get("history")
    if history is None:
        return []
    return history.value if isinstance(history.value, list) else [history]


def _job_paths(root: Entry) -> Iterator[Entry | None]:
    for job in (*root.listed("jobs"), *root.listed("discover")):
        for history in history_entries(job):
            yield from (history.get(name) for name in ("jsonl", "wandb_offline", "log"))
        yield from job.listed("checkpoints")
        trials = job.get("trials")
        yield None if trials is None else trials.get("path")


def _other_paths(root: Entry) -> Iterator[Entry | None]:
    yield root.get("web_config")
    yield root.get("benign_lines")
    yield root.get("state_file")
    yield from root.listed("file_roots")
    wandb, sites = root.get("wandb"), root.get("sites")
    yield None if wandb is None else wandb.get("api_key_file")
    yield from (site.get("token_file") for site in ({} if sites is None else sites.named()).values())


def _local(entries: Iterator[Entry | None]) -> Iterator[tuple[Entry, str]]:
    for entry in entries:
        if entry is None or not isinstance(entry.value, str) or not entry.value or scheme(entry.value):
            continue
        if "\0" in entry.value:  # no path; some versions of normpath would cut it there
            continue
        if not (entry.name == "log" and entry.value == AUTO):
            yield entry, entry.value


def resolve_paths(root: Entry, folder: Path) -> None:
    """Replace every local path in the tree by its absolute, normalised form; `~` is the user's home."""
    for entries in (_job_paths(root), _other_paths(root)):
        for entry, path in _local(entries):
            entry.value = os.path.normpath(folder / os.path.expanduser(path))  # noqa: PTH111 keeps an unknown ~user


def path_faults(root: Entry) -> Iterator[Fault]:
    """Find paths that no file can have, and those outside `file_roots`. The tree's paths are resolved already.

    The comparison is of names: where a link leads is looked at by who opens the file.
    """
    for entries in (_job_paths(root), _other_paths(root)):
        for entry in entries:
            if entry is not None and isinstance(entry.value, str) and (not entry.value or "\0" in entry.value):
                yield entry.fault("expected a path, got an empty text or one with a NUL character")
    for entry in _other_paths(root):
        if entry is not None and isinstance(entry.value, str) and scheme(entry.value):
            yield entry.fault(f"expected a path on this machine, got {shown(entry.value)}")
    roots = [entry.value for entry in root.listed("file_roots") if isinstance(entry.value, str)]
    if not roots:
        return
    for entry, path in _local(_job_paths(root)):
        if not any(is_below(Path(path), Path(allowed)) for allowed in roots):
            yield entry.fault(f"{path} lies outside file_roots ({', '.join(roots)})")


def is_below(path: Path, folder: Path) -> bool:
    """Tell whether a normalised, absolute path is the folder or lies below it."""
    return path == folder or folder in path.parents


def allowed_roots(config: Config) -> tuple[Path, ...]:
    """Return the folders that file sources may read: `file_roots`, else those that the config names.

    A folder that is named (checkpoints, offline runs, trials) is allowed itself, a file (JSON lines, logs) by its
    folder; a glob or a template by the folder before its first `*`, `?`, `[` or `{`.
    """
    if config.file_roots is not None:
        return config.file_roots
    folders: set[Path] = set()
    for job in (*config.jobs, *config.discover):
        for source in job.history:
            files = (source.jsonl, None if source.log in (None, AUTO) else Path(source.log))
            folders.update(_fixed_part(file.parent) for file in files if file is not None)
            folders.update(() if source.wandb_offline is None else (_fixed_part(source.wandb_offline),))
        named: tuple[str, ...] = (*job.checkpoints, *(() if job.trials is None else (job.trials.path,)))
        folders.update(_fixed_part(Path(text)) for text in named if not scheme(text))
    return tuple(sorted(folders))


def _fixed_part(path: Path) -> Path:
    for index, part in enumerate(path.parts):
        if re.search(r"[*?\[{]", part):
            return Path(*path.parts[:index])
    return path
