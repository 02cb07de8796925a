"""Where a SLURM job's log really is: at the scheduler's path, else under `*_<jobid>.out` beside its working directory.

The files are looked at with `ls` at the site, behind the same prefix as SLURM's commands: the exporter may see none of
its file systems. Folders are listed, never searched: a `find` over a parallel file system hurts everybody there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runwatch.facts import Failure
from runwatch.sources.slurm_commands import SlurmCommands

PATHS_A_CALL = 100
_NO_SUCH_FILE = 2
"""Exit code of `ls` where one of its arguments is not there; what is there it prints all the same."""


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """A started task whose log was not seen yet. `path` is the scheduler's, "" where it gave none.

    `key` is the id of the job or array task, `job` the id of the whole job, `name` the job's name.
    """

    key: str
    job: str
    name: str
    path: str
    workdir: str

    @property
    def folders(self) -> tuple[str, ...]:
        """Where a log of another name may lie: the working directory, its `logs`, and beside the scheduler's path."""
        base = self.workdir.rstrip("/")
        beside = self.path.rpartition("/")[0]
        return tuple(folder for folder in dict.fromkeys((base, f"{base}/logs", beside)) if folder.startswith("/"))


def find_logs(commands: SlurmCommands, questions: Sequence[LogQuestion], seconds: float) -> Mapping[str, str] | Failure:
    """Return the path of each log that was found, by the question's key.

    Args:
        commands: How `ls` is run.
        questions: At most `PATHS_A_CALL`.
        seconds: How long each call may take.
    """
    askable = [question for question in questions if question.path and commands.may_pass(question.path)]
    there: set[str] = set()
    if askable:
        listed = _list(commands, ["-d", "--", *sorted({question.path for question in askable})], seconds)
        if isinstance(listed, Failure):
            return listed
        there = set(listed)
    found = {question.key: question.path for question in askable if question.path in there}
    missing = [question for question in questions if question.key not in found]
    folders = {folder for question in missing for folder in question.folders if commands.may_pass(folder)}
    names: dict[str, list[str]] = {}
    for folder in sorted(folders):
        listed = _list(commands, ["--", folder], seconds)
        if isinstance(listed, Failure):
            return listed
        names[folder] = listed
    for question in missing:
        path = next((path for folder in question.folders if (path := _fallback(question, folder, names))), None)
        if path is not None:
            found[question.key] = path
    return found


def _list(commands: SlurmCommands, arguments: Sequence[str], seconds: float) -> list[str] | Failure:
    output = commands.run(["ls", "-1", *arguments], seconds)
    if isinstance(output, Failure):
        return output
    if output.returncode not in (0, _NO_SUCH_FILE):
        return []
    return output.text.splitlines()


def _fallback(question: LogQuestion, folder: str, names: Mapping[str, Sequence[str]]) -> str | None:
    end = f"_{question.key}.out"
    listed = sorted(name for name in names.get(folder, ()) if name.endswith(end))
    exact = f"{question.name}{end}"
    if exact in listed:
        return f"{folder}/{exact}"
    # `slurm-9_1.out` is the log of task 1 of array 9, not of job 1.
    told = next((name for name in listed if not name.removesuffix(end)[-1:].isdigit()), None)
    return None if told is None else f"{folder}/{told}"
