"""What must hold for jobs that are found, not listed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

from runwatch.config.faults import Fault, shown
from runwatch.config.paths import AUTO, history_entries
from runwatch.config.tree import Entry

TEMPLATE_FIELD = re.compile(r"\{([^{}]*)\}")
_LONGEST_EXPRESSION = 1000


def discovery_faults(discover: Entry, schedulers: dict[str, str | None]) -> Iterator[Fault]:
    """Find the faults of one entry of `discover`.

    Args:
        discover: The entry.
        schedulers: The scheduler's word of each site, None where it is not known.
    """
    match, project = discover.get("match"), discover.get("wandb")
    if (match is None) == (project is None):
        yield discover.fault("expected exactly one of match and wandb, got " + ("both" if match else "neither"))
        return
    if match is not None:
        yield from _match_faults(discover, match, schedulers)
    if project is not None:
        yield from _project_faults(discover, project)


def _match_faults(discover: Entry, match: Entry, schedulers: dict[str, str | None]) -> Iterator[Fault]:
    site = discover.text("site") or "none"
    if schedulers.get(site, "") == "none":
        yield match.fault(f"needs a site with a scheduler, and {shown(site)} has none")
    state = discover.get("state")
    if state is not None:
        yield state.fault("only together with wandb")
    if not isinstance(match.value, str):
        if match.value is None:
            yield match.fault("expected a regular expression, got nothing")
        return
    try:
        groups = _groups(match.value)
    except ValueError as error:
        yield match.fault(str(error))
        return
    yield from _template_faults(discover, groups, "match has no group (?P<{}>...)")


def _groups(expression: str) -> frozenset[str]:
    if len(expression) > _LONGEST_EXPRESSION:
        raise ValueError(f"expected a regular expression of at most {_LONGEST_EXPRESSION} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "possible nested set" and the like are the expression's own affair
            return frozenset(re.compile(expression).groupindex)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None


def _project_faults(discover: Entry, project: Entry) -> Iterator[Fault]:
    if project.value is None:
        yield project.fault("expected ENTITY/PROJECT, got nothing")
    if isinstance(project.value, str):
        parts = project.value.split("/")
        if len(parts) != 2 or not all(part.strip() == part and part for part in parts):
            yield project.fault(f"expected ENTITY/PROJECT, got {shown(project.value)}")
    history = discover.get("history")
    if history is not None:
        yield history.fault("not together with wandb: the run that is found is the history")
    yield from _template_faults(discover, frozenset({"name"}), "jobs found in W&B have {{name}} alone, not {{{}}}")


def _template_faults(discover: Entry, groups: frozenset[str], missing: str) -> Iterator[Fault]:
    trials = discover.get("trials")
    entries = [entry for history in history_entries(discover) for entry in history.named().values()]
    entries += discover.listed("checkpoints")
    entries += [] if trials is None or trials.get("path") is None else [trials.named()["path"]]
    for entry in entries:
        if not isinstance(entry.value, str) or (entry.name == "log" and entry.value == AUTO):
            continue
        fields = TEMPLATE_FIELD.findall(entry.value)
        for field in fields:
            if field not in groups:
                yield entry.fault(missing.format(field[:80]))
        yield from _star_faults(entry, entry.value)
        if not fields:
            yield entry.fault("all jobs found would share it: put a field such as {name} in it")


def _star_faults(entry: Entry, template: str) -> Iterator[Fault]:
    """Find wildcards that no listing of one level can resolve. A log may be any glob."""
    if entry.name == "log":
        return
    if template.count("*") > 1:
        yield entry.fault(f"expected one * at most, got {template.count('*')} in {shown(template)}")
    elif entry.name == "wandb" and "*" in template.rpartition("/")[0]:
        yield entry.fault(f"expected * in the run's id alone, got {shown(template)}")
