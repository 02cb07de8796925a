"""Iris's replies into facts: the table of states, attempts and their ends, the training child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.interruptions import interruptions
from runwatch.facts import AttemptEnd, InterruptionCause, SchedulerState, TaskCounts
from runwatch.parsing.iris import (
    AttemptRecord,
    JobRecord,
    TaskRecord,
    parse_jobs_page,
    parse_log_lines,
    parse_task,
    parse_tasks,
    scheduler_state,
    task_counts,
)
from runwatch.parsing.iris_attempts import attempts_of, exit_code_of, until
from runwatch.parsing.iris_facts import KnownTasks, job_facts
from runwatch.parsing.iris_selection import Selection, children_by_parent, select_job, selected_state
from runwatch.scheduler_digest import SchedulerDigest
from runwatch.sources.iris_patterns import literal_beginning

NAME = "/u1/a"


def record(state: str = "RUNNING", tasks: Mapping[str, int] | None = None, **more: Any) -> JobRecord:
    counts = {"running": 1} if tasks is None else tasks
    job = JobRecord(NAME, f"JOB_STATE_{state}", 100.0, 110.0, task_states=counts, task_count=sum(counts.values()))
    return replace(job, **more)


def tried(
    number: int, state: str, started: float | None, finished: float | None = None, error: str = "", *, code: int = 0
) -> AttemptRecord:
    return AttemptRecord(number, f"TASK_STATE_{state}", code, error, "", started, finished)


def task(index: int, *attempts: AttemptRecord) -> TaskRecord:
    return TaskRecord(f"{NAME}/{index}", len(attempts) - 1, attempts)


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (record("PENDING", {"pending": 4}, started=None), SchedulerState.PENDING),
        (record("PENDING", {"pending": 4}, preemptions=1), SchedulerState.PREEMPTED),
        (record("BUILDING", {"building": 1}), SchedulerState.RUNNING),
        (record("RUNNING", {"running": 4}), SchedulerState.RUNNING),
        (record("RUNNING", {"running": 1, "pending": 3}), SchedulerState.RUNNING),
        (record("RUNNING", {"assigned": 4}), SchedulerState.RUNNING),
        (record("RUNNING", {"building": 4}), SchedulerState.RUNNING),
        (record("RUNNING", {"pending": 4}), SchedulerState.PREEMPTED),
        (record("RUNNING", {"pending": 3, "succeeded": 1}), SchedulerState.PREEMPTED),
        (record("RUNNING", {"pending": 4}, started=None), SchedulerState.PENDING),
        (record("RUNNING", {}), SchedulerState.NO_TASKS),
        (record("RUNNING", {}, task_count=4), SchedulerState.RUNNING),
        (record("RUNNING", {"succeeded": 4}), SchedulerState.RUNNING),
        (record("SUCCEEDED", {"succeeded": 1}), SchedulerState.SUCCEEDED),
        (record("FAILED", {"failed": 1}), SchedulerState.FAILED),
        (record("KILLED", {"killed": 1}), SchedulerState.KILLED),
        (record("WORKER_FAILED", {"worker_failed": 1}), SchedulerState.FAILED),
        (record("UNSCHEDULABLE", {}), SchedulerState.FAILED),
        (record("UNSPECIFIED"), SchedulerState.UNKNOWN),
        (record("SOMETHING_NEW"), SchedulerState.UNKNOWN),
        (record(cluster="local", peer_status="PEER_STATUS_NONE"), SchedulerState.RUNNING),
        (record(cluster="west", peer_status="PEER_STATUS_SYNCED"), SchedulerState.RUNNING),
        (record(cluster="west", peer_status="PEER_STATUS_ASSIGNED"), SchedulerState.UNKNOWN),
        (record(cluster="west"), SchedulerState.UNKNOWN),
        # A peer that has a job of that id refuses another: the controller ends its own record of it.
        (record("KILLED", cluster="west", peer_status="PEER_STATUS_REJECTED"), SchedulerState.KILLED),
        (record("PENDING", cluster="west", peer_status="PEER_STATUS_PENDING_SCHEDULING"), SchedulerState.PENDING),
        (record("KILLED", cluster="west", peer_status="PEER_STATUS_PENDING_SCHEDULING"), SchedulerState.KILLED),
        (record("PENDING", cluster="west", peer_status="PEER_STATUS_ASSIGNED"), SchedulerState.UNKNOWN),
    ],
)
def test_the_table_of_states(job: JobRecord, state: SchedulerState) -> None:
    assert scheduler_state(job)[0] is state


def test_tasks_that_are_placed_but_do_not_run_are_pending() -> None:
    states = {"running": 1, "assigned": 2, "building": 4, "pending": 8, "succeeded": 16, "failed": 32, "killed": 64}
    more = {"worker_failed": 100, "cosched_failed": 1000}
    counted = task_counts(record(tasks=states | more))
    assert counted == TaskCounts(running=1, pending=14, succeeded=16, failed=1132)
    assert task_counts(record(tasks={})) == TaskCounts()
    assert task_counts(record(tasks={}, task_count=4)) is None


@pytest.mark.parametrize(
    ("job", "last", "end", "code"),
    [
        (record(), tried(0, "RUNNING", 110), AttemptEnd.RUNNING, None),
        (record("SUCCEEDED"), tried(0, "SUCCEEDED", 110, 120), AttemptEnd.SUCCEEDED, 0),
        (record("FAILED"), tried(0, "FAILED", 110, 120, "Exit code: 3", code=3), AttemptEnd.FAILED, 3),
        (record(), tried(0, "FAILED", 110, 120, "Evicted: EvictedDueToPreempted", code=137), AttemptEnd.PREEMPTED, 137),
        (
            record(),
            tried(0, "FAILED", 110, 120, "TerminationTarget: Workload Evicted", code=137),
            AttemptEnd.PREEMPTED,
            137,
        ),
        (record("FAILED"), tried(0, "FAILED", 110, 120, "OOMKilled", code=137), AttemptEnd.FAILED, 137),
        (record(), tried(0, "FAILED", 110, 120, "Error", code=137), AttemptEnd.FAILED, 137),
        (record(), tried(0, "WORKER_FAILED", 110, 120), AttemptEnd.PREEMPTED, None),
        (record(), tried(0, "PREEMPTED", 110, 120), AttemptEnd.PREEMPTED, None),
        (record("KILLED", error="Terminated by user"), tried(0, "KILLED", 110, 120), AttemptEnd.CANCELLED, None),
        (record("KILLED", error="Parent job terminated"), tried(0, "KILLED", 110, 120), AttemptEnd.CANCELLED, None),
        (record("FAILED"), tried(0, "KILLED", 110, 120, "Cumulative failed"), AttemptEnd.FAILED, None),
        (record("WORKER_FAILED"), tried(0, "KILLED", 110, 120), AttemptEnd.PREEMPTED, None),
        (record(tasks={"pending": 1}), tried(0, "KILLED", 110, 120, "drained"), AttemptEnd.PREEMPTED, None),
        (record(), tried(0, "MISSING", 110, 120), AttemptEnd.UNKNOWN, None),
        (record(), tried(0, "SOMETHING_NEW", 110, 120), AttemptEnd.UNKNOWN, None),
        (record(), tried(0, "SOMETHING_NEW", 110), AttemptEnd.RUNNING, None),
    ],
)
def test_how_an_attempt_ended(job: JobRecord, last: AttemptRecord, end: AttemptEnd, code: int | None) -> None:
    [attempt] = attempts_of(job, [task(0, last)])
    assert (attempt.end, attempt.exit_code) == (end, code)
    assert attempt.ended == (None if end is AttemptEnd.RUNNING else 120)
    assert attempt.key == f"{NAME}/0:0@100000"


def test_an_end_that_was_not_recorded_has_a_stand_in() -> None:
    lost = tried(0, "PREEMPTED", 110)
    [first, _] = attempts_of(record(), [task(0, lost, tried(1, "RUNNING", 150))])
    assert (first.ended, "next attempt" in first.detail) == (150, True)
    [seen] = attempts_of(record(), [task(0, lost)], seen_ended={f"{NAME}/0:0@100000": 140.0})
    assert (seen.ended, "first seen" in seen.detail) == (140, True)
    [over] = attempts_of(record("KILLED", finished=170.0), [task(0, lost)])
    assert (over.ended, "job's end" in over.detail) == (170, True)
    [nothing] = attempts_of(record(), [task(0, lost)])
    assert (nothing.ended, nothing.end) == (None, AttemptEnd.PREEMPTED)


def test_a_state_that_a_newer_iris_brought_ends_no_attempt() -> None:
    """Of a job that runs: as an end it would be an interruption, for as long as the state lasts."""
    digest = SchedulerDigest(60)
    for now, state in ((5000.0, "RUNNING"), (5060.0, "SOMETHING_NEW"), (5120.0, "SOMETHING_NEW"), (5180.0, "RUNNING")):
        known = KnownTasks((task(0, tried(0, state, 110)),), whole=True)
        digest.add(job_facts(Selection(record(tasks={"running": 1})), lambda _: known, now=now), now)  # noqa: B023
        view = digest.view(now)
        assert view is not None
        assert interruptions(view) == ()
    [lost, _] = attempts_of(record(), [task(0, tried(0, "SOMETHING_NEW", 110), tried(1, "RUNNING", 150))])
    assert (lost.ended, lost.end) == (150, AttemptEnd.UNKNOWN)


def test_a_gang_one_of_whose_ends_was_not_recorded_is_interrupted_once() -> None:
    """The reclaimed worker confirms nothing, those of the rest do; capacity comes back an hour later."""
    bounced = "coscheduled sibling was preempted"
    tasks = [task(0, tried(0, "PREEMPTED", 110), tried(1, "RUNNING", 4600))]
    tasks += [
        task(i, tried(0, "COSCHED_FAILED", 110, 1000.0 + i, bounced), tried(1, "RUNNING", 4600.0 + i))
        for i in (1, 2, 3)
    ]
    known = KnownTasks(tuple(tasks), whole=True)
    digest = SchedulerDigest(60)
    digest.add(job_facts(Selection(record(tasks={"running": 4})), lambda _: known, now=5000.0), 5000.0)
    view = digest.view(5000.0)
    assert view is not None
    [event] = interruptions(view)
    assert (event.time, event.cause, event.attempts) == (1001, InterruptionCause.PREEMPTION, 4)


def test_a_task_of_no_gang_whose_end_was_not_recorded_ended_by_itself() -> None:
    """Task 1 failed and ran again at once: what took task 0 an hour later was something else."""
    apart = [
        task(0, tried(0, "PREEMPTED", 110), tried(1, "RUNNING", 4600)),
        task(1, tried(0, "FAILED", 110, 1000, code=1), tried(1, "RUNNING", 1010)),
    ]
    ends = {a.key.partition("@")[0]: a.ended for a in attempts_of(record(), apart)}
    assert ends[f"{NAME}/0:0"] == 4600
    # Seen ended at 4500, before it was placed again: the rest of its gang cannot run again by then.
    seen = {f"{NAME}/0:0@100000": 4500.0}
    gang = [apart[0], task(1, tried(0, "COSCHED_FAILED", 110, 4210), tried(1, "RUNNING", 4601))]
    assert attempts_of(record(), gang, seen_ended=seen)[0].ended == 4210
    again = [apart[0], task(1, tried(0, "FAILED", 110, 4210, code=1), tried(1, "RUNNING", 4220))]
    assert attempts_of(record(), again, seen_ended=seen)[0].ended == 4500


def test_an_attempt_that_never_started_is_no_interruption() -> None:
    tasks = [task(0, tried(0, "PREEMPTED", 110, 120), tried(1, "WORKER_FAILED", None, 125), tried(2, "RUNNING", 130))]
    assert [(a.key.partition("@")[0], a.end) for a in attempts_of(record(), tasks)] == [
        (f"{NAME}/0:0", AttemptEnd.PREEMPTED),
        (f"{NAME}/0:2", AttemptEnd.RUNNING),
    ]


@pytest.mark.parametrize(("first", "end"), [("PREEMPTED", AttemptEnd.PREEMPTED), ("FAILED", AttemptEnd.FAILED)])
def test_a_task_stopped_with_its_gang_ended_as_the_first_did(first: str, end: AttemptEnd) -> None:
    hit = task(0, tried(0, first, 110, 500, code=1 if first == "FAILED" else 0), tried(1, "RUNNING", 600))
    bounced = task(1, tried(0, "COSCHED_FAILED", 110, 503), tried(1, "RUNNING", 600))
    ends = {a.key.partition("@")[0]: a.end for a in attempts_of(record(), [bounced, hit])}
    assert ends[f"{NAME}/1:0"] is end
    [alone] = attempts_of(record(), [task(1, tried(0, "COSCHED_FAILED", 110, 503, "bounced"))])
    assert alone.end is AttemptEnd.UNKNOWN


def test_the_exit_code_is_that_of_the_task_that_failed_first() -> None:
    tasks = [
        task(0, tried(0, "KILLED", 110, 121, code=143)),
        task(1, tried(0, "FAILED", 110, 125, code=9)),
        task(2, tried(0, "FAILED", 110, 120, code=3)),
    ]
    assert exit_code_of(tasks, succeeded=False) == 3
    assert exit_code_of(tasks[:1], succeeded=False) == 143
    assert exit_code_of([task(0, tried(0, "KILLED", 110, 121))], succeeded=False) is None
    assert exit_code_of([], succeeded=True) == 0


def test_attempts_as_they_stood_at_a_time() -> None:
    tasks = [task(0, tried(0, "FAILED", 110, 120, code=3), tried(1, "RUNNING", 130))]
    attempts = attempts_of(record(), tasks)
    assert [(a.end, a.ended, a.exit_code) for a in until(attempts, 115)] == [(AttemptEnd.RUNNING, None, None)]
    assert until(attempts, 120) == attempts[:1]
    assert until(attempts, 130) == attempts


def family(*jobs: JobRecord) -> tuple[dict[str, JobRecord], dict[str, list[JobRecord]]]:
    return {job.job_id: job for job in jobs}, children_by_parent(jobs)


def at(path: str, submitted: float, state: str = "RUNNING", **more: Any) -> JobRecord:
    return replace(record(state, **more), job_id=f"/u1/{path}", submitted=submitted)


@pytest.mark.parametrize(
    ("jobs", "chosen", "waits"),
    [
        ([at("c", 1)], "c", False),
        ([at("c-coord", 1)], "c-coord", True),
        ([at("c-coord", 1, "FAILED")], "c-coord", False),
        ([at("c", 1), at("c/checkpoints-1", 9), at("c/checkpoints-2", 10), at("c/eval", 11)], "c/checkpoints-2", False),
        ([at("c", 1), at("c/train", 9), at("c/train/0x", 12), at("c/tokenize", 10)], "c/train", False),
        ([at("c", 1), at("c/tokenize", 9)], "c/tokenize", False),
        ([at("c", 1), at("c/tokenize", 9, "SUCCEEDED")], "c", True),
        ([at("c", 1, tasks={"running": 8}), at("c/rollouts", 9)], "c", False),
        ([at("c/train", 9)], "c/train", False),
        ([at("cc", 9), at("cc/train", 9)], None, False),
    ],
)
def test_the_training_child(jobs: list[JobRecord], chosen: str | None, waits: bool) -> None:
    name = "/u1/c-coord" if jobs[0].job_id.endswith("-coord") else "/u1/c"
    selection = select_job(name, *family(*jobs))
    if chosen is None:
        assert selection is None
        return
    assert selection is not None
    assert (selection.job.job_id, selection.waits_for_child) == (f"/u1/{chosen}", waits)


@pytest.mark.parametrize(
    ("above", "error", "state"),
    [
        ("RUNNING", "Parent task preempted", SchedulerState.PREEMPTED),
        ("RUNNING", "Terminated by user", SchedulerState.KILLED),
        ("FAILED", "Parent job terminated", SchedulerState.FAILED),
        ("KILLED", "Parent job terminated", SchedulerState.KILLED),
        ("SUCCEEDED", "Parent job terminated", SchedulerState.KILLED),
    ],
)
def test_a_child_that_was_killed_with_the_job_above_it(above: str, error: str, state: SchedulerState) -> None:
    selection = select_job("/u1/c", *family(at("c", 1, above), at("c/train", 2, "KILLED", error=error)))
    assert selection is not None
    assert selected_state(selection)[0] is state


def test_an_attempt_above_counts_only_where_it_took_the_child_along() -> None:
    above, child = at("c", 1), at("c/train", 50)
    attempts = (tried(0, "PREEMPTED", 2, 40), tried(1, "RUNNING", 45))
    known = {
        "/u1/c": KnownTasks((TaskRecord("/u1/c/0", 1, attempts),), whole=True),
        "/u1/c/train": KnownTasks((TaskRecord("/u1/c/train/0", 0, (tried(0, "RUNNING", 55),)),), whole=True),
    }
    selection = select_job("/u1/c", *family(above, child))
    assert selection is not None
    facts = job_facts(selection, lambda job: known[job.job_id], now=100.0)
    assert [(a.link, a.end, a.ended) for a in facts.attempts] == [
        ("/u1/c", AttemptEnd.PREEMPTED, 40),
        ("/u1/c/train", AttemptEnd.RUNNING, None),
    ]
    assert (facts.covered_from, facts.submitted, facts.identity) == (50, 1, "/u1/c@1000")
    # A child that began before and went on was not touched.
    known["/u1/c/train"] = KnownTasks((TaskRecord("/u1/c/train/0", 0, (tried(0, "RUNNING", 5),)),), whole=True)
    facts = job_facts(selection, lambda job: known[job.job_id], now=100.0)
    assert [a.link for a in facts.attempts] == ["/u1/c/train"]
    known["/u1/c"] = KnownTasks(trouble="it was not answered")
    facts = job_facts(selection, lambda job: known[job.job_id], now=100.0)
    assert facts.covered_from == 100.0


def test_numbers_may_be_missing_texts_or_nonsense() -> None:
    page = parse_jobs_page(
        {
            "jobs": [
                {"jobId": "/u/a", "submittedAt": {"epochMs": "1500"}, "taskCount": "2", "failureCount": True},
                {"jobId": "/u/b", "submittedAt": {"epochMs": 0}, "taskStateCounts": {"running": -1, "pending": 2}},
                {"name": "/u/c"},
                None,
            ],
            "totalCount": 4,
        }
    )
    first, second = page.jobs
    assert (first.submitted, first.task_count, first.failures, first.preemptions) == (1.5, 2, None, 0)
    assert (second.submitted, second.task_states, second.identity) == (None, {"pending": 2}, "/u/b")
    assert (page.entries, page.malformed, page.total, page.more) == (4, 2, 4, False)


WORDS = """jobs jobId state submittedAt epochMs taskStateCounts taskCount hasMore totalCount tasks task taskId attempts
    attemptId currentAttemptId exitCode startedAt jobResources device tpu count entries data key timestamp"""

_KEYS = st.sampled_from(sorted(WORDS.split()))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=20,
)


@given(st.dictionaries(_KEYS, _JSON, max_size=6))
def test_any_reply_is_read(reply: dict[str, object]) -> None:
    page = parse_jobs_page(reply)
    assert page.malformed + len(page.jobs) == page.entries
    for job in page.jobs:
        assert scheduler_state(job)[0] in SchedulerState
        assert job.submitted is None or job.submitted > 0
    found, _ = parse_task(reply)
    for some in (*parse_tasks(reply), *([found] if found else [])):
        attempts_of(record(), [some])
    for line in parse_log_lines(reply):
        assert isinstance(line.text, str)


@pytest.mark.parametrize(
    ("pattern", "beginning"),
    [
        ("^/u1/(?P<name>.+)-coord$", "/u1/"),
        ("^/u1/", "/u1/"),
        ("^/u1/ab?c", "/u1/a"),
        ("^/u1/ab{2}", "/u1/a"),
        ("^/u1/ab+", "/u1/ab"),
        (r"^/u1/a\.b", "/u1/a"),
        ("^/u1/(a|b)", "/u1/"),
        ("^/u1/[(|]x", "/u1/"),
        ("^/u1/a|^/u2/b", ""),
        ("/u1/a", ""),
        ("(?i)^/u1/", ""),
        ("", ""),
    ],
)
def test_how_matches_of_a_pattern_begin(pattern: str, beginning: str) -> None:
    assert literal_beginning(pattern) == beginning
