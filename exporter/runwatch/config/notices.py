"""What a valid config names that is not there yet: warnings, not faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runwatch.config.faults import Fault
from runwatch.config.model import Config
from runwatch.config.tree import Entry

Location = tuple[str | int, ...]


def warnings(config: Config, root: Entry | None = None) -> tuple[Fault, ...]:
    """Return one warning for each thing that is asked for and not there.

    Args:
        config: The config.
        root: The tree that it was made from; without it the warnings name no file and no line.
    """
    return tuple(_warning(location, message, root) for location, message in _notices(config))


def _warning(location: Location, message: str, root: Entry | None) -> Fault:
    place = root or Entry("", 0, None, "")
    if root is not None:
        return Fault(root.file, root.at(location).line, root.at(location).key, message)
    for part in location:
        place = Entry("", 0, place, part)
    return Fault("", None, place.key, message)


def _notices(config: Config) -> Iterator[tuple[Location, str]]:
    yield from _missing_files(config)
    if not config.jobs and not config.discover:
        yield (), "neither jobs nor discover: nothing to watch"


def _missing_files(config: Config) -> Iterator[tuple[Location, str]]:
    files: list[tuple[Location, Path | None]] = [(("wandb", "api_key_file"), config.wandb.api_key_file)]
    files += [(("sites", name, "token_file"), site.token_file) for name, site in config.sites.items()]
    for location, path in files:
        if path is not None and not path.is_file():
            yield location, f"no such file now: {path}"
