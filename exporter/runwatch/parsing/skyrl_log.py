"""The log of a SkyRL driver, with whichever tracker it was told to use.

Three ways in which a step's metrics stand there, the best first; within one start of the trainer a worse one is not
used once a better one was seen for that step:

1. the fork's own line, with its step and all keys: `WANDB_MIRROR kind=train step=2 metrics={JSON}`,
2. a block `Step 15: ` of several lines, floats with four decimals; the async trainer prints two a step,
3. a reward line and a status dict in full precision, without a step: they belong to the bar's next update
   (`pbar.update` comes after them), or to the checkpoint that is saved before it.

Where 2 and 3 stand beside each other and agree to the printed decimals, the full precision is kept.

The bar may count further than the steps: with dynamic sampling it is updated without one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from runwatch.parsing.log_records import LogFragment, LogRow
from runwatch.parsing.log_values import loguru_message
from runwatch.parsing.progress_bars import ProgressBar, split_bar
from runwatch.parsing.skyrl_lines import (
    BAR_DESCRIPTIONS,
    BlockHeader,
    Completed,
    Loaded,
    Saved,
    SkyrlLine,
    StepValues,
    Total,
    Unreadable,
    Values,
    is_metrics_block,
    read_block_line,
    read_message,
)

_PRINTED_TO = 0.5e-4 * 1.001  # half of the last of four decimals
_MOST_KEYS = 2000
_FOREIGN_LINES_IN_BLOCK = 50


@dataclass(slots=True)
class _Block:
    step: int
    time: float | None
    actor: str
    values: dict[str, float] = field(default_factory=dict)
    foreign_lines: int = 0


class SkyrlLogParser:
    """Takes fragments one by one. Its attributes are those of `HuggingFaceLogParser`."""

    name = "skyrl"

    def __init__(self) -> None:
        self.recognised = False
        self.bar_seen = False
        self.unparsed = 0
        self.completed = False
        self.attempt = 0
        self.position: LogRow | None = None
        self.total_steps: int | None = None
        self._driver: str | None = None
        self._bar: ProgressBar | None = None
        self._skipped_bar: ProgressBar | None = None
        self._bar_ahead = 0
        self._saved_step: int | None = None
        self._loaded = False
        self._has_own_steps = False
        self._log_has_own_steps = False
        self._mirrored = False
        self._unplaced: dict[str, float] = {}
        self._unplaced_once = False
        self._unplaced_time: float | None = None
        self._block: _Block | None = None
        self._last: LogRow | None = None

    def feed(self, fragment: LogFragment) -> LogRow | None:
        """Take the next fragment, and return the row that is complete with it."""
        bar, text = split_bar(fragment.text)
        row = None
        if bar is not None:
            if bar.description in BAR_DESCRIPTIONS:
                row = self._take_bar(bar, fragment)
            text = text.strip()
            if not text:
                return row
        if self._driver is not None and fragment.actor != self._driver:
            return row
        return self._take_text(text, fragment) or row

    def skip(self) -> None:
        """Note that a part of the log was left out here: what waits for its step is void, and so is the bar's count."""
        self._forget_unplaced()
        self._block = self._last = self._saved_step = None
        self._skipped_bar = self._bar or self._skipped_bar
        self._bar = None

    def finish(self) -> list[LogRow]:
        """Return the block that the log breaks off in; what no bar placed has no step."""
        row = self._end_block(cut=True) if self._block is not None else None
        self._drop_unplaced()
        return [row] if row is not None else []

    def _take_text(self, text: str, fragment: LogFragment) -> LogRow | None:
        message = loguru_message(text)
        if message is None:
            return self._take_block_line(text, fragment) if self._block is not None else None
        row = self._end_block(cut=True) if self._block is not None else None
        line = read_message(message)
        return (self._take_line(line, fragment) if line is not None else None) or row

    def _take_line(self, line: SkyrlLine, fragment: LogFragment) -> LogRow | None:
        match line:
            case StepValues():
                return self._take_step(line, fragment)
            case BlockHeader():
                self._block = _Block(line.step, fragment.time, fragment.actor)
            case Values():
                self._take_values(line, fragment.time)
            case Saved():
                return self._take_saved(line.step, fragment.time)
            case Loaded():
                self._begin_attempt()
                self._loaded = True
            case Total():
                self.total_steps = line.steps
            case Completed():
                self.completed = True
                self.recognised = self.recognised or self._loaded  # with nothing left to do no bar is drawn
            case Unreadable():
                self.unparsed += 1
        return None

    def _take_bar(self, bar: ProgressBar, fragment: LogFragment) -> LogRow | None:
        if bar.done is None or bar.total is None or (self._driver is not None and fragment.actor != self._driver):
            return None
        self.recognised = self.bar_seen = True
        self._driver, self.total_steps = fragment.actor, bar.total
        last, row = self._bar, None
        before, self._skipped_bar = last or self._skipped_bar, None
        if before is not None and (bar.elapsed < before.elapsed or bar.done < (before.done or 0)):
            self._bar = before
            self._begin_attempt()
            last = None
        self._bar, ahead = bar, self._bar_ahead
        if last is None:
            self._drop_unplaced()  # whether this is an update or the bar drawn once more is not known
        elif bar.done > (last.done or 0):
            row = self._follow_bar(bar.done, last.done or 0, fragment.time)
        step = bar.done - self._bar_ahead
        # Where a run is resumed the bar is first drawn at the checkpoint's step, which is not done once more by that.
        is_step = bar.elapsed > 0 and (last is None or (bar.done > (last.done or 0) and self._bar_ahead == ahead))
        if step > 0 and is_step and not self._log_has_own_steps:
            self.position = LogRow(step, {}, fragment.time, bar.elapsed, self.attempt)
        return row

    def _follow_bar(self, done: int, before: int, time: float | None) -> LogRow | None:
        """Tell which step an update of the bar stands for, and give that step what waits for its number."""
        if self._saved_step is not None:
            self._bar_ahead, self._saved_step = done - self._saved_step, None
        elif self._unplaced_once:
            return self._place(done - self._bar_ahead, time)
        elif (self._last is not None or self._unplaced) and not self._has_own_steps and done == before + 1:
            # An update without a step's metrics is no step, where such are printed: timers are, beside them.
            self._bar_ahead += 1
        return None

    def _take_saved(self, step: int, time: float | None) -> LogRow | None:
        if self._has_own_steps or not self._unplaced_once:
            return None
        self._saved_step = step
        return self._place(step, time)

    def _take_values(self, line: Values, time: float | None) -> None:
        if self._mirrored:
            return
        if line.begins:
            if not self._unplaced.keys().isdisjoint(line.values):
                self._drop_unplaced()  # the step before never got its number
            self._unplaced_once = True
            self._unplaced_time = time
        if len(self._unplaced) < _MOST_KEYS:
            self._unplaced.update(line.values)

    def _take_step(self, line: StepValues, fragment: LogFragment) -> LogRow:
        self.recognised = True
        self._has_own_steps = self._log_has_own_steps = True
        if line.mirrored:
            self._mirrored = True
            self._forget_unplaced()
        return self._give(line.step, line.values, fragment.time)

    def _place(self, step: int, time: float | None) -> LogRow | None:
        """Give what had no step so far the step that the bar or a saved checkpoint tells."""
        values, own_time = dict(self._unplaced), self._unplaced_time
        self._forget_unplaced()
        if step <= 0:
            return None
        self.recognised = True
        return self._give(step, values, own_time if own_time is not None else time)

    def _take_block_line(self, text: str, fragment: LogFragment) -> LogRow | None:
        block = self._block
        if block is None or fragment.actor != block.actor:
            return None
        read = read_block_line(text)
        if read is None or len(block.values) > _MOST_KEYS:
            block.foreign_lines += 1
            return self._end_block(cut=True) if block.foreign_lines > _FOREIGN_LINES_IN_BLOCK else None
        block.values.update(read[0])
        return self._end_block(cut=False) if read[1] else None

    def _end_block(self, *, cut: bool) -> LogRow | None:
        block, self._block = self._block, None
        if block is None:
            return None
        self.unparsed += cut
        if not is_metrics_block(block.values):
            return None
        self.recognised = True
        self._has_own_steps = self._log_has_own_steps = True
        if self._mirrored:
            return None
        values = dict(self._unplaced)
        last = self._last
        if last is not None and (last.step, last.attempt) == (block.step, self.attempt):
            values = {**last.values, **values}  # the async trainer draws its bar before the block, and prints two
        for key, printed in block.values.items():
            if key not in values or not _agree(values[key], printed):
                values[key] = printed
        self._forget_unplaced()
        return self._give(block.step, values, block.time)

    def _give(self, step: int, values: Mapping[str, float], time: float | None) -> LogRow:
        elapsed = self._bar.elapsed if self._bar is not None else None
        row = LogRow(step, values, time, elapsed, self.attempt)
        self._last = row
        if step > 0:
            self.position = LogRow(step, {}, time, elapsed, self.attempt)
        self.completed = False
        return row

    def _begin_attempt(self) -> None:
        if self._bar is not None or self._last is not None:
            self.attempt += 1
        self._bar, self._last, self._bar_ahead, self._saved_step = None, None, 0, None
        self._has_own_steps = self._mirrored = False
        self.completed = False
        self._forget_unplaced()

    def _drop_unplaced(self) -> None:
        self.unparsed += self._unplaced_once
        self._forget_unplaced()

    def _forget_unplaced(self) -> None:
        self._unplaced, self._unplaced_once, self._unplaced_time = {}, False, None


def _agree(full: float, printed: float) -> bool:
    """Tell whether a value printed with four decimals is the rounding of the other."""
    if math.isnan(full) or math.isnan(printed):
        return math.isnan(full) and math.isnan(printed)
    return full == printed or abs(full - printed) <= _PRINTED_TO
