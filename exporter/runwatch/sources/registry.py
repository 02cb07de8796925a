"""Which sources there are, and making those that the jobs need. A new source is added here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from runwatch.config.model import Config, Site
from runwatch.config.paths import allowed_roots
from runwatch.facts import Failure, SourceKind
from runwatch.fleet import Job, asks_log
from runwatch.parsing.failures import FailureFinder
from runwatch.parsing.trainer_log import TrainerLogParser
from runwatch.sources.binding import SourceBinding
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.file_roots import FileRoots
from runwatch.sources.jsonl import JsonLinesReader
from runwatch.sources.log_history import LogHistoryReader
from runwatch.sources.log_tails import Tail
from runwatch.sources.log_watch import LogWatch
from runwatch.sources.per_job import PerJobSource
from runwatch.sources.protocol import FindsRuns, FindsSchedulerJobs, Outcome, Source
from runwatch.sources.trials import TrialsReader
from runwatch.sources.wandb_offline import WandbOfflineReader
from runwatch.telemetry import Telemetry

_DEADLINE_SECONDS = 30.0
_SCHEDULERS = ("iris", "kubernetes", "slurm")


@dataclass(slots=True)
class _Made:
    """A source that was made, what of the config it was made from, and what it can find."""

    binding: SourceBinding
    settings: object
    finder: object = field(default=None)


class SourceSet:
    """Makes each source when the first job needs it, and closes it when no job does any more.

    Args:
        telemetry: where requests are counted.
        at: hide what was recorded after this time (Unix seconds).
        clock: the time now, Unix seconds.
        progress: is told of long first reads, one line at a time.
        log_paths: where a job's scheduler says that its log is.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        progress: Callable[[str], None] | None = None,
        log_paths: Callable[[Job], Sequence[str]] = lambda _: (),
    ) -> None:
        self._telemetry = telemetry
        self._at = at
        self._clock = clock
        self._progress = progress
        self._log_paths = log_paths
        self._roots = FileRoots(())
        self._log_watch: tuple[object, LogWatch] | None = None
        self._made: dict[str, _Made] = {}
        self._retired: list[Source] = []

    def bindings(self, config: Config, jobs: Iterable[Job]) -> list[SourceBinding]:
        """Return the sources that these jobs and the discoveries need. One whose settings changed is made anew."""
        # In place: a job that is added in a new folder must not make sources anew that are in the middle of files.
        self._roots.allow(allowed_roots(config))
        wanted = self._wanted(config, jobs)
        for key in [key for key, made in self._made.items() if key not in wanted or made.settings != wanted[key]]:
            self._retired.append(self._made.pop(key).binding.source)
        if "log" not in wanted:
            self._log_watch = None  # what it holds of jobs that are gone is not to meet them when they are back
        for key in sorted(wanted):
            if key not in self._made:
                self._made[key] = self._make(key, config, wanted[key])
        return [made.binding for made in self._made.values()]

    @property
    def runs_finder(self) -> FindsRuns | None:
        """The W&B source, which also lists projects; None when nothing needs it."""
        made = self._made.get("wandb")
        return made.finder if made is not None else None  # type: ignore[return-value]

    @property
    def scheduler_finders(self) -> dict[str, FindsSchedulerJobs]:
        """The schedulers' sources by site, which also find jobs."""
        return {
            made.binding.site: made.finder  # type: ignore[misc]
            for made in self._made.values()
            if made.binding.source.kind is SourceKind.SCHEDULER
        }

    def close_retired(self) -> None:
        """Release what is needed no more. Their last polls should be over."""
        retired, self._retired = self._retired, []
        for source in retired:
            source.close()

    def close(self) -> None:
        """Release all connections and processes."""
        self._retired += [made.binding.source for made in self._made.values()]
        self._made.clear()
        self.close_retired()

    def _wanted(self, config: Config, jobs: Iterable[Job]) -> dict[str, object]:
        wanted: dict[str, object] = {}
        for job in jobs:
            for key in ("wandb_offline", "jsonl"):
                if any(getattr(history, key) is not None for history in job.history):
                    wanted[key] = None
            if any(history.wandb is not None for history in job.history):
                wanted["wandb"] = config.wandb
            if job.checkpoints:
                wanted["checkpoints"] = None
            if job.trials is not None:
                wanted["trials"] = None
            if any(history.log is not None for history in job.history):
                wanted["log history"] = _log_settings(config)
            if asks_log(job):
                wanted["log"] = _log_settings(config)
            if job.scheduler_job and job.site in config.sites:
                _want_scheduler(wanted, job.site, config.sites[job.site])
        for entry in config.discover:
            templates = (source.wandb for source in entry.history)
            if entry.wandb is not None or any(template is not None for template in templates):
                wanted["wandb"] = config.wandb
            if entry.match is not None and entry.site in config.sites:
                _want_scheduler(wanted, entry.site, config.sites[entry.site])
        return wanted

    def _make(self, key: str, config: Config, settings: object) -> _Made:
        if key == "wandb":
            return self._make_wandb(config, settings)
        if isinstance(settings, Site):
            return self._make_scheduler(key.partition(" ")[2], settings)
        if key == "checkpoints":
            return _Made(SourceBinding(self._make_checkpoints(config)), settings)
        if key == "trials":
            return _Made(SourceBinding(self._make_trials(config)), settings)
        if key in ("log", "log history"):
            return self._make_log(key, config, settings)
        return _Made(SourceBinding(self._make_files(key, config), key), settings)

    def _make_wandb(self, config: Config, settings: object) -> _Made:
        # Only a config that names W&B pays the import of its client.
        from runwatch.sources.wandb_online import WandbHistory  # noqa: PLC0415

        online = WandbHistory(
            config.wandb,
            self._counter(SourceKind.HISTORY),
            at=self._at,
            clock=self._clock,
            deadline_seconds=_DEADLINE_SECONDS,
            progress=self._progress,
        )
        return _Made(SourceBinding(online, "wandb"), settings, online)

    def _make_scheduler(self, name: str, site: Site) -> _Made:
        count = self._counter(SourceKind.SCHEDULER)
        scheduler: Source
        if site.scheduler == "iris":
            from runwatch.sources.iris import IrisScheduler  # noqa: PLC0415

            scheduler = IrisScheduler(name, site, count, at=self._at, clock=self._clock)
        elif site.scheduler == "kubernetes":
            # Only a site on Kubernetes pays the import of its client.
            from runwatch.sources.kubernetes_scheduler import KubernetesScheduler  # noqa: PLC0415

            scheduler = KubernetesScheduler(name, site, count, at=self._at, clock=self._clock)
        else:
            from runwatch.sources.slurm_scheduler import SlurmScheduler  # noqa: PLC0415

            scheduler = SlurmScheduler(name, site, count, at=self._at, clock=self._clock)
        return _Made(SourceBinding(scheduler, site=name), site, scheduler)

    def _make_files(self, key: str, config: Config) -> Source:
        kind = JsonLinesReader if key == "jsonl" else WandbOfflineReader
        reader = kind(at=self._at, roots=self._roots)
        return PerJobSource(
            SourceKind.HISTORY,
            self._counted(reader.read),
            deadline=_DEADLINE_SECONDS,
            interval=config.interval(SourceKind.HISTORY),
            forget=reader.forget,
        )

    def _make_checkpoints(self, config: Config) -> Source:
        listings = CheckpointReader(
            self._counter(SourceKind.CHECKPOINTS), at=self._at, clock=self._clock, roots=self._roots
        )
        return PerJobSource(
            SourceKind.CHECKPOINTS,
            listings.read,
            deadline=_DEADLINE_SECONDS,
            interval=config.interval(SourceKind.CHECKPOINTS),
            forget=listings.forget,
            close=listings.close,
        )

    def _make_trials(self, config: Config) -> Source:
        reader = TrialsReader(self._counter(SourceKind.TRIALS), at=self._at, clock=self._clock, roots=self._roots)
        return PerJobSource(
            SourceKind.TRIALS,
            reader.read,
            deadline=_DEADLINE_SECONDS,
            interval=config.interval(SourceKind.TRIALS),
            forget=reader.forget,
            close=reader.close,
        )

    def _make_log(self, key: str, config: Config, settings: object) -> _Made:
        """Both readers of logs share one `LogWatch`: a log is read once for its steps and its other facts."""
        if self._log_watch is None or self._log_watch[0] != settings:
            watch = LogWatch(
                config,
                self._counter(SourceKind.LOG),
                make_trainer=TrainerLogParser,
                make_failures=FailureFinder,
                log_paths=self._log_paths,
                log_tail=self._log_tail,
                at=self._at,
                clock=self._clock,
                roots=self._roots,
            )
            self._log_watch = (settings, watch)
        watch = self._log_watch[1]
        history = LogHistoryReader(watch) if key == "log history" else None
        kind = SourceKind.HISTORY if history is not None else SourceKind.LOG
        source = PerJobSource(
            kind,
            history.read if history is not None else watch.read,
            deadline=_DEADLINE_SECONDS,
            interval=config.interval(kind),
            forget=history.forget if history is not None else watch.forget,
        )
        return _Made(SourceBinding(source, "log" if history is not None else ""), settings)

    def _log_tail(self, job: Job, lines: int) -> Tail | Failure | None:
        """Fetch the newest lines through the job's scheduler, where that has a call for it.

        Iris and Kubernetes tell when each was written: at the first look nothing else does for lines without a stamp of
        their own. Iris gives those of all tasks, of which the first one's tell the steps.
        """
        made = self._made.get(f"scheduler {job.site}")
        tail = getattr(made.binding.source, "log_tail", None) if made is not None else None
        if tail is None:
            return None
        answer: Tail | Failure = tail(job.scheduler_job, lines)
        return answer

    def _counter(self, kind: SourceKind) -> Callable[[str], None]:
        return lambda site: self._telemetry.count_request(kind, site)

    def _counted(self, read: Callable[[Job], Outcome]) -> Callable[[Job], Outcome]:
        def counted(job: Job) -> Outcome:
            self._telemetry.count_request(SourceKind.HISTORY, job.site)
            return read(job)

        return counted


def _log_settings(config: Config) -> tuple[object, ...]:
    return (config.sites, config.file_roots, config.benign_lines)


def _want_scheduler(wanted: dict[str, object], name: str, site: Site) -> None:
    if site.scheduler in _SCHEDULERS:
        wanted[f"scheduler {name}"] = site
