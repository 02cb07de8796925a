"""The attempt chains of watched Iris jobs: read once, and again only when a job's counts moved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason
from runwatch.parsing.iris import Accelerators, JobRecord, TaskRecord, parse_task, parse_tasks
from runwatch.parsing.iris_attempts import attempt_key, is_ended
from runwatch.parsing.iris_facts import KnownTasks
from runwatch.sources.iris_rpc import CONNECTIONS, CONTROLLER, IrisClient, Reply

_ENDS_THE_ROUND = frozenset({FailureReason.AUTH, FailureReason.NETWORK, FailureReason.TIMEOUT, FailureReason.THROTTLED})
"""Failures that other requests of the same moment would repeat, or make worse."""


@dataclass(slots=True)
class _Chain:
    """What was read of one submission of a job.

    `counts` are those of the record for which every task's whole chain was read, None until that was done once.
    """

    counts: tuple[object, ...] | None = None
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    accelerators: Accelerators | None = None
    seen_ended: dict[str, float] = field(default_factory=dict)
    tried_at: float = 0.0
    trouble: str = ""


class AttemptChains:
    """Reads and keeps the attempts of jobs of one controller. Used from one thread; requests run side by side.

    Args:
        client: the connection.
        clock: Unix seconds.
    """

    def __init__(self, client: IrisClient, clock: Callable[[], float] = time.time) -> None:
        self._client, self._clock = client, clock
        self._threads = ThreadPoolExecutor(max_workers=CONNECTIONS, thread_name_prefix="iris-request")
        self._chains: dict[str, _Chain] = {}
        self._round_over = False

    def of(self, record: JobRecord) -> KnownTasks:
        """Return what is known of a submission."""
        chain = self._chains.get(record.identity)
        if chain is None:
            return KnownTasks(trouble="not asked for yet")
        return KnownTasks(
            tasks=tuple(chain.tasks[task_id] for task_id in sorted(chain.tasks)),
            whole=chain.counts == record.counts,
            trouble=chain.trouble or "no time was left",
            accelerators=chain.accelerators,
            seen_ended=chain.seen_ended,
        )

    def read(self, records: Iterable[JobRecord], until: float) -> None:
        """Read the chains of those records whose counts moved, longest untried first, as far as the time allows.

        What is read of a job's tasks is kept when the time runs out, and the next call goes on from there.
        """
        due = []
        for record in {record.identity: record for record in records}.values():
            chain = self._chains.setdefault(record.identity, _Chain())
            if chain.counts != record.counts:
                due.append((chain.tried_at, record, chain))
        due.sort(key=lambda entry: entry[0])
        self._round_over = False
        list(self._threads.map(lambda entry: self._read_chain(entry[1], entry[2], until), due))

    def keep(self, records: Iterable[JobRecord]) -> None:
        """Drop what is kept of all other submissions."""
        wanted = {record.identity for record in records}
        self._chains = {identity: chain for identity, chain in self._chains.items() if identity in wanted}

    def close(self) -> None:
        """End the threads; requests that run are let run out."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _read_chain(self, record: JobRecord, chain: _Chain, until: float) -> None:
        if self._round_over or time.monotonic() >= until:
            return
        chain.tried_at, chain.trouble = self._clock(), ""
        tasks = self._tasks(record, chain, until)
        if tasks is None:
            return
        whole = True
        for task in tasks:
            joined = _joined(chain.tasks.get(task.task_id), task)
            asks_chips = chain.accelerators is None and chain.counts is None and task is tasks[0]
            if joined is None or asks_chips:
                joined = self._task(task.task_id, chain, until)
            if joined is None:
                whole = False
                if self._round_over:
                    break
                continue
            self._note_ends(record, chain, joined)
            chain.tasks[task.task_id] = joined
        if whole and len(tasks) == (record.task_count or 0):
            chain.counts = record.counts

    def _tasks(self, record: JobRecord, chain: _Chain, until: float) -> Sequence[TaskRecord] | None:
        """The job's tasks with their newest attempts. Of a job of one task that one is asked for itself instead."""
        if record.task_count == 1:
            return (TaskRecord(f"{record.job_id}/0", 0, ()),)
        reply = self._ask("ListTasks", {"jobId": record.job_id}, chain, until)
        return None if reply is None else parse_tasks(reply.body)

    def _task(self, task_id: str, chain: _Chain, until: float) -> TaskRecord | None:
        reply = self._ask("GetTaskStatus", {"taskId": task_id}, chain, until)
        if reply is None:
            return None
        task, accelerators = parse_task(reply.body)
        chain.accelerators = accelerators or chain.accelerators
        return task if task is not None and task.task_id == task_id else None

    def _ask(self, method: str, message: Mapping[str, object], chain: _Chain, until: float) -> Reply | None:
        reply = self._client.call(CONTROLLER, method, message, until)
        if not isinstance(reply, Failure):
            return reply
        chain.trouble = reply.detail
        if reply.reason in _ENDS_THE_ROUND or reply.whole_source:
            self._round_over = True
        return None

    def _note_ends(self, record: JobRecord, chain: _Chain, task: TaskRecord) -> None:
        known = chain.tasks.get(task.task_id)
        running = {attempt.number for attempt in known.attempts if not is_ended(attempt)} if known else set()
        for attempt in task.attempts:
            if is_ended(attempt) and attempt.finished is None and attempt.number in running:
                chain.seen_ended.setdefault(attempt_key(record, task.task_id, attempt.number), self._clock())


def _joined(known: TaskRecord | None, listed: TaskRecord) -> TaskRecord | None:
    """The whole chain from a listing, which shows the newest attempt only; None where an earlier end is missing."""
    if listed.current < 0:
        return listed
    newest = [attempt for attempt in listed.attempts if attempt.number == listed.current]
    earlier = [attempt for attempt in known.attempts if attempt.number < listed.current] if known else []
    if not newest or len(earlier) != listed.current or not all(is_ended(attempt) for attempt in earlier):
        return None
    return TaskRecord(listed.task_id, listed.current, (*earlier, newest[0]), listed.message)
