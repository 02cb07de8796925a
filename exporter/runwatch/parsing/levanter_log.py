"""The log of a Levanter run: where W&B cannot be read, its own progress lines.

Without a terminal Levanter's bar writes log lines, at most one a minute (`levanter.callbacks.pbar_logger` through
`tqdm_loggable.tqdm_logging`), after any logger's prefix:

    Progress on:train -/39062 rate:- remaining:? elapsed:00:00 postfix:-
    Progress on:train 326it/39.1kit rate:1.4s/it remaining:1:04:17 elapsed:09:13 postfix:loss=3.14

The count is the number of steps done, one more than the newest step (`StepInfo.step` counts from 0); the loss is that
step's or the one's before, by which of the bar's two updates was printed. From 1,000 on the count has three digits
only. Then a row is given where the printed figure changes, with the step, among those that are printed so, that the
pace of the last figures leads to: the least of them would make a median of durations wrong, where a minute has nearly
as many steps as a figure stands for. The total is whole in the first line of each start only, and a shortened one is
none.

Every process of a gang prints all of these lines, each with a clock of its own. Those of the first count, but where no
prefix tells whose a line is (a step of `srun` writes all into one file) they stand among one another. So only the line
without a count, which each start begins with, or a clock that is far behind tells of another start; a count below the
highest of its start is another process's, a step late; and of payloads that are the same to the letter one counts.

With `tracker: json_logger` each payload is a line of JSON (`levanter.tracker.json_logger`), with its step and in full
precision; once one was seen the progress lines give no more rows.
"""

from __future__ import annotations

import math
import re
from collections import deque

from runwatch.parsing.history_rows import MalformedRow, parse_json_line, parse_row, whole_number
from runwatch.parsing.log_records import LogFragment, LogRow
from runwatch.parsing.log_values import log_number
from runwatch.parsing.progress_bars import clock_seconds

_LONGEST_PREFIX = 240
_PROGRESS = "Progress on:train "
_COUNT = r"(\d{1,3}(?:\.\d{1,2})?)([kMG]?)it"
_LINE = re.compile(
    rf"Progress on:train (?:{_COUNT}|-)/(?:{_COUNT}|(\d{{1,15}})|-) rate:\S{{1,40}} remaining:[\d:?]{{1,20}} "
    r"elapsed:([\d:]{1,20}) postfix:(-|\S.{0,300}?)(?: \([^()]{1,80}\))?",
    re.ASCII,
)
_LOSS = re.compile(r"(?:^|, )loss=([^,\s]{1,40})")
_JSON = '{"tracker": "'
_PROCESS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d - (\d{1,6}) - ", re.ASCII)
"""Levanter's own logging names the process behind the time."""
_RESUMES = re.compile(r"Resuming training from step (\d{1,15})", re.ASCII)
_FINISHED = re.compile(r"Training already complete at step (\d{1,15}) \(target: (\d{1,15})\)\. .{0,200}", re.ASCII)
_PACE_FIGURES = 20
_APART_SECONDS = 60.0
"""How far the clocks of a gang's processes may be apart: a line comes once a minute, none before all of them began."""
_PAYLOADS_KEPT = 64
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


class LevanterLogParser:
    """Takes fragments one by one. Its attributes are those of `HuggingFaceLogParser`."""

    name = "levanter"

    def __init__(self) -> None:
        self.recognised = False
        self.unparsed = 0
        self.completed = False
        self.attempt = 0
        self.position: LogRow | None = None
        self.total_steps: int | None = None
        self._elapsed: float | None = None
        self._shortened: int | None = None
        self._figures: deque[tuple[float, int]] = deque(maxlen=_PACE_FIGURES + 1)
        self._counted: tuple[float, int] | None = None
        self._has_json = False
        self._payloads: deque[str] = deque(maxlen=_PAYLOADS_KEPT)

    def feed(self, fragment: LogFragment) -> LogRow | None:
        """Take the next fragment, and return the row that is complete with it."""
        if fragment.rank is not None and fragment.rank != 0:
            return None
        text = fragment.text
        process = _PROCESS.match(text)
        if process is not None and int(process[1]) != 0:
            return None
        if (message := _message(text, _PROGRESS)) is not None:
            return self._take_progress(message, fragment.time)
        if (message := _message(text, _JSON)) is not None:
            return self._take_json(message, fragment.time)
        if (message := _message(text, "Resuming training from step ")) is not None:
            if _RESUMES.fullmatch(message):
                self._begin_attempt()
        elif (message := _message(text, "Training already complete at step ")) is not None:
            self._take_finished(message)
        return None

    def skip(self) -> None:
        """Note that a part of the log was left out here: whether a shortened count is a new one is not known."""
        self._shortened, self._counted = None, None
        self._figures.clear()

    def finish(self) -> list[LogRow]:
        """Return nothing: no row waits for anything."""
        return []

    def _take_progress(self, message: str, time: float | None) -> LogRow | None:
        found = _LINE.fullmatch(message)
        elapsed = clock_seconds(found[6]) if found is not None else None
        if found is None or elapsed is None:
            self.unparsed += 1
            return None
        self.recognised = True
        if self._begins_again(elapsed, has_count=found[1] is not None):
            self._begin_attempt()
        self._elapsed = max(elapsed, self._elapsed or 0.0)
        total = int(found[5]) if found[5] is not None else _exact(found[3] or "", found[4] or "")
        self.total_steps = total or self.total_steps
        if found[1] is None:
            return None
        step = self._step(found[1], found[2], elapsed)
        if step is None or step < self._newest_step():
            return None
        self.position = LogRow(step, {}, time, elapsed, self.attempt)
        values: dict[str, float] = {}
        loss = _LOSS.search(found[7])
        if loss is not None and (number := log_number(loss[1])) is not None:
            values["train/loss"] = number
        if self._has_json or not values:
            return None
        if self.total_steps is not None:
            values["run_progress"] = step / self.total_steps
        return LogRow(step, values, time, elapsed, self.attempt)

    def _begins_again(self, elapsed: float, *, has_count: bool) -> bool:
        if self._elapsed is None:
            return False
        if not has_count:
            return self._shortened is not None or self._newest_step() >= 0
        return elapsed < self._elapsed - _APART_SECONDS

    def _newest_step(self) -> int:
        """Return the newest step of the present start, -1 before its first."""
        position = self.position
        return position.step if position is not None and position.attempt == self.attempt else -1

    def _step(self, count: str, unit: str, elapsed: float) -> int | None:
        """Return the step counted from 0, None where the printed count does not tell it."""
        exact = _exact(count, unit)
        if exact is not None:
            self._shortened = 0
            return self._by_pace(elapsed, exact, exact) - 1 if exact > 0 else None
        number = float(count)
        # With three digits 1.00 follows on 999, 10.0 on 9.99 and 100 on 99.9: half of that last digit below.
        half_a_digit = 0.0005 * number if number in (1, 10, 100) else 0.5 * 10.0 ** -len(count.partition(".")[2])
        least = math.ceil((number - half_a_digit) * _UNITS[unit] - 1e-6)
        before, self._shortened = self._shortened, least
        if before is None or before == least:
            return None  # somewhere within the figure, or no new one
        most = least + round(10.0 ** -len(count.partition(".")[2]) * _UNITS[unit]) - 1
        if self.total_steps is not None:
            most = max(min(most, self.total_steps - 1), least)  # no estimate says that the last step is done
        return self._by_pace(elapsed, least, most) - 1

    def _by_pace(self, elapsed: float, least: int, most: int) -> int:
        """Return the number of steps done, of those that the printed figure stands for, that the pace leads to."""
        last, done = self._counted, least
        self._figures.append((elapsed, least))
        first_elapsed, first_least = self._figures[0]
        if last is not None and elapsed > first_elapsed:
            pace = (least - first_least) / (elapsed - first_elapsed)
            done = min(max(round(last[1] + pace * (elapsed - last[0])), least), most)
        self._counted = elapsed, done
        return done

    def _take_json(self, message: str, time: float | None) -> LogRow | None:
        if message in self._payloads:
            return None
        self._payloads.append(message)
        try:
            record = parse_json_line(message.encode("utf-8", errors="replace"))
            if record.get("tracker") != "json_logger":
                return None
            metrics, step = record.get("metrics"), whole_number(record.get("step"))
            if record.get("event") != "log" or not isinstance(metrics, dict) or step is None:
                return None
            values = parse_row(metrics, cursor=step).values
        except MalformedRow:
            self.unparsed += 1
            return None
        self.recognised = self._has_json = True
        self.position = LogRow(step, {}, time, None, self.attempt)
        return LogRow(step, values, time, None, self.attempt)

    def _take_finished(self, message: str) -> None:
        found = _FINISHED.fullmatch(message)
        if found is None:
            return
        self.total_steps, self.completed = int(found[2]), True

    def _begin_attempt(self) -> None:
        if self.position is not None and self.position.attempt == self.attempt:
            self.attempt += 1
        self._elapsed, self._shortened, self.completed = None, None, False
        self._counted = None
        self._figures.clear()
        self._payloads.clear()


def _message(text: str, start: str) -> str | None:
    """Return the text from `start` on, where only a logger's prefix, which quotes nothing, stands before it."""
    at = text.find(start, 0, _LONGEST_PREFIX + len(start))
    if at < 0 or not text[:at].isascii() or any(mark in text[:at] for mark in "'\"{}`"):
        return None
    if at and text[at - 1] not in " \t:]":
        return None
    return text[at:].rstrip()


def _exact(count: str, unit: str) -> int | None:
    """Return a printed count where it is exact: `326it`, `12.0it`, but not `3.00kit`."""
    number = float(count or "nan")
    return int(number) if not unit and number.is_integer() else None
