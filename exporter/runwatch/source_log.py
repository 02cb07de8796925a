"""What the log of `serve` says of sources: once when one goes down or fails by another reason, once when it is back."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from runwatch.facts import Failure, FailureReason, SourceKind

_log = logging.getLogger(__name__)

Place = tuple[SourceKind, str]
"""A kind of source and the site that it is read at."""


class SourceLog:
    """Says what changed since it was told last. A line for each failed poll would hide the one that matters."""

    def __init__(self) -> None:
        self._said: dict[Place, FailureReason] = {}

    def note(self, health: Mapping[Place, Failure | bool]) -> None:
        """Take how each source is: True, or why it is down; False where only discovery knows, which says so itself."""
        for place in [place for place in self._said if place not in health]:
            del self._said[place]
        for place, outcome in sorted(health.items(), key=lambda item: item[0]):
            kind, site = place
            if isinstance(outcome, Failure):
                if self._said.get(place) is not outcome.reason:
                    self._said[place] = outcome.reason
                    _log.warning("%s at %s cannot be read: %s: %s", kind, site, outcome.reason, outcome.detail)
            elif outcome and self._said.pop(place, None) is not None:
                _log.info("%s at %s can be read again", kind, site)
