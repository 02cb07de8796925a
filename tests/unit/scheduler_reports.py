"""The report of one job from what its scheduler, history and checkpoints said. Times are seconds after `T0`."""

from __future__ import annotations

from runwatch.config.model import Bucket, TrainerConfig
from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.job import measure_job
from runwatch.derive.job_view import HistoryView, JobView
from runwatch.facts import (
    Checkpoint,
    CheckpointListing,
    HistoryEnd,
    HistoryRow,
    HistoryRun,
    SchedulerFacts,
    SchedulerState,
    SourceKind,
)
from runwatch.fleet import Job
from runwatch.measurements import JobReport
from tests.unit.scheduler_stories import T0, view_of

MINUTE = 60.0
ALIVE = SchedulerState.RUNNING


def stepping(until: float, first: float = 0.0, every: float = 10.0) -> list[tuple[int, float]]:
    count = int((until - first) // every) + 1
    return [(i, first + every * i) for i in range(count)]


def report_of(
    *polls: tuple[float, SchedulerFacts],
    at: float,
    run: HistoryRun | None = None,
    steps: list[tuple[int, float]] | None = None,
    history: bool = True,
    history_seen: float | None = None,
    saved: list[tuple[int, float]] | None = None,
    scheduler: str = "kubernetes",
    bucket: Bucket = "sft",
    target: int | None = None,
) -> JobReport:
    """The report at `at` seconds after `T0`; steps and checkpoints are (step, seconds after `T0`)."""
    digest = HistoryDigest(is_rl=False)
    digest.add(HistoryRow(i, T0 + time, step, {"train/loss": 1.0}) for i, (step, time) in enumerate(steps or []))
    listing = None
    observed = {SourceKind.SCHEDULER: T0 + polls[-1][0]} if polls else {}
    if saved is not None:
        listing = CheckpointListing(tuple(Checkpoint(s, "/c", f"/c/{s}", True, "", T0 + time) for s, time in saved))
        observed[SourceKind.CHECKPOINTS] = T0 + at
    if history:
        observed[SourceKind.HISTORY] = T0 + (at if history_seen is None else history_seen)
    job = Job(
        "r", bucket, "a", scheduler=scheduler, checkpoints=("/c",) if saved is not None else (),
        config=TrainerConfig(num_train_steps=target),
    )  # fmt: skip
    view = JobView(
        job,
        history=HistoryView(run or HistoryRun(), digest.summary(), "test") if history else None,
        checkpoints=listing,
        scheduler=view_of(*polls) if polls else None,
        configured=dict.fromkeys(observed, T0),
        observed=observed,
    )
    return measure_job(view, T0 + at, {})


def state_of(report: JobReport) -> tuple[str | None, str | None]:
    return report.measurements.one_hot("mljob_state"), report.measurements.one_hot("mljob_phase")


def conflict_of(report: JobReport) -> float | None:
    return report.measurements.get("mljob_state_conflict")


def wandb(state: str, heartbeat: float, end: HistoryEnd | None = None, ended_at: float | None = None) -> HistoryRun:
    return HistoryRun(
        state=state,
        heartbeat=T0 + heartbeat,
        end=end,
        ended_at=None if ended_at is None else T0 + ended_at,
        drops_replayed_steps=True,
    )
