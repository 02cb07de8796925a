"""The token that an Iris controller is asked with: none, from a file, or printed by a command."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence

from runwatch.config.model import Site
from runwatch.facts import Failure, FailureReason

FILE_SECONDS = 30.0
COMMAND_SECONDS = 300.0
COMMAND_TIMEOUT_SECONDS = 10.0
_LONGEST_TOKEN = 64 * 1024


class IrisCredentials:
    """Keeps a site's token for a while, and reads it anew then or once it was refused. Safe from any thread.

    The token is in no message: a failing command's output is dropped, for it may hold one.

    Args:
        site: where the token is, and which header carries it.
        clock: Unix seconds.
    """

    def __init__(self, site: Site, clock: Callable[[], float] = time.time) -> None:
        self._site, self._clock = site, clock
        self._lock = threading.Lock()
        self._token: str | None = None
        self._read_at = 0.0

    @property
    def configured(self) -> bool:
        """Whether the site has a token at all."""
        return self._site.token_file is not None or self._site.token_command is not None

    def headers(self, seconds: float) -> dict[str, str] | Failure:
        """Return the header that carries the token, within so many seconds; empty where the site has none."""
        if not self.configured:
            return {}
        with self._lock:
            lifetime = FILE_SECONDS if self._site.token_command is None else COMMAND_SECONDS
            age = self._clock() - self._read_at
            if self._token is None or not 0.0 <= age < lifetime:
                token = self._read(seconds)
                if isinstance(token, Failure):
                    return token
                self._token, self._read_at = token, self._clock()
            return {self._site.token_header: f"Bearer {self._token}"}

    def refused(self) -> None:
        """Note that the controller refused the token: it may have been changed, or have expired early."""
        with self._lock:
            self._token = None

    def _read(self, seconds: float) -> str | Failure:
        if self._site.token_command is not None:
            output = run_token_command(self._site.token_command, min(COMMAND_TIMEOUT_SECONDS, seconds))
            return output if isinstance(output, Failure) else _token(output, "token_command printed")
        if self._site.token_file is None:
            return Failure(FailureReason.AUTH, "the site has no token")
        try:
            with self._site.token_file.open("rb") as file:
                return _token(file.read(_LONGEST_TOKEN + 1), "token_file holds")
        except OSError as error:
            return Failure(FailureReason.AUTH, f"cannot read token_file: {error.strerror}")


def run_token_command(command: Sequence[str], seconds: float) -> bytes | Failure:
    """Run a program with its arguments, without a shell, and return what it printed.

    All of its processes are ended when the time is over: one that it left behind must not hold up a poll.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "an argument holds a NUL byte"
            return Failure(FailureReason.AUTH, f"cannot run token_command: {reason}")
        try:
            code = process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Failure(FailureReason.AUTH, f"token_command did not end within {seconds:.0f} s")
        if code != 0:
            return Failure(FailureReason.AUTH, f"token_command failed with exit code {code}")
        output.seek(0)
        return output.read(_LONGEST_TOKEN + 1)


def _token(content: bytes, where: str) -> str | Failure:
    token = content.strip()
    if not token:
        return Failure(FailureReason.AUTH, f"{where} nothing")
    # What a header may carry (RFC 9110, section 5.5), and no blanks: a token of several words is a login page.
    if len(token) > _LONGEST_TOKEN or not all(0x21 <= byte <= 0x7E for byte in token):
        return Failure(FailureReason.AUTH, f"{where} something that is no token")
    return token.decode("ascii")
