"""What a look at folders needs from an object store or a file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runwatch.facts import Failure

READ_LIMIT_BYTES = 64 * 1024 * 1024
"""Nothing larger is read: a trainer's state with its whole log history has some megabytes."""

MAXIMUM_NAMES_IN_LEVEL = 100_000
"""A level with more names is no folder of checkpoints; the look fails instead of reading on without end."""


class LookFailedError(Exception):
    """Carries a `Failure` from a store up to the reader, which returns it as a value."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """One object or file: bytes, and when it was last written, in Unix seconds by the store's own clock."""

    size: int
    updated: float


@dataclass(frozen=True, slots=True)
class Level:
    """One delimited listing: the folders and the objects directly in a folder, by their last name part.

    `links_refused` names symbolic links that lead out of the root and were not followed.
    """

    folders: tuple[str, ...]
    objects: Mapping[str, ObjectStat]
    links_refused: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all lies in the folder."""
        return not (self.folders or self.objects or self.links_refused)


class ObjectStore(Protocol):
    """Reads below one root. Paths are relative to it, with `/` between their parts; "" is the root itself."""

    def list_level(self, folder: str) -> Level:
        """List one folder, never what lies deeper.

        Raises:
            LookFailedError: with reason `not_found` when there is no such folder, else with what went wrong.
        """

    def read_small(self, path: str) -> bytes:
        """Return the whole content of one object.

        Raises:
            LookFailedError: with reason `not_found` when it is gone, else with what went wrong.
        """

    def read_tail(self, path: str, length: int) -> bytes:
        """Return the last `length` bytes of one object, the whole of one that is no longer.

        Raises:
            LookFailedError: with reason `not_found` when it is gone, else with what went wrong.
        """


class BucketOpener(Protocol):
    """Opens stores in buckets, over connections that it keeps."""

    def open(self, bucket: str, prefix: str, count: Callable[[], None]) -> ObjectStore:
        """Return a store of one prefix of a bucket; `count` is called for each request that it makes.

        Raises:
            LookFailedError: no connection can be made.
        """

    def close(self) -> None:
        """Release the connections."""
