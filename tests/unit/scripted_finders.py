"""Finders that answer what a test says, and count how often they were asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason, FoundSchedulerJob, SchedulerState
from runwatch.sources.protocol import FoundRun

DOWN = Failure(FailureReason.NETWORK, "no route")


def record(
    job: str, state: SchedulerState = SchedulerState.RUNNING, submitted: float = 100.0, child: str = ""
) -> FoundSchedulerJob:
    """A record whose name is its id, as Iris has them."""
    return FoundSchedulerJob(job, job, state, submitted, owner="u1", child=child)


@dataclass
class ScriptedScheduler:
    """A scheduler that shows `records`, or fails with `failure`."""

    records: list[FoundSchedulerJob] = field(default_factory=list)
    failure: Failure | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    def find(self, site: str, pattern: str) -> list[FoundSchedulerJob] | Failure:
        """List what matches."""
        self.asked.append((site, pattern))
        return self.failure or [each for each in self.records if re.search(pattern, each.name)]


@dataclass
class ScriptedProjects:
    """W&B with some projects."""

    projects: dict[str, list[FoundRun]] = field(default_factory=dict)
    failure: Failure | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def add(self, path: str, created: float = 0.0, state: str = "running") -> None:
        """Begin a run."""
        project, _, name = path.rpartition("/")
        self.projects.setdefault(project, []).append(FoundRun(path, name, name, state, created, created, "ann"))

    def discover(
        self, project_path: str, state: str | None, *, site: str = "none", active_since: float | None = None
    ) -> list[FoundRun] | Failure:
        """List a project."""
        self.asked.append((project_path, state))
        if self.failure is not None:
            return self.failure
        if project_path not in self.projects:
            return Failure(FailureReason.NOT_FOUND, f"no project {project_path}")
        return [run for run in self.projects[project_path] if not state or run.state == state]
