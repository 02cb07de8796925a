"""The state file: what upstreams forget, kept for `linger`.

It holds which jobs discovery found at schedulers, and texts that a scheduler shows only for a while (the path of a log,
a dependency while a job waits). Nothing else is in it, never a secret, and nothing but these is lost without it.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from runwatch.found.jobs import KnownJob

VERSION = 1
_LARGEST_BYTES = 64 * 1024 * 1024
_LONGEST_TEXT = 4096
_GRAINS_IN_LINGER = 24.0
"""Times are written anew once they moved by a 24th of `linger`: else the file would change at every poll."""

_log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)


class Note(BaseModel):
    """Some texts about one job of one site, and when somebody last asked for them (Unix seconds)."""

    model_config = ConfigDict(frozen=True)

    site: str
    scheduler_job: str
    key: str
    texts: tuple[str, ...]
    seen: float


class Remembered:
    """Reads the state file once, keeps what it is told, and writes the file when something changed.

    Safe to call from any thread. Without a path all is kept in memory alone.

    Args:
        path: The file; None for none.
        linger: Seconds that something is kept after it was last seen.
        writes: False for a look that shall leave no trace: the file is read and never written.
        clock: Unix seconds.
    """

    def __init__(
        self, path: Path | None, linger: float, *, writes: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        self._path, self._linger, self._writes, self._clock = path, linger, writes, clock
        self._lock = threading.Lock()
        self._found: tuple[KnownJob, ...] = ()
        self._notes: dict[tuple[str, str, str], Note] = {}
        self._written: dict[str, object] | None = None
        self._said: set[str] = set()
        self._is_foreign = False
        if path is not None:
            self._read(path)

    @property
    def path(self) -> Path | None:
        """The state file; None where there is none."""
        return self._path

    @property
    def found(self) -> tuple[KnownJob, ...]:
        """The jobs that discovery had found when they were last kept."""
        with self._lock:
            return self._found

    def keep_found(self, found: Sequence[KnownJob]) -> None:
        """Keep these jobs in place of those before."""
        with self._lock:
            self._found = tuple(found)

    def remember(self, site: str, scheduler_job: str, key: str, texts: Sequence[str]) -> None:
        """Keep texts about a job of a site under a key, in place of those before.

        A text of more than 4,096 characters is not kept: no path and no dependency has as many.
        """
        kept = tuple(text for text in texts if len(text) <= _LONGEST_TEXT)
        with self._lock:
            note = Note(site=site, scheduler_job=scheduler_job, key=key, texts=kept, seen=self._clock())
            self._notes[site, scheduler_job, key] = note

    def recall(self, site: str, scheduler_job: str, key: str) -> tuple[str, ...]:
        """Return what was kept, or nothing. It is dropped `linger` after it was last kept or asked for."""
        with self._lock:
            note = self._notes.get((site, scheduler_job, key))
            if note is None:
                return ()
            self._notes[site, scheduler_job, key] = note.model_copy(update={"seen": self._clock()})
            return note.texts

    def save(self, linger: float | None = None) -> None:
        """Drop what was not seen for `linger`, and write the file if what is left differs from what it holds.

        Args:
            linger: Seconds from now on; None for those before.
        """
        with self._lock:
            self._linger = self._linger if linger is None else linger
            oldest = self._clock() - self._linger
            self._notes = {key: note for key, note in self._notes.items() if note.seen >= oldest}
            if self._path is None or not self._writes:
                return
            content = self._content()
            if content == self._written or (self._written is None and not self._found and not self._notes):
                return
            problem = _write(self._path, content, aside=self._is_foreign)
            if problem is not None:
                self._say("write", f"{self._path}: cannot be written: {problem}")
                return
            self._is_foreign = False
            self._said.discard("write")
            self._written = content

    def _content(self) -> dict[str, object]:
        grain = max(1.0, self._linger / _GRAINS_IN_LINGER)

        def rounded_up(seconds: float) -> float:
            # Up, so that nothing is dropped early after a restart.
            return -(-seconds // grain) * grain

        def rounded_down(seconds: float | None) -> float | None:
            # Down, so that what was submitted after a job's end is not taken for a link of it.
            return None if seconds is None else seconds // grain * grain

        found = [
            job.model_copy(update={"last_seen": rounded_up(job.last_seen), "alive_at": rounded_down(job.alive_at)})
            for job in self._found
        ]
        notes = [note.model_copy(update={"seen": rounded_up(note.seen)}) for _, note in sorted(self._notes.items())]
        return {
            "version": VERSION,
            "found": [job.model_dump(mode="json", exclude_defaults=True) for job in found],
            "notes": [note.model_dump(mode="json") for note in notes],
        }

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST_BYTES + 1)
        except FileNotFoundError:
            self._say(
                "read", f"{path}: no state file yet: what schedulers forgot before now is not known", logging.INFO
            )
            return
        except OSError as error:
            self._is_foreign = True
            self._say("read", f"{path}: cannot be read, so what schedulers forgot is not known: {error.strerror}")
            return
        try:
            held = json.loads(content) if len(content) <= _LARGEST_BYTES else None
        except (ValueError, RecursionError):
            held = None
        if not isinstance(held, dict) or held.get("version") != VERSION:
            self._is_foreign = True
            self._say("read", f"{path}: is no state file of version {VERSION}, so what schedulers forgot is not known")
            return
        skipped = 0
        found: list[KnownJob] = []
        now = self._clock()
        for entry in _entries(held.get("found")):
            job = _parsed(KnownJob, entry)
            skipped += job is None
            # A time that was rounded up, or written by a clock that went wrong, is not taken to be in the future.
            found += [] if job is None else [job.model_copy(update={"last_seen": min(job.last_seen, now)})]
        for entry in _entries(held.get("notes")):
            note = _parsed(Note, entry)
            skipped += note is None
            if note is not None:
                known = note.model_copy(update={"seen": min(note.seen, now)})
                self._notes[note.site, note.scheduler_job, note.key] = known
        self._found = tuple(found)
        self._written = held
        if skipped:
            self._is_foreign = True
            self._say("read", f"{path}: {skipped} entries could not be read and are left out")

    def _say(self, about: str, message: str, level: int = logging.WARNING) -> None:
        if about not in self._said:
            self._said.add(about)
            _log.log(level, "state file %s", message)


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _parsed(model: type[Model], entry: object) -> Model | None:
    try:
        return model.model_validate_json(json.dumps(entry))
    except ValidationError:
        return None


def _write(path: Path, content: dict[str, object], *, aside: bool) -> str | None:
    """Put a file in the place of the one before, readable by its owner alone; return what went wrong.

    With `aside` the one before, which may be anything, is kept under a name that ends in `.unreadable`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        if aside and path.exists():
            path.replace(path.with_name(f"{path.name}.unreadable"))
        temporary.replace(path)
    except OSError as error:
        _discard(temporary)
        return error.strerror or type(error).__name__
    return None


def _discard(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError as error:
        _log.debug("%s: cannot be removed: %s", temporary, error.strerror)
