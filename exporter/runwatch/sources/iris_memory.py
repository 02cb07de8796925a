"""Peak memory of Iris tasks, from the table `iris.task` of the controller's stats service.

The service answers SQL with an Arrow stream, which takes pyarrow to read. The exporter does not depend on that: where
it is not installed, or the controller keeps no such table, there is no peak memory.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence

from runwatch.facts import Failure
from runwatch.parsing.iris import JobRecord
from runwatch.sources.iris_rpc import STATS, IrisClient

INTERVAL_SECONDS = 300.0
_MEBIBYTE = 2**20
_TASKS_PER_QUERY = 1000


class PeakMemory:
    """The largest memory that any task of a job held, asked for every five minutes.

    Args:
        client: the connection.
        clock: Unix seconds.
    """

    def __init__(self, client: IrisClient, clock: Callable[[], float] = time.time) -> None:
        self._client, self._clock = client, clock
        self._readable = importlib.util.find_spec("pyarrow") is not None
        self._asked_at: dict[str, float] = {}
        self._peaks: dict[str, float] = {}

    def of(self, job: JobRecord) -> float | None:
        """Return the peak in bytes of this submission, None where it was not measured."""
        return self._peaks.get(job.identity)

    def read(self, jobs: Sequence[JobRecord], until: float) -> None:
        """Ask for those jobs whose figure is over five minutes old, in one query for about a thousand tasks.

        Of one that is over until five minutes after its end: its last samples, often its highest, come late.
        """
        if not self._readable:
            return
        now = self._clock()
        due = [job for job in jobs if self._is_due(job, now)]
        while due and time.monotonic() < until:
            tasks = 0
            batch: list[JobRecord] = []
            while due and (not batch or tasks + (due[-1].task_count or 0) <= _TASKS_PER_QUERY):
                job = due.pop()
                tasks += job.task_count or 0
                batch.append(job)
                self._asked_at[job.identity] = now
            self._ask(batch, until)

    def _is_due(self, job: JobRecord, now: float) -> bool:
        asked_at = self._asked_at.get(job.identity)
        if asked_at is None:
            return True
        if job.over and asked_at >= (job.finished or 0.0) + INTERVAL_SECONDS:
            return False
        return not 0 <= now - asked_at < INTERVAL_SECONDS

    def keep(self, jobs: Sequence[JobRecord]) -> None:
        """Drop what is kept of all other submissions."""
        wanted = {job.identity for job in jobs}
        self._asked_at = {identity: time for identity, time in self._asked_at.items() if identity in wanted}
        self._peaks = {identity: peak for identity, peak in self._peaks.items() if identity in wanted}

    def _ask(self, jobs: Sequence[JobRecord], until: float) -> None:
        reply = self._client.call(STATS, "Query", {"sql": peak_memory_query(jobs)}, until)
        peaks = {} if isinstance(reply, Failure) else read_arrow_peaks(reply.body.get("arrowIpc"))
        for job in jobs:
            mebibytes = max((peaks.get(task, 0) for task in _task_ids(job)), default=0)
            if mebibytes > 0:
                self._peaks[job.identity] = float(mebibytes * _MEBIBYTE)


def peak_memory_query(jobs: Sequence[JobRecord]) -> str:
    """Write the SQL for the peak of each task, in samples since its job was submitted: names are used again."""
    conditions = []
    for job in jobs:
        tasks = ", ".join("'" + task.replace("'", "''") + "'" for task in _task_ids(job))
        since = f" AND ts >= to_timestamp_millis({job.submitted * 1000:.0f})" if job.submitted is not None else ""
        conditions.append(f"(task_id IN ({tasks}){since})" if tasks else "FALSE")
    where = " OR ".join(conditions)
    return f'SELECT task_id, max(memory_peak_mb) AS peak FROM "iris.task" WHERE {where} GROUP BY task_id'  # noqa: S608


def read_arrow_peaks(stream: object) -> Mapping[str, int]:
    """Read the columns `task_id` and `peak` (MiB) of a base64 Arrow stream; empty where it cannot be read."""
    if not isinstance(stream, str):
        return {}
    ipc = importlib.import_module("pyarrow.ipc")
    try:
        table = ipc.open_stream(base64.b64decode(stream, validate=True)).read_all()
        rows = zip(table.column("task_id").to_pylist(), table.column("peak").to_pylist(), strict=True)
    except (binascii.Error, ValueError, OSError, KeyError):
        return {}
    return {task: peak for task, peak in rows if isinstance(task, str) and isinstance(peak, int)}


def _task_ids(job: JobRecord) -> list[str]:
    return [f"{job.job_id}/{index}" for index in range(min(job.task_count or 0, _TASKS_PER_QUERY))]
