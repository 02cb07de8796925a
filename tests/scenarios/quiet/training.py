"""Writes what a training run leaves in its upstreams: rows, saves, attempts, heartbeats, replays and its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.scenarios.quiet.healthy import MINUTE, Span, at

Draw = Callable[[Random], Mapping[str, float]]
"""Draws the values of a row."""

_BLOCK_SECONDS = 10 * MINUTE  # values go in a straight line between two draws so far apart


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How a trainer spends its time, in seconds. 0 for what it does not do; saves and evaluations stop its steps."""

    step: float
    save_every: float = 0.0
    save_takes: float = 0.0
    evaluate_every: float = 0.0
    evaluate_takes: float = 0.0


@dataclass(slots=True)
class Training:
    """A run that is written forward in time. A new attempt does the steps since the newest save again."""

    random: Random
    rhythm: Rhythm
    draw: Draw
    target: int
    steps: list[dict[str, object]] = field(default_factory=list)
    saves: list[dict[str, object]] = field(default_factory=list)
    states: list[dict[str, object]] = field(default_factory=list)
    alive: list[tuple[str, str]] = field(default_factory=list)
    evaluations: list[Span] = field(default_factory=list)
    step: int = 0
    saved_step: int = 0
    highest: int = 0
    new_step_at: float | None = None
    _values: Mapping[str, float] | None = None

    def attempt(self, start: float, bringup: float, until: float, **placement: object) -> float:
        """Run from `start`, bring-up first, until `until` or the target; return when it stopped.

        `new_step_at` is then when the first step was done that no attempt before had done, if it came so far.
        """
        self.states.append({"from": at(start), "state": "running", **placement})
        self.step = self.saved_step
        self.new_step_at = None
        now = start + bringup
        save_due = now + self.rhythm.save_every if self.rhythm.save_every else float("inf")
        evaluation_due = now + self.rhythm.evaluate_every if self.rhythm.evaluate_every else float("inf")
        while now < until and self.step < self.target:
            now = self._block(now, min(save_due, evaluation_due), until)
            if now >= until or self.step >= self.target:
                break
            if now >= save_due:
                self._save(now)
                now += self.rhythm.save_takes
                save_due = now + self.rhythm.save_every
            if now >= evaluation_due:
                self.evaluations.append((now, now + self.rhythm.evaluate_takes))
                now += self.rhythm.evaluate_takes
                evaluation_due = now + self.rhythm.evaluate_every
        stopped = min(now, until)
        if self.step >= self.target and self.rhythm.save_every:
            self._save(now)
        self.alive.append((at(start + MINUTE), at(stopped)))
        return stopped

    def stop(self, when: float, state: str, **placement: object) -> None:
        """End the attempt: the scheduler says `state`."""
        self.states.append({"from": at(when), "state": state, **placement})

    def stay_alive(self, until: float) -> None:
        """Let the process go on after its last step, speaking to its tracker."""
        since, _ = self.alive[-1]
        self.alive[-1] = (since, at(until))

    def _save(self, now: float) -> None:
        self.saved_step = self.step
        done = now + self.rhythm.save_takes
        self.saves.append({"at": at(done), "step": self.step, "begun": at(self.rhythm.save_takes)})

    def _block(self, now: float, pause: float, until: float) -> float:
        """Write steps up to the one that ends at `pause` or after it, some minutes of them in an entry.

        A step that would end after `until` is lost. Returns when the last one ended, or `until`.
        """
        step = self.rhythm.step
        while self.step < self.target and now < pause:
            count = min(self.target - self.step, max(1, int(_BLOCK_SECONDS / step)))
            if pause < float("inf"):
                count = min(count, math.ceil((pause - now) / step))
            if until < float("inf"):
                count = min(count, int((until - now) / step))
            if not count:
                return until
            first = self._values if self._values is not None else self.draw(self.random)
            last = self.draw(self.random)
            values = {key: (first[key], last[key]) if count > 1 else last[key] for key in last}
            # A row is logged when its step is done.
            rows = {"from": at(now + step), "every": at(step), "count": count}
            self.steps.append({**rows, "first": self.step, "values": values})
            self._values = last
            self.step += count
            if self.step > self.highest:
                if self.new_step_at is None:
                    self.new_step_at = now + step * (self.highest + 1 - (self.step - count))
                self.highest = self.step
            now += count * step
        return now
