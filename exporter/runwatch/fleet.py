"""Which jobs are watched, and the name each one is known by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runwatch.config.model import Bucket, Config, Discovery, HistorySource, Labels, TrainerConfig, Trials


@dataclass(frozen=True, slots=True)
class Job:
    """One watched job. `run` is unique in the fleet and is the key of everything that is known of the job.

    `scheduler` is the word of the site's scheduler, empty where the site has none.
    """

    run: str
    bucket: Bucket
    site: str = "none"
    kind: str = ""
    scheduler: str = ""
    scheduler_job: str = ""
    history: tuple[HistorySource, ...] = ()
    checkpoints: tuple[str, ...] = ()
    trials: Trials | None = None
    config: TrainerConfig = field(default_factory=TrainerConfig)
    labels: Labels = field(default_factory=Labels)
    discovered: bool = False


@dataclass(frozen=True, slots=True)
class FoundJob:
    """One run that discovery found in a W&B project.

    `path` is `entity/project/run_id`, `created` Unix seconds (None where W&B does not say), `state` W&B's own word,
    `owner` the run's user, `discovery` the entry of the config that found it.
    """

    path: str
    display_name: str
    created: float | None
    state: str
    owner: str
    discovery: Discovery

    @property
    def run_id(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The jobs that are watched, listed ones first, and how many found ones are over the limit."""

    jobs: tuple[Job, ...]
    dropped: int = 0


def assemble_fleet(config: Config, found: Sequence[FoundJob] = ()) -> Fleet:
    """Put listed and found jobs together, name them, and keep to `max_jobs`.

    Names are given before the limit is applied, so the limit changes no name. Listed jobs are never dropped; of found
    ones those that run are kept first, then the newest.
    """
    schedulers = {site: config.scheduler(site) for site in config.sites}
    listed, named = _name(jobs_from_config(config), found, schedulers)
    room = max(0, config.max_jobs - len(listed))
    if len(named) <= room:
        return Fleet((*listed, *(job for job, _ in named)))
    by_worth = sorted(named, key=lambda pair: (pair[1].state != "running", -_created(pair[1]), pair[1].path))
    kept = {job.run for job, _ in by_worth[:room]}
    return Fleet((*listed, *(job for job, _ in named if job.run in kept)), dropped=len(named) - len(kept))


def jobs_from_config(config: Config) -> tuple[Job, ...]:
    """Return the jobs that the config lists, in its order."""
    return tuple(
        Job(
            run=spec.run,
            bucket=spec.bucket,
            site=spec.site,
            kind=spec.kind,
            scheduler=config.scheduler(spec.site),
            scheduler_job=spec.scheduler_job,
            history=spec.history,
            checkpoints=spec.checkpoints,
            trials=spec.trials,
            config=spec.config,
            labels=spec.labels,
        )
        for spec in config.jobs
    )


def name_jobs(
    listed: Sequence[Job], found: Sequence[FoundJob], schedulers: Mapping[str, str] | None = None
) -> tuple[Job, ...]:
    """Put listed and found jobs together under unique names.

    Listed jobs come first and keep their names. A found run is known by its display name, or its id where it has
    none; where that name is taken by an older job the newer gets `@<site>`, then `#<run id>` behind it. The answer
    does not depend on the order of `found`. A run that a listed job names as its history is that job: it is not added,
    and gives the listed job its owner where the config names none.

    Args:
        listed: Jobs of the config.
        found: Runs that discovery found; one found twice is one job.
        schedulers: The word of each site's scheduler.
    """
    kept, named = _name(listed, found, schedulers or {})
    return (*kept, *(job for job, _ in named))


def _name(
    listed: Sequence[Job], found: Sequence[FoundJob], schedulers: Mapping[str, str]
) -> tuple[tuple[Job, ...], list[tuple[Job, FoundJob]]]:
    # The entry breaks the tie where two entries found one run, so that the same one wins at every look.
    in_order = sorted(found, key=lambda run: (_age_order(run), run.path, run.discovery.model_dump_json()))
    distinct: dict[str, FoundJob] = {}
    for run in in_order:
        distinct.setdefault(run.path, run)
    kept = tuple(_with_owner(job, distinct) for job in listed)
    listed_paths = {source.wandb for job in listed for source in job.history if source.wandb is not None}
    taken = {job.run for job in listed}
    named: list[tuple[Job, FoundJob]] = []
    for path, run in distinct.items():
        if path in listed_paths:
            continue
        name = next(candidate for candidate in _names(run) if candidate not in taken)
        taken.add(name)
        named.append((_job(name, run, schedulers), run))
    return kept, named


def _age_order(run: FoundJob) -> float:
    """Oldest first; a run whose time is not known counts as the newest, so it takes no name from another."""
    return math.inf if run.created is None else run.created


def _created(run: FoundJob) -> float:
    return -math.inf if run.created is None else run.created


def _names(run: FoundJob) -> Iterator[str]:
    """Yield the names of a found run in the order of preference, without end and each different."""
    name = run.display_name.strip() or run.run_id
    at_site = f"{name}@{run.discovery.site}"
    yield from (name, at_site, f"{at_site}#{run.run_id}")
    longest = f"{at_site}#{run.path}"
    while True:
        yield longest
        longest += f"#{run.run_id}"


def _with_owner(job: Job, found: Mapping[str, FoundJob]) -> Job:
    if job.labels.owner:
        return job
    paths = (source.wandb for source in job.history if source.wandb is not None)
    owner = next((found[path].owner for path in paths if path in found and found[path].owner), "")
    return replace(job, labels=job.labels.model_copy(update={"owner": owner})) if owner else job


def _job(name: str, run: FoundJob, schedulers: Mapping[str, str]) -> Job:
    discovery = run.discovery
    labels = discovery.labels
    if not labels.owner and run.owner:
        labels = labels.model_copy(update={"owner": run.owner})
    checkpoints = tuple(path for root in discovery.checkpoints if (path := _filled(root, run)) is not None)
    return Job(
        run=name,
        bucket=discovery.bucket,
        site=discovery.site,
        kind=discovery.kind,
        scheduler=schedulers.get(discovery.site, ""),
        history=(HistorySource(wandb=run.path),),
        checkpoints=checkpoints,
        trials=_trials(discovery, run),
        config=discovery.config,
        labels=labels,
        discovered=True,
    )


def _trials(discovery: Discovery, run: FoundJob) -> Trials | None:
    path = None if discovery.trials is None else _filled(discovery.trials.path, run)
    return None if discovery.trials is None or path is None else discovery.trials.model_copy(update={"path": path})


def _filled(template: str, run: FoundJob) -> str | None:
    """Put the run's display name (not the name made unique) into a path.

    None where the name would lead to another folder than the config means: it is anybody's text.
    """
    name = run.display_name.strip() or run.run_id
    if name.startswith(".") or not name.isprintable() or any(character in name for character in "/\\*?[]{}"):
        return None
    return template.replace("{name}", name)
