"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# In CI hypothesis tries the same inputs each time: a change is judged by the change, not by luck. Runs by hand look for
# new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
