"""A fleet of real files for the dashboards: every bucket, two sites, and a name that both sites have.

Every figure is chosen so that what a panel must show can be worked out by hand. Times are seconds before the moment
at which the fleet is written, negative ones lie before it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from runwatch.demo.saves import SkyrlSaves, write_at
from tests.unit import slurm_stand_in
from tests.unit.trial_trees import job_result, trial

HOUR, MINUTE = 3600.0, 60.0
STEP_SECONDS = 60.0

RL_ROW = {
    "reward/avg_raw_reward": 0.25, "reward/avg_pass_at_4": 0.4, "reward/avg_pass_at_8": 0.5,
    "policy/policy_loss": 0.0125, "policy/policy_entropy": 0.75, "policy/raw_grad_norm": 0.31,
    "policy/ppo_clip_ratio": 0.002, "policy/z_clip/triggered": 0.0, "policy/log_ratio_abs_mean": 0.0112,
    "policy/log_ratio_abs_p99": 0.15, "policy/log_ratio_abs_max": 0.4, "policy/n_tokens_dp_gt_50pct": 3.0,
    "tis/imp_ratio_mean": 1.02, "tis/imp_ratio_capped_fraction": 0.0, "tis/log_ratio_abs_mean": 0.0312,
    "generate/avg_num_tokens": 2048.0, "generate/avg_num_turns": 6.0, "timing/step": 60.0, "timing/generate": 40.0,
    **{f"policy/log_ratio_abs_pos{decile:02d}": 0.011 for decile in range(0, 100, 10)},
}  # fmt: skip
COLLAPSED_ROW = {**RL_ROW, "policy/raw_grad_norm": 1.5, "policy/policy_entropy": 0.375}
SFT_BATCH, SFT_LENGTH = 120, 1024
"""120 x 1,024 tokens in a step of 60 s: 2,048 tokens a second."""

LAB, DESK = "lab", "desk"
LAB_JOB_PAGE = "https://slurm.example.org/jobs?id={scheduler_job}"
LAB_CHECKPOINT_PAGE = "https://files.example.org/{path}"
JOBS = {LAB: 9, DESK: 6}
"""How many jobs each site has; `delphi` is one of both."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The configs, one exporter each as both sites have a `delphi`, and the moment of the fleet (Unix seconds)."""

    configs: Mapping[str, Path]
    now: float


def write_fleet(folder: Path, now: float) -> Fleet:
    """Write all files of the fleet, and a config for each site."""
    configs = {}
    for site, jobs in ((LAB, _lab(folder / LAB, now)), (DESK, _desk(folder / DESK, now))):
        settings = {
            "poll_interval": "2s",
            "linger": "30d",
            "listen": "127.0.0.1:0",
            "sites": {site: _site(folder / LAB) if site == LAB else {"scheduler": "none"}},
            "jobs": [{"site": site, **job} for job in jobs],
        }
        configs[site] = folder / site / "runwatch.yaml"
        configs[site].write_text(yaml.safe_dump(settings, sort_keys=False))
    return Fleet(configs, now)


def _site(folder: Path) -> dict[str, object]:
    prefix = [sys.executable, str(Path(slurm_stand_in.__file__)), str(folder / "slurm")]
    pages = {"job_page": LAB_JOB_PAGE, "checkpoint_page": LAB_CHECKPOINT_PAGE}
    return {"scheduler": "slurm", "command_prefix": prefix, "timezone": "UTC", **pages}


def _history(path: Path, rows: Iterable[tuple[int, float, Mapping[str, float]]]) -> None:
    """Write rows of (step, time in Unix seconds, values)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"_step": step, "_timestamp": time, **values}) for step, time, values in rows]
    path.write_text("".join(f"{line}\n" for line in lines))


def _steady(
    first: int, last: int, until: float, values: Mapping[str, float]
) -> list[tuple[int, float, Mapping[str, float]]]:
    """Steps from `first` to `last`, one a minute, the last of them at `until` (Unix seconds)."""
    return [(step, until - (last - step) * STEP_SECONDS, values) for step in range(first, last + 1)]


def _sft_row(loss: float, grad_norm: float) -> dict[str, float]:
    return {"train/loss": loss, "grad/norm/total": grad_norm, "optim/learning_rate": 2e-5, "eval/loss": loss + 0.5}


def _sft(steps: int) -> dict[str, object]:
    return {"train_batch_size": SFT_BATCH, "max_seq_len": SFT_LENGTH, "num_train_steps": steps,
            "accelerators": 8, "accelerator": "h100"}  # fmt: skip


def _lab(folder: Path, now: float) -> list[dict[str, object]]:
    _slurm(folder / "slurm", now)
    _history(folder / "math-rl.jsonl", _steady(1, 60, now - 30, RL_ROW))
    saves = SkyrlSaves(folder / "math-rl", every=25)
    for step in (25, 50):
        saves.step_done(step, 1, now - 30 - (60 - step) * STEP_SECONDS)
    before = _steady(0, 119, now - 2 * HOUR, _sft_row(2.5, 0.4))
    after = _steady(120, 214, now - MINUTE, _sft_row(2.25, 0.45))
    _history(folder / "delphi.jsonl", [*before, *after])
    _levanter_checkpoint(folder / "delphi" / "step-200", 200, now - MINUTE - 14 * STEP_SECONDS)
    _history(folder / "lr-a.jsonl", _steady(1, 50, now - 30, _sft_row(1.5, 0.25)))
    _history(folder / "done.jsonl", _steady(1, 50, now - 3 * HOUR, _sft_row(1.25, 0.2)))
    return [
        {"run": "math-rl", "bucket": "rl", "kind": "standard", "scheduler_job": "101",
         "history": {"jsonl": "math-rl.jsonl"}, "checkpoints": ["math-rl"],
         "config": {"num_train_steps": 200, "rollouts_per_step": 512, "accelerators": 16, "accelerator": "h100"},
         "labels": {"owner": "ana", "shaping": "off", "tracker_row": "31"}},
        {"run": "delphi", "bucket": "sft", "kind": "midtraining", "scheduler_job": "102", "config": _sft(400),
         "history": {"jsonl": "delphi.jsonl"}, "checkpoints": ["delphi"], "labels": {"owner": "ana"}},
        {"run": "queued-sft", "bucket": "sft", "scheduler_job": "103", "labels": {"owner": "bo"}},
        {"run": "publish", "bucket": "other", "kind": "datagen-consolidate", "scheduler_job": "105",
         "labels": {"owner": "cy", "note": "pushes rows"}},
        {"run": "gpu-ci", "bucket": "other", "kind": "gpu-ci", "scheduler_job": "106", "labels": {"owner": "cy"}},
        {"run": "done-sft", "bucket": "sft", "scheduler_job": "107", "config": _sft(50),
         "history": {"jsonl": "done.jsonl"}, "labels": {"owner": "ana"}},
        {"run": "lr-a", "bucket": "sft", "scheduler_job": "108", "config": _sft(200),
         "history": {"jsonl": "lr-a.jsonl"}, "labels": {"owner": "bo", "grid": "lr"}},
        {"run": "lr-b", "bucket": "sft", "scheduler_job": "109", "config": _sft(200),
         "labels": {"owner": "bo", "grid": "lr"}},
        {"run": "lr-c", "bucket": "sft", "scheduler_job": "110", "config": _sft(200),
         "labels": {"owner": "bo", "grid": "lr"}},
    ]  # fmt: skip


def _desk(folder: Path, now: float) -> list[dict[str, object]]:
    steady = _steady(1, 18, now - 90 - 2 * STEP_SECONDS, {**RL_ROW, "reward/avg_raw_reward": 0.125})
    _history(folder / "collapsed-rl.jsonl", [*steady, *_steady(19, 20, now - 90, COLLAPSED_ROW)])
    _history(folder / "delphi.jsonl", _steady(1, 100, now - MINUTE, _sft_row(3.0, 0.6)))
    with (folder / "delphi.jsonl").open("a") as file:
        file.write('{"_step": 101, "train/lo\n')  # the one row of the fleet that nobody can read
    _history(folder / "bringup-rl.jsonl", [(0, now - 10 * MINUTE, {"eval/all/avg_score": 0.183})])
    _datagen(folder / "datagen", now)
    _eval(folder / "tb2", now)
    for run in ("datagen-qwen", "tb2-qwen"):
        write_at(folder / f"{run}.log", _log_of_engine(now), now - 5)
    return [
        {"run": "collapsed-rl", "bucket": "rl", "kind": "agentic", "history": {"jsonl": "collapsed-rl.jsonl"},
         "config": {"num_train_steps": 100}, "trials": {"path": "tb2"},
         "labels": {"owner": "bo", "shaping": "on", "hold": "no-kill"}},
        {"run": "delphi", "bucket": "sft", "history": {"jsonl": "delphi.jsonl"}, "labels": {"owner": "bo"}},
        {"run": "bringup-rl", "bucket": "rl", "history": {"jsonl": "bringup-rl.jsonl"},
         "config": {"num_train_steps": 100}, "labels": {"owner": "bo", "new_setting": "yes"}},
        {"run": "datagen-qwen", "bucket": "datagen", "history": {"log": "datagen-qwen.log"},
         "trials": {"path": "datagen", "target": 12}, "labels": {"owner": "cy", "tracker_row": "112"}},
        {"run": "tb2-qwen", "bucket": "eval", "kind": "terminal-bench-2", "history": {"log": "tb2-qwen.log"},
         "trials": {"path": "tb2", "target": 20},
         "labels": {"owner": "cy"}},
        {"run": "unread", "bucket": "sft", "history": {"jsonl": "there-is-no-such-file.jsonl"},
         "labels": {"owner": "cy"}},
    ]  # fmt: skip


def _levanter_checkpoint(folder: Path, step: int, time: float) -> None:
    stamp = datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat()
    write_at(folder / "manifest.json", "{}", time)
    record = {"step": step, "timestamp": stamp, "is_temporary": False}
    write_at(folder / "metadata.json", json.dumps(record), time)


def _datagen(folder: Path, now: float) -> None:
    """Three chunks: one done with 4 results, one that runs with 2, one of which one has an exception, one to come."""
    done, runs = folder / "chunk_000" / "job", folder / "chunk_001" / "job"
    for number, reward in enumerate((1.0, 1.0, 0.0, 1.0)):
        trial(done / f"task-{number}__aaaaaa{number}", reward, turns=4, written=now - HOUR)
    trial(runs / "task-0__bbbbbb0", 0.0, turns=6, written=now - 10 * MINUTE)
    trial(runs / "task-1__bbbbbb1", None, exception="AgentTimeoutError", turns=8, written=now - 5 * MINUTE)
    job_result(done, 4, finished=True, written=now - HOUR)
    job_result(runs, 4, written=now - 5 * MINUTE)
    for chunk in range(3):
        write_at(folder / "task_chunks" / f"chunk_{chunk:03d}" / "tasks.json", "[]", now - 2 * HOUR)


def _eval(folder: Path, now: float) -> None:
    """Five of 20 results, two of which passed; two timed out, and one of these has a reward of 0 all the same."""
    job = folder / "eval-qwen__tb2"
    for number, reward in enumerate((1.0, 1.0, 0.0)):
        trial(job / f"task-{number}__ccccccc", reward, turns=20, written=now - 30 * MINUTE)
    trial(job / "task-3__ccccccc", 0.0, exception="AgentTimeoutError", turns=30, written=now - 20 * MINUTE)
    trial(job / "task-4__ccccccc", None, exception="AgentTimeoutError", turns=35, written=now - 10 * MINUTE)
    job_result(job, 20, written=now - 10 * MINUTE)


def _log_of_engine(now: float) -> str:
    """What a log says of the engine, of the way to it, and of the sandbox provider's refusals."""
    stamp = datetime.fromtimestamp(now - 20, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return "".join(
        f"{stamp},000 INFO {line}\n"
        for line in (
            "tunnel established",
            "api_base: https://engine.example.org/v1",
            "Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 20.0 tokens/s, "
            "Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%",
            'INFO: 10.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
            "DaytonaAuthenticationError: status 401",
        )
    )


def _slurm(folder: Path, now: float) -> None:
    """What squeue and sacct say; `¦` is the separator that the stand-in writes for the one asked for."""
    folder.mkdir(parents=True)

    def at(seconds: float) -> str:
        return datetime.fromtimestamp(round(now + seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")

    def queued(job: int, word: str, name: str, submit: float, *, start: float | None, reason: str = "None") -> str:
        started = "N/A" if start is None else at(start)
        used = "0:00" if start is None else "1:00"
        return "¦".join(
            (str(job), word, used, "(null)", reason, at(submit), started, "N/A", "u1", "n1", "/data", name, "\n")
        )

    def accounted(
        job: int, word: str, name: str, submit: float, *, start: float, end: float | None, exited: str = "0:0"
    ) -> str:
        ended = "Unknown" if end is None else at(end)
        return "¦".join(
            (
                str(job),
                word,
                exited,
                "0:0",
                "60",
                at(submit),
                at(start),
                ended,
                "u1",
                "n1",
                "/data",
                name,
                "sbatch x",
                "\n",
            )
        )

    running = (
        (101, "math-rl", -2 * HOUR), (105, "publish", -30 * MINUTE), (108, "lr-a", -HOUR),
    )  # fmt: skip
    waiting = ((103, "queued", "Priority"), (109, "lr-b", "Resources"), (110, "lr-c", "Priority"))
    ended = (
        (106, "FAILED", "gpu-ci", -3 * HOUR, -2.5 * HOUR, "1:0"),
        (107, "COMPLETED", "done", -4 * HOUR, -3 * HOUR, "0:0"),
    )
    queue = [queued(job, "RUNNING", name, start, start=start) for job, name, start in running]
    queue += [queued(102, "RUNNING", "delphi", -2 * HOUR + 30, start=-100 * MINUTE)]
    queue += [queued(job, "PENDING", name, -HOUR, start=None, reason=reason) for job, name, reason in waiting]
    accounting = [accounted(job, "RUNNING", name, start, start=start, end=None) for job, name, start in running]
    accounting += [
        accounted(102, "PREEMPTED", "delphi", -5 * HOUR, start=-4 * HOUR - MINUTE, end=-2 * HOUR + 30),
        accounted(102, "RUNNING", "delphi", -2 * HOUR + 30, start=-100 * MINUTE, end=None),
    ]
    accounting += [
        accounted(job, word, name, start, start=start, end=end, exited=code)
        for job, word, name, start, end, code in ended
    ]
    (folder / "squeue").write_text("".join(queue))
    (folder / "sacct").write_text("".join(accounting))
    (folder / "scontrol").write_text("")
