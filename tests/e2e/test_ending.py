"""`runwatch serve` ends when it is told to, whichever thread is told and whatever the others wait for."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.running_exporter import serving

THREAD_THAT_WAITS_FOR_EVER = """
import threading
from runwatch.ending import bound_the_end, end_process
threading.Thread(target=threading.Event().wait, name="hung-upstream").start()
"""


def config_of_one_job(folder: Path) -> Path:
    (folder / "rows.jsonl").write_text('{"_step": 7, "_timestamp": 1700000000}\n')
    config = folder / "runwatch.yaml"
    config.write_text(
        "listen: 127.0.0.1:0\n"
        "sites: {desk: {scheduler: none}}\n"
        "jobs: [{run: a, bucket: sft, site: desk, history: {jsonl: rows.jsonl}}]\n"
    )
    return config


def run(code: str) -> tuple[int, str]:
    """Run Python code beside a thread that waits for ever; return its exit code and what it wrote to stderr."""
    command = [sys.executable, "-c", THREAD_THAT_WAITS_FOR_EVER + code]
    process = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, timeout=60)
    return process.returncode, process.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="a signal for one thread is Linux' own")
def test_a_signal_that_another_thread_gets_ends_it(tmp_path: Path) -> None:
    with serving(config_of_one_job(tmp_path)) as exporter:
        pid = exporter.process.pid
        others = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid]
        assert others
        assert ctypes.CDLL(None).tgkill(pid, others[0], signal.SIGTERM) == 0
        assert exporter.process.wait(30) == 0


def test_an_end_that_takes_too_long_is_cut_off_and_says_what_hung() -> None:
    code, said = run("bound_the_end(0.5)\nthreading.Event().wait()")
    assert code == 1
    assert "Timeout (0:00:00.500000)!" in said
    assert said.count("Thread 0x") == 2
    assert "in wait" in said


def test_it_is_cut_off_where_stderr_is_closed_too() -> None:
    code, said = run("import sys; sys.stderr = None\nbound_the_end(0.5)\nthreading.Event().wait()")
    assert (code, said) == (1, "")


def test_the_end_waits_for_no_thread_and_loses_no_output() -> None:
    code, said = run("import sys; sys.stderr.write('last words')\nend_process(3)")
    assert (code, said) == (3, "last words")
