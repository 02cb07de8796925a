"""Discovery as a whole, on scripted schedulers and projects: what the fleet is at each look."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runwatch.config.model import Config
from runwatch.discovery import Finders, FleetFinder
from runwatch.facts import Failure, FailureReason, FoundSchedulerJob, SchedulerState
from runwatch.fleet import Fleet, Job
from runwatch.remembered import Remembered
from runwatch.sources.protocol import FoundRun
from runwatch.telemetry import Telemetry
from tests.unit.scripted_finders import DOWN, ScriptedProjects, ScriptedScheduler, record

NOW = 1_000_000.0
LINGER = 86_400.0


class Looks:
    """A finder and what it asks, minute by minute."""

    def __init__(self, discover: list[dict[str, object]], path: Path | None = None, **config: object) -> None:
        sites = {
            "m": {"scheduler": "iris", "controller": "http://127.0.0.1:1"},
            "l": {"scheduler": "slurm", "timezone": "UTC"},
            "k": {"scheduler": "kubernetes"},
        }
        self.config = Config.model_validate({"sites": sites, "discover": discover, "state_file": path, **config})
        self.schedulers = {site: ScriptedScheduler() for site in sites}
        self.wandb = ScriptedProjects()
        self.now = NOW
        self.failures: tuple[Failure, ...] = ()
        self.finder = self.restarted()

    def restarted(self, at: float | None = None) -> FleetFinder:
        remembered = Remembered(self.config.state_file, LINGER, clock=lambda: self.now)
        self.finder = FleetFinder(Telemetry(), remembered, at=at)
        return self.finder

    def fleet(self, minutes: float = 1.0) -> Fleet:
        self.now += 60.0 * minutes
        fleet, self.failures = self.finder.look(self.config, Finders(self.wandb, self.schedulers), self.now)
        assert self.finder.current(self.config, self.now) == fleet
        return fleet

    def jobs(self, minutes: float = 1.0) -> dict[str, Job]:
        return {job.run: job for job in self.fleet(minutes).jobs}

    def histories(self) -> dict[str, list[str | None]]:
        return {run: [source.wandb for source in job.history] for run, job in self.jobs().items()}


MARIN: dict[str, object] = {
    "site": "m",
    "match": r"^/u1/(?P<name>.+)-coord$",
    "bucket": "sft",
    "history": {"wandb": "lab/mid/{name}-*"},
}


def test_jobs_of_three_schedulers_and_of_a_project() -> None:
    looks = Looks(
        [
            MARIN,
            {"site": "l", "match": "^(?P<arm>[a-z]+)-(?P<name>.+)", "bucket": "rl", "checkpoints": ["/c/{arm}/{name}"]},
            {"site": "k", "match": "^eval-", "bucket": "eval"},
            {"wandb": "lab/rl", "bucket": "rl"},
        ]
    )
    looks.schedulers["m"].records = [record("/u1/delphi-coord"), record("/u2/other-coord")]
    looks.schedulers["l"].records = [FoundSchedulerJob("12", "base-q | $(x)", SchedulerState.PENDING, 5.0, "bob")]
    looks.schedulers["k"].records = [FoundSchedulerJob("job/eval-1", "eval-1", SchedulerState.RUNNING, 7.0)]
    looks.wandb.add("lab/rl/r1", 9.0)
    jobs = looks.jobs()
    assert {run: (job.site, job.scheduler, job.scheduler_job) for run, job in jobs.items()} == {
        "delphi": ("m", "iris", "/u1/delphi-coord"),
        "q | $(x)": ("l", "slurm", "12"),
        "eval-1": ("k", "kubernetes", "job/eval-1"),
        "r1": ("none", "", ""),
    }
    assert jobs["q | $(x)"].checkpoints == ("/c/base/q | $(x)",)
    assert jobs["delphi"].history == ()
    assert looks.failures == ()


def test_a_job_without_a_group_is_known_by_its_local_name() -> None:
    looks = Looks([{"site": "m", "match": "^/u1/", "bucket": "other"}])
    looks.schedulers["m"].records = [record("/u1/a"), record("/u1/a/child"), record("/u1/b")]
    assert list(looks.jobs()) == ["a", "b"]


def test_a_history_that_is_not_there_yet_is_looked_for_at_each_look_and_then_stays() -> None:
    looks = Looks([MARIN])
    looks.schedulers["m"].records = [record("/u1/delphi-coord"), record("/u1/phi-coord")]
    assert looks.histories() == {"delphi": [], "phi": []}  # the project itself is not there
    assert looks.failures == ()
    looks.wandb.add("lab/mid/delphi-aa11", NOW)
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"], "phi": []}
    looks.wandb.add("lab/mid/delphi-bb22", NOW + 500.0)
    looks.wandb.add("lab/mid/phi-cc33", NOW + 500.0)
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"], "phi": ["lab/mid/phi-cc33"]}
    # One listing a look for all jobs of the project, and none once all is found.
    asked = len(looks.wandb.asked)
    assert asked == 3
    looks.jobs()
    assert len(looks.wandb.asked) == asked


def test_a_listing_of_a_project_serves_for_the_interval() -> None:
    looks = Looks([MARIN], history_interval="10m", stale_after="2h")
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    looks.wandb.add("lab/mid/other-1")
    for _ in range(21):
        looks.jobs()
    assert len(looks.wandb.asked) == 3


def test_a_resubmission_is_resolved_anew_and_a_failure_keeps_what_was_found() -> None:
    looks = Looks([MARIN])
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    looks.wandb.add("lab/mid/delphi-aa11", 150.0)
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"]}
    looks.schedulers["m"].records = [record("/u1/delphi-coord", submitted=NOW)]
    looks.wandb.add("lab/mid/delphi-bb22", NOW + 60.0)
    looks.wandb.failure = DOWN
    looks.now += 600.0
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"]}
    assert looks.failures == (DOWN,)
    looks.wandb.failure = None
    assert looks.histories() == {"delphi": ["lab/mid/delphi-bb22"]}


def test_the_childs_name_tells_which_of_several() -> None:
    looks = Looks([MARIN])
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    looks.wandb.add("lab/mid/delphi-aa11", 1.0)
    looks.wandb.add("lab/mid/delphi-bb22", 2.0)
    assert looks.histories() == {"delphi": ["lab/mid/delphi-bb22"]}
    child = "/u1/delphi-coord/checkpoints-delphi_aa11-efc771c2"
    looks.schedulers["m"].records = [record("/u1/delphi-coord", child=child)]
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"]}


def test_a_run_that_a_more_exact_template_or_a_listed_job_means_is_not_taken() -> None:
    listed = {
        "run": "mine",
        "bucket": "sft",
        "site": "m",
        "scheduler_job": "/u1/mine",
        "history": {"wandb": "lab/mid/delphi-mine"},
    }
    looks = Looks([MARIN], jobs=[listed])
    looks.schedulers["m"].records = [record("/u1/delphi-coord"), record("/u1/delphi-big-coord")]
    looks.wandb.add("lab/mid/delphi-big-aa11", 1.0)
    looks.wandb.add("lab/mid/delphi-mine", 1.0)
    assert looks.histories() == {
        "mine": ["lab/mid/delphi-mine"],
        "delphi": [],
        "delphi-big": ["lab/mid/delphi-big-aa11"],
    }


def test_a_run_found_in_wandb_gets_its_scheduler_job() -> None:
    looks = Looks([MARIN, {"wandb": "lab/mid", "bucket": "rl"}])
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    looks.wandb.add("lab/mid/delphi-aa11", NOW)
    looks.wandb.add("lab/mid/other", NOW)
    jobs = looks.jobs()
    assert {run: (job.bucket, job.site, job.scheduler_job) for run, job in jobs.items()} == {
        "delphi": ("rl", "m", "/u1/delphi-coord"),
        "other": ("rl", "none", ""),
    }


def test_found_jobs_outlive_their_listing_and_a_restart(tmp_path: Path) -> None:
    looks = Looks([MARIN], tmp_path / "state.json")
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    looks.wandb.add("lab/mid/delphi-aa11", 150.0)
    before = looks.jobs()
    looks.schedulers["m"].records = []
    looks.wandb.projects.clear()
    assert looks.jobs(60) == before
    looks.restarted()
    assert looks.jobs(60) == before
    assert looks.jobs(25 * 60) == {}
    looks.restarted()
    assert looks.jobs() == {}


def test_without_a_state_file_a_job_that_the_scheduler_forgot_is_absent_after_a_restart() -> None:
    looks = Looks([MARIN])
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    assert list(looks.jobs()) == ["delphi"]
    looks.restarted()
    assert list(looks.jobs()) == ["delphi"]
    looks.schedulers["m"].records = []
    looks.restarted()
    assert looks.jobs() == {}


def test_a_site_that_cannot_be_read_lets_no_job_go_and_delays_no_other() -> None:
    looks = Looks([MARIN, {"site": "l", "match": "x", "bucket": "rl"}, {"site": "k", "match": "x", "bucket": "rl"}])
    looks.schedulers["m"].records = [record("/u1/delphi-coord")]
    assert list(looks.jobs()) == ["delphi"]
    looks.schedulers["m"].failure = DOWN
    del looks.schedulers["k"]
    looks.schedulers["l"].records = [record("x1")]
    assert set(looks.jobs(3 * 24 * 60)) == {"delphi", "x1"}
    assert [failure.reason for failure in looks.failures] == [FailureReason.OTHER, FailureReason.NETWORK]


def test_sites_are_asked_side_by_side() -> None:
    looks = Looks([MARIN, {"site": "l", "match": "x", "bucket": "rl"}])
    meeting = threading.Barrier(2, timeout=20)

    class Meets(ScriptedScheduler):
        def find(self, site: str, pattern: str) -> list[FoundSchedulerJob] | Failure:
            meeting.wait()
            return super().find(site, pattern)

    looks.schedulers |= {"m": Meets([record("/u1/a-coord")]), "l": Meets([record("x")])}
    assert set(looks.jobs()) == {"a", "x"}


def test_a_changed_config_moves_jobs_to_the_entries_that_match() -> None:
    looks = Looks([MARIN])
    looks.schedulers["m"].records = [record("/u1/delphi-coord"), record("/u1/phi-coord")]
    assert list(looks.jobs()) == ["delphi", "phi"]
    other = Looks([{"site": "m", "match": "/(?P<name>d.+)-coord", "bucket": "eval"}]).config
    assert [(job.run, job.bucket) for job in looks.finder.current(other, looks.now).jobs] == [("delphi", "eval")]
    none = Looks([]).config
    assert looks.finder.current(none, looks.now).jobs == ()


def test_an_entry_of_a_project_that_was_edited_keeps_the_runs_that_were_found() -> None:
    running: dict[str, object] = {"wandb": "e/p", "bucket": "rl", "state": "running"}
    looks = Looks([running, {"wandb": "e/q", "bucket": "rl"}])
    looks.wandb.add("e/p/phi")
    assert list(looks.jobs()) == ["phi"]
    folder = {"checkpoints": ["/ckpt/{name}"], "labels": {"hold": "no-kill"}}
    looks.config = Looks([{"wandb": "e/p", "bucket": "eval"}, running | folder]).config
    [job] = looks.finder.current(looks.config, looks.now).jobs
    assert (job.run, job.bucket, job.labels.hold, job.checkpoints) == ("phi", "rl", "no-kill", ("/ckpt/phi",))
    looks.wandb.failure = DOWN  # what cannot be asked again is not gone
    assert looks.fleet().jobs == (job,)
    looks.config = Looks([{"wandb": "e/q", "bucket": "rl"}]).config
    assert looks.fleet().jobs == ()


def test_jobs_submitted_after_the_time_looked_at_are_hidden() -> None:
    looks = Looks([{"site": "m", "match": ".", "bucket": "rl"}])
    looks.schedulers["m"].records = [record("/u1/a", submitted=NOW - 1.0), record("/u1/b", submitted=NOW + 1.0)]
    finder = looks.restarted(at=NOW)
    fleet, _ = finder.look(looks.config, Finders(None, looks.schedulers), NOW)
    assert [job.run for job in fleet.jobs] == ["a"]


def test_the_limit_counts_what_is_dropped() -> None:
    looks = Looks([{"site": "m", "match": ".", "bucket": "rl"}], max_jobs=2)
    looks.schedulers["m"].records = [record(f"/u1/j{number}", submitted=float(number)) for number in range(5)]
    fleet = looks.fleet()
    assert ([job.run for job in fleet.jobs], fleet.dropped) == (["j3", "j4"], 3)


@pytest.mark.parametrize("hostile", ["a b", "a=b", "a|b", "'a'", 'a"b', "a$(x)", "a\tb", "../x", "x/../y"])
def test_text_of_a_scheduler_leads_to_no_other_project(hostile: str) -> None:
    looks = Looks([{**MARIN, "match": r"(?s)^/u1/(?P<name>.+)-coord$", "checkpoints": ["/c/{name}"]}])
    looks.schedulers["m"].records = [record(f"/u1/{hostile}-coord")]
    (job,) = looks.jobs().values()
    assert job.run == hostile
    assert all(Path(root).parent == Path("/c") for root in job.checkpoints)
    assert bool(job.checkpoints) == ("/" not in hostile and "\t" not in hostile)


def test_many_jobs_cost_one_question_an_entry_and_little_time() -> None:
    looks = Looks([MARIN])
    looks.schedulers["m"].records = [record(f"/u1/job{number}-coord") for number in range(1000)]
    for number in range(1000):
        looks.wandb.add(f"lab/mid/job{number}-aa{number}", 150.0)
    began = time.process_time()
    jobs = looks.jobs()
    spent = time.process_time() - began
    assert {run: job.history[0].wandb for run, job in jobs.items()} == {
        f"job{number}": f"lab/mid/job{number}-aa{number}" for number in range(1000)
    }
    assert (len(looks.schedulers["m"].asked), len(looks.wandb.asked)) == (1, 1)
    assert spent < 10


def test_the_limit_lets_what_its_scheduler_lists_no_more_go_before_what_runs() -> None:
    looks = Looks([{"site": "l", "match": ".", "bucket": "rl"}], max_jobs=1)
    looks.schedulers["l"].records = [record("long", submitted=NOW), record("short", submitted=NOW + 10.0)]
    assert list(looks.jobs()) == ["short"]
    # squeue shows an ended job for minutes only: it may never be seen with its end.
    looks.schedulers["l"].records = [record("long", submitted=NOW)]
    assert list(looks.jobs()) == ["long"]
    looks.schedulers["l"].failure = DOWN
    assert list(looks.jobs(3 * 24 * 60)) == ["long"]


def test_what_is_left_of_an_earlier_submission_gives_way_to_what_comes() -> None:
    looks = Looks([MARIN])
    looks.wandb.add("lab/mid/delphi-aa11", NOW - 90_000.0, "finished")
    looks.schedulers["m"].records = [record("/u1/delphi-coord", SchedulerState.PENDING, submitted=NOW)]
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"]}
    for _ in range(30):
        looks.jobs()
    # The project is listed every 5 minutes, not at each look: 30 minutes hold 6 or 7 of them.
    assert 6 <= len(looks.wandb.asked) <= 8
    looks.schedulers["m"].records = [record("/u1/delphi-coord", submitted=NOW)]
    looks.wandb.add("lab/mid/delphi-bb22", looks.now)
    looks.jobs(5)
    assert looks.histories() == {"delphi": ["lab/mid/delphi-bb22"]}
    # From then on it is the job's own, and nobody asks any more.
    asked = len(looks.wandb.asked)
    looks.wandb.add("lab/mid/delphi-cc33", looks.now)
    looks.jobs(60)
    assert looks.histories() == {"delphi": ["lab/mid/delphi-bb22"]}
    assert len(looks.wandb.asked) == asked


def test_a_run_that_is_resumed_under_its_name_is_asked_for_no_longer_than_it_takes_to_write() -> None:
    looks = Looks([MARIN])
    resumed = FoundRun("lab/mid/delphi-aa11", "delphi-aa11", "", "running", NOW - 9e5, NOW - 100.0, "ann")
    looks.wandb.projects["lab/mid"] = [resumed]
    looks.schedulers["m"].records = [record("/u1/delphi-coord", submitted=NOW)]
    assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"]}
    looks.wandb.projects["lab/mid"] = [replace(resumed, heartbeat=NOW + 600.0)]
    looks.jobs(15)
    asked = len(looks.wandb.asked)
    for _ in range(20):
        assert looks.histories() == {"delphi": ["lab/mid/delphi-aa11"]}
    assert len(looks.wandb.asked) == asked


def test_two_people_with_one_name_have_each_the_run_of_their_own() -> None:
    looks = Looks([{**MARIN, "match": r"^/[^/]+/(?P<name>.+)-coord$"}])
    looks.schedulers["m"].records = [record("/u1/a-coord", submitted=NOW)]
    looks.wandb.add("lab/mid/a-x1", NOW + 30.0)
    first = {"a": ["lab/mid/a-x1"]}
    assert looks.histories() == first
    looks.schedulers["m"].records += [record("/u2/a-coord", submitted=NOW + 600.0)]
    looks.now = NOW + 600.0
    assert looks.histories() == first | {"a@m": []}
    looks.wandb.add("lab/mid/a-y2", NOW + 900.0)
    both = first | {"a@m": ["lab/mid/a-y2"]}
    assert looks.histories() == both
    # Found both at one look, they are told apart by when the runs began.
    looks.restarted()
    assert looks.histories() == both
    # What the earlier one had is the later one's when it ended: the same work, submitted anew.
    looks.wandb.projects["lab/mid"] = looks.wandb.projects["lab/mid"][:1]
    looks.schedulers["m"].records[0] = record("/u1/a-coord", SchedulerState.FAILED, submitted=NOW)
    looks.restarted()
    assert looks.histories() == {"a": ["lab/mid/a-x1"]}


def test_of_two_that_go_on_and_name_one_run_none_is_lost() -> None:
    looks = Looks([{**MARIN, "match": r"^/[^/]+/(?P<name>.+)-coord$", "history": {"wandb": "lab/mid/{name}"}}])
    looks.schedulers["m"].records = [record("/u1/a-coord", submitted=1.0), record("/u2/a-coord", submitted=2.0)]
    assert looks.histories() == {"a": ["lab/mid/a"], "a@m": []}


def test_a_job_that_is_listed_by_an_id_of_its_chain_is_not_found_once_more() -> None:
    listed = {"run": "mine", "bucket": "sft", "site": "l", "scheduler_job": "1234567"}
    looks = Looks([{"site": "l", "match": "^qwen", "bucket": "sft"}], jobs=[listed])
    first = FoundSchedulerJob("qwen-2ep", "qwen-2ep", SchedulerState.RUNNING, 5.0, "bob", links=("1234567", "1234599"))
    looks.schedulers["l"].records = [first]
    assert list(looks.jobs()) == ["mine"]
    looks.schedulers["l"].records = [replace(first, submitted=6.0, links=("1234599",))]  # squeue shows the next link
    assert list(looks.jobs()) == ["mine"]
    looks.config = looks.config.model_copy(update={"jobs": ()})
    (job,) = looks.jobs().values()
    assert (job.run, job.scheduler_job, job.scheduler_user) == ("qwen-2ep", "qwen-2ep", "bob")


def test_a_run_that_two_entries_find_stays_with_the_first() -> None:
    running: dict[str, object] = {"wandb": "e/p", "bucket": "rl", "state": "running"}
    everything: dict[str, object] = {"wandb": "e/p", "bucket": "other"}
    looks = Looks([running, everything])
    looks.wandb.add("e/p/x")
    looks.wandb.add("e/p/old", state="finished")

    def buckets() -> dict[str, str]:
        return {run: job.bucket for run, job in looks.jobs().items()}

    assert buckets() == {"x": "rl", "old": "other"}
    looks.wandb.projects["e/p"] = [replace(run, state="crashed") for run in looks.wandb.projects["e/p"]]
    assert buckets() == {"x": "rl", "old": "other"}
    # An edit of the config may put another entry first.
    looks.config = Looks([everything, running]).config
    assert buckets() == {"x": "other", "old": "other"}
