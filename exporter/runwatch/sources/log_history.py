"""History from the step lines of a trainer's log.

Times of rows are the lines' own stamps, else the bar's seconds within one attempt (`log_times`). The log's total is
given as `num_train_steps`. Of a log that is too long to be read whole at first sight the rows are those of its tail,
and the history says that it starts mid-run: nothing is told of what lies before.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from runwatch.facts import Failure, FailureReason, HistoryUpdate
from runwatch.fleet import Job
from runwatch.sources.job_log import JobLog
from runwatch.sources.log_watch import LogWatch


class LogHistoryReader:
    """Reads the `log` history of jobs from logs that a `LogWatch` follows."""

    def __init__(self, watch: LogWatch) -> None:
        self._watch = watch
        self._lock = threading.Lock()
        self._given: dict[str, JobLog] = {}

    def read(self, job: Job) -> HistoryUpdate | Failure:
        """Return the rows that came since the last read."""
        if not any(source.log is not None for source in job.history):
            return Failure(FailureReason.NOT_FOUND, "the job names no log as its history")
        answer = self._look(job)
        if answer is None:
            # Rows of it went to another reader, before this one was made: all of it is read again.
            self._watch.forget(job.run)
            answer = self._look(job)
        if answer is None:
            return Failure(FailureReason.OTHER, "its log is read by another reader too")
        if isinstance(answer, Failure):
            return answer
        log, update = answer
        with self._lock:
            before, self._given[job.run] = self._given.get(job.run), log
        # The log was begun anew meanwhile (its other reader let go of it): its rows come from the first again.
        return replace(update, reset=True) if before is not None and before is not log else update

    def _look(self, job: Job) -> tuple[JobLog, HistoryUpdate] | Failure | None:
        """Look at the log and take its new rows; None where rows that were never given here are gone from it."""

        def taken(log: JobLog) -> tuple[JobLog, HistoryUpdate] | None:
            if log.rows_given and self._given.get(job.run) is not log:
                return None
            return log, log.history()

        return self._watch.look(job, taken, until_caught_up=False)

    def forget(self, run: str) -> None:
        """Drop what is kept of a job."""
        with self._lock:
            self._given.pop(run, None)
        self._watch.forget(run)
