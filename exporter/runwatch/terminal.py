"""What the commands write: results to stdout, progress and complaints to stderr, and what follows where that fails.

A result that could not be written is one line on stderr and exit code 1. A complaint that could not be written is
lost: the result and the exit code do not depend on whether anybody reads it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import NoReturn

EXIT_NOT_WRITTEN = 1
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def say(text: str) -> None:
    """Write a line to stderr, where there is one that takes it."""
    if sys.stderr is None:  # closed by the shell; `print` would then take stdout, and spoil the result
        return
    with contextlib.suppress(OSError):  # a full disk or a reader that left: there is nowhere else to say so
        print(text, file=sys.stderr, flush=True)


def write(text: str) -> None:
    """Write text to stdout at once.

    Raises:
        SystemExit: with code 1, after saying why, where it could not be written.
        BrokenPipeError: whoever read it has enough; click ends in silence then.
    """
    # A name may hold what the terminal's encoding does not: replace it rather than fail.
    write_bytes(text.encode(getattr(sys.stdout, "encoding", None) or "utf-8", "replace"))


def write_bytes(output: bytes) -> None:
    """Write bytes to stdout at once; raises as `write` does."""
    if sys.stdout is None:
        _end_unwritten("stdout is closed")
    try:
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _end_unwritten(error.strerror)


def end_where_full(error: OSError) -> None:
    """End as `write` does if an error that came from below is one of an output that takes no more; else do nothing.

    For what others print, as click does its help.

    Raises:
        SystemExit: with code 1, after saying why.
    """
    if error.errno in _NO_ROOM and error.filename is None:
        _end_unwritten(error.strerror)


def _end_unwritten(reason: str | None) -> NoReturn:
    say(f"cannot write the output: {reason}")
    if sys.stdout is not None:
        # At its end the interpreter would try again to write what is left in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_NOT_WRITTEN)
