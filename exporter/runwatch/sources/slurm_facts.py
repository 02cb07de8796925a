"""A restart chain as the facts of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runwatch.facts import Attempt, AttemptEnd, SchedulerFacts, SchedulerState
from runwatch.parsing.slurm_chains import Chain, LinkView
from runwatch.parsing.slurm_text import JobDetail
from runwatch.sources.slurm_memory import LinkMemory


def facts_of(chain: Chain, memory: Mapping[str, LinkMemory], identity: str, shown_as: str) -> SchedulerFacts:
    """Put the facts of a run together.

    Args:
        chain: Its links.
        memory: What is kept of them.
        identity: What stays the same over all links.
        shown_as: The id of the run's newest link, with the array index where one was asked for.
    """
    main = chain.main
    newest = main.newest
    waits = newest.state is SchedulerState.PREEMPTED
    over = main.over and not waits
    # One that sacct is to be asked about again may have started more often than is known yet.
    accounted = all(memory[link.id].accounted and not memory[link.id].asks_accounting for link in chain.links)
    submissions = [link.submitted for link in chain.links if link.submitted is not None]
    accelerators = _accelerators(main, memory[main.id])
    return SchedulerFacts(
        scheduler_job=shown_as,
        state=newest.state,
        detail=_detail(chain),
        identity=identity,
        submitted=main.submitted,
        started=main.started,
        ended=main.ended if over else None,
        exit_code=newest.exit_code if over else None,
        waiting="" if over or newest.state is SchedulerState.RUNNING else main.waiting,
        tasks=main.counts,
        tasks_expected=main.expected,
        attempts=tuple(attempt for link in chain.links for attempt in link.attempts),
        covered_from=max([min(submissions), *_suspended_before(chain, memory)]) if accounted and submissions else None,
        suspended=newest.word == "SUSPENDED",
        successor=chain.successor,
        links=tuple(link.id for link in chain.links),
        accelerators=sum(detail.accelerators or 0 for detail in accelerators) or None,
        accelerator_type=accelerators[0].accelerator_type if accelerators else "",
        log_paths=_log_paths(chain, memory),
    )


def _suspended_before(chain: Chain, memory: Mapping[str, LinkMemory]) -> list[float]:
    """Return the times before which a task was suspended, nobody tells when; Unix seconds."""
    tasks = [task for link in chain.links for task in memory[link.id].tasks.values()]
    shown = [task.queue.suspended_before for task in tasks if task.queue is not None]
    ended = [row.ended for task in tasks for row in task.rows if row.was_suspended]
    return [time for time in (*shown, *ended) if time is not None]


def _accelerators(link: LinkView, memory: LinkMemory) -> list[JobDetail]:
    """Return the tasks that hold accelerators at a time, none where scontrol has not told of all of them.

    The tasks of an array may run one after the other on the same nodes: those that run now count, and where none does
    those that ran beside the newest.
    """
    newest = max((task.started for task in link.tasks if task.started is not None), default=None)
    beside = [
        task
        for task in link.tasks
        if newest is None
        or (task.started is not None and (task.started == newest or task.ended is None or task.ended > newest))
    ]
    together = [task for task in link.tasks if task.state is SchedulerState.RUNNING] or beside
    kept = [memory.tasks[task.key].detail for task in together if task.key in memory.tasks]
    told = [detail for detail in kept if detail is not None]
    return [detail for detail in told if detail.accelerators is not None] if len(told) == len(kept) else []


def _detail(chain: Chain) -> str:
    parts = [chain.main.newest.detail]
    following = chain.successor
    if following is not None:
        can = "waits to follow" if following.can_start else "can never start: its dependency is not met"
        parts.append(f"{following.scheduler_job} {can}")
    if chain.others:
        parts.append(f"{chain.others} more of that name ran beside it and are no links of it")
    return "; ".join("".join(c for c in part if c.isprintable())[:300] for part in parts if part)


def _log_paths(chain: Chain, memory: Mapping[str, LinkMemory]) -> tuple[str, ...]:
    """Return each link's log, the oldest link first: where it was seen, else where the scheduler means it to be."""
    paths: list[str] = []
    for link in chain.links:
        for view in link.tasks:
            task = memory[link.id].tasks.get(view.key)
            if task is None or view.started is None:
                continue
            path = task.found_log or ("" if task.detail is None else task.detail.log_path)
            if path and path not in paths:
                paths.append(path)
    return tuple(paths)


def facts_at(facts: SchedulerFacts, at: float, *, is_now: bool) -> SchedulerFacts:
    """Hide what came after a time, and where that is not now, what SLURM says only of the present.

    Args:
        facts: What was read.
        at: Unix seconds.
        is_now: Whether `at` is close enough to the present for states and tasks to count.
    """
    attempts = tuple(_attempt_at(a, at) for a in facts.attempts if a.started is None or a.started <= at)
    started = max((a.started for a in attempts if a.started is not None), default=None)
    if is_now:
        return replace(facts, attempts=attempts)
    return replace(
        facts,
        state=SchedulerState.UNKNOWN,
        detail="squeue shows only the present",
        submitted=facts.submitted if facts.submitted is not None and facts.submitted <= at else None,
        started=started,
        ended=None,
        exit_code=None,
        waiting="",
        tasks=None,
        tasks_expected=None,
        attempts=attempts,
        suspended=False,
        successor=None,
    )


def _attempt_at(attempt: Attempt, at: float) -> Attempt:
    if attempt.ended is None or attempt.ended <= at:
        return attempt
    return replace(attempt, ended=None, end=AttemptEnd.RUNNING, exit_code=None, detail="")
