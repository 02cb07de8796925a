"""The *Run* dashboard: everything of one run. Alerts and the rows of all tables lead here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from runwatch_dashboards import links, palette, run_rl, run_status, run_training, run_trials, variables
from runwatch_dashboards.document import frame
from runwatch_dashboards.marks import Mark
from runwatch_dashboards.queries import OF_RUN, by_cause, value
from runwatch_dashboards.run_details import details

PanelBuilder = Builder[models.Panel]


def _marks() -> Iterator[Mark]:
    interrupted = value("mljob_interruption_timestamp_seconds", OF_RUN, keep="cause")
    gap_ended = by_cause("mljob_gap_end_timestamp_seconds", OF_RUN)
    yield Mark("Interruptions", palette.WARNING, f"{interrupted} * 1000", "Interruption: {{cause}}", at_value=True)
    yield Mark("Ends of gaps", palette.NEUTRAL, f"{gap_ended} * 1000", "A gap ended: {{cause}}", at_value=True)
    yield Mark(
        "Checkpoints",
        palette.GREY,
        f"{value('mljob_checkpoint_timestamp_seconds', OF_RUN)} * 1000",
        "A complete checkpoint was committed",
        at_value=True,
        shown=False,
    )
    # Samples of long ranges lie far apart: the window keeps an alert between two of them from being lost.
    yield Mark(
        "Alerts",
        palette.BAD,
        f'max by (alertname, severity) (max_over_time(ALERTS{{{OF_RUN}, alertstate="firing"}}[5m]))',
        "{{alertname}} ({{severity}})",
        at_value=False,
        step="5m",
    )


def _row(title: str, panels: Iterable[PanelBuilder]) -> builders.Row:
    """Return a folded row."""
    row = builders.Row(title).collapsed(True)
    for panel in panels:
        row = row.with_panel(panel)
    return row


def dashboard() -> builders.Dashboard:
    """Return the dashboard."""
    board = frame(
        "Run",
        links.RUN_UID,
        "Everything of one run. Type the beginning of its name at the top, then choose it; ended ones of the time "
        "range too.",
        [variables.datasource(), variables.site(), variables.search(), variables.run()],
    )
    for mark in _marks():
        board = board.annotation(mark)
    shown: list[PanelBuilder] = [
        *run_status.stats(),
        *details(),
        run_status.timelines(),
        run_status.alerts(),
        run_status.alert_timeline(),
        run_status.identity(),
        run_status.pages(),
        run_status.further(),
    ]
    for panel in shown:
        board = board.with_panel(panel)
    board = board.with_row(builders.Row("Steps, throughput, loss"))
    for graph in run_training.training():
        board = board.with_panel(graph)
    board = board.with_row(builders.Row("Interruptions, gaps, checkpoints")).with_panel(run_training.causes())
    for graph in run_training.interruptions():
        board = board.with_panel(graph)
    board = board.with_row(builders.Row("Tasks, log, sources"))
    for graph in run_training.surroundings():
        board = board.with_panel(graph)
    return board.with_row(
        _row("RL: signals with their healthy bands", [run_rl.collapse(), *run_rl.signals()])
    ).with_row(_row("Datagen and eval: results, exceptions, engine", [run_trials.checks(), *run_trials.results()]))
