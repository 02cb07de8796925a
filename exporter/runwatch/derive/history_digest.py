"""All that is kept of a job's history: rows go in once, in order, and are dropped.

Memory a job is some kilobytes whatever the number of rows, and the result depends only on the rows and their order,
never on how they were paged: after a restart the same history gives the same numbers. One thing alone is taken from
when a row was read: that it was logged by then, whatever its trainer's clock says.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from runwatch.derive.history_keys import (
    GRAD_NORM_KEYS,
    LEARNING_RATE_KEYS,
    LOSS_KEYS,
    LOSS_NONFINITE_RANKS_KEYS,
    RUNTIME_KEY,
    TOKENS_PER_SECOND_KEYS,
    VALIDATION_LOSS_KEYS,
    counts_from_zero,
    first_of,
    is_evaluation_only,
    sequences_of,
)
from runwatch.derive.interval_counts import RateCounts
from runwatch.derive.rl_digest import RLDigest, RLSummary
from runwatch.derive.step_timeline import StepSummary, StepTimeline
from runwatch.derive.value_window import LatestValue, LoggedValue, ValueWindow, WindowRatio
from runwatch.facts import HistoryRow
from runwatch.thresholds import (
    CLOCK_SLACK_SECONDS,
    GRAD_NORM_RECENT_SECONDS,
    GRAD_NORM_WINDOW,
    LOSS_TREND_RATIOS,
    LOSS_WINDOW,
    MEDIAN_MINIMUM_COUNT,
    RECENT_INTERVALS,
)

_BATCH_CHANGES_KEPT = 100


@dataclass(frozen=True, slots=True)
class LoggedQuantity:
    """Latest value, latest finite value and window ratios of loss or gradient norm."""

    latest: LoggedValue | None
    latest_finite: LoggedValue | None
    ratios: tuple[WindowRatio, ...]


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """What a history says now.

    `trainer_rate` and `trainer_rate_baseline` are the trainer's own tokens a second: the median over the rows of
    the recent intervals and over the whole run. `start_time` is when the run's own clock was zero, as far as rows
    tell. `rows_without_time` counts rows with a step that carry no time: they move the step, not the durations.
    `malformed` counts rows or lines that could not be read. `ahead_seconds` is by how much the newest step was dated
    after it was read: its trainer's clock is ahead, and the time of the newest step is then that of the read.
    `batch_changed` tells that rows show steps of another batch size before those of the newest.
    """

    rows: int
    rows_without_time: int
    malformed: int
    start_time: float | None
    steps: StepSummary
    step_without_time: int | None
    counts_from_zero: bool
    step_key: str
    loss: LoggedQuantity
    grad_norm: LoggedQuantity
    learning_rate: LoggedValue | None
    validation_loss: LoggedValue | None
    loss_nonfinite_ranks: bool
    trainer_rate: float | None
    trainer_rate_baseline: float | None
    trainer_rate_key: str
    rl: RLSummary | None
    ahead_seconds: float = 0.0
    batch_changed: bool = False

    @property
    def step(self) -> int | None:
        """The trainer's step at the latest row that has one."""
        return self.step_without_time if self.step_without_time is not None else self.steps.latest_step


class HistoryDigest:
    """Takes a history's rows and answers with a `HistorySummary`.

    Args:
        is_rl: also follow the RL signals.
        segment_starts: steps at which the batch size changes.
    """

    def __init__(self, *, is_rl: bool, segment_starts: Sequence[int] = ()) -> None:
        self._is_rl = is_rl
        self._segment_starts = tuple(segment_starts)
        self._rows = 0
        self._rows_without_time = 0
        self._malformed = 0
        self._start_time: float | None = None
        self._step_is_logged = False
        self._step_without_time: int | None = None
        self._counts_from_zero = False
        self._begins_attempt = False
        self._loss = ValueWindow(LOSS_WINDOW, ratio_count=LOSS_TREND_RATIOS)
        self._grad_norm = ValueWindow(GRAD_NORM_WINDOW, recent_seconds=GRAD_NORM_RECENT_SECONDS)
        self._learning_rate = LatestValue()
        self._validation_loss = LatestValue()
        self._loss_nonfinite_ranks = False
        self._rates = RateCounts()
        self._recent_rates: deque[tuple[int, float]] = deque(maxlen=4 * RECENT_INTERVALS)
        self._rate_key = ""
        self._summary: HistorySummary | None = None
        self._read = self._latest_read = math.inf
        self._start_steps()

    @property
    def rows(self) -> int:
        """How many rows were taken."""
        return self._rows

    def _start_steps(self) -> None:
        self._sequences: int | None = None
        self._batch_changes: list[int] = []
        self._timeline = StepTimeline(self._segment_starts)
        self._rl = RLDigest() if self._is_rl else None
        self._latest_step: int | None = None
        self._step_without_time = None

    def set_segment_starts(self, segment_starts: Sequence[int]) -> None:
        """Take the steps at which the batch size changes, which a trainer may tell some time after its first rows."""
        if tuple(segment_starts) == self._segment_starts:
            return
        self._segment_starts = tuple(segment_starts)
        self._set_segments()
        self._summary = None

    def _set_segments(self) -> None:
        self._timeline.set_segment_starts(sorted({*self._segment_starts, *self._batch_changes}))

    def _note_batch(self, row: HistoryRow, step: int) -> None:
        """Note where the batch size changes though no schedule says so: a run may be resumed with another one."""
        sequences = sequences_of(row.values)
        if sequences is None or sequences == self._sequences:
            return
        before, self._sequences = self._sequences, sequences
        if before is not None:
            self._batch_changes = [*self._batch_changes, step][-_BATCH_CHANGES_KEPT:]
            self._set_segments()

    def add(self, rows: Iterable[HistoryRow], read: float = math.inf) -> None:
        """Take the next rows, which were read at that time (Unix seconds, infinite where it is not known)."""
        self._read = read
        for row in rows:
            self._summary = None
            self._add(row)

    def note_malformed(self, count: int) -> None:
        """Count rows or lines that came between the others and could not be read."""
        if count:
            self._summary = None
            self._malformed += count

    def _add(self, row: HistoryRow) -> None:
        self._rows += 1
        self._begins_attempt = self._begins_attempt or row.begins_attempt
        if row.time is not None and self._start_time is None:
            self._start_time = row.time - max(row.values.get(RUNTIME_KEY, 0.0), 0.0)
        self._counts_from_zero = self._counts_from_zero or counts_from_zero(row.values)
        evaluation_only = is_evaluation_only(row.values)
        step = self._step_of(row, evaluation_only=evaluation_only)
        is_late = step is not None and not evaluation_only and not self._note_step(row, step)
        self._note_values(row, self._latest_step if step is None or evaluation_only else step)
        if self._rl is not None and not is_late:  # nothing went back to that step: those after it stay
            rl_step = step if step is not None else self._latest_step
            if rl_step is not None:
                self._rl.add(row, rl_step)

    def _step_of(self, row: HistoryRow, *, evaluation_only: bool) -> int | None:
        tracker_step = row.cursor if row.tracker_step is None else row.tracker_step
        if row.trainer_step is None:
            return None if self._step_is_logged else tracker_step
        if evaluation_only:
            return row.trainer_step  # an evaluation may log it where the trainer itself does not
        if not self._step_is_logged:
            self._step_is_logged = True
            latest = self._latest_step
            if latest is not None and (tracker_step != row.trainer_step or latest > row.trainer_step):
                self._start_steps()  # what counted before was log calls, not steps
        return row.trainer_step

    def _note_step(self, row: HistoryRow, step: int) -> bool:
        """Take the row's step; tells whether it counts, as another rank's line that comes late does not."""
        begins_attempt, self._begins_attempt = self._begins_attempt, False
        if row.time is None:
            self._rows_without_time += 1
            self._step_without_time = step
            self._timeline.add_untimed(step, begins_attempt=begins_attempt)
            self._latest_step = step
            return True
        self._note_batch(row, step)
        if not self._timeline.add(step, row.time, row.values.get(RUNTIME_KEY), begins_attempt=begins_attempt):
            return False
        self._latest_step = step
        self._step_without_time = None
        self._latest_read = self._read
        rate = first_of(TOKENS_PER_SECOND_KEYS, row.values)
        if rate is not None and 0 < rate[1] < float("inf"):
            self._rate_key = rate[0]
            self._rates.add(rate[1])
            self._recent_rates.append((step, rate[1]))
        return True

    def _note_values(self, row: HistoryRow, step: int | None) -> None:
        followed: tuple[tuple[tuple[str, ...], LatestValue], ...] = (
            (LOSS_KEYS, self._loss),
            (GRAD_NORM_KEYS, self._grad_norm),
            (LEARNING_RATE_KEYS, self._learning_rate),
            (VALIDATION_LOSS_KEYS, self._validation_loss),
        )
        for keys, window in followed:
            found = first_of(keys, row.values)
            if found is None:
                continue
            window.add(LoggedValue(found[1], found[0], row.cursor, step, row.time))
            if window is self._loss:
                ranks = first_of(LOSS_NONFINITE_RANKS_KEYS, row.values)
                self._loss_nonfinite_ranks = ranks is not None and ranks[1] > 0

    def summary(self) -> HistorySummary:
        """Return what the rows so far say; worked out once between two additions of rows."""
        if self._summary is None:
            self._summary = self._summarise()
        return self._summary

    def _summarise(self) -> HistorySummary:
        steps, ahead = _logged_by(self._timeline.summary(), self._latest_read)
        return HistorySummary(
            rows=self._rows,
            rows_without_time=self._rows_without_time,
            malformed=self._malformed,
            start_time=self._start_time,
            steps=steps,
            step_without_time=self._step_without_time,
            counts_from_zero=self._counts_from_zero or steps.first_step == 0,
            step_key="the trainer's global step" if self._step_is_logged else "_step",
            loss=_quantity(self._loss),
            grad_norm=_quantity(self._grad_norm),
            learning_rate=self._learning_rate.latest_finite,
            validation_loss=self._validation_loss.latest_finite,
            loss_nonfinite_ranks=self._loss_nonfinite_ranks,
            trainer_rate=self._recent_rate(steps.recent_steps),
            trainer_rate_baseline=self._rates.median() if len(self._rates) >= MEDIAN_MINIMUM_COUNT else None,
            trainer_rate_key=self._rate_key,
            rl=self._rl.summary() if self._rl is not None else None,
            ahead_seconds=ahead,
            batch_changed=bool(self._batch_changes),
        )

    def _recent_rate(self, recent_steps: Sequence[int]) -> float | None:
        wanted = set(recent_steps)
        rates = [rate for step, rate in self._recent_rates if step in wanted]
        return median(rates) if len(rates) >= MEDIAN_MINIMUM_COUNT else None


def _logged_by(steps: StepSummary, read: float) -> tuple[StepSummary, float]:
    """Date the newest step no later than it was read, and say by how much it was dated after that.

    With a clock hours ahead a job that hangs would seem fresh for hours. What clocks usually differ by stays: a time
    taken from the read changes with a restart of the exporter.
    """
    if steps.latest_time is None or steps.high_water_time is None:
        return steps, 0.0
    ahead = steps.latest_time - read
    if ahead <= CLOCK_SLACK_SECONDS:
        return steps, 0.0
    return replace(steps, latest_time=read, high_water_time=min(steps.high_water_time, read)), ahead


def _quantity(window: ValueWindow) -> LoggedQuantity:
    return LoggedQuantity(window.latest, window.latest_finite, window.ratios())
