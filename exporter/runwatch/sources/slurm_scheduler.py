"""SLURM as a scheduler's source: one squeue a poll for all jobs of a site, locally or behind a command such as ssh.

A job is named by its id (`1234567`, an array `6`, one of its tasks `6_3`) or by its name. A name stands for all jobs of
that name of one user: the newest that started is the run, those before it are its earlier links. An id stands for the
restart chain that the job belongs to.

Run for real against SLURM 22.05.8. The commands, options and fields are those that SchedMD documents from 21.08 to
25.11; the shapes of other versions are tested with samples after their manuals.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from runwatch.config.model import Site
from runwatch.facts import (
    Failure,
    FailureReason,
    FoundSchedulerJob,
    SchedulerFacts,
    SchedulerState,
    SourceKind,
)
from runwatch.fleet import Job
from runwatch.parsing.slurm_chains import LinkView, choose, components
from runwatch.parsing.slurm_ids import JobId, parse_job_id
from runwatch.parsing.slurm_states import meaning
from runwatch.parsing.slurm_text import QueueRecord
from runwatch.sources.protocol import CountRequest, Deliver
from runwatch.sources.slurm_commands import SlurmCommands
from runwatch.sources.slurm_facts import facts_at, facts_of
from runwatch.sources.slurm_memory import LinkMemory
from runwatch.sources.slurm_queries import SlurmQueries
from runwatch.sources.slurm_site import SlurmSite
from runwatch.thresholds import AT_IS_NOW_SECONDS

_LISTING_FRESH_SECONDS = 300.0
_SEARCH_AGAIN_SECONDS = 300.0
_SQUEUE_SHARE = 0.6
"""The part of the deadline that squeue may take: the rest is left for what it gives rise to."""

_SACCT_SHARE = 0.6
"""The part of what is left then that sacct may take."""


@dataclass(slots=True)
class _Run:
    """One watched run. `id` is None where it is named by a job's name; `identity` is its oldest link ever known."""

    named: str
    id: JobId | None
    links: set[str] = field(default_factory=set)
    owner: str | None = None
    identity: str = ""
    searched: set[str] = field(default_factory=set)
    search_at: float = 0.0


class SlurmScheduler:
    """A `Source` and `FindsSchedulerJobs` for one SLURM site.

    Args:
        site_name: The site's name.
        site: Its configuration.
        count_request: Is told of each command that is run.
        at: Hide what came after this time, Unix seconds.
        clock: Unix seconds now.
        deadline_seconds: Within which a poll returns.
    """

    kind = SourceKind.SCHEDULER

    def __init__(
        self,
        site_name: str,
        site: Site,
        count_request: CountRequest,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        deadline_seconds: float = 25,
    ) -> None:
        self._site_name = site_name
        self._at = at
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        commands = SlurmCommands(site.command_prefix, lambda: count_request(site_name))
        self._site = SlurmSite(site_name, SlurmQueries(commands, ZoneInfo(site.timezone or "UTC")), commands)
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._views: dict[tuple[str, int | None], LinkView] = {}
        self._views_version = -1

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Look once at each job; see `Source.poll`. Outcomes are delivered from the calling thread."""
        with self._lock:
            outcomes = self._poll(jobs)
        for job, outcome in outcomes:
            deliver(job, outcome)

    def find(self, site: str, pattern: str) -> list[FoundSchedulerJob] | Failure:
        """List the site's jobs whose name matches; see `FindsSchedulerJobs.find`.

        All jobs of one name and one user are one. It is given by its name, so that it stays the same through a chain;
        by its oldest id where the name reads like an id, or an older job of another user has the name.
        """
        if site != self._site_name:
            return Failure(FailureReason.OTHER, f"this is the scheduler of site {self._site_name}, not of {site}")
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            return Failure(FailureReason.OTHER, f"no regular expression: {error}")
        with self._lock:
            now = self._clock()
            listing = self._site.listing
            if listing is None or not 0 <= now - listing.time <= _LISTING_FRESH_SECONDS:
                failure = self._site.look(now, self._deadline_seconds)
                if failure is not None:
                    return failure
                listing = self._site.listing
            if listing is None:
                return []
            groups: dict[str, dict[str, list[QueueRecord]]] = {}
            for name in filter(wanted.search, listing.by_name):
                for job in listing.by_name[name]:
                    for record in listing.by_id[job]:
                        groups.setdefault(name, {}).setdefault(record.user, []).append(record)
            chains = [run.links for run in self._runs.values() if run.id is not None]
        return [
            self._found(name, user, records, chains, is_first=position == 0)
            for name, by_user in groups.items()
            for position, (user, records) in enumerate(sorted(by_user.items(), key=lambda item: _oldest(item[1])))
        ]

    def forget(self, run: str) -> None:
        """Drop what is kept for a job that is watched no more."""
        with self._lock:
            self._runs.pop(run, None)
            self._site.forget_all_but({job for kept in self._runs.values() for job in kept.links})

    def close(self) -> None:
        """Nothing is held between polls: each command has ended when its answer is there."""

    @property
    def _is_now(self) -> bool:
        return self._at is None or self._clock() - self._at <= AT_IS_NOW_SECONDS

    def _poll(self, jobs: Sequence[Job]) -> list[tuple[Job, SchedulerFacts | Failure]]:
        until = time.monotonic() + self._deadline_seconds
        now = self._clock()
        failure = self._site.look(now, self._deadline_seconds * _SQUEUE_SHARE)
        if failure is not None:
            return [(job, failure) for job in jobs]
        runs = {job.run: self._run(job) for job in jobs}
        self._grow(runs.values())
        self._ask(list(runs.values()), now, until)
        self._site.forget_all_but({job for kept in self._runs.values() for job in kept.links})
        return [(job, self._outcome(runs[job.run])) for job in jobs]

    def _run(self, job: Job) -> _Run:
        known = self._runs.get(job.run)
        if known is None or known.named != job.scheduler_job or job.scheduler_user not in ("", known.owner):
            owner = job.scheduler_user or None
            known = self._runs[job.run] = _Run(job.scheduler_job, parse_job_id(job.scheduler_job), owner=owner)
        return known

    def _ask(self, runs: Sequence[_Run], now: float, until: float) -> None:
        site = self._site
        monotonic = time.monotonic()
        sacct_until = monotonic + (until - monotonic) * _SACCT_SHARE
        # What a name brings is asked for by id, and an earlier link is known by id once the submit line of the one
        # behind it is: the next round finds it.
        for _ in range(3):
            version = site.version
            site.ask_accounting({job for run in runs for job in run.links}, now, sacct_until)
            self._search(runs, now, sacct_until)
            if site.version == version:
                break
            self._grow(runs)
        jobs = sorted({job for run in runs for job in run.links}, key=int)
        site.ask_details(jobs, until)
        site.look_for_logs(jobs, now, until)

    def _search(self, runs: Sequence[_Run], now: float, until: float) -> None:
        """Look once for all jobs that have a run's name; again, now and then, while a name has none."""
        wanting: dict[str, list[_Run]] = {}
        for run in runs:
            name = run.named if run.id is None else self._site.links[run.id.base].name
            # A clock that was set back must not put it off by as much.
            waits = run.search_at - _SEARCH_AGAIN_SECONDS <= now < run.search_at
            if name and (name not in run.searched or (not run.links and not waits)):
                wanting.setdefault(name, []).append(run)
        if not wanting:
            return
        for name in self._site.search_names(sorted(wanting), now, until):
            for run in wanting[name]:
                run.searched.add(name)
                run.search_at = now + _SEARCH_AGAIN_SECONDS
        self._grow(runs)

    def _grow(self, runs: Iterable[_Run]) -> None:
        """Find the links of each run among all jobs that are known to have its name."""
        listing = self._site.listing
        named: dict[str, set[str]] = {} if listing is None else {n: set(ids) for n, ids in listing.by_name.items()}
        for link in self._site.links.values():
            if link.name:
                named.setdefault(link.name, set()).add(link.id)
        chains: dict[str, dict[str, frozenset[str]]] = {}
        for run in runs:
            if run.id is None:
                self._grow_by_name(run, named.get(run.named, set()))
                continue
            memory = self._site.keep(run.id.base)
            run.links.add(run.id.base)
            if run.id.task is not None or not memory.name:
                continue
            if memory.name not in chains:
                views = [self._view(job) for job in named[memory.name]]
                chains[memory.name] = {
                    job: chain
                    for user in {view.user for view in views}
                    for job, chain in components([view for view in views if view.user == user]).items()
                }
            run.links |= chains[memory.name].get(run.id.base, frozenset())

    def _grow_by_name(self, run: _Run, jobs: Iterable[str]) -> None:
        views = [self._view(job) for job in jobs]
        if views and run.owner is None:
            run.owner = choose(views, by_name=True).main.user
        run.links |= {view.id for view in views if view.user == run.owner}

    def _view(self, job: str, task: int | None = None) -> LinkView:
        link = self._site.keep(job)
        if self._views_version != self._site.version:
            self._views, self._views_version = {}, self._site.version
        view = self._views.get((job, task))
        if view is None:
            view = self._views[(job, task)] = link.view(self._site.no_accounting, task)
        return view

    def _outcome(self, run: _Run) -> SchedulerFacts | Failure:
        task = None if run.id is None else run.id.task
        views = [view for job in run.links if (view := self._view(job, task)).tasks]
        if not views:
            return self._not_there(run)
        run.identity = run.identity or min(views, key=lambda view: view.number).id
        chain = choose(views, by_name=run.id is None)
        lost = chain.main.newest.state in {SchedulerState.GONE, SchedulerState.UNKNOWN}
        unread = self._unread(self._site.links[chain.main.id]) if lost else None
        if unread is not None:
            return unread
        shown_as = chain.main.id if task is None else f"{chain.main.id}_{task}"
        facts = facts_of(chain, self._site.links, run.identity, shown_as)
        return facts if self._at is None else facts_at(facts, self._at, is_now=self._is_now)

    def _unread(self, link: LinkMemory) -> Failure | None:
        """Why it cannot be said what became of a job that squeue shows no more; None where it can, or it is shown."""
        if link.visible:
            return None
        listing = self._site.listing
        if listing is not None and listing.malformed:
            return Failure(FailureReason.PARSE, f"squeue printed {listing.malformed} records that could not be read")
        if self._site.no_accounting:
            return None
        if self._site.unread() is not None:
            return self._site.unread()
        if link.asks_accounting and link.retries == 0 and self._site.accounting_malformed:
            malformed = self._site.accounting_malformed
            return Failure(FailureReason.PARSE, f"sacct printed {malformed} records that could not be read")
        if link.asks_accounting and link.retries == 0:
            return Failure(FailureReason.TIMEOUT, "no time was left to ask sacct what became of it")
        return None

    def _not_there(self, run: _Run) -> Failure:
        site = self._site
        unread = self._unread(site.links[run.id.base]) if run.id is not None else site.unread() or site.search
        if unread is not None:
            return unread
        shown = "".join(character for character in run.named if character.isprintable())[:200]
        if self._site.no_accounting:
            sacct = f"and the site keeps no accounting ({self._site.no_accounting})"
        elif run.id is None and not self._site.queries.may_search(run.named):
            sacct = "and sacct cannot be asked for such a name"
        else:
            sacct = "and sacct knows of none"
        return Failure(FailureReason.NOT_FOUND, f"squeue has no job {shown!r}, {sacct}")

    def _found(
        self, name: str, user: str, records: Sequence[QueueRecord], chains: Iterable[Set[str]], *, is_first: bool
    ) -> FoundSchedulerJob:
        started = [record for record in records if record.started is not None]
        newest = max(started or records, key=lambda record: (record.started or 0.0, int(record.id.base)))
        by_name = is_first and parse_job_id(name) is None and name.strip() != ""
        running = {record.id.base for record in records if meaning(record.word).state is SchedulerState.RUNNING}
        # Several that run at a time are no chain, and a name means the newest of them.
        chain = [newest] if len(running) > 1 else _newest_chain(records)
        links = {record.id.base for record in chain}
        links = links.union(*(kept for kept in chains if kept & links))
        return FoundSchedulerJob(
            scheduler_job=name if by_name else str(_oldest(records)),
            name=name,
            state=meaning(newest.word).state if self._is_now else SchedulerState.UNKNOWN,
            submitted=min((r.submitted for r in chain if r.submitted is not None), default=None),
            owner=user,
            ended=newest.ended if meaning(newest.word).terminal else None,
            links=tuple(sorted(links, key=int)),
        )


def _newest_chain(records: Sequence[QueueRecord]) -> list[QueueRecord]:
    """Return the jobs of the newest restart chain of a name: each but the first was submitted before another's end.

    What was submitted after all before it had ended is the job anew.
    """
    chain: list[QueueRecord] = []
    for record in sorted(records, key=lambda record: int(record.id.base)):
        ends = [known.ended for known in chain if meaning(known.word).terminal and known.ended is not None]
        is_over = len(ends) == len(chain)
        if chain and is_over and record.submitted is not None and record.submitted > max(ends):
            chain = []
        chain.append(record)
    return chain


def _oldest(records: Iterable[QueueRecord]) -> int:
    return min(int(record.id.base) for record in records)
