"""The logs of all jobs: found, followed, and read once for both the history and the facts that are made from them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo

from runwatch.config.model import Config
from runwatch.facts import Failure, FailureReason, LogFacts
from runwatch.fleet import Job
from runwatch.found.places import named_log
from runwatch.parsing.benign import read_patterns, shipped_patterns
from runwatch.sources.file_roots import ANYWHERE, FileRoots
from runwatch.sources.job_log import JobLog
from runwatch.sources.log_files import LocalLogFiles, LogFiles
from runwatch.sources.log_follower import LogFollower, LogNews
from runwatch.sources.log_parsers import FailureParser, LogParsers, TrainerParser
from runwatch.sources.log_tails import Tail, TailFollower
from runwatch.sources.remote_log_files import RemoteLogFiles

LOOK_SECONDS = 25.0
"""How long one look at a job's logs may take, below the deadline of the sources that ask for it."""

_NO_PATH = (
    "the scheduler names no log of this job: not yet, or it forgot (`state_file` keeps such paths; "
    "`history: {log: PATH}` names one)"
)

LogPaths = Callable[[Job], Sequence[str]]
"""The paths that a job's scheduler gives, in the order of its links; empty while it gives none."""

LogTail = Callable[[Job, int], Tail | Failure | None]
"""At most so many of a job's newest log lines from its scheduler; None where the scheduler has no such call."""


Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Followed:
    """One job's log between two looks. `lock` lets the history and the facts look one after the other."""

    log: JobLog
    files: LogFollower
    tail: TailFollower
    looked_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class LogWatch:
    """Follows the logs of jobs. Different jobs may be looked at from different threads at a time.

    Args:
        config: sites and the user's benign lines.
        count_request: counts one request for a site.
        make_trainer: makes a parser of a trainer's log, one a file.
        make_failures: makes a parser of failures, one a file.
        log_paths: what the job's scheduler says of its log.
        log_tail: the scheduler's own call for the newest lines, where there is one.
        at: hide what was written after this time (Unix seconds).
        clock: the time now, Unix seconds.
        fresh_seconds: a tail that was fetched so short a time ago is not fetched again.
        roots: the folders that may be read.

    Raises:
        ConfigError: the user's benign lines cannot be used.
    """

    def __init__(
        self,
        config: Config,
        count_request: Callable[[str], None],
        *,
        make_trainer: Callable[[], TrainerParser],
        make_failures: Callable[[], FailureParser],
        log_paths: LogPaths,
        log_tail: LogTail | None = None,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        fresh_seconds: float = 5.0,
        roots: FileRoots = ANYWHERE,
    ) -> None:
        self._config = config
        self._count_request = count_request
        self._make_trainer = make_trainer
        self._make_failures = make_failures
        self._log_paths = log_paths
        self._log_tail = log_tail
        self._at = at
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._roots = roots
        own = read_patterns(config.benign_lines) if config.benign_lines is not None else ()
        self._benign = (*shipped_patterns(), *own)
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}

    def read(self, job: Job) -> LogFacts | Failure:
        """Look at a job's logs and return its facts: the `read` of the source `log`."""
        wants_rows = any(source.log is not None for source in job.history)

        def answer(log: JobLog) -> LogFacts:
            if not wants_rows:
                log.drop_rows()
            return log.facts()

        return self.look(job, answer, until_caught_up=True)

    def look(self, job: Job, answer: Callable[[JobLog], Answer], *, until_caught_up: bool) -> Answer | Failure:
        """Look at a job's logs and return what `answer` makes of them; no other look at the job runs meanwhile.

        Args:
            job: whose logs.
            answer: what is wanted of what was read.
            until_caught_up: read on until nothing waits or the time is over; else one portion.
        """
        with self._lock:
            followed = self._followed.get(job.run)
            if followed is None or followed.files.follows_any(job.rival_logs):
                # It has another job's log in it, which was found later: all is read again without that.
                followed = self._followed[job.run] = self._begin(job)
        with followed.lock:
            failure = self._look(job, followed, until_caught_up=until_caught_up)
            return failure if failure is not None else answer(followed.log)

    def forget(self, run: str) -> None:
        """Drop what is kept of a job's logs."""
        with self._lock:
            self._followed.pop(run, None)

    def _begin(self, job: Job) -> _Followed:
        parsers = LogParsers(
            self._make_trainer, self._make_failures, self._benign, self._zone(job.site), job.site, self._at
        )
        tail = TailFollower(f"log of {job.scheduler_job or job.run}", clock=self._clock)
        return _Followed(JobLog(parsers), LogFollower(self._files(job)), tail)

    def _look(self, job: Job, followed: _Followed, *, until_caught_up: bool) -> Failure | None:
        deadline = time.monotonic() + LOOK_SECONDS
        read_again = False
        while True:
            news = self._news(job, followed, deadline)
            if isinstance(news, Failure):
                return news
            if news is not None:
                followed.log.take(news)
            if followed.log.times_are_wrong and not read_again:
                read_again = True
                fresh = self._begin(job)
                followed.log, followed.files, followed.tail = fresh.log, fresh.files, fresh.tail
                continue
            if news is None or news.caught_up or not until_caught_up or time.monotonic() >= deadline:
                return None

    def _news(self, job: Job, followed: _Followed, deadline: float) -> LogNews | Failure | None:
        """Return what is new, None where it was looked at a moment ago."""
        configured = named_log(job.history)
        patterns = tuple(self._log_paths(job)) if configured is None else (configured,)
        if patterns:
            return followed.files.look(patterns, deadline, job.rival_logs)
        if self._log_tail is None:
            return Failure(FailureReason.NOT_FOUND, _NO_PATH)
        log_tail = self._log_tail
        now = time.monotonic()
        if followed.looked_at is not None and now - followed.looked_at < self._fresh_seconds:
            return None
        no_tail = Failure(FailureReason.NOT_FOUND, _NO_PATH)

        def fetch(lines: int) -> Tail | Failure:
            self._count_request(job.site)
            answer = log_tail(job, lines)
            return no_tail if answer is None else answer

        news = followed.tail.look(fetch)
        if not isinstance(news, Failure):
            followed.looked_at = now
        return news

    def _files(self, job: Job) -> LogFiles:
        site = self._config.sites.get(job.site)
        if site is not None and site.command_prefix:
            return RemoteLogFiles(site.command_prefix, lambda: self._count_request(job.site))
        # The config cannot name the folders of a scheduler's own paths. Where it sets no roots, a log is read in the
        # folder that the scheduler told, wherever that is.
        if named_log(job.history) is None and self._config.file_roots is None:
            return LocalLogFiles(None)
        return LocalLogFiles(self._roots)

    def _zone(self, site: str) -> tzinfo:
        known = self._config.sites.get(site)
        return ZoneInfo(known.timezone) if known is not None and known.timezone else UTC
