"""The commands on jobs without W&B: trainers' logs and Harbor's results, as captured."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.e2e.test_wandb_commands import Samples, command, samples_of, value

DATA = Path(__file__).parents[1] / "data"
SFT = DATA / "logs" / "sft"


def look(tmp_path: Path, jobs: str) -> tuple[Samples, str]:
    config = tmp_path / "runwatch.yaml"
    config.write_text(f"linger: 3650d\njobs:\n{jobs}")
    metrics = command("metrics", "--config", config, home=tmp_path)
    assert metrics.returncode == 0, metrics.stderr
    tables = command("tables", "--config", config, home=tmp_path)
    assert tables.returncode == 0, tables.stderr
    return samples_of(metrics.stdout), tables.stdout


@pytest.mark.parametrize(
    ("capture", "step", "loss", "grad_norm"),
    [
        ("sft_llamafactory095_tf4571.out", 100, 2.8944, 0.39810678862843625),
        ("sft_llamafactory095_tf56.out", 50, 3.117, 0.4405),
    ],
)
def test_a_trainers_log_gives_step_total_and_values(
    tmp_path: Path, capture: str, step: int, loss: float, grad_norm: float
) -> None:
    samples, tables = look(tmp_path, f"- {{run: sft, bucket: sft, history: {{log: '{SFT / capture}'}}}}\n")
    assert value(samples, "mljob_step") == step
    assert value(samples, "mljob_target_step") == step
    assert value(samples, "mljob_loss") == pytest.approx(loss)
    assert value(samples, "mljob_grad_norm") == pytest.approx(grad_norm, rel=1e-6)
    assert value(samples, "mljob_state", state="succeeded") == 1
    assert f"{step}/{step}" in tables


def test_a_resumed_log_is_one_job_whose_steps_went_back(tmp_path: Path) -> None:
    capture = SFT / "hf_trainer_tf4571_resumed.out"
    samples, _ = look(tmp_path, f"- {{run: sft, bucket: sft, history: {{log: '{capture}'}}}}\n")
    assert value(samples, "mljob_step") == 80
    # It died at step 33 with a checkpoint of step 30; the bar had shown 32.
    assert value(samples, "mljob_replayed_steps") == 2


def test_a_gradient_that_is_no_number_with_a_finite_loss(tmp_path: Path) -> None:
    capture = SFT / "hf_trainer_tf4571_nan.out"
    samples, _ = look(tmp_path, f"- {{run: sft, bucket: sft, history: {{log: '{capture}'}}}}\n")
    assert value(samples, "mljob_nonfinite", metric="grad_norm") == 1
    assert value(samples, "mljob_nonfinite", metric="loss") == 0


def test_sixteen_trials_of_which_twelve_are_scored(tmp_path: Path) -> None:
    trials = DATA / "harbor" / "captured_0_26"
    samples, tables = look(tmp_path, f"- {{run: tb2, bucket: eval, trials: {{path: '{trials}', target: 300}}}}\n")
    assert value(samples, "mljob_trials") == 16
    assert value(samples, "mljob_trials_target") == 300
    assert value(samples, "mljob_trials_scored") == 12
    assert value(samples, "mljob_trial_pass_ratio") == 0.5
    assert value(samples, "mljob_trial_reward") == pytest.approx(5 / 12)
    assert "16/300" in tables


def test_results_older_than_the_run_do_not_move_its_start(tmp_path: Path) -> None:
    began = time.time() - 600
    rows = [{"_step": i, "_timestamp": began + 10 * i, "trainer/global_step": i + 1} for i in range(50)]
    (tmp_path / "rl.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trials = DATA / "harbor" / "captured_0_26"
    job = f"- {{run: rl, bucket: rl, history: {{jsonl: rl.jsonl}}, trials: {{path: '{trials}'}}}}\n"
    samples, _ = look(tmp_path, job)
    assert value(samples, "mljob_rl_trials_in_window") == 12
    assert value(samples, "mljob_start_timestamp_seconds") == pytest.approx(began, abs=0.001)


def test_a_log_that_is_not_there_is_not_found_and_gives_no_number(tmp_path: Path) -> None:
    config = tmp_path / "runwatch.yaml"
    config.write_text("jobs: [{run: sft, bucket: sft, history: {log: missing.out}}]\n")
    result = command("metrics", "--config", config, home=tmp_path)
    assert result.returncode == 3
    samples = samples_of(result.stdout)
    assert value(samples, "mljob_step") is None
    assert value(samples, "mljob_state", state="unknown") == 1
    assert (value(samples, "runwatch_source_errors_total", source="history", reason="not_found") or 0) >= 1


def test_explain_tells_how_much_of_a_history_and_a_log_could_not_be_read(tmp_path: Path) -> None:
    now = time.time()
    rows = [json.dumps({"_step": i, "_timestamp": now - 600 + i, "train/loss": 2.0}) for i in range(9)]
    lines = [*rows[:5], "no JSON", '{"_step": 5,', "[1, 2]", *rows[5:]]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    crashed = "{'loss': 4.9, 'grad_norm': 0.8, 'epoch': 0.1}\nTraceback (most recent call last):\n  File\nOSError: no\n"
    bars = "".join(f"\r {i}%|█   | {i}/100 [00:0{i}<01:39,  1.00s/it]" for i in range(9))
    (tmp_path / "train.log").write_text(
        f"***** Running training *****\n  Total optimization steps = 100\n{bars}\n{crashed}"
    )
    config = tmp_path / "runwatch.yaml"
    config.write_text(
        "jobs:\n- {run: rows, bucket: sft, history: {jsonl: rows.jsonl}}\n"
        "- {run: log, bucket: sft, history: {log: train.log}}\n"
    )
    of_rows = command("explain", "--config", config, "rows", home=tmp_path).stdout
    assert "history: 9 rows read from JSON lines" in of_rows
    assert "history: 3 rows or lines could not be read and were skipped [rows=3]" in of_rows
    of_log = command("explain", "--config", config, "log", home=tmp_path).stdout
    assert "  lines that look like metrics and could not be read: 1 [lines=1]\n" in of_log
    assert "could not be read and were skipped" not in of_log
