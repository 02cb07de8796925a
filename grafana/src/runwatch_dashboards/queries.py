"""Queries: PromQL that gives one series a job, and the targets that panels send.

A job is (`run`, `site`): one name may run at two sites. Tables are joined on `KEY`, which is made of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import prometheus as builders
from grafana_foundation_sdk.models import prometheus as models

from runwatch.alerting.promql import JOB, current
from runwatch.catalogue import ENDED_STATES, JOB_PHASES, JOB_STATES, METRICS
from runwatch_dashboards.variables import DATASOURCE, PREFIX

KEY = "key"
"""The label that tables are joined on: site and run with a space between, which no site's name has."""

SEEN_LIVING = "scheduler|history|trials"
"""The sources that state, phase and end are made from."""

_MADE_FROM = {"mljob_phase": (SEEN_LIVING, "history|trials"), "mljob_trend": ("", "")}
"""The sources of metrics made from several (empty: all), and those that decide where each replica lacks one (empty:
none); of all others `SEEN_LIVING` and the scheduler."""

SELECTED = 'site=~"$site"'
SEARCHED = f"run=~{PREFIX}"
"""The matcher of what was typed. It costs a look at every name of a run there is: once a table, not in each query."""

NOT_OVER = f'state!~"{"|".join(sorted(ENDED_STATES))}"'
"""The matcher of a job's state for jobs that are not over."""

_REPLICAS = 4
"""More replicas of the exporter nobody runs."""

_ENDS = frozenset({"mljob_end_timestamp_seconds", "mljob_exit_code"})
"""What a replica that goes on hearing of the job's state may contradict: another link of a chain runs by now."""

RECORDED = {"mljob_state": ("mljob:state", JOB_STATES), "mljob_phase": ("mljob:phase", JOB_PHASES)}
"""One-hot metrics whose word the rules record, with the words: a ninth and a sixth of the series to go through."""

OF_RUN = 'site=~"$site", run=~`${run:regex}`'
"""The matchers of the *Run* dashboard. In back-ticks every name but one with a back-tick is found: `"$run"` would break
on a quotation mark in it, and Grafana's format for quotation marks leaves a backslash alone."""


def matchers(*parts: str) -> str:
    """Join label matchers, leaving out empty ones."""
    return ", ".join(part for part in parts if part)


def equal(label: str, text: str) -> str:
    """Return the matcher of a label that is exactly a text of the code's own, without characters to escape."""
    return f'{label}="{text}"'


def any_of(label: str, words: Sequence[str]) -> str:
    """Return the matcher of a label that is one of some words of the code's own."""
    return f'{label}=~"{"|".join(words)}"'


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
    if metric in _ENDS:
        return f"max by ({JOB}) ({_living(metric, matchers(*selection))})"
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


def total(metric: str, label: str, *selection: str) -> str:
    """Return one series a job of a metric that has a value for each word of a label: their sum, as a replica tells it.

    Two replicas may tell one thing by unlike words: a gap by its cause and, without a scheduler, as one of no known
    cause. The largest of each word would count it twice.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    told_now = value(metric, *selection, keep=label).removeprefix(f"max by ({JOB}, {label}) ")
    return f"max by ({JOB}) (sum without ({label}) {told_now})"


def by_cause(metric: str, *selection: str) -> str:
    """Return one series a job and cause of a metric of gaps.

    A replica without the scheduler's answers knows no cause. It is left out where another has them, for it would tell
    the same gaps a second time.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    compared = value(metric, *selection, source="history|scheduler", keep="cause")
    return f"({compared} or on (run, site) {value(metric, *selection, keep='cause')})"


def code(metric: str, label: str, words: Sequence[str], *selection: str) -> str:
    """Return one series a job of a one-hot metric: the place of its word in a list, to be shown by `palette.codes`.

    A label cannot be sorted by how bad it is, and two replicas that disagree would be two rows. The lowest place wins.
    """
    hot = _living(metric, matchers(*selection), only=" == 1")
    return f"min by ({JOB}) ({hot} * on ({label}) group_left () {places(label, words)})"


def places(label: str, words: Sequence[str]) -> str:
    """Return a series for each word, with the word as label and its place in the list as value."""
    return _either([f'label_replace(vector({place}), "{label}", "{word}", "", "")' for place, word in enumerate(words)])


def told(metric: str, label: str, *selection: str) -> str:
    """Return one series a job of a one-hot metric: the one that is 1, with its label.

    It is the recorded one where the rules record it; of two that disagree, that of `code`. Else what is 0 is left out
    first: most of the series are.
    """
    if metric in RECORDED:
        name, words = RECORDED[metric]
        recorded = f"max by ({JOB}, {label}) ({name}{{{matchers(*selection)}}})"
        return f"bottomk by (run, site) (1, {recorded} * on ({label}) group_left () {places(label, words)})"
    return f"max by ({JOB}, {label}) ({_living(metric, matchers(*selection), only=' == 1')})"


def with_verdict(words: Sequence[str], *selection: str) -> str:
    """Return one series for each job of which a replica that all sources answer tells one of some verdicts.

    Where each replica lacks a source it is one of which any tells it: as `code` picks, without joining every verdict.
    """
    everything = f"mljob_trend{{{matchers(*selection)}}}"
    found = f"mljob_trend{{{matchers(*selection, any_of('verdict', words))}}}"
    less = f"unless ignoring (source, verdict) {_outdated('')}"
    return f"max by ({JOB}) (({found} {less}) or ({found} unless on (run, site) ({everything} {less})))"


def _living(metric: str, selection: str, *, only: str = "") -> str:
    """Return the series of a metric of several sources, from the replicas that all of these answer.

    Of a job whose replicas each lack one they are from those that the deciding sources answer, as in the rules.
    """
    selector = f"{metric}{{{selection}}}{only}"
    less = f"{selector} unless ignoring ({', '.join(('source', *METRICS[metric].labels))})"
    sources, deciding = _MADE_FROM.get(metric, (SEEN_LIVING, "scheduler"))
    some = f"{less} {_outdated(deciding)}" if deciding else selector
    return f"(({less} {_outdated(sources)}) or on (run, site) ({some}))"


def _outdated(sources: str) -> str:
    """Return the selector of the replicas that one of the sources, joined by `|`, does not answer; of any if empty."""
    matcher = f'source{"=~" if "|" in sources else "="}"{sources}"'
    return f"mljob:replica_outdated{{{matcher}}}" if sources else "mljob:replica_outdated"


def _either(terms: Sequence[str]) -> str:
    """Join terms by `or` in halves: joined one after the other each would go through all that came before it."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_either(terms[:middle])} or {_either(terms[middle:])})"


def over(*selection: str) -> str:
    """Return a series for each job that is over: a reason is told of these alone, and states are far more series."""
    return _living("mljob_end_reason", matchers(*selection))


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
