"""How often the jobs of a source are read: more of them than fit into one poll, and a site that hangs."""

from __future__ import annotations

import threading
import time
from collections import Counter

from runwatch.config.model import Config, Trials
from runwatch.facts import CheckpointListing, SourceKind, TrialsUpdate
from runwatch.fleet import Job
from runwatch.poller import Poller
from runwatch.sources.binding import SourceBinding
from runwatch.sources.per_job import PerJobSource
from runwatch.sources.protocol import Outcome
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch


def jobs_of(site: str, count: int) -> list[Job]:
    return [Job(run=f"{site}-{number:02}", bucket="sft", site=site, checkpoints=("/c",)) for number in range(count)]


def test_what_one_poll_cannot_read_is_read_within_the_interval_and_a_hung_site_is_not_asked_again() -> None:
    config = Config.model_validate({"poll_interval": "20s"})
    release = threading.Event()
    lock = threading.Lock()
    reads: Counter[str] = Counter()

    def read(job: Job) -> Outcome:
        with lock:
            reads[job.run] += 1
        if job.site == "hung":
            release.wait(60)
        time.sleep(0.05)
        return CheckpointListing(())

    # One slot a site, 0.05 s a read and 0.5 s a poll: not more than ten jobs of a site in each.
    source = PerJobSource(SourceKind.CHECKPOINTS, read, deadline=0.5, interval=20.0, in_flight_per_site=1)
    jobs = [*jobs_of("slow", 30), *jobs_of("hung", 5)]
    watch = Watch(config, Telemetry())
    watch.set_jobs(config, jobs)
    poller = Poller(watch, lambda: None)
    begun = time.monotonic()
    poller.set_bindings(config, [SourceBinding(source)])
    slow = [record for record in watch.records() if record.job.site == "slow"]
    while time.monotonic() - begun < 60 and not all(r.latest_outcome(SourceKind.CHECKPOINTS) is True for r in slow):
        time.sleep(0.02)
    assert all(record.latest_outcome(SourceKind.CHECKPOINTS) is True for record in slow)
    # What was read is not read again before its interval is over, but for one read that the end of a poll cut off.
    assert sum(count for run, count in reads.items() if run.startswith("slow")) <= 30 + 10
    assert [run for run in reads if run.startswith("hung")] == ["hung-00"]
    release.set()
    poller.stop(10)
    source.close()


def test_the_interval_is_the_time_of_a_round_where_that_takes_longer() -> None:
    config = Config.model_validate({"poll_interval": "1s"})

    def read(job: Job) -> Outcome:
        time.sleep(0.05 if job.site == "slow" else 0.0)
        return TrialsUpdate(())

    source = PerJobSource(SourceKind.TRIALS, read, deadline=0.5, interval=1.0, in_flight_per_site=1)
    sites = {"slow": 60, "quick": 3}
    jobs = [
        Job(run=f"{site}-{number}", bucket="eval", site=site, trials=Trials(path="/t"))
        for site, count in sites.items()
        for number in range(count)
    ]
    watch = Watch(config, Telemetry())
    watch.set_jobs(config, jobs)
    poller = Poller(watch, lambda: None)
    poller.set_bindings(config, [SourceBinding(source)])
    begun = time.monotonic()
    # 60 reads of 0.05 s one after the other, and what lies between polls.
    while time.monotonic() - begun < 60 and watch.intervals("slow")["trials"] < 60 * 0.05:
        time.sleep(0.05)
    assert watch.intervals("slow")["trials"] >= 60 * 0.05
    assert watch.intervals("slow")["history"] == 1
    assert watch.intervals("quick")["trials"] < watch.intervals("slow")["trials"]
    poller.stop(10)
    source.close()
