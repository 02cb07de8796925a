"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from pytest import TerminalReporter

# How long an input takes says how busy the machine is. In CI hypothesis tries the same inputs each time: a change is
# judged by the change, not by luck. Runs by hand look for new ones.
settings.register_profile("runwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("runwatch"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "runwatch")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print what a test recorded as `printed`, also where it passed: a score is of use when it is seen."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, text in report.user_properties:
                if name == "printed":
                    terminalreporter.write_line(str(text))
