"""Finds amtool for tests; without it they fail in CI and are skipped elsewhere."""

from __future__ import annotations

import subprocess

from tests.required_programs import required_program


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run amtool with these arguments."""
    program = required_program("prometheus-alertmanager", "amtool")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
