"""Restart chains: which jobs are links of one run, which of them is the run now, and which comes next.

A chain is made with `--dependency=afterany:<previous>`, `afternotok` or `singleton`, each link under the same name and
by the same user. SLURM shows a dependency only while the job waits for it; later the command line that accounting keeps
tells it. Where neither does, a job of the same name, folder and command that was submitted before another ended and
started after it, is the next link.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from runwatch.facts import Attempt, SchedulerState, Successor, TaskCounts
from runwatch.parsing.slurm_ids import without_dependency
from runwatch.parsing.slurm_tasks import SAME_START_SECONDS, TaskView


@dataclass(frozen=True, slots=True)
class LinkView:
    """One job as a link of a chain. `waits_for` are the ids of the jobs that its dependency names, now or once;
    `is_singleton`, that it waits for all earlier jobs of its name.

    `can_start` is what SLURM says of this job alone; `held_by` are the ids of the jobs without which it cannot start.
    """

    id: str
    name: str
    user: str
    workdir: str
    submit_line: str
    waits_for: frozenset[str]
    tasks: tuple[TaskView, ...]
    waiting: str
    can_start: bool
    held_by: frozenset[str] = frozenset()
    is_singleton: bool = False
    counts: TaskCounts | None = None
    expected: int | None = None

    @property
    def number(self) -> int:
        """The id as a number: SLURM gives them in the order of submission."""
        return int(self.id)

    @property
    def submitted(self) -> float | None:
        """When it was first submitted."""
        return min((task.submitted for task in self.tasks if task.submitted is not None), default=None)

    @property
    def started(self) -> float | None:
        """When its newest attempt started."""
        return max((task.started for task in self.tasks if task.started is not None), default=None)

    @property
    def first_started(self) -> float | None:
        """When it first started."""
        times = [attempt.started for attempt in self.attempts if attempt.started is not None]
        return min(times, default=None)

    @property
    def over(self) -> bool:
        """Whether every task has ended for good."""
        return bool(self.tasks) and all(task.over for task in self.tasks)

    @property
    def ended(self) -> float | None:
        """When the last task ended; None while one has not."""
        return max((task.ended for task in self.tasks if task.ended is not None), default=None) if self.over else None

    @property
    def record_gone(self) -> bool:
        """Whether no source has a record of it any more."""
        return bool(self.tasks) and all(task.record_gone for task in self.tasks)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts of all tasks."""
        return tuple(attempt for task in self.tasks for attempt in task.attempts)

    @property
    def newest(self) -> TaskView:
        """The task that speaks for the link: of an array the one whose state is the array's."""
        return min(self.tasks, key=lambda task: (_RANK.get(task.state, 9), -(task.started or 0.0)))


_RANK: Mapping[SchedulerState, int] = {
    state: rank
    for rank, state in enumerate(
        (
            SchedulerState.RUNNING,
            SchedulerState.PREEMPTED,
            SchedulerState.PENDING,
            SchedulerState.UNKNOWN,
            SchedulerState.GONE,
            SchedulerState.FAILED,
            SchedulerState.TIMEOUT,
            SchedulerState.KILLED,
            SchedulerState.SUCCEEDED,
        )
    )
}
"""Which task's state is the array's: what still goes on before what is over, and then the worst."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The link that the run is now, all its links, the oldest first, and the one that comes next.

    `others` counts jobs of the same name that ran beside a newer one, and so are no links of it.
    """

    main: LinkView
    links: tuple[LinkView, ...]
    successor: Successor | None
    others: int = 0


def components(links: Collection[LinkView]) -> dict[str, frozenset[str]]:
    """Group jobs of one name and one user into chains.

    Returns:
        By each job's id the ids of its chain, with its own.
    """
    known = {link.id: link for link in links}
    joined = {link.id: {link.id} for link in links}
    pairs = [(link.id, earlier) for link in links for earlier in link.waits_for if earlier in known]
    for later, earlier in [*pairs, *_singletons(links), *_one_behind_the_other(links)]:
        one, other = joined[later], joined[earlier]
        if one is not other:
            small, large = sorted((one, other), key=len)
            large |= small
            for moved in small:
                joined[moved] = large
    return {link: frozenset(chain) for link, chain in joined.items()}


def _singletons(links: Collection[LinkView]) -> list[tuple[str, str]]:
    """Pair every job that was to run alone under its name with the one that was submitted before it."""
    ordered = sorted(links, key=lambda link: link.number)
    return [(later.id, earlier.id) for earlier, later in itertools.pairwise(ordered) if later.is_singleton]


def _one_behind_the_other(links: Collection[LinkView]) -> list[tuple[str, str]]:
    """Pair jobs whose dependency nothing tells any more with the one that each waited for.

    Only where no two of them ran at a time: a grid of cells under one name is no chain, however long its cells wait.
    """
    alike: dict[tuple[str, str], list[LinkView]] = {}
    for link in links:
        if link.first_started is not None:
            alike.setdefault((link.workdir, without_dependency(link.submit_line)), []).append(link)
    pairs: list[tuple[str, str]] = []
    for group in alike.values():
        group.sort(key=lambda link: (link.first_started or 0.0, link.number))
        steps = list(itertools.pairwise(group))
        if all(_before(earlier, later) for earlier, later in steps):
            pairs += [
                (later.id, earlier.id)
                for earlier, later in steps
                if not (later.waits_for or later.is_singleton) and (later.submitted or 0.0) < (earlier.ended or 0.0)
            ]
    return pairs


def _before(earlier: LinkView, later: LinkView) -> bool:
    """Whether a job had ended when another started."""
    begins = later.first_started
    return earlier.ended is not None and begins is not None and earlier.ended <= begins + SAME_START_SECONDS


def choose(links: Collection[LinkView], *, by_name: bool) -> Chain:
    """Say which link the run is now, and which comes next.

    It is the newest that started, of a chain the newest that runs. Of a name whose newest started link is over, a job
    that was submitted afterwards and waits for none of them is the run anew.

    Args:
        links: At least one.
        by_name: Whether they have no more in common than their name: then those that ran at a time are not one chain.
    """
    ordered = sorted(links, key=lambda link: link.number)
    started = [link for link in ordered if link.started is not None]
    waiting = [link for link in ordered if link.started is None and not link.over]
    stuck = _stuck(waiting)
    if not started:
        main = next((link for link in waiting if link.id not in stuck), waiting[0] if waiting else ordered[-1])
        return Chain(main, _in_order(ordered, [main]), None)

    # Two that wait for the same one start at a time: where one of them ends at once, the chain goes on with the other.
    def order(link: LinkView) -> tuple[bool, float, int]:
        runs = not by_name and link.newest.state is SchedulerState.RUNNING
        return runs, link.started or 0.0, link.number

    main = max(started, key=order)
    anew = [link for link in waiting if _is_anew(link, main, ordered)] if by_name else []
    if anew:
        main = anew[0]
    earlier = [link for link in started if link is not main]
    kept = _one_after_the_other(main, earlier) if by_name else earlier
    later = [link for link in waiting if link is not main and link.number > main.number]
    return Chain(
        main, _in_order(ordered, [*kept, main, *later]), _successor(main, later, stuck), others=len(earlier) - len(kept)
    )


def _is_anew(link: LinkView, main: LinkView, links: Sequence[LinkView]) -> bool:
    if not main.over or link.submitted is None or main.ended is None or link.submitted < main.ended:
        return False
    return not link.waits_for & {other.id for other in links}


def _one_after_the_other(main: LinkView, earlier: Sequence[LinkView]) -> list[LinkView]:
    """Return the links that ended before the next one started."""
    kept: list[LinkView] = []
    following = main
    for link in sorted(earlier, key=lambda link: (link.first_started or 0.0, link.number), reverse=True):
        begun = following.first_started is not None
        if _before(link, following) or link.id in following.waits_for or (link.over and not begun):
            kept.append(link)
            following = link
    return kept


def _stuck(waiting: Sequence[LinkView]) -> set[str]:
    """Return the ids of the waiting jobs that can never start.

    SLURM says so of the one whose dependency cannot be met, and keeps it in the queue; those that wait for it wait for
    ever as well, but of them SLURM says only that they have a dependency.
    """
    stuck = {link.id for link in waiting if not link.can_start}
    while held := {link.id for link in waiting if link.id not in stuck and link.held_by & stuck}:
        stuck |= held
    return stuck


def _successor(main: LinkView, later: Sequence[LinkView], stuck: Collection[str]) -> Successor | None:
    """Name what comes after the run's link when that has ended; of a link that goes on there is none yet."""
    if not main.over or not later:
        return None
    following = next((link for link in later if link.id not in stuck), later[0])
    return Successor(following.id, running=False, can_start=following.id not in stuck)


def _in_order(ordered: Sequence[LinkView], kept: Sequence[LinkView]) -> tuple[LinkView, ...]:
    ids = {link.id for link in kept}
    return tuple(link for link in ordered if link.id in ids)
