"""What time a source's answer is of: one that comes late, and one before the exporter's own clock was set back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runwatch.config.model import HistorySource, Trials
from runwatch.facts import CheckpointListing, LogFacts, SourceKind, TrialsUpdate
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Outcome
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


def test_rows_that_come_late_are_as_old_as_their_reading() -> None:
    clock = Clock()
    watch, telemetry = watch_of(job("one"), clock=clock)
    source = Scripted(SourceKind.HISTORY, lambda j: replace(update(0, 5), age=40.0))
    binding = SourceBinding(source, "jsonl")

    def looked(at: float) -> tuple[float | None, float | None]:
        clock.now = START + at
        watch.poll(binding)
        seen = report_of(watch).measurements.get("mljob_observed_timestamp_seconds", source="history")
        return seen, line(telemetry, "runwatch_source_last_success_timestamp_seconds", source="history")

    assert looked(50) == (START + 10, START + 10)
    source.answer = lambda j: update(5, 0)
    assert looked(60) == (START + 60, START + 60)
    source.answer = lambda j: replace(update(5, 5), age=40.0)
    assert looked(70) == (START + 60, START + 60)  # a later answer was had already


@pytest.mark.parametrize(
    ("kind", "late"),
    [
        (SourceKind.CHECKPOINTS, CheckpointListing((), age=40.0)),
        (SourceKind.TRIALS, TrialsUpdate((), age=40.0)),
        (SourceKind.LOG, LogFacts(("/one.out",), age=40.0)),
    ],
)
def test_a_look_that_comes_late_confirms_what_was_there_when_it_began(kind: SourceKind, late: Outcome) -> None:
    watch, telemetry = watch_of(
        job("one", checkpoints=("/ckpt",), trials=Trials(path="/trials"), history=(HistorySource(log="/one.out"),))
    )
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 5)), "log"))
    watch.poll(SourceBinding(Scripted(kind, lambda j: late)))
    seen = report_of(watch).measurements.get("mljob_observed_timestamp_seconds", source=kind.value)
    assert seen == START - 40
    assert line(telemetry, "runwatch_source_last_success_timestamp_seconds", source=kind.value) == START - 40
