"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings
from pytest import TerminalReporter

# In CI hypothesis tries the same inputs each time: a change is judged by the change, not by luck. Runs by hand look for
# new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print what a test recorded as `printed`, also where it passed: a score is of use when it is seen."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, text in report.user_properties:
                if name == "printed":
                    terminalreporter.write_line(str(text))
