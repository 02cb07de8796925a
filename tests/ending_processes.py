"""Ending a program that a test started."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SECONDS = 60.0


def end(process: subprocess.Popen[bytes], log: Path) -> None:
    """Ask it to end and wait for that; one that does not is killed, and the test fails with what it wrote."""
    process.terminate()
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"not ended {_SECONDS:g} s after SIGTERM:\n{log.read_text(errors='replace')}") from None
