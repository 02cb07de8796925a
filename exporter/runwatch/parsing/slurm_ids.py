"""Job ids, array expressions and dependencies of SLURM.

Grammar: `squeue(1)` (`%i`, `%E`), `sbatch(1)` (`--array`, `--dependency`), 21.08 to 25.11.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

_ID = re.compile(r"(\d{1,10})(?:\+(\d+))?(?:_(?:(\d{1,9})|\[([^\]]*)\]?))?\Z", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\Z", re.ASCII)
_DEPENDENCY = re.compile(r"(after\w*):([\d_*+:]+)(?:\((\w+)\))?|(singleton)(?:\((\w+)\))?", re.ASCII)
_OPTION = re.compile(r"(?:^|\s)(?:--dep[a-z]*(?:=|\s+)|-d\s*)((?:after|singleton)\S*)(?=\s|$)")
_RESTART_KINDS = frozenset({"afterany", "afternotok"})


@dataclass(frozen=True, slots=True)
class JobId:
    """One id. `base` is the id of the whole job or array.

    `tasks` are the array indices that it stands for, None for a job that is no array; `task` is set where that is a
    single index outside of brackets. `complete` is false where SLURM cut a long expression short (`6_[1,3,...]`).
    `component` is the number of a heterogeneous job's part.
    """

    base: str
    tasks: tuple[range, ...] | None = None
    task: int | None = None
    complete: bool = True
    component: int = 0

    @property
    def key(self) -> str:
        """The id of one task, such as `6_3`; of a job that is no array the base; of several tasks `6_[]`."""
        if self.task is not None:
            return f"{self.base}_{self.task}"
        return self.base if self.tasks is None else f"{self.base}_[]"

    @property
    def count(self) -> int:
        """How many tasks it stands for, one for a job that is no array."""
        return 1 if self.tasks is None else sum(len(indices) for indices in self.tasks)


def parse_job_id(text: str) -> JobId | None:
    """Read `12`, `12+1`, `6_3` or `6_[1-3,7%2]`; None for anything else."""
    match = _ID.match(text.strip())
    if match is None:
        return None
    base, component, task, expression = match.groups()
    part = int(component or 0)
    if task is not None:
        return JobId(base, (range(int(task), int(task) + 1),), int(task), component=part)
    if expression is None:
        return JobId(base, component=part)
    indices, complete = _indices(expression)
    return JobId(base, indices, complete=complete and text.strip().endswith("]"), component=part)


def _indices(expression: str) -> tuple[tuple[range, ...], bool]:
    listed = expression.partition("%")[0]
    indices: list[range] = []
    complete = True
    for part in listed.split(","):
        match = _RANGE.match(part)
        if match is None:
            complete = False
            continue
        first, last, stride = match.groups()
        indices.append(range(int(first), int(last or first) + 1, max(1, int(stride or 1))))
    return tuple(indices), complete


def without_tasks(tasks: Iterable[range], taken: Collection[int]) -> tuple[range, ...]:
    """Return array indices without some of them, in order."""
    left: list[range] = []
    for indices in tasks:
        rest = indices
        for index in sorted(index for index in taken if index in indices):
            position = rest.index(index)
            left.append(rest[:position])
            rest = rest[position + 1 :]
        left.append(rest)
    return tuple(indices for indices in left if indices)


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a job waits for. `job` is the other's id without task ("" for `singleton`), `status` SLURM's word or "".

    `is_alternative` is set where any one of several dependencies is enough.
    """

    kind: str
    job: str
    status: str = ""
    is_alternative: bool = False

    @property
    def makes_link(self) -> bool:
        """Whether it names the job before in a restart chain."""
        return self.kind in _RESTART_KINDS

    @property
    def is_singleton(self) -> bool:
        """Whether it waits for all earlier jobs of the same name and user."""
        return self.kind == "singleton"


def parse_dependencies(text: str) -> tuple[Dependency, ...]:
    """Read `afterany:1(unfulfilled),afterok:2_*(failed)?after:3+5`; nothing for `(null)`."""
    found: list[Dependency] = []
    any_is_enough = "?" in text
    for kind, jobs, status, singleton, singleton_status in _DEPENDENCY.findall(text):
        if singleton:
            found.append(Dependency(singleton, "", singleton_status, any_is_enough))
            continue
        for job in jobs.split(":"):
            base = re.match(r"\d+", job)
            if base is not None:
                found.append(Dependency(kind, base[0], status, any_is_enough))
    return tuple(found)


def must_end_first(dependencies: Iterable[Dependency]) -> frozenset[str]:
    """Return the ids of the jobs without which a job cannot start; none where one of several is enough."""
    return frozenset(d.job for d in dependencies if d.job and not d.is_alternative)


def dependencies_of_submit_line(line: str) -> tuple[Dependency, ...]:
    """Read the dependency that was given to sbatch from the command line as accounting keeps it."""
    found = _OPTION.search(line)
    return () if found is None else parse_dependencies(found[1])


def without_dependency(line: str) -> str:
    """Return a command line without its dependency: what two links of one chain have in common."""
    return " ".join(_OPTION.sub(" ", line).split())
