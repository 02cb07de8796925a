"""Jobs found at schedulers beside listed ones and those found in W&B: each once, under a name of its own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.config.model import Config, Discovery, HistorySource, Labels, TrainerConfig
from runwatch.fleet import FoundJob, Job, ScheduledJob, assemble_fleet, means, name_jobs
from runwatch.found.places import Places

IRIS = Discovery(bucket="sft", site="m", match="^/u/(?P<name>.+)-coord$", kind="midtraining")
PROJECT = Discovery(bucket="rl", wandb="e/p", labels=Labels(grid="g"))


def scheduled(
    name: str,
    job: str = "",
    submitted: float | None = 1.0,
    *,
    wandb: str = "",
    alive: bool = True,
    site: str = "m",
    ids: tuple[str, ...] = (),
    checkpoints: tuple[str, ...] = (),
) -> ScheduledJob:
    job = job or f"/u/{name}-coord"
    history = (HistorySource(wandb=wandb),) if wandb else ()
    discovery = IRIS.model_copy(update={"site": site})
    return ScheduledJob(
        name, job, job, ids or (job,), submitted, alive, "u", discovery, Places(history, checkpoints=checkpoints)
    )


def run(run_id: str, name: str = "", created: float | None = 2.0, state: str = "running") -> FoundJob:
    return FoundJob(f"e/p/{run_id}", name or run_id, created, state, "ann", PROJECT)


def test_a_job_found_at_a_scheduler() -> None:
    (job,) = name_jobs((), (), {"m": "iris"}, [scheduled("a", wandb="e/p/a-1", checkpoints=("gs://b/a-1",))])
    assert job == Job(
        run="a",
        bucket="sft",
        site="m",
        kind="midtraining",
        scheduler="iris",
        scheduler_job="/u/a-coord",
        history=(HistorySource(wandb="e/p/a-1"),),
        checkpoints=("gs://b/a-1",),
        labels=Labels(owner="u"),
        discovered=True,
    )


def test_the_newer_of_a_name_gets_its_site_then_its_id() -> None:
    jobs = name_jobs(
        (),
        [run("x", "a", 15.0)],
        {},
        [
            scheduled("a", "/w/a-coord", 30.0),
            scheduled("a", "/u/a-coord", 20.0),
            scheduled("a", "/v/a-coord", 10.0),
            scheduled("a", "/u/a-coord", None, site="t"),
        ],
    )
    assert [(job.run, job.scheduler_job) for job in jobs] == [
        ("a", "/v/a-coord"),
        ("a@none", ""),
        ("a@m", "/u/a-coord"),
        ("a@m#/w/a-coord", "/w/a-coord"),
        ("a@t", "/u/a-coord"),
    ]


def test_a_listed_job_wins_by_its_scheduler_job() -> None:
    listed = Job("mine", "rl", "m", scheduler="iris", scheduler_job="/u/a-coord")
    elsewhere = replace(listed, run="other site", site="t")
    jobs = name_jobs([listed, elsewhere], (), {"m": "iris"}, [scheduled("a"), scheduled("b")])
    assert [(job.run, job.labels.owner) for job in jobs] == [("mine", "u"), ("other site", ""), ("b", "u")]


@pytest.mark.parametrize(
    ("scheduler", "written", "job", "name", "same"),
    [
        ("slurm", "12", "10", "train", True),  # an id of the same chain
        ("slurm", "train", "10", "train", True),
        ("slurm", "rain", "10", "train", False),
        ("iris", "/u/a", "/u/a", "/u/a", True),
        ("iris", "/u/a/train-1", "/u/a", "/u/a", True),  # the child of a coordinator that was found
        ("iris", "/u/a", "/u/a/train-1", "/u/a/train-1", True),
        ("iris", "/u/ab", "/u/a", "/u/a", False),
        ("kubernetes", "a", "job/a", "a", True),
        ("kubernetes", "jobs/a", "job/a", "a", True),
        ("kubernetes", "ns/job/a", "job/a", "a", True),
        ("kubernetes", "ns/a", "job/a", "a", True),
        ("kubernetes", "jobset/a", "job/a", "a", False),
        ("kubernetes", "app=a", "job/a", "a", False),
        ("slurm", "x/a", "a", "a", False),
        ("slurm", "", "10", "train", False),
    ],
)
def test_what_a_listed_scheduler_job_means(scheduler: str, written: str, job: str, name: str, same: bool) -> None:
    found = replace(scheduled("n", job, ids=(job, "12")), scheduler_name=name)
    assert means(Job("l", "sft", "m", scheduler=scheduler, scheduler_job=written), found) is same
    assert not means(Job("l", "sft", "t", scheduler=scheduler, scheduler_job=written), found)


@pytest.mark.parametrize(
    ("written", "same"),
    [("runs/a", True), ("runs/job/a", True), ("job/a", True), ("a", True), ("evals/a", False), ("evals/job/a", False)],
)
def test_a_job_of_another_namespace_is_another_one(written: str, same: bool) -> None:
    found = replace(scheduled("a", "job/a"), scheduler_name="a", namespace="runs")
    assert means(Job("l", "sft", "m", scheduler="kubernetes", scheduler_job=written), found) is same


def test_a_listed_job_wins_by_its_history() -> None:
    history = (HistorySource(wandb="e/p/a-1"),)
    own = Job("own", "rl", "m", scheduler="iris", scheduler_job="/u/else", history=history)
    assert [job.run for job in name_jobs([own], (), {}, [scheduled("a", wandb="e/p/a-1")])] == ["own"]
    # What the config leaves out is added, where the site is the same.
    without = replace(own, scheduler_job="")
    (job,) = name_jobs([without], [run("a-1")], {}, [scheduled("a", wandb="e/p/a-1")])
    assert (job.run, job.site, job.scheduler_job, job.labels.owner) == ("own", "m", "/u/a-coord", "ann")
    (job,) = name_jobs([replace(without, site="desk")], (), {}, [scheduled("a", wandb="e/p/a-1")])
    assert (job.run, job.site, job.scheduler_job) == ("own", "desk", "")


def test_a_run_of_wandb_and_its_scheduler_job_are_one() -> None:
    found = scheduled("a", wandb="e/p/a-1", checkpoints=("gs://b/a-1",))
    found = replace(found, discovery=IRIS.model_copy(update={"config": TrainerConfig(num_train_steps=9)}))
    jobs = name_jobs((), [run("a-1", "a run"), run("c")], {"m": "iris"}, [found, scheduled("b", submitted=9.0)])
    assert [job.run for job in jobs] == ["a", "c", "b"]
    assert jobs[0] == Job(
        run="a",
        bucket="rl",
        site="m",
        kind="midtraining",
        scheduler="iris",
        scheduler_job="/u/a-coord",
        history=(HistorySource(wandb="e/p/a-1"),),
        checkpoints=("gs://b/a-1",),
        config=TrainerConfig(num_train_steps=9),
        labels=Labels(grid="g", owner="ann"),
        discovered=True,
    )


def test_of_two_scheduler_jobs_with_one_history_the_one_that_goes_on_counts() -> None:
    old = scheduled("a", "/u/a", 10.0, wandb="e/p/a-1", alive=False)
    new = scheduled("a-again", "/u/a-again", 20.0, wandb="e/p/a-1")
    for pair in ([old, new], [new, old]):
        assert [job.scheduler_job for job in name_jobs((), (), {}, pair)] == ["/u/a-again"]
    alive = replace(old, alive=True)
    ended = replace(new, alive=False)
    assert [job.run for job in name_jobs((), (), {}, [alive, ended])] == ["a"]
    assert len(name_jobs((), (), {}, [scheduled("a"), scheduled("b")])) == 2  # no history is no common history


def test_the_limit_keeps_listed_ones_then_what_goes_on_then_the_newest() -> None:
    config = Config.model_validate({"max_jobs": 4, "jobs": [{"run": "l", "bucket": "rl", "history": {"jsonl": "/l"}}]})
    jobs = [
        scheduled("a", submitted=1.0),
        scheduled("b", submitted=2.0, alive=False),
        scheduled("c", submitted=3.0, alive=False),
    ]
    fleet = assemble_fleet(config, [run("x", created=0.0), run("y", created=9.0, state="finished")], jobs)
    assert ([job.run for job in fleet.jobs], fleet.dropped) == (["l", "x", "a", "y"], 2)


SCHEDULED = st.lists(
    st.builds(
        scheduled,
        st.sampled_from(["a", "a@m", "b"]),
        st.sampled_from(["/u/1", "/u/2", "/v/1", "7"]),
        st.sampled_from([None, 1.0, 2.0]),
        wandb=st.sampled_from(["", "e/p/r1", "e/p/r2", "e/p/listed"]),
        alive=st.booleans(),
        site=st.sampled_from(["m", "t"]),
    ),
    max_size=6,
    unique_by=lambda job: (job.site, job.scheduler_job),
)
RUNS = st.lists(
    st.builds(run, st.sampled_from(["r1", "r2", "r3"]), st.sampled_from(["a", "b", "a@none"]), st.just(1.5)),
    max_size=4,
    unique_by=lambda found: found.path,
)
LISTED = [
    Job("a", "rl", "m", scheduler="iris", scheduler_job="/u/1"),
    Job("l", "rl", history=(HistorySource(wandb="e/p/listed"),)),
]


@settings(max_examples=150)
@given(SCHEDULED, RUNS, st.integers())
def test_names_are_unique_nothing_is_there_twice_and_no_order_matters(
    jobs: list[ScheduledJob], runs: list[FoundJob], seed: int
) -> None:
    named = name_jobs(LISTED, runs, {}, jobs)
    random = Random(seed)
    for mixed in (jobs, runs):
        random.shuffle(mixed)
    assert name_jobs(LISTED, runs, {}, jobs) == named
    names = [job.run for job in named]
    assert len(set(names)) == len(names)
    assert names[:2] == ["a", "l"]
    paths = [source.wandb for job in named for source in job.history]
    assert len(set(paths)) == len(paths)
    places = [(job.site, job.scheduler_job) for job in named if job.scheduler_job]
    assert len(set(places)) == len(places)
    # Every run is there, and every scheduler job without a history.
    assert {found.path for found in runs} <= set(paths)
    alone = {(job.site, job.scheduler_job) for job in jobs if not job.places.history}
    assert alone <= set(places)
