"""Replays a capture as a job that goes on: its rows as JSON lines with times that end now, then one more at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runwatch.config.model import HistorySource
from runwatch.facts import Failure, HistoryRow
from runwatch.fleet import Job
from runwatch.sources.wandb_offline import WandbOfflineReader

_LOADING_SECONDS = 30.0  # of a restart's pause: the run's own clock counts it, as it does not while the run is down


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps from `first` to `last`, made one after another.

    `pause` is how many seconds longer the first of them took. A stretch with `restarts` begins a new attempt; without
    it the run stood still and went on.
    """

    first: int
    last: int
    pause: float = 0.0
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of a plan: seconds since the plan's beginning, and on the run's own clock."""

    step: int
    offset: float
    runtime: float
    attempt_first: int


def moments(stretches: Sequence[Stretch], seconds_per_step: float) -> Iterator[Moment]:
    """Lay the steps of all stretches on one line of time."""
    offset = runtime = 0.0
    attempt_first = stretches[0].first
    for stretch in stretches:
        if stretch.restarts:
            attempt_first = stretch.first
        offset += stretch.pause
        runtime += min(stretch.pause, _LOADING_SECONDS) if stretch.restarts else stretch.pause
        for step in range(stretch.first, stretch.last + 1):
            offset += seconds_per_step
            runtime += seconds_per_step
            yield Moment(step, offset, runtime, attempt_first)


class Saves(Protocol):
    """Writes checkpoints as a trainer does."""

    def step_done(self, step: int, attempt_first: int, now: float) -> None:
        """Take note of a step; called for each, in order. Times are Unix seconds."""


@dataclass(slots=True)
class Replay:
    """One replayed job.

    Attributes:
        path: The file of JSON lines.
        row_of_step: The logged values of a step, without its time and the run's clock.
        plan: What has happened up to now.
        seconds_per_step: In the past as from now on.
        target: The replay stops before this step.
        saves: Where checkpoints go, None where none are saved.
        cut_line: A line that a killed trainer left behind; it is written where an attempt ends.
    """

    path: Path
    row_of_step: Callable[[int], Mapping[str, float]]
    plan: Sequence[Stretch]
    seconds_per_step: float
    target: int
    saves: Saves | None = None
    cut_line: str = ""
    _latest: Moment | None = None
    _latest_time: float = 0.0

    def prefill(self, now: float) -> None:
        """Write the past: its last row is of now."""
        past = list(moments(self.plan, self.seconds_per_step))
        start = now - past[-1].offset
        with self.path.open("w", encoding="utf-8") as file:
            attempt_first = past[0].attempt_first
            for moment in past:
                if moment.attempt_first != attempt_first and self.cut_line:
                    file.write(self.cut_line + "\n")
                attempt_first = moment.attempt_first
                file.write(self._line(moment, start + moment.offset))
                self._save(moment, start + moment.offset)
        self._latest, self._latest_time = past[-1], now

    def advance(self, now: float) -> None:
        """Write the next row where it is time for it. A replay that was stopped shows it: nothing is caught up."""
        if self._latest is None or now - self._latest_time < self.seconds_per_step:
            return
        if self._latest.step + 1 >= self.target:
            return
        passed = now - self._latest_time
        latest = self._latest
        moment = Moment(latest.step + 1, latest.offset + passed, latest.runtime + passed, latest.attempt_first)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._line(moment, now))
        self._save(moment, now)
        self._latest, self._latest_time = moment, now

    def _save(self, moment: Moment, time: float) -> None:
        if self.saves is not None:
            self.saves.step_done(moment.step, moment.attempt_first, time)

    def _line(self, moment: Moment, time: float) -> str:
        row = {"_step": moment.step, "_timestamp": time, "_runtime": moment.runtime, **self.row_of_step(moment.step)}
        return json.dumps(row) + "\n"


def read_capture(folder: Path) -> list[HistoryRow]:
    """Read every row of an offline W&B capture.

    Raises:
        RuntimeError: It cannot be read.
    """
    update = WandbOfflineReader().read(Job("capture", "other", history=(HistorySource(wandb_offline=folder),)))
    if isinstance(update, Failure):
        raise RuntimeError(f"the demo's capture cannot be read: {update.detail}")
    return list(update.rows)


def values_of_step(rows: Sequence[HistoryRow], first_step: int, repeated: int) -> Callable[[int], dict[str, float]]:
    """Return a function from a step to the capture's values: behind its end the last `repeated` rows come again."""

    def values(step: int) -> dict[str, float]:
        index = step - first_step
        if index >= len(rows):
            index = len(rows) - repeated + (index - len(rows)) % repeated
        return {key: value for key, value in rows[index].values.items() if not key.startswith("_")}

    return values
