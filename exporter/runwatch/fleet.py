"""Which jobs are watched, and the name each one is known by."""

from __future__ import annotations

from dataclasses import dataclass

from runwatch.config.model import Bucket, HistorySource, Labels, TrainerConfig, Trials


@dataclass(frozen=True, slots=True)
class Job:
    """One watched job. `run` is unique in the fleet and is the key of everything that is known of the job."""

    run: str
    bucket: Bucket
    site: str = "none"
    kind: str = ""
    scheduler: str = ""
    scheduler_job: str = ""
    history: tuple[HistorySource, ...] = ()
    checkpoints: tuple[str, ...] = ()
    trials: Trials | None = None
    config: TrainerConfig = TrainerConfig()
    labels: Labels = Labels()
    discovered: bool = False
