"""What a source is: it is given jobs, and delivers one outcome or more for each of them, within its deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runwatch.facts import (
    CheckpointListing,
    Failure,
    FoundSchedulerJob,
    HistoryUpdate,
    LogFacts,
    SchedulerFacts,
    SourceKind,
    TrialsUpdate,
)
from runwatch.fleet import Job

Outcome = HistoryUpdate | CheckpointListing | SchedulerFacts | TrialsUpdate | LogFacts | Failure

Deliver = Callable[[Job, Outcome], None]
"""Takes an outcome; safe to call from any thread. A `HistoryUpdate` may be delivered page by page."""

CountRequest = Callable[[str], None]
"""Counts one request to an upstream for the given site: `runwatch_source_requests_total`."""


class Source(Protocol):
    """One kind of upstream. It shares nothing with other sources.

    A source never raises on what the outside world does: it delivers a `Failure`. It keeps its own cursors, so each
    row is delivered exactly once, and its own deadline, budget, backoff and in-flight limit.
    """

    kind: SourceKind

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Look once at each job. Returns within the source's deadline, however the upstream behaves.

        "Nothing new" is an answer and is delivered (an update without rows): it moves the observed timestamp.
        """

    def forget(self, run: str) -> None:
        """Drop what is kept for a job that is watched no more."""

    def close(self) -> None:
        """Release connections and processes."""


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that was found in a tracker's project. `path` is `entity/project/run_id`, times are Unix seconds."""

    path: str
    name: str
    display_name: str
    state: str
    created: float | None
    heartbeat: float | None
    user: str


class FindsRuns(Protocol):
    """A source that can also list a project."""

    def discover(
        self, project_path: str, state: str | None, *, site: str = "none", active_since: float | None = None
    ) -> list[FoundRun] | Failure:
        """List the runs of a project that are wanted.

        Args:
            project_path: `entity/project`.
            state: only runs in this state (the tracker's word), and those that ended after `active_since`, which may
                have been in it while nobody looked; None or "" for all.
            site: whose requests these are.
            active_since: leave out runs that are over and were silent since before this time, Unix seconds.
        """


class FindsSchedulerJobs(Protocol):
    """A scheduler's source that can also list what there is at a site."""

    def find(self, site: str, pattern: str) -> list[FoundSchedulerJob] | Failure:
        """List the jobs of a site whose name matches a regular expression (a search, as `re.search`).

        It shares the listing that the last poll made where that is fresh: discovery costs no further call.
        """
