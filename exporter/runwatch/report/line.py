"""The compact line: one line a job for a chat or a cron mail, with its health read."""

from __future__ import annotations

from runwatch.derive.observation import NO_INTERVALS, Intervals, blind_sources, has_ended, latest_answer
from runwatch.figures import MISSING, duration, integer, printable, significant, whole
from runwatch.measurements import JobReport
from runwatch.report.cells import IMPLIED, gap_totals, percent_of_target, step_of_target, without_repeats
from runwatch.thresholds import HOUR

# The questions of the health read, in the order in which they are answered; the words that answer each.
_ANSWERS: tuple[frozenset[str], ...] = (
    frozenset({"failed", "vanished", "timeout", "killed", "completed", "unknown", "state_conflict", "deep_probe"}),
    frozenset({"bringup_stuck", "finishing", "zombie"}),
    frozenset({"stalled", "throughput_degraded"}),
    frozenset(
        {
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
    frozenset({"resuming", "silent_stall", "no_checkpoint", "checkpoint_stale"}),
)
_FINE = frozenset({"stable", "resumed", "checkpoint_saved"})
_SAID_ANEW = frozenset({"unobserved", "queued", "bringup"})  # from the measurements, in this line's own words
ANSWERED_WORDS = frozenset().union(*_ANSWERS, _FINE, _SAID_ANEW)
"""Every word that the health read knows a place for; a test holds it against `thresholds.VERDICTS`."""


def compact_line(report: JobReport, now: float, *, intervals: Intervals = NO_INTERVALS) -> str:
    """Return the compact line of a job, without a line end.

    The percentage has one decimal, the loss four significant digits, hours of gaps two decimals; `—` is what is not
    measured. The loss of an RL job is its policy loss.

    Args:
        report: The job.
        now: Unix seconds, to tell which sources are blind.
        intervals: Seconds between polls by source, for the same.
    """
    measurements = report.measurements
    loss = measurements.get("mljob_rl_policy_loss" if report.bucket == "rl" else "mljob_loss")
    tokens = measurements.get("mljob_tokens_per_second")
    checkpoint = measurements.get("mljob_checkpoint_step")
    totals = gap_totals(report)
    gaps = f"{MISSING}/{MISSING}h" if totals is None else f"{integer(totals[0])}/{totals[1] / HOUR:.2f}h"
    share = percent_of_target(report)
    figures = [
        printable(report.run),
        f"state={measurements.one_hot('mljob_state') or MISSING}",
        f"step={_step(report)} ({MISSING if share is None else f'{share:.1f}'}%)",
        f"loss={MISSING if loss is None else significant(loss, 4)}",
        f"~{MISSING if tokens is None else whole(tokens)}tok/s",
        f"preempts={MISSING}",
        f"gaps={gaps}",
        f"ckpt={MISSING if checkpoint is None else f'step-{integer(checkpoint)}'}",
    ]
    return f"{' '.join(figures)} | {health_read(report, now, intervals=intervals)}"


def _step(report: JobReport) -> str:
    text = step_of_target(report)
    return f"{MISSING}/{MISSING}" if text == MISSING else text


def health_read(report: JobReport, now: float, *, intervals: Intervals = NO_INTERVALS) -> str:
    """Answer, in this order and leaving out what is fine: is its state known and alive, is it past setup and compile,
    does its step rate hold, is its loss sound, did it resume and do checkpoints advance, when does it end.
    """
    blind = blind_sources(report.measurements, now, intervals)
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
    if not answers:
        answers.append("stable" if "stable" in words else MISSING)
    return printable("; ".join(without_repeats(answers)))


def _before_first_step(report: JobReport) -> list[str]:
    """Say that there is no step yet, and why nothing more is known."""
    measurements = report.measurements
    if measurements.get("mljob_step") is not None or has_ended(measurements):
        return []
    phase, state = measurements.one_hot("mljob_phase"), measurements.one_hot("mljob_state")
    if phase is None and state != "pending":
        return ["no step known: history not read"]
    doing = "queued" if phase in {None, "queued"} else "preempted" if state == "preempted" else "setup or compile"
    started, seen = measurements.get("mljob_start_timestamp_seconds"), latest_answer(measurements)
    since = "" if started is None or seen is None else f", {duration(max(0.0, seen - started))} since its start"
    return [f"pre-first-step: {doing}{since}"]
