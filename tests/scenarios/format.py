"""The format of a scenario file: what the upstreams do, and which alerts fire when. `README.md` tells it in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from runwatch.config.model import Bucket, Labels, TrainerConfig
from runwatch.facts import AttemptEnd, FailureReason, HistoryEnd, SchedulerState, SourceKind

_TIME = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?[smhd])+")
_PART = re.compile(r"([0-9.]+)([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: object) -> float:
    """Read `1h30m`, `90s`, `-20m` or 0 as seconds.

    Raises:
        ValueError: it is none of these.
    """
    text = str(value)
    if text == "0":
        return 0.0
    if not _TIME.fullmatch(text):
        raise ValueError(f"expected a time such as 90s, 1h30m, -20m or 0, got {text!r}")
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return -total if text.startswith("-") else total


Time = Annotated[float, BeforeValidator(seconds)]
"""Seconds after the scenario's time 0, which is when it is first looked at unless it says otherwise."""

Logged = float | tuple[float, float]
"""A value that stays, or that goes in a straight line from the first to the second over its steps."""


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Repeated(Strict):
    """Something that happens once (`at`), or each `every` from `from` on until `until` or `count` times."""

    at: Time | None = None
    since: Time | None = Field(default=None, alias="from")
    every: Time = 60.0
    until: Time | None = None
    count: int | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Repeated:
        if (self.at is None) == (self.since is None):
            raise ValueError("expected one of `at` and `from`")
        if self.since is not None and (self.until is None) == (self.count is None):
            raise ValueError("expected one of `until` and `count` beside `from`")
        return self

    def times(self) -> list[float]:
        """When it happens; `until` itself is a time where the rhythm meets it."""
        if self.at is not None:
            return [self.at]
        assert self.since is not None
        count = self.count
        if count is None:
            assert self.until is not None
            count = int((self.until - self.since) / self.every + 1e-9) + 1
        return [self.since + self.every * i for i in range(count)]


class Steps(Repeated):
    """Rows of a history, one a step. `first` is the step of the first (default: one after the last row before)."""

    first: int | None = None
    stride: int = 1
    values: dict[str, Logged] = {}


class End(Strict):
    """The run tells its tracker that it ended."""

    at: Time
    how: HistoryEnd
    exit_code: int | None = None


class History(Strict):
    """Rows, and for W&B when the process spoke to it (`alive`: spans of time; default: from first to last row)."""

    origin: Literal["wandb", "jsonl", "log"] = "wandb"
    config: dict[str, object] = {}
    clock: Time = 0.0
    created: Time | None = None
    alive: tuple[tuple[Time, Time], ...] | None = None
    values: dict[str, Logged] = {}
    steps: tuple[Steps, ...] = ()
    end: End | None = None


class Next(Strict):
    """The next link of a restart chain."""

    scheduler_job: str
    running: bool = False
    can_start: bool = True


class Placement(Strict):
    """What the scheduler says from a time on.

    `after` is how the attempt before it ended, `fallen` of how many tasks alone.
    """

    since: Time = Field(alias="from")
    state: SchedulerState
    after: AttemptEnd | None = None
    fallen: int | None = None
    detail: str = ""
    exit_code: int | None = None
    link: str | None = None
    tasks: dict[Literal["running", "pending", "succeeded", "failed"], int] | None = None
    waiting: str = ""
    successor: Next | None = None


class Scheduler(Strict):
    """A gang of tasks. `covered` tells whether all attempts since the submission are shown (Kubernetes: only now's)."""

    kind: Literal["iris", "kubernetes", "slurm"]
    gang: int = 1
    covered: bool | None = None
    tells_tasks: bool = True
    states: tuple[Placement, ...]


class Save(Repeated):
    """Checkpoints, complete at those times. From `begun` before it on, and for ever with `partial`, it is partial."""

    step: int
    stride: int = 0
    begun: Time | None = None
    partial: bool = False


class Results(Repeated):
    """Trials that end at those times."""

    together: int = 1
    reward: float | None = 1.0
    turns: float | None = 8.0
    exception: str = ""
    instant: bool = False
    chunk: int | None = None


class Trials(Strict):
    """Results of Harbor. `target` is the config's, `total` what Harbor itself says, `finished` when it says so."""

    target: int | None = None
    total: int | None = None
    chunks: tuple[int, ...] = ()
    finished: Time | None = None
    results: tuple[Results, ...] = ()


class LogEvent(Repeated):
    """Lines of a log."""

    running_requests: int | None = None
    success: bool = False
    auth_failure: bool = False
    upload: Literal["complete", "failed"] | None = None
    tunnel: bool | None = None
    failure: str = ""
    text: str = "it broke"
    completed: bool = False
    chunk_write: int | None = None


class Log(Strict):
    """`written`: spans of time in which lines come."""

    written: tuple[tuple[Time, Time], ...] = ()
    events: tuple[LogEvent, ...] = ()


class Relabel(Strict):
    """The config gives the job other labels from a time on."""

    at: Time
    labels: Labels


class JobStory(Strict):
    """One job: what its upstreams do."""

    run: str = ""
    bucket: Bucket
    site: str = "none"
    kind: str = ""
    watched_from: Time = float("-inf")
    watched_until: Time = float("inf")
    config: TrainerConfig = TrainerConfig()
    labels: Labels = Labels()
    relabel: tuple[Relabel, ...] = ()
    scheduler: Scheduler | None = None
    history: tuple[History, ...] = ()
    checkpoints: tuple[Save, ...] | None = None
    trials: Trials | None = None
    log: Log | None = None


class Outage(Strict):
    """Looks that fail; with `hangs` the source is not asked at all. Without `run` or `site` all of its jobs."""

    source: SourceKind
    since: Time = Field(alias="from")
    until: Time = float("inf")
    reason: FailureReason = FailureReason.NETWORK
    whole_source: bool = False
    hangs: bool = False
    origin: str = ""
    job: str = ""
    site: str = ""
    exporter: str = ""


class Dropped(Strict):
    """So many discovered jobs are over the limit from a time on."""

    at: Time
    count: int


class Exporter(Strict):
    """One exporter. `restarts` lose its memory, in the spans of `down` no scrape succeeds, `lacks` it does not tell.

    `turns` are how many jobs a poll of a source reads at most.
    """

    interval: Time = 60.0
    intervals: dict[SourceKind, Time] = {}
    turns: dict[SourceKind, int] = {}
    stale_after: Time = 7200.0
    linger: Time = 86400.0
    jobs: tuple[str, ...] = ()
    target: dict[str, str] = {}
    restarts: tuple[Time, ...] = ()
    down: tuple[tuple[Time, Time], ...] = ()
    gone: tuple[tuple[Time, Time], ...] = ()
    reloads: tuple[tuple[Time, bool], ...] = ()
    dropped: tuple[Dropped, ...] = ()
    lacks: tuple[str, ...] = ()


class Firing(Strict):
    """One alert that fires from the evaluation at `from` on, and no more at that of `until`.

    `fact` is when what it tells of happened, by true time; None where something else decides when it begins to fire.
    """

    alert: str
    severity: Literal["critical", "warning", "info"]
    fact: Time | None = None
    since: Time = Field(alias="from")
    until: Time = float("inf")
    job: str = ""
    labels: dict[str, str] = {}


class Scenario(Strict):
    """A whole file. It is watched from `begins`, a whole minute, until `minutes` after the time 0 of its facts."""

    about: str
    covers: tuple[str, ...] = Field(description="`ALERT: fires`, `ALERT: below`, `ALERT: benign` or `story`.")
    begins: Time = Field(default=0.0, multiple_of=60.0)
    minutes: int = Field(ge=1)
    exporters: dict[str, Exporter] = {"a": Exporter()}
    jobs: dict[str, JobStory] = {}
    outages: tuple[Outage, ...] = ()
    expect: tuple[Firing, ...] = ()

    @property
    def watched(self) -> range:
        """The minutes at which it is looked at, scraped and judged."""
        return range(int(self.begins // 60), self.minutes + 1)


def load_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raises:
        ValueError: the file is not as the format wants it; the message names the file and each key.
    """
    try:
        scenario = Scenario.model_validate(yaml.load(path.read_text(), Loader=yaml.CSafeLoader))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    _check_names(path.name, scenario)
    return scenario


def _check_names(name: str, scenario: Scenario) -> None:
    named = [(f"expect {firing.alert}", firing.job) for firing in scenario.expect]
    named += [("outages", outage.job) for outage in scenario.outages]
    named += [("exporters", job) for exporter in scenario.exporters.values() for job in exporter.jobs]
    for where, job in named:
        if job and job not in scenario.jobs:
            raise ValueError(f"{name}: {where}: there is no job {job!r}")
    for firing in scenario.expect:
        if firing.fact is not None and firing.fact > firing.since:
            raise ValueError(f"{name}: expect {firing.alert}: its `fact` comes after `from`")
        if firing.alert.startswith("MLJob") and not firing.job and len(scenario.jobs) != 1:
            raise ValueError(f"{name}: expect {firing.alert}: which `job`?")
