"""Finding jobs in W&B projects, and keeping those that were found through their end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from runwatch.config.model import Config, Discovery
from runwatch.facts import Failure, SourceKind
from runwatch.fleet import FoundJob
from runwatch.sources.protocol import FindsRuns
from runwatch.telemetry import Telemetry

_log = logging.getLogger(__name__)


def moved_run(run: FoundJob, entries: Sequence[Discovery]) -> FoundJob | None:
    """Give a run whose entry is no more, as it was written, to the entry of its project that is most like it.

    None where no entry names its project any more: then nobody wants it.
    """
    before = run.discovery
    if before in entries:
        return run
    of_project = [entry for entry in entries if entry.wandb is not None and entry.wandb == before.wandb]
    if not of_project:
        return None
    return replace(
        run,
        discovery=max(
            of_project,
            key=lambda entry: (entry.state == before.state, entry.site == before.site, entry.bucket == before.bucket),
        ),
        places=None,
    )


class WandbDiscovery:
    """Remembers the runs found so far: a filter such as `state: running` stops finding a run when it ends.

    A run that several entries find is the first one's, and stays so when that one's filter finds it no more, or its
    listing fails.

    A run is kept until `linger` has passed since it was last found; a run that ended longer ago is not taken up, so
    a project's old runs are never read.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._found: dict[str, tuple[FoundJob, float]] = {}

    def look(self, config: Config, source: FindsRuns, now: float) -> tuple[tuple[FoundJob, ...], tuple[Failure, ...]]:
        """List every project once; return all found runs, old and new, and what failed."""
        failures: list[Failure] = []
        shown: dict[str, FoundJob] = {}
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
                shown.setdefault(run.path, job)
        for path, job in shown.items():
            self._found[path] = (self._with_entry(job, config.discover), now)
        self._found = {
            path: (moved, last)
            for path, (job, last) in self._found.items()
            if (now - last <= config.linger or failures) and (moved := moved_run(job, config.discover)) is not None
        }
        return tuple(job for job, _ in self._found.values()), tuple(failures)

    def _with_entry(self, job: FoundJob, entries: Sequence[Discovery]) -> FoundJob:
        """Leave a run with the entry that it had, where none before that shows it."""
        known = self._found.get(job.path)
        before = None if known is None else moved_run(known[0], entries)
        if before is None or entries.index(before.discovery) >= entries.index(job.discovery):
            return job
        return replace(job, discovery=before.discovery)
