"""Where the facts of a found job are read: the templates of its entry of `discover`, filled for this job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runwatch.config.model import Discovery, HistorySource, Trials
from runwatch.config.paths import AUTO
from runwatch.found.templates import fill, split_star

PlaceKind = Literal["wandb", "file", "folder"]
_KINDS: dict[str, PlaceKind] = {"wandb": "wandb", "jsonl": "file", "wandb_offline": "folder"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where a found job's facts are read: the templates of its entry, filled, each `*` resolved."""

    history: tuple[HistorySource, ...] = ()
    checkpoints: tuple[str, ...] = ()
    trials: Trials | None = None


def places_of(
    discovery: Discovery,
    values: Mapping[str, str | None],
    resolved: Mapping[str, str] | None = None,
    unlisted: Collection[str] = (),
) -> Places:
    """Fill the templates of an entry of `discover`.

    Left out is each place that a value would lead elsewhere (see `fill`), and each with a `*` that is not resolved. But
    a root of checkpoints whose `*` nobody could look for stays as it is, for its reader to fail at: without it the
    checkpoints of the job's other roots would pass for all of them.

    Args:
        discovery: The entry.
        values: What its fields stand for.
        resolved: By the filled templates with a `*`, the addresses that they mean.
        unlisted: The filled templates with a `*` of which it could not be told whether there is anything.
    """
    known = resolved or {}

    def place(template: str) -> str | None:
        filled = fill(template, values)
        return filled if filled is None or "*" not in filled else known.get(filled)

    history: list[HistorySource] = []
    for source in discovery.history:
        if source.log is not None:
            # A log may be a glob by itself, and `auto`.
            filled = {"log": fill(source.log, values)}
        else:
            filled = {key: place(str(text)) for key, text in source if text is not None}
        if all(text is not None for text in filled.values()):
            history.append(HistorySource.model_validate(filled))

    def root_of(template: str) -> str | None:
        filled = fill(template, values)
        return filled if filled in unlisted else place(template)

    checkpoints = tuple(address for root in discovery.checkpoints if (address := root_of(root)) is not None)
    path = None if discovery.trials is None else place(discovery.trials.path)
    trials = None if discovery.trials is None or path is None else discovery.trials.model_copy(update={"path": path})
    return Places(tuple(history), checkpoints, trials)


def starred_templates(discovery: Discovery, values: Mapping[str, str | None]) -> dict[str, PlaceKind]:
    """Return the filled templates of an entry that hold a `*`, each with what it leads to."""
    templates: dict[str, PlaceKind] = {}
    for source in discovery.history:
        templates |= {str(text): _KINDS[key] for key, text in source if text is not None and key in _KINDS}
    templates |= dict.fromkeys(discovery.checkpoints, "folder")
    templates |= {} if discovery.trials is None else {discovery.trials.path: "folder"}
    filled = {text: kind for template, kind in templates.items() if (text := fill(template, values)) is not None}
    return {text: kind for text, kind in filled.items() if split_star(text) is not None}


def wandb_paths(history: Sequence[HistorySource]) -> tuple[str, ...]:
    """Return the W&B runs among the places of a history."""
    return tuple(source.wandb for source in history if source.wandb is not None)


def named_log(history: Sequence[HistorySource]) -> str | None:
    """Return the path or glob that a history names as the log; None where it names none."""
    log = next((source.log for source in history if source.log is not None), None)
    return None if log is None or log == AUTO else str(log)
