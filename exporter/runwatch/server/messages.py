"""What the pollers' process and the server's process say to each other over one socket pair."""

from __future__ import annotations

import select
import socket
import struct
import threading
from dataclasses import dataclass
from enum import IntEnum

_HEADER = struct.Struct("!BB")  # kind, number of parts
_LENGTH = struct.Struct("!Q")  # bytes of one part


class MessageKind(IntEnum):
    """What a message is about; its parts are in brackets."""

    METRICS = 1  # to the server: a whole exposition (plain, gzip)
    PAGE = 2  # to the server: the page at / (html)
    READY = 3  # to the server: whether /-/ready answers 200 (b"1" or b"0")
    RELOADED = 4  # to the server: how a reload went (id, b"1" or b"0", reason)
    STARTED = 10  # from the server: it accepts connections (b"http" or b"https")
    FAILED = 11  # from the server: it cannot start (reason)
    RELOAD = 12  # from the server: a client asks for a reload (id)


@dataclass(frozen=True, slots=True)
class Message:
    """One message, received whole."""

    kind: MessageKind
    parts: tuple[bytes, ...]


class Channel:
    """One end of the socket pair. `send` is safe from any thread; `receive` belongs to one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, kind: MessageKind, *parts: bytes) -> None:
        """Send one message whole.

        Raises:
            OSError: the other end is gone, or took nothing within the socket's send timeout.
        """
        head = _HEADER.pack(kind, len(parts)) + b"".join(_LENGTH.pack(len(part)) for part in parts)
        with self._sending:
            self._connection.sendall(head)
            for part in parts:
                self._connection.sendall(part)

    def wait(self, seconds: float) -> bool:
        """Wait until `receive` has something to read, or the other end is gone; False when the time ran out."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def receive(self) -> Message | None:
        """Wait for the next message; None once the other end is gone, also in the middle of a message."""
        head = self._read(_HEADER.size)
        if head is None:
            return None
        kind, count = _HEADER.unpack(head)
        lengths = self._read(_LENGTH.size * count)
        if lengths is None:
            return None
        parts: list[bytes] = []
        for (length,) in _LENGTH.iter_unpack(lengths):
            part = self._read(length)
            if part is None:
                return None
            parts.append(part)
        return Message(MessageKind(kind), tuple(parts))

    def close(self) -> None:
        """Close this end: the other end reads it as our end."""
        self._connection.close()

    def hang_up(self) -> None:
        """End both directions, so that a thread that waits in `receive` returns; the socket stays to be closed."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # The other end hung up first.

    def _read(self, size: int) -> bytes | None:
        buffer = bytearray(size)
        view = memoryview(buffer)
        done = 0
        while done < size:
            try:
                count = self._connection.recv_into(view[done:])
            except ConnectionError:
                return None
            if count == 0:
                return None
            done += count
        return bytes(buffer)
