"""A reload of the config while polls go on: sources made anew, polls of those they replace, jobs that come and go."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from runwatch.config.model import Config, HistorySource
from runwatch.facts import Failure, FailureReason, HistoryRun, HistoryUpdate, SourceKind
from runwatch.fleet import Job
from runwatch.poller import Poller
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Deliver, Outcome
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.unit.log_watching import BANNER, logged_step
from tests.unit.test_watch import DOWN, START, Clock, Scripted, job, line, report_of, rows, update, watch_of

CONFIG = Config(poll_interval="1h", stale_after="3h")  # type: ignore[arg-type]


def numbers(watch: Watch) -> dict[str, dict[tuple[str, ...], float]]:
    measured = report_of(watch).measurements
    return {name: dict(measured.family(name)) for name in measured.names()}


def history(watch: Watch, *names: str) -> list[float | None]:
    measured = report_of(watch).measurements
    return [measured.get(f"mljob_{name}") for name in names]


def observed(watch: Watch) -> float | None:
    at = report_of(watch).measurements.get("mljob_observed_timestamp_seconds", source="history")
    return None if at is None else at - START


def test_a_log_that_a_new_reader_reads_from_the_first_line_gives_the_same_numbers(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(BANNER.format(total=100) + "".join(logged_step(step, 100) for step in range(1, 41)))
    listed = Job("one", "sft", history=(HistorySource(log=str(log)),))
    clock = Clock()
    sources, watch = SourceSet(Telemetry()), Watch(CONFIG, Telemetry(), clock=clock)
    found = []
    for roots in ([tmp_path], [tmp_path, tmp_path / "more"]):
        config = CONFIG.model_copy(update={"file_roots": tuple(roots)})
        watch.set_jobs(config, [listed])
        for binding in sources.bindings(config, [listed]):
            watch.poll(binding)
        found.append(numbers(watch))
    sources.close()
    assert found[0]["mljob_step"] == {(): 40.0}
    assert found[0]["mljob_replayed_steps"] == {(): 0.0}
    assert found[1] == found[0]


def test_a_job_with_a_log_that_goes_and_comes_back_has_all_its_rows(tmp_path: Path) -> None:
    log, other = tmp_path / "train.log", tmp_path / "rows.jsonl"
    log.write_text(BANNER.format(total=100) + "".join(logged_step(step, 100) for step in range(1, 31)))
    other.write_text("")
    listed = Job("one", "sft", history=(HistorySource(log=str(log)),))
    sources, watch = SourceSet(Telemetry()), Watch(CONFIG, Telemetry(), clock=Clock())
    config = CONFIG.model_copy(update={"file_roots": (tmp_path,)})
    found = []
    # Without the job, nothing reads logs any more, and what did is not asked again.
    for jobs in ([listed], [replace(listed, history=(HistorySource(jsonl=other),))], [listed]):
        watch.set_jobs(config, jobs)
        for binding in sources.bindings(config, jobs):
            watch.poll(binding)
        found.append(numbers(watch))
    sources.close()
    assert found[0]["mljob_step"] == {(): 30.0}
    assert "mljob_step" not in found[1]
    assert found[2] == found[0]


def test_what_was_read_stays_until_a_source_made_anew_has_read_as_much() -> None:
    clock = Clock()
    watch, _ = watch_of(job("one"), clock=clock)
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 20)), "jsonl"))
    assert history(watch, "step", "replayed_steps") == [19, 0]
    halves = [replace(update(first, 5), caught_up=False) for first in (0, 5)]
    pages: Iterator[Outcome] = iter([DOWN, *halves, update(10, 15)])
    anew = SourceBinding(Scripted(SourceKind.HISTORY, lambda j: next(pages)), "jsonl")
    for reading in (False, True, True):
        clock.now += 10
        watch.poll(anew)
        assert (history(watch, "step", "replayed_steps"), observed(watch)) == ([19, 0], 0)
        assert watch.is_reading(anew) is reading
    clock.now += 10
    watch.poll(anew)
    assert (history(watch, "step", "replayed_steps"), observed(watch)) == ([24, 0], 40)
    assert not watch.is_reading(anew)


def test_a_first_read_that_a_source_made_anew_takes_over_counts_no_row_twice() -> None:
    watch, _ = watch_of(job("one"))
    half = replace(update(0, 8), caught_up=False)
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: half), "jsonl"))
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 12)), "jsonl"))
    assert history(watch, "step", "replayed_steps") == [11, 0]


class Paged(Scripted):
    """Delivers one page, and another when it is let go on."""

    def __init__(self) -> None:
        super().__init__(SourceKind.HISTORY, lambda j: DOWN)
        self.has_delivered, self.may_go_on = threading.Event(), threading.Event()

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        deliver(jobs[0], replace(update(0, 5), caught_up=False))
        self.has_delivered.set()
        assert self.may_go_on.wait(10)
        deliver(jobs[0], update(5, 5))


def test_a_poll_that_goes_on_at_a_source_that_was_replaced_changes_nothing_any_more() -> None:
    watch, _ = watch_of(job("one"))
    published = threading.Event()
    poller = Poller(watch, published.set)
    old = Paged()
    poller.set_bindings(CONFIG, [SourceBinding(old, "jsonl")])
    assert old.has_delivered.wait(10)
    anew = Scripted(SourceKind.HISTORY, lambda j: update(0, 12))
    [ended] = poller.set_bindings(CONFIG, [SourceBinding(anew, "jsonl")])
    assert published.wait(10)
    before = numbers(watch)
    old.may_go_on.set()
    ended.join(10)
    poller.stop(10)
    assert before["mljob_step"] == {(): 11.0}
    assert before["mljob_replayed_steps"] == {(): 0.0}
    assert numbers(watch) == before


def test_what_is_kept_for_sources_goes_with_them() -> None:
    watch, _ = watch_of(job("one"))
    for number in range(50):
        watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: update(0, 5)), "jsonl"))
        watch.set_jobs(CONFIG, [job("one"), job(f"cell-{number}")])
    gc.collect()
    # The last source was not polled since a job was dropped.
    assert [sorted(runs) for runs in watch._to_forget.values()] == [["cell-48"]]


def test_a_place_that_was_found_later_is_asked_for_since_then() -> None:
    clock = Clock()
    watch, _ = watch_of(job("one", discovered=True), clock=clock)
    clock.now += 7000
    watch.set_jobs(CONFIG, [job("one", discovered=True, checkpoints=("/ckpt",))])
    clock.now += 60
    watch.set_jobs(CONFIG, [job("one", discovered=True, checkpoints=("/ckpt",))])
    since = report_of(watch).measurements.family("mljob_source_configured_timestamp_seconds")
    assert since == {("history",): START, ("checkpoints",): START + 7000}


def test_lines_that_could_not_be_read_are_counted_though_the_look_failed() -> None:
    watch, telemetry = watch_of(job("one"))
    failure = Failure(FailureReason.PARSE, "no row", malformed=3)
    watch.poll(SourceBinding(Scripted(SourceKind.HISTORY, lambda j: failure), "jsonl"))
    assert line(telemetry, "runwatch_history_rows_malformed_total", run="one") == 3


def test_an_outcome_of_a_job_that_is_gone_makes_no_series() -> None:
    watch, telemetry = watch_of(job("one"), job("two"))

    class Overtaken(Scripted):
        def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
            watch.set_jobs(CONFIG, [job("two")])
            super().poll(jobs, deliver)

    answer = HistoryUpdate(HistoryRun(), rows(0, 3), malformed=2)
    watch.poll(SourceBinding(Overtaken(SourceKind.HISTORY, lambda j: answer), "jsonl"))
    assert line(telemetry, "runwatch_history_rows_malformed_total", run="one") is None
    assert line(telemetry, "runwatch_history_rows_malformed_total", run="two") == 2
