"""Finding jobs in W&B projects, and keeping those that were found through their end."""

from __future__ import annotations

import logging

from runwatch.config.model import Config
from runwatch.facts import Failure, SourceKind
from runwatch.fleet import FoundJob
from runwatch.sources.protocol import FindsRuns
from runwatch.telemetry import Telemetry

_log = logging.getLogger(__name__)


class WandbDiscovery:
    """Remembers the runs found so far: a filter such as `state: running` stops finding a run when it ends.

    A run is kept until `linger` has passed since it was last found; a run that ended longer ago is not taken up, so
    a project's old runs are never read.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._found: dict[str, tuple[FoundJob, float]] = {}

    def look(self, config: Config, source: FindsRuns, now: float) -> tuple[tuple[FoundJob, ...], tuple[Failure, ...]]:
        """List every project once; return all found runs, old and new, and what failed."""
        failures: list[Failure] = []
        entries = [(entry.wandb, entry) for entry in config.discover if entry.wandb is not None]
        for project, entry in entries:
            listed = source.discover(project, entry.state, site=entry.site, active_since=now - config.linger)
            if isinstance(listed, Failure):
                _log.warning("discovery in %s failed: %s: %s", project, listed.reason.value, listed.detail)
                self._telemetry.count_error(SourceKind.HISTORY, entry.site, listed.reason)
                failures.append(listed)
                continue
            for run in listed:
                job = FoundJob(run.path, run.display_name, run.created, run.state, run.user, entry)
                self._found[run.path] = (job, now)
        current = [entry for _, entry in entries]
        self._found = {
            path: (job, last)
            for path, (job, last) in self._found.items()
            if job.discovery in current and (now - last <= config.linger or failures)
        }
        return tuple(job for job, _ in self._found.values()), tuple(failures)
