"""Running SLURM's commands: argument lists behind the site's prefix, within a time, with bounded output.

No shell is started here. A prefix such as `ssh login01` hands the words to one on the other side, so behind a prefix
only words of harmless characters are ever passed: text that comes from a job never is, unless it is made of these.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runwatch.facts import Failure, FailureReason
from runwatch.sources.bounded_command import run_command

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:@%+=/-]+\Z")

_REFUSED = ("permission denied", "access denied", "host key verification failed", "authentication", "invalid user id")


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed, and how it ended."""

    returncode: int
    text: str
    errors: str


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
        until = time.monotonic() + seconds
        ran = run_command(
            [*self._prefix, *arguments], until, MAX_OUTPUT_BYTES, environment=_environment(), shown=arguments[0]
        )
        if isinstance(ran, Failure):
            return ran
        return Output(ran.returncode, ran.output.decode("utf-8", "replace"), ran.errors)


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
