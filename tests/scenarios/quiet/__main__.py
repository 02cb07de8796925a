"""`python -m tests.scenarios.quiet --days 7`: watches the quiet fleet, and fails where anything unlisted fires."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from runwatch.figures import duration
from tests.scenarios.quiet.quiet_days import watch_fleet


def main() -> int:
    """Watch, print a summary, and return 1 where an alert is not listed or a listing excuses nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.quiet", description=__doc__)
    parser.add_argument("--days", type=int, default=1, help="how long it is watched (default 1)")
    parser.add_argument(
        "--step", type=int, default=5, choices=(1, 2, 5, 10), help="minutes between two evaluations (default 5)"
    )
    chosen = parser.parse_args()
    if chosen.days < 1:
        parser.error(f"--days: expected a whole number from 1 on, got {chosen.days}")
    began = time.monotonic()
    found = watch_fleet(chosen.days, chosen.step * 60)
    print(
        f"{found.jobs} healthy jobs, {found.evaluations} evaluations {chosen.step} min apart, "
        f"in {duration(time.monotonic() - began)}"
    )
    print("fired, and listed with its reason unless told below:")
    times = Counter((alert.label("alertname"), alert.label("severity")) for alert in found.fired)
    for (name, severity), count in sorted(times.items()):
        print(f"  {name} ({severity}): {count} times")
    unused = found.judged.unused()
    for line in unused:
        print(f"listed, and excuses nothing: {line}")
    for line in found.judged.unlisted:
        print(f"not listed: {line}")
    if not unused and not found.judged.unlisted:
        print("nothing else fired")
    return 1 if unused or found.judged.unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
