"""What one client may take of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on connections. Times are seconds.

    `header_seconds`: from a request's first byte (or the connection's start) to the end of its headers; also the TLS
    handshake's. `header_bytes`: of one request's headers. `write_seconds`: within which a client must take an answer.
    `keep_alive_seconds`: how long an idle connection stays; longer than a common scrape interval, so that scrapers
    keep theirs. `connections`: open at once.
    """

    header_seconds: float = 10.0
    header_bytes: int = 32 * 1024
    write_seconds: float = 60.0
    keep_alive_seconds: int = 120
    connections: int = 512
