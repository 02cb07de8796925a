"""Tables of which each column is a query of its own, joined on one label that is made of two."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models import dashboard

from runwatch_dashboards.panels import organized

PAIR = "pair"
"""The label that such queries are joined on."""

_NOTHING = "-"
"""The pair of the row that is nothing: by it Grafana knows of a column that nothing has a value for."""


def paired(expression: str, first: str, second: str) -> str:
    """Return the expression with one label, `<first> at <second>`, and a row that is nothing, which `one_table` drops.

    Its series differ in no other label.
    """
    joined = f'max by ({PAIR}) (label_join({expression}, "{PAIR}", " at ", "{first}", "{second}"))'
    return f'{joined} or label_replace(vector(0), "{PAIR}", "{_NOTHING}", "", "")'


def one_table(
    pair_title: str, titles: Mapping[str, str], *, sort: str, worst_first: bool = False
) -> list[dashboard.DataTransformerConfig]:
    """Return the transformations that make one table of several answers.

    Args:
        pair_title: What the first column is called.
        titles: What the value of each query is called, by its refId, in the order of the columns.
        sort: The title of the column that rows are sorted by.
        worst_first: Whether the largest value comes first.
    """
    nothing = {"fieldName": PAIR, "config": {"id": "equal", "options": {"value": _NOTHING}}}
    times = ["Time", *(f"Time {place}" for place in range(1, len(titles) + 1))]
    names = {PAIR: pair_title, **{f"Value #{ref}": title for ref, title in titles.items()}}
    return [
        dashboard.DataTransformerConfig(id_val="joinByField", options={"byField": PAIR, "mode": "outer"}),
        dashboard.DataTransformerConfig(
            id_val="filterByValue", options={"type": "exclude", "match": "any", "filters": [nothing]}
        ),
        organized(names, *times),
        dashboard.DataTransformerConfig(
            id_val="sortBy", options={"fields": {}, "sort": [{"field": sort, "desc": worst_first}]}
        ),
    ]
