"""Running commands: argument lists, time, bounds, and what it means that one failed. Real programs are run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from runwatch.facts import Failure, FailureReason
from runwatch.sources import slurm_commands
from runwatch.sources.slurm_commands import Output, SlurmCommands, failed
from runwatch.sources.slurm_log_paths import LogQuestion, find_logs
from tests.e2e.running_server import eventually

PYTHON = (sys.executable, "-c")


def run(*arguments: str, prefix: tuple[str, ...] = (), seconds: float = 20.0) -> Output | Failure:
    return SlurmCommands(prefix, lambda: None).run(arguments, seconds)


def test_arguments_are_passed_as_they_are_and_counted() -> None:
    calls = Counter[str]()
    commands = SlurmCommands(PYTHON, lambda: calls.update(["hpc"]))
    output = commands.run(["import sys; print(sys.argv[1:])", "a b", "$(id)", ";ls"], 20)
    assert output == Output(0, "['a b', '$(id)', ';ls']\n", "")
    assert calls == {"hpc": 1}


def test_bytes_that_are_no_text_are_replaced() -> None:
    output = run(*PYTHON, r"import os; os.write(1, b'a\xff\n')")
    assert isinstance(output, Output) and output.text == "a\N{REPLACEMENT CHARACTER}\n"


def is_running(pid: int) -> bool:
    """Whether the process runs; one that ended and whose parent has not looked yet does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def test_hung_command_is_killed_with_its_children(tmp_path: Path) -> None:
    begun = time.monotonic()
    failure = run("sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; wait", seconds=3.0)
    assert isinstance(failure, Failure) and failure.reason is FailureReason.TIMEOUT
    assert time.monotonic() - begun < 60
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not is_running(child), "the child of the hung command has ended")


def test_pipe_that_another_process_holds_open_does_not_keep_the_answer() -> None:
    """As ssh does with a connection that it keeps for later."""
    script = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    output = run(*PYTHON, script, seconds=60)
    assert isinstance(output, Output)
    holder = int(output.text)
    assert is_running(holder)
    os.kill(holder, signal.SIGKILL)


def test_too_much_output_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_commands, "MAX_OUTPUT_BYTES", 1 << 20)
    failure = run(*PYTHON, "import sys\nwhile True: sys.stdout.write('x' * 65536)")
    assert isinstance(failure, Failure) and failure.reason is FailureReason.PARSE
    assert "1048576 bytes" in failure.detail


def test_missing_command_is_named() -> None:
    failure = run("squeue-that-is-not-here")
    assert isinstance(failure, Failure) and failure.reason is FailureReason.OTHER
    assert "squeue-that-is-not-here" in failure.detail


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", FailureReason.NETWORK),
        (1, "slurm_load_jobs error: Zero Bytes were transmitted or received", FailureReason.NETWORK),
        (255, "ssh: connect to host login01 port 22: Connection refused", FailureReason.NETWORK),
        (255, "u1@login01: Permission denied (publickey).", FailureReason.AUTH),
        (255, "Host key verification failed.", FailureReason.AUTH),
        (1, "slurm_load_jobs error: Protocol authentication error", FailureReason.AUTH),
        (127, "bash: squeue: command not found", FailureReason.OTHER),
    ],
)
def test_what_a_failed_command_means(code: int, said: str, reason: FailureReason) -> None:
    failure = failed("squeue", Output(code, "", f"\n{said}\nmore"))
    assert failure is not None
    assert (failure.reason, failure.detail) == (reason, f"squeue: {said}")


def test_filters_that_a_user_set_for_himself_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_USERS", "u1")
    monkeypatch.setenv("SLURM_CONF", "/etc/own.conf")
    output = run(*PYTHON, "import os; print(os.environ.get('SQUEUE_USERS'), os.environ.get('SLURM_CONF'))")
    assert isinstance(output, Output) and output.text == "None /etc/own.conf\n"


def test_text_of_a_job_goes_behind_a_prefix_only_where_no_shell_could_read_it() -> None:
    behind, alone = SlurmCommands(["ssh", "login01"], lambda: None), SlurmCommands([], lambda: None)
    assert behind.may_pass("/data/wd/run_1.out")
    for text in ("a b", "$(id)", "a;b", "a'b", "a\nb", "`id`", "~", "a|b", "*", "größe"):
        assert not behind.may_pass(text)
        assert alone.may_pass(text)
    assert not alone.may_pass("a\0b")


def test_logs_are_found_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "logs" / "deeper").mkdir(parents=True)
    for name in (
        "slurm-1.out",
        "run-7_2.out",
        "slurm-9_3.out",
        "logs/other_3.out",
        "logs/deeper/x_4.out",
        "sp ace_5.out",
    ):
        (tmp_path / name).touch()
    folder = str(tmp_path)

    def asked(job: str, name: str, path: str) -> LogQuestion:
        return LogQuestion(job, job, name, path, folder)

    questions = [
        asked("1", "run", f"{folder}/slurm-1.out"),  # where the scheduler says
        asked("2", "run-7", f"{folder}/never/run-7_2.out"),  # elsewhere, under the job's name
        asked("3", "run", ""),  # another's name; `slurm-9_3.out` is a task of array 9
        asked("4", "run", f"{folder}/never.out"),  # deeper is not searched
        asked("5", "run", f"{folder}/sp ace_5.out"),
    ]
    found = find_logs(SlurmCommands([], lambda: None), questions, 20)
    assert found == {
        "1": f"{folder}/slurm-1.out",
        "2": f"{folder}/run-7_2.out",
        "3": f"{folder}/logs/other_3.out",
        "5": f"{folder}/sp ace_5.out",
    }
