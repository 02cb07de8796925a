"""Running SLURM's commands: argument lists behind the site's prefix, within a time, with bounded output.

No shell is started here. A prefix such as `ssh login01` hands the words to one on the other side, so behind a prefix
only words of harmless characters are ever passed: text that comes from a job never is, unless it is made of these.
"""

from __future__ import annotations

import os
import re
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runwatch.facts import Failure, FailureReason

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1 << 16
_DRAIN_SECONDS = 0.5
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:@%+=/-]+\Z")

_REFUSED = ("permission denied", "access denied", "host key verification failed", "authentication", "invalid user id")


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed, and how it ended."""

    returncode: int
    text: str
    errors: str


@dataclass(slots=True)
class _Reading:
    """What was read of one child so far."""

    out: bytearray
    err: bytearray

    @property
    def too_much(self) -> bool:
        return len(self.out) + len(self.err) > MAX_OUTPUT_BYTES


class SlurmCommands:
    """Runs commands at one site.

    Args:
        prefix: What stands before each command.
        count_request: Is called for each command that is run.
    """

    def __init__(self, prefix: Sequence[str], count_request: Callable[[], None]) -> None:
        self._prefix = tuple(prefix)
        self._count_request = count_request

    def may_pass(self, word: str) -> bool:
        """Tell whether text that comes from a job may be an argument."""
        if not word or "\0" in word:
            return False
        return not self._prefix or _HARMLESS.match(word) is not None

    def run(self, arguments: Sequence[str], seconds: float) -> Output | Failure:
        """Run a command and wait for it, at most for the given seconds; it is killed then.

        A command that ended with an error is an `Output` too: what it means is the caller's to say (`failed`).
        """
        self._count_request()
        command = [*self._prefix, *arguments]
        if seconds <= 0:
            return Failure(FailureReason.TIMEOUT, f"no time was left to run {arguments[0]}")
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return Failure(FailureReason.OTHER, f"{command[0]} could not be started: {reason}")
        reading = _Reading(bytearray(), bytearray())
        try:
            ended = _read(child, reading, time.monotonic() + seconds)
        finally:
            _end(child)
        if reading.too_much:
            return Failure(FailureReason.PARSE, f"{arguments[0]} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        if not ended or child.returncode is None:
            return Failure(FailureReason.TIMEOUT, f"{arguments[0]} did not end within {seconds:.0f} s")
        return Output(child.returncode, reading.out.decode("utf-8", "replace"), reading.err.decode("utf-8", "replace"))


def new_separator() -> str:
    """Return a text that no job can hold, for it is made anew: the separator of one command's output."""
    return f"@{secrets.token_hex(8)}@"


def failed(program: str, output: Output) -> Failure | None:
    """Return what it means that a command ended with an error, None where it ended well."""
    if output.returncode == 0:
        return None
    said = first_line(output.errors) or f"exit code {output.returncode}"
    detail = f"{program}: {said}"
    if output.returncode == 127:
        return Failure(FailureReason.OTHER, detail)
    lowered = output.errors.lower()
    if any(text in lowered for text in _REFUSED):
        return Failure(FailureReason.AUTH, detail)
    return Failure(FailureReason.NETWORK, detail)


def first_line(text: str) -> str:
    """Return the first line that says something, without characters that do not print, and not too long."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "".join(character for character in line if character.isprintable())[:200]


def _environment() -> dict[str, str]:
    """The environment of a command: filters and formats that the user set for himself must not change the answer."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SACCT_"))}
    # Times as Unix seconds, and whole array expressions. A prefix such as ssh does not pass these on; what comes back
    # then is read too.
    return {**own, "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}


def _read(child: subprocess.Popen[bytes], reading: _Reading, until: float) -> bool:
    """Read both outputs until the child has ended; tell whether it did so in time and within bounds."""
    with selectors.DefaultSelector() as selector:
        for pipe, kept in ((child.stdout, reading.out), (child.stderr, reading.err)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, kept)
        while selector.get_map():
            left = until - time.monotonic()
            if left <= 0 or reading.too_much:
                return False
            for key, _ in selector.select(min(left, 0.1)):
                part = os.read(key.fd, _READ_BYTES)
                if part:
                    key.data.extend(part)
                else:
                    selector.unregister(key.fileobj)
            if child.poll() is not None:
                # A connection that ssh keeps for later holds the pipes open behind it.
                until = min(until, time.monotonic() + _DRAIN_SECONDS)
                if not selector.select(0):
                    return True
    try:
        child.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill what still runs of a command, and let go of its pipes."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            child.kill()
        try:
            child.wait(1.0)
        except subprocess.TimeoutExpired:
            # It hangs in the kernel, on a file system that is gone: waiting longer would stop the whole poll.
            child.returncode = None
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
