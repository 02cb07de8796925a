"""Where the server listens: `host:port`, `:port` or `[v6]:port`."""

from __future__ import annotations

import errno
import re
import socket
from dataclasses import dataclass

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]*)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")
_NOT_ON_THIS_MACHINE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_BACKLOG = 256


class ServerStartError(RuntimeError):
    """The server cannot start; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Address:
    """A bound address."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a browser takes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_listen(listen: str) -> tuple[str, int]:
    """Split `host:port`; an empty host means every interface.

    Raises:
        ServerStartError: it is neither `host:port` nor `:port` nor `[v6]:port`, or the port is over 65535.
    """
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match["port"]) > 65535:
        raise ServerStartError(f"listen: {listen!r} is not host:port, :port or [v6 address]:port")
    return match["v6"] or match["host"] or "", int(match["port"])


def bind(listen: str) -> list[socket.socket]:
    """Bind a socket to every address that `listen` names. With port 0 all of them share one free port.

    Raises:
        ServerStartError: no address can be bound (a port in use, a name that does not resolve).
    """
    host, port = parse_listen(listen)
    if not host:
        return [_bind_one(listen, socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET, "", port)]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ServerStartError(f"listen: cannot resolve {host!r}: {error.strerror}") from error
    sockets: list[socket.socket] = []
    unavailable: ServerStartError | None = None
    for family, address in dict.fromkeys((entry[0], str(entry[4][0])) for entry in found):
        shared_port = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bind_one(listen, family, address, shared_port))
        except ServerStartError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _NOT_ON_THIS_MACHINE:
                for bound in sockets:
                    bound.close()
                raise
            unavailable = error
    if not sockets:
        raise unavailable or ServerStartError(f"listen: {host!r} has no address")
    return sockets


def _bind_one(listen: str, family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    dual_stack = family == socket.AF_INET6 and not host
    try:
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack, reuse_port=False
        )
    except OSError as error:
        known = {errno.EADDRINUSE: "address already in use", errno.EACCES: "permission denied"}
        reason = known.get(error.errno or 0, error.strerror or str(error))
        raise ServerStartError(f"listen: cannot bind {listen}: {reason}") from error
