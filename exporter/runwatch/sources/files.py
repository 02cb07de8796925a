"""Folders on a file system, local or mounted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from runwatch.facts import Failure, FailureReason
from runwatch.sources.file_roots import FileRoots
from runwatch.sources.folder_listing import MAXIMUM_NAMES_IN_LEVEL, Level, LookFailedError, ObjectStat
from runwatch.sources.regular_file import file_failure

_REMOTE_ERRORS = frozenset(
    {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}
)
"""What a mounted file system answers when its server cannot be reached."""

_VANISHED = frozenset({errno.ENOENT, errno.ELOOP})
"""Deleted since its folder was opened, or a symbolic link to nothing: not there."""


class FileStore:
    """Reads folders below one root. A file system that hangs blocks the calling thread: give it a deadline.

    Symbolic links that lead out of the root are not followed, so that the root is all that can be read.
    """

    def __init__(self, root: str, count: Callable[[], None]) -> None:
        """Args: the root's path, and what to call for each folder listed and each file opened."""
        self._root = Path(root)
        self._confined = FileRoots((self._root,), name=root)
        self._count = count

    def list_level(self, folder: str) -> Level:
        """List one folder.

        Raises:
            LookFailedError: the folder is missing (`not_found`), forbidden (`auth`) or could not be read.
        """
        self._count()
        path = self._root / folder
        try:
            with os.scandir(self._confined.require(path)) as entries:
                return _read_entries(entries, self._root.resolve(), path)
        except OSError as error:
            raise LookFailedError(_failure(error, path)) from error

    def read_small(self, path: str) -> bytes:
        """Return a file's content.

        Raises:
            LookFailedError: the file is missing (`not_found`), forbidden (`auth`) or could not be read.
        """
        self._count()
        target = self._root / path
        try:
            with self._confined.open(target) as file:
                return file.read()
        except OSError as error:
            raise LookFailedError(_failure(error, target)) from error

    def read_tail(self, path: str, length: int) -> bytes:
        """Return a file's last bytes.

        Raises:
            LookFailedError: the file is missing (`not_found`), forbidden (`auth`) or could not be read.
        """
        self._count()
        target = self._root / path
        try:
            with self._confined.open(target) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - length, 0))
                return file.read(length)
        except OSError as error:
            raise LookFailedError(_failure(error, target)) from error


def _read_entries(entries: Iterator[os.DirEntry[str]], resolved_root: Path, path: Path) -> Level:
    folders: list[str] = []
    objects: dict[str, ObjectStat] = {}
    refused: list[str] = []
    for number, entry in enumerate(entries):
        if number >= MAXIMUM_NAMES_IN_LEVEL:
            text = f"{path} holds more than {MAXIMUM_NAMES_IN_LEVEL} names: name the folder of the checkpoints itself"
            raise LookFailedError(Failure(FailureReason.OTHER, text))
        if entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(resolved_root):
            refused.append(entry.name)
            continue
        try:
            if entry.is_dir():
                folders.append(entry.name)
                continue
            status = entry.stat()
        except OSError as error:
            if error.errno in _VANISHED:
                continue
            raise
        objects[entry.name] = ObjectStat(status.st_size, status.st_mtime)
    return Level(tuple(folders), objects, tuple(refused))


def _failure(error: OSError, path: Path) -> Failure:
    if isinstance(error, TimeoutError):
        return Failure(FailureReason.TIMEOUT, f"{path}: the file system did not answer in time")
    if error.errno in _REMOTE_ERRORS:
        return Failure(FailureReason.NETWORK, f"{path}: {error.strerror}")
    return file_failure(error, path)
