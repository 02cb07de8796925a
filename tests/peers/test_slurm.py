"""The SLURM source against a real cluster: munge, slurmdbd, slurmctld and slurmd on one node.

All jobs are submitted at the start, the one that runs into its time limit first, for SLURM's shortest limit is a
minute; the test that waits for it stands last.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runwatch.config.model import Config, Site
from runwatch.discovery import Finders, FleetFinder
from runwatch.facts import (
    AttemptEnd,
    Failure,
    FailureReason,
    SchedulerFacts,
    SchedulerState,
    Successor,
    TaskCounts,
)
from runwatch.fleet import Job
from runwatch.remembered import Remembered
from runwatch.sources.protocol import Outcome
from runwatch.sources.slurm_scheduler import SlurmScheduler
from runwatch.telemetry import Telemetry
from tests.peers.slurm_cluster import INSTALL, SlurmCluster, missing_programs, wait_for
from tests.peers.slurm_jobs import HOSTILE_NAMES, Submitted
from tests.required_programs import lacking

# One cluster serves all of these tests: with `--dist loadfile` one worker runs them. Spread over workers each of them
# brings up its own, which disturbs none and takes longer.
pytestmark = pytest.mark.timeout(400)

MIN_JOB_AGE_SECONDS = 20


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    missing = missing_programs()
    if missing:
        text = f"SLURM's programs are missing ({', '.join(missing)}). Install them with: {INSTALL}"
        lacking(text)
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"), min_job_age=MIN_JOB_AGE_SECONDS)
    try:
        cluster.start()
        submitted = Submitted(cluster)
        submitted.submit_all()
        yield submitted
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def watcher(slurm: Submitted) -> SlurmScheduler:
    """A source that sees the cluster from the start, as the exporter does."""
    return slurm.scheduler()


def poll(scheduler: SlurmScheduler, *names: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    jobs = [Job(run=name, bucket="sft", site="hpc", scheduler="slurm", scheduler_job=name) for name in names]
    scheduler.poll(jobs, lambda _, outcome: outcomes.append(outcome))
    assert len(outcomes) == len(names)
    return outcomes


def facts(scheduler: SlurmScheduler, name: str) -> SchedulerFacts:
    [outcome] = poll(scheduler, name)
    assert isinstance(outcome, SchedulerFacts), outcome
    return outcome


def until_state(scheduler: SlurmScheduler, name: str, *states: SchedulerState, seconds: float = 60) -> SchedulerFacts:
    found: list[SchedulerFacts] = []

    def seen() -> bool:
        found.append(facts(scheduler, name))
        return found[-1].state in states

    wait_for(f"{name} in {states}", seen, seconds)
    return found[-1]


def ends(found: SchedulerFacts) -> list[tuple[str, AttemptEnd]]:
    return [(attempt.key, attempt.end) for attempt in found.attempts]


def test_running_link_with_its_next(slurm: Submitted, watcher: SlurmScheduler) -> None:
    first, following = slurm.ids["chain"], slurm.ids["chain, next"]
    found = until_state(watcher, first, SchedulerState.RUNNING)
    assert found.scheduler_job == first
    assert found.links == (first, following)
    assert found.successor is None  # no link has ended yet
    assert ends(found) == [(f"{first}:0", AttemptEnd.RUNNING)]
    assert found.tasks == TaskCounts(running=1)
    assert found.tasks_expected == 1
    assert found.submitted is not None and found.started is not None and found.ended is None
    assert found.submitted <= found.started <= time.time()
    assert found.covered_from == found.submitted
    assert found.waiting == ""


def test_exit_code_of_the_program(slurm: Submitted, watcher: SlurmScheduler) -> None:
    found = until_state(watcher, slurm.ids["exit 3"], SchedulerState.FAILED)
    assert found.exit_code == 3
    assert found.ended is not None
    assert ends(found) == [(f"{slurm.ids['exit 3']}:0", AttemptEnd.FAILED)]
    assert found.attempts[0].detail == "FAILED, exit code 3"


def test_signal_that_ended_the_program(slurm: Submitted, watcher: SlurmScheduler) -> None:
    found = until_state(watcher, slurm.ids["kill -9"], SchedulerState.FAILED)
    assert found.exit_code == 137
    assert "signal 9" in found.detail


def test_failed_step_of_a_job_that_completed(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["failed step"]
    until_state(watcher, job, SchedulerState.SUCCEEDED)
    # Accounting may be a moment behind the controller; a source that is new asks it at once.
    wait_for("the step's exit code", lambda: facts(slurm.scheduler(), job).exit_code == 7)
    assert facts(slurm.scheduler(), job).detail == "COMPLETED, but one of its steps failed: exit code 7"


def test_cancelled_while_running(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["cancelled"]
    until_state(watcher, job, SchedulerState.RUNNING)
    slurm.cluster.run("scancel", job)
    found = until_state(watcher, job, SchedulerState.KILLED)
    assert ends(found) == [(f"{job}:0", AttemptEnd.CANCELLED)]
    assert found.exit_code is None
    assert found.ended is not None


def test_cancelled_before_it_started(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["cancelled early"]
    assert facts(watcher, job).state is SchedulerState.PENDING
    slurm.cluster.run("scancel", job)
    found = until_state(watcher, job, SchedulerState.KILLED)
    assert found.attempts == ()
    assert found.started is None


def test_requeued_job_waits_again(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["requeued"]
    running = until_state(watcher, job, SchedulerState.RUNNING)
    slurm.cluster.run("scontrol", "requeue", job)
    until_state(watcher, job, SchedulerState.PREEMPTED)
    # The controller clears the old processes away before it says why the job waits, and when the start ended.
    wait_for("the reason", lambda: facts(watcher, job).waiting == "queue")
    wait_for("its end", lambda: all(attempt.ended is not None for attempt in facts(watcher, job).attempts))
    found = facts(watcher, job)
    assert ends(found) == [(f"{job}:0", AttemptEnd.UNKNOWN)]
    assert found.attempts[0].started == running.started
    assert found.submitted == running.submitted

    def waits_for_its_time() -> bool:
        # Before, while the old processes are cleared away, the controller would set the time anew.
        return slurm.cluster.run("squeue", "-h", "-o", "%T %r", "-j", job) == "PENDING BeginTime"

    wait_for("the job waiting for its time", waits_for_its_time)
    # Not in the second in which it was requeued: its node still takes the new start for the old one, and refuses it.
    slurm.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now+3seconds")
    again = until_state(watcher, job, SchedulerState.RUNNING)
    assert ends(again) == [(f"{job}:0", AttemptEnd.UNKNOWN), (f"{job}:1", AttemptEnd.RUNNING)]
    wait_for("both starts from accounting alone", lambda: ends(facts(slurm.scheduler(), job)) == ends(again))


def test_dependency_that_can_never_be_met(slurm: Submitted, watcher: SlurmScheduler) -> None:
    until_state(watcher, slurm.ids["fine"], SchedulerState.SUCCEEDED)
    expected = Successor(slurm.ids["fine, never"], running=False, can_start=False)
    wait_for("the dependency judged", lambda: facts(watcher, slurm.ids["fine"]).successor == expected)
    assert facts(watcher, "fine").successor == expected


def test_job_that_was_to_run_alone_under_its_name_comes_next(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["alone"]
    until_state(watcher, job, SchedulerState.RUNNING)
    slurm.cluster.run("scancel", job)
    # squeue tells of the dependency only until it is met: it is remembered.
    ended = until_state(watcher, job, SchedulerState.KILLED)
    assert ended.successor == Successor(slurm.ids["alone, next"], running=False, can_start=True)


def test_tasks_of_an_array_are_counted(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["array"]
    expected = TaskCounts(running=2, pending=3, failed=1)
    wait_for("one task failed and two running", lambda: facts(watcher, job).tasks == expected)
    found = facts(watcher, job)
    assert found.state is SchedulerState.RUNNING
    assert ends(found) == [
        (f"{job}_0:0", AttemptEnd.FAILED),
        (f"{job}_1:0", AttemptEnd.RUNNING),
        (f"{job}_2:0", AttemptEnd.RUNNING),
    ]
    assert {attempt.link for attempt in found.attempts} == {job}
    assert facts(watcher, f"{job}_0").exit_code == 5
    assert facts(watcher, f"{job}_1").state is SchedulerState.RUNNING
    assert facts(watcher, f"{job}_5").state is SchedulerState.PENDING


def test_task_of_an_array_that_is_requeued_waits_again(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["array again"]
    until_state(watcher, job, SchedulerState.RUNNING)
    slurm.cluster.run("scontrol", "requeue", f"{job}_0")
    # Until its old processes are gone squeue shows it by itself, then in the line of all that wait.
    wait_for("it waits with the others", lambda: f"{job}_[0" in slurm.cluster.run("squeue", "-h", "-o", "%i"))
    found = facts(watcher, f"{job}_0")
    assert (found.state, found.tasks) == (SchedulerState.PREEMPTED, TaskCounts(pending=1))
    assert ends(facts(slurm.scheduler(), f"{job}_0")) == [(f"{job}_0:0", AttemptEnd.UNKNOWN)]
    wait_for("the next one running", lambda: facts(watcher, job).tasks == TaskCounts(running=1, pending=3))


def test_log_that_is_not_where_the_scheduler_says(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job, work = slurm.ids["logs elsewhere"], slurm.cluster.work
    wait_for("the log", (work / "logs" / f"slurm-1_{job}.out").exists)
    wait_for("the scheduler's log removed", lambda: not (work / f"slurm-{job}.out").exists())
    assert facts(slurm.scheduler(), job).log_paths == (str(work / "logs" / f"run_{job}.out"),)
    chain = slurm.ids["chain"]
    assert facts(watcher, chain).log_paths == (str(work / f"slurm-{chain}.out"),)


def test_names_are_text(slurm: Submitted) -> None:
    scheduler = slurm.scheduler()
    for name in HOSTILE_NAMES:
        slurm.cluster.wait_for_state(slurm.ids[name], "RUNNING")
    found = poll(scheduler, *HOSTILE_NAMES)
    assert [o.scheduler_job for o in found if isinstance(o, SchedulerFacts)] == [slurm.ids[n] for n in HOSTILE_NAMES]
    assert {o.state for o in found if isinstance(o, SchedulerFacts)} == {SchedulerState.RUNNING}
    logs = [o.log_paths for o in found if isinstance(o, SchedulerFacts)]
    assert logs == [(str(slurm.cluster.work / f"slurm-{slurm.ids[n]}.out"),) for n in HOSTILE_NAMES]
    listed = scheduler.find("hpc", "")
    assert not isinstance(listed, Failure)
    assert set(HOSTILE_NAMES) <= {job.name for job in listed if job.scheduler_job == job.name}
    assert list(slurm.cluster.folder.rglob("pwned")) == []


def test_names_are_text_without_a_prefix(slurm: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.cluster.environment[name])
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    scheduler = SlurmScheduler("hpc", Site(scheduler="slurm", timezone="UTC"), lambda _: None)
    found = poll(scheduler, *HOSTILE_NAMES)
    assert [o.scheduler_job for o in found if isinstance(o, SchedulerFacts)] == [slurm.ids[n] for n in HOSTILE_NAMES]
    assert list(slurm.cluster.folder.rglob("pwned")) == []


def test_a_thousand_jobs_cost_one_squeue(slurm: Submitted) -> None:
    calls = Counter[str]()
    scheduler = slurm.scheduler(calls)
    names = [f"{slurm.ids['many']}_{task}" for task in range(1000)]
    assert {o.state for o in poll(scheduler, *names) if isinstance(o, SchedulerFacts)} == {SchedulerState.PENDING}
    calls.clear()
    assert len([o for o in poll(scheduler, *names) if isinstance(o, SchedulerFacts)]) == 1000
    assert calls == {"hpc": 1}
    assert isinstance(scheduler.find("hpc", "^many$"), list)
    assert calls == {"hpc": 1}


def test_a_chain_that_is_listed_by_its_id_is_not_found_once_more(slurm: Submitted) -> None:
    listed = {"run": "mine", "bucket": "sft", "site": "hpc", "scheduler_job": slurm.ids["chain"]}
    config = Config.model_validate(
        {
            "sites": {"hpc": {"scheduler": "slurm", "timezone": "UTC"}},
            "jobs": [listed],
            "discover": [{"site": "hpc", "match": "^(chain|many)$", "bucket": "rl"}],
        }
    )
    finder = FleetFinder(Telemetry(), Remembered(None, 86_400.0))
    fleet, failures = finder.look(config, Finders(schedulers={"hpc": slurm.scheduler()}), time.time())
    finder.close()
    assert failures == ()
    assert [(job.run, job.scheduler_job, bool(job.scheduler_user)) for job in fleet.jobs] == [
        ("mine", slurm.ids["chain"], False),
        ("many", "many", True),
    ]


def test_a_job_that_is_submitted_anew_at_once_is_the_new_one(slurm: Submitted) -> None:
    failed = slurm.submit("anew", "--wrap", "exit 1")
    slurm.cluster.wait_for_state(failed, "FAILED")
    time.sleep(1.1)  # SLURM's times are whole seconds
    again = slurm.submit("anew", "--hold", "--wrap", "sleep 300")
    found = slurm.scheduler().find("hpc", "^anew$")
    assert isinstance(found, list)
    shown = slurm.cluster.run("squeue", "--all", "--noheader", "--states=all", "--name=anew", "--format=%i").split()
    assert sorted(shown) == sorted([failed, again])
    assert [one.links for one in found] == [(again,)]


def test_times_are_read_in_the_zone_of_the_site(slurm: Submitted) -> None:
    job = slurm.ids["chain"]
    expected = facts(slurm.scheduler(), job)
    prefix = (*slurm.cluster.command_prefix, "TZ=Asia/Kolkata", "SLURM_TIME_FORMAT=standard")
    site = Site(scheduler="slurm", command_prefix=prefix, timezone="Asia/Kolkata")
    found = facts(SlurmScheduler("hpc", site, lambda _: None), job)
    assert (found.submitted, found.started) == (expected.submitted, expected.started)
    assert found.attempts == expected.attempts


def test_controller_that_is_down_is_no_answer(slurm: Submitted, watcher: SlurmScheduler) -> None:
    names = ("requeued", "two words")
    assert all(isinstance(outcome, SchedulerFacts) for outcome in poll(watcher, *names))
    slurm.cluster.hang_controller()
    try:
        begun = time.monotonic()
        hung = poll(slurm.scheduler(deadline=2), *names)
        assert time.monotonic() - begun < 30  # it would hang for ever
    finally:
        slurm.cluster.resume_controller()
    assert [o.reason for o in hung if isinstance(o, Failure)] == [FailureReason.TIMEOUT] * 2
    slurm.cluster.kill_controller()
    try:
        dead = poll(watcher, *names)
    finally:
        slurm.cluster.start_controller()
    assert {o.reason for o in dead if isinstance(o, Failure)} <= {FailureReason.NETWORK, FailureReason.TIMEOUT}
    assert all(isinstance(outcome, Failure) for outcome in dead)
    wait_for("it runs again", lambda: all(isinstance(o, SchedulerFacts) for o in poll(watcher, *names)))
    assert facts(watcher, "two words").state is SchedulerState.RUNNING


def test_job_that_only_accounting_knows(slurm: Submitted, watcher: SlurmScheduler) -> None:
    job = slurm.ids["old"]
    wait_for("the job forgotten", lambda: slurm.cluster.state(job) == "", MIN_JOB_AGE_SECONDS + 60)
    for scheduler, named in ((slurm.scheduler(), job), (slurm.scheduler(), "old"), (watcher, "exit 3")):
        found = facts(scheduler, named)
        assert found.state is SchedulerState.FAILED
        assert found.exit_code == 3
        assert [attempt.end for attempt in found.attempts] == [AttemptEnd.FAILED]
    [nowhere] = poll(slurm.scheduler(), "987654")
    assert isinstance(nowhere, Failure) and nowhere.reason is FailureReason.NOT_FOUND


def test_accounting_that_is_down_is_no_answer(slurm: Submitted) -> None:
    job = slurm.ids["old"]
    wait_for("the job forgotten", lambda: slurm.cluster.state(job) == "", MIN_JOB_AGE_SECONDS + 60)
    slurm.cluster.kill_accounting()
    scheduler = slurm.scheduler()
    try:
        unread, seen = poll(scheduler, job, "two words")
    finally:
        slurm.cluster.start_accounting()
    assert isinstance(unread, Failure) and unread.reason is FailureReason.NETWORK
    assert isinstance(seen, SchedulerFacts) and seen.state is SchedulerState.RUNNING
    assert seen.covered_from is None
    wait_for("accounting read", lambda: isinstance(poll(scheduler, job)[0], SchedulerFacts))
    assert facts(scheduler, job).state is SchedulerState.FAILED


def test_site_without_accounting(slurm: Submitted, tmp_path: Path) -> None:
    lines = (slurm.cluster.folder / "slurm.conf").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("AccountingStorage")]
    (tmp_path / "slurm.conf").write_text("\n".join([*kept, "AccountingStorageType=accounting_storage/none"]) + "\n")
    scheduler = slurm.scheduler(None, f"SLURM_CONF={tmp_path / 'slurm.conf'}")
    job = slurm.cluster.submit("-J", "without", "--wrap", "sleep 300")
    found = until_state(scheduler, job, SchedulerState.RUNNING)
    assert found.covered_from is None
    [nowhere] = poll(scheduler, "987654")
    assert isinstance(nowhere, Failure) and nowhere.reason is FailureReason.NOT_FOUND
    assert "no accounting" in nowhere.detail


def test_link_at_its_time_limit_and_the_next(slurm: Submitted, watcher: SlurmScheduler) -> None:
    first, following = slurm.ids["chain"], slurm.ids["chain, next"]
    waits = Successor(following, running=False, can_start=True)
    until_state(watcher, first, SchedulerState.TIMEOUT, seconds=120)
    # A source that was there keeps the dependency; one that is new reads it from the submit line; a name needs none.
    for scheduler, named in ((watcher, first), (slurm.scheduler(), following), (slurm.scheduler(), "chain")):
        found = facts(scheduler, named)
        assert (found.state, found.scheduler_job, found.successor) == (SchedulerState.TIMEOUT, first, waits)
        assert ends(found) == [(f"{first}:0", AttemptEnd.WALL_TIME)]
        assert found.exit_code is None
    ended = facts(watcher, first)
    assert ended.started is not None and ended.ended is not None
    assert 60 <= ended.ended - ended.started < 120
    slurm.cluster.run("scontrol", "update", f"jobid={following}", "starttime=now")
    for scheduler, named in ((watcher, first), (slurm.scheduler(), first), (slurm.scheduler(), "chain")):
        found = until_state(scheduler, named, SchedulerState.RUNNING)
        assert found.scheduler_job == following
        assert found.successor is None
        assert found.identity == first
        assert ends(found) == [(f"{first}:0", AttemptEnd.WALL_TIME), (f"{following}:0", AttemptEnd.RUNNING)]


def test_time_gone_by_shows_attempts_alone(slurm: Submitted) -> None:
    job = slurm.ids["requeued"]
    attempts: Sequence[object] = facts(slurm.scheduler(), job).attempts
    site = Site(scheduler="slurm", command_prefix=slurm.cluster.command_prefix, timezone="UTC")
    later = time.time() + 3600
    found = facts(SlurmScheduler("hpc", site, lambda _: None, at=time.time(), clock=lambda: later), job)
    assert found.state is SchedulerState.UNKNOWN
    assert found.tasks is None and found.successor is None and found.ended is None
    assert found.attempts == attempts
