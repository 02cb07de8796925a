"""Looking at a job's trial results: those of Harbor, and of terminal-bench before it.

What one look costs when nothing is new: one delimited listing of each job folder (and of the folders above them), one
of each trial folder without a result, and of `VERIFIED_A_LOOK` of those with one, in turn. A result is read when it
is new or its size or time changed. Nothing is ever listed below a trial folder, save an agent's own folder where only
its trajectory counts its turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from runwatch.facts import Failure, FailureReason, TrialsUpdate
from runwatch.fleet import Job
from runwatch.parsing.checkpoint_roots import parse_root
from runwatch.sources.file_roots import ANYWHERE, FileRoots
from runwatch.sources.folder_listing import BucketOpener, LookFailedError
from runwatch.sources.protocol import CountRequest
from runwatch.sources.store_opener import StoreOpener, google_cloud
from runwatch.sources.trial_folders import FirstLookLimit, Memory
from runwatch.sources.trial_tree import TreeLook

NEW_A_LOOK = 1000
LOOK_SECONDS = 10.0
"""A long first read is cut into looks: so many new trial folders, or so long, whichever is first."""


class TrialsReader:
    """Looks at one job at a time and remembers the results that it read.

    Looks at different jobs may run in different threads; two looks at one job may not.
    """

    def __init__(
        self,
        count_request: CountRequest,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        new_a_look: int = NEW_A_LOOK,
        connect_buckets: Callable[[], BucketOpener] = google_cloud,
        roots: FileRoots = ANYWHERE,
    ) -> None:
        """Make a reader.

        Args:
            count_request: called with the job's site for each request, folder listing or file opened.
            at: hide results that were written after this time (Unix seconds).
            clock: Unix seconds now.
            monotonic: seconds that only go on, for the length of a look.
            new_a_look: how many new trial folders one look goes into.
            connect_buckets: called once, when the first `gs://` root is looked at.
            roots: the folders of this machine that may be read.
        """
        self._at = at
        self._clock = clock
        self._monotonic = monotonic
        self._new_a_look = new_a_look
        self._stores = StoreOpener(count_request, connect_buckets, roots)
        self._memory: dict[str, Memory] = {}

    def read(self, job: Job) -> TrialsUpdate | Failure:
        """Look once at a job's results.

        Any folder that could not be looked at fails the whole look; what was read stays remembered. A root that is
        missing or empty, or that holds nothing of Harbor's, is `not_found`: no trials yet is something else.
        """
        if job.trials is None:
            return Failure(FailureReason.NOT_FOUND, "the job names no trials")
        try:
            root = parse_root(job.trials.path)
        except ValueError as error:
            return Failure(FailureReason.OTHER, str(error))
        memory = self._memory.get(job.run)
        if memory is None or memory.root != root.address():
            memory = self._memory[job.run] = Memory(root.address())
        limit = FirstLookLimit(self._new_a_look, self._monotonic() + LOOK_SECONDS, self._monotonic)
        try:
            store = self._stores.open(root, job.site)
            return TreeLook(store, root, memory, limit, at=self._at, now=self._clock()).look()
        except LookFailedError as failed:
            return failed.failure

    def forget(self, run: str) -> None:
        """Drop what is remembered of a job."""
        self._memory.pop(run, None)

    def close(self) -> None:
        """Release connections."""
        self._stores.close()
