"""The folders that may be read, looked at where a path really leads: what a job may link to must not be readable."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from runwatch.sources.regular_file import OutsideRootsError, open_regular_file


class FileRoots:
    """Folders below which file sources may read. Safe to use from several threads.

    Links are followed first, so a link below a root that leads out of all roots is refused, and a root that is a link
    itself is where it leads.

    Args:
        roots: the folders, absolute; None for any folder.
        name: what an error calls them.
    """

    def __init__(self, roots: Iterable[Path] | None, *, name: str = "file_roots") -> None:
        self._name = name
        self._roots: tuple[Path, ...] | None = None
        self._resolved: frozenset[Path] = frozenset()
        self.allow(roots)

    def allow(self, roots: Iterable[Path] | None) -> None:
        """Replace the folders, as when the config was read anew."""
        kept = None if roots is None else tuple(roots)
        if kept == self._roots and kept is not None:
            return
        self._roots = kept
        self._resolve()

    def require(self, path: Path) -> Path:
        """Return where a path leads, with all links followed.

        Raises:
            OutsideRootsError: it leads out of the folders.
        """
        real = Path(os.path.realpath(path))
        if self._roots is None or self._holds(real):
            return real
        self._resolve()  # a root may have been made, or moved behind a link, since
        if self._holds(real):
            return real
        raise OutsideRootsError(f"{path} leads outside {self._name}")

    def open(self, path: Path) -> BinaryIO:
        """Open a plain file for reading.

        Raises:
            OutsideRootsError: it leads out of the folders.
            OSError: it cannot be opened.
        """
        return open_regular_file(self.require(path))

    def _holds(self, real: Path) -> bool:
        resolved = self._resolved
        return real in resolved or any(parent in resolved for parent in real.parents)

    def _resolve(self) -> None:
        self._resolved = frozenset(Path(os.path.realpath(root)) for root in self._roots or ())


ANYWHERE = FileRoots(None)
"""No folder is refused."""
