"""Attempts in time become gang events: what counts, what does not, and with which cause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.interruptions import interruptions
from runwatch.facts import Attempt, AttemptEnd, SchedulerFacts, SchedulerState, Successor
from tests.unit.scheduler_stories import (
    CANCELLED,
    FAILED,
    HOUR,
    PREEMPTED,
    SUCCEEDED,
    T0,
    UNKNOWN,
    WALL_TIME,
    attempt,
    facts,
    gang,
    view_of,
)

Event = tuple[float, str]


def events_of(said: SchedulerFacts, time: float = 50 * HOUR) -> list[Event]:
    return [(event.time - T0, event.cause.value) for event in interruptions(view_of((time, said)))]


def test_a_gang_of_eight_preempted_once_is_one_interruption_at_its_first_end() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1100)], preemptions=8)
    view = view_of((HOUR, said))
    (event,) = interruptions(view)
    assert (event.time, event.last_end, event.attempts) == (T0 + 1000, T0 + 1007, 8)
    assert event.cause.value == "preemption"


@pytest.mark.parametrize(("apart", "count"), [(120.0, 1), (121.0, 2)])
def test_ends_within_two_minutes_of_one_another_are_one(apart: float, count: int) -> None:
    attempts = [
        attempt("a", 0, 0, 1000, PREEMPTED),
        attempt("b", 0, 0, 1000 + apart, PREEMPTED),
        attempt("a", 1, 2000),
        attempt("b", 1, 2000),
    ]
    assert len(events_of(facts(attempts))) == count


def test_one_event_lasts_ten_minutes_at_most() -> None:
    # Independent tasks that are preempted every 100 s: 1000 to 1600 is the first event, 1700 to 1900 the second.
    ended = [attempt(f"t{i}-", 0, 0, 1000 + 100 * i, PREEMPTED) for i in range(10)]
    assert events_of(facts([*ended, attempt("t0-", 1, 5000)])) == [(1000, "preemption"), (1700, "preemption")]


def test_a_crash_loop_is_as_many_interruptions_as_it_has_starts() -> None:
    loop = [attempt("a", i, 40 * i, 40 * i + 30, FAILED) for i in range(5)]
    assert events_of(facts([*loop, attempt("a", 5, 200)])) == [(30 + 40 * i, "failure") for i in range(5)]


def test_a_restart_in_the_second_of_the_end_is_a_restart() -> None:
    chain = [attempt("a", 0, 0, 1000, FAILED), attempt("a", 1, 1000, 1010, FAILED), attempt("a", 2, 1010)]
    assert events_of(facts(chain)) == [(1000, "failure"), (1010, "failure")]


@pytest.mark.parametrize("state", [SchedulerState.SUCCEEDED, SchedulerState.FAILED, SchedulerState.KILLED])
@pytest.mark.parametrize("end", [SUCCEEDED, FAILED, CANCELLED, PREEMPTED, UNKNOWN, WALL_TIME])
def test_the_end_of_the_job_itself_is_none(state: SchedulerState, end: AttemptEnd) -> None:
    assert events_of(facts(gang(0, 0, 1000, end), state, ended=T0 + 1010)) == []


def test_a_users_cancel_is_none_though_the_scheduler_adds_one_per_task() -> None:
    attempts = [*gang(0, 0, 500, PREEMPTED), *gang(1, 600, 3000, CANCELLED)]
    assert events_of(facts(attempts, SchedulerState.KILLED, preemptions=16, ended=T0 + 3008)) == [(500, "preemption")]
    # while the cancel is under way, the job not being over yet
    assert events_of(facts(attempts, SchedulerState.RUNNING)) == [(500, "preemption")]


def test_a_cancelled_job_that_was_submitted_anew_is_one_run_that_was_interrupted() -> None:
    first = facts(gang(0, 0, 1000, CANCELLED), SchedulerState.KILLED, identity="1", ended=T0 + 1008)
    again = facts(gang(7, 5000), identity="2", submitted=T0 + 4900)
    (event,) = interruptions(view_of((1060, first), (5060, again)))
    assert (event.time - T0, event.cause.value) == (1000, "unknown")


def test_while_it_waits_to_be_placed_again_the_interruption_counts() -> None:
    said = facts(gang(0, 0, 1000, PREEMPTED), SchedulerState.PREEMPTED)
    assert events_of(said) == [(1000, "preemption")]


def test_preempted_and_never_placed_again_was_an_interruption() -> None:
    said = facts(gang(0, 0, 1000, PREEMPTED), SchedulerState.FAILED, ended=T0 + 5000)
    assert events_of(said) == [(1000, "preemption")]


def test_a_whole_chain_of_timeouts_is_one_interruption_fewer_than_links() -> None:
    links = [attempt("x", 0, i * 10 * HOUR, (i * 10 + 8) * HOUR, WALL_TIME, link=str(100 + i)) for i in range(4)]
    over = facts(links, SchedulerState.TIMEOUT, scheduler_job="103", ended=T0 + 38 * HOUR)
    chain = [(8 * HOUR, "chain"), (18 * HOUR, "chain"), (28 * HOUR, "chain")]
    assert events_of(over) == chain
    waits = facts(
        links, SchedulerState.TIMEOUT, scheduler_job="103", successor=Successor("104", running=False, can_start=True)
    )
    assert events_of(waits) == [*chain, (38 * HOUR, "chain")]
    never = facts(
        links, SchedulerState.TIMEOUT, scheduler_job="103", successor=Successor("104", running=False, can_start=False)
    )
    assert events_of(never) == chain


def test_a_link_that_saved_and_left_before_the_limit_is_a_chain_restart() -> None:
    links = [attempt("x", 0, 0, 1000, SUCCEEDED, link="1"), attempt("x", 0, 2000, link="2")]
    assert events_of(facts(links, scheduler_job="2")) == [(1000, "chain")]


def test_a_failed_link_with_a_later_link_is_a_failure_and_a_cancelled_one_is_not_known() -> None:
    for end, cause in ((FAILED, "failure"), (CANCELLED, "unknown")):
        links = [attempt("x", 0, 0, 1000, end, link="1"), attempt("x", 0, 2000, link="2")]
        assert events_of(facts(links, scheduler_job="2")) == [(1000, cause)]


def test_tasks_that_are_done_while_others_go_on_are_none() -> None:
    attempts = [attempt("a", 0, 0, 1000, SUCCEEDED), attempt("b", 0, 0), attempt("c", 0, 1500)]
    assert events_of(facts(attempts)) == []
    # one after another, as a job with one slot for many completions does
    in_turn = [attempt(f"t{i}-", 0, 100 * i, 100 * i + 90, SUCCEEDED) for i in range(5)]
    assert events_of(facts([*in_turn, attempt("t5-", 0, 500)])) == []


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ((PREEMPTED, FAILED, FAILED), "preemption"),
        ((FAILED, FAILED, PREEMPTED), "preemption"),  # the grace period let the others fail first
        ((FAILED, CANCELLED, CANCELLED), "failure"),
        ((CANCELLED, CANCELLED, FAILED), "failure"),
        ((WALL_TIME, FAILED), "chain"),
        ((UNKNOWN, FAILED), "failure"),
        ((UNKNOWN, UNKNOWN), "unknown"),
        ((SUCCEEDED, FAILED), "failure"),
    ],
)
def test_what_decides_when_tasks_ended_in_different_ways(ends: tuple[AttemptEnd, ...], cause: str) -> None:
    ended = [attempt(f"t{i}-", 0, 0, 1000 + 5 * i, end) for i, end in enumerate(ends)]
    assert events_of(facts([*ended, attempt("t0-", 1, 2000)])) == [(1000, cause)]


def test_an_attempt_without_an_end_ended_when_its_task_started_again_at_the_latest() -> None:
    # Task 1 of another number must not stand in for task 0: staggered starts of one gang are no restart.
    attempts = [
        attempt("task0-", 0, 0, None, PREEMPTED),
        attempt("task1-", 0, 3, None, PREEMPTED),
        attempt("task0-", 1, 900),
        attempt("task1-", 1, 903),
    ]
    view = view_of((5000, facts(attempts)))
    (event,) = interruptions(view)
    assert (event.time - T0, event.attempts, event.time_is_exact) == (900, 2, False)


def test_an_attempt_without_an_end_ended_when_it_was_first_seen_so() -> None:
    up = facts([attempt("a", 0, 0)])
    down = facts([attempt("a", 0, 0, None, PREEMPTED)], SchedulerState.PREEMPTED)
    (event,) = interruptions(view_of((600, up), (660, down), (720, down)))
    assert event.time - T0 == 660


def test_an_attempt_whose_end_was_lost_ended_with_the_others_of_its_gang() -> None:
    """Polled every ten minutes: task b's record is replaced when it is placed again; a's tells of a preemption."""
    up = facts([attempt("a", 0, 0), attempt("b", 0, 0)])
    down = facts([attempt("a", 0, 0, 700, PREEMPTED), attempt("a", 1, 1000), attempt("x", 0, 1000)])
    (event,) = interruptions(view_of((600, up), (1200, down), interval=600))
    assert (event.time - T0, event.cause.value, event.attempts) == (700, "preemption", 2)
    # one that was still seen to run later did not
    later = facts([attempt("a", 1, 1000), attempt("x", 0, 1000)])
    seen = facts([attempt("a", 0, 0, 700, PREEMPTED), attempt("a", 1, 1000), attempt("b", 0, 0)])
    found = interruptions(view_of((600, up), (1200, seen), (1800, later), (2400, later), interval=600))
    assert [event.cause.value for event in found] == ["preemption", "unknown"]


def test_the_reason_is_in_the_schedulers_words() -> None:
    attempts = [attempt("a", 0, 0, 1000, FAILED, exit_code=137, detail="OOMKilled"), attempt("a", 1, 1100)]
    (event,) = interruptions(view_of((2000, facts(attempts))))
    assert event.reason == "OOMKilled, exit 137"


@given(
    st.lists(
        st.tuples(
            st.integers(1, 40),  # how long the gang was down before, in windows of 150 s
            st.integers(1, 40),  # how long it then ran
            st.integers(1, 6),  # tasks
            st.sampled_from([PREEMPTED, FAILED, UNKNOWN]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.permutations(range(6)),
)
def test_any_life_of_a_gang_gives_each_of_its_stops_once(
    lives: list[tuple[int, int, int, AttemptEnd]], order: list[int]
) -> None:
    attempts: list[Attempt] = []
    expected: list[Event] = []
    time = 0.0
    names = {PREEMPTED: "preemption", FAILED: "failure", UNKNOWN: "unknown"}
    for number, (down, up, tasks, end) in enumerate(lives):
        time += 150.0 * down
        start, time = time, time + 150.0 * up
        attempts += [attempt(f"t{i}-", number, start, time + order[i], end) for i in range(tasks)]
        expected.append((min(time + order[i] for i in range(tasks)), names[end]))
        time += 10
    attempts.append(attempt("t0-", len(lives), time + 150))
    said = facts(attempts[::-1])
    assert events_of(said, time + 200) == expected
