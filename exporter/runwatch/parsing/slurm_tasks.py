"""One SLURM job, or one task of an array, put together from squeue, scontrol and sacct: its state and its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from runwatch.facts import Attempt, AttemptEnd, SchedulerState
from runwatch.parsing.slurm_states import (
    COMPLETING,
    OUT_OF_MEMORY,
    OVER_FOR_GOOD,
    as_shells_count,
    exit_code,
    how_it_ended,
    meaning,
)
from runwatch.parsing.slurm_text import AccountingRow, JobDetail, QueueRecord

SAME_START_SECONDS = 0.5
"""All sources give the controller's own whole seconds, and a job may start again two seconds after it started."""

_REQUEUED_WITHIN_SECONDS = 86_400.0
"""A start of a job was submitted when the one before ended, or soon after: the controller forgets an ended job."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a task, as one source tells it. `word` is SLURM's state at its end, or its state now."""

    started: float
    ended: float | None
    word: str
    exited: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """What is known of one task now.

    `over` tells that its record will change no more. `record_gone` is set where no source has a record of it now.
    """

    key: str
    word: str
    state: SchedulerState
    detail: str
    submitted: float | None
    started: float | None
    ended: float | None
    exit_code: int | None
    attempts: tuple[Attempt, ...]
    over: bool
    record_gone: bool = False


def of_one_job(rows: Sequence[AccountingRow], submitted: Mapping[str, float]) -> list[AccountingRow]:
    """Return those of an id's rows that are of the newest job which had it.

    Ids begin anew where a controller lost its state, and at the largest one; accounting keeps the older jobs.

    Args:
        rows: all that accounting has of one id and its array tasks, in any order.
        submitted: when the tasks that squeue shows were submitted (again), Unix seconds by key.
    """
    ordered = sorted(rows, key=lambda row: row.submitted or 0.0, reverse=True)
    if not ordered:
        return []
    newest, following, older = ordered[0], dict(submitted), set[str]()
    kept: list[AccountingRow] = []
    for row in ordered:
        key = row.id.key
        lines = {row.submit_line, newest.submit_line} - {""}
        is_others = row.user != newest.user or len(lines) > 1
        if not is_others and row.ended is not None and key in following:
            is_others = following[key] - row.ended > _REQUEUED_WITHIN_SECONDS
        if is_others:
            older.add(key)
        elif key not in older:
            kept.append(row)
            following[key] = row.submitted if row.submitted is not None else following.get(key, row.ended or 0.0)
    return kept[::-1]


def view_task(
    key: str,
    link: str,
    *,
    queue: QueueRecord | None,
    detail: JobDetail | None,
    rows: Sequence[AccountingRow],
    seen: Iterable[Start],
    visible: bool,
) -> TaskView:
    """Put together what the sources say of one task.

    Args:
        key: The task's id, the first part of its attempts' keys.
        link: The id of its job.
        queue: squeue's newest record of it; old where it is not visible any more.
        detail: What scontrol said of it; of an earlier state its exit code does not count.
        rows: sacct's rows, one a start, in any order.
        seen: Starts that earlier polls saw.
        visible: Whether squeue shows it now.
    """
    ordered = sorted(rows, key=lambda row: (row.submitted or 0.0, row.started or 0.0))
    newest = ordered[-1] if ordered else None
    by_queue = queue is not None and (visible or newest is None or not _settled(newest))
    if queue is not None and newest is not None and _only_clears_up(queue, newest):
        by_queue = False
    word = queue.word if queue is not None and by_queue else newest.word if newest is not None else ""
    exited = _exited(word, detail, newest)
    live = None
    if queue is not None and queue.started is not None and by_queue:
        live = Start(queue.started, queue.ended, word, exited)
    known = meaning(word)
    waits = live is None and not known.terminal
    shown_waiting = visible and waits and known.state in {SchedulerState.PENDING, SchedulerState.PREEMPTED}
    starts = _starts(ordered, seen, live, waits=shown_waiting)
    ran_before = bool(starts) or (detail is not None and detail.restarts > 0)
    waits_again = word == "PENDING" and ran_before
    attempts = _attempts(key, link, starts, None if detail is None else detail.restarts, waits=waits)
    state = SchedulerState.PREEMPTED if waits_again else known.state
    submitted = min((row.submitted for row in ordered if row.submitted is not None), default=None)
    if submitted is None and queue is not None:
        submitted = queue.submitted
    source = queue if queue is not None and by_queue else newest
    ended = source.ended if source is not None and known.terminal else None
    code = exit_code(word, exited)
    text = _text(word, exited, queue.reason if queue is not None and by_queue else "")
    failed_step = _failed_step(word, newest)
    if failed_step is not None:
        code, text = failed_step
    elif newest is not None and newest.word == word == "FAILED" and newest.derived == OUT_OF_MEMORY:
        text = f"{text}, one of its steps was out of memory"
    return TaskView(
        key=key,
        word=word,
        state=state,
        detail=text,
        submitted=submitted,
        started=starts[-1].started if starts else None,
        ended=ended,
        exit_code=code if state is not SchedulerState.PREEMPTED else None,
        attempts=attempts,
        over=known.terminal,
    )


def _only_clears_up(queue: QueueRecord, row: AccountingRow) -> bool:
    """Whether accounting has told the end of a job of which squeue says that its nodes are not free yet.

    That may last for hours, where a process cannot be killed or an epilog hangs: the job is over all the same. Unless
    SLURM may put it back into the queue after such an end, which squeue does not show before its nodes are free.
    """
    if queue.word != COMPLETING or row.word not in OVER_FOR_GOOD or queue.started is None or row.started is None:
        return False
    return abs(queue.started - row.started) <= SAME_START_SECONDS


def _settled(row: AccountingRow) -> bool:
    return meaning(row.word).terminal


def _exited(word: str, detail: JobDetail | None, row: AccountingRow | None) -> tuple[int, int] | None:
    if detail is not None and detail.word == word:
        return detail.exited
    return row.exited if row is not None and row.word == word else None


def _text(word: str, exited: tuple[int, int] | None, reason: str) -> str:
    parts = [word]
    if exited is not None and meaning(word).terminal and exited != (0, 0):
        parts.append(how_it_ended(*exited))
    if reason and reason.strip("()") not in {"None", "null", ""}:
        parts.append(f"reason {reason.strip('()')}")
    return ", ".join(part for part in parts if part)


def _failed_step(word: str, row: AccountingRow | None) -> tuple[int | None, str] | None:
    """A job that ended with 0 though one of its steps failed: a success for SLURM, not to be passed over in silence."""
    if word != "COMPLETED" or row is None or row.word != word or row.derived in (None, (0, 0)) or row.derived is None:
        return None
    return as_shells_count(*row.derived), f"COMPLETED, but one of its steps failed: {how_it_ended(*row.derived)}"


def _starts(rows: Sequence[AccountingRow], seen: Iterable[Start], live: Start | None, *, waits: bool) -> list[Start]:
    """Return every start once, the oldest first: squeue's word counts before sacct's, sacct's before what was seen.

    Where sacct still takes a start for running that was seen to end, what was seen counts. While the job waits
    (`waits`) none of them runs.
    """
    accounted = [Start(row.started, row.ended, row.word, row.exited) for row in rows if row.started is not None]
    behind = [start for start in accounted if meaning(start.word).end is AttemptEnd.RUNNING]
    told = [start for start in accounted if start not in behind]
    kept: list[Start] = [] if live is None else [live]
    for start in [*told, *seen, *behind]:
        if not any(abs(start.started - other.started) <= SAME_START_SECONDS for other in kept):
            kept.append(start)
    kept.sort(key=lambda start: start.started)
    # One that a later start followed has ended, whatever its source last said.
    return [_closed(start, followed=following is not None or waits) for start, following in zip_longest(kept, kept[1:])]


def _closed(start: Start, *, followed: bool) -> Start:
    if not followed or meaning(start.word).end is not AttemptEnd.RUNNING:
        return start
    return replace(start, word="REQUEUED")


def _attempts(
    key: str, link: str, starts: Sequence[Start], restarts: int | None, *, waits: bool
) -> tuple[Attempt, ...]:
    newest = len(starts) - 1
    if restarts is not None:
        newest = max(newest, restarts - 1 if waits else restarts)
    first = newest - (len(starts) - 1)
    return tuple(
        Attempt(
            key=f"{key}:{first + position}",
            link=link,
            started=start.started,
            ended=start.ended if end is not AttemptEnd.RUNNING else None,
            end=end,
            exit_code=exit_code(start.word, start.exited),
            detail=_text(start.word, start.exited, ""),
        )
        for position, start in enumerate(starts)
        for end in [meaning(start.word).end]
    )
