"""Writes the generated files below a folder: `python -m runwatch.alerting alerts`."""

from __future__ import annotations

import sys
from pathlib import Path

from runwatch.alerting.files import generated_files


def main(arguments: list[str]) -> int:
    """Write every generated file below the folder that is named; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m runwatch.alerting FOLDER", file=sys.stderr)
        return 2
    for path, text in generated_files().items():
        target = Path(arguments[0]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
