"""Polls each source in a thread of its own, so that one hung upstream delays no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from runwatch.config.model import Config
from runwatch.contained import Contained
from runwatch.job_record import JobRecord
from runwatch.sources.binding import SourceBinding
from runwatch.watch import Watch

_log = logging.getLogger(__name__)

_FIRST_READ_PAUSE_SECONDS = 0.2  # between the polls of a first read that goes on


class PollLoop:
    """One source's thread: poll, publish, wait for the rest of the interval."""

    def __init__(self, binding: SourceBinding, watch: Watch, config: Config, publish: Callable[[], None]) -> None:
        self.binding = binding
        self.config = config
        self.tried = threading.Event()
        self._watch = watch
        self._publish = publish
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"poll-{binding.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Poll again now: there are new jobs."""
        self._wake.set()

    def stop(self) -> None:
        """End after the poll that goes on."""
        self._stopped = True
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end, at most so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopped:
            started = time.monotonic()
            self._wake.clear()
            self._watch.poll(self.binding, is_wanted=lambda: not self._stopped)
            self.tried.set()
            self._publish_contained()
            self._serve_left_over(started)
            pause = self._left(started)
            if self._watch.is_reading(self.binding):
                pause = min(pause, _FIRST_READ_PAUSE_SECONDS)
            self._wake.wait(max(pause, 0.0))

    def _serve_left_over(self, started: float) -> None:
        """Poll those whose turn did not come, while that delays the next poll of all by little."""
        took = time.monotonic() - started
        while (jobs := self.binding.left_over) and self._left(started) > took / 2 and not self._wake.is_set():
            self._watch.poll(self.binding, partial(_is_among, jobs), is_wanted=lambda: not self._stopped)
            self._publish_contained()

    def _publish_contained(self) -> None:
        with Contained(f"publishing what {self.binding.name} brought"):
            self._publish()

    def _left(self, started: float) -> float:
        return self.config.interval(self.binding.source.kind) - (time.monotonic() - started)


def _is_among(runs: frozenset[str], record: JobRecord) -> bool:
    return record.job.run in runs


class Poller:
    """Runs one loop for each source that any job uses.

    Args:
        watch: the jobs.
        publish: called after each poll, from the loop's thread.
    """

    def __init__(self, watch: Watch, publish: Callable[[], None]) -> None:
        self._watch = watch
        self._publish = publish
        self._loops: dict[int, PollLoop] = {}

    def set_bindings(self, config: Config, bindings: Sequence[SourceBinding]) -> tuple[PollLoop, ...]:
        """Poll exactly these sources from now on, and all of them at once.

        Returns:
            The loops of other sources: they end after the poll that goes on.
        """
        wanted = {id(binding.source): binding for binding in bindings}
        ended = tuple(self._loops.pop(key) for key in [key for key in self._loops if key not in wanted])
        for loop in ended:
            loop.stop()
        for key, binding in wanted.items():
            if key in self._loops:
                self._loops[key].config = config
                self._loops[key].wake()
            else:
                _log.info("polling %s every %g s", binding.name, config.interval(binding.source.kind))
                self._loops[key] = PollLoop(binding, self._watch, config, self._publish)
        return ended

    def every_source_tried(self) -> bool:
        """Whether each source has finished one poll, whatever came of it."""
        return all(loop.tried.is_set() for loop in list(self._loops.values()))

    def stop(self, seconds: float) -> None:
        """Ask all loops to end and wait for them, at most so long in all; a hung upstream holds nobody up."""
        until = time.monotonic() + seconds
        loops = list(self._loops.values())  # discovery goes on meanwhile
        for loop in loops:
            loop.stop()
        for loop in loops:
            loop.join(max(until - time.monotonic(), 0.0))
