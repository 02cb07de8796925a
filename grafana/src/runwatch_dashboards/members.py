"""Which jobs stand in which table: the terminal's rules in PromQL.

A job stands in its bucket's table once it has a step or a result, or when it is over; before that in Bring-up.
"""

from __future__ import annotations

from runwatch.catalogue import INFO_LABELS
from runwatch.report.columns import BRINGUP_TABLE, OTHER_TABLE, TRAINING_HEALTH_TABLE, TableKind
from runwatch_dashboards.cells import Selection
from runwatch_dashboards.queries import SEARCHED, equal, matchers, over

_SHOWN_INFO = ("kind", "shaping", "tracker_row")
"""The labels of `mljob_info` that tables show."""


def selection_of(kind: TableKind, selected: Selection) -> Selection:
    """Return the label matchers of a table's queries: those of its bucket, where it is a bucket's, and the reader's."""
    if kind is TRAINING_HEALTH_TABLE:
        return selected
    if kind is BRINGUP_TABLE:
        return ('bucket!="other"', *selected)
    return (equal("bucket", kind.key), *selected)


def members(kind: TableKind, selection: Selection) -> str:
    """Return one series of value 1 for each job of a table, with the labels that its cells show.

    Two replicas of the exporter with unlike configs would tell one job twice: one of them is taken.

    Args:
        kind: The table.
        selection: Label matchers, as `selection_of` returns them.

    Raises:
        ValueError: a label that is shown is none of `mljob_info`.
    """
    if unknown := set(_SHOWN_INFO) - set(INFO_LABELS):
        raise ValueError(f"mljob_info has no labels {sorted(unknown)}")
    labels = ", ".join(("run", "site", "bucket", *_SHOWN_INFO))
    info = matchers(*selection, 'owner=~"$owner"', SEARCHED)
    jobs = f"topk by (run, site) (1, max by ({labels}) (mljob_info{{{info}}}))"
    if kind is OTHER_TABLE:
        return jobs
    selectors = matchers(*selection)
    steps = f"mljob_step{{{selectors}}} or mljob_rl_step{{{selectors}}}"
    if kind is TRAINING_HEALTH_TABLE:
        return f"{jobs} and on (run, site) ({steps})"
    begun = f"({steps} or mljob_trials{{{selectors}}} > 0 or {over(*selection)})"
    return f"{jobs} {'unless' if kind is BRINGUP_TABLE else 'and'} on (run, site) {begun}"
