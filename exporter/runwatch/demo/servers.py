"""Starts a program that serves on a port of the loopback address, on one that is free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from runwatch.demo.children import LOOPBACK, Child, Children, answers, free_port

_STARTS = 3  # the free port that was chosen may be taken before the program binds it
_START_SECONDS = 30.0
_READY = "/-/ready"  # as Prometheus and Alertmanager both answer


class Wait(Protocol):
    """Waits until `holds` returns true, for at most so many seconds; returns whether it did."""

    def __call__(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait."""


@dataclass(frozen=True, slots=True)
class Server:
    """A program that answers."""

    name: str
    child: Child
    port: int

    @property
    def url(self) -> str:
        """Its address, without a slash at its end."""
        return f"http://{LOOPBACK}:{self.port}"


def _is_ready_or_over(child: Child, port: int) -> bool:
    return child.exit_code is not None or answers(port, _READY) is not None


def start_server(
    children: Children, name: str, folder: Path, arguments: Callable[[int, Path], Sequence[str]], wait: Wait
) -> Server | str:
    """Start a program on a free port and wait until it is ready.

    Args:
        children: Where it is started.
        name: What to call it to a person.
        folder: For its data and log; it is there.
        arguments: The program and its arguments, made from a port and a folder for data that is not there yet.
        wait: Lets time pass.

    Returns:
        The server, or why there is none.
    """
    said = ""
    for attempt in range(_STARTS):
        port = free_port()
        child = children.start(arguments(port, folder / f"data-{attempt}"), folder / f"log-{attempt}.txt")
        wait(partial(_is_ready_or_over, child, port), _START_SECONDS)
        if child.exit_code is None:
            return Server(name, child, port)
        said = child.log_tail()
    return f"{name} did not start:\n{said}"
