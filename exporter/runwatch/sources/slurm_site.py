"""A look at one SLURM site: one squeue for all its jobs, and the further questions that its answer gives rise to."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason
from runwatch.figures import duration
from runwatch.parsing.slurm_text import AccountingRow, JobDetail, QueueRecord
from runwatch.parsing.slurm_times import zone_error
from runwatch.sources.slurm_commands import SlurmCommands
from runwatch.sources.slurm_log_paths import PATHS_A_CALL, LogQuestion, find_logs
from runwatch.sources.slurm_memory import LinkMemory, TaskMemory
from runwatch.sources.slurm_queries import IDS_A_CALL, NoAccounting, SlurmQueries

_log = logging.getLogger(__name__)

_ONE_BY_ONE = 8
"""Up to so many jobs scontrol is asked one by one; of more, for all jobs in one call."""

_LOG_RETRY_SECONDS = 60.0
_LONGEST_LOG_RETRY_SECONDS = 900.0
_NO_ACCOUNTING_RETRY_SECONDS = 600.0
_SLOW_SEARCH_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Listing:
    """What one squeue showed, by job id and by name; `time` is Unix seconds."""

    time: float
    by_id: dict[str, list[QueueRecord]]
    by_name: dict[str, set[str]]
    malformed: int = 0


@dataclass(slots=True)
class _LogTries:
    """How often a log was looked for in vain, and when it is looked for next."""

    count: int = 0
    next_at: float = 0.0


@dataclass(slots=True)
class SlurmSite:
    """What is known of the watched jobs of a site. `accounting` is why sacct's last answer was none, None if it was;
    `accounting_malformed` how many of its records could not be read; `search` is why the last search for a name failed.

    `version` counts how often anything became known: what was made of it is good as long as it stays the same.
    """

    name: str
    queries: SlurmQueries
    commands: SlurmCommands
    monotonic: Callable[[], float] = time.monotonic
    links: dict[str, LinkMemory] = field(default_factory=dict)
    listing: Listing | None = None
    accounting: Failure | NoAccounting | None = None
    accounting_malformed: int = 0
    search: Failure | None = None
    version: int = 0
    _accounting_asked_at: float = 0.0
    _search_at: float = -math.inf
    _said: dict[str, str] = field(default_factory=dict)
    _log_tries: dict[str, _LogTries] = field(default_factory=dict)

    @property
    def no_accounting(self) -> str:
        """Why the site cannot tell of jobs that squeue shows no more; "" where it can."""
        return self.accounting.detail if isinstance(self.accounting, NoAccounting) else ""

    def look(self, now: float, seconds: float) -> Failure | None:
        """Ask squeue, and take in what it says of the jobs that are kept."""
        if self.listing is not None and now < self.listing.time:
            self._wait_for_nothing()
        answer = self.queries.queue(now, seconds)
        if isinstance(answer, Failure):
            return answer
        records, malformed = answer
        by_id: dict[str, list[QueueRecord]] = {}
        by_name: dict[str, set[str]] = {}
        for record in records:
            by_id.setdefault(record.id.base, []).append(record)
            by_name.setdefault(record.name, set()).add(record.id.base)
        self._say("squeue", _unread_text("squeue", malformed))
        offsets = [record.start_offset for record in records if record.start_offset is not None]
        self._say("timezone", _zone_text(zone_error(offsets)))
        self.listing = Listing(now, by_id, by_name, malformed)
        self.version += 1
        for job, link in self.links.items():
            link.see(by_id.get(job, ()))
        return None

    def _wait_for_nothing(self) -> None:
        """Let no question wait for a time of the clock as it was before it was set back."""
        self._accounting_asked_at = self._search_at = -math.inf
        self._log_tries.clear()
        for link in self.links.values():
            link.retry_at = 0.0

    def keep(self, job: str) -> LinkMemory:
        """Return what is kept of a job, from now on if it was not before."""
        link = self.links.get(job)
        if link is None:
            self.version += 1
            link = self.links[job] = LinkMemory(job)
            if self.listing is not None:
                link.see(self.listing.by_id.get(job, ()))
        return link

    def may_ask_accounting(self, now: float) -> bool:
        """Whether sacct is worth asking: once in a poll where it fails, now and then where there is no accounting."""
        if isinstance(self.accounting, NoAccounting):
            return now >= self._accounting_asked_at + _NO_ACCOUNTING_RETRY_SECONDS
        return self.accounting is None or now > self._accounting_asked_at

    def ask_accounting(self, jobs: Collection[str], now: float, until: float) -> None:
        """Ask sacct for those of the jobs that have something to ask, until the time is over (monotonic seconds)."""
        due = [job for job in sorted(jobs, key=int) if self._is_due(job, now)]
        for first in range(0, len(due), IDS_A_CALL):
            batch = due[first : first + IDS_A_CALL]
            if not self.may_ask_accounting(now) or not self._answered(
                self.queries.accounting(batch, now, until - self.monotonic()), batch, now
            ):
                return

    def _is_due(self, job: str, now: float) -> bool:
        link = self.keep(job)
        return link.asks_accounting and link.retry_at <= now

    def search_names(self, names: Sequence[str], now: float, until: float) -> set[str]:
        """Ask sacct for all jobs with these names; return the names for which it answered, or never can.

        A search is the larger question, and may fail where one by id does not: it is no word on accounting as a whole.
        """
        askable = [name for name in names if self.queries.may_search(name)]
        done = set(names) - set(askable)
        for first in range(0, len(askable), IDS_A_CALL):
            batch = askable[first : first + IDS_A_CALL]
            if not self.may_ask_accounting(now):
                return done | set(askable) if self.no_accounting else done
            if now < self._search_at:
                return done
            answer = self.queries.accounting_of_names(batch, now, until - self.monotonic())
            self.search = answer if isinstance(answer, Failure) else None
            self._say("sacct, asked for names", "" if self.search is None else self.search.detail)
            if self.search is not None:
                is_slow = self.search.reason is FailureReason.TIMEOUT
                self._search_at = now + (_SLOW_SEARCH_RETRY_SECONDS if is_slow else 1.0)  # not in this poll again
                return done
            if not self._answered(answer, (), now):
                return done
            done |= set(batch)
        return done

    def _answered(
        self, answer: tuple[list[AccountingRow], int] | Failure | NoAccounting, asked: Collection[str], now: float
    ) -> bool:
        self.version += 1
        if isinstance(answer, Failure | NoAccounting):
            self.accounting = answer
            self._accounting_asked_at = now
            self._say("sacct", answer.detail)
            return False
        rows, malformed = answer
        self.accounting, self.accounting_malformed = None, malformed
        self._say("sacct", _unread_text("sacct", malformed))
        # Of a job that an answer which is not whole leaves out, it does not say that there is none.
        by_job: dict[str, list[AccountingRow]] = {} if malformed else {job: [] for job in asked}
        for row in rows:
            by_job.setdefault(row.id.base, []).append(row)
        for job, of_job in by_job.items():
            self.keep(job).account(of_job, now, whole=job in asked)
        return True

    def ask_details(self, jobs: Collection[str], until: float) -> None:
        """Ask scontrol for the jobs whose log path or exit code is not known, until the time is over."""
        wanting = [job for job in jobs if any(task.wants_detail for task in self.links[job].tasks.values())]
        if len(wanting) > _ONE_BY_ONE:
            details = self.queries.detail(None, until - self.monotonic())
            if isinstance(details, Failure):
                self._say("scontrol", details.detail)
                return
            self._keep_details(wanting, details)
            # Those that two blocks of the whole listing claimed to be are asked for alone.
            wanting = [job for job in wanting if all(task.detail is None for task in self.links[job].tasks.values())]
        for job in wanting[:_ONE_BY_ONE]:
            details = self.queries.detail(job, until - self.monotonic())
            if isinstance(details, Failure):
                self._say("scontrol", details.detail)
                return
            self._keep_details([job], details)

    def _keep_details(self, jobs: Collection[str], details: dict[str, JobDetail]) -> None:
        self.version += 1
        for job in jobs:
            for key, task in self.links[job].tasks.items():
                if not task.wants_detail:
                    continue
                task.detail_tries += 1
                found = details.get(key)
                if found is not None:
                    task.detail = found

    def look_for_logs(self, jobs: Collection[str], now: float, until: float) -> None:
        """Look where the logs of started jobs are that were not seen yet, until the time is over."""
        questions = [question for job in jobs for question in self._unseen_logs(job, now)]
        for first in range(0, len(questions), PATHS_A_CALL):
            batch = questions[first : first + PATHS_A_CALL]
            found = find_logs(self.commands, batch, until - self.monotonic())
            if isinstance(found, Failure):
                self._say("ls", found.detail)
                return
            for question in batch:
                path = found.get(question.key)
                if path is not None:
                    self.links[question.job].tasks[question.key].found_log = path
                if path is not None and path == question.path:
                    self._log_tries.pop(question.key, None)
                    continue
                tries = self._log_tries.setdefault(question.key, _LogTries())
                tries.next_at = now + min(_LONGEST_LOG_RETRY_SECONDS, _LOG_RETRY_SECONDS * 2.0**tries.count)
                tries.count += 1

    def _unseen_logs(self, job: str, now: float) -> list[LogQuestion]:
        link = self.links[job]
        return [
            LogQuestion(key, job, link.name, "" if task.detail is None else task.detail.log_path, link.workdir)
            for key, task in link.tasks.items()
            if self._wants_log(task) and self._log_tries.get(key, _LogTries()).next_at <= now
        ]

    @staticmethod
    def _wants_log(task: TaskMemory) -> bool:
        """Whether a started task's log was not seen yet at the path that the scheduler gives."""
        if not task.visible and not task.rows:
            return False
        if not any(row.started for row in task.rows) and (task.queue is None or not task.queue.started):
            return False
        if task.detail is None:
            return not task.found_log
        return task.detail.log_path not in {"", task.found_log}

    def forget_all_but(self, jobs: Collection[str]) -> None:
        """Drop what is kept of jobs that no watched run has to do with."""
        for job in [job for job in self.links if job not in jobs]:
            for key in self.links.pop(job).tasks:
                self._log_tries.pop(key, None)

    def unread(self) -> Failure | None:
        """Why accounting could not be asked for now, None where it answered or there is none."""
        return self.accounting if isinstance(self.accounting, Failure) else None

    def _say(self, what: str, detail: str) -> None:
        """Log what went wrong beside squeue, once for each new text."""
        if detail and self._said.get(what) != detail:
            _log.warning("site %s: %s", self.name, detail)
        self._said[what] = detail


def _unread_text(program: str, malformed: int) -> str:
    return f"{program} printed {malformed} records that could not be read" if malformed else ""


def _zone_text(ahead: float | None) -> str:
    """Say that the times are in another zone: then no age, gap or interruption of the site's jobs is right."""
    if ahead is None:
        return ""
    told = f"{duration(abs(ahead))} {'later' if ahead > 0 else 'earlier'}"
    return f"squeue's jobs started {told} than the time tells for which they have run: is the site's timezone right?"
