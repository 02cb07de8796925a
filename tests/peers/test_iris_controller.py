"""The Iris source against the real controller: exact states, tasks and attempts at each point."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runwatch.facts import AttemptEnd, FailureReason, SchedulerFacts, SchedulerState, TaskCounts
from runwatch.sources.log_tails import Tail, TailLine
from tests.peers.iris_controller import IrisController, iris_python, running_iris
from tests.peers.iris_watch import SITE, Watch, watch_iris

SLEEP = "import time; time.sleep(900)"

# A coordinator: after a moment it submits its training child, which says a word and waits.
COORDINATOR = f"""
import os, sys, time
from iris.client.client import iris_ctx
from iris.cluster.types import Entrypoint, ResourceSpec
time.sleep(2)
entrypoint = Entrypoint.from_command(os.path.relpath(sys.executable), "-c", "print('first light', flush=True); {SLEEP}")
iris_ctx().client.submit(entrypoint, "checkpoints-delphi_ab12", ResourceSpec(cpu=0.1, memory="256MB", disk="1GB"))
time.sleep(900)
"""


@pytest.fixture(scope="module")
def iris() -> Iterator[IrisController]:
    with running_iris() as controller:
        yield controller


@pytest.fixture
def watch(iris: IrisController) -> Iterator[Watch]:
    with watch_iris(iris.url) as watching:
        yield watching


def ends(facts: SchedulerFacts) -> list[AttemptEnd]:
    return [attempt.end for attempt in facts.attempts]


def is_running(facts: SchedulerFacts) -> bool:
    return facts.state is SchedulerState.RUNNING and facts.tasks is not None and facts.tasks.pending == 0


def logged(watch: Watch, job: str, text: str) -> TailLine:
    """Wait until a line is in a job's log, which workers send on now and then."""
    deadline = time.monotonic() + 90
    while True:
        tail = watch.source.log_tail(job, 20)
        assert isinstance(tail, Tail)
        lines = [line for line in tail.lines if isinstance(line, TailLine)]
        found = [line for line in lines if line.text == text]
        if found:
            return found[0]
        assert time.monotonic() < deadline, lines
        time.sleep(0.2)


def test_a_coordinator_and_its_training_child(iris: IrisController, watch: Watch) -> None:
    coordinator = iris.submit("delphi-coord", COORDINATOR)
    child = f"{coordinator}/checkpoints-delphi_ab12"
    before = watch.until(coordinator, lambda facts: facts.state is SchedulerState.RUNNING)
    assert (before.scheduler_job, before.waiting) == (coordinator, "setup")
    assert (before.tasks, before.tasks_expected, before.links) == (None, None, ())

    facts = watch.until(coordinator, lambda f: f.scheduler_job == child and is_running(f))
    assert facts.identity == before.identity
    assert (facts.tasks, facts.tasks_expected) == (TaskCounts(running=1), 1)
    assert (facts.preemptions, facts.failures, facts.waiting) == (0, 0, "")
    assert facts.links == (child,)
    [attempt] = facts.attempts
    assert attempt.key.startswith(f"{child}/0:0@")
    assert (attempt.link, attempt.end, attempt.ended) == (child, AttemptEnd.RUNNING, None)
    assert facts.covered_from is not None
    assert attempt.started is not None
    assert facts.submitted is not None
    assert facts.submitted < facts.covered_from <= attempt.started <= time.time()
    assert facts.clock_skew is not None
    assert abs(facts.clock_skew) < 30  # it is the same clock, on a machine that may be busy

    line = logged(watch, coordinator, "first light")
    assert line.rank == 0
    assert line.time is not None
    assert abs(line.time - attempt.started) < 30

    # The coordinator is taken away: its child is killed, and submitted anew under its name once it is back.
    iris.preempt(f"{coordinator}/0")
    waits = watch.until(coordinator, lambda f: f.state is SchedulerState.PREEMPTED)
    assert (waits.scheduler_job, waits.ended, waits.exit_code) == (child, None, None)
    assert ends(waits)[0] is AttemptEnd.PREEMPTED
    again = watch.until(coordinator, lambda f: is_running(f) and f.scheduler_job == child)
    assert again.identity == before.identity
    assert again.covered_from is not None
    assert again.covered_from > facts.covered_from
    # The child's record was replaced; the coordinator's own attempt still tells of the interruption.
    lost, running = again.attempts
    assert (lost.link, lost.end) == (coordinator, AttemptEnd.PREEMPTED)
    assert lost.ended is not None
    assert running.started is not None
    assert attempt.started < lost.ended < running.started
    assert (running.link, running.end) == (child, AttemptEnd.RUNNING)
    assert running.key != attempt.key


def test_a_job_that_fails(iris: IrisController, watch: Watch) -> None:
    once = iris.submit("fails", "raise SystemExit(3)")
    thrice = iris.submit("fails-thrice", "raise SystemExit(4)", retries=2)
    facts = watch.until(once, lambda f: f.state is SchedulerState.FAILED)
    assert (facts.exit_code, facts.failures, facts.preemptions) == (3, 1, 0)
    assert (facts.tasks, facts.tasks_expected, facts.waiting) == (TaskCounts(failed=1), 1, "")
    [attempt] = facts.attempts
    assert (attempt.end, attempt.exit_code, attempt.ended) == (AttemptEnd.FAILED, 3, facts.ended)
    assert facts.covered_from == facts.submitted

    facts = watch.until(thrice, lambda f: f.state is SchedulerState.FAILED)
    assert (ends(facts), facts.failures, facts.exit_code) == ([AttemptEnd.FAILED] * 3, 3, 4)
    assert [attempt.exit_code for attempt in facts.attempts] == [4, 4, 4]


def test_two_tasks_that_are_preempted_and_then_cancelled(iris: IrisController, watch: Watch) -> None:
    job = iris.submit("gang", SLEEP, tasks=2)
    first = watch.until(job, is_running)
    assert (first.tasks, ends(first)) == (TaskCounts(running=2), [AttemptEnd.RUNNING] * 2)

    iris.preempt(job)
    facts = watch.until(job, lambda f: is_running(f) and f.preemptions == 2)
    assert facts.tasks == TaskCounts(running=2)
    assert ends(facts) == [AttemptEnd.PREEMPTED] * 2 + [AttemptEnd.RUNNING] * 2
    assert {a.key for a in first.attempts} == {a.key for a in facts.attempts[:2]}
    for task in ("0", "1"):
        lost, running = [a for a in facts.attempts if a.key.startswith(f"{job}/{task}:")]
        assert lost.ended is not None
        assert running.started is not None
        # Iris stamps the end of a kicked attempt only where the worker still confirms it. Else what stands for it, and
        # is told as such, is no later than the next one's start.
        assert lost.started is not None
        assert lost.started < lost.ended <= running.started
        said, _, stand_in = lost.detail.partition(" (")
        assert said == "preempted: sim preempt"
        assert stand_in == "" or stand_in.startswith("its end was not recorded")
    assert facts.covered_from == facts.submitted

    iris.call("TerminateJob", jobId=job)
    facts = watch.until(job, lambda f: f.state is SchedulerState.KILLED)
    assert ends(facts) == [AttemptEnd.PREEMPTED] * 2 + [AttemptEnd.CANCELLED] * 2
    # Iris counts a cancel as one preemption a task; it is shown, and is none of the attempts' preemptions.
    assert (facts.preemptions, facts.failures, facts.exit_code) == (4, 0, None)
    assert facts.ended is not None


@pytest.mark.timeout(400)
def test_a_name_that_is_submitted_anew(iris: IrisController, watch: Watch) -> None:
    job = iris.submit("again", SLEEP)
    first = watch.until(job, is_running)
    iris.call("TerminateJob", jobId=job)
    watch.until(job, lambda f: f.state is SchedulerState.KILLED and f.preemptions == 1)
    time.sleep(3.5)  # sooner, the controller makes the new submission wait two minutes for the old one's worker
    assert iris.submit("again", SLEEP) == job
    second = watch.until(job, is_running, 200)
    assert second.identity != first.identity
    assert second.submitted is not None
    assert first.submitted is not None
    assert second.submitted > first.submitted
    assert (second.preemptions, ends(second)) == (0, [AttemptEnd.RUNNING])
    assert second.attempts[0].key != first.attempts[0].key


def test_names_are_data(iris: IrisController, watch: Watch) -> None:
    names = ['a b="c"|$(touch x)', "it's", "two\nlines", "100%_done"]
    jobs = [iris.submit(name, "print(1)", user="odd") for name in names]
    assert jobs == [f"/odd/{name}" for name in names]
    for job in jobs:
        facts = watch.until(job, lambda f: f.state is SchedulerState.SUCCEEDED)
        assert (facts.scheduler_job, facts.exit_code, ends(facts)) == (job, 0, [AttemptEnd.SUCCEEDED])
    found = watch.source.find(SITE, "^/odd/")
    assert isinstance(found, list)
    assert [(job.name, job.owner, job.state) for job in found] == [
        (job, "odd", SchedulerState.SUCCEEDED) for job in sorted(jobs)
    ]


def test_jobs_that_are_not_there(iris: IrisController, watch: Watch) -> None:
    there = iris.submit("there", "print(1)")
    outcomes = watch.outcomes([there, "/u1/never-submitted", "/nobody/x", "u1/there"])
    for gone in ("/u1/never-submitted", "/nobody/x"):
        facts = outcomes[gone]
        assert isinstance(facts, SchedulerFacts)
        assert (facts.state, facts.scheduler_job, facts.attempts) == (SchedulerState.GONE, gone, ())
    wrong = watch.failure("u1/there")
    assert (wrong.reason, wrong.is_answer) == (FailureReason.OTHER, False)
    assert "expected /USER/NAME" in wrong.detail
    with watch_iris(f"{iris.url}/elsewhere") as astray:
        failure = astray.failure(there)
        assert (failure.reason, failure.whole_source) == (FailureReason.NOT_FOUND, True)


def test_a_worker_dies_and_the_controller_is_away(iris: IrisController, watch: Watch) -> None:
    job = iris.submit("survivor", SLEEP, tasks=2)
    before = watch.until(job, is_running)

    iris.forwarder.close()
    assert watch.failure(job).reason is FailureReason.NETWORK
    iris.restart()
    assert watch.failure(job).reason is FailureReason.NETWORK
    iris.forwarder.open()
    back = watch.facts(job)
    assert (back.identity, back.state) == (before.identity, SchedulerState.RUNNING)

    waits = watch.until(job, lambda f: f.state is SchedulerState.PREEMPTED)
    assert (waits.tasks, waits.preemptions) == (TaskCounts(pending=2), 2)
    facts = watch.until(job, is_running)
    assert ends(facts) == [AttemptEnd.PREEMPTED] * 2 + [AttemptEnd.RUNNING] * 2
    assert all(a.detail.startswith("worker failed: Worker ") for a in facts.attempts[:2])

    with watch_iris(iris.url, deadline_seconds=1.0) as impatient:
        iris.stop_for_a_while()
        try:
            began = time.monotonic()
            assert impatient.failure(job).reason is FailureReason.TIMEOUT
            assert time.monotonic() - began < 30  # it would hang for ever
        finally:
            iris.go_on()
    assert watch.readable(job).attempts == facts.attempts


PRINT_PEAK = """
import sys, time
from runwatch.config.model import Site
from runwatch.parsing.iris import JobRecord
from runwatch.sources.iris_credentials import IrisCredentials
from runwatch.sources.iris_memory import PeakMemory
from runwatch.sources.iris_rpc import IrisClient
url, job, submitted = sys.argv[1], sys.argv[2], float(sys.argv[3])
client = IrisClient(url, IrisCredentials(Site(scheduler="iris", controller=url)), lambda: None)
for since in (submitted, submitted + 3600):
    record = JobRecord(job, "JOB_STATE_RUNNING", submitted=since, task_count=2)
    deadline = time.monotonic() + 30
    while True:
        memory = PeakMemory(client)
        memory.read([record], time.monotonic() + 5)
        if memory.of(record) is not None or since > submitted or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    print(memory.of(record))
client.close()
"""


def test_peak_memory_where_pyarrow_is_installed(iris: IrisController, watch: Watch) -> None:
    # 200 MiB are held by one of two tasks: the largest task counts. A quote in the name must not end the query's text.
    code = "import os, time; held = bytearray(200 << 20 if os.environ['IRIS_TASK_ID'].split(':')[0][-1] == '1' else 1)"
    job = iris.submit("it's-large", f"{code}; {SLEEP.removeprefix('import time; ')}", tasks=2)
    facts = watch.until(job, is_running)
    time.sleep(2)
    path = Path(__file__).parents[2] / "exporter"
    ran = subprocess.run(
        [iris_python(), "-c", PRINT_PEAK, iris.url, job, str(facts.submitted)],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin"},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    peak, later = ran.stdout.split()
    assert 200 * 2**20 <= float(peak) < 256 * 2**20
    # Samples from before the submission are another job's, which had the same name.
    assert later == "None"
    iris.call("TerminateJob", jobId=job)
    assert "pyarrow" not in sys.modules
