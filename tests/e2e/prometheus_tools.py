"""Finds promtool for tests; without it they fail in CI and are skipped elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def promtool(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run promtool with these arguments."""
    program = shutil.which("promtool")
    if program is None:
        missing = "promtool is missing: install the Debian package `prometheus`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
