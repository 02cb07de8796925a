"""Blocks that must not take more with them than themselves when the program has a fault of its own."""

from __future__ import annotations

import logging
from types import TracebackType

_log = logging.getLogger(__name__)


class Contained:
    """Ends an exception at the edge of a block, logs it with its traceback and keeps it in `error`.

    What the outside world does is a value (`Failure`); this is for what nobody thought of. A poller's thread that died
    of it would look at nothing any more, and one job that cannot be derived would keep back the news of all others.

    Args:
        doing: What the block does, for the log.
        is_known: The same block failed just before: it is told more quietly.
    """

    def __init__(self, doing: str, *, is_known: bool = False) -> None:
        self.error: Exception | None = None
        self._doing = doing
        self._level = logging.DEBUG if is_known else logging.ERROR

    def __enter__(self) -> Contained:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        _log.log(self._level, "%s failed by a fault of this program", self._doing, exc_info=error)
        return True
