"""Programs that tests run: one that is missing skips a test on a developer's machine and fails it in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def lacking(text: str) -> NoReturn:
    """Fail in CI, skip elsewhere; the text says what is missing and how to install it."""
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


def required_program(debian_package: str, *names: str) -> str:
    """Return the path of the first of these programs that there is."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        lacking(f"{names[0]} is missing: install the Debian package `{debian_package}`")
    return found
