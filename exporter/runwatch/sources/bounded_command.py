"""Running a program for its bytes: an argument list, until a deadline, with bounded output."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runwatch.facts import Failure, FailureReason

_READ_BYTES = 1 << 16
_ERROR_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20  # what a pipe holds at most, unless root made it larger
_KILL_SECONDS = 1.0

_killed: list[subprocess.Popen[bytes]] = []
"""Programs that were killed and had not ended when we went on: they are looked at again beside the next one."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a program printed on standard output, and the beginning of what it said on standard error."""

    returncode: int
    output: bytes
    errors: str


def run_command(
    arguments: Sequence[str],
    deadline: float,
    max_bytes: int,
    *,
    environment: Mapping[str, str] | None = None,
    shown: str = "",
) -> CommandOutput | Failure:
    """Run a program and wait for it, at most until the deadline; with its group it is killed then.

    A program that ended with an error is an output too: what it means is the caller's to say.

    Args:
        arguments: the program and its arguments; no shell sees them.
        deadline: monotonic seconds.
        max_bytes: more output than this is a failure.
        environment: the whole environment; None for this process's own in a plain locale.
        shown: how failures call the program; its own name by default.
    """
    shown = shown or arguments[0]
    if time.monotonic() >= deadline:
        return Failure(FailureReason.TIMEOUT, f"no time was left to run {shown}")
    _take_leave()
    try:
        child = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment if environment is not None else {**os.environ, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return Failure(FailureReason.OTHER, f"{arguments[0]} could not be started: {reason}")
    output, errors = bytearray(), bytearray()
    try:
        ended = _read(child, output, errors, deadline, max_bytes)
    finally:
        _end(child)
    if len(output) > max_bytes:
        return Failure(FailureReason.PARSE, f"{shown} printed more than the {max_bytes} bytes that were asked for")
    if not ended or child.returncode is None:
        return Failure(FailureReason.TIMEOUT, f"{shown} did not end in time and was killed")
    return CommandOutput(child.returncode, bytes(output), bytes(errors).decode("utf-8", "replace"))


def _read(
    child: subprocess.Popen[bytes], output: bytearray, errors: bytearray, deadline: float, max_bytes: int
) -> bool:
    """Read both outputs until the child has ended; tell whether it did so in time and within bounds."""
    has_ended, read_since = False, 0
    with selectors.DefaultSelector() as selector:
        for pipe, kept in ((child.stdout, output), (child.stderr, errors)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, kept)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0 or len(output) > max_bytes:
                return False
            for key, _ in selector.select(0.0 if has_ended else min(left, 0.1)):
                part = os.read(key.fd, _READ_BYTES)
                read_since += len(part) * has_ended
                if not part:
                    selector.unregister(key.fileobj)
                elif key.data is output or len(errors) < _ERROR_BYTES:
                    key.data.extend(part)
            # What a program leaves running behind it (a connection that ssh keeps) may hold the pipes open, and write.
            if has_ended and (read_since > 2 * _PIPE_BYTES or not selector.select(0)):
                return True
            has_ended = child.poll() is not None
    try:
        child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill what still runs of a program and its children, and let go of its pipes."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            child.kill()
        try:
            child.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            # It hangs in the kernel, on a file system that is gone: to wait longer would stop the whole poll.
            _killed.append(child)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _take_leave() -> None:
    """Forget those of the killed that have ended since."""
    for child in tuple(_killed):
        if child.poll() is not None:
            with contextlib.suppress(ValueError):  # another thread was quicker
                _killed.remove(child)
