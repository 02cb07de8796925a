"""From what is known of one job to its one record: measurements, verdicts and evidence."""

from __future__ import annotations

import time as _time
from collections.abc import Sequence
from dataclasses import replace

from runwatch.catalogue import JOB_PHASES, JOB_STATES
from runwatch.derive.attempts import SchedulerView
from runwatch.derive.checkpoints import measure_checkpoints, measure_interval
from runwatch.derive.conflict import measure_conflict
from runwatch.derive.end_reason import end_reason, failed_alike
from runwatch.derive.interruptions import GangInterruption, interruptions
from runwatch.derive.job_view import HistoryView, JobView
from runwatch.derive.links import measure_links
from runwatch.derive.log import measure_log
from runwatch.derive.observation import blind_limit
from runwatch.derive.own_word import (
    TRIAL_BUCKETS,
    OwnSources,
    all_results_are_there,
    own_end,
    says_it_runs,
    without_scheduler,
)
from runwatch.derive.pass_ratio import PassRatioTimes, is_low
from runwatch.derive.phase import began_again_after, is_resuming, newest_start, phase_of, phase_of_trials
from runwatch.derive.progress import ProgressContext, last_step_reached, measure_progress
from runwatch.derive.reconcile import ExplainedGap, explain_gaps
from runwatch.derive.rl import measure_rl
from runwatch.derive.scheduler_measures import (
    ProgressKnown,
    began_again,
    goes_on,
    measure_expected_replay,
    measure_scheduler,
)
from runwatch.derive.scheduler_state import combined_state
from runwatch.derive.shaping import rollouts_per_step, shaping
from runwatch.derive.state import JobState, state_from_history
from runwatch.derive.trainer_config import target_steps
from runwatch.derive.trials import measure_trials
from runwatch.derive.verdict_conditions import Subject
from runwatch.derive.verdict_trials import progress_check
from runwatch.derive.verdicts import verdicts
from runwatch.facts import HistoryEnd, SourceKind
from runwatch.figures import duration
from runwatch.fleet import Job
from runwatch.measurements import Evidence, Intervals, JobReport, Measurements
from runwatch.thresholds import DEAD_ENGINE_TRIALS_COUNT


def measure_job(view: JobView, now: float, intervals: Intervals) -> JobReport:
    """Derive everything that is exported and shown of a job. Pure: the same view and time give the same report.

    Args:
        view: what is known of the job.
        now: Unix seconds; only blindness and how long ago a job ended are measured by it.
        intervals: seconds between two polls of each source.
    """
    job, scheduler = view.job, view.scheduler
    measured = Measurements()
    evidence = _measure_sources(measured, view)
    events = interruptions(scheduler) if scheduler is not None else ()
    state = _state(view, events, now, intervals)
    evidence += _measure_trials(measured, view, state)
    shaped: str = job.labels.shaping
    if view.history is not None:
        evidence += _measure_history(measured, view, view.history, state, events, intervals=intervals)
        shaped = shaped or _shaping(view.history, job)
    _measure_state(measured, state)
    _measure_accelerators(measured, view)
    evidence.append(Evidence("state", f"{state.state}: {state.reason}"))
    if job.checkpoints or view.checkpoints is not None:
        evidence += _measure_checkpoints(measured, view)
    evidence += _measure_attempts(measured, view, state, events)
    if view.log is not None:
        evidence += measure_log(measured, view.log, bucket=job.bucket, observed=view.observed[SourceKind.LOG])
    evidence += measure_conflict(measured, view, state)
    reason = end_reason(state, scheduler, view.log)
    if reason is not None:
        measured.set("mljob_end_reason", 1.0, reason=reason)
    if job.labels.note:
        evidence.append(Evidence("note", job.labels.note))
    info = _info(view, shaped)
    evidence += measure_links(measured, view.pages, info["scheduler_job"], job.checkpoints)
    measured.set("mljob_infra_check", progress_check(Subject(measured, job.bucket, info, now)), check="progress")
    gaps = view.history.summary.steps.gaps if view.history is not None else ()
    found = verdicts(
        measured,
        job.bucket,
        info,
        now,
        intervals=intervals,
        newest_gap_seconds=gaps[-1].seconds if gaps else None,
        failed_alike=failed_alike(state, scheduler, events),
        trial_tree=_trial_tree(view),
        rl_turns=_rl_turns(view),
    )
    if found:
        measured.set("mljob_trend", 1.0, verdict=found[0].word)
    return JobReport(job.run, job.bucket, job.site, info, measured, found, tuple(evidence), intervals)


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


def _last_reached(history: HistoryView, view: JobView) -> bool:
    trainer = view.checkpoints.trainer if view.checkpoints is not None else None
    target = target_steps(history.run.config, view.job.config, trainer, step=history.summary.step)
    return last_step_reached(history.summary, target.value if target is not None else None)


def _state(view: JobView, events: Sequence[GangInterruption], now: float, intervals: Intervals) -> JobState:
    """Combine what all sources say of the job into its one state and phase."""
    job, history, scheduler = view.job, view.history, view.scheduler
    alone: JobState | None = None
    last_reached = False
    if history is not None:
        last_reached = _last_reached(history, view)
        alone = state_from_history(
            history.run,
            history.summary,
            view.checkpoints,
            observed=view.observed[SourceKind.HISTORY],
            last_reached=last_reached,
            bucket=job.bucket,
        )
    sources = _own_sources(view)
    own = without_scheduler(job.bucket, alone, sources)
    state = own or JobState("unknown", None, None, None, None, "no source of its state was ever read")
    if view.awaits_scheduler and state.state == "failed":
        # A gang that failed, or of which one task was preempted, may be started anew.
        reason = f"{state.reason}; whether its scheduler places it again could not be read yet"
        state = replace(state, state="unknown", end=None, exit_code=None, reason=reason)
    if scheduler is not None:
        if own is not None and newest_start(scheduler) is not None:
            # Results may be older than the job, where it went on in the folder of another.
            own = replace(own, start=alone.start if alone is not None else None)
        state = combined_state(
            scheduler,
            own,
            own_end(job.bucket, alone, sources),
            runs=says_it_runs(alone, sources),
            scheduler=job.scheduler,
            scheduler_is_blind=now - scheduler.observed > blind_limit(SourceKind.SCHEDULER.value, intervals),
        )
        last_reached = last_reached or _finished_by_its_own_word(history, scheduler)
    if job.bucket in TRIAL_BUCKETS and view.trials is not None:
        phase: str | None = phase_of_trials(
            state.state,
            view.trials.trials,
            all_there=all_results_are_there(job.bucket, sources),
            resuming=began_again_after(view.trials.last, scheduler, events),
        )
    else:
        phase = phase_of(
            state.state,
            job.bucket,
            history.summary if history is not None else None,
            last_reached=last_reached,
            resuming=history is not None and is_resuming(history.summary.steps, scheduler, events),
        )
    return replace(state, phase=phase)


def _own_sources(view: JobView) -> OwnSources:
    busy = (
        view.history.summary.steps.latest_time if view.history is not None else None,
        newest_start(view.scheduler) if view.scheduler is not None else None,
    )
    return OwnSources(
        trials=view.trials,
        trials_observed=view.observed.get(SourceKind.TRIALS),
        target=view.job.trials.target if view.job.trials is not None else None,
        log=view.log,
        log_observed=view.observed.get(SourceKind.LOG),
        trainer_log_completed=view.checkpoints.completed_at if view.checkpoints is not None else None,
        checkpoints_observed=view.observed.get(SourceKind.CHECKPOINTS),
        busy=max((time for time in busy if time is not None), default=None),
    )


def _finished_by_its_own_word(history: HistoryView | None, scheduler: SchedulerView) -> bool:
    """Whether the trainer said that it is done, though the job still runs: its last step is reached then too."""
    if history is None or history.run.end is not HistoryEnd.SUCCEEDED or history.run.ended_at is None:
        return False
    started = newest_start(scheduler)
    return started is None or started <= history.run.ended_at


def _measure_history(
    measured: Measurements,
    view: JobView,
    history: HistoryView,
    state: JobState,
    events: Sequence[GangInterruption],
    *,
    intervals: Intervals,
) -> list[Evidence]:
    job, run, summary, scheduler = view.job, history.run, history.summary, view.scheduler
    named = f", run {run.name}" if run.name else ""
    evidence = [Evidence("sources", f"history: {summary.rows} rows read from {history.origin}{named}")]
    if summary.rows_without_time:
        text = f"history: {summary.rows_without_time} rows have a step but no time"
        evidence.append(Evidence("sources", text, {"rows": summary.rows_without_time}))
    if summary.ahead_seconds:
        text = (
            f"history: its newest step is dated {duration(summary.ahead_seconds)} after it was read, the clock of its"
        )
        text += " trainer is ahead: it counts from when it was read"
        evidence.append(Evidence("sources", text, {"ahead_seconds": summary.ahead_seconds}))
    if summary.malformed:
        text = f"history: {summary.malformed} rows or lines could not be read and were skipped"
        evidence.append(Evidence("sources", text, {"rows": summary.malformed}))
    steps = summary.steps
    explained: Sequence[ExplainedGap] | None = None
    if scheduler is not None:
        explained = explain_gaps(steps.gaps, events, scheduler, steps.interval_median, summary.ahead_seconds)
    context = ProgressContext(
        own=job.config,
        run=run,
        is_rl=job.bucket == "rl",
        start=state.start,
        end=None if goes_on(state, scheduler) else state.end,
        observed=view.observed[SourceKind.HISTORY],
        checkpoints=view.checkpoints.checkpoints if view.checkpoints is not None else None,
        explained_gaps=explained,
        trainer=view.checkpoints.trainer if view.checkpoints is not None else None,
    )
    evidence += measure_progress(measured, summary, context)
    if history.rl_origin and summary.rl is not None:
        text = f"history: it has no RL values, those of step {summary.rl.step} are from {history.rl_origin}, last read"
        evidence.append(Evidence("sources", text, {"rl_origin": history.rl_origin, "rl_step": summary.rl.step}))
    if summary.rl is not None:
        evidence += measure_rl(measured, summary.rl, _pass_ratio_times(view, intervals))
    return evidence


def _pass_ratio_times(view: JobView, intervals: Intervals) -> PassRatioTimes | None:
    trials = view.trials
    if trials is None:
        return None
    return PassRatioTimes(
        trials.low_spans,
        low_now=is_low(trials.window_passed, trials.window_scored),
        known_until=view.observed[SourceKind.TRIALS] + blind_limit(SourceKind.TRIALS.value, intervals),
    )


def _measure_trials(measured: Measurements, view: JobView, state: JobState) -> list[Evidence]:
    job = view.job
    if view.trials is None:
        return []
    return measure_trials(
        measured,
        view.trials,
        bucket=job.bucket,
        target=job.trials.target if job.trials is not None else None,
        observed=view.observed[SourceKind.TRIALS],
        is_over=not goes_on(state, view.scheduler),
        chunk_logs=view.log.chunk_last_writes if view.log is not None else None,
        failed_chunks=view.log.failed_chunks if view.log is not None else frozenset(),
    )


def _rl_turns(view: JobView) -> float | None:
    """Return the mean turns of an RL job's trials, where enough of them tell."""
    if view.job.bucket != "rl" or view.trials is None or view.trials.turns_counted < DEAD_ENGINE_TRIALS_COUNT:
        return None
    return view.trials.turns_mean


def _trial_tree(view: JobView) -> str:
    """Tell whether the files of the trials are still there; an object store has none to reap."""
    if view.job.trials is None or view.trials is None or "://" in view.job.trials.path:
        return ""
    missing = any(failure.is_answer for failure in view.failures.get(SourceKind.TRIALS, ()))
    return "gone" if missing else "open"


def _measure_checkpoints(measured: Measurements, view: JobView) -> list[Evidence]:
    step_duration = measured.get("mljob_step_duration_seconds")
    trainer_config = view.history.run.config if view.history is not None else {}
    configured = view.job.config.checkpoint_interval
    if view.checkpoints is None:
        return measure_interval(
            measured, None, step_duration=step_duration, trainer_config=trainer_config, configured_interval=configured
        )
    return measure_checkpoints(
        measured,
        view.checkpoints,
        step=view.history.summary.step if view.history is not None else None,
        step_duration=step_duration,
        trainer_config=trainer_config,
        configured_interval=configured,
    )


def _measure_attempts(
    measured: Measurements, view: JobView, state: JobState, events: Sequence[GangInterruption]
) -> list[Evidence]:
    evidence: list[Evidence] = []
    summary = view.history.summary if view.history is not None else None
    trials = view.trials if view.job.bucket in TRIAL_BUCKETS else None
    if view.scheduler is not None:
        known = ProgressKnown(
            has_checkpoints=bool(view.job.checkpoints),
            checkpoints=view.checkpoints,
            checkpoints_observed=view.observed.get(SourceKind.CHECKPOINTS),
            summary=summary,
            history_observed=view.observed.get(SourceKind.HISTORY),
            newest_result=trials.last if trials is not None else None,
            results_observed=view.observed.get(SourceKind.TRIALS) if trials is not None else None,
        )
        evidence += measure_scheduler(measured, view.scheduler, events, state, known)
    if summary is not None:
        began = began_again(view.scheduler, events) if view.scheduler is not None else None
        evidence += measure_expected_replay(measured, state, summary, view.checkpoints, began)
    return evidence


def _measure_accelerators(measured: Measurements, view: JobView) -> None:
    own, facts = view.job.config, view.scheduler.facts if view.scheduler is not None else None
    if own.accelerators is not None:
        measured.set("mljob_accelerators", own.accelerators, type=own.accelerator or "unknown")
    elif facts is not None and facts.accelerators is not None:
        kind = own.accelerator or facts.accelerator_type or "unknown"
        measured.set("mljob_accelerators", facts.accelerators, type=kind)


def _shaping(history: HistoryView, job: Job) -> str:
    if history.summary.rl is None:
        return ""
    rollouts = rollouts_per_step(history.run.config, job.config.rollouts_per_step)
    rl = history.summary.rl
    return shaping(rl.recent_rewards, rollouts, rl.recent_rollouts)


def _measure_state(measured: Measurements, state: JobState) -> None:
    for word in JOB_STATES:
        measured.set("mljob_state", float(word == state.state), state=word)
    for word in JOB_PHASES if state.phase is not None else ():
        measured.set("mljob_phase", float(word == state.phase), phase=word)
    measured.set("mljob_start_timestamp_seconds", state.start)
    measured.set("mljob_end_timestamp_seconds", state.end)
    measured.set("mljob_exit_code", state.exit_code)


def _info(view: JobView, shaped: str) -> dict[str, str]:
    job, history = view.job, view.history
    facts = view.scheduler.facts if view.scheduler is not None else None
    wandb_run = next((source.wandb for source in job.history if source.wandb is not None), "")
    return {
        "kind": job.kind,
        "owner": job.labels.owner,
        "scheduler": job.scheduler,
        "scheduler_job": job.scheduler_job or (facts.scheduler_job if facts is not None else ""),
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
