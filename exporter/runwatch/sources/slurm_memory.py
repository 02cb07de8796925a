"""What is kept of the jobs of one SLURM site between polls: SLURM itself forgets a job soon after its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from runwatch.facts import AttemptEnd, SchedulerState, TaskCounts
from runwatch.parsing.slurm_chains import LinkView
from runwatch.parsing.slurm_ids import Dependency, JobId, dependencies_of_submit_line, must_end_first, without_tasks
from runwatch.parsing.slurm_states import COMPLETING, can_start, meaning, waiting
from runwatch.parsing.slurm_tasks import SAME_START_SECONDS, Start, TaskView, of_one_job, view_task
from runwatch.parsing.slurm_text import AccountingRow, JobDetail, QueueRecord

_DETAIL_TRIES = 3
_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 300.0


@dataclass(slots=True)
class TaskMemory:
    """One job, or one task of an array. `found_log` is a log path that was seen to exist."""

    queue: QueueRecord | None = None
    visible: bool = False
    detail: JobDetail | None = None
    detail_tries: int = 0
    rows: tuple[AccountingRow, ...] = ()
    seen: dict[float, Start] = field(default_factory=dict)
    found_log: str = ""

    @property
    def waits(self) -> bool:
        """Whether squeue shows it waiting to start, for the first time or again."""
        record = self.queue
        if record is None or not self.visible or record.started is not None:
            return False
        return meaning(record.word).state in {SchedulerState.PENDING, SchedulerState.PREEMPTED}

    @property
    def wants_detail(self) -> bool:
        """Whether scontrol may still tell something of it."""
        if not self.visible or self.queue is None or self.detail_tries >= _DETAIL_TRIES:
            return False
        return self.detail is None or self.detail.word != self.queue.word

    @property
    def settled(self) -> bool:
        """Whether accounting has told how its newest start ended: one that was preempted and requeued ended before."""
        newest = max(self.rows, key=lambda row: (row.submitted or 0.0, row.started or 0.0), default=None)
        return newest is not None and meaning(newest.word).terminal

    @property
    def runs_only_in_accounting(self) -> bool:
        """Whether accounting still takes a start for running that squeue shows to be over: the job waits, or runs anew.

        How that start ended is told by the row's next state.
        """
        if self.queue is None or not self.visible:
            return False
        shown = self.queue.started
        running = [row.started for row in self.rows if meaning(row.word).end is AttemptEnd.RUNNING]
        return any(
            started is not None and (self.waits or (shown is not None and abs(started - shown) > SAME_START_SECONDS))
            for started in running
        )

    def update(self, record: QueueRecord, *, is_of_many: bool = False) -> bool:
        """Take in what squeue shows now; tell whether that is news for accounting (an end, or a start anew).

        Args:
            record: squeue's line.
            is_of_many: whether the line is that of all tasks that wait, whose times are not those of this one.
        """
        before = self.queue
        self.queue, self.visible = record, True
        is_end = meaning(record.word).terminal or record.word == COMPLETING
        if before is None:
            return is_end
        if before.word != record.word:
            self.detail_tries = 0
        restarted = before.started is not None and (
            record.started is None or record.started - before.started > SAME_START_SECONDS
        )
        if restarted and before.started is not None:
            # A job that was requeued counts as submitted anew at that time.
            ended = record.ended if record.word == "REQUEUED" else record.submitted
            known = ended if ended is not None and ended >= before.started and not is_of_many else None
            self.seen[before.started] = Start(before.started, known, "REQUEUED")
            self.detail_tries = 0
            self.detail = None if self.detail is None else replace(self.detail, word="")
        return restarted or (before.word != record.word and is_end)


@dataclass(slots=True)
class LinkMemory:
    """One job or array.

    squeue shows all tasks of an array that wait in one line, `waiting_line`, those that ran before and wait again too.
    `rest` is that line without the tasks that are known by themselves.
    """

    id: str
    name: str = ""
    user: str = ""
    workdir: str = ""
    submit_line: str = ""
    waits_for: set[str] = field(default_factory=set)
    is_singleton: bool = False
    tasks: dict[str, TaskMemory] = field(default_factory=dict)
    waiting_line: QueueRecord | None = None
    rest: QueueRecord | None = None
    accounted: bool = False
    asks_accounting: bool = True
    retry_at: float = 0.0
    retries: int = 0

    @property
    def visible(self) -> bool:
        """Whether squeue shows any of it now."""
        return self.rest is not None or any(task.visible for task in self.tasks.values())

    @property
    def was_seen(self) -> bool:
        """Whether any source ever had a record of it."""
        return self.rest is not None or bool(self.tasks)

    def see(self, records: Sequence[QueueRecord]) -> None:
        """Take in squeue's lines of this job now; none where it shows the job no more."""
        shown_before = {key for key, task in self.tasks.items() if task.visible}
        for task in self.tasks.values():
            task.visible = False
        self.waiting_line = self.rest = None
        for record in records:
            self._keep(record)
        self._tell_apart_who_waits()
        gone = shown_before - {key for key, task in self.tasks.items() if task.visible}
        if any(not self.tasks[key].settled for key in gone):
            self.ask_again()

    def _keep(self, record: QueueRecord) -> None:
        self.name, self.user, self.workdir = record.name, record.user, record.workdir
        self._wait_for(record.dependencies)
        if record.id.component:
            return
        if record.id.tasks is not None and record.id.task is None:
            self.waiting_line = record
            return
        if self.tasks.setdefault(record.id.key, TaskMemory()).update(record):
            self.ask_again()

    def _tell_apart_who_waits(self) -> None:
        """Give each known task that squeue shows only in the line of all that wait a line of its own."""
        line = self.waiting_line
        if line is None or line.id.tasks is None:
            return
        apart = set()
        for key, task in self.tasks.items():
            index = key.rpartition("_")[2]
            if not index.isdigit() or not any(int(index) in indices for indices in line.id.tasks):
                continue
            apart.add(int(index))
            if task.visible:
                continue
            one = JobId(line.id.base, (range(int(index), int(index) + 1),), int(index))
            if task.update(replace(line, id=one), is_of_many=True):
                self.ask_again()
        left = without_tasks(line.id.tasks, apart)
        whole = not left and line.id.complete
        self.rest = None if whole else replace(line, id=replace(line.id, tasks=left))

    def _wait_for(self, dependencies: Iterable[Dependency]) -> None:
        for dependency in dependencies:
            if dependency.makes_link:
                self.waits_for.add(dependency.job)
            self.is_singleton = self.is_singleton or dependency.is_singleton

    def ask_again(self) -> None:
        """Have accounting asked at the next occasion."""
        self.asks_accounting, self.retries, self.retry_at = True, 0, 0.0

    def account(self, rows: Sequence[AccountingRow], now: float, *, whole: bool = True) -> None:
        """Take in the rows that accounting has of this job; it is asked again while they lag behind squeue.

        Args:
            rows: its starts.
            now: Unix seconds.
            whole: whether these are all. A search for a name leaves out a start that never became eligible, such as
                that of a requeued job which was cancelled before its time came.
        """
        if self.accounted and not whole:
            return
        by_key: dict[str, list[AccountingRow]] = {}
        for row in self._of_this_job(rows):
            if row.id.component:
                continue  # as in squeue: the first component, which runs the script, stands for a heterogeneous job
            self.name = self.name or row.name
            self.user = self.user or row.user
            self.workdir = self.workdir or row.workdir
            self.submit_line = self.submit_line or row.submit_line
            # Tasks of an array that never started have one row together: it counts where they never will.
            if row.id.task is not None or row.id.tasks is None or meaning(row.word).terminal:
                by_key.setdefault(row.id.key, []).append(row)
        self._wait_for(dependencies_of_submit_line(self.submit_line))
        for key, of_task in by_key.items():
            self.tasks.setdefault(key, TaskMemory()).rows = tuple(of_task)
        self._tell_apart_who_waits()
        if not whole:
            return
        self.accounted = True
        self.asks_accounting = any(self._lags(task) for task in self.tasks.values())
        if self.asks_accounting:
            self.retries += 1
            self.retry_at = now + min(_LONGEST_RETRY_SECONDS, _RETRY_SECONDS * 2.0**self.retries)

    def _of_this_job(self, rows: Sequence[AccountingRow]) -> list[AccountingRow]:
        """Leave out the rows of another job that had the same id before."""
        shown = {key: task.queue for key, task in self.tasks.items() if task.queue is not None and task.visible}
        times = {key: record.submitted for key, record in shown.items() if record.submitted is not None}
        return of_one_job(rows, times)

    @staticmethod
    def _lags(task: TaskMemory) -> bool:
        over = task.queue is not None and (meaning(task.queue.word).terminal or task.queue.word == COMPLETING)
        return ((over or not task.visible) and not task.settled) or task.runs_only_in_accounting

    def view(self, no_accounting: str, task: int | None = None) -> LinkView:
        """Put everything together.

        Args:
            no_accounting: Why nothing can be known of a job that squeue shows no more; "" where there is accounting.
            task: The one array index that counts; None for all.
        """
        chosen = {key: memory for key, memory in self.tasks.items() if task is None or key == f"{self.id}_{task}"}
        in_order = sorted(chosen.items(), key=lambda item: (len(item[0]), item[0]))
        views = [self._view_task(key, memory, no_accounting) for key, memory in in_order]
        rest = self.rest
        if rest is not None and task is not None and rest.id.tasks is not None:
            rest = rest if any(task in indices for indices in rest.id.tasks) or not rest.id.complete else None
        if rest is not None:
            views.append(_waiting_rest(self.id, rest))
        pending = next((m.queue for m in chosen.values() if m.waits and m.queue is not None), rest)
        is_array = task is None and (rest is not None or any("_" in key for key in self.tasks))
        return LinkView(
            id=self.id,
            name=self.name,
            user=self.user,
            workdir=self.workdir,
            submit_line=self.submit_line,
            waits_for=frozenset(self.waits_for),
            is_singleton=self.is_singleton,
            tasks=tuple(views),
            waiting="" if pending is None else waiting(pending.reason),
            can_start=pending is None or can_start(pending.reason),
            held_by=frozenset() if pending is None else must_end_first(pending.dependencies),
            counts=_counts(views, rest, 1 if task is not None else None),
            expected=None if is_array or not views else len(views),
        )

    def _view_task(self, key: str, memory: TaskMemory, no_accounting: str) -> TaskView:
        view = view_task(
            key,
            self.id,
            queue=memory.queue,
            detail=memory.detail,
            rows=memory.rows,
            seen=memory.seen.values(),
            visible=memory.visible,
        )
        if memory.visible or view.over:
            return view
        if no_accounting:
            return _lost(
                view, SchedulerState.UNKNOWN, f"squeue shows it no more, and how it ended is not known: {no_accounting}"
            )
        if memory.rows:
            return _lost(
                view, SchedulerState.UNKNOWN, f"accounting says {view.word}, but the controller does not know it"
            )
        return replace(
            _lost(view, SchedulerState.GONE, "neither squeue nor sacct has a record of it"), record_gone=True
        )


def _lost(view: TaskView, state: SchedulerState, detail: str) -> TaskView:
    attempts = tuple(
        replace(attempt, end=AttemptEnd.UNKNOWN, detail=detail) if attempt.end is AttemptEnd.RUNNING else attempt
        for attempt in view.attempts
    )
    return replace(view, state=state, detail=detail, ended=None, exit_code=None, attempts=attempts)


def _waiting_rest(link: str, record: QueueRecord) -> TaskView:
    return TaskView(
        key=f"{link}_[]",
        word=record.word,
        state=meaning(record.word).state,
        detail=f"{record.word}, reason {record.reason.strip('()')}",
        submitted=record.submitted,
        started=None,
        ended=None,
        exit_code=None,
        attempts=(),
        over=meaning(record.word).terminal,
    )


def _counts(views: Sequence[TaskView], rest: QueueRecord | None, only: int | None) -> TaskCounts | None:
    """Count tasks now; None where squeue did not list them all, or it is not known what became of one."""
    if only is None and rest is not None and not rest.id.complete:
        return None
    states = [view.state for view in views if not view.key.endswith("_[]")]
    if any(state in {SchedulerState.UNKNOWN, SchedulerState.GONE} for state in states):
        return None
    waits = 0
    if rest is not None and meaning(rest.word).state is SchedulerState.PENDING:
        waits = rest.id.count if only is None else only
    return TaskCounts(
        running=states.count(SchedulerState.RUNNING),
        pending=states.count(SchedulerState.PENDING) + states.count(SchedulerState.PREEMPTED) + waits,
        succeeded=states.count(SchedulerState.SUCCEEDED),
        failed=sum(states.count(s) for s in (SchedulerState.FAILED, SchedulerState.TIMEOUT, SchedulerState.KILLED)),
    )
