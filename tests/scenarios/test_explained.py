"""What runbooks say that `runwatch explain` shows of a job, at the minute at which the alert begins to fire."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.format import load_scenario
from tests.scenarios.judge import labels_of
from tests.scenarios.simulate import MINUTE, Clock, RunningExporter

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("auth-failures-fires-five-in-30-minutes", "the sandbox provider refused 5 times within 30 min [newest"),
        # A loss of 2 for long, then of 3.2: 1.6 times each.
        ("loss-diverging-fires-slow-steps", "3.2 at step 61 (1.6 × 2), 3.2 at step 62 (1.6 × 2), 3.2 at step 63"),
        # One row of 30 between two polls, after 0.5 for long; the rows after it are small again.
        ("grad-explosion-fires-spike-between-polls", "its window: 30 at step 196 (60 × 0.5) [steps=[196]"),
        ("nonfinite-fires-loss", "the latest loss is nan, from train/loss [key=train/loss, step=164, row=164"),
        (
            "state-conflict-fires-scheduler-ended-and-steps-go-on",
            "it is killed, the history tells running",
        ),
        ("state-conflict-fires-run-failed-and-scheduler-runs", "it is running, the history tells failed"),
        ("stalled-benign-only-the-history-is-cut-off", "the history's steps stand still, and complete checkpoints go"),
        ("timed-out-fires-dependency-never-met", "next link 102: can never start: its dependency cannot be met"),
        ("traces-stranded-fires", "  the scheduler shows no next link of a chain\n"),
        ("trials-stalled-fires-hung-chunk", "  hung: chunk 1 ["),
    ],
)
def test_explain_shows_what_the_runbook_promises(name: str, shown: str) -> None:
    scenario = load_scenario(CORPUS / f"{name}.yaml")
    firing = scenario.expect[0]
    run = labels_of(firing, scenario)["run"]
    clock = Clock()
    exporter = RunningExporter("a", scenario.exporters["a"], scenario, clock)
    for minute in scenario.watched:
        clock.now = minute * MINUTE
        if clock.now > firing.since:
            break
        exporter.scrape()
    assert shown in exporter.explain(run)
