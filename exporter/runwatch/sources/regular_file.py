"""Opening the files that people name in the config: a plain file is read, and everything else is a typed failure."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from runwatch.facts import Failure, FailureReason


class NotRegularFileError(OSError):
    """The path leads to a directory, a pipe, a socket or a device."""


class OutsideRootsError(OSError):
    """The path leads out of the folders that may be read."""


def open_regular_file(path: Path) -> BinaryIO:
    """Open a file for reading without ever waiting for another process, as opening a pipe would.

    Raises:
        NotRegularFileError: There is something else than a plain file.
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotRegularFileError(f"{path} is not a regular file")


def file_failure(error: OSError, path: Path) -> Failure:
    """Say in the exporter's terms why a file or directory could not be read."""
    if isinstance(error, OutsideRootsError):
        return Failure(FailureReason.OTHER, str(error))
    if isinstance(error, NotADirectoryError) and path.is_file():
        return Failure(FailureReason.PARSE, f"{path} is a file, not a directory")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Failure(FailureReason.NOT_FOUND, f"{path} does not exist")
    if isinstance(error, PermissionError):
        return Failure(FailureReason.AUTH, f"{path}: permission denied")
    if isinstance(error, NotRegularFileError | IsADirectoryError):
        return Failure(FailureReason.PARSE, f"{path} is not a regular file")
    return Failure(FailureReason.OTHER, f"{path}: {error.strerror or type(error).__name__}")
