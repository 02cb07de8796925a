"""Ports for programs that are told theirs: nobody is given one of these by chance."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 20_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CHOICE = random.SystemRandom()  # the common generator is seeded alike in all workers by some tests


def free_port() -> int:
    """Return a free port of 127.0.0.1, where there is room one below those that the system gives to connections.

    One of theirs that is free now is somebody's a moment later: tests make thousands of connections.
    """
    given = _lowest_given()
    for _ in range(100 if given > _LOWEST else 0):
        port = _CHOICE.randrange(_LOWEST, given)
        with socket.socket() as probe:
            if _is_bound(probe, port):
                return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _lowest_given() -> int:
    try:
        return int(_RANGE.read_text().split()[0])
    except FileNotFoundError:  # not Linux
        return 0


def _is_bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
