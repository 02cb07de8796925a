"""A fault of the program itself in one source or one job: what it may take with it, and what must go on."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

import runwatch.watch
from runwatch.config.model import Config
from runwatch.derive.job import measure_job
from runwatch.derive.job_view import JobView
from runwatch.derive.observation import Intervals
from runwatch.discovery import Finders
from runwatch.facts import SourceKind
from runwatch.fleet import Job
from runwatch.measurements import JobReport
from runwatch.poller import Poller
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Deliver
from tests.unit.scripted_finders import record
from tests.unit.test_discovery import Looks
from tests.unit.test_watch import START, Clock, Scripted, job, line, report_of, update, watch_of


class Faulty(Scripted):
    """Answers for the first job, and then falls over its own feet while it is told to."""

    def __init__(self) -> None:
        super().__init__(SourceKind.HISTORY, lambda j: update(0, 5))
        self.falls = True

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        super().poll(jobs[:1] if self.falls else jobs, deliver)
        if self.falls:
            raise KeyError("what nobody thought of")


def test_a_source_that_fails_by_its_own_fault_has_failed_to_look(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    watch, telemetry = watch_of(job("one"), job("two", site="b"), clock=clock)
    source = Faulty()
    binding = SourceBinding(source, "jsonl")
    watch.poll(binding)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].exc_info is not None
    assert line(telemetry, "runwatch_source_up", source="history", site="a") == 1
    assert line(telemetry, "runwatch_source_up", source="history", site="b") == 0
    assert line(telemetry, "runwatch_source_errors_total", site="b", reason="other") == 1
    assert line(telemetry, "runwatch_source_last_success_timestamp_seconds", site="b") is None
    source.falls = False
    clock.now = START + 10
    watch.poll(binding)
    assert line(telemetry, "runwatch_source_last_success_timestamp_seconds", site="b") == START + 10
    assert report_of(watch, "two").measurements.get("mljob_step") == 4


def test_a_poller_outlives_a_fault_of_its_source_and_of_what_is_published() -> None:
    watch, _ = watch_of(job("one"))
    polls = threading.Semaphore(0)

    def publish() -> None:
        polls.release()
        raise ValueError("not to be rendered")

    poller = Poller(watch, publish)
    poller.set_bindings(Config(poll_interval="1s", stale_after="1h"), [SourceBinding(Faulty(), "jsonl")])  # type: ignore[arg-type]
    assert all(polls.acquire(timeout=60) for _ in range(2))
    poller.stop(10)


def test_a_job_that_cannot_be_derived_keeps_back_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def poisoned(view: JobView, now: float, intervals: Intervals) -> JobReport:
        if view.job.run == "one":
            raise ZeroDivisionError
        return measure_job(view, now, intervals)

    watch, _ = watch_of(job("one"), job("two"))
    monkeypatch.setattr(runwatch.watch, "measure_job", poisoned)
    for _ in range(3):
        assert [report.run for report in watch.reports(apart=True)] == ["two"]
        assert watch.unmeasured == {"one"}
    # Told once, not at every scrape.
    assert [record.getMessage() for record in caplog.records] == ["deriving one failed by a fault of this program"]
    with pytest.raises(ZeroDivisionError):  # a look of the command line leaves no job out
        watch.reports()
    monkeypatch.undo()
    assert [report.run for report in watch.reports(apart=True)] == ["one", "two"]
    assert watch.unmeasured == frozenset()


def test_discovery_at_a_source_that_was_closed_meanwhile_is_a_failed_look() -> None:
    looks = Looks([{"site": "m", "match": "(?P<name>[a-z]+)-coord", "bucket": "sft"}, {"wandb": "e/p", "bucket": "rl"}])
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    looks.wandb.add("e/p/phi")
    assert set(looks.jobs()) == {"delphi", "phi"}

    class Closed:
        def find(self, site: str, pattern: str) -> list[object]:
            raise RuntimeError("cannot schedule new futures after shutdown")

        def discover(self, project: str, state: str | None, **more: object) -> list[object]:
            raise RuntimeError("cannot schedule new futures after shutdown")

    closed = Finders(Closed(), {"m": Closed()})  # type: ignore[arg-type, dict-item]
    fleet, failures = looks.finder.look(looks.config, closed, looks.now + 60)
    assert {found.run for found in fleet.jobs} == {"delphi", "phi"}
    assert sorted(failure.detail for failure in failures) == ["the look failed: RuntimeError"] * 2
