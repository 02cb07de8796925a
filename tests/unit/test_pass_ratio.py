"""At which steps an RL job's pass ratio was low, against a slow version that looks at every moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.derive.pass_ratio import LowSpan, PassRatioTimes, TimedStep, is_low
from runwatch.derive.rl import measure_rl
from runwatch.derive.rl_digest import ONE_SIGNAL_SHORT_KEPT, RLDigest
from runwatch.derive.trials import TrialsSummary, summarise_trials
from runwatch.facts import HistoryRow, TrialsFolder, TrialsUpdate
from runwatch.measurements import Measurements
from runwatch.parsing.log_records import TrialResult

GRAD = "policy/raw_grad_norm"
TOKENS = "generate/avg_num_tokens"  # a value of a step, but none that makes it the newest one

Ended = tuple[float, float | None]
"""When a trial ended, and its reward."""

Row = tuple[int, float | None, dict[str, float]]
"""A row's step, its time and its values."""


def summary_of(trials: Sequence[tuple[float | None, float | None]]) -> TrialsSummary:
    results = [TrialResult(f"t{i:05}", r, True, 5.0, "", False, at) for i, (at, r) in enumerate(trials)]
    # In two folders, and in no order of time.
    return summarise_trials(
        TrialsUpdate((TrialsFolder("a", tuple(results[1::2])), TrialsFolder("b", tuple(results[::2]))))
    )


def times_of(trials: Sequence[tuple[float | None, float | None]], known_until: float = math.inf) -> PassRatioTimes:
    summary = summary_of(trials)
    return PassRatioTimes(summary.low_spans, is_low(summary.window_passed, summary.window_scored), known_until)


def many(passed: int, failed: int, since: float = 0.0) -> list[Ended]:
    """Trials, one a second, those that passed first."""
    return [(since + i, 1.0 if i < passed else 0.0) for i in range(passed + failed)]


def collapse_step(rows: Sequence[Row], times: PassRatioTimes | None) -> float | None:
    digest = RLDigest()
    for cursor, (step, at, values) in enumerate(rows):
        digest.add(HistoryRow(cursor, at, step, values), step)
    measured = Measurements()
    measure_rl(measured, digest.summary(), times)
    return measured.get("mljob_rl_collapse_step")


@pytest.mark.parametrize(
    ("trials", "spans"),
    [
        ([], []),
        (many(0, 99), []),
        (many(0, 100), [LowSpan(99.0, math.inf)]),
        (many(9, 91), [LowSpan(99.0, math.inf)]),
        (many(10, 90), []),
        # The first of the ten leaves the window with the next trial.
        (many(10, 91), [LowSpan(100.0, math.inf)]),
        # Ten pass after it: the tenth brings it to 10 %.
        ([*many(0, 100), *many(10, 0, since=200.0)], [LowSpan(99.0, 209.0)]),
        # Those that nobody graded are in no window.
        ([*many(0, 99), *((300.0, None) for _ in range(50))], []),
        # All at once: between two trials of one moment there is no moment.
        ([(5.0, 0.0)] * 100 + [(5.0, 1.0)] * 10, []),
    ],
)
def test_spans_of_a_low_pass_ratio(trials: list[Ended], spans: list[LowSpan]) -> None:
    assert list(summary_of(trials).low_spans) == spans


def test_trials_without_a_time_tell_of_now_alone() -> None:
    times = times_of([(None, 0.0)] * 100)
    assert times == PassRatioTimes((), low_now=True)
    assert times.low_at(TimedStep(3, 50.0, None))
    assert not times.low_at(TimedStep(2, 40.0, 50.0))


def test_a_step_without_a_time_is_judged_while_it_is_the_newest() -> None:
    times = times_of(many(0, 100))
    assert times.low_at(TimedStep(3, None, None))
    rows: list[Row] = [(0, None, {GRAD: 1.5}), (1, None, {GRAD: 1.5})]
    assert collapse_step(rows, times) == 1
    assert collapse_step([*rows, (2, None, {GRAD: 0.1})], times) is None
    # At a time of its own, and the next has none: only then.
    timed: list[Row] = [(0, 10.0, {GRAD: 1.5}), (1, 20.0, {GRAD: 1.5}), (2, None, {GRAD: 0.1})]
    assert collapse_step(timed, times) is None
    assert collapse_step(timed, PassRatioTimes((LowSpan(15.0, 25.0),))) == 1


def test_steps_after_the_trials_fell_silent_are_none() -> None:
    rows: list[Row] = [(step, 1000.0 * step, {GRAD: 1.5}) for step in range(5)]
    assert collapse_step(rows, times_of(many(0, 100))) == 4
    assert collapse_step(rows, times_of(many(0, 100), known_until=2500.0)) == 2


def test_no_trials_no_collapse() -> None:
    rows: list[Row] = [(step, 10.0 * step, {GRAD: 1.5}) for step in range(5)]
    assert collapse_step(rows, None) is None
    assert collapse_step(rows, times_of([])) is None


def test_the_steps_that_are_kept_are_bounded_by_the_newest() -> None:
    digest = RLDigest()
    for step in range(3 * ONE_SIGNAL_SHORT_KEPT):
        digest.add(HistoryRow(step, float(step), step, {GRAD: 1.5}), step)
    kept = digest.summary().one_signal_short
    assert len(kept) == ONE_SIGNAL_SHORT_KEPT
    assert kept[-1] == TimedStep(3 * ONE_SIGNAL_SHORT_KEPT - 1, 3.0 * ONE_SIGNAL_SHORT_KEPT - 1, None)
    assert kept[-2].until == kept[-1].since


def slow_low_at(trials: Sequence[Ended], moment: float) -> bool:
    scored = [(at, i, reward) for i, (at, reward) in enumerate(trials) if reward is not None and at <= moment]
    window = [reward for _, _, reward in sorted(scored, key=lambda trial: (trial[0], f"t{trial[1]:05}"))[-100:]]
    return len(window) == 100 and 10 * sum(reward > 0 for reward in window) < 100


def slow_collapse_step(rows: Sequence[Row], trials: Sequence[Ended]) -> int | None:
    """Play all that happened moment by moment (halves of a second), with the one signal of two high norms."""
    lineage: list[tuple[int, float]] = []
    held: set[int] = set()
    moments = sorted({at for _, at, _ in rows if at is not None} | {at for at, _ in trials})
    waiting = list(rows)
    for moment in moments:
        while waiting and waiting[0][1] is not None and waiting[0][1] <= moment:
            step, _, values = waiting.pop(0)
            lineage = [known for known in lineage if known[0] < step]
            held = {known for known in held if known < step}
            if GRAD in values:
                lineage.append((step, values[GRAD]))
        two_high = len(lineage) >= 2 and min(norm for _, norm in lineage[-2:]) > 1.0
        if two_high and slow_low_at(trials, moment):
            held.add(lineage[-1][0])
    return max(held, default=None)


@st.composite
def trials_in_time(draw: st.DrawFn) -> list[Ended]:
    """Runs of trials that mostly fail, so that the window crosses 10 % up and down."""
    at, found = -300.0, []
    for _ in range(draw(st.integers(1, 8))):
        passes = draw(st.sampled_from([0, 0, 3, 9, 10, 11, 30]))
        count = draw(st.integers(1, 80))
        gap = draw(st.sampled_from([0.0, 1.0, 2.0]))
        for i in range(count):
            reward = None if i % 17 == 16 else float(i * 100 // count < passes)
            found.append((at, reward))
            at += gap
    return found


@st.composite
def rows_in_time(draw: st.DrawFn) -> list[Row]:
    """Steps at distinct times that mostly go on, now and then fall back; some begin with a row that makes no step."""
    found: list[Row] = []
    at, step = -0.5, -1
    for move in draw(st.lists(st.sampled_from([1, 1, 1, 1, 1, 2, -1, -3]), min_size=3, max_size=25)):
        at += draw(st.sampled_from([1.0, 20.0, 60.0]))
        step = max(0, step + move)
        if move > 0 and draw(st.booleans()):
            found.append((step, at, {TOKENS: 900.0}))
            at += draw(st.sampled_from([1.0, 20.0]))
        # Below twice any of the others, so that the window's own condition never holds.
        found.append((step, at, {GRAD: draw(st.sampled_from([0.8, 1.2, 1.2]))}))
    return found


@settings(max_examples=300)
@given(rows_in_time(), trials_in_time())
def test_collapse_step_equals_what_was_seen_moment_by_moment(rows: list[Row], trials: list[Ended]) -> None:
    assert collapse_step(rows, times_of(trials)) == slow_collapse_step(rows, trials)


@settings(max_examples=100)
@given(trials_in_time(), st.data())
def test_what_is_hidden_after_a_time_changes_nothing_before_it(trials: list[Ended], data: st.DataObject) -> None:
    """An output for a time gone by has the spans of then; the last of them is open exactly while the gauge is low."""
    until = data.draw(st.sampled_from(sorted({at for at, _ in trials})))
    then = summary_of([(at, reward) for at, reward in trials if at <= until])
    whole = [LowSpan(s.start, s.end if s.end <= until else math.inf) for s in summary_of(trials).low_spans]
    assert list(then.low_spans) == [span for span in whole if span.start <= until]
    open_now = bool(then.low_spans) and then.low_spans[-1].end == math.inf
    assert open_now is is_low(then.window_passed, then.window_scored)
