"""A source, and which of a job's configured reads it serves."""

from __future__ import annotations

from dataclasses import dataclass

from runwatch.facts import SourceKind
from runwatch.fleet import Job
from runwatch.sources.protocol import Source


@dataclass(frozen=True, slots=True)
class SourceBinding:
    """A source and the jobs it serves: those with that key in their history, or all with checkpoints (key "")."""

    source: Source
    history_key: str = ""

    @property
    def name(self) -> str:
        """For logs: what is polled."""
        return self.history_key or self.source.kind.value

    def position(self, job: Job) -> int | None:
        """Return which of the job's histories this source reads; 0 for checkpoints, None when it serves it not."""
        if self.source.kind is SourceKind.CHECKPOINTS:
            return 0 if job.checkpoints else None
        return next((i for i, h in enumerate(job.history) if getattr(h, self.history_key) is not None), None)
