"""The *Run* dashboard, at the top: what the job is and does now, its history as bars of words, its alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grafana_foundation_sdk.builders import stat, statetimeline, table, text
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue

from runwatch import thresholds
from runwatch.alerting.promql import JOB, number
from runwatch.catalogue import JOB_PHASES, JOB_STATES
from runwatch_dashboards import links, palette, queries
from runwatch_dashboards.graphs import line, note, timeline, worded
from runwatch_dashboards.panels import coloured_cell, organized, plain_table, prop, single_stat, unit_of
from runwatch_dashboards.queries import OF_RUN, code, instant, value
from runwatch_dashboards.runbooks import to_runbook

_STATE_COLOURS = {"running": palette.GOOD, "pending": palette.NEUTRAL}
_PHASE_COLOURS = {
    "queued": palette.NEUTRAL,
    "bringup": palette.NEUTRAL,
    "stepping": palette.GOOD,
    "finishing": palette.GOOD,
    "resuming": palette.WARNING,
    "finished": palette.GREY,
}
_WELL = frozenset({"resumed", "checkpoint_saved", "stable"})

STATE = code("mljob_state", "state", JOB_STATES, OF_RUN)
PHASE = code("mljob_phase", "phase", JOB_PHASES, OF_RUN)
VERDICT = code("mljob_trend", "verdict", thresholds.VERDICTS, OF_RUN)

_PROGRESS_SEEN = (
    f"min by ({JOB}) (max by ({JOB}, source) "
    f'(mljob_observed_timestamp_seconds{{{OF_RUN}, source=~"history|scheduler"}}))'
)
STEP_AGE = f"{_PROGRESS_SEEN} - {value('mljob_last_step_timestamp_seconds', OF_RUN)}"
"""Seconds since the last step when history and scheduler last answered: what the stall is judged by."""

STALL_LIMIT = (
    f"{number(thresholds.STALL_BASE_SECONDS)} + {number(thresholds.STALL_GAP_THRESHOLD_FRACTION)} * "
    f"{value('mljob_gap_threshold_seconds', OF_RUN)}"
)


def _bar_colour(colour: str, well: bool) -> str:
    """Return the colour of a bar: a bar without one would look like a hole."""
    if colour != palette.PLAIN:
        return colour
    return palette.GOOD if well else palette.NEUTRAL


def state_words() -> dict[str, str]:
    """Return the colour of each state as a bar."""
    return {word: _STATE_COLOURS.get(word) or _bar_colour(palette.state_colour(word), False) for word in JOB_STATES}


def verdict_words() -> dict[str, str]:
    """Return the colour of each verdict as a bar."""
    return {_spaced(word): _bar_colour(palette.verdict_colour(word), word in _WELL) for word in thresholds.VERDICTS}


def _spaced(word: str) -> str:
    return word.replace("_", " ")


VERDICT_WORDS = tuple(_spaced(word) for word in thresholds.VERDICTS)
"""The verdicts as the tables write them."""


def _text_colour(colour: str) -> str:
    """Return the colour of a word in a stat: that of a table's cell, where the cell has one."""
    return palette.TEXT if colour == palette.PLAIN else colour


def _word(title: str, description: str, expression: str, words: Sequence[str], colours: dict[str, str]) -> stat.Panel:
    return single_stat(title, description, "none", [instant("word", expression, "{{site}}")]).mappings(
        [palette.missing(palette.TEXT), palette.codes(words, colours)]
    )


def stats() -> Iterator[stat.Panel]:
    """Yield the big values: what the job is doing, how far it is, and when that was last confirmed."""
    step, target = value("mljob_step", OF_RUN), value("mljob_target_step", OF_RUN)
    trials, trials_target = value("mljob_trials", OF_RUN), value("mljob_trials_target", OF_RUN)
    states = {word: _text_colour(palette.state_colour(word)) for word in JOB_STATES}
    yield _word("State", "The job's state now.", STATE, JOB_STATES, states)
    yield _word(
        "Phase",
        "What the job is doing; none while no source of steps was ever read.",
        PHASE,
        JOB_PHASES,
        dict.fromkeys(JOB_PHASES, palette.TEXT),
    )
    yield _word(
        "Trend",
        "The worst verdict that holds now. The words stand in docs/metrics.md.",
        VERDICT,
        VERDICT_WORDS,
        {_spaced(word): _text_colour(palette.verdict_colour(word)) for word in thresholds.VERDICTS},
    )
    yield single_stat(
        "Done",
        "Step / last step; of datagen and eval results / results to come.",
        "percentunit",
        [instant("done", f"{step} / ({target} > 0) or {trials} / ({trials_target} > 0)", "{{site}}")],
    ).decimals(1)
    yield single_stat(
        "ETA",
        "Remaining steps × recent step duration: compute only, interruptions to come are not in it.",
        unit_of("mljob_eta_seconds"),
        [instant("eta", value("mljob_eta_seconds", OF_RUN), "{{site}}")],
    ).decimals(1)
    yield single_stat(
        "Last confirmed",
        "When any source last answered for this job, within the time range: nothing on this page is newer.",
        "dateTimeFromNow",
        [
            instant(
                "seen",
                f"max by (run, site) (max_over_time(mljob_observed_timestamp_seconds{{{OF_RUN}}}[$__range])) * 1000",
                "{{site}}",
            )
        ],
    )


def timelines() -> statetimeline.Panel:
    """Return state, phase and verdict over time."""
    return (
        timeline(
            "State, phase and trend",
            "What the job was and did, and the worst verdict that held. A hole: the exporter told nothing then.",
            [line("state", STATE, "State"), line("phase", PHASE, "Phase"), line("trend", VERDICT, "Trend")],
        )
        .override_by_query("state", worded(JOB_STATES, state_words()))
        .override_by_query("phase", worded(JOB_PHASES, _PHASE_COLOURS))
        .override_by_query("trend", worded(VERDICT_WORDS, verdict_words()))
    )


_INFO_TITLES = {
    "kind": "Kind",
    "owner": "Owner",
    "scheduler": "Scheduler",
    "scheduler_job": "Scheduler's job",
    "wandb_run": "W&B run",
    "url": "W&B page",
    "tracker_row": "Tracker row",
    "ablation": "Ablation",
    "hold": "Hold",
    "shaping": "Shaping",
    "grid": "Grid",
    "new_setting": "New setting",
    "turns": "Turns",
}
_TITLES = {"run": "Run", "site": "Site", "bucket": "Bucket", **_INFO_TITLES}
_WHEN = "When"


def _said_in_range(ref: str, titles: Mapping[str, str], metric: str) -> tuple[Dataquery, list[DataTransformerConfig]]:
    """Return the query of a metric's labels in the time range, and what makes a table of it: what holds now first."""
    labels = ", ".join(titles)
    earlier = f"group by ({labels}) (last_over_time({metric}{{{OF_RUN}}}[$__range]))"
    query = queries.table(ref, f"2 * group by ({labels}) ({metric}{{{OF_RUN}}}) or {earlier}")
    columns = organized({**titles, "Value": _WHEN, f"Value #{ref}": _WHEN}, "Time")
    newest_first = {"fields": {}, "sort": [{"field": _WHEN, "desc": True}]}
    return query, [columns, DataTransformerConfig(id_val="sortBy", options=newest_first)]


def _when() -> list[DynamicConfigValue]:
    words = palette.words({"2": ("now", palette.PLAIN), "1": ("earlier", palette.GREY)})
    return [prop("mappings", [palette.missing(), words]), coloured_cell(), prop("custom.width", 70)]


def identity() -> table.Panel:
    """Return what the job is, and the way to its pages elsewhere: one row a setting that it had in the time range."""
    query, transformations = _said_in_range("info", _TITLES, "mljob_info")
    of_bucket = f'/d/runwatch-${{__data.fields["Bucket"]}}?{links.KEPT}'
    return (
        plain_table(
            "What it is, and links out",
            "As configured or found. W&B page leads to the run, Bucket to its table. A second row: a label was "
            "changed within the time range; When tells which row holds at its end.",
            "none",
            [query],
        )
        .transformations(transformations)
        .override_by_name(_WHEN, _when())
        .override_by_name(
            "W&B page", [prop("links", [{"title": "Open in W&B", "url": "${__value.raw}", "targetBlank": True}])]
        )
        .override_by_name(
            "Bucket",
            [prop("links", [{"title": "Open the bucket's dashboard", "url": of_bucket, "targetBlank": False}])],
        )
        .filterable(False)
        .min_width(82)
        .height(4)
    )


_PAGE_TITLES = {"target": "What", "url": "Page", "site": "Site"}


def pages() -> table.Panel:
    """Return the job's pages at its scheduler and where its checkpoints lie, one row a page."""
    query, transformations = _said_in_range("pages", _PAGE_TITLES, "mljob_link")
    return (
        plain_table(
            "Scheduler and checkpoints",
            "Opens the job at its scheduler (where the site's config has job_page) and each folder of its checkpoints "
            "(a gs:// folder at Google Cloud, any other where the config has checkpoint_page). Earlier: of another "
            "link of its chain, or told no more at the end of the time range.",
            "none",
            [query],
        )
        .transformations(transformations)
        .override_by_name(_WHEN, _when())
        .override_by_name(
            "Page", [prop("links", [{"title": "Open the page", "url": "${__value.raw}", "targetBlank": True}])]
        )
        .filterable(False)
        .height(4)
    )


def further() -> text.Panel:
    """Return where to look for what no metric holds."""
    return note(
        "Where to look further",
        "What is in no metric: paths, messages and evidence. Labels of metrics never hold them.",
        "`runwatch explain '${run:text}'` says where each figure comes from: the checkpoint that is the newest and "
        "its address, the "
        "log that is read, the first real traceback, each interruption and gap with its times. "
        "Each alert above leads to its runbook.",
    ).height(3)


_ALERTS = f'ALERTS{{{OF_RUN}, alertstate=~"firing|pending"}}'
_SINCE = "alertname, severity, source, site"
"""What tells two alerts of a job apart: two of its sources may be unread, each since another time."""


def alerts() -> table.Panel:
    """Return the job's alerts now, those that fire first."""
    now = f"max by ({_SINCE}, alertstate) ({_ALERTS})"
    since = f"min by ({_SINCE}) (ALERTS_FOR_STATE{{{OF_RUN}}})"
    joined = f"{now} * on ({_SINCE}) group_left () {since} * 1000 or {now} * NaN"
    names = ("Alert", "Severity", "State", "Since", "Source", "Site")
    titles = dict(zip(("alertname", "severity", "alertstate", "Value", "source", "site"), names, strict=True))
    colours = {"critical": ("critical", palette.BAD), "warning": ("warning", palette.WARNING)}
    return (
        plain_table(
            "Alerts now",
            "Alerts of this job that fire, or wait for how long they must hold. Empty: none does. Needs the rules in "
            "Prometheus.",
            "none",
            [queries.table("alerts", joined)],
        )
        .transformations(
            [
                organized(titles, "Time"),
                DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": "State"}]}),
            ]
        )
        .override_by_name("Alert", [prop("links", [to_runbook("Alert")])])
        .override_by_name(
            "Severity",
            [
                prop("mappings", [palette.missing(), palette.words(colours)]),
                coloured_cell(),
                prop("custom.width", 80),
            ],
        )
        .override_by_name("State", [prop("custom.width", 75)])
        .override_by_name("Since", [prop("unit", "dateTimeAsIso"), prop("custom.width", 158)])
        .override_by_name("Source", [prop("custom.width", 92)])
        .override_by_name("Site", [prop("custom.width", 66)])
        .no_value("No alert of this job fires.")
        .filterable(False)
        .height(7)
        .span(12)
    )


def alert_timeline() -> statetimeline.Panel:
    """Return when which alert fired."""
    firing = f'max by (alertname, site) (ALERTS{{{OF_RUN}, alertstate="firing", severity="%s"}})'
    words = {"1": ("warning", palette.WARNING), "2": ("critical", palette.BAD)}
    return (
        timeline(
            "Alerts over time",
            "When which alert of this job fired. Empty: none did, or the rules are not loaded.",
            [line("fired", f"{firing % 'critical'} * 2 or {firing % 'warning'}", "{{alertname}}")],
        )
        .mappings([palette.missing(), palette.words(words)])
        .no_value("No alert of this job fired.")
        .span(12)
    )
