"""Log files of this machine: finding them by path or glob, and reading ranges of their bytes.

Only below the given roots, wherever links lead: what a job may write a link to, the exporter must not read.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runwatch.facts import Failure, FailureReason
from runwatch.sources.file_roots import FileRoots
from runwatch.sources.regular_file import file_failure, open_regular_file

_NO_LOG_THERE = frozenset({FailureReason.NOT_FOUND, FailureReason.PARSE})
"""A file that is gone since its folder was listed, or a folder or pipe of a fitting name."""

MAX_FILES = 200
"""Files of one job at most: the newest ones."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as it was found. `identity` is device and inode, `size` bytes, `modified` Unix seconds.

    `modified_is_known` is false where `modified` is only the time of the look: it was written then or any time before.
    """

    path: str
    identity: tuple[int, int]
    size: int
    modified: float
    modified_is_known: bool = True


class LogFiles(Protocol):
    """Where the bytes of log files come from. A look that fails is a `Failure`; nothing is raised."""

    def find(self, pattern: str, deadline: float) -> Sequence[LogFile] | Failure:
        """Return the files that a path or glob means, in the order in which they were written last.

        `deadline` is in monotonic seconds. No file at all is the failure `not_found`.
        """

    def read(self, file: LogFile, offset: int, length: int, deadline: float) -> bytes | Failure:
        """Return bytes of a file from an offset on; fewer than asked where it is shorter now."""


class LocalLogFiles:
    """Files of this machine, or of what is mounted on it. A file system that hangs blocks: give it a deadline.

    Args:
        roots: the folders that may be read; None for the folder of what is looked for and those below it.
    """

    def __init__(self, roots: FileRoots | None) -> None:
        self._roots = roots

    def find(self, pattern: str, deadline: float) -> Sequence[LogFile] | Failure:
        """See `LogFiles.find`. Reading folders of this machine, `deadline` is not looked at."""
        del deadline
        # Brackets in a path that is there are part of its name.
        is_path = not has_wildcards(pattern) or os.path.lexists(pattern)
        names = [pattern] if is_path else glob.glob(pattern)  # noqa: PTH207
        roots = self._roots or FileRoots((_fixed_folder(pattern),), name="its folder")
        found: list[LogFile] = []
        failure: Failure | None = None
        for name in names:
            looked = _look(Path(name), roots)
            if isinstance(looked, Failure) and looked.reason not in _NO_LOG_THERE:
                return looked  # it may be the newest link: without it the log would seem to be silent
            if isinstance(looked, Failure):
                failure = looked
            else:
                found.append(looked)
        if found:
            return in_order(found)
        return failure or _no_match(pattern)

    def read(self, file: LogFile, offset: int, length: int, deadline: float) -> bytes | Failure:
        """See `LogFiles.read`."""
        del deadline
        path = Path(file.path)
        try:
            with open_regular_file(path) as opened:  # `find` followed the links: its identity is what was allowed
                status = os.fstat(opened.fileno())
                if (status.st_dev, status.st_ino) != file.identity:
                    return Failure(FailureReason.OTHER, f"{path} was replaced while it was looked at")
                opened.seek(offset)
                return opened.read(length)
        except OSError as error:
            return file_failure(error, path)


def _look(path: Path, roots: FileRoots) -> LogFile | Failure:
    try:
        real = roots.require(path)
        with open_regular_file(real) as opened:
            status = os.fstat(opened.fileno())
    except OSError as error:
        return file_failure(error, path)
    return LogFile(str(real), (status.st_dev, status.st_ino), status.st_size, status.st_mtime)


def _no_match(pattern: str) -> Failure:
    """Tell a glob that matches nothing from a folder that cannot be looked into."""
    folder = _fixed_folder(pattern)
    try:
        with os.scandir(folder):
            return Failure(FailureReason.NOT_FOUND, f"no file matches {pattern}")
    except OSError as error:
        return file_failure(error, folder)


def _fixed_folder(pattern: str) -> Path:
    """Return the folder that a path lies in, or the one before a glob's first wildcard."""
    parts = Path(pattern).parts
    fixed = next((place for place, part in enumerate(parts) if has_wildcards(part)), len(parts) - 1)
    return Path(*parts[:fixed])


def has_wildcards(pattern: str) -> bool:
    """Tell whether a path is a glob."""
    return any(character in pattern for character in "*?[")


def in_order(found: Sequence[LogFile]) -> list[LogFile]:
    """Sort the links of a chain as they ran: by when they were written last, then by the numbers in their names.

    One file under two names is one. Of more than `MAX_FILES` the newest are kept.
    """
    once = {file.identity: file for file in found}
    ordered = sorted(once.values(), key=lambda file: (file.modified, _numbers_in_order(file.path)))
    return ordered[-MAX_FILES:]


def _numbers_in_order(path: str) -> tuple[tuple[int, str], ...]:
    """Return a key by which `job_9.out` comes before `job_10.out`."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for character in path:
        if character in "0123456789":
            digits += character
            continue
        if digits:
            parts.append((int(digits[:4000]), ""))
            digits = ""
        parts.append((-1, character))
    if digits:
        parts.append((int(digits[:4000]), ""))
    return tuple(parts)
