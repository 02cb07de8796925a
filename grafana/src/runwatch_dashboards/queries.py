"""Queries: PromQL that gives one series a job, and the targets that panels send.

A job is (`run`, `site`): one name may run at two sites. Tables are joined on `KEY`, which is made of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import prometheus as builders
from grafana_foundation_sdk.models import prometheus as models

from runwatch.alerting.promql import JOB, current
from runwatch.catalogue import ENDED_STATES
from runwatch_dashboards.variables import DATASOURCE, PREFIX

KEY = "key"
"""The label that tables are joined on: site and run with a space between, which no site's name has."""

SEEN_LIVING = "scheduler|history|trials"
"""The sources that state, phase and verdict are made from."""

SELECTED = 'site=~"$site"'
SEARCHED = f"run=~{PREFIX}"
"""The matcher of what was typed. It costs a look at every name of a run there is: once a table, not in each query."""

NOT_OVER = f'state!~"{"|".join(sorted(ENDED_STATES))}"'
"""The matcher of a job's state for jobs that are not over."""

_REPLICAS = 4
"""More replicas of the exporter nobody runs."""

RECORDED = {"mljob_state": "mljob:state", "mljob_phase": "mljob:phase"}
"""One-hot metrics whose one word the rules record, replicas as one: a ninth and a sixth of the series to go through."""

OF_RUN = 'site=~"$site", run=${run:doublequote}'
"""The matchers of the *Run* dashboard. The format quotes the name; `"$run"` would break on a quotation mark in it."""


def matchers(*parts: str) -> str:
    """Join label matchers, leaving out empty ones."""
    return ", ".join(part for part in parts if part)


def equal(label: str, text: str) -> str:
    """Return the matcher of a label that is exactly a text of the code's own, without characters to escape."""
    return f'{label}="{text}"'


def value(metric: str, *selection: str, source: str = "", keep: str = "") -> str:
    """Return one series a job of a metric: what its replicas of the exporter tell now, as the alert rules read it.

    Args:
        metric: A name of the catalogue.
        selection: Label matchers.
        source: Where the value comes from, several joined by `|`; by default what `source_of` says.
        keep: An added label that the result keeps.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    text = current(metric, matchers(*selection), source=source, keep=keep)
    return " ".join(text.split()).replace("( ", "(").replace(" )", ")")


def extremes(metric: str, count: int, *selection: str, lowest: bool = False, function: str = "") -> str:
    """Return one series a job of a metric, of the jobs with the highest values (or lowest).

    The extreme series are picked before replicas are made one: to do that for all jobs at each point of a graph costs
    several times as much. So many are picked that `count` jobs are among them with up to `_REPLICAS` replicas.

    Args:
        metric: A name of the catalogue.
        count: How many jobs.
        selection: Label matchers.
        lowest: Whether the lowest values are the extreme ones.
        function: What is done to the value first.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    pick, of_replicas = ("bottomk", "min") if lowest else ("topk", "max")
    told_now = value(metric, *selection).removeprefix(f"max by ({JOB}) ")
    series_picked = f"{pick}({count * _REPLICAS}, {function}{told_now})"
    return f"{pick}({count}, {of_replicas} by ({JOB}) ({series_picked}))"


def code(metric: str, label: str, words: Sequence[str], *selection: str, source: str = SEEN_LIVING) -> str:
    """Return one series a job of a one-hot metric: the place of its word in a list, to be shown by `palette.codes`.

    A label cannot be sorted by how bad it is, and two replicas that disagree would be two rows. The lowest place wins.
    """
    places = _either(
        [f'label_replace(vector({place}), "{label}", "{word}", "", "")' for place, word in enumerate(words)]
    )
    terms = f"({metric}{{{matchers(*selection)}}} == 1) * on ({label}) group_left () {places}"
    return f"min by ({JOB}) (({terms}) unless ignoring (source, {label}) {_outdated(source)})"


def told(metric: str, label: str, *selection: str, source: str = SEEN_LIVING) -> str:
    """Return one series a job of a one-hot metric: the one that is 1, with its label.

    It is the recorded one where the rules record it. Else what is 0 is left out first: most of the series are.
    """
    if metric in RECORDED:
        return f"max by ({JOB}, {label}) ({RECORDED[metric]}{{{matchers(*selection)}}})"
    selector = f"{metric}{{{matchers(*selection)}}} == 1"
    return f"max by ({JOB}, {label}) (({selector}) unless ignoring (source, {label}) {_outdated(source)})"


def _outdated(source: str) -> str:
    return f'mljob:replica_outdated{{source=~"{source}"}}'


def _either(terms: Sequence[str]) -> str:
    """Join terms by `or` in halves: joined one after the other each would go through all that came before it."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_either(terms[:middle])} or {_either(terms[middle:])})"


def over(*selection: str) -> str:
    """Return a series for each job that is over: a reason is told of these alone, and states are far more series."""
    return f"mljob_end_reason{{{matchers(*selection)}}}"


def not_ended(expression: str, *selection: str) -> str:
    """Return the expression without the jobs that are over."""
    return f"({expression}) unless on (run, site) {over(*selection)}"


def answered(*selection: str) -> str:
    """Return when a job's sources last confirmed anything, of all of them that the matchers leave."""
    return f"max by ({JOB}) (mljob_observed_timestamp_seconds{{{matchers(*selection)}}})"


def table(ref: str, expression: str) -> builders.Dataquery:
    """Return an instant query whose answer is rows. The value's field is then called `Value #<ref>`."""
    return (
        builders.Dataquery()
        .expr(expression)
        .instant()
        .format(models.PromQueryFormat.TABLE)
        .ref_id(ref)
        .datasource(DATASOURCE)
    )


def instant(ref: str, expression: str, legend: str = "") -> builders.Dataquery:
    """Return an instant query that gives one value a series."""
    return _series(ref, expression, legend).instant()


def series(ref: str, expression: str, legend: str = "") -> builders.Dataquery:
    """Return a query over the time range."""
    return _series(ref, expression, legend).range()


def _series(ref: str, expression: str, legend: str) -> builders.Dataquery:
    return (
        builders.Dataquery()
        .expr(expression)
        .format(models.PromQueryFormat.TIME_SERIES)
        .legend_format(legend or "__auto")
        .ref_id(ref)
        .datasource(DATASOURCE)
    )
