"""Durations, gaps and replays: a one-pass timeline against a slow obvious version."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.step_timeline import StepTimeline

Row = tuple[int, float]


def timeline_of(rows: list[Row]) -> StepTimeline:
    timeline = StepTimeline()
    for step, time in rows:
        timeline.add(step, time)
    return timeline


def obvious(rows: list[Row]) -> tuple[list[float], list[float], list[int]]:
    """New steps are record highs; return raw intervals, durations a step, and the steps."""
    new: list[Row] = []
    for step, time in rows:
        if not new or step > new[-1][0]:
            new.append((step, time))
    raw = [b[1] - a[1] for a, b in pairwise(new)]
    per_step = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(new)]
    return raw, per_step, [step for step, _ in new]


@st.composite
def logged(draw: st.DrawFn) -> list[Row]:
    """Steps that mostly go up, sometimes repeat or fall back; times in whole milliseconds that never go back."""
    rows: list[Row] = []
    step, milliseconds = draw(st.integers(0, 1000)), 1_700_000_000_000
    for _ in range(draw(st.integers(0, 60))):
        rows.append((step, milliseconds / 1000))
        step = max(0, step + draw(st.sampled_from([1, 1, 1, 1, 2, 5, 0, -3])))
        milliseconds += draw(st.sampled_from([8_000, 8_001, 7_990, 30_000, 299_999, 301_000, 900_000]))
    return rows


@given(logged())
def test_equals_the_obvious_version(rows: list[Row]) -> None:
    summary = timeline_of(rows).summary()
    raw, per_step, steps = obvious(rows)
    assert summary.interval_count == len(raw)
    assert summary.latest_step == (rows[-1][0] if rows else None)
    assert summary.high_water_step == (steps[-1] if steps else None)
    if len(raw) < 3:
        assert summary.gap_threshold is None
        assert summary.step_duration is None
        assert summary.gaps == ()
        return
    threshold = max(300.0, 20 * median(raw))
    assert summary.gap_threshold == pytest.approx(threshold, abs=2e-5)
    assert summary.step_duration == pytest.approx(median(per_step), abs=2e-6)
    assert [gap.seconds for gap in summary.gaps] == [seconds for seconds in raw if seconds > threshold]
    recent = [d for d, seconds in zip(per_step, raw, strict=True) if seconds <= threshold][-50:]
    expected = median(recent) if len(recent) >= 3 else None
    assert summary.recent_step_duration == (None if expected is None else pytest.approx(expected))


def test_an_interval_at_the_threshold_is_no_gap_and_one_just_above_is() -> None:
    steady = [(step, 1000.0 + 8 * step) for step in range(10)]
    at = [*steady, (10, steady[-1][1] + 300.0)]
    above = [*steady, (10, steady[-1][1] + 300.001)]
    assert timeline_of(at).summary().gaps == ()
    (gap,) = timeline_of(above).summary().gaps
    assert (gap.start_step, gap.end_step, gap.steps) == (9, 10, 1)


def test_slow_steps_raise_the_threshold_with_their_median() -> None:
    rows = [(step, 1800.0 * step) for step in range(8)]
    summary = timeline_of([*rows, (8, rows[-1][1] + 30_000.0)]).summary()
    assert summary.gap_threshold == 36_000.0
    assert summary.gaps == ()


def test_the_duration_is_divided_by_the_steps_and_the_threshold_is_not() -> None:
    summary = timeline_of([(step, 4.0 * step) for step in range(0, 100, 10)]).summary()
    assert summary.step_duration == 4.0
    assert summary.gap_threshold == 20 * 40.0


def test_a_step_logged_twice_makes_no_interval() -> None:
    summary = timeline_of([(0, 0.0), (1, 8.0), (2, 16.0), (3, 24.0), (3, 30.0), (4, 32.0)]).summary()
    assert summary.interval_count == 4
    assert summary.step_duration == 8.0
    assert summary.replayed_steps == 0
    assert not summary.replaying


def test_steps_done_again_are_counted_and_their_time_is_in_the_interval_to_the_next_new_step() -> None:
    before = [(step, 10.0 * step) for step in range(60, 76)]
    replay = [(step, 2000.0 + 10.0 * (step - 65)) for step in range(65, 76)]
    during = timeline_of([*before, *replay[:-1]]).summary()
    assert during.replaying
    assert (during.latest_step, during.high_water_step) == (74, 75)
    summary = timeline_of([*before, *replay, (76, 2110.0)]).summary()
    assert summary.replayed_steps == 11  # 65 to 75
    assert not summary.replaying
    (gap,) = summary.gaps
    assert (gap.start_step, gap.end_step, gap.restarted) == (75, 76, True)
    assert gap.seconds == 2110.0 - 750.0


def test_a_replay_logged_every_ten_steps_counts_the_steps_between_its_rows() -> None:
    before = [(step, 1.0 * step) for step in range(10, 80, 10)]
    summary = timeline_of([*before, (50, 500.0), (60, 510.0), (70, 520.0), (80, 530.0)]).summary()
    assert summary.replayed_steps == 30  # resumed after step 40: 41 to 70


def test_a_replay_cut_short_by_a_step_above_the_high_water_mark_counts_up_to_it() -> None:
    summary = timeline_of([(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0), (2, 100.0), (6, 104.0)]).summary()
    assert summary.replayed_steps == 3  # 2, 3, 4


def test_a_rank_whose_lines_come_a_step_late_does_nothing_again() -> None:
    rows = [row for step in range(2, 100) for row in ((step, 10.0 * step), (step - 1, 10.0 * step + 0.1))]
    summary = timeline_of(rows).summary()
    assert (summary.replayed_steps, summary.replaying, summary.latest_step) == (0, False, 99)
    assert (summary.step_duration, summary.latest_time) == (10.0, 990.0)


@pytest.mark.parametrize("later", [0.0, 1.0])
def test_stamps_of_whole_seconds_make_no_late_line_a_step_done_again(later: float) -> None:
    rows = [row for step in range(2, 50) for row in ((step, 10.0 * step), (step - 1, 10.0 * step + later))]
    summary = timeline_of(rows).summary()
    assert (summary.replayed_steps, summary.replaying, summary.latest_step) == (0, False, 49)


def test_a_clock_that_each_process_starts_anew_tells_how_long_it_runs() -> None:
    timeline = StepTimeline()
    for step in range(10):
        timeline.add(step, 1000.0 + 8 * step, 8.0 * step)
    timeline.add(10, 1072.0 + 1000.0, 50.0)  # it began 950 s after the last step, and loaded for 50 s
    (restart,) = timeline.summary().restarts
    assert restart.running_seconds == 50.0


def logged_with_its_step(times: list[float], down_before: dict[int, float] | None = None) -> list[tuple[float, float]]:
    """Times of rows from step 0 on, and their `_runtime` as wandb 0.31 writes it where `log` is told the step.

    The client ends a row, and takes its clock, when the next step's first values come; the last row is ended by
    `finish`. `down_before` tells for how long the run was down before a step: its clock leaves that out.
    """
    down = [sum((down_before or {}).get(step, 0.0) for step in range(last + 1)) for last in range(len(times))]
    ended = [*times[1:], times[-1]]
    # The row before a restart was ended by the first values of a step that was lost, 8 s after it.
    lost = [step + 1 in (down_before or {}) for step in range(len(times))]
    ended = [time + 8.0 if is_lost else end for time, end, is_lost in zip(times, ended, lost, strict=True)]
    return [(time, end - times[0] - away) for time, end, away in zip(times, ended, down, strict=True)]


def test_the_helper_writes_what_the_client_wrote() -> None:
    """wandb 0.31: calls 0.5 s apart, 14 s after the sixth; `_runtime` since the first, to a tenth of a second."""
    times = [*(0.5 * step for step in range(6)), *(16.5 + 0.5 * step for step in range(6))]
    captured = [0.5, 1.0, 1.5, 2.0, 2.5, 16.5, 17.0, 17.5, 18.0, 18.5, 19.0]
    assert [runtime for _, runtime in logged_with_its_step(times)][:-1] == captured


@pytest.mark.parametrize("seconds_a_step", [8.0, 1800.0])
def test_a_pause_is_no_restart_where_the_client_takes_its_clock_at_the_next_step(seconds_a_step: float) -> None:
    times, now = [], 1000.0
    for step in range(60):
        times.append(now)
        # A save of 45 s after each tenth step, one silence of 15 min, and steps of unlike length.
        now += (
            seconds_a_step * (1.0 + 0.2 * (step % 3))
            + (45.0 if step % 10 == 9 else 0.0)
            + (900.0 if step == 33 else 0.0)
        )
    timeline = StepTimeline()
    for step, (time, runtime) in enumerate(logged_with_its_step(times)):
        timeline.add(step, time, runtime)
    assert timeline.summary().restarts == ()


def test_restarts_are_seen_where_the_client_takes_its_clock_at_the_next_step() -> None:
    """Down for 600 s before step 20 and before step 40, each time 150 s of loading and doing steps again."""
    times, now = [], 1000.0
    for step in range(60):
        now += 8.0 + (750.0 if step in (20, 40) else 0.0)
        times.append(now)
    timeline = StepTimeline()
    for step, (time, runtime) in enumerate(logged_with_its_step(times, {20: 600.0, 40: 600.0})):
        timeline.add(step, time, runtime)
    restarts = timeline.summary().restarts
    assert [(restart.start_step, restart.end_step, restart.seconds) for restart in restarts] == [
        (19, 20, 758.0),
        (39, 40, 758.0),
    ]
    # 150 s and the step that ends the row of step 20
    assert [restart.running_seconds for restart in restarts] == [158.0, 158.0]


def test_the_runs_own_clock_shows_a_restart_that_the_steps_hide() -> None:
    timeline = StepTimeline()
    for step in range(10):
        timeline.add(step, 1000.0 + 8 * step, 8.0 * step)
    # Down for 600 s, then 400 s of loading and doing steps again before the first new row.
    timeline.add(10, 1072.0 + 1000.0, 72.0 + 400.0)
    timeline.add(11, 1072.0 + 1008.0, 72.0 + 408.0)
    (restart,) = timeline.summary().restarts
    assert (restart.start_step, restart.seconds, restart.running_seconds) == (9, 1000.0, 400.0)


def test_a_clock_that_goes_back_makes_no_negative_interval() -> None:
    summary = timeline_of([(0, 100.0), (1, 108.0), (2, 50.0), (3, 116.0), (4, 124.0)]).summary()
    assert summary.step_duration == 8.0
    assert summary.first_time == 100.0


# A host whose clock is 2 h ahead makes steps 0 to 299, one each 10 s; 300 s after its last the run goes on elsewhere.
AHEAD = [(step, 10_000.0 + 7_200.0 + 10.0 * step) for step in range(300)]
ELSEWHERE = [(step, 10_000.0 + 2_990.0 + 300.0 + 10.0 * (step - 300)) for step in range(300, 600)]


@pytest.mark.parametrize("steps_since", [2, 50, 300])
def test_a_run_that_goes_on_at_a_host_whose_clock_is_right_keeps_its_rhythm(steps_since: int) -> None:
    summary = timeline_of([*AHEAD, *ELSEWHERE[:steps_since]]).summary()
    assert (summary.step_duration, summary.recent_step_duration, summary.interval_median) == (10.0, 10.0, 10.0)
    assert (summary.latest_time, summary.high_water_time) == (ELSEWHERE[steps_since - 1][1],) * 2
    assert summary.gaps == ()
    assert (summary.clock_set_back, summary.clock_set_back_seconds) == (1, 7_200.0 - 300.0)
    assert summary.new_steps.first_at_or_after(13_000.0) == 13_290.0  # the new attempt began 10 s after the last row


def test_a_gap_after_the_clock_was_set_back_is_one_at_once() -> None:
    late = [(step, time + 3_600.0) for step, time in ELSEWHERE[50:]]
    (gap,) = timeline_of([*AHEAD, *ELSEWHERE[:50], *late]).summary().gaps
    assert (gap.start_step, gap.end_step, gap.seconds) == (349, 350, 3_610.0)


@pytest.mark.parametrize("wrong_by", [-86_400.0, -3_600.0, 3_600.0, 86_400.0])
def test_one_row_with_a_clock_of_its_own_is_passed_over(wrong_by: float) -> None:
    rows = [(step, 100_000.0 + 10.0 * step + (wrong_by if step == 300 else 0.0)) for step in range(600)]
    summary = timeline_of(rows).summary()
    assert (summary.step_duration, summary.recent_step_duration, summary.gaps) == (10.0, 10.0, ())
    assert (summary.high_water_time, summary.clock_set_back) == (105_990.0, 0)


def test_the_clock_set_back_while_older_steps_are_done_again() -> None:
    again = [(step, 13_290.0 + 10.0 * (step - 250)) for step in range(250, 320)]
    summary = timeline_of([*AHEAD, *again]).summary()
    assert (summary.replayed_steps, summary.replaying) == (50, False)
    assert (summary.step_duration, summary.high_water_time) == (10.0, again[-1][1])


def test_the_duration_of_a_batch_size_counts_from_its_first_step() -> None:
    timeline = StepTimeline(segment_starts=[100])
    for step in range(100):
        timeline.add(step, 2.0 * step)
    for step in range(100, 110):
        timeline.add(step, 200.0 + 4.0 * (step - 99))
    summary = timeline.summary()
    assert summary.step_duration == 2.0
    assert summary.segment_step_duration == 4.0
    assert summary.recent_step_duration == 4.0


@pytest.mark.parametrize("known_after", [0, 30, 60, 75])
def test_a_batch_schedule_that_comes_late_tells_the_same(known_after: int) -> None:
    rows = [(i, 10.0 * i) for i in range(61)] + [(60 + i, 600.0 + 40.0 * i) for i in range(1, 41)]
    timeline = StepTimeline()
    for count, (step, time) in enumerate(rows):
        if count == known_after:
            timeline.set_segment_starts((50, 61))
        timeline.add(step, time)
    summary = timeline.summary()
    assert (summary.segment_step_duration, summary.recent_step_duration) == (40.0, 40.0)
    assert len(summary.recent_steps) == 40


def test_a_batch_schedule_that_comes_before_its_first_change_keeps_every_interval() -> None:
    timeline = StepTimeline()
    for step in range(1000):
        timeline.add(step, 10.0 * step if step < 600 else 6000.0 + 30.0 * (step - 600))
    timeline.set_segment_starts((2000,))
    assert timeline.summary().segment_step_duration == 10.0  # 600 of 999, of which the newest 200 took 30 s each
