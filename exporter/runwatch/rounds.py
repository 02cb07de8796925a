"""How often each source comes back to a job, as measured: of a large or slow site that is less often than configured.

A source counts as blind for a job after some intervals without an answer. Where a round over all jobs takes longer than
the interval, each job would be blind at the end of each round, and no alert that holds for minutes could begin on it.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from runwatch.facts import SourceKind
from runwatch.thresholds import SLOW_ROUND_FACTOR


@dataclass(slots=True)
class _Place:
    """The jobs of one site that one source reads: when each was last read, and how long before that it had been.

    `since` are monotonic seconds.
    """

    since: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)


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
        with self._lock:
            for site in set(asked.values()):
                place = self._places.setdefault((name, kind, site), _Place())
                here = {run: read[run] for run, of in asked.items() if of == site and run in read}
                if not here:
                    place.since.clear()
                for run, time in here.items():
                    if run in place.since:
                        place.pauses[run] = time - place.since[run]
                    place.since[run] = time
            if whole:
                self._forget_unasked(name, kind, asked)

    def _forget_unasked(self, name: str, kind: SourceKind, asked: Mapping[str, str]) -> None:
        for (of, its_kind, site), place in list(self._places.items()):
            if (of, its_kind) != (name, kind):
                continue
            for run in [run for run in {*place.since, *place.pauses} if asked.get(run) != site]:
                place.since.pop(run, None)
                place.pauses.pop(run, None)
            if site not in asked.values():
                del self._places[of, its_kind, site]

    def interval(self, kind: SourceKind, site: str, configured: float) -> float:
        """Return the seconds between two looks at a job of the site: the configured ones, unless they are longer.

        The median over the jobs, so that one that is read seldom for reasons of its own does not hide how old the
        facts of all others are.
        """
        with self._lock:
            medians = [
                statistics.median_low(place.pauses.values())
                for (_, its_kind, of), place in self._places.items()
                if its_kind is kind and of == site and place.pauses
            ]
        measured = max(medians, default=0.0)
        return measured if measured > SLOW_ROUND_FACTOR * configured else configured
