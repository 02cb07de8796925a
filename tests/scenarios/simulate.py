"""Drives the real exporter through a scenario, one look and one scrape a simulated minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runwatch.config.model import Config, HistorySource, Trials
from runwatch.exposition import Exposition
from runwatch.facts import Failure, FailureReason, HistoryUpdate, LogFacts, SourceKind
from runwatch.fleet import Job
from runwatch.job_record import JobRecord
from runwatch.report.explain import explain_text
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Deliver, Outcome
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.scenarios.format import Exporter, JobStory, Outage, Scenario
from tests.scenarios.upstreams import (
    ORIGIN,
    HistoryScript,
    checkpoint_listing,
    history_scripts,
    log_facts,
    scheduler_facts,
    trials_update,
)

MINUTE = 60.0
_ORIGINS = ("wandb", "jsonl", "log")

Samples = dict[str, float]
"""One scrape: the series as the exposition writes them, and their values."""


class Clock:
    """Simulated time: seconds after the scenario's start, and Unix seconds when called."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return ORIGIN + self.now


class ScriptedSource:
    """A source that answers with what the scenario's upstreams say now, for so many jobs a poll."""

    def __init__(self, kind: SourceKind, answer: Callable[[Job], Outcome], turns: int | None) -> None:
        self.kind = kind
        self._answer = answer
        self._turns = turns
        self._polls = 0
        self._read_at: dict[str, int] = {}

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        """Answer for each job at once, those first that waited longest; whose turn does not come hears that."""
        self._polls += 1
        waiting = sorted(jobs, key=lambda job: self._read_at.get(job.run, 0))
        for number, job in enumerate(waiting):
            if self._turns is not None and number >= self._turns:
                deliver(job, Failure(FailureReason.TIMEOUT, "its turn did not come"))
                continue
            self._read_at[job.run] = self._polls
            deliver(job, self._answer(job))

    def forget(self, run: str) -> None:
        """Nothing is kept but what a restart of the exporter starts anew."""

    def close(self) -> None:
        """Nothing is held."""


def job_of(key: str, story: JobStory, now: float) -> Job:
    """Return the job as the config has it at a time."""
    labels = story.labels
    for change in story.relabel:
        labels = change.labels if change.at <= now else labels
    run = story.run or key
    histories = {
        "wandb": HistorySource(wandb=f"team/project/{run}"),
        "jsonl": HistorySource(jsonl=Path(f"/runs/{run}.jsonl")),
        "log": HistorySource(log=f"/logs/{run}.out"),
    }
    return Job(
        run=run,
        bucket=story.bucket,
        site=story.site,
        kind=story.kind,
        scheduler=story.scheduler.kind if story.scheduler is not None else "",
        scheduler_job=f"job-{run}" if story.scheduler is not None else "",
        history=tuple(histories[history.origin] for history in story.history),
        checkpoints=("/ckpt",) if story.checkpoints is not None else (),
        trials=None if story.trials is None else Trials(path="/trials", target=story.trials.target),
        config=story.config,
        labels=labels,
    )


class RunningExporter:
    """One exporter of a scenario. A restart drops all it knows; its sources then deliver everything again."""

    def __init__(self, name: str, settings: Exporter, scenario: Scenario, clock: Clock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._begins = scenario.begins
        self._outages = [o for o in scenario.outages if o.exporter in {"", name}]
        wanted = settings.jobs or tuple(scenario.jobs)
        self._stories = {key: scenario.jobs[key] for key in wanted}
        self._keys = {(s.run or key, s.bucket, s.site): key for key, s in self._stories.items()}
        self._config = Config(
            poll_interval=f"{settings.interval:g}s",  # type: ignore[arg-type]
            stale_after=f"{settings.stale_after:g}s",  # type: ignore[arg-type]
            linger=f"{settings.linger:g}s",  # type: ignore[arg-type]
            **{f"{kind.value}_interval": f"{s:g}s" for kind, s in settings.intervals.items()},  # type: ignore[arg-type]
        )
        self._start()

    def _start(self) -> None:
        self._telemetry = Telemetry()
        self._watch = Watch(self._config, self._telemetry, clock=self._clock, monotonic=self._clock)
        self._exposition = Exposition()
        self._exposed: set[str] = set()
        self._jobs: list[Job] = []
        self._scripts = {key: history_scripts(story) for key, story in self._stories.items()}
        self._delivered: dict[tuple[str, int], int] = {}
        self._telemetry.set_jobs_dropped(0)
        self._telemetry.set_reload(True, self._clock())
        sites = {story.site for story in self._stories.values() if story.scheduler is not None}
        bindings = [
            *(SourceBinding(self._source(SourceKind.SCHEDULER), site=site) for site in sorted(sites)),
            *(SourceBinding(self._source(SourceKind.HISTORY, origin), origin) for origin in _ORIGINS),
            SourceBinding(self._source(SourceKind.CHECKPOINTS)),
            SourceBinding(self._source(SourceKind.TRIALS)),
            SourceBinding(self._source(SourceKind.LOG)),
        ]
        jobs = [job_of(key, story, self._clock.now) for key, story in self._stories.items()]
        self._bindings = [b for b in bindings if any(b.position(job) is not None for job in jobs)]

    def scrape(self) -> Samples | None:
        """Let a minute's looks happen and return what is scraped; None where no scrape succeeds."""
        now, settings = self._clock.now, self._settings
        if any(since <= now < until for since, until in settings.down):
            return None
        if now in settings.restarts or any(until == now for _, until in settings.down):
            self._start()
        for at, success in settings.reloads:
            if at == now:
                self._telemetry.set_reload(success, self._clock())
        for dropped in settings.dropped:
            if dropped.at <= now:
                self._telemetry.set_jobs_dropped(dropped.count)
        watched = [(key, s) for key, s in self._stories.items() if s.watched_from <= now < s.watched_until]
        jobs = [job_of(key, story, now) for key, story in watched]
        if jobs != self._jobs:
            self._jobs = jobs
            self._watch.set_jobs(self._config, jobs)
        for binding in self._bindings:
            kind = binding.source.kind
            if now % self._config.interval(kind) == 0:
                origin = binding.history_key
                self._watch.poll(binding, self._not_hanging(kind, origin))
        return self._expose()

    def explain(self, run: str) -> str:
        """Return what `runwatch explain` prints of a run now."""
        report = next(report for report in self._watch.reports() if report.run == run)
        return explain_text(report, self._clock())

    def _expose(self) -> Samples:
        reports = self._watch.reports()
        for report in reports:
            self._exposition.update(report)
        current = {report.run for report in reports}
        for run in self._exposed - current:
            self._exposition.remove(run)
        self._exposed = current
        self._telemetry.set_series(self._exposition.series)
        body = self._exposition.render(self._telemetry.render(reproducible=True)).plain
        return read_samples(body, ORIGIN + self._begins)

    def _key(self, job: Job) -> str:
        """Return the story of a job: one whose config changes is two, of which each is watched for a time."""
        return self._keys[job.run, job.bucket, job.site]

    def _outage(self, job: Job, kind: SourceKind, origin: str) -> Outage | None:
        now = self._clock.now
        return next(
            (
                o
                for o in self._outages
                if o.source is kind
                and o.since <= now < o.until
                and o.job in {"", self._key(job)}
                and o.site in {"", job.site}
                and o.origin in {"", origin}
            ),
            None,
        )

    def _not_hanging(self, kind: SourceKind, origin: str) -> Callable[[JobRecord], bool] | None:
        def is_asked(record: JobRecord) -> bool:
            outage = self._outage(record.job, kind, origin)
            return outage is None or not outage.hangs

        return is_asked if any(outage.hangs for outage in self._outages) else None

    def _source(self, kind: SourceKind, origin: str = "") -> ScriptedSource:
        def answer(job: Job) -> Outcome:
            outage = self._outage(job, kind, origin)
            if outage is not None:
                return Failure(outage.reason, "the scenario says so", outage.whole_source)
            return self._answer(job, kind, origin)

        return ScriptedSource(kind, answer, self._settings.turns.get(kind))

    def _answer(self, job: Job, kind: SourceKind, origin: str) -> Outcome:
        key, now = self._key(job), self._clock.now
        story = self._stories[key]
        if kind is SourceKind.HISTORY:
            position = next(i for i, history in enumerate(story.history) if history.origin == origin)
            return self._history(key, position, self._scripts[key][position], now)
        if kind is SourceKind.SCHEDULER and story.scheduler is not None:
            facts = scheduler_facts(story.scheduler, job.scheduler_job, now)
            return facts if facts is not None else Failure(FailureReason.NOT_FOUND, "not submitted yet")
        if kind is SourceKind.CHECKPOINTS:
            return checkpoint_listing(story.checkpoints or (), now)
        if kind is SourceKind.TRIALS and story.trials is not None:
            return trials_update(story.trials, now)
        return log_facts(story.log, now) if story.log is not None else LogFacts(("/logs/job.out",))

    def _history(self, key: str, position: int, script: HistoryScript, now: float) -> HistoryUpdate:
        delivered = self._delivered.get((key, position), 0)
        rows = script.rows(delivered, now)
        self._delivered[key, position] = delivered + len(rows)
        return HistoryUpdate(script.run(now), rows)


def read_samples(body: bytes, beginning: float) -> Samples:
    """Read a body of text format without timestamps, as the exporter writes it: one series and its value a line.

    Args:
        body: what is scraped.
        beginning: the Unix time that is promtool's 0.
    """
    samples: Samples = {}
    for line in body.decode().splitlines():
        if line.startswith("#") or not line:
            continue
        series, _, value = line.rpartition(" ")
        is_time = series.partition("{")[0].endswith("_timestamp_seconds")
        samples[series] = float(value) - beginning if is_time else float(value)
    return samples


def with_target(series: str, labels: Mapping[str, str]) -> str:
    """Add a scrape target's labels to a series."""
    added = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{series[:-1]},{added}}}" if series.endswith("}") else f"{series}{{{added}}}"


def simulate(scenario: Scenario, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, list[float | None]]:
    """Run a scenario.

    Args:
        scenario: what happens.
        wanted: whether a metric's name is worth keeping.

    Returns:
        Each series with the labels of its target, and its value at each minute that is watched; None where it is
        absent.
    """
    clock = Clock()
    clock.now = scenario.begins
    exporters = {name: RunningExporter(name, e, scenario, clock) for name, e in scenario.exporters.items()}
    series: dict[str, list[float | None]] = {}
    watched = scenario.watched
    for past, minute in enumerate(watched):
        clock.now = minute * MINUTE
        for name, exporter in exporters.items():
            settings = scenario.exporters[name]
            if any(since <= clock.now < until for since, until in settings.gone):
                continue
            target = {"instance": f"exporter-{name}:9877", "job": "runwatch", **settings.target}
            samples = exporter.scrape()
            found = {"up": 0.0} if samples is None else {"up": 1.0, **samples}
            for line, value in found.items():
                metric = line.partition("{")[0]
                if wanted(metric) and metric not in settings.lacks:
                    values = series.setdefault(with_target(line, target), [])
                    values += [None] * (past - len(values))
                    values.append(value)
    for values in series.values():
        values.extend([None] * (len(watched) - len(values)))
    return series
