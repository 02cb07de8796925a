"""The jobs that discovery found at schedulers: which records of a listing are one job, and how long each is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from runwatch.facts import FoundSchedulerJob, SchedulerState

EntryKey = tuple[str, str]
"""An entry of `discover`: its site and its expression."""

TERMINAL = frozenset(
    {
        SchedulerState.SUCCEEDED,
        SchedulerState.FAILED,
        SchedulerState.TIMEOUT,
        SchedulerState.KILLED,
        SchedulerState.GONE,
    }
)
_IN_PLACE = frozenset({SchedulerState.RUNNING, SchedulerState.NO_TASKS})


class Resolution(BaseModel):
    """What the `*` of a filled template was found to stand for, and for which submission and child that was.

    `is_sure` tells that it belongs to this submission: it was made or written since, or the child's name holds it.
    What is not sure may be left of an earlier submission, and gives way to what comes.
    """

    model_config = ConfigDict(frozen=True)

    template: str
    address: str
    submission: str
    child: str
    is_sure: bool = False


class KnownJob(BaseModel):
    """One job that was found at a scheduler. Times are Unix seconds.

    `scheduler_job` is the id that it is asked for by. `ids` are the ids that its links and submissions were
    last shown with. `over_since` is when it ended, or when that was first seen; None while any of it goes on.
    `alive_at` is when some of it was last seen to go on. `last_seen` is when it was last shown, or could not be looked
    for. `is_missing` tells that the newest listing that answered lacked it.
    """

    model_config = ConfigDict(frozen=True)

    site: str
    match: str
    name: str
    scheduler_job: str
    ids: tuple[str, ...] = Field(min_length=1)
    first_seen: float
    last_seen: float
    owner: str = ""
    child: str = ""
    submitted: float | None = None
    first_submitted: float | None = None
    over_since: float | None = None
    alive_at: float | None = None
    is_missing: bool = False
    resolved: tuple[Resolution, ...] = ()

    @property
    def key(self) -> EntryKey:
        """The entry of `discover` that it belongs to."""
        return self.site, self.match

    @property
    def submission(self) -> str:
        """A text that changes when the job is submitted anew."""
        return f"{self.scheduler_job} {self.submitted}"

    @property
    def goes_on(self) -> bool:
        """Whether any of it was still going on, as far as the newest listing that answered tells."""
        return self.over_since is None and not self.is_missing

    def ended_long_ago(self, now: float, linger: float) -> bool:
        """Whether it ended longer ago than `linger`: then it is shown no more."""
        return self.over_since is not None and now - self.over_since > linger

    def expired(self, now: float, linger: float) -> bool:
        """Whether it ended, or was last seen, longer ago than `linger`."""
        return now - (self.last_seen if self.over_since is None else self.over_since) > linger


def absorb(
    known: Sequence[KnownJob],
    listed: Mapping[EntryKey, Sequence[FoundSchedulerJob]],
    failed: Iterable[EntryKey],
    now: float,
    linger: float,
    *,
    chained: Collection[str] = (),
) -> tuple[KnownJob, ...]:
    """Take in what the entries' listings show now.

    A record belongs to the first entry that shows it. Links of one restart chain and resubmissions under one name (of
    one owner at one site) are one job; records of one name that run at one time are several.

    Args:
        known: The jobs known so far.
        listed: What each entry's listing shows, in the order of the config.
        failed: The entries whose listing failed: their jobs stay.
        now: Unix seconds.
        linger: How long a job is kept after its end, or after it was last seen.
        chained: The sites where one id or name may stand for a chain, so that a later time of submission makes no new
            submission while a link before it went on.
    """
    blind = frozenset(failed)
    by_name: dict[tuple[str, str, str], list[KnownJob]] = {}
    for job in known:
        by_name.setdefault((job.site, job.name, job.owner), []).append(job)
    holders = {(job.site, job.scheduler_job): job for job in known}
    all_ids = {record.scheduler_job for records in listed.values() for record in records}
    claimed: set[tuple[str, str]] = set()
    shown: list[KnownJob] = []
    seen: set[int] = set()
    for key, records in listed.items():
        groups: dict[tuple[str, str, str], list[FoundSchedulerJob]] = {}
        for listed_record in sorted(_without_children(records), key=_order):
            own_key = (key[0], listed_record.scheduler_job)
            if own_key not in claimed:
                claimed.add(own_key)
                record, owner = _told_apart(listed_record, holders.get(own_key), all_ids)
                all_ids.add(record.scheduler_job)
                groups.setdefault((key[0], record.name, owner), []).append(record)
        for name, group in groups.items():
            before = by_name.get(name, [])
            for old, own in _assigned(before, group):
                entry = old.key if old is not None and old.key in blind else key
                updated = _updated(old, entry, own, now)
                if old is not None and key[0] in chained and not _is_anew(old, updated, own):
                    # Links that are shown no more are of it all the same.
                    ids = tuple(sorted({*old.ids, *updated.ids}))
                    updated = updated.model_copy(update={"submitted": old.submitted, "ids": ids})
                seen.update(() if old is None else (id(old),))
                if old is not None or not updated.expired(now, linger):
                    shown.append(updated)
    # A job that ended long ago is remembered while it is shown, so that it is not taken for a new one.
    unseen = [_missed(old, now, is_blind=old.key in blind) for old in known if id(old) not in seen]
    kept = [old for old in unseen if old.key in blind or not old.expired(now, linger)]
    return tuple(sorted((*shown, *kept), key=lambda job: (job.site, job.name, job.owner, job.ids)))


def _told_apart(
    record: FoundSchedulerJob, holder: KnownJob | None, all_ids: Collection[str]
) -> tuple[FoundSchedulerJob, str]:
    """Return a record as what it is, and whose job it goes with, where a job of another owner is asked for by its id.

    A name that other people's jobs have too (SLURM) is left to who had it first, and the record goes by its oldest id.
    Where the scheduler has one job alone by that id (Kubernetes), it is that job, whoever is named as its owner now.
    """
    if holder is None or holder.name != record.name or holder.owner == record.owner:
        return record, record.owner
    own_id = next((link for link in record.links if link not in all_ids), None)
    if own_id is None:
        return record, record.owner if record.links else holder.owner
    return replace(record, scheduler_job=own_id), record.owner


def _missed(job: KnownJob, now: float, *, is_blind: bool) -> KnownJob:
    """Take in that no listing shows a job.

    Where its entry could not be asked, it may go on: `linger` begins when a listing answers again, and only then is
    its scheduler asked what became of it.
    """
    if is_blind:
        return job.model_copy(update={"last_seen": max(now, job.last_seen)})
    return job if job.is_missing else job.model_copy(update={"is_missing": True})


def _without_children(records: Sequence[FoundSchedulerJob]) -> list[FoundSchedulerJob]:
    """Leave out records below another one: a coordinator and its child are one job (Iris's names are paths)."""
    names = {record.name for record in records}
    return [record for record in records if not any(above in names for above in _above(record.name))]


def _above(name: str) -> Iterable[str]:
    parts = name.split("/") if name.startswith("/") else []
    return ("/".join(parts[:count]) for count in range(2, len(parts)))


def _ids(record: FoundSchedulerJob) -> frozenset[str]:
    return frozenset((record.scheduler_job, *record.links))


def _order(record: FoundSchedulerJob) -> tuple[float, str]:
    return math.inf if record.submitted is None else record.submitted, record.scheduler_job


def _assigned(
    before: Sequence[KnownJob], records: Sequence[FoundSchedulerJob]
) -> list[tuple[KnownJob | None, list[FoundSchedulerJob]]]:
    """Say which records of one name are which job; None for a new one."""
    jobs: list[tuple[KnownJob | None, list[FoundSchedulerJob]]] = [(job, []) for job in before]
    by_id = {known_id: index for index, job in enumerate(before) for known_id in job.ids}
    several = len(before) > 1 or _run_at_one_time(records)
    for record in sorted(records, key=_order):
        index = min((by_id[own_id] for own_id in _ids(record) if own_id in by_id), default=None)
        if index is None and jobs and not several:
            index = 0
        if index is None:
            index = len(jobs)
            jobs.append((None, []))
        by_id.update(dict.fromkeys(_ids(record), index))
        jobs[index][1].append(record)
    return [(job, own) for job, own in jobs if own]


def _run_at_one_time(records: Sequence[FoundSchedulerJob]) -> bool:
    running = [record for record in records if record.state in _IN_PLACE]
    return any(not _ids(one) & _ids(other) for one in running for other in running)


def _updated(job: KnownJob | None, key: EntryKey, records: Sequence[FoundSchedulerJob], now: float) -> KnownJob:
    alive = [record for record in records if record.state not in TERMINAL]
    current = _current(job, records, alive)
    times = [record.submitted for record in records if record.submitted is not None]
    times += [] if job is None or job.first_submitted is None else [job.first_submitted]
    holder = current or max((r for r in records if r.child), key=_order, default=None)
    own_id = current.scheduler_job if current is not None else (job.scheduler_job if job is not None else "")
    ids = frozenset([own_id]).union(*(_ids(record) for record in records))
    submitted = None if current is None else current.submitted
    over_since = None
    if not alive:
        ends = [record.ended for record in records if record.ended is not None]
        over_since = max(ends) if ends else (now if job is None or job.over_since is None else job.over_since)
    return KnownJob(
        site=key[0],
        match=key[1],
        name=records[0].name,
        scheduler_job=own_id,
        ids=tuple(sorted(ids)),
        first_seen=now if job is None else job.first_seen,
        last_seen=now,
        owner=records[0].owner or ("" if job is None else job.owner),
        child=(holder.child if holder is not None else "") or ("" if job is None else job.child),
        submitted=submitted if submitted is not None or job is None else job.submitted,
        first_submitted=min(times, default=None),
        over_since=over_since,
        alive_at=now if alive else (None if job is None else job.alive_at),
        resolved=() if job is None else job.resolved,
    )


def _current(
    job: KnownJob | None, records: Sequence[FoundSchedulerJob], alive: Sequence[FoundSchedulerJob]
) -> FoundSchedulerJob | None:
    """Return the record that the job is asked for by now; None for the one of before, which the listing shows no more.

    A chain stays with the link that it was found by, for its scheduler follows it from there: the id, and with it what
    is known of the job, stays. A record that was submitted after all of the job had ended is the job anew.
    """
    if job is None:
        return min(alive, key=_order) if alive else max(records, key=_order)
    own = next((record for record in records if record.scheduler_job == job.scheduler_job), None)
    if not alive or (own is not None and own in alive):
        return own
    following = min(alive, key=_order)
    # A link is submitted while the one before it goes on.
    is_anew = _begins_after(following.submitted, None if own is None else own.ended, job)
    return following if is_anew and job.scheduler_job not in following.links else own


def _is_anew(before: KnownJob, after: KnownJob, records: Sequence[FoundSchedulerJob]) -> bool:
    # An id that was known before tells more than times: SLURM sets the time of submission anew when it requeues a job,
    # and the times of the state file are rounded.
    if set(before.ids) & {link for record in records for link in record.links}:
        return False
    return before.scheduler_job != after.scheduler_job or _begins_after(after.submitted, None, before)


def _begins_after(submitted: float | None, ended: float | None, job: KnownJob) -> bool:
    """Whether something was submitted after all of a job had ended, as far as its end is known."""
    end = next((time for time in (ended, job.alive_at, job.over_since) if time is not None), None)
    return end is not None and submitted is not None and submitted > end


def moved_to(known: Sequence[KnownJob], entries: Sequence[EntryKey]) -> tuple[KnownJob, ...]:
    """Give the jobs of entries that are no more to the first entry of their site that matches; leave out the others."""
    kept: list[KnownJob] = []
    for job in known:
        own = (match for site, match in entries if site == job.site and re.search(match, job.name))
        match = job.match if job.key in entries else next(own, None)
        if match is not None:
            kept.append(job if match == job.match else job.model_copy(update={"match": match}))
    return tuple(kept)
