"""What is known of one job now, put together from all of its sources: what everything about it is derived from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runwatch.derive.attempts import SchedulerView
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.links import NO_PAGES, SitePages
from runwatch.derive.trials import TrialsSummary
from runwatch.facts import CheckpointListing, Failure, HistoryRun, LogFacts, SourceKind
from runwatch.fleet import Job


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A history that was read to its end at least once: the run, its digest and which of the job's sources it is.

    `rl_origin` is the history before it in the order of trust that its RL values are of, where it tells none; else "".
    """

    run: HistoryRun
    summary: HistorySummary
    origin: str
    rl_origin: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """What is known of a job now. A source that never answered has no entry in `observed` and no facts.

    `awaits_scheduler` is whether its scheduler gave no answer since it was first asked, not that it knows no such job
    either, and not for so long that the job is what its own sources say.
    """

    job: Job
    history: HistoryView | None = None
    checkpoints: CheckpointListing | None = None
    scheduler: SchedulerView | None = None
    trials: TrialsSummary | None = None
    log: LogFacts | None = None
    configured: Mapping[SourceKind, float] = field(default_factory=dict)
    observed: Mapping[SourceKind, float] = field(default_factory=dict)
    failures: Mapping[SourceKind, tuple[Failure, ...]] = field(default_factory=dict)
    pages: SitePages = NO_PAGES
    awaits_scheduler: bool = False
