"""From what is known of one job to its one record: measurements, verdicts and evidence."""

from __future__ import annotations

import time as _time
from collections.abc import Mapping
from dataclasses import dataclass, field

from runwatch.catalogue import JOB_PHASES, JOB_STATES
from runwatch.derive.checkpoints import measure_checkpoints
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.observation import Intervals
from runwatch.derive.progress import ProgressContext, last_step_reached, measure_progress
from runwatch.derive.rl import measure_rl
from runwatch.derive.shaping import rollouts_per_step, shaping
from runwatch.derive.state import JobState, state_conflict, state_from_history
from runwatch.derive.trainer_config import target_steps
from runwatch.derive.verdicts import verdicts
from runwatch.facts import CheckpointListing, Failure, HistoryRun, SourceKind
from runwatch.fleet import Job
from runwatch.measurements import Evidence, JobReport, Measurements


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A history that was read to its end at least once: the run, its digest and which of the job's sources it is."""

    run: HistoryRun
    summary: HistorySummary
    origin: str


@dataclass(frozen=True, slots=True)
class JobView:
    """What is known of a job now. A source that never answered has no entry in `observed` and no facts."""

    job: Job
    history: HistoryView | None = None
    checkpoints: CheckpointListing | None = None
    configured: Mapping[SourceKind, float] = field(default_factory=dict)
    observed: Mapping[SourceKind, float] = field(default_factory=dict)
    failures: Mapping[SourceKind, tuple[Failure, ...]] = field(default_factory=dict)


def measure_job(view: JobView, now: float, intervals: Intervals) -> JobReport:
    """Derive everything that is exported and shown of a job. Pure: the same view and time give the same report.

    Args:
        view: what is known of the job.
        now: Unix seconds; only blindness and how long ago a job ended are measured by it.
        intervals: seconds between two polls of each source.
    """
    job = view.job
    measured = Measurements()
    evidence = _measure_sources(measured, view)
    state = JobState("unknown", None, None, None, None, "no source of its state was ever read")
    shaped: str = job.labels.shaping
    if view.history is not None:
        state = _measure_history(measured, evidence, view, view.history)
        shaped = shaped or _shaping(view.history, job)
    _measure_state(measured, state)
    evidence.append(Evidence("state", f"{state.state}: {state.reason}"))
    if view.checkpoints is not None:
        evidence += measure_checkpoints(
            measured,
            view.checkpoints,
            step=view.history.summary.step if view.history is not None else None,
            step_duration=measured.get("mljob_step_duration_seconds"),
            trainer_config=view.history.run.config if view.history is not None else {},
            configured_interval=job.config.checkpoint_interval,
        )
        if view.history is not None:
            conflict = state_conflict(state, view.history.summary, view.checkpoints)
            measured.set("mljob_state_conflict", float(conflict))
    info = _info(job, view.history, shaped)
    gaps = view.history.summary.steps.gaps if view.history is not None else ()
    newest_gap = gaps[-1].seconds if gaps else None
    found = verdicts(measured, job.bucket, info, now, intervals=intervals, newest_gap_seconds=newest_gap)
    if found:
        measured.set("mljob_trend", 1.0, verdict=found[0].word)
    return JobReport(job.run, job.bucket, job.site, info, measured, found, tuple(evidence))


def _measure_sources(measured: Measurements, view: JobView) -> list[Evidence]:
    evidence: list[Evidence] = []
    for kind, since in sorted(view.configured.items()):
        measured.set("mljob_source_configured_timestamp_seconds", since, source=kind.value)
        observed = view.observed.get(kind)
        measured.set("mljob_observed_timestamp_seconds", observed, source=kind.value)
        answer = "never answered" if observed is None else f"last answered at {_utc(observed)}"
        fields: dict[str, object] = {} if observed is None else {"observed_timestamp_seconds": observed}
        evidence.append(Evidence("sources", f"{kind.value}: {answer}", fields))
        evidence += [
            Evidence("sources", f"{kind.value}: {failure.reason.value}: {failure.detail}")
            for failure in view.failures.get(kind, ())
        ]
    return evidence


def _utc(unix: float) -> str:
    return _time.strftime("%Y-%m-%dT%H:%M:%SZ", _time.gmtime(unix))


def _measure_history(measured: Measurements, evidence: list[Evidence], view: JobView, history: HistoryView) -> JobState:
    job, run, summary = view.job, history.run, history.summary
    observed = view.observed[SourceKind.HISTORY]
    target = target_steps(run.config, job.config)
    state = state_from_history(
        run,
        summary,
        view.checkpoints,
        observed=observed,
        last_reached=last_step_reached(summary, target.value if target is not None else None),
    )
    evidence.append(Evidence("sources", f"history: {summary.rows} rows read from {history.origin}"))
    if summary.rows_without_time:
        text = f"history: {summary.rows_without_time} rows have a step but no time"
        evidence.append(Evidence("sources", text, {"rows": summary.rows_without_time}))
    context = ProgressContext(
        own=job.config,
        run=run,
        is_rl=job.bucket == "rl",
        start=state.start,
        end=state.end,
        observed=observed,
        checkpoints=view.checkpoints.checkpoints if view.checkpoints is not None else None,
    )
    evidence += measure_progress(measured, summary, context)
    if summary.rl is not None:
        evidence += measure_rl(measured, summary.rl)
    return state


def _shaping(history: HistoryView, job: Job) -> str:
    if history.summary.rl is None:
        return ""
    rollouts = rollouts_per_step(history.run.config, job.config.rollouts_per_step)
    return shaping(history.summary.rl.recent_rewards, rollouts)


def _measure_state(measured: Measurements, state: JobState) -> None:
    for word in JOB_STATES:
        measured.set("mljob_state", float(word == state.state), state=word)
    for word in JOB_PHASES if state.phase is not None else ():
        measured.set("mljob_phase", float(word == state.phase), phase=word)
    measured.set("mljob_start_timestamp_seconds", state.start)
    measured.set("mljob_end_timestamp_seconds", state.end)
    measured.set("mljob_exit_code", state.exit_code)


def _info(job: Job, history: HistoryView | None, shaped: str) -> dict[str, str]:
    wandb_run = next((source.wandb for source in job.history if source.wandb is not None), "")
    return {
        "kind": job.kind,
        "owner": job.labels.owner,
        "scheduler": job.scheduler,
        "scheduler_job": job.scheduler_job,
        "wandb_run": wandb_run,
        "url": history.run.url if history is not None else "",
        "tracker_row": job.labels.tracker_row,
        "ablation": job.labels.ablation,
        "hold": job.labels.hold,
        "shaping": shaped,
        "grid": job.labels.grid,
        "new_setting": job.labels.new_setting,
        "turns": job.labels.turns,
    }
