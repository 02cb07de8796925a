"""A fleet with jobs of every bucket, at two sites, with long names and with jobs of which nothing is measured.

As in the small fleet, nothing here is computed by the code under test. All times are relative to its `NOW`.
"""

from __future__ import annotations

from runwatch.measurements import Evidence, JobReport, Measurements
from tests.unit.small_fleet import HOUR, MINUTE, NOW, Value, job, measure, rl_collapsing, rl_seqnorm, sft_degraded

SEEN: dict[str, float] = {"trials": NOW - 10, "log": NOW - 10, "scheduler": NOW - 10}


def datagen_running() -> JobReport:
    """8,612 of 10,000 results: 8612 x 0.191 = 1645 with an exception."""
    values: dict[str, Value] = {
        "trials": 8612, "trials_target": 10000, "trial_turns": 5.104, "trial_reward": 0.5312,
        "trial_exception_ratio": 0.191, "chunks": {"done": 17, "running": 2, "hung": 1, "failed": 0, "pending": 0},
        "last_trial_timestamp_seconds": NOW - 70, "observed_timestamp_seconds": SEEN,
    }  # fmt: skip
    return job(
        "datagen-swesmith-qwen3-coder-480b-terminus2-temperature-0.7-top-p-0.95-seed-20260301",
        "datagen",
        measure(values, "running", "stepping"),
        [("trials_stalled", "1 chunk hangs: log and trials silent for over 2 h")],
        site="leonardo",
        info={"tracker_row": "112"},
    )


def datagen_dead_engine() -> JobReport:
    """No verifier, so no mean; no chunks."""
    values: dict[str, Value] = {
        "trials": 40, "trial_turns": 1.0, "trial_exception_ratio": 0.0, "observed_timestamp_seconds": SEEN,
    }  # fmt: skip
    verdicts = [("dead_engine", "dead engine: 1.00 turns a trial over 40 trials: do not consolidate")]
    return job("datagen-dead", "datagen", measure(values, "running", "stepping"), verdicts)


def eval_with_timeouts() -> JobReport:
    """Four of five trials timed out, and that is no fault."""
    values: dict[str, Value] = {
        "trials": 142, "trials_target": 300, "trial_pass_ratio": 0.2113, "trial_exception_ratio": 0.803,
        "trial_exceptions": {"AgentTimeoutError": 113, "other": 200, "ContextLengthExceededError": 1},
        "infra_check": {"tunnel": 1, "api_base": 1, "engine": 1, "progress": 1},
        "trial_turns": 31.25, "observed_timestamp_seconds": SEEN,
    }  # fmt: skip
    return job(
        "tb2-qwen3-32b", "eval", measure(values, "running", "stepping"), [("stable", "stable")],
        info={"kind": "terminal-bench-2"},
    )  # fmt: skip


def eval_stalled() -> JobReport:
    values: dict[str, Value] = {
        "trials": 12, "trial_pass_ratio": 0.0, "trial_exception_ratio": 0.0,
        "infra_check": {"tunnel": 0, "api_base": 0, "progress": 0},
        "observed_timestamp_seconds": SEEN,
    }  # fmt: skip
    verdicts = [
        ("trials_stalled", "no new result for 1 h 12 min (limit 1 h)"),
        ("auth_failures", "7 auth failures of the sandbox provider in 30 min"),
    ]
    return job(
        "swebench-verified-delphi-1e23-p33m67-k0p20-lr0.67-b6607e-step-29945-pass-at-8", "eval",
        measure(values, "running", "stepping"), verdicts, site="leonardo",
    )  # fmt: skip


def eval_completed() -> JobReport:
    values: dict[str, Value] = {
        "trials": 89, "trials_target": 89, "trial_pass_ratio": 0.5, "infra_check": {"progress": 1},
        "observed_timestamp_seconds": {"trials": NOW - HOUR},
        "start_timestamp_seconds": NOW - 6 * HOUR, "end_timestamp_seconds": NOW - HOUR,
    }  # fmt: skip
    verdicts = [("completed", "completed; clean-up open: eval-agentic-cleanup")]
    return job("aime-qwen3-8b", "eval", measure(values, "succeeded", "finished"), verdicts)


def eval_without_a_result() -> JobReport:
    values: dict[str, Value] = {
        "trials": 0, "trials_target": 300, "start_timestamp_seconds": NOW - 10 - 9 * MINUTE,
        "observed_timestamp_seconds": SEEN,
    }  # fmt: skip
    return job("tb2-new", "eval", measure(values, "running", "bringup"), [("bringup", "no first result yet")])


def other_running() -> JobReport:
    values: dict[str, Value] = {
        "start_timestamp_seconds": NOW - 10 - 12 * MINUTE, "observed_timestamp_seconds": {"scheduler": NOW - 10},
    }  # fmt: skip
    return job(
        "consolidate-swesmith", "other", measure(values, "running", "stepping"), info={"kind": "datagen-consolidate"},
        evidence=[Evidence("note", "pushes 8,612 rows to the hub")],
    )  # fmt: skip


def other_failed() -> JobReport:
    values: dict[str, Value] = {
        "start_timestamp_seconds": NOW - 2 * HOUR, "end_timestamp_seconds": NOW - 2 * HOUR + 360, "exit_code": 1,
    }  # fmt: skip
    verdicts = [("failed", "failed, exit 1 (traceback): diagnose")]
    return job("gpu-ci-7731", "other", measure(values, "failed", "finished"), verdicts, info={"kind": "gpu-ci"})


def grid_cell(run: str, state: str, step: int | None = None, site: str = "marin") -> JobReport:
    values: dict[str, Value] = {} if step is None else {
        "step": step, "target_step": 200, "loss": 1.5, "eta_seconds": (200 - step) * 60,
    }  # fmt: skip
    phase = {"running": "stepping", "pending": "queued", "succeeded": "finished"}[state]
    verdicts = {
        "running": ("stable", "stable"),
        "pending": ("queued", "queued"),
        "succeeded": ("completed", "completed"),
    }
    return job(run, "sft", measure(values, state, phase), [verdicts[state]], site=site, info={"grid": "lr"})


def whole_fleet() -> list[JobReport]:
    """Return all jobs, in no particular order."""
    return [
        other_running(), job("unread-eval", "eval", Measurements()), rl_seqnorm(), eval_completed(), datagen_running(),
        job("unread-datagen", "datagen", Measurements()), job("unread-other", "other", Measurements()), eval_stalled(),
        grid_cell("lr-3e-5", "running", 50), grid_cell("lr-3e-5@marin#812", "pending"), grid_cell("lr-1e-5", "pending"),
        grid_cell("lr-1e-5-restart2", "pending"), grid_cell("lr-1e-4", "succeeded", 200), sft_degraded(),
        eval_with_timeouts(), other_failed(), datagen_dead_engine(), rl_collapsing(), eval_without_a_result(),
    ]  # fmt: skip
