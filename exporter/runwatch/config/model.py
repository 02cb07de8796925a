"""The types of the configuration file. Reading it, with line numbers in every complaint, is `config.load`'s work.

The descriptions are what `docs/config.md` is made from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from runwatch.config.durations import parse_duration
from runwatch.facts import SourceKind

Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds as a float, written `90s`, `5m`, `2h`, `1d12h`."""

Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]
"""A whole number from 1 on; YAML's true and false are none."""

Switch = Annotated[bool, Field(strict=True)]
Name = Annotated[str, StringConstraints(min_length=1)]
Bucket = Literal["rl", "sft", "datagen", "eval", "other"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class WandbSettings(_Strict):
    """How to reach W&B. The key is read from the variable or the file, never from here."""

    base_url: str = Field(default="https://api.wandb.ai", description="Address of the W&B API, `http` or `https`.")
    api_key_env: Name = Field(default="WANDB_API_KEY", description="Name of the variable that holds the API key.")
    api_key_file: Path | None = Field(
        default=None, description="File that holds the API key; it wins over the variable."
    )
    requests_per_minute: Count = Field(default=60, description="Budget of requests that all jobs share.")


class Site(_Strict):
    """One cluster, and how its scheduler is reached. The site `none` always exists and has no scheduler."""

    scheduler: Literal["iris", "kubernetes", "slurm", "none"] = Field(description="What schedules jobs there.")
    controller: str | None = Field(
        default=None, description="Iris only, required there: address of the controller, `http` or `https`."
    )
    token_file: Path | None = Field(default=None, description="Iris only: file that holds the token.")
    token_command: tuple[Name, ...] | None = Field(
        default=None, description="Iris only, instead of `token_file`: program and arguments that print the token."
    )
    token_header: Literal["Authorization", "Proxy-Authorization"] = Field(
        default="Authorization", description="Iris only: the header that carries the token."
    )
    context: Name | None = Field(
        default=None, description="Kubernetes only: context of the kubeconfig; in a pod its service account is used."
    )
    namespace: Name | None = Field(default=None, description="Kubernetes only: namespace of the jobs.")
    command_prefix: tuple[Name, ...] = Field(
        default=(), description="SLURM only: what stands before each command, such as `[ssh, login01]`."
    )
    timezone: str | None = Field(
        default=None, description="SLURM only, required there: time zone of its times, such as `Europe/Rome`."
    )
    job_page: str | None = Field(
        default=None,
        description="Where a browser shows a job of the scheduler, with `{scheduler_job}` where its id stands: "
        "`https://iris.example.org/#/job/{scheduler_job}`. Dashboards link to it.",
    )
    checkpoint_page: str | None = Field(
        default=None,
        description="Where a browser shows a folder of checkpoints, with `{path}` where `BUCKET/PREFIX` or the folder "
        "without its first `/` stands. Default: Google Cloud's own page for `gs://`, no link for folders.",
    )


class HistorySource(_Strict):
    """One place where a job's history may be read: exactly one of the keys is given."""

    wandb: Name | None = Field(default=None, description="`ENTITY/PROJECT/RUN_ID` of a W&B run.")
    wandb_offline: Path | None = Field(
        default=None,
        description="Run directory that the wandb client wrote with `WANDB_MODE=offline`; of several in a folder "
        "the newest run.",
    )
    jsonl: Path | None = Field(
        default=None,
        description="File of JSON lines: rows with `_step`, `_timestamp` (Unix seconds) and the trainer's keys.",
    )
    log: Name | None = Field(
        default=None, description="Log of the trainer: a path, a glob, or `auto` for the scheduler's own path."
    )

    def __str__(self) -> str:
        """Say in a few words which history this is."""
        for word, value in (("W&B", self.wandb), ("offline W&B", self.wandb_offline), ("JSON lines", self.jsonl)):
            if value is not None:
                return f"{word} {value}"
        return f"log {self.log}"


History = Annotated[tuple[HistorySource, ...], BeforeValidator(_one_or_many)]
"""The places of a job's history in the order of trust; one mapping may stand for a list of one."""


class Trials(_Strict):
    """Where a job's trial results lie, and how many there will be."""

    path: Name = Field(description="Folder of the results, or `gs://BUCKET/PREFIX`.")
    target: Count | None = Field(default=None, description="How many results there will be.")


class TrainerConfig(_Strict):
    """What the history itself does not say. Values here win over what a tracker recorded."""

    train_batch_size: Count | None = Field(default=None, description="Sequences in a step.")
    max_seq_len: Count | None = Field(default=None, description="Tokens in a sequence.")
    num_train_steps: Count | None = Field(default=None, description="The step the job runs to.")
    rollouts_per_step: Count | None = Field(default=None, description="RL: rollouts in a step.")
    checkpoint_interval: Duration | None = Field(default=None, description="Time between checkpoints.")
    accelerators: Count | None = Field(default=None, description="Chips of the whole gang.")
    accelerator: Name | None = Field(default=None, description="Type of these chips, such as `v5p`.")


class Labels(_Strict):
    """What only people know of a job. Write values such as `on`, `yes` and 12 in quotes."""

    ablation: str = Field(default="", description="`spike-mitigation` means that there is no collapse alert.")
    hold: str = Field(default="", description="`no-kill` makes the collapse alert one that only recommends.")
    tracker_row: str = Field(default="", description="Row of the job in the team's tracker.")
    shaping: Literal["on", "off", ""] = Field(
        default="", description="RL: whether rewards are shaped; empty: told from the rewards."
    )
    owner: str = Field(default="", description="Who answers for the job.")
    new_setting: str = Field(
        default="", description="Marks a first launch, a smoke test, a new model, image or config: `deep-probe`."
    )
    grid: str = Field(default="", description="Grid or sweep that the job is a cell of.")
    turns: str = Field(default="", description="`single` means that one turn a trial is as it should be.")
    note: str = Field(default="", description="Free text; it becomes no label.")


class _JobSettings(_Strict):
    bucket: Bucket = Field(description="What kind of work it is.")
    site: Name = Field(default="none", description="Name of the site that it runs on.")
    kind: str = Field(default="", description="Finer kind: `agentic` or `standard` for RL, `midtraining`, and so on.")
    history: History = Field(
        default=(), description="Where the history is read; in a list, the first that answers is used."
    )
    checkpoints: tuple[Name, ...] = Field(
        default=(), description="Roots below which checkpoints are saved: `gs://BUCKET/PREFIX` or folders."
    )
    trials: Trials | None = Field(default=None, description="Where trial results lie.")
    config: TrainerConfig = Field(default=TrainerConfig(), description="What the history does not say.")
    labels: Labels = Field(default=Labels(), description="What only people know.")


class JobSpec(_JobSettings):
    """One job that the config lists."""

    run: Name = Field(description="Name of the job, unique in the fleet.")
    scheduler_job: str = Field(default="", description="Id or name of the job at the site's scheduler, as text.")


class Discovery(_JobSettings):
    """Jobs that are found, not listed: at a scheduler (`site` and `match`) or in a W&B project (`wandb`).

    In `history`, `checkpoints` and `trials.path` of jobs found by `match`, `{GROUP}` stands for a named group of the
    expression, and `*` for the one that exists; of several, the one that the child's name holds, else the newest. What
    an earlier submission left gives way to what comes. The `*` of a log is a glob for all its files, without those that
    the glob of another job names more exactly. For jobs found in W&B `{name}` stands for the run's display name (a name
    that holds a slash or begins with a dot leads to no path). A job that several entries find is the first one's.
    """

    match: Name | None = Field(default=None, description="Regular expression that the scheduler's names match.")
    wandb: Name | None = Field(default=None, description="`ENTITY/PROJECT`: all runs of a W&B project.")
    state: Name | None = Field(default=None, description="With `wandb`: only runs in this state, such as `running`.")


class Config(_Strict):
    """The whole file."""

    poll_interval: Duration = Field(default=60.0, description="Time between two looks at each source.")
    history_interval: Duration | None = Field(default=None, description="The same for histories alone.")
    checkpoints_interval: Duration | None = Field(default=None, description="The same for checkpoints alone.")
    scheduler_interval: Duration | None = Field(default=None, description="The same for schedulers alone.")
    trials_interval: Duration | None = Field(default=None, description="The same for trials alone.")
    log_interval: Duration | None = Field(default=None, description="The same for logs alone.")
    stale_after: Duration = Field(
        default=7200.0,
        description="A source silent for this long: its facts vanish. At least 3 times the longest interval.",
    )
    linger: Duration = Field(default=86400.0, description="How long a job that ended stays.")
    listen: str = Field(
        default="0.0.0.0:9877", description="`HOST:PORT` of the server; IPv6 in brackets; port 0 is any free one."
    )
    web_config: Path | None = Field(
        default=None, description="TLS and basic auth of the server, in exporter-toolkit's format."
    )
    enable_lifecycle: Switch = Field(default=False, description="Whether `POST /-/reload` is answered.")
    file_roots: tuple[Path, ...] | None = Field(
        default=None,
        description="Folders that paths, globs and log fallbacks must stay in, wherever links lead; default: those "
        "that the config names, and for a log whose path the scheduler tells, that path's folder.",
    )
    state_file: Path | None = Field(
        default=None,
        description="Small file in which is kept what schedulers forget (jobs that were found, paths of logs, "
        "dependencies), for `linger`; written anew when that changes. Without it these are lost at a restart.",
    )
    benign_lines: Path | None = Field(
        default=None,
        description="YAML of more lines in logs that are no faults: a list of entries with `pattern`, `reason` and, if "
        "wanted, `site`, `fault_beside`, `within`.",
    )
    max_jobs: Count = Field(default=5000, description="Jobs watched at most: listed ones first, then found ones.")
    wandb: WandbSettings = Field(default=WandbSettings(), description="How to reach W&B.")
    sites: dict[str, Site] = Field(default={}, description="Clusters by name.")
    jobs: tuple[JobSpec, ...] = Field(default=(), description="Jobs that are listed.")
    discover: tuple[Discovery, ...] = Field(default=(), description="Where more jobs are found.")

    def interval(self, kind: SourceKind) -> float:
        """Return the seconds between two polls of a kind of source."""
        overrides = {
            SourceKind.SCHEDULER: self.scheduler_interval,
            SourceKind.HISTORY: self.history_interval,
            SourceKind.CHECKPOINTS: self.checkpoints_interval,
            SourceKind.TRIALS: self.trials_interval,
            SourceKind.LOG: self.log_interval,
        }
        override = overrides[kind]
        return self.poll_interval if override is None else override

    def scheduler(self, site: str) -> str:
        """Return the word of the site's scheduler, or an empty text where it has none."""
        known = self.sites.get(site)
        return "" if known is None or known.scheduler == "none" else known.scheduler
