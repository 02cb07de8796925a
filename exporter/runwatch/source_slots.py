"""What the looks at each source of one job gave: when it last answered, with what, and why the latest look failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.trials import TrialsSummary
from runwatch.facts import CheckpointListing, Failure, HistoryRun, LogFacts
from runwatch.scheduler_digest import SchedulerDigest


@dataclass(slots=True)
class Slot:
    """How the looks at one source went. `observed` is when it last answered, `failure` why the latest look failed."""

    observed: float | None = None
    failure: Failure | None = None
    tried: bool = False

    def failed(self, failure: Failure) -> None:
        self.tried = True
        self.failure = failure

    def answered(self, now: float | None) -> None:
        self.tried = True
        self.failure = None
        if now is not None:
            self.observed = now

    @property
    def is_unfinished(self) -> bool:
        """Whether the looks went well, and yet none of them came to the end of what is there."""
        return self.tried and self.failure is None and self.observed is None

    def known(self, now: float, stale_after: float) -> bool:
        if self.observed is not None:  # of a clock that was set back no answer lies in the future
            self.observed = min(self.observed, now)
        return self.observed is not None and now - self.observed <= stale_after


@dataclass(slots=True)
class HistorySlot(Slot):
    """One of a job's histories: the config lists them in the order in which they are trusted.

    `digest` is made of what `source` gave since its first row. `coming` takes the rows of a source that was made anew
    and gives them all again: what was read before stays until as much is read. `behind` tells that rows wait still.
    """

    digest: HistoryDigest | None = None
    run: HistoryRun = field(default_factory=HistoryRun)
    caught_up: bool = False
    source: object = None
    coming: HistoryDigest | None = None
    behind: bool = False

    @property
    def reading(self) -> bool:
        """Whether a first read goes on: rows were delivered, and more wait at the source."""
        return self.coming is not None or (self.digest is not None and not self.caught_up)


@dataclass(slots=True)
class CheckpointSlot(Slot):
    listing: CheckpointListing | None = None


@dataclass(slots=True)
class SchedulerSlot(Slot):
    digest: SchedulerDigest | None = None


@dataclass(slots=True)
class TrialsSlot(Slot):
    summary: TrialsSummary | None = None
    results_read: int = 0


@dataclass(slots=True)
class LogSlot(Slot):
    facts: LogFacts | None = None
