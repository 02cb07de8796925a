"""Finds promtool for tests; without it they fail in CI and are skipped elsewhere."""

from __future__ import annotations

import subprocess

from tests.required_programs import required_program


def promtool(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run promtool with these arguments."""
    program = required_program("prometheus", "promtool")
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
