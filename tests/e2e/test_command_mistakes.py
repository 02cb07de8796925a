"""What people get wrong on the command line, and what they are told: one clear line, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.test_wandb_commands import command
from tests.unit.trial_trees import job_result, trial


@pytest.fixture
def config(tmp_path: Path) -> Path:
    now = time.time()
    rows = [{"_step": i, "_timestamp": now - 600 + i, "train/loss": 2.0} for i in range(20)]
    (tmp_path / "sft.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = tmp_path / "runwatch.yaml"
    path.write_text("jobs: [{run: sft-cell-a, bucket: sft, history: {jsonl: sft.jsonl}}]\n")
    return path


@pytest.mark.parametrize("at", ["nan", "inf", "1e300", "-1", "1790000000000"])
def test_a_time_that_is_none(config: Path, tmp_path: Path, at: str) -> None:
    result = command("line", "--config", config, f"--at={at}", home=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Invalid value for '--at': expected Unix seconds" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_that_is_written_wrong(config: Path, tmp_path: Path) -> None:
    result = command("explain", "--config", config, "sft-cell-b", home=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "no job is named 'sft-cell-b' (did you mean sft-cell-a?); known are: sft-cell-a\n"
    )  # fmt: skip


def test_a_run_may_be_there_where_jobs_could_not_be_found(tmp_path: Path) -> None:
    config = tmp_path / "runwatch.yaml"
    (tmp_path / "key").write_text("k" * 40)
    (tmp_path / "key").chmod(0o600)
    # Nothing listens at port 9 of this machine.
    config.write_text(
        "wandb: {base_url: 'http://127.0.0.1:9', api_key_file: key}\ndiscover: [{wandb: lab/p, bucket: rl}]\n"
    )
    for arguments in (("explain", "--config", config, "delphi"), ("line", "--config", config, "delphi")):
        result = command(*arguments, home=tmp_path)
        assert (result.returncode, result.stdout) == (3, "")
        assert "no job is named 'delphi'; known are: none\n" in result.stderr
        assert "could not look: discovery: network: " in result.stderr


def test_a_run_that_ended_long_ago_is_not_called_unknown(tmp_path: Path) -> None:
    old = time.time() - 30 * 86400
    trial(tmp_path / "trials" / "job" / "a__1", written=old)
    job_result(tmp_path / "trials" / "job", 1, finished=True, written=old)
    config = tmp_path / "runwatch.yaml"
    config.write_text("jobs: [{run: tb2, bucket: eval, trials: {path: trials, target: 1}}]\n")
    result = command("explain", "--config", config, "tb2", home=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "job 'tb2' ended longer ago than `linger` says, and is not shown any more\n"


EVERY_COMMAND = (
    ("check", "F"),
    ("metrics", "--config", "F"),
    ("tables", "--config", "F"),
    ("tables", "--config", "F", "--json"),
    ("line", "--config", "F"),
    ("explain", "--config", "F", "delphi"),
    ("--version",),
    ("--help",),
    ("check", "--help"),
)


def shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a shell with that redirection does."""
    script = f'exec "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "runwatch", *arguments],
        capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ),
    )  # fmt: skip


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A config of one job that is read and of one whose history is not there."""
    (tmp_path / "rows.jsonl").write_text('{"_step": 1, "_timestamp": 1700000000}\n')
    path = tmp_path / "watched.yaml"
    path.write_text(
        "jobs:\n- {run: delphi, bucket: sft, history: {jsonl: rows.jsonl}}\n"
        "- {run: gone, bucket: sft, history: {jsonl: no.jsonl}}\n"
    )
    return path


def test_a_named_run_is_read_alone(watched: Path) -> None:
    for name in ("line", "explain"):
        one = shell("", name, "--config", str(watched), "delphi")
        assert (one.returncode, one.stderr) == (0, "")
        other = shell("", name, "--config", str(watched), "gone")
        assert other.returncode == 3
        assert other.stderr.startswith("could not look: gone: history: not_found: ")
    assert shell("", "line", "--config", str(watched)).returncode == 3
    unknown = shell("", "explain", "--config", str(watched), "delph")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "no job is named 'delph' (did you mean delphi?); known are: delphi, gone\n",
    )


@pytest.mark.parametrize("arguments", EVERY_COMMAND, ids=" ".join)
def test_a_result_that_cannot_be_written_is_one_line_and_exit_1(watched: Path, arguments: tuple[str, ...]) -> None:
    arguments = tuple(str(watched) if word == "F" else word for word in arguments)
    full = shell(">/dev/full", *arguments)
    assert (full.returncode, full.stderr) == (1, "cannot write the output: No space left on device\n")
    if "--help" in arguments:
        return  # click says nothing to a closed stdout
    closed = shell(">&-", *arguments)
    assert (closed.returncode, closed.stderr) == (1, "cannot write the output: stdout is closed\n")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "2> >(exec true)"])
def test_complaints_that_nobody_takes_change_no_result(watched: Path, redirection: str) -> None:
    for arguments in (("line", "--config", str(watched)), ("metrics", "--config", str(watched), "--at", "1700000100")):
        heard = shell("", *arguments)
        assert heard.returncode == 3
        assert "could not look: gone" in heard.stderr
        unheard = shell(redirection, *arguments)
        assert (unheard.returncode, unheard.stdout) == (3, heard.stdout)
    assert shell(redirection, "check", str(watched.with_name("no.yaml"))).returncode == 2


def test_upstream_text_on_stderr_cannot_steer_the_terminal(tmp_path: Path) -> None:
    config = tmp_path / "runwatch.yaml"
    config.write_text('jobs: [{run: "a\\e[2Jb", bucket: sft, history: {jsonl: "no\\e[31m.jsonl"}}]\n')
    result = command("line", "--config", config, home=tmp_path)
    assert result.returncode == 3
    assert "could not look: a\\x1b[2Jb: history: not_found: " in result.stderr
    known = command("line", "--config", config, "other", home=tmp_path)
    assert "known are: a\\x1b[2Jb\n" in known.stderr
    assert "\x1b" not in result.stdout + result.stderr + known.stderr
