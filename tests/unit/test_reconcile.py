"""Which interruption explains which gap, by hand and against a slow obvious version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.attempts import SchedulerView, SeenAttempt, Span
from runwatch.derive.interruptions import GangInterruption
from runwatch.derive.reconcile import explain_gaps
from runwatch.derive.step_timeline import StepInterval
from runwatch.facts import AttemptEnd, InterruptionCause
from tests.unit.scheduler_stories import T0

READ_ALWAYS = (Span(T0 - 1e6, T0 + 1e6),)


def gap(start: float, end: float) -> StepInterval:
    return StepInterval(T0 + start, T0 + end, 10, 11)


def event(time: float, cause: str = "preemption") -> GangInterruption:
    return GangInterruption(T0 + time, T0 + time, InterruptionCause(cause), 8, cause)


def read(*spans: Span, attempts: Sequence[SeenAttempt] = ()) -> SchedulerView:
    return SchedulerView(None, T0, tuple(attempts), attempts_known=True, coverage=spans)


def causes(
    gaps: Sequence[StepInterval],
    events: Sequence[GangInterruption],
    view: SchedulerView | None = None,
    median: float | None = 8.0,
) -> list[str]:
    return [found.cause for found in explain_gaps(gaps, events, view or read(*READ_ALWAYS), median)]


@pytest.mark.parametrize(("silence", "cause"), [(300.0, "unknown"), (301.0, "unexplained")])
def test_a_gap_in_which_older_steps_were_logged_again_was_not_silent(silence: float, cause: str) -> None:
    # Steps of 8 s: a gap is what is longer than 300 s, and a silence too.
    again = replace(gap(1000, 9000), longest_silence=silence)
    assert causes([again], []) == [cause]
    assert causes([again], [event(1000)]) == ["preemption"]


def test_a_gap_by_a_clock_that_is_ten_minutes_ahead_began_as_much_earlier() -> None:
    # Its steps stopped 5 s before the preemption at 1000.
    seen = [gap(1595, 3600)]
    assert causes(seen, [event(1000)]) == ["unexplained"]
    found = explain_gaps(seen, [event(1000)], read(*READ_ALWAYS), 8.0, ahead_seconds=560.0)
    assert [explained.cause for explained in found] == ["preemption"]


def test_gaps_before_and_after_the_clock_was_set_back_have_each_their_own_cause() -> None:
    seen = [gap(9000, 9900), gap(2000, 2600), gap(4000, 4600)]
    assert causes(seen, [event(2100, "failure"), event(4100)]) == ["unexplained", "failure", "preemption"]


@pytest.mark.parametrize(
    ("time", "cause"),
    [
        (909.0, "unexplained"),  # 91 s before the last step that was logged
        (910.0, "preemption"),  # clocks 90 s apart, one way
        (1000.0, "preemption"),
        (2000.0, "preemption"),
        (2090.0, "preemption"),  # and the other way
        (2091.0, "unexplained"),
    ],
)
def test_clocks_may_be_90_seconds_apart(time: float, cause: str) -> None:
    assert causes([gap(1000, 2000)], [event(time)]) == [cause]


@pytest.mark.parametrize(("time", "cause"), [(400.0, "preemption"), (399.0, "unexplained")])
def test_with_long_steps_the_last_rows_may_lack(time: float, cause: str) -> None:
    # Steps of 300 s: what came up to two of them before the last logged row belongs to the gap.
    assert causes([gap(1000, 9000)], [event(time)], median=300.0) == [cause]


def test_two_interruptions_in_one_gap_the_first_counts_and_both_are_told() -> None:
    (found,) = explain_gaps([gap(1000, 5000)], [event(1500, "failure"), event(3000)], read(*READ_ALWAYS), 8.0)
    assert found.cause == "failure"
    assert [e.time - T0 for e in found.interruptions] == [1500, 3000]


def test_one_whose_time_was_lost_comes_after_one_with_a_time_of_its_own() -> None:
    lost = replace(event(1200, "unknown"), time_is_exact=False)
    assert causes([gap(1000, 5000)], [lost, event(1500)]) == ["preemption"]
    assert causes([gap(1000, 5000)], [lost]) == ["unknown"]


def test_one_that_lies_in_the_gap_comes_before_one_that_lies_near_it() -> None:
    (found,) = explain_gaps([gap(1000, 5000)], [event(950, "failure"), event(1500)], read(*READ_ALWAYS), 8.0)
    assert found.cause == "preemption"
    assert [e.time - T0 for e in found.interruptions] == [1500, 950]


def test_an_interruption_that_lies_in_one_gap_does_not_explain_the_next() -> None:
    assert causes([gap(1000, 2000), gap(2050, 3000)], [event(1990)]) == ["preemption", "unexplained"]


def test_one_between_two_gaps_explains_the_one_that_nothing_else_does() -> None:
    gaps = [gap(1000, 2000), gap(2100, 3000)]
    assert causes(gaps, [event(2040)]) == ["preemption", "unexplained"]  # 40 s after the one, 60 s before the other
    assert causes(gaps, [event(2060)]) == ["unexplained", "preemption"]
    assert causes(gaps, [event(1500, "failure"), event(2040)]) == ["failure", "preemption"]


def test_an_interruption_right_between_two_gaps_lies_in_both() -> None:
    assert causes([gap(1000, 2000), gap(2000, 3000)], [event(2000)]) == ["preemption", "preemption"]


def test_unexplained_only_where_the_scheduler_was_read_for_all_of_it() -> None:
    silent = [gap(1000, 2000)]
    assert causes(silent, [], read(Span(T0 + 1000, T0 + 2000))) == ["unexplained"]
    assert causes(silent, [], read(Span(T0 + 1001, T0 + 2000))) == ["unknown"]
    assert causes(silent, [], read(Span(T0, T0 + 1999))) == ["unknown"]
    assert causes(silent, [], read(Span(T0, T0 + 1500), Span(T0 + 1501, T0 + 9000))) == ["unknown"]
    assert causes(silent, [], read()) == ["unknown"]
    assert causes(silent, [event(1500)], read()) == ["preemption"]  # what is seen is known, read or not


def test_a_start_whose_reason_is_not_known_is_no_silent_stall() -> None:
    started = SeenAttempt("b", "2", 0, T0 + 1500, None, AttemptEnd.RUNNING)
    assert causes([gap(1000, 2000)], [], read(*READ_ALWAYS, attempts=[started])) == ["unknown"]
    earlier = SeenAttempt("b", "2", 0, T0 + 900, None, AttemptEnd.RUNNING)
    assert causes([gap(1000, 2000)], [], read(*READ_ALWAYS, attempts=[earlier])) == ["unexplained"]


def test_an_interruption_without_a_cause_makes_a_gap_without_one() -> None:
    assert causes([gap(1000, 2000)], [event(1100, "unknown")]) == ["unknown"]


def slow_causes(
    gaps: Sequence[StepInterval], events: Sequence[GangInterruption], spans: Sequence[Span], before: float
) -> list[str]:
    """Every gap against every interruption. A gap is longer than any slack: none lies between."""
    inside = [[e for e in events if g.start <= e.time <= g.end] for g in gaps]
    near: list[list[GangInterruption]] = [[] for _ in gaps]
    for e in events:
        if any(e in found for found in inside):
            continue
        ranked = []
        for i, g in enumerate(gaps):
            if g.start - before <= e.time < g.start:
                ranked.append((len(inside[i]) > 0, g.start - e.time, -i, i))
            elif g.end < e.time <= g.end + 90.0:
                ranked.append((len(inside[i]) > 0, e.time - g.end, -i, i))
        if ranked:
            near[min(ranked)[3]].append(e)
    result = []
    for i, g in enumerate(gaps):
        if inside[i] or near[i]:
            chosen = min(inside[i] or near[i], key=lambda e: e.time)
            result.append(chosen.cause.value)
        elif any(s.start <= g.start and g.end <= s.end for s in spans):
            result.append("unexplained")
        else:
            result.append("unknown")
    return result


@given(
    lengths=st.lists(st.tuples(st.integers(1, 200), st.integers(301, 900)), min_size=1, max_size=8),
    events=st.lists(st.tuples(st.integers(-300, 7000), st.sampled_from(list(InterruptionCause))), max_size=12),
    spans=st.lists(st.tuples(st.integers(-500, 7000), st.integers(0, 6000)), max_size=3),
    median=st.sampled_from([None, 8.0, 100.0]),
)
def test_it_is_what_the_slow_obvious_version_says(
    lengths: list[tuple[int, int]],
    events: list[tuple[int, InterruptionCause]],
    spans: list[tuple[int, int]],
    median: float | None,
) -> None:
    gaps, time = [], 0
    for before, length in lengths:
        time += before
        gaps.append(gap(time, time + length))
        time += length
    unique = dict(events)
    happened = [event(when + 0.5, cause.value) for when, cause in sorted(unique.items())]
    covered = [Span(T0 + start, T0 + start + length) for start, length in spans]
    slack = max(90.0, 2 * median) if median is not None else 90.0
    assert causes(gaps, happened, read(*covered), median) == slow_causes(gaps, happened, covered, slack)
