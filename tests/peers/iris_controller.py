"""The real Iris controller with local workers, behind a forwarder that keeps one address through restarts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.free_ports import free_port
from tests.required_programs import lacking

_TOP = Path(__file__).parents[2]
_DRIVER = Path(__file__).with_name("iris_driver.py")
_INSTALL = (
    "the Iris controller is missing: run `python scripts/iris_environment.py`, or let RUNWATCH_IRIS_PYTHON name the "
    "interpreter of an environment that has it"
)


def iris_python() -> str:
    """Return the interpreter of the environment; without one the test fails in CI and is skipped elsewhere."""
    named = os.environ.get("RUNWATCH_IRIS_PYTHON")
    python = Path(named) if named else _TOP / ".venv-iris" / "bin" / "python"
    if not python.is_file():
        lacking(_INSTALL)
    return str(python)


class Forwarder:
    """Passes TCP connections on from a port of its own; while closed, connections to it are refused."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = free_port()
        self.open()

    def open(self) -> None:
        """Take connections, always on the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accept()

    def close(self) -> None:
        """Refuse new connections and break those that are open."""
        # A blocked accept is woken by a shutdown, not by a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        self._acceptor = threading.Thread(target=self._serve, args=(self._listener,), daemon=True)
        self._acceptor.start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                inside, _ = listener.accept()
            except OSError:
                return
            try:
                outside = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                inside.close()
                continue
            outside.settimeout(None)
            with self._lock:
                self._connections |= {inside, outside}
            threading.Thread(target=self._couple, args=(inside, outside), daemon=True).start()

    def _couple(self, one: socket.socket, other: socket.socket) -> None:
        back = threading.Thread(target=_pump, args=(other, one), daemon=True)
        back.start()
        _pump(one, other)
        back.join()
        with self._lock:
            self._connections -= {one, other}
        one.close()
        other.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@dataclass
class IrisController:
    """A running controller. `url` stays the same through restarts."""

    process: subprocess.Popen[str]
    forwarder: Forwarder

    @property
    def url(self) -> str:
        """The address to give to the source."""
        return f"http://127.0.0.1:{self.forwarder.port}"

    def command(self, **command: object) -> dict[str, str]:
        """Let the driver do something and return its answer."""
        if self.process.stdin is None:
            raise RuntimeError("the driver was started without an input")
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return read_answer(self.process)

    def submit(self, name: str, code: str, **more: object) -> str:
        """Submit Python code as a job and return its id."""
        return self.command(do="submit", name=name, argv=["PYTHON", "-c", code], **more)["job"]

    def call(self, method: str, **message: object) -> dict[str, object]:
        """Call the controller itself."""
        url = f"http://127.0.0.1:{self.forwarder.target}/iris.cluster.ControllerService/{method}"
        answer = httpx.post(url, json=message, timeout=20)
        answer.raise_for_status()
        return dict(answer.json())

    def preempt(self, target: str) -> None:
        """Take a task, or all tasks of a job, away."""
        self.call("KickTasks", targets=[target], desiredState="TASK_STATE_PREEMPTED", reason="sim preempt")

    def restart(self) -> None:
        """Start the controller anew on its database; its workers die, and are missed after 10 to 13 s."""
        self.forwarder.target = _port(self.command(do="restart"))

    def stop_for_a_while(self) -> None:
        """Stop the process that is controller and workers, and wait until none of its threads runs."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        while not all(_state(task) == "T" for task in tasks.iterdir()):
            time.sleep(0.01)

    def go_on(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def read_answer(process: subprocess.Popen[str]) -> dict[str, str]:
    """Read one line of the driver, which ended where there is none."""
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        pytest.fail(f"the Iris driver ended with exit code {process.wait(60)}")
    return dict(json.loads(line))


@contextmanager
def running_iris() -> Iterator[IrisController]:
    """Run a controller with four workers and yield it."""
    python = iris_python()
    # The driver's folder is sent along with each job, so it must be a small one.
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "driver.log").open("w") as log:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        process = subprocess.Popen(
            [python, str(_DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=workspace,
            start_new_session=True,
        )
        with process:
            try:
                forwarder = Forwarder(_port(read_answer(process)))
                try:
                    yield IrisController(process, forwarder)
                finally:
                    forwarder.close()
            finally:
                # Its own tasks are in its group, or end when their controller is gone.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _port(answer: dict[str, str]) -> int:
    return int(answer["url"].rpartition(":")[2])
