"""The tables of jobs: one instant query a column, joined on site and run, the worst job first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.builders import table as builders
from grafana_foundation_sdk.models import dashboard as models

from runwatch.report.columns import (
    BRINGUP_TABLE,
    DATAGEN_TABLE,
    EVAL_TABLE,
    OTHER_TABLE,
    RL_TABLE,
    SFT_TABLE,
    TRAINING_HEALTH_TABLE,
    CellFormat,
    TableKind,
)
from runwatch_dashboards import palette
from runwatch_dashboards.cell_columns import columns_of
from runwatch_dashboards.cells import TREND_REF, GridColumn, Selection, label_column, state_column
from runwatch_dashboards.members import members, selection_of
from runwatch_dashboards.panels import plain_table
from runwatch_dashboards.queries import KEY, table

MEMBERS_REF = "job"
_SHAPING = palette.words({"on": ("shaped", palette.NEUTRAL), "off": ("base", palette.PLAIN)})

_ADDED: Mapping[str, GridColumn] = {
    RL_TABLE.key: label_column("Shaping", "shaping", width=92, texts=_SHAPING),
    DATAGEN_TABLE.key: label_column("Tracker row", "tracker_row", width=115),
    EVAL_TABLE.key: label_column("Kind", "kind", width=135),
}
"""What the terminal writes behind a job's name."""

_COMMON = "Worst first; a click on a job opens its page. — is what is not measured."
DESCRIPTIONS: Mapping[str, str] = {
    RL_TABLE.key: "RL jobs that have made a step, or are over. Rewards of shaped and base jobs are not comparable, nor "
    "is pass@N of unlike N. Orange: a gradient norm above the limit of the collapse rule.",
    SFT_TABLE.key: "Fine-tunes and other training that have made a step, or are over. ETA is compute only.",
    DATAGEN_TABLE.key: "Datagen jobs with a result, or over. Mean is of scored trials. Orange: about one turn a trial, "
    "which is a dead engine unless one turn is how the job works.",
    EVAL_TABLE.key: "Evals with a result, or over. pass-rate is of scored trials; a trial with an exception may be "
    "scored. The launch checks are passed, failed or not seen.",
    OTHER_TABLE.key: "All other jobs, from their start on.",
    TRAINING_HEALTH_TABLE.key: "Every job with steps. Preempts counts interruptions of the whole gang, Preempts* is "
    "the scheduler's own sum over tasks, where attempts are not known. Gaps are closed ones, Unexplained those that "
    "the scheduler shows no interruption for. Age is that of the newest complete checkpoint when the store was read.",
    BRINGUP_TABLE.key: "Jobs without a step or result yet, queued ones too. They stand in no other table.",
}


def job_columns(kind: TableKind, selection: Selection) -> list[GridColumn]:
    """Return all columns of a table of jobs, in order.

    To the exporter's columns comes the state, by which an ended job is grey, and what the terminal writes behind a
    job's name.

    Raises:
        ValueError: two columns have one title, or two queries one id.
    """
    told_state = any(column.format is CellFormat.STATE for column in kind.columns)
    columns: list[GridColumn] = []
    for column in kind.columns:
        columns += columns_of(column, selection)
        if column.format is not CellFormat.NAME:
            continue
        columns += [_ADDED[kind.key]] if kind.key in _ADDED else []
        columns += [] if told_state else [state_column(selection)]
    titles = [column.title for column in columns]
    refs = [column.ref for column in columns if column.query]
    if len(set(titles)) != len(titles) or len(set(refs)) != len(refs):
        raise ValueError(f"{kind.key}: a title or a query's id stands twice: {titles}, {refs}")
    return columns


def job_table(kind: TableKind, selected: Selection, *, height: int = 9) -> builders.Panel:
    """Return the panel of one of the exporter's tables.

    Args:
        kind: Which.
        selected: Label matchers of what the reader picked, without owner.
        height: In rows of Grafana's grid.
    """
    selection = selection_of(kind, selected)
    columns = job_columns(kind, selection)
    queries = [table(MEMBERS_REF, keyed(members(kind, selection), "run", "site", "bucket", *_info_labels(columns)))]
    queries += [
        table(column.ref, keyed(column.query, *_own_labels(column, columns))) for column in columns if column.query
    ]
    panel = plain_table(kind.title, f"{DESCRIPTIONS[kind.key]} {_COMMON}", "none", queries).height(height)
    worst_first = ("site", "run", f"Value #{TREND_REF}")
    panel = panel.transformations(to_columns(KEY, columns, worst_first, shown=f"Value #{MEMBERS_REF}"))
    for column in columns:
        panel = panel.override_by_name(column.title, column.overrides())
    return panel


def keyed(expression: str, *labels: str, of: tuple[str, ...] = ("site", "run")) -> str:
    """Return the expression with one series a key, with the labels given, and a row that is nothing (`with_columns`).

    Args:
        expression: PromQL.
        labels: Labels that the result keeps beside the key.
        of: The labels that the key is made of.
    """
    kept = ", ".join(dict.fromkeys((KEY, *labels)))
    parts = ", ".join(f'"{label}"' for label in of)
    return with_columns(f'max by ({kept}) (label_join({expression}, "{KEY}", " ", {parts}))', KEY, *labels)


def with_columns(expression: str, *labels: str) -> str:
    """Return the expression with a row that is nothing: its labels are `-` and its value is 0.

    By it Grafana knows of a column that nothing has a value for. The tables leave it out.
    """
    nothing = "vector(0)"
    for label in dict.fromkeys(labels):
        nothing = f'label_replace({nothing}, "{label}", "-", "", "")'
    return f"{expression} or {nothing}"


def to_columns(
    key: str, columns: Sequence[GridColumn], sorted_by: Sequence[str], *, shown: str = ""
) -> list[models.DataTransformerConfig]:
    """Return the transformations that make one table of a panel's answers.

    Args:
        key: The field that answers are joined on; empty where there is one answer alone.
        columns: In the order of the table.
        sorted_by: Fields, the last of them the most important; each sorting leaves the order of equals.
        shown: The field that is above 0 in the rows that are shown; empty for all.
    """
    names = [column.field_name for column in columns]
    above = {"fieldName": shown, "config": {"id": "greater", "options": {"value": 0}}}
    order = {name: place for place, name in enumerate(names)}
    titles = {column.field_name: column.title for column in columns}
    joining = [transformation("joinByField", byField=key, mode="outer")] if key else []
    filtering = [transformation("filterByValue", type="include", match="all", filters=[above])] if shown else []
    return [
        *joining,
        *filtering,
        *(transformation("sortBy", fields={}, sort=[{"field": name, "desc": False}]) for name in sorted_by),
        transformation("filterFieldsByName", include={"names": list(dict.fromkeys(names))}),
        transformation("organize", excludeByName={}, indexByName=order, renameByName=titles),
    ]


def transformation(transformer: str, **options: Any) -> models.DataTransformerConfig:
    """Return one transformation with its options, as Grafana calls them."""
    return models.DataTransformerConfig(id_val=transformer, options=options)


def _info_labels(columns: Sequence[GridColumn]) -> list[str]:
    return [column.label for column in columns if column.label and not column.ref]


def _own_labels(column: GridColumn, columns: Sequence[GridColumn]) -> list[str]:
    """Return the labels of a column's query that are cells of a column beside it."""
    return [other.label for other in columns if other.label and other.ref == column.ref]
