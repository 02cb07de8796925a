"""The compact line: one line a job for a chat or a cron mail, with its health read."""

from __future__ import annotations

from runwatch.derive.observation import blind_sources, has_ended, latest_answer
from runwatch.derive.own_word import TRIAL_BUCKETS
from runwatch.figures import MISSING, duration, fixed, integer, printable, significant, whole
from runwatch.measurements import JobReport
from runwatch.report.cells import (
    IMPLIED,
    RESULTS,
    STEPS,
    gap_totals,
    percent_of_target,
    preemptions_text,
    step_of_target,
    without_repeats,
)
from runwatch.thresholds import HOUR

# The questions of the health read, in the order in which they are answered; the words that answer each.
_ANSWERS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "failed",
            "vanished",
            "timeout",
            "killed",
            "completed",
            "traces_stranded",
            "unknown",
            "state_conflict",
            "deep_probe",
        }
    ),
    frozenset({"bringup_stuck", "finishing", "zombie"}),
    frozenset({"stalled", "trials_stalled", "tasks_missing", "engine_idle", "auth_failures", "throughput_degraded"}),
    frozenset(
        {
            "dead_engine",
            "instant_failures",
            "nonfinite",
            "collapse",
            "grad_explosion",
            "loss_diverging",
            "grad_norm_high",
            "entropy_drift",
            "log_ratio_drift",
            "clip_ratio_high",
            "importance_ratio_off",
        }
    ),
    frozenset(
        {
            "not_resumed",
            "restarts_without_progress",
            "task_failures",
            "resuming",
            "silent_stall",
            "no_checkpoint",
            "checkpoint_stale",
        }
    ),
)
_FINE = frozenset({"stable", "resumed", "checkpoint_saved"})
_SAID_ANEW = frozenset({"unobserved", "queued", "bringup"})  # from the measurements, in this line's own words
ANSWERED_WORDS = frozenset().union(*_ANSWERS, _FINE, _SAID_ANEW)
"""Every word that the health read knows a place for; a test holds it against `thresholds.VERDICTS`."""


def compact_line(report: JobReport, now: float) -> str:
    """Return the compact line of a job, without a line end.

    The percentage has one decimal, the loss four significant digits, hours of gaps two decimals; `—` is what is not
    measured. The loss of an RL job is its policy loss. Datagen and evals have `trials=` in the place of `step=`.

    Args:
        report: The job.
        now: Unix seconds, to tell which sources are blind.
    """
    measurements = report.measurements
    loss = measurements.get("mljob_rl_policy_loss" if report.bucket == "rl" else "mljob_loss")
    tokens = measurements.get("mljob_tokens_per_second")
    checkpoint = measurements.get("mljob_checkpoint_step")
    totals = gap_totals(report)
    gaps = f"{MISSING}/{MISSING}h" if totals is None else f"{integer(totals[0])}/{totals[1] / HOUR:.2f}h"
    what, counted = ("trials", RESULTS) if _makes_results(report) else ("step", STEPS)
    share = percent_of_target(report, counted)
    figures = [
        printable(report.run),
        f"state={measurements.one_hot('mljob_state') or MISSING}",
        f"{what}={_position(report, counted)} ({MISSING if share is None else f'{share:.1f}'}%)",
        f"loss={MISSING if loss is None else significant(loss, 4)}",
        f"~{MISSING if tokens is None else whole(tokens)}tok/s",
        f"preempts={preemptions_text(report)}",
        f"gaps={gaps}",
        f"ckpt={MISSING if checkpoint is None else f'step-{integer(checkpoint)}'}",
    ]
    return f"{' '.join(figures)} | {health_read(report, now)}"


def _makes_results(report: JobReport) -> bool:
    """Whether results stand for steps: in datagen and evals, unless their history has steps."""
    return report.bucket in TRIAL_BUCKETS and report.measurements.get("mljob_step") is None


def _position(report: JobReport, names: tuple[str, str]) -> str:
    text = step_of_target(report, names)
    return f"{MISSING}/{MISSING}" if text == MISSING else text


def health_read(report: JobReport, now: float) -> str:
    """Answer, in this order and leaving out what is fine: is its state known and alive, is it past setup and compile,
    does its step rate hold, is its loss sound, did it resume and do checkpoints advance, when does it end, how good
    are its results.
    """
    blind = blind_sources(report, now)
    words = {verdict.word for verdict in report.verdicts}
    answers = [blindness.text for blindness in blind]
    for place, group in enumerate(_ANSWERS):
        if place == 1:
            answers.extend(_before_first_step(report))
        for verdict in report.verdicts:
            if verdict.word in group and IMPLIED.get(verdict.word) not in words:
                answers.append(verdict.text)
    eta = report.measurements.get("mljob_eta_seconds")
    if eta is not None and eta > 0 and not has_ended(report.measurements):
        answers.append(f"ETA {duration(eta)}")
    answers += _quality(report)
    if not answers:
        answers.append("stable" if words & _FINE else MISSING)
    return printable("; ".join(without_repeats(answers)))


def _quality(report: JobReport) -> list[str]:
    """Say how good the results are, where that is measured."""
    ratio, turns = report.measurements.get("mljob_trial_pass_ratio"), report.measurements.get("mljob_trial_turns")
    parts = [] if ratio is None else [f"pass-rate {fixed(ratio, 3)}"]
    return [*parts, *([] if turns is None else [f"{turns:.2f} turns a trial"])]


def _before_first_step(report: JobReport) -> list[str]:
    """Say that there is no step yet, and why nothing more is known."""
    measurements = report.measurements
    if measurements.get("mljob_step") is not None or has_ended(measurements) or measurements.get("mljob_trials"):
        return []
    what = "result" if _makes_results(report) else "step"
    phase, state = measurements.one_hot("mljob_phase"), measurements.one_hot("mljob_state")
    if report.bucket == "other" and phase not in {"queued", "bringup"}:
        return []  # it makes no steps that anyone waits for
    if phase is None and state != "pending":
        return [f"no {what} known: {'trials' if what == 'result' else 'history'} not read"]
    doing = "queued" if phase in {None, "queued"} else "preempted" if state == "preempted" else "setup or compile"
    if state == "unknown":
        return [f"pre-first-{what}"]  # nobody knows whether it does anything
    started, seen = measurements.get("mljob_start_timestamp_seconds"), latest_answer(measurements)
    since = "" if started is None or seen is None else f", {duration(max(0.0, seen - started))} since its start"
    return [f"pre-first-{what}: {doing}{since}"]
