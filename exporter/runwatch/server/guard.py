"""Bounds what one connection may take: uvicorn has no deadline for headers or for clients that do not read."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol, cast

from runwatch.server.limits import Limits

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Cycle(Protocol):
    response_complete: bool


class _HttpProtocol(Protocol):
    """What both of uvicorn's HTTP protocols have. A `cycle` is made once a request's headers are complete."""

    transport: asyncio.Transport
    cycle: _Cycle | None
    connections: set[Any]

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...


def _http_protocol() -> type[Any]:
    """Return uvicorn's protocol on httptools, or the one on h11 where that package is missing."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415

        return H11Protocol
    return HttpToolsProtocol


def guarded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Make the HTTP protocol class with these limits; `sweep` has to be called on its connections now and then."""
    base: Any = _http_protocol()

    class GuardedProtocol(base):  # type: ignore[misc]
        """An HTTP connection with deadlines."""

        _refused = False
        _headers_since: float | None = None
        _header_bytes = 0
        _writing_since: float | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            if len(self.connections) >= limits.connections:
                self._refused = True
                transport.abort()
                return
            self._headers_since = time.monotonic()
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if not self._refused:
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            cycle = cast("_HttpProtocol", self).cycle
            if self._headers_since is None and (cycle is None or cycle.response_complete):
                self._headers_since = time.monotonic()
                self._header_bytes = 0
            self._header_bytes += len(data)
            super().data_received(data)
            if self.cycle is not cycle:
                self._headers_since = None
                return
            if self._headers_since is None or self.transport.is_closing():
                return
            if self._header_bytes > limits.header_bytes:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

        def sweep(self, now: float) -> None:
            """Cut the connection when a deadline has passed. `now` is `time.monotonic()`."""
            if self._headers_since is not None and now - self._headers_since > limits.header_seconds:
                self.transport.abort()
                return
            if self.transport.get_write_buffer_size() == 0:
                self._writing_since = None
                return
            self._writing_since = self._writing_since or now
            if now - self._writing_since > limits.write_seconds:
                self.transport.abort()

    return cast("type[asyncio.Protocol]", GuardedProtocol)


def sweep(connections: set[Any], now: float) -> None:
    """Cut every connection whose deadline has passed."""
    for connection in list(connections):
        connection.sweep(now)
