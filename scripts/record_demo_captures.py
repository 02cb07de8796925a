"""Records the demo's generated captures anew, with the real wandb client in offline mode.

No training of this kind could be recorded, so the VALUES are generated here, from a fixed seed; the files are the real
client's. The demo's other captures (`delphi-tiny-abc123` and the Levanter checkpoints) come from real programs and are
not touched. Run it from the project's top folder, in the project's environment:

    python scripts/record_demo_captures.py
"""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CAPTURES = Path(__file__).parents[1] / "exporter" / "runwatch" / "demo" / "captures" / "generated"
SEED = 20260401

RL_STEPS = 120
RL_COLLAPSE = range(44, 48)
RL_EVAL_EVERY = 20
RL_SAVE_EVERY = 10
RL_CONFIG: dict[str, object] = {
    "trainer": {"epochs": 8, "train_batch_size": 64, "max_training_steps": 400, "ckpt_interval": RL_SAVE_EVERY},
    "generator": {"n_samples_per_prompt": 8},
}

SFT_STEPS = 140
SFT_CONFIG: dict[str, object] = {
    "max_steps": 500,
    "per_device_train_batch_size": 4,
    "save_strategy": "steps",
    "save_steps": 50,
}

Row = dict[str, float]


def rl_rows() -> Iterator[Row]:
    """Yield a run under SkyRL's keys (the old spellings and the fork's): it collapses at `RL_COLLAPSE` and recovers.

    At these steps the gradient norm is above 1, the entropy a third below its ten steps before, and the mean
    log-ratio doubles while its largest value does not: all three signals of the collapse rule.
    """
    noise = random.Random(SEED)  # noqa: S311 - made-up curves, no secret
    for step in range(1, RL_STEPS + 1):
        collapsing = step in RL_COLLAPSE
        progress = step / RL_STEPS
        reward = 0.22 + 0.35 * progress + noise.gauss(0, 0.015) - (0.12 if collapsing else 0.0)
        mean_log_ratio = (0.019 if collapsing else 0.006) * noise.uniform(0.9, 1.1)
        row = {
            "trainer/global_step": step,
            "trainer/epoch": step // 50,
            "reward/avg_raw_reward": reward,
            "reward/avg_pass_at_8": min(0.95, reward + 0.25 + noise.gauss(0, 0.01)),
            "policy/policy_loss": -0.004 + noise.gauss(0, 0.002),
            "policy/policy_entropy": (0.30 if collapsing else 0.52) * noise.uniform(0.96, 1.04),
            "policy/raw_grad_norm": (1.6 if collapsing else 0.14) * noise.uniform(0.9, 1.1),
            "policy/ppo_clip_ratio": (0.02 if collapsing else 0.002) * noise.uniform(0.8, 1.2),
            "policy/policy_lr": 1e-6,
            "policy/rollout_train_prob_diff_mean": 10 ** noise.uniform(4, 7),
            "policy/z_clip/triggered": float(collapsing),
            "policy/z_clip/z_score": noise.gauss(0, 1) + (6.0 if collapsing else 0.0),
            "policy/log_ratio_diagnostics_failed": 0,
            "policy/log_ratio_abs_mean": mean_log_ratio,
            "policy/log_ratio_abs_p99": 14 * mean_log_ratio,
            "policy/log_ratio_abs_max": 1.9 * noise.uniform(0.9, 1.1),
            "policy/n_tokens_dp_gt_1pct": 2100 * mean_log_ratio / 0.006,
            "policy/n_tokens_dp_gt_10pct": 160 * mean_log_ratio / 0.006,
            "policy/n_tokens_dp_gt_50pct": 4 * mean_log_ratio / 0.006,
            "tis/imp_ratio_mean": 1.0 + noise.gauss(0, 0.01),
            "tis/imp_ratio_capped_fraction": 0.003 * noise.uniform(0.5, 1.5),
            "tis/log_ratio_abs_mean": 0.011 * noise.uniform(0.9, 1.1),
            "generate/avg_num_tokens": 2600 + 900 * progress + noise.gauss(0, 60),
            "generate/avg_num_turns": 9 + 2 * progress + noise.gauss(0, 0.2),
            "timing/generate": 3.1 * noise.uniform(0.9, 1.1),
            "timing/fwd_logprobs_values_reward": 0.4 * noise.uniform(0.9, 1.1),
            "timing/policy_train": 1.1 * noise.uniform(0.9, 1.1),
            "timing/sync_weights": 0.2 * noise.uniform(0.9, 1.1),
            "timing/step": 5.0 * noise.uniform(0.97, 1.03),
        }
        for percent in range(0, 100, 10):
            row[f"policy/log_ratio_abs_pos{percent:02d}"] = mean_log_ratio * noise.uniform(0.95, 1.05)
        if step % RL_EVAL_EVERY == 0:
            row["eval/all/avg_score"] = reward + noise.gauss(0, 0.01)
            row["timing/eval"] = 12 * noise.uniform(0.9, 1.1)
        if step % RL_SAVE_EVERY == 0:
            row["timing/save_checkpoints"] = 2 * noise.uniform(0.9, 1.1)
        yield row


def failing_sft_rows() -> Iterator[Row]:
    """Yield a fine-tune under Hugging Face's keys whose loss runs away from step 110 on and ends in NaN."""
    noise = random.Random(SEED + 1)  # noqa: S311 - made-up curves, no secret
    for step in range(1, SFT_STEPS + 1):
        runaway = max(step - 110, 0)
        loss = 0.7 + 1.1 * math.exp(-step / 40) + noise.gauss(0, 0.01) + 0.004 * runaway**2
        yield {
            "train/global_step": step,
            "train/epoch": step / 250,
            "train/loss": math.nan if step == SFT_STEPS else loss,
            "train/grad_norm": math.nan if step == SFT_STEPS else 0.6 * noise.uniform(0.9, 1.1) + 0.08 * runaway,
            "train/learning_rate": 2e-5 * (1 - step / 500),
        }


def record(name: str) -> None:
    """Write one capture into the folder that the client was told to use (runs in a process of its own)."""
    import wandb  # noqa: PLC0415 - only the recording process needs it

    rows, config, exit_code = {
        "agentic-rl": (rl_rows(), RL_CONFIG, 0),
        "coldstart-failed": (failing_sft_rows(), SFT_CONFIG, 1),
    }[name]
    # Nothing of the machine that records it belongs into the capture.
    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        host="demo",
        username="demo",
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
    )
    run = wandb.init(project="demo", id=name, name=name, config=config, settings=settings)
    for row in rows:
        run.log(row)
    run.finish(exit_code=exit_code)


def record_in_own_process(name: str) -> None:
    """Let a fresh process record a capture, and keep its transaction log alone."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "WANDB_ERROR_REPORTING": "false",
            "WANDB_PROGRAM": "train.py",
            **{f"WANDB_{kind}_DIR": folder for kind in ("CACHE", "CONFIG", "DATA")},
            "WANDB_DIR": folder,
        }
        subprocess.run([sys.executable, str(Path(__file__).resolve()), name], check=True, env=environment, cwd=folder)
        [log] = Path(folder).rglob(f"run-{name}.wandb")
        target = CAPTURES / name / log.parent.name
        shutil.rmtree(target.parent, ignore_errors=True)
        target.mkdir(parents=True)
        shutil.copyfile(log, target / log.name)


def main() -> None:
    """Record every generated capture, or, with a name, that one into the client's own folder."""
    if len(sys.argv) > 1:
        record(sys.argv[1])
        return
    for name in ("agentic-rl", "coldstart-failed"):
        record_in_own_process(name)


if __name__ == "__main__":
    main()
