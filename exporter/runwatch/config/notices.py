"""What a valid config names that is not there yet, or that has no effect: warnings, not faults."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from runwatch.config.faults import Fault
from runwatch.config.model import Config
from runwatch.config.tree import Entry

Location = tuple[str | int, ...]

WANDB_STATES = ("running", "finished", "failed", "crashed", "killed", "pending", "preempting", "preempted")
_NO_KILL = "no-kill"
_SINGLE_TURN = "single"
_SPIKE_MITIGATION = "spike-mitigation"


def warnings(config: Config, root: Entry | None = None) -> tuple[Fault, ...]:
    """Return one warning for each thing that is asked for and not there, or that does nothing.

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
    yield from _entries_that_find_nothing(config)
    yield from _labels_without_effect(config)
    if not config.jobs and not config.discover:
        yield (), "neither jobs nor discover: nothing to watch"


def _labels_without_effect(config: Config) -> Iterator[tuple[Location, str]]:
    """A hold with a slip of the pen is none, and a page says "cancel it" then."""
    for kind, entries in (("jobs", config.jobs), ("discover", config.discover)):
        for number, entry in enumerate(entries):
            labels = entry.labels
            for key, value, meant in (("hold", labels.hold, _NO_KILL), ("turns", labels.turns, _SINGLE_TURN)):
                if value not in ("", meant):
                    yield (kind, number, "labels", key), f"{value!r} has no effect: only {meant!r} has one"
            near = difflib.get_close_matches(labels.ablation.lower(), [_SPIKE_MITIGATION], cutoff=0.8)
            if near and labels.ablation != _SPIKE_MITIGATION:
                text = f"{labels.ablation!r} has no effect on alerts: did you mean {_SPIKE_MITIGATION!r}?"
                yield (kind, number, "labels", "ablation"), text


def _missing_files(config: Config) -> Iterator[tuple[Location, str]]:
    files: list[tuple[Location, Path | None]] = [(("wandb", "api_key_file"), config.wandb.api_key_file)]
    files += [(("sites", name, "token_file"), site.token_file) for name, site in config.sites.items()]
    for location, path in files:
        if path is not None and not path.is_file():
            yield location, f"no such file now: {path}"


def _entries_that_find_nothing(config: Config) -> Iterator[tuple[Location, str]]:
    """Find entries of `discover` that no job can come to: what an earlier one finds is that one's."""
    for index, entry in enumerate(config.discover):
        if entry.state is not None and entry.state not in WANDB_STATES:
            known = ", ".join(WANDB_STATES)
            yield ("discover", index, "state"), f"no run may ever be in this state; W&B's are {known}"
        for before, other in enumerate(config.discover[:index]):
            is_same = entry.match is not None and (other.site, other.match) == (entry.site, entry.match)
            is_wider = entry.wandb is not None and other.wandb == entry.wandb and other.state in (None, entry.state)
            if is_same or is_wider:
                yield ("discover", index), f"finds no job: discover[{before}] finds all of them before"
                break
