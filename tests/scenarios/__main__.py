"""Prints which alerts fire in scenario files: `python -m tests.scenarios FILE…`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.scenarios.judge import fired, play, rule_files


def main(names: list[str]) -> None:
    """Print each alert with its minutes, from the first to the last at which it fires."""
    for name in names:
        played = play(Path(name))
        with tempfile.TemporaryDirectory() as folder:
            found = fired(played, rule_files(), Path(folder))
        print(f"{played.name}: {played.scenario.about}")
        for labels, spans in sorted(found.items(), key=lambda item: item[1]):
            rest = {key: value for key, value in labels if key != "alertname"}
            print(f"  {dict(labels)['alertname']} {spans} {rest}")


if __name__ == "__main__":
    main(sys.argv[1:])
