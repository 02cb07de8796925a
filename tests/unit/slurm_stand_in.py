"""Stands before squeue, scontrol, sacct and ls as a site's prefix, and answers with the texts of a folder.

Run as `python slurm_stand_in.py FOLDER squeue ...`. It answers with `FOLDER/squeue`, in which `¦` stands for the
separator that the command line asked for; `squeue.code` is its exit code and `squeue.error` what it says on stderr.
As in SLURM, jobs in hidden partitions are left out unless squeue is asked for all: `FOLDER/squeue.seen` is the answer
then. `FOLDER/sacct.jobs`, where it is there, is the answer to a question by id (`--jobs=`).
Each call is noted in `FOLDER/calls`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def _refuses_search(folder: Path, asked: str) -> bool:
    """Answer a search for a name as sacct does where it fails, or goes further back than `sacct.hours`."""
    error, allowed = folder / "sacct.search_error", folder / "sacct.hours"
    hours = re.search(r"--starttime=now-(\d+)hours", asked)
    if error.exists():
        sys.stderr.write(error.read_text(encoding="utf-8"))
        return True
    if allowed.exists() and (hours is None or int(hours[1]) > float(allowed.read_text())):
        sys.stderr.write("sacct: error: Too wide of a date range in query\n")
        return True
    return False


def main() -> int:
    folder, program, *arguments = sys.argv[1:]
    with Path(folder, "calls").open("a", encoding="utf-8") as calls:
        calls.write(program + "\n")
    asked = " ".join(arguments)
    separator = re.search(r"@[0-9a-f]+@", asked)
    if "--name=" in asked and _refuses_search(Path(folder), asked):
        return 1
    answer = Path(folder, program)
    if program == "squeue" and "--all" not in arguments:
        answer = Path(folder, "squeue.seen")
    if "--jobs=" in asked and Path(folder, f"{program}.jobs").exists():
        answer = Path(folder, f"{program}.jobs")
    if answer.exists():
        text = answer.read_text(encoding="utf-8").replace("¦", separator[0] if separator else "|")
        sys.stdout.buffer.write(text.encode())
    error = Path(folder, f"{program}.error")
    if error.exists():
        sys.stderr.write(error.read_text(encoding="utf-8"))
    code = Path(folder, f"{program}.code")
    return int(code.read_text()) if code.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
