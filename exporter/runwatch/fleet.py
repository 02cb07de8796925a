"""Which jobs are watched, and the name each one is known by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runwatch.config.model import Bucket, Config, Discovery, HistorySource, Labels, TrainerConfig, Trials
from runwatch.found.places import Places, named_log, places_of, wandb_paths
from runwatch.found.rival_logs import rival_logs
from runwatch.found.shards import Shard


@dataclass(frozen=True, slots=True)
class Job:
    """One watched job. `run` is unique in the fleet and is the key of everything that is known of the job.

    `scheduler` is the word of the site's scheduler, empty where the site has none. `scheduler_user` is whose the
    scheduler job is, where several people's may have one name there. `rival_logs` are paths and globs of
    other jobs' logs that this job's glob fits too.
    """

    run: str
    bucket: Bucket
    site: str = "none"
    kind: str = ""
    scheduler: str = ""
    scheduler_job: str = ""
    scheduler_user: str = ""
    history: tuple[HistorySource, ...] = ()
    checkpoints: tuple[str, ...] = ()
    trials: Trials | None = None
    config: TrainerConfig = field(default_factory=TrainerConfig)
    labels: Labels = field(default_factory=Labels)
    discovered: bool = False
    rival_logs: tuple[str, ...] = ()


def asks_log(job: Job) -> bool:
    """Tell whether a job's log is read for more than its steps.

    A log that the config names always; a scheduler's own only where the results are no steps, since a call for each
    job and poll is much to ask of a controller.
    """
    named = any(source.log is not None for source in job.history)
    return named or bool(job.scheduler and job.scheduler_job and job.bucket in ("datagen", "eval", "other"))


def read_from(job: Job) -> Job:
    """Return a job without what only says how its facts are to be taken, and without the places that may be added."""
    trials = None if job.trials is None else job.trials.model_copy(update={"target": None})
    return Job(job.run, job.bucket, job.site, "", job.scheduler, job.scheduler_job, job.scheduler_user, trials=trials)


@dataclass(frozen=True, slots=True)
class FoundJob:
    """One run that discovery found in a W&B project.

    `path` is `entity/project/run_id`, `created` Unix seconds (None where W&B does not say), `state` W&B's own word,
    `owner` the run's user, `discovery` the entry of the config that found it. `places` are where its checkpoints and
    trials lie; None has the entry's templates filled with the run's name, those with a `*` left out.
    """

    path: str
    display_name: str
    created: float | None
    state: str
    owner: str
    discovery: Discovery
    places: Places | None = None

    @property
    def run_id(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def name(self) -> str:
        """The run's display name, or its id where it has none."""
        return self.display_name.strip() or self.run_id


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """One job that discovery found at a scheduler.

    `name` is what the entry's expression calls it, `scheduler_name` the scheduler's own name, `scheduler_job` the id
    that it is asked for by, `ids` all that it is known by there. `submitted` is when it was first submitted, Unix
    seconds. `alive` tells whether any of it goes on. `namespace` is the one that it was found in, where the config
    names it (Kubernetes).
    """

    name: str
    scheduler_job: str
    scheduler_name: str
    ids: tuple[str, ...]
    submitted: float | None
    alive: bool
    owner: str
    discovery: Discovery
    places: Places
    namespace: str = ""

    @property
    def site(self) -> str:
        """The site whose scheduler it was found at."""
        return self.discovery.site


@dataclass(frozen=True, slots=True)
class Fleet:
    """The jobs that are watched, listed ones first, and how many found ones are over the limit."""

    jobs: tuple[Job, ...]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """A found job before it has its final name: what names and the limit are decided by.

    `key` tells it from all others; `created` is None where its age is not known.
    """

    job: Job
    key: str
    suffix: str
    created: float | None
    runs: bool


def assemble_fleet(
    config: Config,
    found: Sequence[FoundJob] = (),
    scheduled: Sequence[ScheduledJob] = (),
    shard: Shard | None = None,
) -> Fleet:
    """Put listed and found jobs together, each once, name them, keep to the shard and to `max_jobs`.

    Names are given before a shard's part is taken and the limit is applied, so neither changes a name. The limit is
    that of one exporter: it counts the jobs of the shard. Listed jobs are never dropped; of found ones those that run
    are kept first, then the newest.
    """
    schedulers = {site: config.scheduler(site) for site in config.sites}
    listed, named = _name(jobs_from_config(config), found, scheduled, schedulers)
    logs = {
        job.run: log for job in (*listed, *(each.job for each in named)) if (log := named_log(job.history)) is not None
    }
    rivals = rival_logs(logs)
    listed = tuple(replace(job, rival_logs=rivals.get(job.run, ())) for job in listed)
    named = [replace(each, job=replace(each.job, rival_logs=rivals.get(each.job.run, ()))) for each in named]
    if shard is not None:
        listed = tuple(job for job in listed if shard.takes(job.run, job.labels.grid))
        named = [each for each in named if shard.takes(each.job.run, each.job.labels.grid)]
    room = max(0, config.max_jobs - len(listed))
    if len(named) <= room:
        return Fleet((*listed, *(each.job for each in named)))
    by_worth = sorted(named, key=lambda each: (not each.runs, -_newness(each), each.key))
    kept = {each.job.run for each in by_worth[:room]}
    return Fleet((*listed, *(each.job for each in named if each.job.run in kept)), dropped=len(named) - len(kept))


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
    listed: Sequence[Job],
    found: Sequence[FoundJob],
    schedulers: Mapping[str, str] | None = None,
    scheduled: Sequence[ScheduledJob] = (),
) -> tuple[Job, ...]:
    """Put listed and found jobs together under unique names.

    Listed jobs come first and keep their names. A found run is known by its display name, or its id where it has
    none, a job found at a scheduler by what its entry's expression calls it; where that name is taken by an older job
    the newer gets `@<site>`, then `#<run id>` or `#<scheduler id>` behind it. The answer does not depend on the order
    of what was found.

    A found job that a listed job names as its history, or by its scheduler job, is that job: it is not added, and
    gives the listed job its owner (and, at the same site, its scheduler job) where the config names none. A run of W&B
    that is the history of a job found at a scheduler is one job with it: it has the settings of the run's entry and
    the name that it was known by before the run began. Of several scheduler jobs with one history the oldest that
    goes on has it, else the newest.

    Args:
        listed: Jobs of the config.
        found: Runs that discovery found; one found twice is one job.
        schedulers: The word of each site's scheduler.
        scheduled: Jobs that discovery found at schedulers, each once.
    """
    kept, named = _name(listed, found, scheduled, schedulers or {})
    return (*kept, *(each.job for each in named))


def _name(
    listed: Sequence[Job],
    found: Sequence[FoundJob],
    scheduled: Sequence[ScheduledJob],
    schedulers: Mapping[str, str],
) -> tuple[tuple[Job, ...], list[_Found]]:
    # The entry breaks the tie where two entries found one run, so that the same one wins at every look.
    in_order = sorted(found, key=lambda run: (_age_order(run.created), run.path, run.discovery.model_dump_json()))
    distinct: dict[str, FoundJob] = {}
    for run in in_order:
        distinct.setdefault(run.path, run)
    jobs = _one_a_history(scheduled)
    kept = tuple(_completed(job, distinct, jobs) for job in listed)
    listed_paths = {path for job in kept for path in wandb_paths(job.history)}
    by_path: dict[str, ScheduledJob] = {}
    separate: list[_Found] = []
    for own in jobs:
        paths = wandb_paths(own.places.history)
        if listed_paths & set(paths) or any(means(job, own) for job in kept):
            continue
        run_path = next((path for path in paths if path in distinct), None)
        if run_path is None:
            separate.append(_from_scheduler(own, schedulers))
        else:
            by_path[run_path] = own
    for path, run in distinct.items():
        if path not in listed_paths:
            separate.append(_from_wandb(run, by_path.get(path), schedulers))
    taken = {job.run for job in listed}
    named: list[_Found] = []
    for each in sorted(separate, key=lambda each: (_age_order(each.created), each.key)):
        name = next(candidate for candidate in _names(each) if candidate not in taken)
        taken.add(name)
        named.append(replace(each, job=replace(each.job, run=name)))
    return kept, named


def means(listed: Job, found: ScheduledJob) -> bool:
    """Tell whether a listed job names a job that was found at its site's scheduler.

    It may do so by an id, a name, a Kubernetes kind or namespace with the name, or the child of an Iris coordinator.
    """
    written = listed.scheduler_job.strip()
    if not written or listed.site != found.site:
        return False
    if written in found.ids or written in (found.scheduler_job, found.scheduler_name):
        return True
    if found.scheduler_name.startswith("/"):
        return written.startswith(f"{found.scheduler_name}/") or found.scheduler_name.startswith(f"{written}/")
    if listed.scheduler != "kubernetes":
        return False
    *before, name = written.split("/")
    kind, _, found_name = found.scheduler_job.rpartition("/")
    kinds = {part.lower().removesuffix("s") for part in before} & {"job", "jobset", "pod"}
    namespaces = set(before[: len(before) - len(kinds)])
    if found.namespace and namespaces - {found.namespace}:
        return False
    return name == found_name and (not kinds or not kind or kind in kinds)


def _one_a_history(scheduled: Sequence[ScheduledJob]) -> list[ScheduledJob]:
    """Let no two jobs have one W&B run.

    Of those that go on each stays, for its scheduler tells of it, and the oldest has the run, as it has the name. One
    that ended stays unless another has its run: that one is the same work, submitted anew.
    """
    oldest_first = sorted(scheduled, key=lambda job: (_age_order(job.submitted), job.site, job.scheduler_job))
    alive = [job for job in oldest_first if job.alive]
    ended = [job for job in reversed(oldest_first) if not job.alive]
    taken: set[str] = set()
    kept: list[ScheduledJob] = []
    for job in (*alive, *ended):
        paths = set(wandb_paths(job.places.history))
        if not paths & taken:
            kept.append(job)
        elif job.alive:
            history = tuple(source for source in job.places.history if source.wandb not in taken)
            kept.append(replace(job, places=replace(job.places, history=history)))
        else:
            continue
        taken |= paths
    return kept


def _age_order(time: float | None) -> float:
    """Oldest first; what has no known time counts as the newest, so it takes no name from another."""
    return math.inf if time is None else time


def _newness(found: _Found) -> float:
    return -math.inf if found.created is None else found.created


def _names(found: _Found) -> Iterator[str]:
    """Yield the names of a found job in the order of preference, without end and each different."""
    at_site = f"{found.job.run}@{found.job.site}"
    yield from (found.job.run, at_site, f"{at_site}#{found.suffix}")
    longest = f"{at_site}#{found.key}"
    while True:
        yield longest
        longest += f"#{found.suffix}"


def _completed(job: Job, found: Mapping[str, FoundJob], scheduled: Sequence[ScheduledJob]) -> Job:
    """Give a listed job what the config leaves out and discovery knows."""
    paths = wandb_paths(job.history)
    own = [each for each in scheduled if means(job, each)]
    if not job.scheduler_job:
        own = [
            each for each in scheduled if each.site == job.site and set(paths) & set(wandb_paths(each.places.history))
        ]
        job = (
            replace(job, scheduler_job=own[0].scheduler_job, scheduler_user=_user(own[0], job.scheduler))
            if own
            else job
        )
    owners = [found[path].owner for path in paths if path in found] + [each.owner for each in own]
    return replace(job, labels=_owned(job.labels, *owners))


def _owned(labels: Labels, *owners: str) -> Labels:
    owner = next(filter(None, owners), "")
    return labels if labels.owner or not owner else labels.model_copy(update={"owner": owner})


def _user(found: ScheduledJob, scheduler: str) -> str:
    """Return whose job it is: only SLURM has jobs of several people under one name."""
    return found.owner if scheduler == "slurm" else ""


def _from_wandb(run: FoundJob, own: ScheduledJob | None, schedulers: Mapping[str, str]) -> _Found:
    discovery = run.discovery
    places = run.places or places_of(discovery, {"name": run.name})
    job = Job(
        run=run.name,
        bucket=discovery.bucket,
        site=discovery.site,
        kind=discovery.kind,
        scheduler=schedulers.get(discovery.site, ""),
        history=(HistorySource(wandb=run.path),),
        checkpoints=places.checkpoints,
        trials=places.trials,
        config=discovery.config,
        labels=_owned(discovery.labels, run.owner),
        discovered=True,
    )
    if own is None:
        return _Found(job, run.path, run.run_id, run.created, run.state == "running")
    also = _from_scheduler(own, schedulers)
    job = replace(
        job,
        run=also.job.run,
        site=also.job.site,
        scheduler=also.job.scheduler,
        scheduler_job=also.job.scheduler_job,
        scheduler_user=also.job.scheduler_user,
        kind=job.kind or also.job.kind,
        history=also.job.history,
        checkpoints=job.checkpoints or also.job.checkpoints,
        trials=job.trials or also.job.trials,
        config=also.job.config if job.config == TrainerConfig() else job.config,
        labels=_owned(job.labels, own.owner),
    )
    return replace(also, job=job, runs=also.runs or run.state == "running")


def _from_scheduler(own: ScheduledJob, schedulers: Mapping[str, str]) -> _Found:
    discovery = own.discovery
    job = Job(
        run=own.name,
        bucket=discovery.bucket,
        site=own.site,
        kind=discovery.kind,
        scheduler=schedulers.get(own.site, ""),
        scheduler_job=own.scheduler_job,
        scheduler_user=_user(own, schedulers.get(own.site, "")),
        history=own.places.history,
        checkpoints=own.places.checkpoints,
        trials=own.places.trials,
        config=discovery.config,
        labels=_owned(discovery.labels, own.owner),
        discovered=True,
    )
    return _Found(job, f"{own.site}/{own.scheduler_job}", own.scheduler_job, own.submitted, own.alive)
