"""An `IrisScheduler` on one site, and single looks through it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runwatch.config.model import Site
from runwatch.facts import Failure, SchedulerFacts
from runwatch.fleet import Job
from runwatch.sources.iris import IrisScheduler
from runwatch.sources.protocol import Outcome

SITE = "marin"


def watched(scheduler_job: str, site: str = SITE) -> Job:
    """A job that names its id at the scheduler."""
    return Job(run=f"run of {scheduler_job}", bucket="sft", site=site, scheduler="iris", scheduler_job=scheduler_job)


class Watch:
    """Polls a source; `requests` counts by site what it says that it sent."""

    def __init__(self, source: IrisScheduler, requests: Counter[str]) -> None:
        self.source, self.requests = source, requests

    def outcomes(self, scheduler_jobs: Sequence[str]) -> dict[str, Outcome]:
        """Poll once and return what was delivered, by id; each job must have one outcome."""
        delivered: list[tuple[str, Outcome]] = []
        jobs = [watched(scheduler_job) for scheduler_job in scheduler_jobs]
        self.source.poll(jobs, lambda job, outcome: delivered.append((job.scheduler_job, outcome)))
        assert sorted(job for job, _ in delivered) == sorted(scheduler_jobs)
        return dict(delivered)

    def facts(self, scheduler_job: str) -> SchedulerFacts:
        """Poll one job, which must be readable."""
        outcome = self.outcomes([scheduler_job])[scheduler_job]
        assert isinstance(outcome, SchedulerFacts), outcome
        return outcome

    def failure(self, scheduler_job: str) -> Failure:
        """Poll one job, which must not be readable."""
        outcome = self.outcomes([scheduler_job])[scheduler_job]
        assert isinstance(outcome, Failure), outcome
        return outcome

    def readable(self, scheduler_job: str, seconds: float = 60.0) -> SchedulerFacts:
        """Poll one job until it can be read: the last look at a controller that hung may not be over yet."""
        deadline = time.monotonic() + seconds
        while not isinstance(outcome := self.outcomes([scheduler_job])[scheduler_job], SchedulerFacts):
            assert time.monotonic() < deadline, outcome
            time.sleep(0.05)
        return outcome

    def until(
        self, scheduler_job: str, wanted: Callable[[SchedulerFacts], bool], seconds: float = 60.0
    ) -> SchedulerFacts:
        """Poll one job until its facts are as wanted."""
        deadline = time.monotonic() + seconds
        while True:
            facts = self.facts(scheduler_job)
            if wanted(facts):
                return facts
            assert time.monotonic() < deadline, facts
            time.sleep(0.1)


@contextmanager
def watch_iris(
    controller: str,
    *,
    token_file: Path | None = None,
    token_command: tuple[str, ...] | None = None,
    token_header: str = "Authorization",
    at: float | None = None,
    clock: Callable[[], float] = time.time,
    deadline_seconds: float = 20.0,
) -> Iterator[Watch]:
    """Yield a source on a controller."""
    site = Site.model_validate(
        {
            "scheduler": "iris",
            "controller": controller,
            "token_file": token_file,
            "token_command": token_command,
            "token_header": token_header,
        }
    )
    requests: Counter[str] = Counter()
    source = IrisScheduler(
        SITE, site, lambda name: requests.update([name]), at=at, clock=clock, deadline_seconds=deadline_seconds
    )
    try:
        yield Watch(source, requests)
    finally:
        source.close()
