"""A source made of one blocking read a job, kept in bounds: however a read behaves, the poll ends in time.

A read that hangs costs its own job its news and its own site one slot; a read that fails is tried less often; what a
read brings that ends late is delivered at the next poll with its age: one that always takes longer than a poll would
never be heard else, and rows are read only once.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import TracebackType

from runwatch.facts import CheckpointListing, Failure, FailureReason, HistoryUpdate, LogFacts, SourceKind, TrialsUpdate
from runwatch.fleet import Job
from runwatch.sources.protocol import Deliver, Outcome

MAX_BACKOFF_SECONDS = 300.0

_BACKED_OFF = frozenset(
    {
        FailureReason.NETWORK,
        FailureReason.THROTTLED,
        FailureReason.TIMEOUT,
        FailureReason.AUTH,
        FailureReason.OTHER,
    }
)
"""Failures that another try would only repeat or worsen. A file that is missing or broken costs nothing to look at."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Look:
    """One read: running until `ended`, which only the polling thread sets. `returned` is when the reader was done."""

    job: Job
    begun: float
    future: Future[Outcome] = field(default_factory=Future)
    ended: bool = False
    forgotten: bool = False
    overdue: bool = False
    returned: float = 0.0


@dataclass(slots=True)
class _Trouble:
    """Consecutive failures of one job."""

    failure: Failure
    count: int
    retry_at: float


class _Rim:
    """Hands what leaves the block, an exception of any kind, to a future: the thread ends in silence."""

    def __init__(self, future: Future[Outcome]) -> None:
        self._future = future

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return True


class PerJobSource:
    """A `Source` around a function that reads one job.

    `read` is called in threads: for different jobs at a time, for one job never twice at a time. A `HistoryUpdate`
    that is not caught up has the job read again, in turn with the other jobs of its site, until the deadline.

    Args:
        kind: Which facts the source brings.
        read: Looks once at a job; may block. It returns a `Failure` rather than raise.
        deadline: Seconds within which `poll` returns, whatever `read` does.
        interval: Seconds between two polls, the first step of the backoff; 0 for none.
        in_flight_per_site: How many reads of one site's jobs may run at a time.
        forget: Is told of a job that is watched no more, once no read of it is running.
        close: Releases what `read` holds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        kind: SourceKind,
        read: Callable[[Job], Outcome],
        *,
        deadline: float,
        interval: float,
        in_flight_per_site: int = 8,
        forget: Callable[[str], None] | None = None,
        close: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if deadline <= 0 or interval < 0 or in_flight_per_site < 1:
            raise ValueError("deadline and in_flight_per_site must be positive, interval must not be negative")
        self.kind = kind
        self._read = read
        self._deadline = deadline
        self._interval = interval
        self._in_flight_per_site = in_flight_per_site
        self._forget_reader = forget
        self._close_reader = close
        self._clock = clock
        self._lock = threading.RLock()
        self._ended: queue.SimpleQueue[_Look | None] = queue.SimpleQueue()
        self._looks: dict[str, _Look] = {}
        self._slots_taken: Counter[str] = Counter()
        self._troubles: dict[str, _Trouble] = {}
        self._begun: dict[str, float] = {}
        self._left_over: frozenset[str] = frozenset()
        self._closed = False

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Look once at each job; see `Source.poll`. Outcomes are delivered from the calling thread."""
        _Poll(self, jobs, deliver).run()

    @property
    def left_over(self) -> frozenset[str]:
        """The jobs whose turn the last poll's end cut off, though their site does answer: another poll serves them."""
        return self._left_over

    def forget(self, run: str) -> None:
        """Drop what is kept for a job. A read of it that still runs is let run, and its result is dropped."""
        with self._lock:
            self._troubles.pop(run, None)
            self._begun.pop(run, None)
            look = self._looks.get(run)
            if look is not None and not look.future.done():
                look.forgotten = True
                return
            self._looks.pop(run, None)
        self._forget_read_job(run)

    def close(self) -> None:
        """Start no read any more, and release what the reader holds. Running reads do not keep the process alive."""
        self._closed = True
        self._ended.put(None)  # wakes a poll that waits
        if self._close_reader is not None:
            self._close_reader()

    def _forget_read_job(self, run: str) -> None:
        if self._forget_reader is not None:
            self._forget_reader(run)

    def _start(self, job: Job) -> None:
        look = _Look(job, self._clock())
        with self._lock:
            self._looks[job.run] = look
            self._begun[job.run] = look.begun
            self._slots_taken[job.site] += 1
        threading.Thread(target=self._run, args=(look,), name=f"read {self.kind}", daemon=True).start()

    def _run(self, look: _Look) -> None:
        with _Rim(look.future):
            outcome = self._read(look.job)
            look.returned = self._clock()
            look.future.set_result(outcome)
        self._ended.put(look)

    def _end(self, look: _Look) -> bool:
        """Give back the look's slot; say whether its job is still watched."""
        with self._lock:
            look.ended = True
            self._slots_taken[look.job.site] -= 1
            current = self._looks.get(look.job.run) is look
            if current and look.forgotten:
                del self._looks[look.job.run]
        if current and look.forgotten:
            self._forget_read_job(look.job.run)
        return current and not look.forgotten

    def _settle(self, look: _Look, started: float) -> Outcome:
        """Take the outcome of a look that has ended, and note success or trouble."""
        with self._lock:
            if self._looks.get(look.job.run) is look:
                del self._looks[look.job.run]
        error = look.future.exception()
        if error is not None:
            _log.error("reading %s of %s failed by a fault of its reader", self.kind, look.job.run, exc_info=error)
            outcome: Outcome = Failure(FailureReason.OTHER, f"the reader failed: {type(error).__name__}")
        else:
            outcome = look.future.result()
        if isinstance(outcome, Failure):
            self._note_trouble(look.job.run, outcome, started)
        else:
            self._troubles.pop(look.job.run, None)
        return outcome

    def _note_trouble(self, run: str, failure: Failure, started: float) -> None:
        """Put off the next try: as polls begin one interval apart, counted from their start and half one early."""
        if failure.reason not in _BACKED_OFF:
            self._troubles.pop(run, None)
            return
        before = self._troubles.get(run)
        count = 1 if before is None else before.count + 1
        wait = min(self._interval * 2.0 ** min(count - 1, 30), MAX_BACKOFF_SECONDS)
        self._troubles[run] = _Trouble(failure, count, started + wait - self._interval / 2)


class _Poll:
    """The course of one poll."""

    def __init__(self, source: PerJobSource, jobs: Sequence[Job], deliver: Deliver) -> None:
        self._source = source
        self._jobs = {job.run: job for job in jobs}
        self._deliver = deliver
        self._started = source._clock()
        self._waiting: dict[str, deque[Job]] = {}
        self._running: set[str] = set()
        self._answered: set[str] = set()
        self._begun_at: set[str] = set()

    def run(self) -> None:
        if self._source._closed:
            return
        self._collect_ended_since_last_poll()
        # Whose last look began longest ago goes first, or of a site that is never done with all its jobs in one poll
        # the same few would be read every time.
        for job in sorted(self._jobs.values(), key=lambda job: self._source._begun.get(job.run, -math.inf)):
            self._take_up(job)
        self._start_waiting()
        while self._running or any(self._waiting.values()):
            remaining = self._started + self._source._deadline - self._source._clock()
            if remaining <= 0:
                break
            try:
                look = self._source._ended.get(timeout=remaining)
            except queue.Empty:
                break
            if look is None:
                return
            self._take_ended(look)
            self._start_waiting()
        self._report_unanswered()

    def _collect_ended_since_last_poll(self) -> None:
        while True:
            try:
                look = self._source._ended.get_nowait()
            except queue.Empty:
                return
            if look is not None:
                self._source._end(look)

    def _take_up(self, job: Job) -> None:
        source = self._source
        look = source._looks.get(job.run)
        if look is not None and not look.ended:
            self._running.add(job.run)
            return
        if look is not None and not self._take_late(job, look):
            return
        trouble = source._troubles.get(job.run)
        if trouble is not None and self._started < trouble.retry_at:
            self._answer(job, trouble.failure)
            return
        self._wait(job)

    def _take_late(self, job: Job, look: _Look) -> bool:
        """Use what was read between the polls; say whether the job is to be read now."""
        outcome = self._source._settle(look, self._started)
        if isinstance(outcome, Failure) and outcome.reason in _BACKED_OFF:
            self._answer(job, outcome)
            return False
        # It tells of when it was read: what was made since is not missing, and what was made while a listing went on
        # may not be in it.
        if isinstance(outcome, HistoryUpdate):
            self._answer(job, replace(outcome, age=max(self._started - look.returned, 0.0)))
        elif isinstance(outcome, CheckpointListing | TrialsUpdate | LogFacts):
            self._answer(job, replace(outcome, age=max(self._started - look.begun, 0.0)))
        return True

    def _take_ended(self, look: _Look) -> None:
        run = look.job.run
        watched = self._source._end(look)
        self._running.discard(run)
        job = self._jobs.get(run)
        if job is None:
            return  # not asked for now: a watched job's outcome is kept for the poll that asks for it
        if not watched:
            self._wait(job)  # it was forgotten and is back
            return
        outcome = self._source._settle(look, self._started)
        self._answer(job, outcome)
        if isinstance(outcome, HistoryUpdate | TrialsUpdate | LogFacts) and not outcome.caught_up:
            self._wait(job)

    def _wait(self, job: Job) -> None:
        self._waiting.setdefault(job.site, deque()).append(job)

    def _start_waiting(self) -> None:
        source = self._source
        if source._closed or source._clock() >= self._started + source._deadline:
            return
        for site, jobs in self._waiting.items():
            while jobs and source._slots_taken[site] < source._in_flight_per_site:
                job = jobs.popleft()
                self._running.add(job.run)
                self._begun_at.add(site)
                source._start(job)

    def _report_unanswered(self) -> None:
        """Say of each job without any outcome why there is none. One that had a page of its history has answered."""
        source = self._source
        left_over = {job.run for site in self._begun_at for job in self._waiting.get(site, ())}
        for run, job in self._jobs.items():
            if run in self._answered:
                continue
            if run not in self._running:
                self._answer(job, Failure(FailureReason.TIMEOUT, f"waited for a free slot of site {job.site}"))
                continue
            hung = Failure(FailureReason.TIMEOUT, f"no answer within {source._deadline:g} s")
            look = source._looks.get(run)
            if source._begun.get(run, self._started) > self._started + source._deadline / 2:
                source._begun.pop(run)  # cut short by the others before it, it has not had its turn
                left_over.add(run)
            if look is not None and not look.overdue:
                look.overdue = True  # a read that hangs through many polls is one failure
                source._note_trouble(run, hung, self._started)
            self._answer(job, hung)
        source._left_over = frozenset(left_over)

    def _answer(self, job: Job, outcome: Outcome) -> None:
        self._answered.add(job.run)
        self._deliver(job, outcome)
