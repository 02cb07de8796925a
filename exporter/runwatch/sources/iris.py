"""Jobs on a site that Iris schedules: a `Source` of scheduler facts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

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
from runwatch.parsing.iris import JobRecord, one_line, parse_log_lines, valid_job_id
from runwatch.parsing.iris_facts import job_facts
from runwatch.parsing.iris_selection import Selection, children_by_parent, select_job, selected_state
from runwatch.sources.iris_chains import AttemptChains
from runwatch.sources.iris_credentials import IrisCredentials
from runwatch.sources.iris_listing import JobLister, Listing, Listings
from runwatch.sources.iris_memory import PeakMemory
from runwatch.sources.iris_patterns import literal_beginning
from runwatch.sources.iris_rpc import CONTROLLER, LOGS, IrisClient
from runwatch.sources.log_tails import Tail, TailLine
from runwatch.sources.protocol import CountRequest, Deliver, Outcome
from runwatch.thresholds import AT_IS_NOW_SECONDS

LISTING_FRESH_SECONDS = 120.0
"""How old a listing may be that discovery shares with the polls."""

_SEARCH_REMEMBERED_SECONDS = 900.0
_LOOK_FRACTION = 0.9
_LONGEST_LOG_TAIL = 10_000
_IDS_PER_REQUEST = 500
_CLOSED = Failure(FailureReason.OTHER, "the source was closed before its turn to look")


class IrisScheduler:
    """The jobs of one site, as its controller lists them.

    A poll costs one listing call for each 500 jobs that share a prefix with a watched one. A job's tasks and attempts
    are read when it is first seen and when its counts moved; those of a job that is over once.

    Args:
        site_name: the site's name; jobs of other sites are left alone.
        site: its controller and token.
        count_request: told of every request.
        at: hide everything that happened after this time (Unix seconds); None for now.
        clock: Unix seconds.
        deadline_seconds: how long a poll, a search or a log tail may take.
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
        deadline_seconds: float = 20.0,
    ) -> None:
        if site.controller is None:
            raise ValueError(f"site {site_name} has no controller")
        self._site_name, self._at, self._clock, self._deadline = site_name, at, clock, deadline_seconds
        credentials = IrisCredentials(site, clock)
        self._client = IrisClient(site.controller, credentials, lambda: count_request(site_name), clock)
        self._lister = JobLister(self._client, clock)
        self._chains = AttemptChains(self._client, clock)
        self._memory = PeakMemory(self._client, clock)
        # Looks and searches run in this one thread, so nothing below needs a lock, and one that hangs holds up no poll.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="iris-look")
        self._look: Future[dict[str, Outcome]] | None = None
        self._listings = Listings()
        self._searched: dict[str, float] = {}
        self._gone: set[str] = set()

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Look once at each job of the site that names its id at the scheduler; see `Source.poll`."""
        wanted = []
        for job in jobs:
            if job.site != self._site_name or not job.scheduler_job:
                continue
            if valid_job_id(job.scheduler_job):
                wanted.append(job)
                continue
            text = one_line(repr(job.scheduler_job))
            deliver(job, Failure(FailureReason.OTHER, f"{text} is no Iris job: expected /USER/NAME"))
        if not wanted:
            return
        outcomes = self._outcomes(tuple({job.scheduler_job for job in wanted}))
        for job in wanted:
            deliver(job, outcomes if isinstance(outcomes, Failure) else outcomes[job.scheduler_job])

    def find(self, site: str, pattern: str) -> list[FoundSchedulerJob] | Failure:
        """List the jobs whose id matches; see `FindsSchedulerJobs`. A job below one that matches is part of it."""
        if site != self._site_name:
            return Failure(FailureReason.OTHER, f"this is not the scheduler of site {site}")
        try:
            expression = re.compile(pattern)
        except re.error as error:
            return Failure(FailureReason.OTHER, f"the pattern is no regular expression: {error}")
        until = time.monotonic() + self._deadline * _LOOK_FRACTION
        search = self._thread.submit(self._search, expression, until)
        try:
            return search.result(self._deadline)
        except CancelledError:
            return _CLOSED
        except TimeoutError:
            search.cancel()
            return Failure(FailureReason.TIMEOUT, f"no listing from the controller within {self._deadline:g} s")

    def log_tail(self, scheduler_job: str, max_lines: int) -> Tail | Failure:
        """Return the last lines that a job's tasks, and those of the jobs below it, logged; oldest first.

        Each with its time and the number of its task.

        Args:
            scheduler_job: the job's id.
            max_lines: how many at most; more than 10,000 are not asked for.
        """
        if not valid_job_id(scheduler_job):
            return Failure(FailureReason.OTHER, f"{one_line(repr(scheduler_job))} is no Iris job: expected /USER/NAME")
        asked = max(1, min(max_lines, _LONGEST_LOG_TAIL))
        request = {
            "source": f"{scheduler_job}/",
            "matchScope": "MATCH_SCOPE_PREFIX",
            "maxLines": asked,
            "tail": True,
        }
        reply = self._client.call(LOGS, "FetchLogs", request, time.monotonic() + self._deadline)
        if isinstance(reply, Failure):
            return reply
        lines = parse_log_lines(reply.body)
        shown = [line for line in lines if self._at is None or (line.time is not None and line.time <= self._at)]
        told = [TailLine(line.text, line.time, line.rank) for line in shown]
        return Tail(told, is_whole=len(lines) < asked)

    def forget(self, run: str) -> None:
        """Do nothing: what is kept is by job id, and each poll drops what none of its jobs needs."""

    def close(self) -> None:
        """Close the connections; a look that still runs ends with its request."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._chains.close()
        self._client.close()

    def _outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Outcome] | Failure:
        if self._look is not None and not self._look.done():
            return Failure(FailureReason.TIMEOUT, "the controller still has not answered the last look")
        until = time.monotonic() + self._deadline * _LOOK_FRACTION
        self._look = self._thread.submit(self._look_at, job_ids, until)
        try:
            return self._look.result(self._deadline)
        except CancelledError:
            return _CLOSED
        except TimeoutError:
            return Failure(FailureReason.TIMEOUT, f"no answer from the controller within {self._deadline:g} s")

    def _look_at(self, job_ids: Sequence[str], until: float) -> dict[str, Outcome]:
        now = self._clock()
        self._searched = {prefix: since for prefix, since in self._searched.items() if since > now}
        self._listings = self._lister.list_jobs(job_ids, self._searched, until)
        outcomes: dict[str, Outcome] = {}
        selected: dict[str, tuple[Selection, Listing]] = {}
        absent: dict[str, Listing] = {}
        families = _Families(self._at)
        for job_id in job_ids:
            listing = self._listings.of(job_id)
            if listing is None or isinstance(listing, Failure):
                outcomes[job_id] = listing or Failure(FailureReason.OTHER, "the controller was not asked for this job")
                continue
            selection = families.select(job_id, listing)
            if selection is not None:
                selected[job_id] = (selection, listing)
            elif job_id in listing.jobs:
                outcomes[job_id] = SchedulerFacts(job_id, SchedulerState.UNKNOWN, "it was submitted later")
            else:
                absent[job_id] = listing
        self._gone &= absent.keys()
        outcomes |= self._absent(absent, until)
        self._read_more(
            [selection for selection, _ in selected.values()],
            until,
            forget=not any(isinstance(o, Failure) for o in outcomes.values()),
        )
        for job_id, (selection, listing) in selected.items():
            outcomes[job_id] = job_facts(
                selection,
                self._chains.of,
                now=listing.read_at,
                at=self._at,
                hide_today=self._hides_today(),
                peak_memory_bytes=self._memory.of(selection.job),
                clock_skew=listing.clock_skew,
            )
        return outcomes

    def _read_more(self, selections: Sequence[Selection], until: float, *, forget: bool) -> None:
        known = [s for s in selections if selected_state(s)[0] is not SchedulerState.UNKNOWN]
        records = [record for s in known for record in (s.job, *s.links, *((s.above,) if s.above else ()))]
        jobs = [selection.job for selection in known]
        self._chains.read(records, until)
        self._memory.read(jobs, until)
        if forget:
            self._chains.keep(records)
            self._memory.keep(jobs)

    def _absent(self, absent: Mapping[str, Listing], until: float) -> dict[str, Outcome]:
        """Tell of jobs that no listing shows; once for each, the controller is asked whether it really has none.

        A listing of several pages may miss a job when another one is removed while it is read.
        """
        outcomes: dict[str, Outcome] = {}
        asked = [job_id for job_id in absent if job_id not in self._gone]
        for start in range(0, len(asked), _IDS_PER_REQUEST):
            ids = asked[start : start + _IDS_PER_REQUEST]
            reply = self._client.call(CONTROLLER, "GetJobState", {"jobIds": ids}, until)
            states = None if isinstance(reply, Failure) else reply.body.get("states", {})
            if isinstance(reply, Failure):
                outcomes |= dict.fromkeys(ids, reply)
            elif not isinstance(states, dict):
                outcomes |= dict.fromkeys(ids, Failure(FailureReason.PARSE, "GetJobState: the states are no object"))
            else:
                missed = Failure(FailureReason.OTHER, "the listing changed while it was read, and missed this job")
                outcomes |= {job_id: missed for job_id in ids if job_id in states}
                self._gone |= {job_id for job_id in ids if job_id not in states}
        gone = "Iris has no record of this job"
        for job_id in absent.keys() & self._gone:
            outcomes[job_id] = SchedulerFacts(job_id, SchedulerState.GONE, gone, clock_skew=absent[job_id].clock_skew)
        return outcomes

    def _search(self, expression: re.Pattern[str], until: float) -> list[FoundSchedulerJob] | Failure:
        prefix = literal_beginning(expression.pattern)
        now = self._clock()
        self._searched[prefix] = now + _SEARCH_REMEMBERED_SECONDS
        listing = self._listings.of(prefix)
        if not isinstance(listing, Listing) or not 0 <= now - listing.read_at <= LISTING_FRESH_SECONDS:
            listing = self._lister.list_jobs((), (prefix,), until).of(prefix)
        if not isinstance(listing, Listing):
            return listing or Failure(FailureReason.OTHER, "the controller was not asked")
        matching = {job_id for job_id in listing.jobs if expression.search(job_id)}
        families = _Families(self._at)
        found = []
        for job_id in sorted(matching):
            selection = families.select(job_id, listing)
            if selection is not None and not matching.intersection(_ancestors(job_id)):
                found.append(self._found(job_id, selection))
        return found

    def _found(self, job_id: str, selection: Selection) -> FoundSchedulerJob:
        state = SchedulerState.UNKNOWN if self._hides_today() else selected_state(selection)[0]
        child = selection.job.job_id if selection.job.job_id != job_id else ""
        root = selection.root
        return FoundSchedulerJob(
            scheduler_job=job_id,
            name=job_id,
            state=state,
            submitted=root.submitted,
            owner=job_id.split("/")[1],
            child=child,
            ended=root.finished if root.over else None,
        )

    def _hides_today(self) -> bool:
        return self._at is not None and self._clock() - self._at > AT_IS_NOW_SECONDS


class _Families:
    """Selects jobs in listings, each of which is sorted by parents once. Jobs submitted after `at` are not there."""

    def __init__(self, at: float | None) -> None:
        self._at = at
        self._sorted: dict[int, tuple[dict[str, JobRecord], dict[str, list[JobRecord]]]] = {}

    def select(self, job_id: str, listing: Listing) -> Selection | None:
        if id(listing) not in self._sorted:
            records = {job.job_id: job for job in self._visible(listing.jobs.values())}
            self._sorted[id(listing)] = (records, children_by_parent(records.values()))
        return select_job(job_id, *self._sorted[id(listing)])

    def _visible(self, jobs: Iterable[JobRecord]) -> list[JobRecord]:
        return [job for job in jobs if self._at is None or job.submitted is None or job.submitted <= self._at]


def _ancestors(job_id: str) -> list[str]:
    parts = job_id.split("/")
    return ["/".join(parts[:length]) for length in range(3, len(parts))]
