"""Calls of one slow action from many threads, merged: none waits for those before it to be done one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MergedCalls:
    """Runs an action one at a time. A call while another waits to run returns at once, for that one does its work too.

    The action must take all that it works on when it runs, not before.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._running = threading.Lock()
        self._waiting = threading.Lock()

    def call(self) -> None:
        """Run the action, or leave it to a call that has not begun to."""
        if not self._waiting.acquire(blocking=False):
            return
        try:
            self._running.acquire()
        finally:
            self._waiting.release()
        try:
            self._action()
        finally:
            self._running.release()
