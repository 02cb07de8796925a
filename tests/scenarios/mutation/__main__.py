"""Prints the mutants that no scenario kills, one a line, for `survivors.txt`: `python -m tests.scenarios.mutation`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.scenarios.judge import rule_files
from tests.scenarios.mutation.score import played_in_processes, score
from tests.scenarios.test_scenarios import CORPUS


def main() -> None:
    """Run every mutant, which takes some minutes, and tell the score on stderr."""
    with tempfile.TemporaryDirectory() as folder:
        result = score(rule_files(), played_in_processes(CORPUS, Path(folder) / "played"), Path(folder))
    print("\n".join(mutant.name for mutant in result.survivors))
    print(result.lines()[0], file=sys.stderr)


if __name__ == "__main__":
    main()
