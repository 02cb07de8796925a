"""What is kept over polls: attempts that were forgotten, and the times at which nothing can have been missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runwatch.derive.attempts import SchedulerView, gang_start
from runwatch.facts import AttemptEnd, SchedulerState
from runwatch.scheduler_digest import ATTEMPTS_KEPT, SchedulerDigest
from tests.unit.scheduler_stories import (
    FAILED,
    HOUR,
    PREEMPTED,
    RUNNING,
    SUCCEEDED,
    T0,
    UNKNOWN,
    attempt,
    facts,
    gang,
    polled,
    view_of,
)


def spans(view: SchedulerView) -> list[tuple[float, float]]:
    return [(span.start - T0, span.end - T0) for span in view.coverage]


def ends(view: SchedulerView) -> list[tuple[str, AttemptEnd, float | None]]:
    return [(a.key, a.end, None if a.ended is None else a.ended - T0) for a in view.attempts]


def test_nothing_is_known_before_the_first_answer() -> None:
    assert SchedulerDigest(60).view(T0) is None


def test_answers_close_together_cover_the_time_between_them() -> None:
    said = facts([attempt("a", 0, 0)])
    view = view_of(*polled(said, [0, 60, 240, 421, 480]))
    assert spans(view) == [(0, 240), (421, 480)]  # 181 s apart is more than three intervals
    assert view.covers(T0, T0 + 240)
    assert not view.covers(T0 + 200, T0 + 450)


def test_one_answer_that_reaches_back_covers_all_since_then() -> None:
    said = facts([attempt("a", 0, 0)], covered_from=T0 - 500)
    assert spans(view_of((HOUR, said))) == [(-500, HOUR)]
    # ... and what it says that it does not cover is not covered, however often it was asked
    partly = facts([attempt("a", 0, 0)], covered_from=T0 + 120)
    assert spans(view_of((60, facts([attempt("a", 0, 0)])), (120, partly))) == [(60, 60), (120, 120)]
    late = facts([attempt("a", 0, 0)], covered_from=T0 + 2 * HOUR)
    assert spans(view_of((HOUR, said), (3 * HOUR, late))) == [(-500, HOUR), (2 * HOUR, 3 * HOUR)]


def test_an_answer_that_tells_nothing_of_attempts_covers_nothing() -> None:
    told, silent = facts([attempt("a", 0, 0)]), facts()
    view = view_of((0, told), (60, silent), (120, told))
    assert spans(view) == [(0, 0), (120, 120)]
    assert not view_of((0, silent)).attempts_known
    assert not view_of((0, facts(state=SchedulerState.UNKNOWN))).attempts_known
    assert view_of((0, facts(state=SchedulerState.PENDING))).attempts_known


def test_a_forgotten_attempt_is_kept_as_it_was() -> None:
    both = facts([attempt("a", 0, 0, 50, FAILED), attempt("a", 1, 60)])
    newest = facts([attempt("a", 1, 60)])
    assert ends(view_of((100, both), (160, newest))) == [("/u/job/a/0", FAILED, 50), ("/u/job/a/1", RUNNING, None)]


def test_a_start_that_was_told_stays_known_when_its_container_was_lost() -> None:
    first, lost = facts([attempt("a", 0, 0)]), facts([replace(attempt("a", 0, 0, 90, PREEMPTED), started=None)])
    (kept,) = view_of((60, first), (120, lost)).attempts
    assert (kept.started, kept.ended, kept.end) == (T0, T0 + 90, PREEMPTED)
    # Under another identity the same key is another start.
    another = replace(lost, identity="two")
    (kept,) = view_of((60, replace(first, identity="one")), (120, another)).attempts
    assert kept.started is None


def test_an_attempt_that_disappeared_while_it_ran_ended_unseen() -> None:
    first, second = facts([attempt("a", 0, 0)]), facts([attempt("b", 0, 130)])
    view = view_of((60, first), (120, first), (180, second), (240, second))
    assert ends(view) == [("/u/job/a/0", UNKNOWN, 180), ("/u/job/b/0", RUNNING, None)]
    assert [a.end_is_exact for a in view.attempts] == [False, True]


def test_an_answer_without_attempts_ends_none_of_them_unless_it_says_that_no_task_is_there() -> None:
    first = facts([attempt("a", 0, 0)])
    assert ends(view_of((60, first), (120, facts()))) == [("/u/job/a/0", RUNNING, None)]
    waits = facts(state=SchedulerState.PREEMPTED)
    assert ends(view_of((60, first), (120, waits))) == [("/u/job/a/0", UNKNOWN, 120)]


def test_an_answer_that_was_not_read_whole_ends_no_attempt_and_knows_no_interruptions() -> None:
    first = facts([attempt("a", 0, 0)], covered_from=T0 - 10)
    unread = facts(covered_from=T0 + 118)
    view = view_of((60, first), (120, unread))
    assert ends(view) == [("/u/job/a/0", RUNNING, None)]
    assert spans(view) == [(-10, 60), (118, 120)]
    assert not view_of((120, unread)).attempts_known
    assert not view_of((120, facts(state=SchedulerState.FAILED))).attempts_known


def test_an_attempt_that_a_complete_answer_does_not_show_ended_before_its_coverage_begins() -> None:
    """A child that was replaced took its attempts along: all that ran since the new one was submitted are shown."""
    old = facts([attempt("a", 0, 0)], covered_from=T0 - 10)
    new = facts([attempt("b", 0, 100)], covered_from=T0 + 90)
    assert ends(view_of((60, old), (120, new)))[0] == ("/u/job/a/0", RUNNING, None)  # not read whole, for all we know
    assert ends(view_of((60, old), (120, new), (180, new)))[0] == ("/u/job/a/0", UNKNOWN, 90)


def test_an_attempt_that_comes_back_never_ended() -> None:
    first = facts([attempt("a", 0, 0), attempt("b", 0, 0)])
    missing = facts([attempt("a", 0, 0)])
    assert ends(view_of((60, first), (120, missing), (180, first)))[1] == ("/u/job/b/0", RUNNING, None)


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (SchedulerState.SUCCEEDED, SUCCEEDED),
        (SchedulerState.FAILED, FAILED),
        (SchedulerState.TIMEOUT, AttemptEnd.WALL_TIME),
        (SchedulerState.KILLED, AttemptEnd.CANCELLED),
        (SchedulerState.GONE, UNKNOWN),
    ],
)
def test_attempts_end_with_the_job_where_they_were_not_asked_for_again(state: SchedulerState, end: AttemptEnd) -> None:
    over = facts(state=state, ended=T0 + 500)
    assert ends(view_of((60, facts([attempt("a", 0, 0)])), (600, over))) == [("/u/job/a/0", end, 500)]


def test_an_attempt_lost_long_before_the_end_did_not_end_with_the_job() -> None:
    first, other = facts([attempt("a", 0, 0)]), facts([attempt("b", 0, 130)])
    over = facts(state=SchedulerState.SUCCEEDED, ended=T0 + 900)
    assert ends(view_of((60, first), (180, other), (960, over))) == [
        ("/u/job/a/0", UNKNOWN, 180),
        ("/u/job/b/0", SUCCEEDED, 900),
    ]


def test_a_resubmission_under_one_name_keeps_the_older_attempts_as_ended() -> None:
    old = facts([attempt("a", 0, 0)], identity="one")
    new = facts([attempt("a", 9, 1000)], identity="two", submitted=T0 + 950)
    view = view_of((60, old), (1060, new))
    assert ends(view) == [("/u/job/a/0", UNKNOWN, 950), ("/u/job/a/9", RUNNING, None)]
    assert [a.submission for a in view.attempts] == [0, 1]


def test_what_is_kept_is_bounded_and_what_was_dropped_is_not_covered() -> None:
    many = [attempt("a", i, 10 * i, 10 * i + 5, FAILED) for i in range(ATTEMPTS_KEPT + 3)]
    view = view_of((HOUR * 20, facts(many, covered_from=T0)))
    assert len(view.attempts) == ATTEMPTS_KEPT
    assert view.attempts[0].key == "/u/job/a/3"
    assert spans(view) == [(25, HOUR * 20)]


def test_since_when_a_state_holds() -> None:
    bare, up = facts(state=SchedulerState.NO_TASKS), facts([attempt("a", 0, 0)])
    assert view_of((0, bare), (60, up), (120, bare), (180, bare)).state_since == T0 + 120


def test_a_job_without_tasks_is_so_only_since_when_it_was_looked_at_without_a_break() -> None:
    none = facts(state=SchedulerState.NO_TASKS, identity="a")
    # Blind from 120 to 3720: there may have been tasks meanwhile.
    assert view_of((60, none), (120, none), (3720, none)).state_since == T0 + 3720
    assert view_of((60, none), (120, none), (300, none)).state_since == T0 + 60
    # The same name submitted anew has not been without tasks before.
    anew = facts(state=SchedulerState.NO_TASKS, identity="b", submitted=T0 + 90)
    assert view_of((60, none), (120, anew)).state_since == T0 + 120
    # A record that is gone stays gone since when that was first seen.
    gone = facts(state=SchedulerState.GONE)
    assert view_of((60, gone), (3720, gone)).state_since == T0 + 60


def test_an_output_for_a_time_gone_by_hides_what_came_later() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1100)], covered_from=T0)
    view = view_of((2000, said)).as_of(T0 + 900)
    assert view.facts is None
    assert {(a.end, a.ended) for a in view.attempts} == {(RUNNING, None)}
    assert len(view.attempts) == 8
    assert spans(view) == [(0, 900)]
    over = view_of((2000, facts(gang(0, 0, 1000, FAILED), SchedulerState.FAILED, ended=T0 + 1010)))
    assert (over.as_of(T0 + 1500).over, over.as_of(T0 + 1005).over) == (True, False)


def test_a_gang_started_with_the_first_of_its_tasks() -> None:
    restarted = view_of((2000, facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1100)])))
    assert gang_start(restarted.attempts) == T0 + 1100
    # One task of eight was placed again while seven went on: the longest of them counts.
    partly = [*gang(0, 0, tasks=7), attempt("task7-", 0, 0, 900, PREEMPTED), attempt("task7-", 1, 950)]
    assert gang_start(view_of((2000, facts(partly))).attempts) == T0
    assert gang_start(()) is None


def test_a_suspension_lasted_at_most_from_the_look_before_to_the_look_after() -> None:
    runs, held = facts([attempt("a", 0, 0)]), facts([attempt("a", 0, 0)], SchedulerState.PREEMPTED, suspended=True)
    view = view_of((0, runs), (60, runs), (120, held), (180, held), (240, runs), (300, runs), (900, held))
    assert [(span.start - T0, span.end - T0) for span in view.suspended] == [(60, 240), (300, 900)]
    assert [(span.start - T0, span.end - T0) for span in view.as_of(T0 + 500).suspended] == [(60, 240), (300, 500)]
    assert view.attempts[0].ended is None
