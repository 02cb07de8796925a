"""How often each source comes back to a job, as measured: of a large or slow site that is less often than configured.

A source counts as blind for a job after some intervals without an answer. Where a round over all jobs takes longer than
the interval, each job would be blind at the end of each round, and no alert that holds for minutes could begin on it.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from runwatch.facts import SourceKind
from runwatch.thresholds import SLOW_ROUND_FACTOR


@dataclass(slots=True)
class _Place:
    """The jobs of one site that one source reads: when each was last read, and how long before that it had been.

    `since` are monotonic seconds, `median` the pauses' in seconds, 0 while there is none.
    """

    since: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    median: float = 0.0

    def take(self, read: Mapping[str, float]) -> None:
        """Take when those jobs were that one poll could read."""
        if not read:
            self.since.clear()
        for run, time in read.items():
            if run in self.since:
                self.pauses[run] = time - self.since[run]
            self.since[run] = time

    def keep_only(self, runs: Collection[str]) -> None:
        """Forget all other jobs."""
        for known in (self.since, self.pauses):
            for run in known.keys() - runs:
                del known[run]


class Rounds:
    """Takes which jobs each poll asked for and which it read. Safe for use from any thread."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, SourceKind, str], _Place] = {}
        self._lock = threading.Lock()

    def polled(
        self, name: str, kind: SourceKind, asked: Mapping[str, str], read: Mapping[str, float], *, whole: bool
    ) -> None:
        """Take what one poll did.

        A pause counts between two reads of a job while the source went on reading others of its site: what it could
        not read at all was an outage, and says nothing of its rounds.

        Args:
            name: the source, where several are of one kind.
            kind: which source.
            asked: the sites of the jobs that were asked for, by run.
            read: when those that could be read were (monotonic seconds), by run.
            whole: whether all jobs were asked for that the source serves now, not only those whose turn did not come.
        """
        by_site: dict[str, set[str]] = {}
        for run, site in asked.items():
            by_site.setdefault(site, set()).add(run)
        with self._lock:
            for site, runs in by_site.items():
                place = self._places.setdefault((name, kind, site), _Place())
                place.take({run: read[run] for run in runs & read.keys()})
                if whole:
                    place.keep_only(runs)
                # Once a poll, for it is asked for with each job that is read.
                place.median = statistics.median_low(place.pauses.values()) if place.pauses else 0.0
            if whole:
                for key in [key for key in self._places if key[:2] == (name, kind) and key[2] not in by_site]:
                    del self._places[key]

    def interval(self, kind: SourceKind, site: str, configured: float) -> float:
        """Return the seconds between two looks at a job of the site: the configured ones, unless they are longer.

        The median over the jobs, so that one that is read seldom for reasons of its own does not hide how old the
        facts of all others are.
        """
        with self._lock:
            medians = [
                place.median for (_, its_kind, of), place in self._places.items() if its_kind is kind and of == site
            ]
        measured = max(medians, default=0.0)
        return measured if measured > SLOW_ROUND_FACTOR * configured else configured
