"""Writes the dashboards below a folder: `python -m runwatch_dashboards grafana/dashboards`."""

from __future__ import annotations

import sys
from pathlib import Path

from runwatch_dashboards.files import generated_files


def main(arguments: list[str]) -> int:
    """Write every dashboard below the folder that is named; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m runwatch_dashboards FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in generated_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
