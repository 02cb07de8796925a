"""Whether two sources that answered disagree on whether a job is alive or moving, and what each of them says."""

from __future__ import annotations

from runwatch.derive.job_view import JobView
from runwatch.derive.own_word import TRIAL_BUCKETS
from runwatch.derive.scheduler_state import HistoryEvidence, last_sign, results_after_the_end, sources_disagree
from runwatch.derive.state import JobState, state_conflict
from runwatch.facts import SourceKind
from runwatch.measurements import Evidence, Measurements

_TOPIC = "state"


def measure_conflict(measured: Measurements, view: JobView, state: JobState) -> list[Evidence]:
    """Set whether two sources disagree where there are two to compare, and return what both say where they do."""
    history, scheduler = view.history, view.scheduler
    compared, evidence = False, []
    if history is not None and view.checkpoints is not None:
        compared = True
        answered = view.observed[SourceKind.HISTORY]
        if state_conflict(state, history.summary, view.checkpoints, history_observed=answered):
            last = history.summary.steps.latest_time
            text = "sources disagree: the history's steps stand still, and complete checkpoints go on"
            evidence.append(Evidence(_TOPIC, text, {"last_step_timestamp_seconds": last}))
    if history is not None and scheduler is not None:
        compared = True
        seen = HistoryEvidence(history.run, history.summary)
        if sources_disagree(state, scheduler, seen):
            word = history.run.end.value if history.run.end is not None else history.run.state or "of no end"
            text = f"sources disagree: by the scheduler it is {state.state}, the history tells {word}"
            fields = {"end_timestamp_seconds": state.end, "last_sign_timestamp_seconds": last_sign(seen)}
            evidence.append(Evidence(_TOPIC, text, fields))
    if view.job.bucket in TRIAL_BUCKETS and view.trials is not None and scheduler is not None:
        compared = True
        if results_after_the_end(state, view.trials.last):
            text = f"sources disagree: by the scheduler it is {state.state}, and results came after that end"
            fields = {"end_timestamp_seconds": state.end, "last_trial_timestamp_seconds": view.trials.last}
            evidence.append(Evidence(_TOPIC, text, fields))
    measured.set("mljob_state_conflict", float(bool(evidence)) if compared else None)
    return evidence
