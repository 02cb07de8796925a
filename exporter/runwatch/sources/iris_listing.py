"""Listings of jobs by prefix of their ids: as few and as wide as the controller's limits allow, never a silent part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason
from runwatch.parsing.iris import JobRecord, parse_jobs_page
from runwatch.sources.iris_rpc import CONTROLLER, IrisClient

PAGE_SIZE = 500
LARGEST_OFFSET = 5000
LARGEST_LISTING = LARGEST_OFFSET + PAGE_SIZE
"""The controller sends 500 records a page and refuses an offset above 5000 (`MAX_LIST_JOBS_*`)."""

_TRIES = 3
"""Listings from which a job goes while they are read are begun anew, but not for ever."""

_REMEMBER_TOO_LARGE_SECONDS = 3600.0

_SAME_FOR_ALL = frozenset(
    {FailureReason.AUTH, FailureReason.NETWORK, FailureReason.TIMEOUT, FailureReason.THROTTLED, FailureReason.NOT_FOUND}
)
"""Failures of the controller as a whole: the other prefixes would meet the same."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Every job whose id begins with a prefix, by id. `read_at` is Unix seconds."""

    jobs: Mapping[str, JobRecord]
    read_at: float
    malformed: int = 0
    clock_skew: float | None = None


@dataclass(frozen=True, slots=True)
class _TooLarge:
    total: int


@dataclass(slots=True)
class Listings:
    """What one round of listings gave: the listing, or the failure, of each prefix."""

    by_prefix: dict[str, Listing | Failure] = field(default_factory=dict)

    def of(self, text: str) -> Listing | Failure | None:
        """Return the outcome for all ids that begin with a text; None where no prefix covers it."""
        covering = [prefix for prefix in self.by_prefix if text.startswith(prefix)]
        return self.by_prefix[max(covering, key=len)] if covering else None


class JobLister:
    """Lists jobs of one controller.

    Args:
        client: the connection.
        clock: Unix seconds.
    """

    def __init__(self, client: IrisClient, clock: Callable[[], float] = time.time) -> None:
        self._client, self._clock = client, clock
        self._too_large: dict[str, float] = {}

    def list_jobs(self, job_ids: Iterable[str], prefixes: Iterable[str], until: float) -> Listings:
        """List what covers all these ids and their children, and all these prefixes.

        Ids of one user share one listing, of the longest prefix that they have in common. Where that holds more than
        5,500 records, longer prefixes are listed instead.
        """
        listings = Listings()
        waiting = _merged(_common_prefixes(job_ids), prefixes)
        while waiting:
            prefix, ids = waiting.pop()
            outcome = self._list_or_remember(prefix, until)
            if isinstance(outcome, _TooLarge):
                parts = _narrower(prefix, ids)
                waiting.extend(parts)
                failure = Failure(
                    FailureReason.OTHER,
                    f"{outcome.total} jobs begin with {prefix!r} and Iris lists {LARGEST_LISTING} at most: "
                    "name a longer beginning",
                )
                listings.by_prefix[prefix] = failure
                continue
            listings.by_prefix[prefix] = outcome
            if isinstance(outcome, Failure) and outcome.reason in _SAME_FOR_ALL:
                listings.by_prefix.update({other: outcome for other, _ in waiting})
                break
        return listings

    def _list_or_remember(self, prefix: str, until: float) -> Listing | Failure | _TooLarge:
        now = self._clock()
        if 0 < self._too_large.get(prefix, 0.0) - now <= _REMEMBER_TOO_LARGE_SECONDS:
            return _TooLarge(LARGEST_LISTING + 1)
        outcome = self._list(prefix, until)
        if isinstance(outcome, _TooLarge):
            self._too_large[prefix] = now + _REMEMBER_TOO_LARGE_SECONDS
        return outcome

    def _list(self, prefix: str, until: float) -> Listing | Failure | _TooLarge:
        for _ in range(_TRIES):
            found = self._pages(prefix, until)
            if found is not None:
                return found
        return Failure(FailureReason.OTHER, f"jobs went from the listing while it was read, {_TRIES} times")

    def _pages(self, prefix: str, until: float) -> Listing | Failure | _TooLarge | None:
        """Read all pages; None where they may lack a job.

        New jobs come first and move the others to later pages, where they are seen again. One that goes moves those
        behind it to an earlier page, past the reader: then the total has fallen.
        """
        jobs: dict[str, JobRecord] = {}
        offset, malformed, skew, total = 0, 0, None, 0
        while True:
            query = {"jobIdPrefix": prefix, "limit": PAGE_SIZE, "offset": offset}
            reply = self._client.call(CONTROLLER, "ListJobs", {"query": query}, until)
            if isinstance(reply, Failure):
                return reply
            page = parse_jobs_page(reply.body)
            skew = reply.clock_skew if reply.clock_skew is not None else skew
            if page.total is not None and page.total > LARGEST_LISTING:
                return _TooLarge(page.total)
            if page.total is not None and page.total < total:
                return None
            total = page.total or 0
            malformed += page.malformed
            # Of one that two pages show, since jobs were submitted meanwhile, the later look counts.
            jobs.update({job.job_id: job for job in page.jobs if job.job_id.startswith(prefix)})
            offset += page.entries
            if not page.more:
                return Listing(jobs, self._clock(), malformed, skew)
            if not page.entries:
                return Failure(FailureReason.PARSE, "the controller says that there are more jobs, and sends none")
            if offset > LARGEST_OFFSET:
                return _TooLarge(offset)


def _common_prefixes(job_ids: Iterable[str]) -> dict[str, list[str]]:
    """For each user the longest beginning that the ids share."""
    by_user: dict[str, list[str]] = {}
    for job_id in sorted(set(job_ids)):
        by_user.setdefault("/".join(job_id.split("/", 2)[:2]), []).append(job_id)
    return {_common_beginning(ids): ids for ids in by_user.values()}


def _merged(wanted: Mapping[str, list[str]], prefixes: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Leave out a prefix that a shorter one covers; its ids go there."""
    kept: dict[str, list[str]] = {}
    for prefix in sorted({*wanted, *prefixes}, key=lambda text: (len(text), text)):
        covering = next((shorter for shorter in kept if prefix.startswith(shorter)), prefix)
        kept.setdefault(covering, []).extend(wanted.get(prefix, []))
    return list(kept.items())


def _narrower(prefix: str, ids: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Split ids whose common prefix holds too much by the next character; an id that is the prefix has no narrower."""
    longer = [job_id for job_id in ids if job_id != prefix]
    groups: dict[str, list[str]] = {}
    for job_id in longer:
        groups.setdefault(job_id[: len(prefix) + 1], []).append(job_id)
    return [(_common_beginning(group), group) for group in groups.values()]


def _common_beginning(texts: Sequence[str]) -> str:
    """The longest text that all begin with; first and last in order differ where any two do."""
    first, last = min(texts), max(texts)
    same = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:same]
