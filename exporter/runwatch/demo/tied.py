"""`python -m runwatch.demo.tied PID PROGRAM ...`: runs a program that ends when the process PID, its parent, does.

On Linux the kernel sends SIGTERM then, so that nothing stays behind after a `kill -9`; elsewhere it is a plain start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>; the setting lives on through exec


def main() -> None:
    """Become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)  # the parent was gone before the kernel was asked
    os.execvp(program[0], program)  # noqa: S606 - there is no shell on purpose


if __name__ == "__main__":
    main()
