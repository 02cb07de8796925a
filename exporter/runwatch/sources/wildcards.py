"""Finding out what the `*` of a template stands for: one listing of the level above it, shared by all who ask.

Object stores and file systems are listed by the level, projects of W&B through the source that finds runs. A listing
that hangs takes the time of one look, and is not started again before it ended.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason
from runwatch.found.templates import Candidate, StarPattern, fitting
from runwatch.parsing.checkpoint_roots import parse_root
from runwatch.sources.folder_listing import BucketOpener, Level, LookFailedError, ObjectStore
from runwatch.sources.protocol import CountRequest
from runwatch.sources.store_opener import StoreOpener, google_cloud

LISTING_SECONDS = 20.0
MOST_CANDIDATES = 50
"""Names of which the newest is told: each costs a request or more."""

_DEEPEST_LOOK = 3
_NUMBERS = re.compile(r"([0-9]+)")


@dataclass(slots=True)
class _Listing:
    """A call in a thread of its own."""

    ended: threading.Event = field(default_factory=threading.Event)
    result: Level | float | None = None
    failure: Failure | None = None


class LevelListings:
    """Lists levels of object stores and file systems, each once a look.

    Args:
        count_request: Called with the site for each request, folder listing or file opened.
        connect_buckets: Called once, when the first `gs://` level is listed.
        seconds: How long all listings of a look may take together, those of object stores and those of file systems.
    """

    def __init__(
        self,
        count_request: CountRequest,
        *,
        connect_buckets: Callable[[], BucketOpener] = google_cloud,
        seconds: float = LISTING_SECONDS,
    ) -> None:
        self._stores = StoreOpener(count_request, connect_buckets)
        self._seconds = seconds
        self._levels: dict[str, Level | Failure] = {}
        self._names: dict[tuple[str, bool], list[str]] = {}
        self._running: dict[str, _Listing] = {}
        self._until: dict[bool, float] = {}

    def begin(self) -> None:
        """Begin a new look: what was listed before is listed again when it is asked for."""
        self._levels.clear()
        self._names.clear()
        self._until.clear()

    def candidates(self, pattern: StarPattern, site: str, *, files: bool = False) -> list[Candidate] | Failure:
        """Return the names below the pattern's parent that fit it, without times.

        A level that is not there holds none; a level that could not be listed is a failure.

        Args:
            pattern: The address with its star.
            site: Whose requests these are.
            files: Whether files are meant, not folders.
        """
        if pattern.parent not in self._levels:
            self._levels[pattern.parent] = self._list(pattern.parent, site)
        level = self._levels[pattern.parent]
        if isinstance(level, Failure):
            return [] if level.is_answer else level
        wanted = (pattern.parent, files and not pattern.rest)
        if wanted not in self._names:
            self._names[wanted] = sorted(level.objects if wanted[1] else level.folders)
        return [Candidate(name, star) for name, star in fitting(self._names[wanted], pattern)]

    def dated(self, pattern: StarPattern, candidate: Candidate, site: str) -> Candidate | Failure:
        """Tell when a candidate was last written: of a folder in a store, its newest objects' time.

        A folder without objects is as old as its last folder, by the number in its name. The time stays None where
        nothing tells it.
        """
        level = self._levels.get(pattern.parent)
        if isinstance(level, Level) and candidate.name in level.objects:
            return _written_at(candidate, level.objects[candidate.name].updated)
        address = f"{pattern.parent}/{candidate.name}"
        outcome = self._bounded(address, lambda: _last_write(self._open(address, site), "", _DEEPEST_LOOK))
        if isinstance(outcome, Failure):
            return candidate if outcome.is_answer else outcome
        return _written_at(candidate, outcome if isinstance(outcome, float) else None)

    def close(self) -> None:
        """Release connections."""
        self._stores.close()

    def _list(self, parent: str, site: str) -> Level | Failure:
        outcome = self._bounded(f"{parent}/", lambda: self._open(parent, site).list_level(""))
        return outcome if isinstance(outcome, Level | Failure) else Level((), {})

    def _open(self, address: str, site: str) -> ObjectStore:
        try:
            root = parse_root(address or "/")
        except ValueError as error:
            raise LookFailedError(Failure(FailureReason.OTHER, str(error))) from error
        return self._stores.open(root, site)

    def _bounded(self, key: str, call: Callable[[], Level | float | None]) -> Level | float | Failure | None:
        before = self._running.get(key)
        if before is not None and not before.ended.is_set():
            return Failure(FailureReason.TIMEOUT, f"{key}: the listing before this one has not ended yet")
        until = self._until.setdefault(key.startswith("gs:"), time.monotonic() + self._seconds)
        if time.monotonic() >= until:
            return Failure(FailureReason.TIMEOUT, f"{key}: other listings took all the time")
        listing = self._running[key] = _Listing()
        thread = threading.Thread(target=_run, args=(listing, call), name="list a level", daemon=True)
        thread.start()
        if not listing.ended.wait(until - time.monotonic()):
            return Failure(FailureReason.TIMEOUT, f"{key}: no answer in time")
        del self._running[key]
        return listing.failure or listing.result


def _written_at(candidate: Candidate, time: float | None) -> Candidate:
    return Candidate(candidate.name, candidate.star, time, written=time)


def _run(listing: _Listing, call: Callable[[], Level | float | None]) -> None:
    # What else it raises is reported where threads report it, and told as a failure here.
    listing.failure = Failure(FailureReason.OTHER, "the listing broke off; the log tells where")
    try:
        listing.result = call()
        listing.failure = None
    except LookFailedError as failed:
        listing.failure = failed.failure
    finally:
        listing.ended.set()


def _last_write(store: ObjectStore, folder: str, depth: int) -> float | None:
    level = store.list_level(folder)
    if level.objects:
        return max(entry.updated for entry in level.objects.values())
    if not level.folders or depth <= 1:
        return None
    last = max(level.folders, key=_by_number)
    return _last_write(store, f"{folder}/{last}" if folder else last, depth - 1)


def _by_number(name: str) -> tuple[list[tuple[int, str]], str]:
    # Every second part of the split is a number.
    parts = _NUMBERS.split(name)
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)], name
