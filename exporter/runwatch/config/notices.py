"""What a valid config asks for that this version does not do, or that is not there yet: warnings, not faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runwatch.config.faults import Fault
from runwatch.config.model import Config
from runwatch.config.tree import Entry

Location = tuple[str | int, ...]


def warnings(config: Config, root: Entry | None = None) -> tuple[Fault, ...]:
    """Return one warning for each thing that is asked for and not read by this version, or not there.

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
    for name, site in config.sites.items():
        if site.scheduler != "none":
            yield ("sites", name), "schedulers are not read by this version: state comes from history alone"
    for section, specs in (("jobs", config.jobs), ("discover", config.discover)):
        for index, spec in enumerate(specs):
            for number, source in enumerate(spec.history):
                if source.log is not None:
                    yield (section, index, "history", number, "log"), "logs are not read by this version"
            if spec.trials is not None:
                yield (section, index, "trials"), "trials are not read by this version"
    for index, discovery in enumerate(config.discover):
        if discovery.match is not None:
            yield ("discover", index, "match"), "schedulers are not read by this version: no job is found by match"
    if not config.jobs and not config.discover:
        yield (), "neither jobs nor discover: nothing to watch"


def _missing_files(config: Config) -> Iterator[tuple[Location, str]]:
    files: list[tuple[Location, Path | None]] = [(("wandb", "api_key_file"), config.wandb.api_key_file)]
    files += [(("sites", name, "token_file"), site.token_file) for name, site in config.sites.items()]
    for location, path in files:
        if path is not None and not path.is_file():
            yield location, f"no such file now: {path}"
