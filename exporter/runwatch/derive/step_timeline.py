"""The times at which steps were logged: durations, gaps and replays, in one pass and little memory.

Rules (`docs/rules.md`): an interval is the raw time between two consecutive NEW steps, a new step being one above
every step before it, taken by its first time. A step seen again (logged twice, or done again after resuming from an
older checkpoint) makes no interval of its own; the time it cost lies in the interval to the next new step. Where the
clock of the rows was set back no interval is known, and those after it count from there; one row with a clock of its
own is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from statistics import median

from runwatch.derive.interval_counts import IntervalCounts
from runwatch.derive.new_step_times import NewSteps, NewStepTimes
from runwatch.derive.steps_done_again import StepsDoneAgain
from runwatch.thresholds import (
    GAP_FLOOR_SECONDS,
    GAP_MEDIAN_FACTOR,
    MEDIAN_MINIMUM_COUNT,
    RECENT_INTERVALS,
)

_RECENT_KEPT = 4 * RECENT_INTERVALS  # so that 50 are left when gaps are taken out
RESTART_CLOCK_SKIP_SECONDS = 10.0
"""W&B's `_runtime` leaves out the time a resumed run was down: when the wall clock gains more than this on it between
two rows, the run was restarted between them. But where a trainer logs with its step, the client takes `_runtime` when
the next step's first values come: a pause after a row is in that row's clock already then, and the next row's time is
as far from it as ever."""
CLOCK_SET_BACK_SECONDS = 10.0
"""A new step dated this much before the highest shows that the clock was set back, or that the run went on at a host
whose clock differs. Less is disorder among the lines of a log."""

_CLOCKS_KEPT = 8  # so that an evaluation that was logged with one of these steps does not hide a restart

_DISORDER_SECONDS = 1.0
"""No trainer loads a checkpoint and makes a step within this: an older step that comes so soon behind a newer one is
another rank's line, and nothing was done again. Stamps of whole seconds are as far apart in two moments."""


@dataclass(frozen=True, slots=True)
class StepInterval:
    """The time between two consecutive new steps.

    `restarted` is true when the history itself shows that the run was started again in between (steps went back, or
    the run's own clock stood still). `running_seconds` is how much of it the run's own clock counted: all but the
    time it was down; None where the history has no such clock.
    """

    start: float
    end: float
    start_step: int
    end_step: int
    restarted: bool = False
    running_seconds: float | None = None
    longest_silence: float | None = None

    @property
    def seconds(self) -> float:
        """The whole length."""
        return self.end - self.start

    @property
    def steps(self) -> int:
        """How many steps it took: at least 1."""
        return self.end_step - self.start_step


@dataclass(frozen=True, slots=True)
class StepSummary:
    """What a timeline says now. Seconds are None while there are fewer than three intervals to take a median of.

    `clock_set_back` is how often the clock of the rows was set back, `clock_set_back_seconds` by how much in all.
    `stepped_seconds` is the sum of all intervals.
    """

    latest_step: int | None = None
    latest_time: float | None = None
    first_step: int | None = None
    first_time: float | None = None
    high_water_step: int | None = None
    high_water_time: float | None = None
    interval_count: int = 0
    interval_median: float | None = None
    gap_threshold: float | None = None
    step_duration: float | None = None
    segment_step_duration: float | None = None
    recent_step_duration: float | None = None
    recent_steps: tuple[int, ...] = ()
    gaps: tuple[StepInterval, ...] = ()
    restarts: tuple[StepInterval, ...] = ()
    replayed_steps: int = 0
    replaying: bool = False
    first_interval_steps: int = 1
    new_steps: NewSteps = field(default_factory=NewSteps)
    clock_set_back: int = 0
    clock_set_back_seconds: float = 0.0
    stepped_seconds: float = 0.0


def gap_threshold_of(interval_median: float | None) -> float | None:
    """Return above how many seconds an interval is a gap; None where there is no median to tell by."""
    return None if interval_median is None else max(GAP_FLOOR_SECONDS, GAP_MEDIAN_FACTOR * interval_median)


class StepTimeline:
    """Takes (step, time) in the order they were logged.

    `segment_starts` are the steps at which the batch size changes (a schedule): the duration is also kept for the
    current one of these segments, since a bigger batch takes longer.
    """

    def __init__(self, segment_starts: Sequence[int] = ()) -> None:
        self._segment_starts = tuple(sorted(segment_starts))
        self._segment = 0
        self._intervals = IntervalCounts()
        self._durations = IntervalCounts()
        self._segment_durations = IntervalCounts()
        self._recent: deque[tuple[int, float, float, int]] = deque(maxlen=_RECENT_KEPT)
        self._notable: list[StepInterval] = []  # long enough to be a gap some day, or with a restart inside
        self._new_steps = NewStepTimes()
        self._first: tuple[int, float] | None = None
        self._high_water: tuple[int, float] | None = None
        self._latest: tuple[int, float] | None = None
        self._latest_runtime: float | None = None
        self._zeros: deque[float] = deque(maxlen=_CLOCKS_KEPT)
        self._high_water_runtime: float | None = None
        self._first_interval_steps = 1
        self._done_again = StepsDoneAgain()
        self._restarted = False
        self._silence = 0.0
        self._behind: tuple[int, float, float | None] | None = None
        self._clock_set_back = 0
        self._clock_set_back_seconds = 0.0

    def set_segment_starts(self, segment_starts: Sequence[int]) -> None:
        """Take a batch schedule that came to be known, or was changed, when steps had been read already.

        The current segment's duration is then made from the intervals that are kept one by one, where not all before
        them lie in that segment too.
        """
        starts = tuple(sorted(segment_starts))
        if starts == self._segment_starts:
            return
        self._segment_starts = starts
        if self._first is None or self._high_water is None:
            return
        self._segment = self._segment_of(self._high_water[0])
        recent = [(step, duration, seconds, self._segment_of(step)) for step, duration, seconds, _ in self._recent]
        self._recent = deque(recent, maxlen=_RECENT_KEPT)
        if self._segment == self._segment_of(self._first[0]):
            self._segment_durations = deepcopy(self._durations)
        else:
            self._segment_durations = IntervalCounts(d for _, d, _, segment in recent if segment == self._segment)

    def add_untimed(self, step: int, *, begins_attempt: bool = False) -> None:
        """Take a logged step whose time is not known: it tells of steps done again, and of no interval."""
        self._done_again.add(step, restarted=begins_attempt)
        self._restarted = self._restarted or (begins_attempt and self._latest is not None)

    def add(self, step: int, time: float, runtime: float | None = None, *, begins_attempt: bool = False) -> bool:
        """Take one logged step.

        Args:
            step: its number.
            time: Unix seconds.
            runtime: the run's own clock in seconds, where it has one.
            begins_attempt: the row is the first of another start of the run.

        Returns:
            Whether it was taken: another rank's line of an older step, which only comes late, is not.
        """
        restarted = begins_attempt or self._clock_stood_still(time, runtime)
        if not restarted and self._is_late_line(step, time):
            return False
        self._take(step, time, runtime, restarted=restarted)
        return True

    def _take(self, step: int, time: float, runtime: float | None, *, restarted: bool) -> None:
        self._done_again.add(step, restarted=restarted)
        previous, self._latest = self._latest, (step, time)
        self._restarted = self._restarted or (restarted and previous is not None)
        if self._high_water is None or previous is None:
            self._first = self._high_water = (step, time)
            self._new_steps.add(time)
            self._high_water_runtime = runtime
            self._segment = self._segment_of(step)
            return
        high_step, _ = self._high_water
        self._silence = max(self._silence, time - previous[1])
        if step <= high_step:
            self._restarted = self._restarted or step < previous[0]
            return
        self._add_new(step, time, runtime, self._high_water)

    def _is_late_line(self, step: int, time: float) -> bool:
        if self._latest is None or step >= self._latest[0]:
            return False
        return 0 <= time - self._latest[1] <= _DISORDER_SECONDS

    def _add_new(self, step: int, time: float, runtime: float | None, high: tuple[int, float]) -> None:
        high_step, high_time = high
        if time < high_time - CLOCK_SET_BACK_SECONDS:
            if self._behind is None:
                # The next new step tells whether the clock was set back, or only this row has another one.
                self._behind = (step, time, runtime)
                return
            high_step, high_time = self._set_clock_back(self._behind, high_time)
            if step > high_step:
                self._add_new(step, time, runtime, (high_step, high_time))
            return
        self._behind = None
        running = None
        if runtime is not None and self._high_water_runtime is not None:
            passed = runtime - self._high_water_runtime
            running = passed if passed >= 0 else runtime  # in W&B's shared mode each process counts from its own start
        end = max(time, high_time)
        self._note_interval(StepInterval(high_time, end, high_step, step, self._restarted, running, self._silence))
        self._new_steps.add(end)
        self._move_high_water(step, end, runtime)

    def _set_clock_back(self, row: tuple[int, float, float | None], high_time: float) -> tuple[int, float]:
        """Count on from this row: how long the interval to it was, no clock tells, so it is none."""
        step, time, runtime = row
        self._behind = None
        self._new_steps.set_back(time)
        jump = self._notable[-1] if self._notable else None
        if jump is not None and jump.end == high_time and jump.start <= time:
            # Only the highest row had another clock: what seemed a gap before it was none.
            self._notable.pop()
            self._note_interval(replace(jump, end=time, end_step=step))
        else:
            self._clock_set_back += 1
            self._clock_set_back_seconds += high_time - time
        self._move_high_water(step, time, runtime)
        return step, time

    def _move_high_water(self, step: int, time: float, runtime: float | None) -> None:
        self._high_water = (step, time)
        self._high_water_runtime = runtime
        self._restarted = False
        self._silence = 0.0

    def _clock_stood_still(self, time: float, runtime: float | None) -> bool:
        """Note the run's own clock, and tell whether it says that the run was down since the row before."""
        if runtime is None:
            return False
        before, self._latest_runtime = self._latest_runtime, runtime
        if self._latest is None or before is None:
            return False
        gained = time - self._latest[1] - (runtime - before)
        zero = time - before  # where the clock before was taken now, this is when it was zero
        restarted = gained > RESTART_CLOCK_SKIP_SECONDS and zero - min(self._zeros, default=zero) > (
            RESTART_CLOCK_SKIP_SECONDS
        )
        if restarted:
            self._zeros.clear()
        else:
            self._zeros.append(zero)
        return restarted

    def _note_interval(self, interval: StepInterval) -> None:
        if len(self._intervals) == 0:
            self._first_interval_steps = interval.steps
        segment = self._segment_of(interval.end_step)
        if segment != self._segment:
            self._segment = segment
            self._segment_durations = IntervalCounts()
        duration = interval.seconds / interval.steps
        self._intervals.add(interval.seconds)
        self._durations.add(duration)
        self._segment_durations.add(duration)
        self._recent.append((interval.end_step, duration, interval.seconds, segment))
        if interval.seconds >= GAP_FLOOR_SECONDS or interval.restarted:
            self._notable.append(interval)

    def _segment_of(self, step: int) -> int:
        return sum(1 for start in self._segment_starts if start <= step)

    def summary(self) -> StepSummary:
        """Return what the rows so far say."""
        if self._first is None or self._high_water is None or self._latest is None:
            return StepSummary()
        enough = len(self._intervals) >= MEDIAN_MINIMUM_COUNT
        interval_median = self._intervals.median() if enough else None
        threshold = gap_threshold_of(interval_median)
        gaps = tuple(i for i in self._notable if threshold is not None and i.seconds > threshold)
        recent = self._recent_without_gaps(threshold)
        return StepSummary(
            latest_step=self._latest[0],
            latest_time=self._latest[1],
            first_step=self._first[0],
            first_time=self._first[1],
            high_water_step=self._high_water[0],
            high_water_time=self._high_water[1],
            interval_count=len(self._intervals),
            interval_median=interval_median,
            gap_threshold=threshold,
            step_duration=self._durations.median() if enough else None,
            segment_step_duration=self._segment_median(),
            recent_step_duration=median(d for _, d in recent) if len(recent) >= MEDIAN_MINIMUM_COUNT else None,
            recent_steps=tuple(step for step, _ in recent),
            gaps=gaps,
            restarts=tuple(i for i in self._notable if i.restarted),
            replayed_steps=self._done_again.count,
            replaying=self._latest[0] < self._high_water[0],
            first_interval_steps=self._first_interval_steps,
            new_steps=self._new_steps.snapshot(interval_median),
            clock_set_back=self._clock_set_back,
            clock_set_back_seconds=self._clock_set_back_seconds,
            stepped_seconds=self._high_water[1] - self._first[1] + self._clock_set_back_seconds,
        )

    def _segment_median(self) -> float | None:
        if len(self._segment_durations) < MEDIAN_MINIMUM_COUNT:
            return None
        return self._segment_durations.median()

    def _recent_without_gaps(self, threshold: float | None) -> list[tuple[int, float]]:
        kept = [
            (step, duration)
            for step, duration, seconds, segment in self._recent
            if segment == self._segment and (threshold is None or seconds <= threshold)
        ]
        return kept[-RECENT_INTERVALS:]
