"""How often a source comes back to a job, as measured from what its polls read."""

from __future__ import annotations

from collections.abc import Iterable

from runwatch.config.model import Config
from runwatch.facts import Failure, FailureReason, SourceKind
from runwatch.fleet import Job
from runwatch.rounds import Rounds
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Outcome
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.unit.test_watch import START, Clock, Scripted, job, update

KIND = SourceKind.CHECKPOINTS
JOBS = tuple("abcdef")


class Polls:
    """Polls of one source that serves the jobs of one site, one a minute."""

    def __init__(self, jobs: Iterable[str] = JOBS) -> None:
        self.rounds = Rounds()
        self.jobs = dict.fromkeys(jobs, "lab")
        self.now = 1000.0

    def poll(self, *read: str, whole: bool = True, seconds: float = 60.0) -> None:
        self.rounds.polled("checkpoints", KIND, self.jobs, dict.fromkeys(read, self.now), whole=whole)
        self.now += seconds

    @property
    def interval(self) -> float:
        return self.rounds.interval(KIND, "lab", 60.0)


def test_it_is_the_configured_one_while_every_poll_reads_all() -> None:
    polls = Polls()
    assert polls.interval == 60
    for jitter in (0, 20, 0, 29):
        polls.poll(*JOBS, seconds=60 + jitter)
    polls.poll(*JOBS)
    assert polls.interval == 60


def test_a_round_that_takes_longer_is_the_interval_and_no_more_once_it_is_quick_again() -> None:
    polls = Polls()
    for run in JOBS * 2:
        polls.poll(run)
    assert polls.interval == 360
    for _ in range(2):
        polls.poll(*JOBS)
    assert polls.interval == 60


def test_the_last_polls_that_serve_only_whose_turn_did_not_come_count_too() -> None:
    polls = Polls()
    for _ in range(2):
        polls.poll("a", "b", "c", seconds=100)
        polls.poll("d", "e", "f", whole=False, seconds=100)
    assert polls.interval == 200


def test_an_outage_is_no_round() -> None:
    polls = Polls()
    polls.poll(*JOBS)
    for _ in range(120):
        polls.poll()
    polls.poll(*JOBS)
    assert polls.interval == 60


def test_one_job_that_is_seldom_read_hides_no_age_of_the_others() -> None:
    polls = Polls()
    for _ in range(2):
        polls.poll(*JOBS)
        for _ in range(30):
            polls.poll(*JOBS[1:])
    polls.poll(*JOBS)
    assert polls.interval == 60


def test_a_job_that_was_not_asked_for_meanwhile_was_not_waited_for() -> None:
    polls = Polls("ab")
    polls.poll("a", "b")
    polls.jobs = {"b": "lab"}
    for _ in range(30):
        polls.poll("b")
    polls.jobs = {"a": "lab", "b": "lab"}
    polls.poll("a", "b")
    polls.jobs = {"a": "lab"}
    polls.poll("a")
    assert polls.interval == 60


def test_sites_sources_and_histories_are_measured_apart_and_the_slowest_history_counts() -> None:
    rounds = Rounds()
    for minute in range(3):
        now = minute * 300.0
        rounds.polled("checkpoints", KIND, {"a": "slow", "b": "quick"}, {"a": now, "b": minute * 60.0}, whole=True)
        rounds.polled("wandb", SourceKind.HISTORY, {"a": "slow"}, {"a": minute * 60.0}, whole=True)
        rounds.polled("log", SourceKind.HISTORY, {"b": "slow"}, {"b": now * 2}, whole=True)
    assert rounds.interval(KIND, "slow", 60.0) == 300
    assert rounds.interval(KIND, "quick", 60.0) == 60
    assert rounds.interval(SourceKind.HISTORY, "slow", 60.0) == 600
    assert rounds.interval(SourceKind.TRIALS, "slow", 60.0) == 60


def test_a_job_is_not_called_unobserved_between_two_rounds_of_a_slow_site() -> None:
    clock = Clock()
    turn = ""
    waiting = Failure(FailureReason.TIMEOUT, "its turn did not come")

    def answer(job: Job) -> Outcome:
        return update(int(clock.now - START), 1) if job.run == turn else waiting

    source = SourceBinding(Scripted(SourceKind.HISTORY, answer), "jsonl")
    config = Config.model_validate({"poll_interval": "60s"})
    telemetry = Telemetry()
    watch = Watch(config, telemetry, clock=clock, monotonic=clock)
    watch.set_jobs(config, [job(run, "lab") for run in JOBS])
    for number in range(24):
        clock.now += 120
        turn = JOBS[number % 6]
        watch.poll(source)
    body = telemetry.render(reproducible=True).decode()
    assert 'runwatch_source_interval_seconds{site="lab",source="history"} 720.0' in body
    for report in watch.reports():
        assert report.intervals["history"] == 720
        assert "unobserved" not in {verdict.word for verdict in report.verdicts}
