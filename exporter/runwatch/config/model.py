"""The types of the configuration file. Reading it, with line numbers in every complaint, is `config.load`'s work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runwatch.config.durations import parse_duration

Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds as a float, written `90s`, `5m`, `2h`, `1d12h`."""

Bucket = Literal["rl", "sft", "datagen", "eval", "other"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WandbSettings(_Strict):
    """How to reach W&B. The key is read from the variable or the file, never from here."""

    base_url: str = "https://api.wandb.ai"
    api_key_env: str = "WANDB_API_KEY"
    api_key_file: Path | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] = 60


class Site(_Strict):
    """One cluster, and how its scheduler is reached."""

    scheduler: Literal["iris", "kubernetes", "slurm", "none"]
    controller: str | None = None
    token_file: Path | None = None
    token_command: list[str] | None = None
    token_header: Literal["Authorization", "Proxy-Authorization"] = "Authorization"
    context: str | None = None
    namespace: str | None = None
    command_prefix: list[str] = []
    timezone: str | None = None


class HistorySource(_Strict):
    """One place where a job's history may be read: exactly one of the keys is set."""

    wandb: str | None = None
    wandb_offline: Path | None = None
    jsonl: Path | None = None
    log: str | None = None


class Trials(_Strict):
    """Where a job's trial results lie, and how many there will be."""

    path: str
    target: Annotated[int, Field(ge=1)] | None = None


class TrainerConfig(_Strict):
    """What the history itself does not say. Values here win over what a tracker recorded."""

    train_batch_size: Annotated[int, Field(ge=1)] | None = None
    max_seq_len: Annotated[int, Field(ge=1)] | None = None
    num_train_steps: Annotated[int, Field(ge=1)] | None = None
    rollouts_per_step: Annotated[int, Field(ge=1)] | None = None
    checkpoint_interval: Duration | None = None
    accelerators: Annotated[int, Field(ge=1)] | None = None
    accelerator: str | None = None


class Labels(_Strict):
    """What only people know of a job."""

    ablation: str = ""
    hold: str = ""
    tracker_row: str = ""
    shaping: Literal["on", "off", ""] = ""
    owner: str = ""
    new_setting: str = ""
    grid: str = ""
    turns: str = ""
    note: str = ""


class JobSpec(_Strict):
    """One job that the config lists."""

    run: Annotated[str, Field(min_length=1)]
    bucket: Bucket
    site: str = "none"
    kind: str = ""
    scheduler_job: str = ""
    history: HistorySource | list[HistorySource] | None = None
    checkpoints: list[str] = []
    trials: Trials | None = None
    config: TrainerConfig = TrainerConfig()
    labels: Labels = Labels()


class Discovery(_Strict):
    """Jobs that are found, not listed: from a scheduler (`site` and `match`) or from a W&B project (`wandb`)."""

    bucket: Bucket
    site: str = "none"
    kind: str = ""
    match: str | None = None
    wandb: str | None = None
    state: str | None = None
    history: dict[str, Any] | list[dict[str, Any]] | None = None
    checkpoints: list[str] = []
    trials: Trials | None = None
    config: TrainerConfig = TrainerConfig()
    labels: Labels = Labels()


class Config(_Strict):
    """The whole file."""

    poll_interval: Duration = 60.0
    history_interval: Duration | None = None
    checkpoints_interval: Duration | None = None
    scheduler_interval: Duration | None = None
    trials_interval: Duration | None = None
    log_interval: Duration | None = None
    stale_after: Duration = 7200.0
    linger: Duration = 86400.0
    listen: str = "0.0.0.0:9877"
    web_config: Path | None = None
    enable_lifecycle: bool = False
    file_roots: list[Path] | None = None
    max_jobs: Annotated[int, Field(ge=1)] = 5000
    wandb: WandbSettings = WandbSettings()
    sites: dict[str, Site] = {}
    jobs: list[JobSpec] = []
    discover: list[Discovery] = []
