"""A small fleet for the tests of the renderings: what a person would have written down of nine jobs.

All times are relative to `NOW`. Nothing here is computed by the code under test: verdicts are given as words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runwatch.catalogue import JOB_PHASES, JOB_STATES
from runwatch.measurements import Evidence, JobReport, Measurements, Verdict

NOW = 1_772_366_400.0  # 2026-03-01T12:00:00Z
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

Value = float | Mapping[str, float]
"""A number, or numbers by the one added label's value."""


def measure(values: Mapping[str, Value], state: str | None = None, phase: str | None = None) -> Measurements:
    """Record values; `state` and `phase` become one-hot series. Names without prefix get `mljob_`."""
    measurements = Measurements()
    for short, value in values.items():
        name = f"mljob_{short}"
        if isinstance(value, Mapping):
            label = _LABELS[short]
            for label_value, number in value.items():
                measurements.set(name, number, **{label: label_value})
        else:
            measurements.set(name, value)
    for known in JOB_STATES if state else ():
        measurements.set("mljob_state", float(known == state), state=known)
    for known in JOB_PHASES if phase else ():
        measurements.set("mljob_phase", float(known == phase), phase=known)
    return measurements


_LABELS = {
    "observed_timestamp_seconds": "source",
    "source_configured_timestamp_seconds": "source",
    "gaps": "cause",
    "gap_seconds": "cause",
    "gap_end_timestamp_seconds": "cause",
    "interruptions": "cause",
    "interruption_timestamp_seconds": "cause",
    "tasks": "state",
    "successor": "scheduler_job",
    "waiting": "reason",
    "checkpoints": "completeness",
    "nonfinite": "metric",
    "trial_exceptions": "exception",
    "chunks": "state",
    "infra_check": "check",
    "end_reason": "reason",
    "rl_pass_at_n": "n",
    "rl_log_ratio_abs": "stat",
}


def job(
    run: str,
    bucket: str,
    measurements: Measurements,
    verdicts: Sequence[tuple[str, str]] = (),
    *,
    site: str = "marin",
    info: Mapping[str, str] | None = None,
    evidence: Sequence[Evidence] = (),
) -> JobReport:
    """Make a report as the derivation does."""
    return JobReport(
        run,
        bucket,
        site,
        info or {},
        measurements,
        tuple(Verdict(word, text) for word, text in verdicts),
        tuple(evidence),
    )


def fresh(**sources: float) -> dict[str, float]:
    """Return observed timestamps: the history and checkpoints ten seconds ago, unless told otherwise."""
    return {"history": NOW - 10, "checkpoints": NOW - 10, **sources}


def rl_collapsing() -> JobReport:
    values: dict[str, Value] = {
        "step": 41, "target_step": 80, "rl_reward": 0.4512, "rl_pass_at_n": {"8": 0.7}, "rl_policy_loss": -0.093,
        "rl_grad_norm": 1.31, "rl_policy_entropy": 0.212, "rl_log_ratio_abs": {"mean": 0.0121, "max": 0.4},
        "rl_tis_log_ratio_abs_mean": 0.031, "rl_step": 41, "gaps": {"unknown": 2}, "gap_seconds": {"unknown": 5400},
        "checkpoint_step": 40, "checkpoint_lag_steps": 1, "checkpoint_timestamp_seconds": NOW - 10 - 12 * MINUTE,
        "goodput_ratio": 0.934, "eta_seconds": 3 * HOUR + 12 * MINUTE, "observed_timestamp_seconds": fresh(),
    }  # fmt: skip
    verdicts = [
        ("collapse", "collapse: grad 1.3, two steps + entropy −34 % vs trend: cancel"),
        ("grad_norm_high", "grad 1.3, two steps"),
        ("entropy_drift", "entropy −34 % vs trend"),
        ("checkpoint_saved", "checkpoint saved"),
    ]
    return job("rl-base", "rl", measure(values, "running", "stepping"), verdicts, info={"shaping": "off"})


def rl_seqnorm() -> JobReport:
    """Gradient norm, loss and log-ratio of about 1e-5 are a regime, a reward of exactly 0 is a zero."""
    values: dict[str, Value] = {
        "step": 15, "target_step": 80, "rl_reward": 0, "rl_policy_loss": 1.24e-5, "rl_grad_norm": 3e-5,
        "rl_policy_entropy": 0.619, "rl_log_ratio_abs": {"mean": 4e-5}, "rl_step": 15,
        "observed_timestamp_seconds": fresh(),
    }  # fmt: skip
    return job(
        "rl-shaped", "rl", measure(values, "running", "stepping"), [("stable", "stable")], info={"shaping": "on"}
    )


def sft_degraded() -> JobReport:
    values: dict[str, Value] = {
        "step": 29001, "target_step": 29945, "loss": 1.2104, "grad_norm": 0.84, "tokens_per_second": 40632.4,
        "tokens_per_second_baseline": 65536, "eta_seconds": 2 * DAY + 4 * HOUR,
        "gaps": {"unknown": 11, "unexplained": 1},
        "gap_seconds": {"unknown": 22320, "unexplained": 3600}, "checkpoint_step": 28000,
        "checkpoint_lag_steps": 1001, "checkpoint_timestamp_seconds": NOW - 10 - 50 * MINUTE,
        "goodput_ratio": 0.8765, "observed_timestamp_seconds": fresh(),
    }  # fmt: skip
    return job(
        "delphi-1e23-p33m67-k0p20-lr0.67-b6607e",
        "sft",
        measure(values, "running", "stepping"),
        [("throughput_degraded", "tok/s 62 % of its baseline")],
        info={"grid": "lr-sweep", "url": "https://wandb.ai/nyu-dice-lab/delphi/runs/b6607e"},
    )


def sft_blind() -> JobReport:
    values: dict[str, Value] = {
        "step": 320, "target_step": 916, "loss": 2.5, "tokens_per_second": 1200, "eta_seconds": 45 * MINUTE,
        "observed_timestamp_seconds": {"history": NOW - 23 * MINUTE},
    }  # fmt: skip
    return job(
        "cell-b", "sft", measure(values, "running", "stepping"), [("stable", "stable")], info={"grid": "lr-sweep"}
    )


def bringing_up() -> JobReport:
    values: dict[str, Value] = {
        "start_timestamp_seconds": NOW - 10 - 22 * MINUTE, "observed_timestamp_seconds": {"history": NOW - 10},
        "target_step": 500,
    }  # fmt: skip
    return job(
        "rl-new",
        "rl",
        measure(values, "running", "bringup"),
        [("bringup", "no first step yet")],
        info={"shaping": "on"},
    )


def completed() -> JobReport:
    values: dict[str, Value] = {
        "step": 916, "target_step": 916, "loss": 0.9, "start_timestamp_seconds": NOW - 5 * HOUR, "eta_seconds": 0,
        "end_timestamp_seconds": NOW - 2 * HOUR, "observed_timestamp_seconds": {"history": NOW - 2 * HOUR},
    }  # fmt: skip
    return job(
        "cell-a",
        "sft",
        measure(values, "succeeded", "finished"),
        [("completed", "completed; clean-up: sft-job-cleanup")],
        info={"grid": "lr-sweep"},
    )


def failed_eval() -> JobReport:
    values: dict[str, Value] = {
        "start_timestamp_seconds": NOW - 5 * HOUR, "end_timestamp_seconds": NOW - 2 * HOUR, "exit_code": 1,
    }  # fmt: skip
    return job("tb2-eval", "eval", measure(values, "failed", "finished"), [("failed", "failed, exit 1: diagnose")])


def pending_cell() -> JobReport:
    return job("cell-c", "sft", measure({}, "pending"), [("queued", "queued")], info={"grid": "lr-sweep"})


def nothing_measured() -> JobReport:
    return job("datagen-x", "datagen", Measurements())


def small_fleet() -> list[JobReport]:
    """Return all jobs, in no particular order."""
    return [
        nothing_measured(), completed(), sft_blind(), rl_seqnorm(), bringing_up(), failed_eval(), pending_cell(),
        rl_collapsing(), sft_degraded(),
    ]  # fmt: skip
