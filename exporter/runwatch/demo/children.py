"""The programs that the demo starts, and how it ends them."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import runwatch

LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 10.0
_LOG_TAIL_LINES = 15


class Child:
    """A running program. Its output goes to a file, its own temporary files go beside that."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        package_root = str(Path(runwatch.__file__).parent.parent)
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH", ""))))
        environment["TMPDIR"] = str(log.parent)  # what a killed program leaves goes with the demo's folder
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "runwatch.demo.tied", str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the demo alone, which then ends its programs itself
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """All that it wrote so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def log_tail(self) -> str:
        """The last lines that it wrote, indented."""
        return "".join(f"  {line}\n" for line in self.log().splitlines()[-_LOG_TAIL_LINES:])

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def wait(self) -> None:
        """Wait for its end after `terminate`; one that does not end is killed."""
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Children:
    """All programs of the demo; leaving the context ends them, side by side."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, command: Sequence[str], log: Path) -> Child:
        """Start a program."""
        child = Child(command, log)
        self._children.append(child)
        return child

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait()


def why_port_is_not_free(port: int) -> str | None:
    """Return why a port of the loopback address cannot be bound, or None when it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error.strerror
    return None


def free_port() -> int:
    """Return a port that is free now; somebody else may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, path: str) -> bytes | None:
    """Return the body of a local GET that answers 200, else None."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if response.status == http.client.OK else None
