"""Starts the real server process for tests."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runwatch.exposition import Body
from runwatch.server.limits import Limits
from runwatch.server.listening import Address
from runwatch.server.process import ReloadResult, ServerProcess


def body(text: str) -> Body:
    return Body(text.encode(), gzip.compress(text.encode(), 1, mtime=0), 0)


def eventually(holds: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait until something holds; what is published reaches the server's process a moment later."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def written_so_far(log: Path) -> str:
    """Return what a live process has written; its last write may end within a letter."""
    return log.read_text(errors="replace")


def never_reloads() -> ReloadResult:
    raise AssertionError("a reload was asked for")


@contextmanager
def running(
    *,
    web_config: Path | None = None,
    enable_lifecycle: bool = False,
    on_reload: Callable[[], ReloadResult] = never_reloads,
    on_exit: Callable[[int], None] | None = None,
    limits: Limits | None = None,
) -> Iterator[tuple[ServerProcess, Address]]:
    server = ServerProcess(on_reload, on_exit, limits)
    [address] = server.start("127.0.0.1:0", web_config, enable_lifecycle)
    try:
        yield server, address
    finally:
        server.stop()
