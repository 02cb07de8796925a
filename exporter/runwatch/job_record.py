"""What has been seen of one job so far, by source: the only mutable state between two polls.

Nothing here cannot be read again from the upstreams, save what a scheduler forgets: after a restart the same outcomes
give the same record.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace

from runwatch.derive.attempts import SchedulerView
from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.job_view import HistoryView, JobView
from runwatch.derive.progress import segment_starts
from runwatch.derive.rl_digest import RLSummary, completed_by
from runwatch.derive.trials import summarise_trials
from runwatch.facts import (
    CheckpointListing,
    Failure,
    HistoryEnd,
    HistoryUpdate,
    LogFacts,
    SchedulerFacts,
    SourceKind,
    TrialsUpdate,
)
from runwatch.fleet import Job, asks_log, read_from
from runwatch.scheduler_digest import SchedulerDigest
from runwatch.source_slots import CheckpointSlot, HistorySlot, LogSlot, SchedulerSlot, Slot, TrialsSlot
from runwatch.sources.protocol import Outcome


class JobRecord:
    """Takes outcomes of polls and answers with a `JobView`. Safe to use from several threads."""

    def __init__(self, job: Job, configured: float) -> None:
        self.job = job
        self._configured = dict.fromkeys(self.sources(), configured)
        self._lock = threading.Lock()
        self._histories = [HistorySlot() for _ in job.history]
        self._checkpoints = CheckpointSlot()
        self._scheduler = SchedulerSlot()
        self._trials = TrialsSlot()
        self._log = LogSlot()

    def take_over(self, job: Job, now: float) -> bool:
        """Go on as the record of a job that is read from the same places, and from some that were found since.

        Args:
            job: the job as it is now.
            now: Unix seconds; from then on it is asked of the sources of the new places.

        Returns:
            False where it is another job: then it needs a record of its own, and all is read from the start.
        """
        with self._lock:
            known = self.job
            same = read_from(known) == read_from(job)
            grown = job.history[: len(known.history)] == known.history and known.checkpoints in ((), job.checkpoints)
            if not (same and grown):
                return False
            self._histories += [HistorySlot() for _ in job.history[len(known.history) :]]
            self.job = job
            self._configured = {kind: self._configured.get(kind, now) for kind in self.sources()}
            return True

    def apply(
        self,
        kind: SourceKind,
        outcome: Outcome,
        now: float,
        *,
        position: int,
        interval: float,
        source: object = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Take what a source delivered.

        Args:
            kind: which source.
            outcome: what it delivered.
            now: Unix seconds: when what it tells was so.
            position: which of the job's histories it is of; 0 for other kinds.
            interval: seconds between two polls of this source.
            source: which one of its kind; one that was made anew gives a history from its first row on.
            is_wanted: asked when no other outcome can come between. A source that another has replaced gives nothing
                any more: its rows would come after those of the other.

        Returns:
            Whether it was taken.

        Raises:
            TypeError: the outcome is not what such a source delivers.
        """
        with self._lock:
            if not is_wanted():
                return False
            slot = self._slot(kind, position)
            if isinstance(outcome, Failure):
                slot.failed(outcome)
            elif isinstance(slot, HistorySlot) and isinstance(outcome, HistoryUpdate):
                self._apply_history(slot, outcome, now, source)
            elif isinstance(slot, CheckpointSlot) and isinstance(outcome, CheckpointListing):
                slot.listing = outcome
                slot.answered(now)
            elif isinstance(slot, SchedulerSlot) and isinstance(outcome, SchedulerFacts):
                if slot.digest is None:
                    slot.digest = SchedulerDigest(interval)
                slot.digest.interval = interval
                slot.digest.add(outcome, now)
                slot.answered(now)
            elif isinstance(slot, TrialsSlot) and isinstance(outcome, TrialsUpdate):
                slot.answered(now if outcome.caught_up else None)
                slot.results_read = sum(len(folder.results) for folder in outcome.folders)
                if outcome.caught_up:
                    slot.summary = summarise_trials(outcome)
            elif isinstance(slot, LogSlot) and isinstance(outcome, LogFacts):
                slot.answered(now if outcome.caught_up else None)
                if outcome.caught_up:
                    slot.facts = outcome
            else:
                raise TypeError(f"a source of kind {kind} delivered {type(outcome).__name__}")
            return True

    def _slot(self, kind: SourceKind, position: int) -> Slot:
        if kind is SourceKind.HISTORY:
            return self._histories[position]
        return self._others()[kind]

    def _others(self) -> dict[SourceKind, Slot]:
        return {
            SourceKind.SCHEDULER: self._scheduler,
            SourceKind.CHECKPOINTS: self._checkpoints,
            SourceKind.TRIALS: self._trials,
            SourceKind.LOG: self._log,
        }

    def _apply_history(self, slot: HistorySlot, update: HistoryUpdate, now: float, source: object) -> None:
        starts = segment_starts(update.run.config, self.job.config)
        is_another = slot.source is not source
        slot.source = source
        digest = slot.coming or slot.digest
        if digest is None or update.reset or is_another:
            digest = HistoryDigest(is_rl=self.job.bucket == "rl", segment_starts=starts)
        if update.reset or not slot.caught_up:
            slot.digest, slot.coming, slot.caught_up = digest, None, False
        elif digest is not slot.digest:
            slot.coming = digest
        digest.set_segment_starts(starts)
        digest.add(update.rows, now)
        digest.note_malformed(update.malformed)
        if slot.coming is None or update.caught_up:
            slot.digest, slot.coming, slot.run = digest, None, update.run
        slot.caught_up = slot.caught_up or update.caught_up
        slot.behind = not update.caught_up
        if update.age and slot.observed is not None:
            now = max(now, slot.observed)
        slot.answered(now if update.caught_up else None)

    def wants(self, kind: SourceKind, position: int) -> bool:
        """Tell whether this source is to be asked: a later history only while all before it fail."""
        if kind is not SourceKind.HISTORY:
            return True
        with self._lock:
            return all(slot.failure is not None for slot in self._histories[:position])

    def latest_outcome(self, kind: SourceKind) -> Failure | bool | None:
        """Return True when the source's latest look at this job succeeded, its Failure, or None before any look."""
        with self._lock:
            slots = [slot for slot in self._slots(kind) if slot.tried]
            if not slots:
                return None
            if any(slot.failure is None for slot in slots):
                return True
            return slots[0].failure

    def _slots(self, kind: SourceKind) -> list[Slot]:
        return [*self._histories] if kind is SourceKind.HISTORY else [self._slot(kind, 0)]

    def view(self, now: float, stale_after: float, *, only_past: bool = False) -> JobView:
        """Return what is known now; what was last confirmed longer than `stale_after` seconds ago is left out.

        With `only_past` what a scheduler says of the present is hidden: `now` lies back, and it tells only of today.
        """
        with self._lock:
            observed: dict[SourceKind, float] = {}
            history = self._history_view(now, stale_after, observed)
            for kind, slot in self._others().items():
                if slot.observed is not None and slot.known(now, stale_after):
                    observed[kind] = slot.observed
            scheduler: SchedulerView | None = None
            if self._scheduler.digest is not None and SourceKind.SCHEDULER in observed:
                scheduler = self._scheduler.digest.view(now)
                scheduler = scheduler.as_of(now) if only_past and scheduler is not None else scheduler
            return JobView(
                job=self.job,
                history=history,
                checkpoints=self._checkpoints.listing if SourceKind.CHECKPOINTS in observed else None,
                scheduler=scheduler,
                trials=self._trials.summary if SourceKind.TRIALS in observed else None,
                log=self._log.facts if SourceKind.LOG in observed else None,
                configured=dict(self._configured),
                observed=observed,
                failures={
                    kind: tuple(slot.failure for slot in self._slots(kind) if slot.failure is not None)
                    for kind in self.sources()
                },
                awaits_scheduler=self._scheduler_is_unread
                and now - self._configured[SourceKind.SCHEDULER] <= stale_after,
            )

    @property
    def _scheduler_is_unread(self) -> bool:
        failure = self._scheduler.failure
        never = SourceKind.SCHEDULER in self._configured and self._scheduler.digest is None
        return never and (failure is None or not failure.is_answer)

    def sources(self) -> tuple[SourceKind, ...]:
        """The kinds of source that this job is asked of."""
        asked = []
        if self.job.scheduler and self.job.scheduler_job:
            asked.append(SourceKind.SCHEDULER)
        if self.job.history:
            asked.append(SourceKind.HISTORY)
        if self.job.checkpoints:
            asked.append(SourceKind.CHECKPOINTS)
        if self.job.trials is not None:
            asked.append(SourceKind.TRIALS)
        if asks_log(self.job):
            asked.append(SourceKind.LOG)
        return tuple(asked)

    def _history_view(self, now: float, stale_after: float, observed: dict[SourceKind, float]) -> HistoryView | None:
        chosen = self._chosen(now, stale_after)
        slot = self._histories[chosen] if chosen is not None else None
        if chosen is None or slot is None or slot.digest is None or slot.observed is None:
            return None
        observed[SourceKind.HISTORY] = slot.observed
        summary, rl_origin = slot.digest.summary(), ""
        before = self._rl_before(chosen, now, stale_after) if summary.rl is not None else None
        if summary.rl is not None and before is not None:
            position, told = before
            rl_origin = str(self.job.history[position]) if summary.rl.step is None else ""
            summary = replace(summary, rl=completed_by(summary.rl, told))
        return HistoryView(slot.run, summary, str(self.job.history[chosen]), rl_origin)

    def _rl_before(self, chosen: int, now: float, stale_after: float) -> tuple[int, RLSummary] | None:
        """Return what the most trusted history before the chosen one told last of RL, and which it is."""
        for position, slot in enumerate(self._histories[:chosen]):
            told = slot.digest.summary().rl if slot.digest is not None and slot.caught_up else None
            if told is not None and told.step is not None and slot.known(now, stale_after):
                return position, told
        return None

    def _chosen(self, now: float, stale_after: float) -> int | None:
        """Choose the first history that answers now; while none does, the one that answered last.

        A later history was last read when the ones before it failed: until it is read again, what an earlier one said
        since then is newer and stays.
        """
        usable = [
            (slot.observed, position)
            for position, slot in enumerate(self._histories)
            if slot.caught_up and slot.observed is not None and slot.known(now, stale_after)
        ]
        if not usable:
            return None
        newest = max(seen for seen, _ in usable)
        answering = [
            p
            for seen, p in usable
            if self._histories[p].failure is None and ((p == 0 and not self._histories[p].behind) or seen == newest)
        ]
        return answering[0] if answering else next(p for seen, p in usable if seen == newest)

    def failing(self, position: int) -> bool:
        """Whether the latest look at this history failed."""
        with self._lock:
            return self._histories[position].failure is not None

    @property
    def log_paths(self) -> tuple[str, ...]:
        """Where the scheduler says that the job's log is, in the order of its links."""
        with self._lock:
            view = self._scheduler.digest.view(math.inf) if self._scheduler.digest is not None else None
            return view.facts.log_paths if view is not None and view.facts is not None else ()

    @property
    def reading(self) -> bool:
        """Whether a first read goes on: rows were delivered, and more wait at the source."""
        with self._lock:
            return any(slot.reading for slot in self._histories)

    @property
    def may_have_ended(self) -> bool:
        """Whether a history or a scheduler is configured that was not tried yet: it may say that the run is over."""
        with self._lock:
            untried = bool(self._histories) and not any(slot.tried for slot in self._histories)
            return untried or (SourceKind.SCHEDULER in self.sources() and not self._scheduler.tried)

    @property
    def ended(self) -> bool:
        """Whether the history that is used says that the run ended, or the scheduler does.

        One that failed may be placed again by a scheduler that could not be read yet.
        """
        with self._lock:
            view = self._scheduler.digest.view(math.inf) if self._scheduler.digest is not None else None
            if view is not None and view.over is not None:
                return view.over
            chosen = self._chosen(math.inf, math.inf)
            end = self._histories[chosen].run.end if chosen is not None else None
            return end is not None and not (end is HistoryEnd.FAILED and self._scheduler_is_unread)

    def is_unfinished(self, kind: SourceKind, position: int) -> bool:
        """Whether this source was read without a failure, but never to its end: nothing of it is shown yet."""
        with self._lock:
            return self._slot(kind, position).is_unfinished

    @property
    def unfinished_sources(self) -> tuple[SourceKind, ...]:
        """The kinds of source of which nothing is shown, because no look at them came to the end."""
        with self._lock:
            slots = {kind: self._slots(kind) for kind in self.sources()}
            return tuple(
                kind
                for kind, found in slots.items()
                if any(slot.is_unfinished for slot in found) and all(slot.observed is None for slot in found)
            )

    def count_read(self, kind: SourceKind) -> int:
        """How many rows or results were read so far, to see whether a first read moves; 0 where none are counted."""
        with self._lock:
            if kind is not SourceKind.HISTORY:
                return self._trials.results_read if kind is SourceKind.TRIALS else 0
            digests = [digest for slot in self._histories for digest in (slot.digest, slot.coming)]
            return sum(digest.rows for digest in digests if digest is not None)
