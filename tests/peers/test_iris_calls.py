"""What the Iris source asks of a controller: how often, for what, and within which limits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from runwatch.facts import AttemptEnd, Failure, FailureReason, SchedulerFacts, SchedulerState
from tests.peers.iris_server import SUBMITTED, IrisServer, Json, attempt, job, serving_iris, stamp
from tests.peers.iris_watch import SITE, Watch, watch_iris


@pytest.fixture
def server() -> Iterator[IrisServer]:
    with serving_iris() as state:
        yield state


@pytest.fixture
def watch(server: IrisServer) -> Iterator[Watch]:
    with watch_iris(server.url) as watching:
        yield watching


def fill(server: IrisServer, count: int, user: str = "u1") -> list[str]:
    ids = [f"/{user}/job-{number:05}" for number in range(count)]
    server.jobs += [job(job_id) for job_id in ids]
    server.attempts |= {f"{job_id}/0": [attempt(0, "RUNNING", 1)] for job_id in ids}
    return ids


def test_a_thousand_jobs_cost_one_listing_call_for_each_500_records(server: IrisServer, watch: Watch) -> None:
    ids = fill(server, 1200)
    outcomes = watch.outcomes(ids[:1000])
    assert all(isinstance(o, SchedulerFacts) and o.state is SchedulerState.RUNNING for o in outcomes.values())
    # 1,000 watched ids have "/u1/job-00" in common, and so have all but job-01000 to job-01199.
    assert server.calls == {"ListJobs": 2, "GetTaskStatus": 1000}

    server.calls.clear()
    watch.requests.clear()
    outcomes = watch.outcomes(ids)
    assert server.calls == {"ListJobs": 3, "GetTaskStatus": 200}
    for _ in range(2):
        server.calls.clear()
        again = watch.outcomes(ids)
        assert server.calls == {"ListJobs": 3}
    assert watch.requests == {SITE: 3 + 200 + 3 + 3}
    assert [o.attempts for o in again.values() if isinstance(o, SchedulerFacts)] == [
        o.attempts for o in outcomes.values() if isinstance(o, SchedulerFacts)
    ]


def test_only_the_job_whose_counts_moved_is_read_again(server: IrisServer, watch: Watch) -> None:
    ids = fill(server, 20)
    gang = "/u1/job-00020"
    server.jobs.append(job(gang, tasks={"running": 3}))
    server.attempts |= {f"{gang}/{index}": [attempt(0, "RUNNING", 1)] for index in range(3)}
    watch.outcomes([*ids, gang])
    # Of the gang its tasks, whose newest attempt is all there is while each has one, and one task for its chips.
    assert server.calls == {"ListJobs": 1, "ListTasks": 1, "GetTaskStatus": 21}

    server.calls.clear()
    server.jobs[-1] = job(gang, tasks={"running": 3}, preemptionCount=1)
    server.attempts[f"{gang}/1"] = [attempt(0, "PREEMPTED", 1, 100), attempt(1, "RUNNING", 160)]
    facts = watch.outcomes([*ids, gang])[gang]
    assert isinstance(facts, SchedulerFacts)
    assert server.calls == {"ListJobs": 1, "ListTasks": 1, "GetTaskStatus": 1}
    assert [(a.end, a.started, a.ended) for a in facts.attempts if a.key.startswith(f"{gang}/1:")] == [
        (AttemptEnd.PREEMPTED, SUBMITTED + 1, SUBMITTED + 100),
        (AttemptEnd.RUNNING, SUBMITTED + 160, None),
    ]
    assert (facts.preemptions, facts.covered_from) == (1, SUBMITTED)

    # Over: read once more, and never again.
    server.jobs[-1] = job(gang, "SUCCEEDED", {"succeeded": 3}, preemptionCount=1, finishedAt=stamp(SUBMITTED + 900))
    for task in range(3):
        server.attempts[f"{gang}/{task}"][-1] |= {"state": "TASK_STATE_SUCCEEDED", "finishedAt": stamp(SUBMITTED + 900)}
    watch.outcomes([*ids, gang])
    server.calls.clear()
    facts = watch.outcomes([*ids, gang])[gang]
    assert isinstance(facts, SchedulerFacts)
    assert server.calls == {"ListJobs": 1}
    assert (facts.state, facts.exit_code, facts.ended) == (SchedulerState.SUCCEEDED, 0, SUBMITTED + 900)
    assert [a.end for a in facts.attempts].count(AttemptEnd.SUCCEEDED) == 3


def test_attempts_that_cannot_be_read_are_not_taken_for_none(server: IrisServer, watch: Watch) -> None:
    [job_id] = fill(server, 1)
    server.answers["GetTaskStatus"] = (500, b'{"code": "internal", "message": "busy"}')
    before = time.time()
    facts = watch.facts(job_id)
    assert (facts.state, facts.attempts) == (SchedulerState.RUNNING, ())
    # Complete from now on and no earlier: a gap until now has an unknown cause, not none.
    assert facts.covered_from is not None
    assert before <= facts.covered_from <= time.time()
    assert "busy" in facts.detail
    server.answers.clear()
    facts = watch.facts(job_id)
    assert (len(facts.attempts), facts.covered_from) == (1, SUBMITTED)


def test_more_jobs_than_iris_lists_are_listed_by_longer_prefixes(server: IrisServer, watch: Watch) -> None:
    fill(server, 6000)
    wanted = ["/u1/job-00007", "/u1/job-05999"]
    outcomes = watch.outcomes(wanted)
    assert all(isinstance(o, SchedulerFacts) and o.state is SchedulerState.RUNNING for o in outcomes.values())
    assert server.calls["ListJobs"] == 3
    server.calls.clear()
    watch.outcomes(wanted)
    assert server.calls == {"ListJobs": 2}


def test_a_prefix_that_cannot_be_longer_is_a_failure_and_no_part(server: IrisServer, watch: Watch) -> None:
    server.jobs.append(job("/u1/a"))
    server.jobs += [job(f"/u1/a{number}") for number in range(6000)]
    failure = watch.failure("/u1/a")
    assert failure.reason is FailureReason.OTHER
    assert "6001 jobs begin with '/u1/a'" in failure.detail
    found = watch.source.find(SITE, "/u1/a7$")
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.OTHER


def test_a_child_that_slips_to_a_page_that_was_read_is_not_missed(server: IrisServer, watch: Watch) -> None:
    ids = fill(server, 499)
    # The child is the first of the second page: the last of the first one, once a job before it is removed.
    server.jobs += [job("/u1/coord"), job("/u1/coord/train-x_1")]
    server.attempts["/u1/coord/0"] = [attempt(0, "RUNNING", 1)]
    server.attempts["/u1/coord/train-x_1/0"] = [attempt(0, "RUNNING", 1)]
    fill(server, 30, "u1/later")
    wanted = ["/u1/coord", *ids[-3:]]
    before = watch.outcomes(wanted)["/u1/coord"]
    answer = server.answer

    def removes_one_before_the_second_page(method: str, message: Json) -> tuple[int, Json]:
        if method == "ListJobs" and message["query"]["offset"] > 0:  # type: ignore[index, call-overload]
            server.answer = answer  # type: ignore[method-assign]
            del server.jobs[0]
        return answer(method, message)

    server.answer = removes_one_before_the_second_page  # type: ignore[method-assign]
    server.calls.clear()
    during = watch.outcomes(wanted)["/u1/coord"]
    assert isinstance(before, SchedulerFacts)
    assert isinstance(during, SchedulerFacts)
    assert during.scheduler_job == before.scheduler_job == "/u1/coord/train-x_1"
    assert server.calls["ListJobs"] == 2 + 2


def test_discovery_shares_the_listing_of_the_polls(server: IrisServer, watch: Watch) -> None:
    server.jobs = [
        job("/u1/one-coord"),
        job("/u1/one-coord/checkpoints-x_1", submittedAt=stamp(SUBMITTED + 50)),
        job("/u1/two-coord", "PENDING", {"pending": 1}),
        job("/u2/three-coord"),
    ]
    found = watch.source.find(SITE, "^/u1/(?P<name>.+)-coord")
    assert isinstance(found, list)
    # The child matches too, and is a part of the job above it.
    assert [(f.name, f.owner, f.state, f.submitted, f.child) for f in found] == [
        ("/u1/one-coord", "u1", SchedulerState.RUNNING, SUBMITTED, "/u1/one-coord/checkpoints-x_1"),
        ("/u1/two-coord", "u1", SchedulerState.PENDING, SUBMITTED, ""),
    ]
    watch.outcomes(["/u1/one-coord"])
    assert server.calls["ListJobs"] == 2
    assert watch.source.find(SITE, "^/u1/(?P<name>.+)-coord") == found
    assert server.calls["ListJobs"] == 2
    assert isinstance(watch.source.find(SITE, "("), Failure)
    assert isinstance(watch.source.find("elsewhere", "^/u1/"), Failure)


def test_a_job_that_a_listing_missed_is_not_gone(server: IrisServer, watch: Watch) -> None:
    ids = fill(server, 3)
    server.hidden = {ids[1]}
    outcome = watch.outcomes([*ids, "/u1/job-none"])
    missed = outcome[ids[1]]
    assert isinstance(missed, Failure)
    assert (missed.reason, missed.is_answer) == (FailureReason.OTHER, False)
    gone = outcome["/u1/job-none"]
    assert isinstance(gone, SchedulerFacts)
    assert gone.state is SchedulerState.GONE
    server.hidden = set()
    server.calls.clear()
    watch.outcomes([*ids, "/u1/job-none"])
    assert server.calls["GetJobState"] == 0


def test_what_happened_after_a_time_is_hidden(server: IrisServer) -> None:
    coordinator = "/u1/x-coord"
    old, new = f"{coordinator}/checkpoints-x_1", f"{coordinator}/checkpoints-x_2"
    server.jobs = [
        job(coordinator),
        job(old, "FAILED", {"failed": 1}, finishedAt=stamp(SUBMITTED + 500), submittedAt=stamp(SUBMITTED + 10)),
        job(new, submittedAt=stamp(SUBMITTED + 600)),
        job("/u1/x-later", submittedAt=stamp(SUBMITTED + 600)),
    ]
    server.attempts = {
        f"{coordinator}/0": [attempt(0, "RUNNING", 1)],
        f"{old}/0": [attempt(0, "PREEMPTED", 20, 100), attempt(1, "FAILED", 200, 500, exitCode=1)],
        f"{new}/0": [attempt(0, "RUNNING", 610)],
    }
    at = SUBMITTED + 300
    with watch_iris(server.url, at=at, clock=lambda: SUBMITTED + 1000) as past:
        facts = past.facts(coordinator)
        assert (facts.scheduler_job, facts.state, facts.tasks) == (old, SchedulerState.UNKNOWN, None)
        assert (facts.preemptions, facts.exit_code, facts.ended) == (None, None, None)
        assert [(a.started, a.ended, a.end, a.exit_code) for a in facts.attempts] == [
            (SUBMITTED + 20, SUBMITTED + 100, AttemptEnd.PREEMPTED, None),
            (SUBMITTED + 200, None, AttemptEnd.RUNNING, None),
        ]
        later = past.facts("/u1/x-later")
        assert (later.state, later.submitted, later.attempts) == (SchedulerState.UNKNOWN, None, ())
    with watch_iris(server.url, at=SUBMITTED + 900, clock=lambda: SUBMITTED + 1000) as almost_now:
        facts = almost_now.facts(coordinator)
        assert (facts.scheduler_job, facts.state, facts.links) == (new, SchedulerState.RUNNING, (old, new))
        assert len(facts.attempts) == 3


def test_chips_of_the_gang(server: IrisServer, watch: Watch) -> None:
    server.jobs = [job("/u1/tpu", tasks={"running": 2})]
    server.attempts = {f"/u1/tpu/{index}": [attempt(0, "RUNNING", 1)] for index in range(2)}
    server.chips = {"tpu": {"variant": "v5p-16", "topology": "", "count": 4}}
    facts = watch.facts("/u1/tpu")
    assert (facts.accelerators, facts.accelerator_type) == (8, "v5p-16")
