"""The conditions of the verdicts on trials: results that do not come, an engine that is dead, results not to be used.

A share of AgentTimeoutError is none, however high: such a trial is scored.
"""

from __future__ import annotations

from runwatch import thresholds
from runwatch.derive.observation import observed, observed_results
from runwatch.derive.own_word import TRIAL_BUCKETS
from runwatch.derive.verdict_conditions import Subject
from runwatch.facts import SourceKind
from runwatch.figures import duration, past_limit

_STALL_LIMITS = {
    "eval": thresholds.TRIALS_STALLED_EVAL_SECONDS,
    "datagen": thresholds.TRIALS_STALLED_DATAGEN_SECONDS,
}


def are_missing(job: Subject) -> bool:
    """Tell whether results are still to come: some are missing, or how many there will be is not known."""
    trials, target = job.get("mljob_trials"), job.get("mljob_trials_target")
    return job.phase != "finishing" and trials is not None and (target is None or trials < target)


def trials_stalled(job: Subject) -> str | None:
    """No new result for long while some are missing, or a datagen chunk that hangs while others may go on."""
    limit, seen = _STALL_LIMITS.get(job.bucket), observed_results(job.measurements)
    if limit is None or job.state != "running" or seen is None or not are_missing(job):
        return None
    hung = job.get("mljob_chunks", state="hung")
    if hung:
        silent = duration(thresholds.CHUNK_HUNG_SECONDS)
        return f"{hung:.0f} {'chunk hangs' if hung == 1 else 'chunks hang'}: log and trials silent for over {silent}"
    last = job.get("mljob_last_trial_timestamp_seconds")
    since = max((time for time in (job.attempt_start, last) if time is not None), default=None)
    if since is None and job.get("mljob_trials") == 0:
        # Nothing tells when it began: not after it was first asked for results.
        since = job.get("mljob_source_configured_timestamp_seconds", source=SourceKind.TRIALS.value)
    if since is None or seen - since <= limit:
        return None
    what = "no result at all" if job.get("mljob_trials") == 0 else "no new result"
    age, allowed = past_limit(seen - since, limit)
    return f"{what} for {age} (limit {allowed})"


def progress_check(job: Subject) -> float | None:
    """Return the launch check `progress`: 0 while results do not come, 1 once some did, None before."""
    if trials_stalled(job) is not None:
        return 0.0
    return 1.0 if job.bucket in TRIAL_BUCKETS and job.get("mljob_trials") else None


def _results_may_be_used(job: Subject) -> bool:
    """Whether the job is not over, or ended a short while ago: then people may be about to use its results."""
    ended = job.get("mljob_end_timestamp_seconds")
    if not job.is_over:
        return True
    return ended is not None and job.now - ended <= thresholds.RESULTS_STAND_AFTER_END_SECONDS


def dead_engine(job: Subject) -> str | None:
    """Datagen whose agents stop after about one turn: the engine behind them answers nothing of use."""
    ran, turns = job.get("mljob_trials_agent_ran"), job.get("mljob_trial_turns")
    if job.bucket != "datagen" or job.info.get("turns") == "single" or not _results_may_be_used(job):
        return None
    if (
        ran is None
        or turns is None
        or ran < thresholds.DEAD_ENGINE_TRIALS_COUNT
        or turns > thresholds.DEAD_ENGINE_TURNS
    ):
        return None
    return f"dead engine: {turns:.2f} turns a trial over {ran:.0f} trials: do not consolidate"


def instant_failures(job: Subject) -> str | None:
    """Most trials ended as they began, without a token: nothing reaches the engine."""
    instant, trials = job.get("mljob_trial_instant_failures"), job.get("mljob_trials")
    if instant is None or not trials or not _results_may_be_used(job):
        return None
    if instant < thresholds.INSTANT_FAILURES_COUNT or instant <= thresholds.INSTANT_FAILURES_SHARE * trials:
        return None
    return f"{instant:.0f} of {trials:.0f} trials failed instantly: is the tunnel carrying traffic?"


def traces_stranded(job: Subject) -> str | None:
    """A datagen job that the wall-time limit ended before its traces were uploaded."""
    if job.bucket != "datagen" or job.state != "timeout" or job.get("mljob_upload_complete") != 0:
        return None
    if job.measurements.family("mljob_successor"):
        return None
    return "traces stranded: not uploaded at the wall-time limit; consolidate by hand"


def engine_idle(job: Subject) -> str | None:
    """Results are missing, and the engine runs no request and has answered none for a while."""
    running, answered = (
        job.get("mljob_engine_running_requests"),
        job.get("mljob_engine_last_success_timestamp_seconds"),
    )
    if job.bucket not in TRIAL_BUCKETS or job.state != "running" or running != 0 or not are_missing(job):
        return None
    if answered is None:
        return "engine idle: no running request"
    seen = observed(job.measurements, SourceKind.LOG)
    if seen is None or seen - answered <= thresholds.ENGINE_IDLE_SECONDS:
        return None
    return f"engine idle: no running request, and no answer 200 for {duration(seen - answered)}"


def auth_failures(job: Subject) -> str | None:
    """The sandbox provider refuses again and again."""
    refusals = job.get("mljob_auth_failures")
    if refusals is None or refusals < thresholds.AUTH_FAILURES_COUNT:
        return None
    return f"{refusals:.0f} auth failures of the sandbox provider in {duration(thresholds.AUTH_FAILURES_SECONDS)}"


def deep_probe(job: Subject) -> str | None:
    """A row that must not be trusted by its looks: a new setting, or a job that looks alive and earns nothing."""
    reasons = []
    if job.info.get("new_setting", "").lower() not in {"", "no", "false", "off", "0"}:
        reasons.append("new setting")
    if job.is_rl:
        reasons += _signs_of_a_silently_dead_run(job)
    if job.bucket in TRIAL_BUCKETS and _all_fail(job):
        reasons.append("every trial failed, none is scored")
    return f"deep-probe: {', '.join(reasons)}" if reasons else None


def _signs_of_a_silently_dead_run(job: Subject) -> list[str]:
    """No sign comes from trials that a job does not have: standard RL makes none."""
    signs = []
    pass_ratios = job.measurements.family("mljob_rl_pass_at_n").values()
    if job.get("mljob_rl_reward") == 0 and not any(pass_ratios):
        signs.append("reward exactly 0")
    if job.get("mljob_rl_trials_in_window") == 0 and job.get("mljob_rl_step") is not None:
        signs.append("steps, but no trial scored")
    turns = job.rl_turns
    if turns is not None and turns <= thresholds.DEAD_ENGINE_TURNS and job.info.get("turns") != "single":
        signs.append(f"{turns:.2f} turns a trial")
    return signs


def _all_fail(job: Subject) -> bool:
    """Whether each trial ended with an exception and none was scored. One that timed out is scored all the same.

    Datagen may have no verifier: there only that no agent ever ran tells.
    """
    trials, ran = job.get("mljob_trials"), job.get("mljob_trials_agent_ran")
    if trials is None or trials < thresholds.ALL_FAILING_TRIALS_COUNT:
        return False
    if job.get("mljob_trials_scored") != 0 or job.get("mljob_trial_exception_ratio") != 1:
        return False
    return job.bucket == "eval" or ran == 0
