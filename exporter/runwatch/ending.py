"""How the exporter ends: in bounded time, whatever its threads wait for.

A reader that hangs in an upstream, or in a library's own threads, cannot be stopped from Python, and an end that waits
for it lasts until the scheduler's or systemd's grace is over and the process is killed.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from typing import NoReturn

END_SECONDS = 15.0
"""Well below the 30 s that Kubernetes gives a pod by default, so that the reason is in the log."""


def bound_the_end(seconds: float = END_SECONDS) -> None:
    """From now on the process ends after so many seconds at the latest, by itself or not.

    If not, stderr gets what each thread was doing, and the exit code is 1.
    """
    if sys.stderr is None:  # closed by whoever started it: nobody reads why
        faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))
        return
    faulthandler.dump_traceback_later(seconds, exit=True)


def end_process(code: int) -> NoReturn:
    """End at once. The caller has closed what must be closed.

    Not by `sys.exit`: that waits for every thread of a pool, and then unwinds threads that are in the midst of a
    library's C code, which may hold a lock that another library's exit handler takes.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                code = code or 1
    os._exit(code)
