"""History from W&B's service: every logged row, exactly once, for as few requests as possible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import wandb

from runwatch.config.model import WandbSettings
from runwatch.facts import Failure, FailureReason, HistoryRow, SourceKind
from runwatch.fleet import Job
from runwatch.parsing.history_rows import MalformedRow, parse_row
from runwatch.sources.protocol import CountRequest, Deliver, FoundRun, Outcome
from runwatch.sources.wandb_budget import Backoff, RequestBudget, budget_spent
from runwatch.sources.wandb_listing import list_project, split_project
from runwatch.sources.wandb_login import WandbLogin
from runwatch.sources.wandb_poll import IN_FLIGHT, Poll, Turn, Upstream
from runwatch.sources.wandb_ranges import ServerPages
from runwatch.sources.wandb_requests import GraphqlClient, Refusal, RunPath
from runwatch.sources.wandb_runs import page_address
from runwatch.sources.wandb_watched import WatchedRun

_RUN_BACKOFF_FIRST_SECONDS = 60.0
_RUN_BACKOFF_LONGEST_SECONDS = 1800.0


class WandbHistory:
    """The histories of runs that W&B keeps: a `Source`.

    A steady poll costs at most one request a running run, mostly far fewer: runs share requests, and a project of
    which several runs are watched is listed first, so that runs without new rows are not asked at all. Long histories
    are delivered page by page and may take several polls.

    Args:
        settings: Where W&B is, where the key is, and how many requests a minute all jobs may make together.
        count_request: Told of every request; one that several jobs share counts for the site of one of them.
        at: Hide everything recorded after this time (Unix seconds); None for now.
        clock: Unix seconds.
        deadline_seconds: How long a poll, or one discovery, may take.
        progress: Takes one line for people now and then during a long read.
    """

    kind = SourceKind.HISTORY

    def __init__(
        self,
        settings: WandbSettings,
        count_request: CountRequest,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        deadline_seconds: float = 30.0,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._settings, self._at, self._clock, self._deadline_seconds = settings, at, clock, deadline_seconds
        self._page_url = page_address(settings.base_url)
        self._pages = ServerPages()
        self._watched: dict[str, WatchedRun] = {}
        self._lock = threading.Lock()
        graphql = GraphqlClient(settings.base_url, clock, IN_FLIGHT)
        self._upstream = Upstream(
            graphql=graphql,
            threads=ThreadPoolExecutor(max_workers=IN_FLIGHT, thread_name_prefix="wandb-request"),
            budget=RequestBudget(settings.requests_per_minute, clock),
            requests_per_minute=settings.requests_per_minute,
            service=Backoff(clock),
            count_request=count_request,
            progress=progress,
        )
        self._site = "none"
        self._login = WandbLogin(settings, graphql, clock, self._may_send)

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Look once at each job that names a W&B run (see `Source.poll`); others are left alone."""
        with self._lock:
            until = time.monotonic() + self._deadline_seconds
            turns = self._turns(jobs, deliver)
            if not turns:
                return
            key = self._key(turns[0].job.site)
            if isinstance(key, Failure):
                for turn in turns:
                    deliver(turn.job, key)
                return
            poll = Poll(self._upstream, key, turns, deliver, until=until, request_seconds=self._deadline_seconds / 3)
            poll.run()
            if poll.stopped is not None:
                self._login.doubt(poll.stopped)
            for turn in turns:
                if not turn.done and turn.export_due:
                    deliver(turn.job, self._read_export(key, turn, until))

    def discover(
        self, project_path: str, state: str | None, *, site: str = "none", active_since: float | None = None
    ) -> list[FoundRun] | Failure:
        """List the runs of a project; see `FindsRuns`."""
        names = split_project(project_path)
        if isinstance(names, Failure):
            return names
        if not self._lock.acquire(timeout=self._deadline_seconds):
            return Failure(FailureReason.TIMEOUT, "a poll of W&B took all the time")
        try:
            until = time.monotonic() + self._deadline_seconds
            key = self._key(site, fresh=True)
            if isinstance(key, Failure):
                return key
            spent = self._may_send()
            if spent is not None:
                return spent
            entity, project = names
            found = self._login.call(
                key, lambda api: list_project(api, entity, project, state, active_since), until - time.monotonic()
            )
            if self._at is None or isinstance(found, Failure):
                return found
            return [run for run in found if run.created is None or run.created <= self._at]
        finally:
            self._lock.release()

    def forget(self, run: str) -> None:
        """Drop what is kept for a job that is watched no more."""
        self._watched.pop(run, None)

    def close(self) -> None:
        """End threads, connections and the client's process."""
        self._upstream.threads.shutdown(wait=True, cancel_futures=True)
        self._upstream.graphql.close()
        self._login.close()

    def _turns(self, jobs: Sequence[Job], deliver: Deliver) -> list[Turn]:
        turns = []
        for job in jobs:
            text = next((source.wandb for source in job.history if source.wandb is not None), None)
            if text is None:
                continue
            path = RunPath.parse(text)
            if path is None:
                deliver(job, Failure(FailureReason.OTHER, f"expected entity/project/run_id, got {text!r}"))
                continue
            run = self._watch(job.run, path)
            run.begin_poll()
            turns.append(Turn(job, run))
        return sorted(turns, key=lambda turn: turn.run.served_at)

    def _watch(self, name: str, path: RunPath) -> WatchedRun:
        known = self._watched.get(name)
        if known is not None and known.path == path:
            return known
        backoff = Backoff(self._clock, _RUN_BACKOFF_FIRST_SECONDS, _RUN_BACKOFF_LONGEST_SECONDS)
        fresh = WatchedRun(path, self._page_url, self._pages, backoff, self._at, replaces=known is not None)
        self._watched[name] = fresh
        return fresh

    def _may_send(self) -> Failure | None:
        if not self._upstream.budget.take():
            return budget_spent(self._settings.requests_per_minute)
        self._upstream.count_request(self._site)
        return None

    def _key(self, site: str, *, fresh: bool = False) -> str | Failure:
        """The key, unless W&B failed a moment ago or fails now."""
        self._site = site
        early = self._upstream.service.now()
        if early is not None:
            return early
        key = self._login.key(self._deadline_seconds / 3, fresh=fresh)
        if isinstance(key, Refusal):
            self._upstream.service.failed(key.failure, key.retry_after)
            return key.failure
        return key

    def _read_export(self, key: str, turn: Turn, until: float) -> Outcome:
        """Read the whole history through the real client, which also reads what W&B exported to files."""
        run, reader = turn.run, turn.run.reader
        if run.exported is None:
            spent = self._may_send()
            if spent is not None:
                return spent

            def read(api: wandb.Api) -> None:
                rows = read_everything(api, str(run.path))
                # Kept also when nobody waits any more, unless the run was made anew meanwhile.
                if run.reader is reader:
                    run.exported = rows

            failure = self._login.call(key, read, until - time.monotonic())
            if failure is not None:
                return failure
        return run.take_export(run.exported or [])


def read_everything(api: wandb.Api, path: str) -> list[HistoryRow]:
    """Every row of a run by the client's own scan; raises whatever the client raises.

    The client's cache of exported files is not used: it was seen to hide rows after a second export.
    """
    rows = []
    for mapping in api.run(path).scan_history(use_cache=False):
        try:
            rows.append(parse_row(mapping))
        except MalformedRow:
            # Without a step it has no place among the others; the raw read counted it.
            continue
    return rows
