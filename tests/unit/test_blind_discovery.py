"""Where jobs are looked for in vain and none is known, the source is down: that there are no jobs nobody can say."""

from __future__ import annotations

from runwatch.facts import Failure, FailureReason, SourceKind
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.unit.scripted_finders import DOWN, record
from tests.unit.test_discovery import MARIN, Looks
from tests.unit.test_watch import line


class Told:
    """What is told of the sources of a fleet that is found, not listed."""

    def __init__(self) -> None:
        self.looks = Looks([MARIN, {"wandb": "lab/rl", "bucket": "rl"}])
        self.telemetry = Telemetry()
        self.watch = Watch(self.looks.config, self.telemetry)

    def up(self) -> tuple[float | None, float | None]:
        self.watch.set_jobs(self.looks.config, self.looks.fleet().jobs)
        self.watch.note_blind(self.looks.finder.blind)
        scheduler = line(self.telemetry, "runwatch_source_up", source="scheduler", site="m")
        return scheduler, line(self.telemetry, "runwatch_source_up", source="history", site="none")


def test_an_exporter_that_starts_blind_says_so() -> None:
    told = Told()
    assert told.up() == (None, None)  # both answer: there are no jobs
    told.looks.schedulers["m"].failure = DOWN
    assert told.up() == (0, None)
    told.looks.wandb.failure = Failure(FailureReason.NOT_FOUND, "no such project")
    assert told.up() == (0, None)  # an answer
    told.looks.wandb.failure = Failure(FailureReason.AUTH, "the key is refused")
    assert told.up() == (0, 0)
    told.looks.schedulers["m"].failure = told.looks.wandb.failure = None
    assert told.up() == (None, None)


def test_jobs_that_are_known_tell_more_than_the_search_for_more() -> None:
    told = Told()
    told.looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    told.up()
    (job,) = told.watch.records()
    told.looks.schedulers["m"].failure = DOWN
    assert told.up() == (0, None)  # it was not read yet
    job.apply(SourceKind.SCHEDULER, Failure(FailureReason.NOT_FOUND, "no record of it"), 0.0, position=0, interval=60.0)
    assert told.up() == (1, None)
