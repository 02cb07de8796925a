"""What a healthy job of the quiet fleet is, and how its story is written in the words of a scenario file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.scenarios.format import JobStory

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0

Span = tuple[float, float]
"""From and until, seconds after the fleet's time 0."""


@dataclass(frozen=True, slots=True)
class Healthy:
    """One job. `kind` is what it is like; `spans` names the times at which something that is told happens to it.

    `since` and `until` are when the exporter's config has it, seconds after the fleet's time 0.
    """

    run: str
    kind: str
    since: float
    until: float
    story: JobStory
    spans: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)


def at(seconds: float) -> str:
    """Write a time as the format of scenarios wants it, to the second."""
    whole = round(seconds)
    return f"{whole}s" if whole else "0"


def story_of(document: Mapping[str, object], since: float, until: float) -> JobStory:
    """Read a job as a scenario file would hold it, watched from `since` until `until`."""
    return JobStory.model_validate({**document, "watched_from": at(since), "watched_until": at(until)})
