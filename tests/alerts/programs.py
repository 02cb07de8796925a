"""Finds amtool for tests; without it they fail in CI and are skipped elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run amtool with these arguments."""
    program = shutil.which("amtool")
    if program is None:
        missing = "amtool is missing: install the Debian package `prometheus-alertmanager`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
