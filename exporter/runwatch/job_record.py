"""What has been seen of one job so far, by source: the only mutable state between two polls.

Nothing here cannot be read again from the upstreams: after a restart the same outcomes give the same record.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

from runwatch.config.model import HistorySource
from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.job import HistoryView, JobView
from runwatch.derive.progress import segment_starts
from runwatch.facts import CheckpointListing, Failure, HistoryRun, HistoryUpdate, SourceKind
from runwatch.fleet import Job
from runwatch.sources.protocol import Outcome


def history_origin(source: HistorySource) -> str:
    """Say in a few words which history this is."""
    for word, value in (("W&B", source.wandb), ("offline W&B", source.wandb_offline), ("JSON lines", source.jsonl)):
        if value is not None:
            return f"{word} {value}"
    return f"log {source.log}"


@dataclass(slots=True)
class _HistorySlot:
    """One of a job's histories: the config lists them in the order in which they are trusted."""

    digest: HistoryDigest | None = None
    run: HistoryRun = field(default_factory=HistoryRun)
    caught_up: bool = False
    observed: float | None = None
    failure: Failure | None = None
    tried: bool = False


class JobRecord:
    """Takes outcomes of polls and answers with a `JobView`. Safe to use from several threads."""

    def __init__(self, job: Job, configured: float) -> None:
        self.job = job
        self._configured = configured
        self._lock = threading.Lock()
        self._histories = [_HistorySlot() for _ in job.history]
        self._checkpoints: CheckpointListing | None = None
        self._checkpoints_observed: float | None = None
        self._checkpoints_failure: Failure | None = None
        self._checkpoints_tried = False

    def apply_history(self, position: int, outcome: Outcome, now: float) -> None:
        """Take what the history at this position of the job's list delivered."""
        with self._lock:
            slot = self._histories[position]
            slot.tried = True
            if isinstance(outcome, Failure):
                slot.failure = outcome
                return
            if not isinstance(outcome, HistoryUpdate):
                raise TypeError(f"a history delivered {type(outcome).__name__}")
            if slot.digest is None or outcome.reset:
                starts = segment_starts(outcome.run.config, self.job.config)
                slot.digest = HistoryDigest(is_rl=self.job.bucket == "rl", segment_starts=starts)
                slot.caught_up = False
            slot.digest.add(outcome.rows)
            slot.run = outcome.run
            slot.failure = None
            if outcome.caught_up:
                slot.caught_up = True
                slot.observed = now

    def apply_checkpoints(self, outcome: Outcome, now: float) -> None:
        """Take what the checkpoint listing delivered."""
        with self._lock:
            self._checkpoints_tried = True
            if isinstance(outcome, Failure):
                self._checkpoints_failure = outcome
                return
            if not isinstance(outcome, CheckpointListing):
                raise TypeError(f"a checkpoint listing delivered {type(outcome).__name__}")
            self._checkpoints = outcome
            self._checkpoints_observed = now
            self._checkpoints_failure = None

    def wants_history(self, position: int) -> bool:
        """Tell whether this history is to be read: the first always, a later one while all before it fail."""
        with self._lock:
            return all(slot.failure is not None for slot in self._histories[:position])

    def latest_outcome(self, kind: SourceKind) -> Failure | bool | None:
        """Return True when the source's latest look at this job succeeded, its Failure, or None before any look."""
        with self._lock:
            if kind is SourceKind.CHECKPOINTS:
                tried, failures = self._checkpoints_tried, [self._checkpoints_failure]
            else:
                tried_slots = [slot for slot in self._histories if slot.tried]
                tried, failures = bool(tried_slots), [slot.failure for slot in tried_slots]
            if not tried:
                return None
            if any(failure is None for failure in failures):
                return True
            return failures[0]

    def view(self, now: float, stale_after: float) -> JobView:
        """Return what is known now; what was last confirmed longer than `stale_after` seconds ago is left out."""
        with self._lock:
            observed: dict[SourceKind, float] = {}
            failures: dict[SourceKind, tuple[Failure, ...]] = {}
            history = self._history_view(now, stale_after, observed)
            failures[SourceKind.HISTORY] = tuple(s.failure for s in self._histories if s.failure is not None)
            checkpoints = None
            if self._checkpoints_observed is not None and now - self._checkpoints_observed <= stale_after:
                checkpoints = self._checkpoints
                observed[SourceKind.CHECKPOINTS] = self._checkpoints_observed
            if self._checkpoints_failure is not None:
                failures[SourceKind.CHECKPOINTS] = (self._checkpoints_failure,)
            return JobView(
                job=self.job,
                history=history,
                checkpoints=checkpoints,
                configured=dict.fromkeys(self.sources(), self._configured),
                observed=observed,
                failures=failures,
            )

    def sources(self) -> tuple[SourceKind, ...]:
        """The kinds of source that this job is asked of."""
        asked = []
        if any(source.log is None for source in self.job.history):
            asked.append(SourceKind.HISTORY)
        if self.job.checkpoints:
            asked.append(SourceKind.CHECKPOINTS)
        return tuple(asked)

    def _history_view(self, now: float, stale_after: float, observed: dict[SourceKind, float]) -> HistoryView | None:
        chosen = self._chosen(now, stale_after)
        slot = self._histories[chosen] if chosen is not None else None
        if chosen is None or slot is None or slot.digest is None or slot.observed is None:
            return None
        observed[SourceKind.HISTORY] = slot.observed
        return HistoryView(slot.run, slot.digest.summary(), history_origin(self.job.history[chosen]))

    def _chosen(self, now: float, stale_after: float) -> int | None:
        """Choose the first history that answers now; while none does, the one that answered last.

        A later history was last read when the ones before it failed: until it is read again, what an earlier one said
        since then is newer and stays.
        """
        usable = [
            (slot.observed, position)
            for position, slot in enumerate(self._histories)
            if slot.caught_up and slot.observed is not None and now - slot.observed <= stale_after
        ]
        if not usable:
            return None
        newest = max(seen for seen, _ in usable)
        answering = [p for seen, p in usable if self._histories[p].failure is None and (p == 0 or seen == newest)]
        return answering[0] if answering else next(p for seen, p in usable if seen == newest)

    def failing(self, position: int) -> bool:
        """Whether the latest look at this history failed."""
        with self._lock:
            return self._histories[position].failure is not None

    @property
    def reading(self) -> bool:
        """Whether a first read goes on: rows were delivered, and more wait at the source."""
        with self._lock:
            return any(slot.digest is not None and not slot.caught_up for slot in self._histories)

    @property
    def may_have_ended(self) -> bool:
        """Whether a history is configured that was not tried yet: it may say that the run is over."""
        with self._lock:
            slots = zip(self.job.history, self._histories, strict=True)
            readable = [slot for source, slot in slots if source.log is None]
            return bool(readable) and not any(slot.tried for slot in readable)

    @property
    def ended(self) -> bool:
        """Whether the history that is used says that the run ended."""
        with self._lock:
            chosen = self._chosen(0.0, math.inf)
            return chosen is not None and self._histories[chosen].run.end is not None

    @property
    def rows_read(self) -> int:
        """How many rows the digests hold, to see whether a first read moves."""
        with self._lock:
            return sum(slot.digest.rows for slot in self._histories if slot.digest is not None)
