"""One poll of W&B: sends what is due, in few requests, and gives each run its outcome before the deadline."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason, HistoryUpdate
from runwatch.fleet import Job
from runwatch.sources.protocol import CountRequest, Deliver
from runwatch.sources.wandb_budget import Backoff, RequestBudget, budget_spent
from runwatch.sources.wandb_listing import LISTED_AT_ONCE, listing_answers, listing_document, worth_listing
from runwatch.sources.wandb_requests import (
    VIEWER_DOCUMENT,
    Ask,
    GraphqlAnswer,
    GraphqlClient,
    Refusal,
    RunAnswer,
    runs_answers,
    runs_document,
)
from runwatch.sources.wandb_watched import WatchedRun

RUNS_A_REQUEST = 20
ROWS_A_REQUEST = 10_000
IN_FLIGHT = 4
LONGEST_REQUEST_SECONDS = 10.0
_FULL_ONES_BEFORE_GROWING = 30
_SOURCE_WIDE = frozenset({FailureReason.AUTH, FailureReason.THROTTLED, FailureReason.NETWORK})


@dataclass(slots=True)
class BatchSize:
    """How many runs share a request: halved when the server refuses the whole but answers both halves."""

    runs: int = RUNS_A_REQUEST
    full_ones: int = 0

    def answered(self, runs: int) -> None:
        """Note a request that was answered; after many full ones, larger ones are tried again."""
        if runs < self.runs or self.runs == RUNS_A_REQUEST:
            return
        self.full_ones += 1
        if self.full_ones >= _FULL_ONES_BEFORE_GROWING:
            self.runs, self.full_ones = min(RUNS_A_REQUEST, self.runs * 2), 0

    def too_large(self, half: int) -> None:
        """Note that a request was refused whose halves were answered."""
        self.runs, self.full_ones = max(1, min(self.runs, half)), 0


@dataclass(slots=True)
class Turn:
    """One job's turn in this poll."""

    job: Job
    run: WatchedRun
    done: bool = False
    progressed: bool = False
    export_due: bool = False


@dataclass(slots=True)
class Work:
    """One request. `asks` is empty for a listing and for a probe (which has no turns either)."""

    turns: list[Turn]
    asks: list[Ask] = field(default_factory=list)
    halves_of: list[bool] | None = None
    sent: float = 0.0

    @property
    def is_listing(self) -> bool:
        return bool(self.turns) and not self.asks


@dataclass(slots=True)
class Upstream:
    """What polls share, and what outlives them."""

    graphql: GraphqlClient
    threads: ThreadPoolExecutor
    budget: RequestBudget
    requests_per_minute: int
    service: Backoff
    count_request: CountRequest
    batch: BatchSize = field(default_factory=BatchSize)
    long_read_is_next: bool = False
    progress: Callable[[str], None] | None = None


class Poll:
    """State of one poll. Requests run in threads; everything else happens in the caller's thread.

    Args:
        upstream: What polls share.
        key: The API key.
        turns: The jobs, those that waited longest first.
        deliver: Takes outcomes.
        until: `time.monotonic()` of the deadline.
        request_seconds: The most that one request may take: short of the deadline, so that others can follow.
    """

    def __init__(
        self,
        upstream: Upstream,
        key: str,
        turns: Sequence[Turn],
        deliver: Deliver,
        *,
        until: float,
        request_seconds: float,
    ) -> None:
        self._upstream, self._key, self._turns, self._deliver, self._until = upstream, key, turns, deliver, until
        self._request_seconds = min(LONGEST_REQUEST_SECONDS, request_seconds)
        self._queue: deque[Work] = deque()
        self._ready: deque[Turn] = deque()
        self._long: deque[Turn] = deque()
        self._flying: dict[Future[GraphqlAnswer | Refusal], Work] = {}
        self._held: list[tuple[Work, Refusal]] = []
        self._probed = False
        self._alive = False
        self._starved = False
        self.stopped: Failure | None = None

    def run(self) -> None:
        """Do the poll; every turn has its outcome when this returns."""
        self._plan()
        while time.monotonic() < self._until:
            wait_for_budget = self._send_what_may_go()
            if not self._flying and wait_for_budget is None:
                break
            left = self._until - time.monotonic()
            if not self._flying and wait_for_budget is not None and wait_for_budget > left:
                break
            pause = left if wait_for_budget is None else min(left, wait_for_budget)
            if self._flying:
                landed, _ = wait(self._flying, timeout=max(0.0, pause), return_when=FIRST_COMPLETED)
            else:
                time.sleep(max(0.0, pause))
                landed = set()
            for future in landed:
                self._landed(self._flying.pop(future), future.result())
        for future in self._flying:
            future.cancel()
        self._finish()

    def _plan(self) -> None:
        by_project: dict[tuple[str, str], list[Turn]] = {}
        for turn in self._turns:
            early = turn.run.backoff.now()
            if early is not None:
                self._end(turn, early)
            elif turn.run.last is None or not turn.run.complete:
                self._make_ready(turn)
            else:
                by_project.setdefault((turn.run.path.entity, turn.run.path.project), []).append(turn)
        for turns in by_project.values():
            if worth_listing([turn.run.over for turn in turns]):
                for start in range(0, len(turns), LISTED_AT_ONCE):
                    self._queue.append(Work(turns[start : start + LISTED_AT_ONCE]))
            else:
                for turn in turns:
                    self._make_ready(turn)
        self._ready = deque(sorted(self._ready, key=_served_at))
        self._long = deque(sorted(self._long, key=_served_at))

    def _make_ready(self, turn: Turn) -> None:
        """Let a run wait for its request: apart from the others where it needs one for itself."""
        (self._long if turn.run.needs_own_request else self._ready).append(turn)

    def _next_work(self) -> Work | None:
        """Take what goes next: by turns a page of a long read (or a run that broke a request) and what many runs share.

        Neither waits for the end of the other: long reads take hours at a small budget, and meanwhile those that are
        read must stay observed.
        """
        is_long = bool(self._long) and (self._upstream.long_read_is_next or not (self._queue or self._ready))
        self._upstream.long_read_is_next = not is_long
        if is_long:
            return self._work_from(self._long)
        if self._queue and not self._ready_waited_longer(self._queue[0]):
            return self._queue.popleft()
        return self._work_from(self._ready)

    def _work_from(self, waiting: deque[Turn]) -> Work | None:
        turns: list[Turn] = []
        rows = 0
        while waiting and len(turns) < self._upstream.batch.runs:
            samples = waiting[0].run.ask().samples
            if turns and (rows + samples > ROWS_A_REQUEST or waiting[0].run.alone):
                break
            turns.append(waiting.popleft())
            rows += samples
            if turns[0].run.alone:
                break
        return Work(turns, [turn.run.ask() for turn in turns]) if turns else None

    def _ready_waited_longer(self, work: Work) -> bool:
        """Whether a small budget should go to a run that waits rather than to a listing of runs that were served."""
        if not work.is_listing or not self._ready:
            return False
        return self._ready[0].run.served_at < min(turn.run.served_at for turn in work.turns)

    def _send_what_may_go(self) -> float | None:
        """Send what the limit in flight allows; returns seconds until the budget allows more, if that hinders."""
        self._starved = False
        while self.stopped is None and len(self._flying) < IN_FLIGHT and (self._queue or self._ready or self._long):
            if not self._upstream.budget.take():
                self._starved = True
                return self._upstream.budget.seconds_until_next() + 0.001
            work = self._next_work()
            if work is not None:
                self._send(work)
        return None

    def _send(self, work: Work) -> None:
        document, variables = VIEWER_DOCUMENT, dict[str, object]()
        if work.asks:
            document, variables = runs_document(work.asks)
        elif work.turns:
            document, variables = listing_document([turn.run.path for turn in work.turns])
        work.sent = time.monotonic()
        seconds = min(self._request_seconds, self._until - work.sent)
        self._upstream.count_request((work.turns or self._turns)[0].job.site)
        execute = self._upstream.graphql.execute
        self._flying[self._upstream.threads.submit(execute, document, variables, self._key, seconds)] = work

    def _landed(self, work: Work, answer: GraphqlAnswer | Refusal) -> None:
        if isinstance(answer, Refusal):
            cut_short = answer.status is None and answer.failure.reason is FailureReason.TIMEOUT
            if not cut_short or self._is_suspect(work):
                self._refused(work, answer)
            return
        self._alive = True
        self._release()
        if work.is_listing:
            listed = listing_answers(answer)
            for turn in work.turns:
                seen = listed.get(turn.run.path.name)
                outcome = turn.run.nothing_new(seen) if seen is not None else None
                if outcome is None:
                    self._make_ready(turn)
                else:
                    turn.run.served_at = time.monotonic()
                    self._end(turn, outcome)
            return
        for turn, ask, found in zip(work.turns, work.asks, runs_answers(work.asks, answer), strict=False):
            self._take(turn, ask, found)
        if work.halves_of is None:
            self._upstream.batch.answered(len(work.asks))
            return
        work.halves_of.append(True)
        if len(work.halves_of) == 2:
            self._upstream.batch.too_large(len(work.turns))

    def _take(self, turn: Turn, ask: Ask, found: RunAnswer | Failure) -> None:
        if turn.done:
            return
        turn.run.served_at = time.monotonic()
        if isinstance(found, Failure):
            if found.reason is not FailureReason.NOT_FOUND:
                turn.run.backoff.failed(found)
            self._end(turn, found)
            return
        taken = turn.run.take(ask, found)
        if not taken.more and not turn.run.needs_export:
            if taken.outcome is not None:
                self._end(turn, taken.outcome)
            return
        if taken.outcome is not None:
            self._deliver(turn.job, taken.outcome)
            turn.progressed = True
            if isinstance(taken.outcome, Failure):
                turn.done = True
                return
        self._tell(turn)
        if taken.more:
            self._make_ready(turn)
        else:
            turn.export_due = True

    def _tell(self, turn: Turn) -> None:
        reader = turn.run.reader
        if self._upstream.progress is None or reader.rows_read == 0:
            return
        whole = f" of about {reader.line_count:,}" if reader.line_count is not None else ""
        self._upstream.progress(f"{turn.job.run}: {reader.rows_read:,}{whole} rows read from W&B")

    def _refused(self, work: Work, refusal: Refusal) -> None:
        if refusal.failure.reason in _SOURCE_WIDE or not work.turns or len(self._turns) == 1:
            self._outage(refusal)
        elif self._alive:
            self._halve(work, refusal)
        else:
            self._held.append((work, refusal))
            self._probe()

    def _probe(self) -> None:
        """Ask something that concerns no run: tells a broken service from a broken run."""
        if self._probed:
            return
        self._probed = True
        if self._upstream.budget.take():
            self._send(Work([]))
        else:
            self._outage(self._held[0][1])

    def _release(self) -> None:
        held, self._held = self._held, []
        for work, refusal in held:
            self._halve(work, refusal)

    def _halve(self, work: Work, refusal: Refusal) -> None:
        if work.is_listing:
            for turn in work.turns:
                self._make_ready(turn)
            return
        waiting = [turn for turn in work.turns if not turn.done]
        if len(waiting) == 1:
            waiting[0].run.alone = True
            waiting[0].run.backoff.failed(refusal.failure)
            self._end(waiting[0], refusal.failure)
            return
        middle = (len(waiting) + 1) // 2
        answered: list[bool] = []
        for half in (waiting[:middle], waiting[middle:]):
            if half:
                self._queue.append(Work(half, [turn.run.ask() for turn in half], answered))

    def _outage(self, refusal: Refusal) -> None:
        if self.stopped is None:
            self.stopped = refusal.failure
            self._upstream.service.failed(refusal.failure, refusal.retry_after)
        self._queue.clear()
        self._ready.clear()
        self._long.clear()
        self._held.clear()

    def _end(self, turn: Turn, outcome: HistoryUpdate | Failure) -> None:
        turn.done = True
        self._deliver(turn.job, outcome)

    def _finish(self) -> None:
        if self.stopped is None and self._alive:
            self._upstream.service.succeeded()
        in_flight = {id(turn): self._is_suspect(work) for work in self._flying.values() for turn in work.turns}
        in_flight |= {id(turn): True for work, _refusal in self._held for turn in work.turns}
        late = Failure(FailureReason.TIMEOUT, "no answer from W&B before the poll's deadline")
        for turn in self._turns:
            if turn.done or (turn.export_due and self.stopped is None):
                continue
            if self.stopped is not None:
                self._end(turn, self.stopped)
            elif in_flight.get(id(turn)):
                # Asked alone next time: it must not hold up the others again.
                turn.run.alone = self._alive
                self._end(turn, late)
            elif not turn.progressed:
                self._end(turn, budget_spent(self._upstream.requests_per_minute) if self._starved else late)

    def _is_suspect(self, work: Work) -> bool:
        """Whether one of its runs may be why there is no answer: not where the poll's end only cut it short."""
        return work.halves_of is not None or time.monotonic() - work.sent >= self._request_seconds


def _served_at(turn: Turn) -> float:
    return turn.run.served_at
