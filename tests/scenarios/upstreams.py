"""What a job's upstreams would answer at a time: facts in the words of the product's own sources.

Times of a scenario are seconds after its start; facts carry Unix seconds, `ORIGIN` later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from runwatch.facts import (
    Attempt,
    AttemptEnd,
    Checkpoint,
    CheckpointListing,
    HistoryEnd,
    HistoryRow,
    HistoryRun,
    LogFacts,
    SchedulerFacts,
    SchedulerState,
    Successor,
    TaskCounts,
    TrialsFolder,
    TrialsUpdate,
)
from runwatch.parsing.log_records import LogFailure, TrialResult
from tests.scenarios.format import History, JobStory, Log, Logged, Placement, Results, Save, Scheduler, Steps, Trials

ORIGIN = 1_790_000_000.0
"""The Unix time of a scenario's start."""

_CRASHED_AFTER_SECONDS = 300.0  # W&B's server guesses `crashed` after so long without a heartbeat
_AUTH_FAILURES_KEPT = 1000
_FAR_OVER = (SchedulerState.SUCCEEDED, SchedulerState.FAILED, SchedulerState.TIMEOUT, SchedulerState.KILLED)

_ENDS = {
    SchedulerState.PREEMPTED: AttemptEnd.PREEMPTED,
    SchedulerState.SUCCEEDED: AttemptEnd.SUCCEEDED,
    SchedulerState.FAILED: AttemptEnd.FAILED,
    SchedulerState.TIMEOUT: AttemptEnd.WALL_TIME,
    SchedulerState.KILLED: AttemptEnd.CANCELLED,
}


class HistoryScript:
    """The rows of one history in the order in which they came, and what it says of the run."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rows: list[tuple[float, HistoryRow]] = []
        step = -1
        highest = -1
        for part in history.steps:
            times = part.times()
            first = step + 1 if part.first is None else part.first
            for i, time in enumerate(times):
                step = first + part.stride * i
                # W&B never writes a row below the highest step that was ever sent.
                if history.origin == "wandb" and step <= highest:
                    continue
                highest = max(highest, step)
                values = {key: _at(value, i, len(times)) for key, value in _values(history, part).items()}
                self._rows.append((time, HistoryRow(step, ORIGIN + time + history.clock, step, values)))
        self._rows.sort(key=lambda pair: pair[0])
        self._times = [time for time, _ in self._rows]

    def rows(self, after: int, now: float) -> Sequence[HistoryRow]:
        """Return the rows beyond the first `after` that are there at `now`."""
        return [row for _, row in self._rows[after : bisect_right(self._times, now)]]

    def run(self, now: float) -> HistoryRun:
        """Return what it says of the run as a whole."""
        history = self._history
        end = history.end if history.end is not None and history.end.at <= now else None
        state, heartbeat = "", None
        if history.origin == "wandb":
            heartbeat = self._heartbeat(now)
            state = "running"
            if end is not None:
                state = {HistoryEnd.SUCCEEDED: "finished"}.get(end.how, end.how.value)
            elif heartbeat is not None and now - heartbeat > _CRASHED_AFTER_SECONDS:
                state = "crashed"
        return HistoryRun(
            state=state,
            heartbeat=None if heartbeat is None else ORIGIN + heartbeat,
            created=None if history.created is None else ORIGIN + history.created,
            end=None if end is None else end.how,
            ended_at=None if end is None else ORIGIN + end.at + history.clock,
            exit_code=None if end is None else end.exit_code,
            config=history.config,
            drops_replayed_steps=history.origin == "wandb",
        )

    def _heartbeat(self, now: float) -> float | None:
        spans = self._history.alive
        if spans is None:
            spans = tuple((part.times()[0], part.times()[-1]) for part in self._history.steps)
        beats = [min(now, until) for since, until in spans if since <= now]
        return max(beats, default=None)


def _values(history: History, part: Steps) -> dict[str, Logged]:
    return {**history.values, **part.values}


def _at(value: Logged, index: int, count: int) -> float:
    if not isinstance(value, tuple):
        return value
    first, last = value
    return first if count == 1 else first + (last - first) * index / (count - 1)


def scheduler_facts(scheduler: Scheduler, name: str, now: float) -> SchedulerFacts | None:
    """Return what the scheduler says of the job; None before it was submitted."""
    past = [placement for placement in scheduler.states if placement.since <= now]
    if not past:
        return None
    current = past[-1]
    links = list(dict.fromkeys(p.link for p in past if p.link is not None))
    link = links[-1] if links else name
    if current.state is SchedulerState.GONE:
        return SchedulerFacts(link, SchedulerState.GONE, detail=current.detail)
    attempts = _attempts(scheduler, past, name)
    ended = current.since if current.state in _FAR_OVER else None
    shows_past = scheduler.covered if scheduler.covered is not None else scheduler.kind != "kubernetes"
    if not shows_past:
        attempts = [a for a in attempts if a.ended is None or ended is not None]
    without_tasks = current.state is SchedulerState.NO_TASKS
    successor = current.successor
    return SchedulerFacts(
        scheduler_job=link,
        state=current.state,
        detail=current.detail,
        submitted=ORIGIN + past[0].since,
        started=next((ORIGIN + p.since for p in past if p.state is SchedulerState.RUNNING), None),
        ended=None if ended is None else ORIGIN + ended,
        exit_code=current.exit_code,
        waiting=current.waiting,
        tasks=_tasks(scheduler, current) if scheduler.tells_tasks else None,
        tasks_expected=scheduler.gang if scheduler.tells_tasks else None,
        preemptions=sum(a.end is AttemptEnd.PREEMPTED for a in attempts),
        failures=sum(a.end is AttemptEnd.FAILED for a in attempts),
        attempts=() if without_tasks else tuple(attempts),
        covered_from=ORIGIN + past[0].since if shows_past and not without_tasks else None,
        successor=None
        if successor is None
        else Successor(successor.scheduler_job, successor.running, successor.can_start),
        links=tuple(links),
    )


def _attempts(scheduler: Scheduler, past: Sequence[Placement], name: str) -> list[Attempt]:
    """Return one attempt a task for each of its starts."""
    return [
        attempt
        for task in range(scheduler.gang)
        for attempt in _attempts_of(task, [each for each in past if each.fallen is None or task < each.fallen], name)
    ]


def _attempts_of(task: int, past: Sequence[Placement], name: str) -> list[Attempt]:
    spans: list[tuple[str, float, float | None, AttemptEnd, Placement | None]] = []
    link = name
    for placement in past:
        is_open = bool(spans) and spans[-1][2] is None
        moved = placement.link is not None and placement.link != link
        link = placement.link if placement.link is not None else link
        starts = placement.state is SchedulerState.RUNNING and (not is_open or placement.after is not None or moved)
        stops = placement.state not in {SchedulerState.RUNNING, SchedulerState.UNKNOWN}
        if is_open and (starts or stops):
            of_link, since, _, _, _ = spans[-1]
            how = placement.after if placement.after is not None else _ENDS.get(placement.state, AttemptEnd.UNKNOWN)
            spans[-1] = (of_link, since, placement.since, how, placement)
        if starts:
            spans.append((link, placement.since, None, AttemptEnd.RUNNING, None))
    return [
        Attempt(
            key=f"{of_link}/{task}/{number}",
            link=of_link,
            started=ORIGIN + since,
            ended=None if until is None else ORIGIN + until,
            end=how,
            exit_code=closing.exit_code if closing is not None else None,
            detail=closing.detail if closing is not None else "",
        )
        for number, (of_link, since, until, how, closing) in enumerate(spans)
    ]


def _tasks(scheduler: Scheduler, current: Placement) -> TaskCounts:
    if current.tasks is not None:
        return TaskCounts(**current.tasks)
    if current.state is SchedulerState.RUNNING:
        return TaskCounts(running=scheduler.gang)
    if current.state in {SchedulerState.PENDING, SchedulerState.PREEMPTED}:
        return TaskCounts(pending=scheduler.gang)
    if current.state is SchedulerState.SUCCEEDED:
        return TaskCounts(succeeded=scheduler.gang)
    if current.state in _FAR_OVER:
        return TaskCounts(failed=scheduler.gang)
    return TaskCounts()


def checkpoint_listing(saves: Sequence[Save], now: float) -> CheckpointListing:
    """Return every checkpoint folder that is there."""
    found = []
    for save in saves:
        for i, time in enumerate(save.times()):
            complete = not save.partial and time <= now
            begun = time if save.begun is None else time - save.begun
            if begun <= now:
                step = save.step + save.stride * i
                evidence = "metadata.json" if complete else "no metadata.json"
                saved_at = ORIGIN + time if complete else None
                found.append(Checkpoint(step, "/ckpt", f"/ckpt/step-{step}", complete, evidence, saved_at))
    return CheckpointListing(tuple(found))


def trials_update(trials: Trials, now: float) -> TrialsUpdate:
    """Return every result that is there, one folder a chunk."""
    by_chunk: dict[int | None, list[TrialResult]] = {}
    for number, results in enumerate(trials.results):
        found = by_chunk.setdefault(results.chunk, [])
        times = [time for time in results.times() if time <= now]
        found += [_trial(results, f"{number}-{time:g}-{i}", time) for time in times for i in range(results.together)]
    finished = trials.finished is not None and trials.finished <= now
    folders = []
    for chunk, found in sorted(by_chunk.items(), key=lambda item: item[0] or 0):
        changed = max((result.finished for result in found if result.finished is not None), default=None)
        if finished and trials.finished is not None:
            changed = ORIGIN + trials.finished
        if found or chunk is None or finished:
            folders.append(
                TrialsFolder(
                    path="" if chunk is None else f"chunk-{chunk}",
                    results=tuple(found),
                    total=trials.total,
                    finished=finished,
                    changed=changed,
                    chunk=chunk,
                )
            )
    return TrialsUpdate(tuple(folders), chunks=trials.chunks)


def _trial(results: Results, name: str, time: float) -> TrialResult:
    return TrialResult(
        name=name,
        reward=results.reward,
        agent_ran=results.turns is not None,
        turns=results.turns,
        exception=results.exception,
        instant=results.instant,
        finished=ORIGIN + time,
    )


def log_facts(log: Log, now: float) -> LogFacts:
    """Return what the log says up to now."""
    lines = sorted(
        ((time, event) for event in log.events for time in event.times() if time <= now), key=lambda line: line[0]
    )
    spans = [min(now, until) for since, until in log.written if since <= now]
    last_write = max([*spans, *(time for time, _ in lines)], default=None)
    running = [(time, e.running_requests) for time, e in lines if e.running_requests is not None]
    uploads = [(time, e.upload) for time, e in lines if e.upload is not None]
    refusals = [ORIGIN + time for time, e in lines if e.auth_failure]
    return LogFacts(
        files=("/logs/job.out",),
        last_write=None if last_write is None else ORIGIN + last_write,
        running_requests=running[-1][1] if running else None,
        running_requests_time=ORIGIN + running[-1][0] if running else None,
        last_success=max((ORIGIN + time for time, e in lines if e.success), default=None),
        auth_failures=tuple(refusals[-_AUTH_FAILURES_KEPT:]),
        tunnel_up=next((e.tunnel for _, e in reversed(lines) if e.tunnel is not None), None),
        upload_complete=uploads[-1][1] == "complete" if uploads else None,
        upload_time=ORIGIN + uploads[-1][0] if uploads else None,
        chunk_last_writes={e.chunk_write: ORIGIN + time for time, e in lines if e.chunk_write is not None},
        failures=tuple(LogFailure(e.failure, e.text, ORIGIN + time) for time, e in lines if e.failure),
        completed=any(e.completed for _, e in lines),
    )


def history_scripts(story: JobStory) -> list[HistoryScript]:
    """Return the scripts of a job's histories, in the order of trust."""
    return [HistoryScript(history) for history in story.history]
