"""What the source says of JobSets, bare pods and labels, by the real client."""

from __future__ import annotations

import pytest

from runwatch.facts import SchedulerFacts, SchedulerState, TaskCounts
from tests.peers.kubernetes_api import KubernetesApiServer
from tests.peers.kubernetes_fixtures import Watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import T0, Object, condition, job, jobset, pod, running, terminated

__all__ = ["kubernetes_server", "watch"]


def put_jobset(server: KubernetesApiServer, **more: object) -> tuple[Object, list[Object]]:
    """A JobSet of two replicated jobs: 1 x 1 learner with 4 chips a pod, 2 x 2 generators with 1 chip a pod."""
    whole = server.put("jobsets", jobset("rl", {"learner": (1, 1, 4), "generator": (2, 2, 1)}, **more))
    jobs = [
        server.put("jobs", job(name, size=size, owner=whole, labels={"jobset.sigs.k8s.io/restart-attempt": "0"}))
        for name, size in (("rl-learner-0", 1), ("rl-generator-0", 2), ("rl-generator-1", 2))
    ]
    return whole, jobs


def put_jobset_pods(server: KubernetesApiServer, jobs: list[Object], started: float, made: float = 0.0) -> None:
    for owner in jobs:
        replicated, number = owner["metadata"]["name"].split("-")[1:]
        for index in range(owner["spec"]["parallelism"]):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": "rl",
                "jobset.sigs.k8s.io/replicatedjob-name": replicated,
                "jobset.sigs.k8s.io/job-index": number,
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            name = f"{owner['metadata']['name']}-{index}-{made:g}"
            server.put("pods", pod(name, owner, "Running", running(started), labels=labels, made=made))


def test_a_jobset_of_two_replicated_jobs(watch: Watch) -> None:
    whole, jobs = put_jobset(watch.server)
    assert watch.facts("rl").state is SchedulerState.NO_TASKS
    put_jobset_pods(watch.server, jobs, 30)
    facts = watch.facts("jobset/rl")
    assert (facts.state, facts.scheduler_job) == (SchedulerState.RUNNING, "jobset/rl")
    assert facts.identity == whole["metadata"]["uid"]
    assert (facts.tasks, facts.tasks_expected) == (TaskCounts(running=5), 5)
    assert facts.accelerators == 8
    assert (len(facts.attempts), facts.covered_from, facts.failures) == (5, T0, 0)
    # One of its Jobs can be watched alone.
    assert watch.facts("job/rl-generator-1").tasks == TaskCounts(running=2)


def test_a_jobset_that_restarts_all_its_jobs(watch: Watch) -> None:
    whole, jobs = put_jobset(watch.server)
    put_jobset_pods(watch.server, jobs, 30)
    watch.facts("rl")
    for owner in jobs:
        watch.server.remove("jobs", owner["metadata"]["name"])
    whole["status"] = {"restarts": 1}
    # Its old pods are on their way, and one of an older JobSet of that name is not its own.
    stray = pod("rl-old", None, "Running", running(5), labels={"jobset.sigs.k8s.io/jobset-name": "rl"}, made=-900)
    watch.server.put("pods", stray)
    marks = {"jobset.sigs.k8s.io/jobset-name": "rl", "jobset.sigs.k8s.io/jobset-uid": "another"}
    watch.server.put("pods", pod("rl-other", None, "Running", running(5), labels=marks, made=5))
    facts = watch.facts("rl")
    assert (facts.failures, facts.covered_from) == (1, None)
    assert (facts.state, len(facts.attempts), facts.tasks_expected) == (SchedulerState.RUNNING, 5, 5)
    watch.server.objects["pods"].clear()
    assert watch.facts("rl").state is SchedulerState.NO_TASKS
    again = [
        watch.server.put(
            "jobs", job(found["metadata"]["name"], size=found["spec"]["parallelism"], owner=whole, made=200)
        )
        for found in jobs
    ]
    put_jobset_pods(watch.server, again, 230, made=200)
    facts = watch.facts("rl")
    assert (facts.state, facts.tasks, facts.started) == (SchedulerState.RUNNING, TaskCounts(running=5), T0 + 30)


@pytest.mark.parametrize(
    ("reason", "state"),
    [("DeadlineExceeded", SchedulerState.TIMEOUT), ("BackoffLimitExceeded", SchedulerState.FAILED)],
)
def test_a_jobset_fails_as_its_job_failed(watch: Watch, reason: str, state: SchedulerState) -> None:
    whole, jobs = put_jobset(watch.server)
    jobs[0]["status"]["conditions"] = [condition("Failed", 400, reason=reason)]
    whole["status"]["conditions"] = [condition("Failed", 401, reason="FailedJobs", message="jobset failed")]
    facts = watch.facts("rl")
    assert (facts.state, facts.ended) == (state, T0 + 401)
    assert facts.detail == f"FailedJobs: {reason}: jobset failed"


def test_a_jobset_that_is_done(watch: Watch) -> None:
    whole, _ = put_jobset(watch.server)
    whole["status"]["conditions"] = [condition("Completed", 500, reason="AllJobsCompleted")]
    facts = watch.facts("rl")
    assert (facts.state, facts.ended) == (SchedulerState.SUCCEEDED, T0 + 500)


def test_bare_pods_by_name_and_by_labels(watch: Watch) -> None:
    labels = {"app": "grid", "cell": "lr=3"}
    for number in range(3):
        watch.server.put(
            "pods", pod(f"grid-{number}", None, "Running", running(10 + number), labels=labels, made=number)
        )
    watch.server.put("pods", pod("grid-extra", None, "Running", running(10)))
    found = watch.poll("grid", "pod/grid", "app=grid", "app=grid,cell=lr=3")
    oldest = watch.server.objects["pods"][("runs", "grid-0")]["metadata"]["uid"]
    for name in ("grid", "pod/grid", "app=grid", "app=grid,cell=lr=3"):
        facts = found[name]
        assert isinstance(facts, SchedulerFacts)
        assert (facts.state, facts.tasks, facts.tasks_expected, facts.identity, facts.submitted) == (
            SchedulerState.RUNNING,
            TaskCounts(running=3),
            3,
            oldest,
            T0,
        )
    assert watch.facts("app=grid").scheduler_job == "app=grid"
    assert watch.facts("app=other").state is SchedulerState.GONE
    assert watch.facts("grid-1").tasks_expected == 1


@pytest.mark.parametrize(
    ("states", "state", "tasks", "code"),
    [
        ([("Succeeded", terminated(1, 50, 0), {})] * 2, SchedulerState.SUCCEEDED, TaskCounts(succeeded=2), 0),
        (
            [("Succeeded", terminated(1, 50, 0), {}), ("Failed", terminated(1, 60, 3), {})],
            SchedulerState.FAILED,
            TaskCounts(succeeded=1, failed=1),
            3,
        ),
        (
            [("Failed", terminated(1, 60, 143), {"reason": "DeadlineExceeded"})],
            SchedulerState.TIMEOUT,
            TaskCounts(failed=1),
            143,
        ),
        # Nothing brings an evicted pod back that nobody controls.
        ([("Failed", terminated(1, 60, 137), {"reason": "Evicted"})], SchedulerState.FAILED, TaskCounts(failed=1), 137),
        (
            [("Running", running(1), {}), ("Failed", terminated(1, 60, 3), {})],
            SchedulerState.RUNNING,
            TaskCounts(running=1, failed=1),
            None,
        ),
    ],
)
def test_bare_pods_end_when_the_last_of_them_does(
    watch: Watch, states: list[tuple[str, Object, Object]], state: SchedulerState, tasks: TaskCounts, code: int | None
) -> None:
    for number, (phase, container, more) in enumerate(states):
        watch.server.put("pods", pod(f"eval-{number}", None, phase, container, **more))
    facts = watch.facts("eval")
    assert (facts.state, facts.tasks, facts.exit_code) == (state, tasks, code)


def test_labels_mean_the_newest_job_that_has_them(watch: Watch) -> None:
    watch.server.put("jobs", job("try-1", labels={"exp": "e7"}, made=0))
    newest = watch.server.put("jobs", job("try-2", labels={"exp": "e7"}, made=60))
    facts = watch.facts("exp=e7")
    assert (facts.scheduler_job, facts.identity) == ("job/try-2", newest["metadata"]["uid"])
    assert "the newest of 2 that have these labels" in facts.detail
    # Labels of the pods alone lead to their Job.
    watch.server.put(
        "pods",
        pod("try-1-x", watch.server.objects["jobs"][("runs", "try-1")], "Running", running(1), labels={"arm": "a"}),
    )
    assert watch.facts("arm=a").scheduler_job == "job/try-1"
