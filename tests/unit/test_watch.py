"""Failed looks, silence and endings: what a job's record keeps, and what the exporter says of its sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runwatch.config.model import Config, HistorySource, TrainerConfig, Trials
from runwatch.facts import (
    Checkpoint,
    CheckpointListing,
    Failure,
    FailureReason,
    HistoryEnd,
    HistoryRow,
    HistoryRun,
    HistoryUpdate,
    SourceKind,
)
from runwatch.fleet import Job
from runwatch.measurements import JobReport
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Deliver, Outcome
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch

START = 1_790_000_000.0
DOWN = Failure(FailureReason.NETWORK, "connection refused")
MISSING = Failure(FailureReason.NOT_FOUND, "no such run")


class Scripted:
    """A source that answers what a function says."""

    def __init__(self, kind: SourceKind, answer: Callable[[Job], Outcome]) -> None:
        self.kind = kind
        self.answer = answer
        self.asked: list[str] = []
        self.forgotten: list[str] = []

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        for job in jobs:
            self.asked.append(job.run)
            deliver(job, self.answer(job))

    def forget(self, run: str) -> None:
        self.forgotten.append(run)

    def close(self) -> None:
        """Nothing is held."""


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def rows(first: int, count: int) -> list[HistoryRow]:
    return [HistoryRow(i, START + 8.0 * i, i, {"train/loss": 2.0}) for i in range(first, first + count)]


def update(first: int, count: int, **run: object) -> HistoryUpdate:
    return HistoryUpdate(HistoryRun(**run), rows(first, count))  # type: ignore[arg-type]


def job(run: str, site: str = "a", **more: object) -> Job:
    history = (HistorySource(jsonl=Path(f"/{run}.jsonl")),)
    return Job(run, "sft", site, **({"history": history} | more))  # type: ignore[arg-type]


def watch_of(*jobs: Job, clock: Clock | None = None) -> tuple[Watch, Telemetry]:
    telemetry = Telemetry()
    config = Config(poll_interval="10s", stale_after="100s", linger="1000s")  # type: ignore[arg-type]
    watch = Watch(config, telemetry, clock=clock or Clock())
    watch.set_jobs(config, jobs)
    return watch, telemetry


def report_of(watch: Watch, run: str = "one") -> JobReport:
    return next(report for report in watch.reports() if report.run == run)


def line(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    for text in telemetry.render(reproducible=True).decode().splitlines():
        if text.startswith(name + "{") and all(f'{key}="{value}"' in text for key, value in labels.items()):
            return float(text.rsplit(" ", 1)[1])
    return None


def test_a_failed_look_keeps_the_facts_and_freezes_the_observed_time() -> None:
    clock = Clock()
    watch, telemetry = watch_of(job("one"), job("two", site="b"), clock=clock)
    good: Outcome = update(0, 10)
    source = Scripted(SourceKind.HISTORY, lambda j: good)
    binding = SourceBinding(source, "jsonl")
    watch.poll(binding)
    clock.now = START + 60
    source.answer = lambda j: DOWN if j.run == "one" else update(10, 1)
    watch.poll(binding)
    one, two = report_of(watch).measurements, report_of(watch, "two").measurements
    assert one.get("mljob_step") == 9
    assert one.get("mljob_observed_timestamp_seconds", source="history") == START
    assert one.one_hot("mljob_state") == "running"
    assert two.get("mljob_step") == 10
    assert two.get("mljob_observed_timestamp_seconds", source="history") == START + 60
    assert line(telemetry, "runwatch_source_up", source="history", site="a") == 0
    assert line(telemetry, "runwatch_source_up", source="history", site="b") == 1
    assert line(telemetry, "runwatch_source_errors_total", site="a", reason="network") == 1
    assert line(telemetry, "runwatch_source_last_success_timestamp_seconds", site="a") == START
    assert [(run, failure) for run, _, failure in watch.failures()] == [("one", DOWN)]


@pytest.mark.parametrize(("silent", "there"), [(100.0, True), (100.5, False)])
def test_facts_that_a_dead_source_cannot_confirm_vanish_after_stale_after(silent: float, there: bool) -> None:
    clock = Clock()
    watch, _ = watch_of(job("one"), clock=clock)
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 10)), "jsonl"))
    clock.now = START + silent
    measured = report_of(watch).measurements
    assert (measured.get("mljob_step") is not None) is there
    assert measured.one_hot("mljob_state") == ("running" if there else "unknown")
    assert (measured.one_hot("mljob_phase") is not None) is there


def test_a_job_that_was_never_read_is_unknown_and_has_no_numbers() -> None:
    watch, _ = watch_of(job("one"))
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: DOWN), "jsonl"))
    measured = report_of(watch).measurements
    assert set(measured.names()) <= {
        "mljob_state",
        "mljob_source_configured_timestamp_seconds",
        "mljob_trend",
    }
    assert measured.one_hot("mljob_state") == "unknown"


def test_not_found_is_an_answer_and_makes_no_source_down() -> None:
    watch, telemetry = watch_of(job("one"))
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: MISSING), "jsonl"))
    assert line(telemetry, "runwatch_source_up", source="history", site="a") == 1
    assert line(telemetry, "runwatch_source_errors_total", reason="not_found") == 1
    everything = Failure(FailureReason.NOT_FOUND, "HTTP 404 from /graphql", whole_source=True)
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: everything), "jsonl"))
    assert line(telemetry, "runwatch_source_up", source="history", site="a") == 0


def test_one_unreadable_run_makes_no_source_down() -> None:
    watch, telemetry = watch_of(job("one"), job("two"))
    answers: dict[str, Outcome] = {"one": DOWN, "two": update(0, 5)}
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: answers[j.run]), "jsonl"))
    assert line(telemetry, "runwatch_source_up", source="history", site="a") == 1


def test_a_source_that_only_ended_jobs_use_has_no_health() -> None:
    listed = job("one", checkpoints=("/ckpt",))
    watch, telemetry = watch_of(listed)
    empty = CheckpointListing(())
    watch.poll(SourceBinding(Scripted(SourceKind.CHECKPOINTS, lambda j: empty)))
    # The history was not tried yet: it may say that the job is over.
    assert line(telemetry, "runwatch_source_up", source="checkpoints") is None
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 4)), "jsonl"))
    assert line(telemetry, "runwatch_source_up", source="checkpoints") == 1
    ended = update(4, 1, end=HistoryEnd.SUCCEEDED, ended_at=START + 40)
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: ended), "jsonl"))
    assert line(telemetry, "runwatch_source_up", source="checkpoints") is None
    assert line(telemetry, "runwatch_source_up", source="history") is None


def test_no_progress_series_until_a_first_read_has_caught_up() -> None:
    watch, _ = watch_of(job("one"))
    pages = [HistoryUpdate(HistoryRun(), rows(0, 5), caught_up=False), update(5, 5)]
    source = Scripted(SourceKind.HISTORY, lambda j: pages.pop(0))
    binding = SourceBinding(source, "jsonl")
    watch.poll(binding)
    assert watch.is_reading(binding)
    assert report_of(watch).measurements.get("mljob_step") is None
    assert report_of(watch).measurements.get("mljob_observed_timestamp_seconds", source="history") is None
    watch.poll(binding)
    assert not watch.is_reading(binding)
    assert report_of(watch).measurements.get("mljob_step") == 9


def test_a_history_made_anew_starts_again() -> None:
    watch, _ = watch_of(job("one"))
    updates = [update(0, 50), HistoryUpdate(HistoryRun(), rows(0, 3), reset=True)]
    source = Scripted(SourceKind.HISTORY, lambda j: updates.pop(0))
    for _ in range(2):
        watch.poll(SourceBinding(source, "jsonl"))
    assert report_of(watch).measurements.get("mljob_step") == 2


def test_the_next_history_is_asked_only_while_the_first_fails() -> None:
    clock = Clock()
    listed = job("one", history=(HistorySource(wandb="e/p/r"), HistorySource(jsonl=Path("/one.jsonl"))))
    watch, _ = watch_of(listed, clock=clock)
    first = Scripted(SourceKind.HISTORY, lambda j: update(0, 10))
    second = Scripted(SourceKind.HISTORY, lambda j: update(0, 20))

    def poll_both() -> float | None:
        watch.poll(SourceBinding(first, "wandb"))
        watch.poll(SourceBinding(second, "jsonl"))
        clock.now += 10
        return report_of(watch).measurements.get("mljob_step")

    assert poll_both() == 9
    assert second.asked == []
    first.answer = lambda j: DOWN
    assert poll_both() == 19
    first.answer = lambda j: update(10, 15)
    assert poll_both() == 24
    first.answer = lambda j: DOWN
    watch.poll(SourceBinding(first, "wandb"))
    # The second was last read before the first's newest answer: it is not gone back to before it is read again.
    assert report_of(watch).measurements.get("mljob_step") == 24


def test_a_history_that_answers_again_counts_once_it_has_been_read_up() -> None:
    clock = Clock()
    listed = job("one", history=(HistorySource(wandb="e/p/r"), HistorySource(jsonl=Path("/one.jsonl"))))
    watch, _ = watch_of(listed, clock=clock)
    answers: dict[str, Outcome] = {}
    first = SourceBinding(Scripted(SourceKind.HISTORY, lambda j: answers["first"]), "wandb")
    second = SourceBinding(Scripted(SourceKind.HISTORY, lambda j: answers["second"]), "jsonl")

    def looked(seconds: float, **given: Outcome) -> tuple[float | None, float | None]:
        clock.now = START + seconds
        answers.update(given)
        watch.poll(first)
        watch.poll(second)
        measured = report_of(watch).measurements
        observed = measured.get("mljob_observed_timestamp_seconds", source="history")
        return None if observed is None else observed - START, measured.get("mljob_step")

    assert looked(0, first=update(0, 5)) == (0, 4)
    assert looked(10, first=DOWN, second=update(0, 9)) == (10, 8)
    assert looked(60, second=update(9, 5)) == (60, 13)
    # Two rows came of those that wait: what they say is older than what the second history said.
    assert looked(65, first=replace(update(5, 2), caught_up=False)) == (60, 13)
    assert looked(70, first=update(7, 8)) == (70, 14)


def test_rl_values_stay_while_only_a_history_without_any_answers() -> None:
    clock = Clock()
    listed = job("one", history=(HistorySource(wandb="e/p/r"), HistorySource(log="/one.log")))
    watch, _ = watch_of(replace(listed, bucket="rl"), clock=clock)

    def row(step: int, **values: float) -> HistoryRow:
        return HistoryRow(step, START + 8.0 * step, step, dict(values))

    entropies = [row(step, **{"policy/policy_entropy": 0.5}) for step in range(3)]
    logged = [row(step, **{"train/loss": 1.0}) for step in range(9)]
    tracker = Scripted(SourceKind.HISTORY, lambda _: HistoryUpdate(HistoryRun(), entropies))
    log = Scripted(SourceKind.HISTORY, lambda _: HistoryUpdate(HistoryRun(), logged))
    seen: list[tuple[float | None, ...]] = []
    for silent in (0, 50, 200, 250):
        clock.now = START + silent
        if silent:
            tracker.answer = lambda _: DOWN
        if silent == 250:
            tracker.answer = lambda _: HistoryUpdate(HistoryRun(), [])
        watch.poll(SourceBinding(tracker, "wandb"))
        watch.poll(SourceBinding(log, "log"))
        report = report_of(watch)
        seen.append(
            tuple(report.measurements.get(name) for name in ("mljob_step", "mljob_rl_step", "mljob_rl_policy_entropy"))
        )
        told = [evidence.text for evidence in report.evidence if "it has no RL values" in evidence.text]
        assert told == (
            ["history: it has no RL values, those of step 2 are from W&B e/p/r, last read"] if silent == 50 else []
        )
    # Older than `stale_after` they vanish, as all facts do.
    assert seen == [(2, 2, 0.5), (8, 2, 0.5), (8, None, None), (2, 2, 0.5)]


def test_an_ended_job_stays_for_linger_and_then_vanishes() -> None:
    clock = Clock()
    watch, _ = watch_of(job("one"), clock=clock)
    source = Scripted(SourceKind.HISTORY, lambda j: update(0, 5, end=HistoryEnd.FAILED, ended_at=START + 40))
    watch.poll(SourceBinding(source, "jsonl"))
    clock.now = START + 1040
    watch.poll(SourceBinding(source, "jsonl"))
    assert report_of(watch).measurements.one_hot("mljob_state") == "failed"
    clock.now = START + 1040.5
    assert watch.reports() == []


def test_a_job_that_changed_is_read_from_the_start_by_its_sources() -> None:
    watch, _ = watch_of(job("one"), job("two"))
    config = Config(poll_interval="10s", stale_after="100s")  # type: ignore[arg-type]
    source = Scripted(SourceKind.HISTORY, lambda j: update(0, 5))
    binding = SourceBinding(source, "jsonl")
    watch.poll(binding)
    watch.set_jobs(config, [job("one", history=(HistorySource(jsonl=Path("/other")),)), job("two")])
    assert report_of(watch).measurements.get("mljob_step") is None
    watch.poll(binding)
    assert source.forgotten == ["one"]
    assert report_of(watch).measurements.get("mljob_step") == 4
    watch.set_jobs(config, [job("two")])
    assert [report.run for report in watch.reports()] == ["two"]


def test_a_checkpoint_ahead_of_a_history_that_answered_since_is_a_conflict() -> None:
    listed = job("one", checkpoints=("/ckpt",))
    clock = Clock()
    watch, _ = watch_of(listed, clock=clock)
    # What is new since the last look: ten rows, then none, twice.
    looks = iter([update(0, 10), update(10, 0), update(10, 0)])
    history = SourceBinding(Scripted(SourceKind.HISTORY, lambda j: next(looks)), "jsonl")
    clock.now = START + 80
    watch.poll(history)
    assert report_of(watch).measurements.get("mljob_state_conflict") is None
    clock.now = START + 670
    watch.poll(history)
    saved = Checkpoint(400, "/ckpt", "/ckpt/step-400", True, "metadata.json", START + 72 + 601)
    clock.now = START + 700
    watch.poll(SourceBinding(Scripted(SourceKind.CHECKPOINTS, lambda j: CheckpointListing((saved,)))))
    # Nobody asked the history since: it may well hold the steps.
    assert report_of(watch).measurements.get("mljob_state_conflict") == 0
    watch.poll(history)
    measured = report_of(watch).measurements
    assert measured.get("mljob_state_conflict") == 1
    assert measured.get("mljob_checkpoint_lag_steps") == 9 - 400


def test_a_job_that_only_gained_places_keeps_what_is_known() -> None:
    found = job("one", discovered=True)
    watch, _ = watch_of(found)
    config = Config(poll_interval="10s", stale_after="100s")  # type: ignore[arg-type]
    source = Scripted(SourceKind.HISTORY, lambda j: update(0, 5))
    watch.poll(SourceBinding(source, "jsonl"))
    labels = found.labels.model_copy(update={"owner": "u1"})
    watch.set_jobs(config, [job("one", discovered=True, checkpoints=("/ckpt",), labels=labels)])
    report = report_of(watch)
    assert report.measurements.get("mljob_step") == 4
    assert report.info["owner"] == "u1"
    source.answer = lambda j: update(5, 5)
    watch.poll(SourceBinding(source, "jsonl"))
    assert source.forgotten == []
    assert report_of(watch).measurements.get("mljob_step") == 9


def test_a_job_of_which_the_config_says_more_keeps_what_is_known() -> None:
    watch, _ = watch_of(job("one", discovered=True, trials=Trials(path="/t")))
    config = Config(poll_interval="10s", stale_after="100s")  # type: ignore[arg-type]
    source = Scripted(SourceKind.HISTORY, lambda j: update(0, 5))
    watch.poll(SourceBinding(source, "jsonl"))
    # It was found, and is listed now: by the same places, with what the history does not say.
    more = TrainerConfig(num_train_steps=50)
    watch.set_jobs(config, [job("one", kind="midtraining", config=more, trials=Trials(path="/t", target=9))])
    report = report_of(watch)
    assert [report.measurements.get(f"mljob_{name}") for name in ("step", "target_step")] == [4, 50]
    assert report.info["kind"] == "midtraining"
    assert source.forgotten == []
    watch.set_jobs(config, [job("one", trials=Trials(path="/elsewhere"))])
    assert report_of(watch).measurements.get("mljob_step") is None


def test_a_batch_schedule_that_the_trainer_tells_late_gives_what_it_gives_from_the_first_row_on() -> None:
    clock = Clock()
    watch, _ = watch_of(job("one"), clock=clock)
    schedule = [{"start": 0, "value": 10}, {"start": 20, "value": 30}]
    told: dict[str, object] = {"trainer": {"train_batch_size": schedule}, "train_seq_len": 100}
    quick = [HistoryRow(i, START + 8.0 * i, i, {"train/loss": 2.0}) for i in range(20)]
    slow = [HistoryRow(20 + i, START + 160.0 + 16.0 * i, 20 + i, {"train/loss": 2.0}) for i in range(10)]
    answers: list[Outcome] = [HistoryUpdate(HistoryRun(), quick), HistoryUpdate(HistoryRun(config=told), slow)]
    source = Scripted(SourceKind.HISTORY, lambda _: answers.pop(0))
    watch.poll(SourceBinding(source, "jsonl"))
    watch.poll(SourceBinding(source, "jsonl"))
    measured = report_of(watch).measurements
    assert measured.get("mljob_tokens_per_second_baseline") == 30 * 100 / 16.0
    assert measured.get("mljob_tokens_per_second") == 30 * 100 / 16.0
