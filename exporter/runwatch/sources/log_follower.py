"""Reading log files on from where the last look ended, within bounds.

A file that is seen for the first time and is too long to be read whole gives its head (banners) and its tail; after
that only new bytes are read. A file that was cut or written anew begins again, one that was renamed goes on, and so
does one that was replaced by a longer copy of itself, as tools that copy logs from another machine do. Rotation may
also copy a file and then cut it: the copy goes on, and one of a file that was not cut is none of the job's logs. What
is compressed is not read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from runwatch.facts import Failure, FailureReason
from runwatch.found.rival_logs import is_one_of
from runwatch.sources.log_files import LogFile, LogFiles

FIRST_LOOK_BYTES = 7_900_000
"""What the first sight of one file reads at most, head included; with it a log of any size costs less than 8 MB."""

HEAD_BYTES = 1_000_000
NEWS_BYTES = 8_000_000
"""What one look reads at most; the rest waits for the next."""

_FINGERPRINT_BYTES = 64
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
_MAX_POSITIONS = 1000


class PageStart(StrEnum):
    """How a page stands to what was read of its file before.

    `BEGINS`: it is the file's beginning. `CONTINUES`: it follows without a break. `SKIPS`: something was left out
    before it, and it begins inside a line.
    """

    BEGINS = "begins"
    CONTINUES = "continues"
    SKIPS = "skips"


@dataclass(frozen=True, slots=True)
class LogPortion:
    """Some of a page's bytes; when (Unix seconds) and by which process they were written, where something tells."""

    data: bytes
    time: float | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Bytes of one file. `portions` are the same bytes line by line, where something tells more of each line."""

    file: LogFile
    data: bytes
    start: PageStart
    portions: tuple[LogPortion, ...] = ()


@dataclass(frozen=True, slots=True)
class LogNews:
    """What one look brought. `files` are all there are, `caught_up` is false while more bytes wait.

    `compressed` are the paths of those that this look met and did not read.
    """

    pages: tuple[LogPage, ...]
    files: tuple[LogFile, ...]
    caught_up: bool = True
    compressed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Position:
    """How far a file was read, and the bytes just before that place: a file written anew in place shows there.

    `path` and `identity` are where it was found last.
    """

    offset: int
    fingerprint: bytes
    modified: float
    path: str
    identity: tuple[int, int]


@dataclass(slots=True)
class _Look:
    """The course of one look."""

    deadline: float
    bytes_left: int
    pages: list[LogPage]
    caught_up: bool = True
    compressed: list[str] = field(default_factory=list)


class LogFollower:
    """Follows the log files of one job.

    Args:
        files: where the bytes come from.
    """

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        # By the identity that a file has for those who read the pages: that at which it began. It keeps it where a copy
        # replaces it, and the inode of a file that is gone may be given to another.
        self._positions: dict[tuple[int, int], _Position] = {}
        self._copies: set[tuple[int, int]] = set()
        self._compressed: dict[tuple[int, int], str] = {}
        self._replaced = 0

    def look(self, patterns: Sequence[str], deadline: float, rivals: Sequence[str] = ()) -> LogNews | Failure:
        """Read what is new.

        Args:
            patterns: paths and globs, in the order in which the links of the chain ran.
            deadline: monotonic seconds; no read is begun after it.
            rivals: paths and globs of other jobs' logs, which are left out.
        """
        found = self._find(patterns, deadline, rivals)
        if not isinstance(found, Failure) and self._is_one_shorter(found):
            found = self._find(patterns, deadline, rivals)  # fewer than before: once more before it counts
        if isinstance(found, Failure):
            return found
        look = _Look(deadline, NEWS_BYTES, [])
        recognised = self._recognise(found, look)
        if isinstance(recognised, Failure):
            return recognised
        for key, file in self._as_read(recognised):
            failure = self._read_news(key, file, look)
            if failure is not None and not look.pages:
                return failure
            if failure is not None or not look.caught_up:
                # What was read before the failure counts; the next look meets the failure first.
                look.caught_up = False
                break
        if all(key in self._compressed for key in recognised):
            path = next(reversed(self._compressed.values()))
            return Failure(FailureReason.PARSE, f"{path} is compressed: that is not read")
        return LogNews(tuple(look.pages), tuple(found), look.caught_up, tuple(look.compressed))

    def follows_any(self, rivals: Sequence[str]) -> bool:
        """Tell whether a file that was read is another job's by one of these paths and globs."""
        return any(is_one_of(position.path, rivals) for position in self._positions.values()) if rivals else False

    def _find(self, patterns: Sequence[str], deadline: float, rivals: Sequence[str]) -> list[LogFile] | Failure:
        found: dict[tuple[int, int], LogFile] = {}
        missing: Failure | None = None
        for pattern in patterns:
            matched = self._files.find(pattern, deadline)
            if not isinstance(matched, Failure):
                own = (file for file in matched if not is_one_of(file.path, rivals))
                found.update((file.identity, file) for file in own if file.identity not in found)
            elif matched.is_answer:
                missing = matched
            else:
                return matched
        if found:
            return list(found.values())
        return missing or Failure(FailureReason.NOT_FOUND, "no log path is known")

    def _recognise(self, found: Sequence[LogFile], look: _Look) -> dict[tuple[int, int], LogFile] | Failure:
        """Tell which files were read before, by their place and else by their inode; the others get a new key."""
        at_path = {position.path: key for key, position in self._positions.items()}
        known: dict[tuple[int, int], LogFile] = {}
        others: list[LogFile] = []
        for file in found:
            key = at_path.get(file.path)
            goes_on = key is not None and self._goes_on(file, self._positions[key], look)
            if isinstance(goes_on, Failure):
                return goes_on
            if key is not None and goes_on:
                known[key] = file
            elif file.identity not in self._copies:
                others.append(file)
        of_inode = {position.identity: key for key, position in self._positions.items() if key not in known}
        new: list[LogFile] = []
        for file in others:
            key = of_inode.pop(file.identity, None)
            if key is None:
                new.append(file)
            else:
                known[key] = file
        for file in tuple(new):
            original = self._original_of(file, known, look)
            if isinstance(original, Failure):
                return original
            if original is None:
                continue
            new.remove(file)
            cut = known[original]
            if cut.size < self._positions[original].offset:
                known[original] = file
                new.append(cut)
            else:
                self._copies.add(file.identity)
        for key, file in known.items():
            self._positions[key] = replace(self._positions[key], path=file.path, identity=file.identity)
        for file in new:
            known[self._new_key(file)] = file
        return known

    def _original_of(
        self, file: LogFile, known: Mapping[tuple[int, int], LogFile], look: _Look
    ) -> tuple[int, int] | Failure | None:
        """Tell of which file that was read a new one is a copy: it holds what was read last there, at that place.

        Its name is then that of the file with more behind it, as rotation names it. Links of a chain may be alike to
        the byte.
        """
        for key, original in known.items():
            position = self._positions[key]
            before = len(position.fingerprint)
            if not file.path.startswith(original.path) or file.size < position.offset or before == 0:
                continue
            data = self._read_whole(file, position.offset - before, before, look)
            if isinstance(data, Failure):
                return data
            if data == position.fingerprint:
                return key
        return None

    def _goes_on(self, file: LogFile, position: _Position, look: _Look) -> bool | Failure:
        """Tell whether what lies at a file's path is the file that was read there, or a longer copy of it."""
        if file.identity == position.identity:
            return True
        before = len(position.fingerprint)
        if file.size < position.offset or before == 0:
            return False
        data = self._read_whole(file, position.offset - before, before, look)
        return data if isinstance(data, Failure) else data == position.fingerprint

    def _new_key(self, file: LogFile) -> tuple[int, int]:
        if file.identity not in self._positions:
            return file.identity
        self._replaced += 1
        return (-1, self._replaced)

    def _as_read(self, found: Mapping[tuple[int, int], LogFile]) -> list[tuple[tuple[int, int], LogFile]]:
        """Put files that were read before first, in the order of their first reading: links that are new come last."""
        order = {key: place for place, key in enumerate(self._positions)}
        return sorted(found.items(), key=lambda item: order.get(item[0], len(order)))

    def _is_one_shorter(self, found: Sequence[LogFile]) -> bool:
        read = {position.identity: position.offset for position in self._positions.values()}
        return any(file.size < read.get(file.identity, 0) for file in found)

    def _read_news(self, key: tuple[int, int], file: LogFile, look: _Look) -> Failure | None:
        position = self._positions.get(key)
        if key in self._compressed:
            return None
        if position is None or file.size < position.offset:
            return self._read_first(key, file, look)
        if file.size == position.offset and file.modified == position.modified:
            return None
        wanted = min(file.size - position.offset, look.bytes_left)
        if wanted == 0 and file.size > position.offset:
            look.caught_up = False
            return None
        before = len(position.fingerprint)
        data = self._read_whole(file, position.offset - before, before + wanted, look)
        if isinstance(data, Failure):
            return data
        if data[:before] != position.fingerprint:
            return self._read_first(key, file, look)
        self._add(key, LogPage(file, data[before:], PageStart.CONTINUES), position.offset, look)
        look.caught_up = position.offset + wanted == file.size
        return None

    def _read_first(self, key: tuple[int, int], file: LogFile, look: _Look) -> Failure | None:
        wanted = min(file.size, FIRST_LOOK_BYTES)
        if wanted > look.bytes_left:
            look.caught_up = False
            return None
        head_length = wanted if wanted == file.size else HEAD_BYTES
        head = self._read_whole(file, 0, head_length, look)
        if isinstance(head, Failure):
            return head
        if head.startswith(_COMPRESSED):
            look.compressed.append(file.path)
            self._compressed[key] = file.path
            self._positions[key] = _Position(file.size, b"", file.modified, file.path, file.identity)
            return None
        tail_offset = file.size - (wanted - head_length)
        tail = self._read_whole(file, tail_offset, wanted - head_length, look) if head_length < wanted else b""
        if isinstance(tail, Failure):
            return tail
        self._add(key, LogPage(file, head, PageStart.BEGINS), 0, look)
        if tail:
            self._add(key, LogPage(file, tail, PageStart.SKIPS), tail_offset, look)
        return None

    def _read_whole(self, file: LogFile, offset: int, length: int, look: _Look) -> bytes | Failure:
        """Read a range that must be there. One that comes back shorter is asked for once more."""
        if length == 0:
            return b""
        came_back = 0
        for _ in range(2):
            if time.monotonic() >= look.deadline:
                return Failure(FailureReason.TIMEOUT, f"{file.path}: no time was left to read it")
            data = self._files.read(file, offset, length, look.deadline)
            if isinstance(data, Failure) or len(data) == length:
                return data
            came_back = len(data)
        return Failure(FailureReason.NETWORK, f"{file.path}: {came_back} of {length} bytes came back, twice")

    def _add(self, key: tuple[int, int], page: LogPage, offset: int, look: _Look) -> None:
        """Note that a page was read, which begins at this offset of its file."""
        file, data, start = page.file, page.data, page.start
        before = self._positions.get(key)
        fingerprint = data[-_FINGERPRINT_BYTES:]
        position = _Position(offset + len(data), fingerprint, file.modified, file.path, file.identity)
        if start is PageStart.CONTINUES and before is not None:
            position = replace(position, fingerprint=(before.fingerprint + data)[-_FINGERPRINT_BYTES:])
        elif start is PageStart.BEGINS:
            self._positions.pop(key, None)  # written anew, it is the newest link
        self._positions[key] = position
        while len(self._positions) > _MAX_POSITIONS:
            del self._positions[next(iter(self._positions))]
        look.bytes_left -= len(data)
        if data or start is PageStart.BEGINS:
            look.pages.append(replace(page, file=replace(file, identity=key)))
