"""A source, and which of a job's configured reads it serves."""

from __future__ import annotations

from dataclasses import dataclass

from runwatch.facts import SourceKind
from runwatch.fleet import Job, asks_log
from runwatch.sources.protocol import Source


@dataclass(frozen=True, slots=True)
class SourceBinding:
    """A source and the jobs it serves.

    A history serves the jobs that have `history_key` in their list, a scheduler those of its `site` that name a job
    there, checkpoints and trials all that have any, logs those that `asks_log` tells of.
    """

    source: Source
    history_key: str = ""
    site: str = ""

    @property
    def name(self) -> str:
        """For logs: what is polled."""
        if self.site:
            return f"{self.source.kind.value} of {self.site}"
        return self.history_key or self.source.kind.value

    @property
    def left_over(self) -> frozenset[str]:
        """The jobs to poll once more before the interval is over; none where the source knows of no such thing."""
        return getattr(self.source, "left_over", frozenset())

    def position(self, job: Job) -> int | None:
        """Return which of the job's histories this source reads; 0 for other kinds, None when it serves it not."""
        if self.source.kind is SourceKind.CHECKPOINTS:
            return 0 if job.checkpoints else None
        if self.source.kind is SourceKind.SCHEDULER:
            return 0 if job.site == self.site and job.scheduler and job.scheduler_job else None
        if self.source.kind is SourceKind.TRIALS:
            return 0 if job.trials is not None else None
        if self.source.kind is SourceKind.LOG:
            return 0 if asks_log(job) else None
        return next((i for i, h in enumerate(job.history) if getattr(h, self.history_key) is not None), None)
