"""What logs say beside the steps."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from runwatch.parsing.harbor_console import ConsoleProgress
from runwatch.parsing.log_records import LogFailure


@dataclass(frozen=True, slots=True)
class IgnoredLines:
    """Benign lines of one kind: why they are no fault, how many there were, and the newest.

    `fault` is the line beside one of them that makes it a fault all the same; "" where there was none.
    """

    reason: str
    count: int
    example: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a job's logs say beside its steps. None and empty are "not seen", never zero; times are Unix seconds.

    `last_write` is when the newest file was last written. `running_requests` and `last_success` (an answer 200) are
    the engine's. `auth_failures` are the times at which the sandbox provider refused, the newest 1000.
    `api_base_public` is false where the newest api_base points at an internal address, `tunnel_up` what the newest
    line about the tunnel tells. `upload_complete` is false where an upload failed, and true where the logs of several
    chunks are known once all of them are uploaded; `uploaded_chunks` are the chunks that are. `chunk_completed` is how
    a datagen chunk's generation ended, `chunk_last_writes` when the log of each chunk was last written, `failed_chunks`
    those whose newest log ends in a failure of theirs. `failures` are those that nothing after them disproves, the
    first one first. `completed` is whether the trainer said that it is done. `unparsed` counts lines that look like
    metrics and could not be read. `console` is the newest progress that a
    Harbor console drew. `caught_up` is false while more was written than was read (a long first read): nothing is to be
    measured until it is true. `age` tells how many seconds ago the look began, where it was too slow to be delivered at
    once.
    """

    files: tuple[str, ...]
    last_write: float | None = None
    running_requests: int | None = None
    running_requests_time: float | None = None
    last_success: float | None = None
    auth_failures: tuple[float, ...] = ()
    auth_failures_without_time: int = 0
    api_base_public: bool | None = None
    api_base_host: str = ""
    tunnel_up: bool | None = None
    upload_complete: bool | None = None
    upload_time: float | None = None
    chunk: int | None = None
    chunks: int | None = None
    chunk_completed: bool | None = None
    chunk_last_writes: Mapping[int, float] = field(default_factory=dict)
    failed_chunks: Set[int] = frozenset()
    failures: tuple[LogFailure, ...] = ()
    completed: bool = False
    ignored: tuple[IgnoredLines, ...] = ()
    unparsed: int = 0
    notes: tuple[str, ...] = ()
    console: ConsoleProgress | None = None
    uploaded_chunks: Set[int] = frozenset()
    caught_up: bool = True
    age: float = 0.0
