"""A SLURM site whose commands are a stand-in: the lines that these print, the clock, and a source that watches it."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from runwatch.config.model import Site
from runwatch.facts import Failure, FoundSchedulerJob, SchedulerFacts
from runwatch.fleet import Job
from runwatch.sources.protocol import Outcome
from runwatch.sources.slurm_scheduler import SlurmScheduler

STAND_IN = Path(__file__).with_name("slurm_stand_in.py")

# 2026-11-29T17:00:00 UTC; `at(5)` is 17:05:00.
NOON = 1795971600.0


def at(minutes: int) -> str:
    return f"2026-11-29T{17 + minutes // 60:02d}:{minutes % 60:02d}:00"


class Cluster:
    """Lines that the stand-in prints, the clock, and a source that watches it."""

    def __init__(self, folder: Path, zone: str = "UTC") -> None:
        self.folder = folder
        self.now = NOON + 3600
        prefix = (sys.executable, str(STAND_IN), str(folder))
        site = Site(scheduler="slurm", command_prefix=prefix, timezone=zone)
        self.source = SlurmScheduler("hpc", site, lambda _: None, clock=lambda: self.now)

    def queue(self, *lines: str) -> None:
        (self.folder / "squeue").write_text("".join(lines))

    def accounting(self, *lines: str) -> None:
        (self.folder / "sacct").write_text("".join(lines))

    def accounting_of_jobs(self, *lines: str) -> None:
        (self.folder / "sacct.jobs").write_text("".join(lines))

    def search_fails(self) -> None:
        (self.folder / "sacct.search_error").write_text("sacct: error: slurmdbd: Unable to complete the query\n")

    def fails_at_all(self) -> None:
        self.fails("sacct", 1, "sacct: error: Sending PersistInit msg: Connection refused\n")

    def mend_accounting(self) -> None:
        for name in ("search_error", "code", "error"):
            (self.folder / f"sacct.{name}").unlink(missing_ok=True)

    def fails(self, program: str, code: int, said: str) -> None:
        (self.folder / f"{program}.code").write_text(str(code))
        (self.folder / f"{program}.error").write_text(said)

    def mend(self, program: str) -> None:
        for name in ("code", "error"):
            (self.folder / f"{program}.{name}").unlink()

    def poll(self, *names: str) -> list[Outcome]:
        self.now += 60
        outcomes: list[Outcome] = []
        jobs = [Job(run=name, bucket="sft", site="hpc", scheduler_job=name) for name in names]
        self.source.poll(jobs, lambda _, outcome: outcomes.append(outcome))
        return outcomes

    def facts(self, name: str) -> SchedulerFacts:
        [outcome] = self.poll(name)
        assert isinstance(outcome, SchedulerFacts), outcome
        return outcome

    def failure(self, name: str) -> Failure:
        [outcome] = self.poll(name)
        assert isinstance(outcome, Failure), outcome
        return outcome

    def found(self, pattern: str) -> list[FoundSchedulerJob]:
        listed = self.source.find("hpc", pattern)
        assert not isinstance(listed, Failure), listed
        return listed

    def calls(self) -> list[str]:
        noted = self.folder / "calls"
        called = noted.read_text().split() if noted.exists() else []
        noted.write_text("")
        return called


def queued(
    job: str, word: str, start: str = "N/A", end: str = "N/A", *, name: str = "train", user: str = "u1",
    depends: str = "(null)", reason: str = "None", submit: str = at(0), used: str = "1:00",
) -> str:  # fmt: skip
    return "¦".join((job, word, used, depends, reason, submit, start, end, user, "n1", "/data/wd", name, "\n"))


def accounted(
    job: str, word: str, start: str, end: str, *, exited: str = "0:0", name: str = "train", user: str = "u1",
    submit: str = at(0), line: str = "sbatch train.sh",
) -> str:  # fmt: skip
    known = [datetime.fromisoformat(time) for time in (start, end) if time[:2] == "20"]
    ran = f"{(known[1] - known[0]).total_seconds():.0f}" if len(known) > 1 else "60"
    return "¦".join((job, word, exited, "0:0", ran, submit, start, end, user, "n1", "/data/wd", name, line, "\n"))
