"""Which jobs are watched, under which names."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.config.model import Config, Discovery, HistorySource, Labels, Trials
from runwatch.fleet import FoundJob, Job, assemble_fleet, jobs_from_config, name_jobs

DISCOVERY = Discovery(bucket="rl", wandb="team/rl")


def found(
    run_id: str,
    name: str = "run",
    created: float | None = 1.0,
    state: str = "running",
    discovery: Discovery = DISCOVERY,
) -> FoundJob:
    return FoundJob(f"team/rl/{run_id}", name, created, state, "ann", discovery)


def names(listed: list[Job], *runs: FoundJob) -> list[str]:
    return [job.run for job in name_jobs(listed, runs)]


def test_jobs_of_the_config_carry_their_scheduler() -> None:
    config = Config.model_validate(
        {
            "sites": {"cw": {"scheduler": "kubernetes"}, "desk": {"scheduler": "none"}},
            "jobs": [
                {"run": "a", "bucket": "sft", "site": "cw", "scheduler_job": "j", "checkpoints": ["gs://b/a"]},
                {"run": "b", "bucket": "rl", "site": "desk", "history": {"wandb": "e/p/b"}},
                {"run": "c", "bucket": "eval", "trials": {"path": "/t"}},
            ],
        }
    )
    assert jobs_from_config(config) == (
        Job("a", "sft", "cw", scheduler="kubernetes", scheduler_job="j", checkpoints=("gs://b/a",)),
        Job("b", "rl", "desk", history=(HistorySource(wandb="e/p/b"),)),
        Job("c", "eval", "none", trials=Trials(path="/t")),
    )


def test_found_run_becomes_a_job() -> None:
    discovery = Discovery(bucket="rl", wandb="team/rl", site="cw", kind="agentic", checkpoints=("gs://b/{name}/c",))
    (job,) = name_jobs((), [found("id1", "my run", discovery=discovery)], {"cw": "kubernetes"})
    assert job == Job(
        run="my run",
        bucket="rl",
        site="cw",
        kind="agentic",
        scheduler="kubernetes",
        history=(HistorySource(wandb="team/rl/id1"),),
        checkpoints=("gs://b/my run/c",),
        labels=Labels(owner="ann"),
        discovered=True,
    )


def test_older_keeps_the_name() -> None:
    assert names([], found("x", created=20.0), found("y", created=10.0), found("z", created=30.0)) == [
        "run",  # y, the oldest
        "run@none",  # x
        "run@none#z",
    ]
    assert [job.history[0].wandb for job in name_jobs((), [found("x", created=None), found("y")])] == [
        "team/rl/y",
        "team/rl/x",  # not known how old: counts as the newest
    ]


def test_listed_job_keeps_its_name() -> None:
    assert names([Job("run", "sft")], found("x", created=0.0)) == ["run", "run@none"]
    assert names([Job("run", "sft"), Job("run@none", "sft")], found("x")) == ["run", "run@none", "run@none#x"]
    taken = [Job(name, "sft") for name in ("run", "run@none", "run@none#x", "run@none#team/rl/x")]
    assert names(taken, found("x"))[-1] == "run@none#team/rl/x#x"


def test_run_without_a_name_is_known_by_its_id() -> None:
    assert names([], found("x", name=" ")) == ["x"]


def test_found_run_that_a_listed_job_names_is_that_job() -> None:
    listed = Job("mine", "rl", history=(HistorySource(log="/l"), HistorySource(wandb="team/rl/x")))
    jobs = name_jobs([listed], [found("x", name="other"), found("y", name="third")])
    assert [(job.run, job.labels.owner, job.discovered) for job in jobs] == [
        ("mine", "ann", False),
        ("third", "ann", True),
    ]
    owned = Job("mine", "rl", history=listed.history, labels=Labels(owner="bob"))
    assert name_jobs([owned], [found("x")]) == (owned,)


def test_run_that_two_entries_find_is_one_job() -> None:
    other = Discovery(bucket="sft", wandb="team/rl")
    one, two = found("x"), found("x", discovery=other)
    assert len(name_jobs((), [one, two])) == 1
    assert name_jobs((), [one, two]) == name_jobs((), [two, one])


def test_name_that_leads_elsewhere_fills_no_path() -> None:
    discovery = Discovery(
        bucket="rl", wandb="team/rl", checkpoints=("/data/{name}",), trials=Trials(path="/trials/{name}")
    )
    for name in ("../etc", "..", ".", "a/b", "a*", "a\nb", "a\0", "{name}"):
        (job,) = name_jobs((), [found("x", name=name, discovery=discovery)])
        assert (job.checkpoints, job.trials) == ((), None)
    (job,) = name_jobs((), [found("x", name="a..b", discovery=discovery)])
    assert (job.checkpoints, job.trials) == (("/data/a..b",), Trials(path="/trials/a..b"))


def test_limit_drops_the_oldest_that_ended() -> None:
    config = Config.model_validate({"max_jobs": 3, "jobs": [{"run": "l", "bucket": "rl", "history": {"jsonl": "/l"}}]})
    runs = [
        found("a", "a", 1.0, "running"),
        found("b", "b", 2.0, "finished"),
        found("c", "c", 3.0, "finished"),
        found("d", "a", 4.0, "finished"),
    ]
    fleet = assemble_fleet(config, runs)
    # d is the newest that ended, and is called after the older a whether or not there is a limit.
    assert ([job.run for job in fleet.jobs], fleet.dropped) == (["l", "a", "a@none"], 2)
    assert assemble_fleet(config, runs[:2]).dropped == 0
    tight = config.model_copy(update={"max_jobs": 1, "jobs": config.jobs * 1})
    assert (len(assemble_fleet(tight, runs).jobs), assemble_fleet(tight, runs).dropped) == (1, 4)


RUNS = st.lists(
    st.builds(
        found,
        st.sampled_from("abcdef"),
        st.sampled_from(["run", "run@none", "run@none#a", "", "b"]),
        st.sampled_from([None, 1.0, 2.0]),
        discovery=st.sampled_from([DISCOVERY, Discovery(bucket="rl", wandb="team/rl", site="cw")]),
    ),
    max_size=8,
    unique_by=lambda run: run.path,
)


@settings(max_examples=60)
@given(RUNS, st.randoms(use_true_random=False))
def test_names_are_unique_and_independent_of_the_order(runs: list[FoundJob], random: object) -> None:
    listed = [Job("run", "rl"), Job("b", "rl", history=(HistorySource(wandb="team/rl/f"),))]
    jobs = name_jobs(listed, runs)
    assert len({job.run for job in jobs}) == len(jobs) == 2 + sum(run.path != "team/rl/f" for run in runs)
    shuffled = list(runs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert name_jobs(listed, shuffled) == jobs
