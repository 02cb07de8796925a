"""The exporter's own clock is set back while it runs, by NTP or a person: no answer then lies in the future."""

from __future__ import annotations

from pathlib import Path

from runwatch.config.model import HistorySource
from runwatch.facts import SourceKind
from runwatch.sources.binding import SourceBinding
from tests.unit.test_watch import DOWN, START, Clock, Scripted, job, line, report_of, update, watch_of


def test_after_the_exporters_clock_was_set_back_the_history_that_answers_is_used_at_once() -> None:
    clock = Clock()
    clock.now = START + 3600
    listed = job("one", history=(HistorySource(wandb="e/p/r"), HistorySource(jsonl=Path("/one.jsonl"))))
    watch, telemetry = watch_of(listed, clock=clock)
    wandb = Scripted(SourceKind.HISTORY, lambda j: update(0, 10))
    watch.poll(SourceBinding(wandb, "wandb"))
    clock.now = START + 200  # it was 58 min ahead
    wandb.answer = lambda j: DOWN
    watch.poll(SourceBinding(wandb, "wandb"))
    measured = report_of(watch).measurements
    assert measured.get("mljob_observed_timestamp_seconds", source="history") == START + 200
    assert line(telemetry, "runwatch_source_last_success_timestamp_seconds", site="a") == START + 200
    clock.now = START + 260
    assert report_of(watch).measurements.get("mljob_observed_timestamp_seconds", source="history") == START + 200
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 25)), "jsonl"))
    measured = report_of(watch).measurements
    assert measured.get("mljob_step") == 24
    assert measured.get("mljob_observed_timestamp_seconds", source="history") == START + 260
