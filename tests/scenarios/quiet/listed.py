"""What may fire in a healthy fleet: each alert for its kinds of jobs, at the times named, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runwatch.figures import duration
from tests.scenarios.quiet.healthy import DAY, HOUR, MINUTE, Healthy, Span
from tests.scenarios.quiet.training_jobs import LONG_EVALUATION, WAITS_FOR_NODES
from tests.scenarios.quiet.watching import Fired, wandb_is_out

WANDB_IS_OUT = "W&B answers nobody"


@dataclass(frozen=True, slots=True)
class Listed:
    """An alert that is right though the job is well: for jobs of these kinds (none: about no job), at this time."""

    alert: str
    severity: str
    kinds: tuple[str, ...]
    while_it: str
    reason: str


LISTED = (
    Listed(
        "MLJobNotResumed",
        "warning",
        ("preempted", "rl-preempted", "preempted-datagen"),
        WAITS_FOR_NODES,
        "Nodes were taken away and there are none for longer than 45 min (RL: 90 min): somebody may have to ask for "
        "others. It warns and pages nobody.",
    ),
    Listed(
        "MLJobSilentStall",
        "warning",
        ("long-evaluations",),
        LONG_EVALUATION,
        "Twelve minutes without a step, where a step takes 10 s, and nothing in history or scheduler that tells of an "
        "evaluation: from outside it is a stall that ended by itself.",
    ),
    Listed(
        "RunwatchSourceDown",
        "warning",
        (),
        WANDB_IS_OUT,
        "W&B answered nothing for more than 15 min: nobody watches what is read from it.",
    ),
    Listed(
        "RunwatchJobUnobserved",
        "warning",
        ("preempted", "steady", "two-hour-saves"),
        WANDB_IS_OUT,
        "Where other jobs of the site are read from files, the source `history` is up while W&B is not, and each job "
        "that is read from W&B is told by itself.",
    ),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What fired and is not listed, one line each, and what excused the rest: a listing and a kind of job, if any."""

    unlisted: tuple[str, ...]
    used: frozenset[tuple[Listed, str]]

    def unused(self) -> list[str]:
        """Return each kind of job of a listing that excused nothing."""
        listed = [(row, kind) for row in LISTED for kind in row.kinds or ("",)]
        return [
            f"{row.alert} ({row.severity}) of {kind or 'no job'}"
            for row, kind in listed
            if (row, kind) not in self.used
        ]


def judged(fired: Iterable[Fired], jobs: Sequence[Healthy], days: float, step: float) -> Judged:
    """Hold what fired against the list. An alert that ends is seen to one evaluation after its time, a `step` later."""
    by_run = {job.run: job for job in jobs}
    unlisted: list[str] = []
    used: set[tuple[Listed, str]] = set()
    for alert in fired:
        if alert.label("severity") not in {"critical", "warning"}:
            continue
        job = by_run.get(alert.label("run"))
        listing = next((row for row in LISTED if _excuses(row, alert, job, days, step)), None)
        if listing is None:
            unlisted.append(_told(alert, job))
        else:
            used.add((listing, job.kind if job is not None else ""))
    return Judged(tuple(unlisted), frozenset(used))


def _excuses(row: Listed, alert: Fired, job: Healthy | None, days: float, step: float) -> bool:
    if (row.alert, row.severity) != (alert.label("alertname"), alert.label("severity")):
        return False
    if job is None and (row.kinds or alert.label("run")):
        return False
    if job is not None and job.kind not in row.kinds:
        return False
    spans: tuple[Span, ...] = job.spans.get(row.while_it, ()) if job is not None else ()
    if row.while_it == WANDB_IS_OUT:
        if alert.label("source") != "history":
            return False
        spans = wandb_is_out(days)
    return any(
        since <= alert.first and alert.last <= _still_told(until, job, days, step) + step for since, until in spans
    )


def _still_told(until: float, job: Healthy | None, days: float, step: float) -> float:
    """Return when an alert about what ended at `until` can be seen to end.

    One that fires goes on while W&B, from which the job is read, answers nobody: its end is told after the outage, also
    where the last look before it came too early to see it.
    """
    if job is None or all(history.origin != "wandb" for history in job.story.history):
        return until
    return next((back for out, back in wandb_is_out(days) if out - step <= until <= back), until)


def _told(alert: Fired, job: Healthy | None) -> str:
    who = f"{job.run} ({job.kind})" if job is not None else alert.label("run") or "no job"
    source = f", source {alert.label('source')}" if alert.label("source") else ""
    when = f"{clock(alert.first)} to {clock(alert.last)}"
    lasted = duration(alert.last - alert.first)
    name = f"{alert.label('alertname')} ({alert.label('severity')})"
    return f"{name} of {who}, site {alert.label('site') or '-'}{source}: day {when}, for {lasted}"


def clock(seconds: float) -> str:
    """Write a time of the fleet: `0 10:05`."""
    return f"{int(seconds // DAY)} {int(seconds % DAY // HOUR):02}:{int(seconds % HOUR // MINUTE):02}"
