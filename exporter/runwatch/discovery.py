"""Finding jobs at schedulers and in W&B projects, and keeping those that were found through their end."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from runwatch.config.model import Config, Discovery
from runwatch.facts import Failure, FailureReason, FoundSchedulerJob, SourceKind
from runwatch.fleet import Fleet, FoundJob, Job, ScheduledJob, assemble_fleet, jobs_from_config, means
from runwatch.found.jobs import EntryKey, KnownJob, Resolution, absorb, moved_to
from runwatch.found.places import places_of, starred_templates, wandb_paths
from runwatch.found.shards import Shard
from runwatch.found.star_resolver import StarRequest, StarResolver
from runwatch.found.wandb_runs import WandbDiscovery, moved_run
from runwatch.remembered import Remembered
from runwatch.sources.protocol import FindsRuns, FindsSchedulerJobs
from runwatch.sources.wildcards import LevelListings
from runwatch.telemetry import Telemetry

__all__ = ["Finders", "FleetFinder", "WandbDiscovery"]

_log = logging.getLogger(__name__)

_Listed = list[FoundSchedulerJob] | Failure


@dataclass(frozen=True, slots=True)
class Finders:
    """The sources that find jobs: W&B's where one is needed, and by their sites the schedulers'."""

    wandb: FindsRuns | None = None
    schedulers: Mapping[str, FindsSchedulerJobs] = field(default_factory=dict)


class FleetFinder:
    """Says which jobs are watched: those that the config lists, and those that its entries of `discover` find.

    `look` may run in one thread while `current` is called in another.

    Args:
        telemetry: Where requests and failures are counted.
        remembered: Keeps the jobs that were found; with a state file also over a restart.
        at: Hide jobs that were submitted after this time (Unix seconds).
        levels: Lists folders and object stores for templates with a `*`.
        shard: The part of the jobs that is watched here; None for all.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        remembered: Remembered,
        *,
        at: float | None = None,
        levels: LevelListings | None = None,
        shard: Shard | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._shard = shard
        self._remembered = remembered
        self._at = at
        self._levels = levels or LevelListings(lambda site: telemetry.count_request(SourceKind.CHECKPOINTS, site))
        self._resolver = StarResolver(telemetry, self._levels)
        self._wandb = WandbDiscovery(telemetry)
        self._lock = threading.Lock()
        self._runs: tuple[FoundJob, ...] = ()
        self._run_resolutions: dict[str, tuple[Resolution, ...]] = {}
        self.blind: frozenset[tuple[SourceKind, str]] = frozenset()
        """The sources, with their sites, that the newest look could not list jobs of."""

    def current(self, config: Config, now: float) -> Fleet:
        """Return the fleet by what is known, without a look at anything: after a reload of the config."""
        with self._lock:
            known = moved_to(self._remembered.found, tuple(_entries(config)))
            return self._fleet(config, known, self._moved_runs(config), now)

    def look(self, config: Config, finders: Finders, now: float) -> tuple[Fleet, tuple[Failure, ...]]:
        """Ask every entry of `discover` once; return the fleet and what failed.

        The sites and W&B are asked side by side: one that hangs delays no other by more than its own deadline.

        Args:
            config: What to look for.
            finders: Where to look.
            now: Unix seconds.
        """
        entries = _entries(config)
        listed, runs, failures = self._ask(config, entries, finders, now)
        read = {key: outcome for key, outcome in listed.items() if not isinstance(outcome, Failure)}
        with self._lock:
            known = moved_to(self._remembered.found, tuple(entries))
        failed = [key for key in listed if key not in read]
        chained = [site for site, _ in entries if config.scheduler(site) == "slurm"]
        known = absorb(known, read, failed, now, config.linger, chained=chained)
        known, runs, unresolved = self._resolved(config, known, runs, finders.wandb, now)
        with self._lock:
            self._runs = tuple(runs)
            self._remembered.keep_found(known)
            fleet = self._fleet(config, known, runs, now)
        self._remembered.save(config.linger)
        return fleet, (*failures, *unresolved)

    def close(self) -> None:
        """Release connections."""
        self._levels.close()

    def _moved_runs(self, config: Config) -> list[FoundJob]:
        runs = [(run, moved_run(run, config.discover)) for run in self._runs]
        return [
            moved if moved.discovery == run.discovery else self._placed(moved)
            for run, moved in runs
            if moved is not None
        ]

    def _placed(self, run: FoundJob) -> FoundJob:
        addresses = _addresses(self._run_resolutions.get(run.path, ()))
        places = places_of(run.discovery, {"name": run.name}, addresses, self._unlisted(f"run {run.path}"))
        return replace(run, places=places)

    def _unlisted(self, job_key: str) -> frozenset[str]:
        return frozenset(template for job, template in self._resolver.unlisted if job == job_key)

    def _ask(
        self, config: Config, entries: Mapping[EntryKey, Discovery], finders: Finders, now: float
    ) -> tuple[dict[EntryKey, _Listed], Sequence[FoundJob], list[Failure]]:
        sites = sorted({site for site, _ in entries})
        wants_wandb = any(entry.wandb is not None for entry in config.discover)
        wandb = finders.wandb if wants_wandb else None
        failures: list[Failure] = []
        if wants_wandb and wandb is None:
            failures.append(Failure(FailureReason.OTHER, "there is no W&B source to list projects with"))
        by_key: dict[EntryKey, _Listed] = {}
        with ThreadPoolExecutor(max_workers=len(sites) + 1, thread_name_prefix="discover") as threads:
            of_wandb = None if wandb is None else threads.submit(self._wandb.look, config, wandb, now)
            of_sites = {
                site: threads.submit(_find, finders.schedulers.get(site), site, [m for s, m in entries if s == site])
                for site in sites
            }
            for site in sites:
                broken = _fault(of_sites[site], f"discovery at {site}")
                by_key |= (
                    of_sites[site].result() if broken is None else {key: broken for key in entries if key[0] == site}
                )
            # Without a source nothing was looked at: what was found stays.
            kept = self._runs if wants_wandb else ()
            broken = None if of_wandb is None else _fault(of_wandb, "discovery in W&B")
            if broken is not None:
                failures.append(broken)
            runs, failed = (kept, ()) if of_wandb is None or broken is not None else of_wandb.result()
        failures += failed
        blind = {(SourceKind.SCHEDULER, site) for (site, _), outcome in by_key.items() if _is_blind(outcome)}
        if any(_is_blind(failure) for failure in failures):
            blind |= {(SourceKind.HISTORY, entry.site) for entry in config.discover if entry.wandb is not None}
        self.blind = frozenset(blind)
        for (site, _), outcome in by_key.items():
            if isinstance(outcome, Failure):
                _log.warning("discovery at %s failed: %s: %s", site, outcome.reason.value, outcome.detail)
                self._telemetry.count_error(SourceKind.SCHEDULER, site, outcome.reason)
                failures.append(outcome)
        hidden = self._is_hidden
        # In the order of the config: the first entry that shows a job has it.
        listed: dict[EntryKey, _Listed] = {
            key: by_key[key] if isinstance(by_key[key], Failure) else [job for job in by_key[key] if not hidden(job)]  # type: ignore[union-attr]
            for key in entries
        }
        return listed, runs, failures

    def _is_hidden(self, job: FoundSchedulerJob) -> bool:
        return self._at is not None and job.submitted is not None and job.submitted > self._at

    def _resolved(
        self,
        config: Config,
        known: Sequence[KnownJob],
        runs: Sequence[FoundJob],
        source: FindsRuns | None,
        now: float,
    ) -> tuple[tuple[KnownJob, ...], Sequence[FoundJob], tuple[Failure, ...]]:
        listed, entries = jobs_from_config(config), _entries(config)
        requests: list[StarRequest] = []
        for job in known:
            if not job.ended_long_ago(now, config.linger):
                requests += _requests_of_job(config, job, entries[job.key], listed)
        for run in runs:
            requests += _requests_of_run(run, self._run_resolutions.get(run.path, ()))
        resolved, failures = self._resolver.resolve(requests, source, now, config.interval(SourceKind.HISTORY))
        by_job: dict[str, tuple[Resolution, ...]] = {}
        for (job_key, _), resolution in resolved.items():
            by_job[job_key] = (*by_job.get(job_key, ()), resolution)
        self._run_resolutions = {run.path: by_job.get(f"run {run.path}", ()) for run in runs}
        placed = [self._placed(run) for run in runs]
        updated = [
            job
            if job.ended_long_ago(now, config.linger)
            else job.model_copy(update={"resolved": by_job.get(_job_key(job), ())})
            for job in known
        ]
        return tuple(updated), placed, failures

    def _fleet(self, config: Config, known: Sequence[KnownJob], runs: Sequence[FoundJob], now: float) -> Fleet:
        entries = _entries(config)
        at = math.inf if self._at is None else self._at
        shown = [
            job
            for job in known
            if not job.ended_long_ago(now, config.linger) and (job.first_submitted or -math.inf) <= at
        ]
        scheduled = [scheduled_job(config, job, entries[job.key], self._unlisted(_job_key(job))) for job in shown]
        return assemble_fleet(config, runs, scheduled, self._shard)


def scheduled_job(config: Config, job: KnownJob, discovery: Discovery, unlisted: Collection[str] = ()) -> ScheduledJob:
    """Say what a job found at a scheduler is called, and where its facts are read."""
    values = _groups(job)
    local = job.name.rpartition("/")[2] if job.name.startswith("/") else job.name
    return ScheduledJob(
        name=(values.get("name") or "").strip() or local.strip() or job.scheduler_job,
        scheduler_job=job.scheduler_job,
        scheduler_name=job.name,
        ids=job.ids,
        submitted=job.first_submitted,
        alive=job.goes_on,
        owner=job.owner,
        discovery=discovery,
        places=places_of(discovery, values, _addresses(job.resolved), unlisted),
        namespace=config.sites[job.site].namespace or "",
    )


def _entries(config: Config) -> dict[EntryKey, Discovery]:
    """Return the entries that ask a scheduler, the first of each site and expression, in the order of the config."""
    entries: dict[EntryKey, Discovery] = {}
    for entry in config.discover:
        if entry.match is not None:
            entries.setdefault((entry.site, entry.match), entry)
    return entries


def _find(source: FindsSchedulerJobs | None, site: str, patterns: Sequence[str]) -> dict[EntryKey, _Listed]:
    if source is None:
        missing = Failure(FailureReason.OTHER, f"there is no source for the scheduler of {site}")
        return {(site, pattern): missing for pattern in patterns}
    return {(site, pattern): source.find(site, pattern) for pattern in patterns}


def _is_blind(outcome: _Listed) -> bool:
    return isinstance(outcome, Failure) and not outcome.is_answer


def _fault(look: Future[Any], doing: str) -> Failure | None:
    """Wait for a look. One that ends by an exception, such as at a source that a reload closed, is a failed look."""
    error = look.exception()
    if error is None:
        return None
    if isinstance(error, CancelledError):
        return Failure(FailureReason.OTHER, "its source was closed meanwhile")
    _log.error("%s failed by a fault of this program", doing, exc_info=error)
    return Failure(FailureReason.OTHER, f"the look failed: {type(error).__name__}")


def _groups(job: KnownJob) -> dict[str, str | None]:
    matched = re.search(job.match, job.name)
    return {} if matched is None else matched.groupdict()


def _addresses(resolved: Sequence[Resolution]) -> dict[str, str]:
    return {resolution.template: resolution.address for resolution in resolved}


def _job_key(job: KnownJob) -> str:
    # The first of its ids tells it from jobs of the same name that run beside it.
    return f"{job.site} {job.ids[0]} {job.name}"


def _requests_of_job(config: Config, job: KnownJob, discovery: Discovery, listed: Sequence[Job]) -> list[StarRequest]:
    earlier = {resolution.template: resolution for resolution in job.resolved}
    requests = [
        StarRequest(
            job=_job_key(job),
            template=template,
            kind=kind,
            site=job.site,
            child=job.child.rpartition("/")[2],
            submission=job.submission,
            earlier=earlier.get(template),
            since=job.submitted,
            goes_on=job.goes_on,
        )
        for template, kind in starred_templates(discovery, _groups(job)).items()
    ]
    if all(request.is_settled for request in requests):
        return requests
    own = scheduled_job(config, job, discovery)
    others = [other for other in listed if other.scheduler_job and not means(other, own)]
    claimed = frozenset(
        address for other in others for address in (*wandb_paths(other.history), *map(_bare, other.checkpoints))
    )
    return [replace(request, claimed=claimed) for request in requests]


def _bare(address: str) -> str:
    return address.rstrip("/")


def _requests_of_run(run: FoundJob, earlier: Sequence[Resolution]) -> list[StarRequest]:
    known = {resolution.template: resolution for resolution in earlier}
    return [
        StarRequest(
            f"run {run.path}",
            template,
            kind,
            run.discovery.site,
            earlier=known.get(template),
            since=run.created,
            goes_on=run.state == "running",
        )
        for template, kind in starred_templates(run.discovery, {"name": run.name}).items()
    ]
