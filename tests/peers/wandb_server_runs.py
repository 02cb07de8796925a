"""The runs that the stand-in for W&B's API holds, and how it samples their rows."""

from __future__ import annotations

import bisect
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise


def iso(seconds: float | None) -> str | None:
    """A time as the service writes it: ISO 8601, UTC, whole seconds, `Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class PeerRun:
    """One run. `steps` and `lines` are parallel and in the order of the steps.

    `line_count` overrides the number of lines that the service claims. `exported_below` is the step below which the
    rows are no longer served by the raw query.
    """

    entity: str
    project: str
    name: str
    state: str | None = "running"
    created_at: float = 1_760_000_000.0
    heartbeat_at: float | None = 1_760_000_000.0
    config: str | None = "{}"
    display_name: str = ""
    username: str = "u1"
    line_count: int | None = None
    exported_below: int = 0
    parquet: bytes | None = None
    steps: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def log(self, row: Mapping[str, object]) -> None:
        """Append one row; it must hold `_step`."""
        self.log_text(int(str(row["_step"])), json.dumps(row))

    def log_text(self, step: int, text: str) -> None:
        """Append one row as text, which need not be JSON."""
        self.steps.append(step)
        self.lines.append(text)

    def between(self, low: int, high: int) -> tuple[int, int]:
        """The indexes of the rows with low <= step < high that the raw query serves."""
        low = max(low, self.exported_below)
        return bisect.bisect_left(self.steps, low), max(
            bisect.bisect_left(self.steps, low), bisect.bisect_left(self.steps, high)
        )

    @property
    def path(self) -> str:
        return f"{self.entity}/{self.project}/{self.name}"

    @property
    def claimed_lines(self) -> int:
        return len(self.lines) if self.line_count is None else self.line_count


def sampled(items: Sequence[str], samples: int, chance: random.Random, *, uniform: bool = False) -> list[str]:
    """Not more than `samples` of the items, in order; when there are more, a random choice of them.

    Args:
        items: What is sampled.
        samples: The most that is given.
        chance: Where the randomness comes from.
        uniform: Choose freely; else one from each of `samples` buckets of equal size.
    """
    if len(items) <= samples:
        return list(items)
    if uniform:
        return [items[index] for index in sorted(chance.sample(range(len(items)), samples))]
    edges = [bucket * len(items) // samples for bucket in range(samples + 1)]
    return [items[chance.randrange(low, high)] for low, high in pairwise(edges)]


def matches(run: PeerRun, filters: Mapping[str, object]) -> bool:
    """Whether a run passes filters in Mongo's style, as far as the client's users write them."""
    known: dict[str, object] = {
        "name": run.name,
        "state": run.state,
        "displayName": run.display_name,
        "username": run.username,
        "createdAt": iso(run.created_at),
        "heartbeatAt": iso(run.heartbeat_at),
    }
    for key, wanted in filters.items():
        if key in ("$and", "$or"):
            parts = (
                [matches(run, part) for part in wanted if isinstance(part, Mapping)] if isinstance(wanted, list) else []
            )
            if not (all(parts) if key == "$and" else any(parts)):
                return False
            continue
        if key not in known:
            raise ValueError(f"no such filter: {key}")
        if isinstance(wanted, Mapping):
            for operator, operand in wanted.items():
                if operator == "$in" and isinstance(operand, list):
                    if known[key] not in operand:
                        return False
                elif operator == "$gte":
                    if str(known[key]) < str(operand):
                        return False
                else:
                    raise ValueError(f"no such operator: {operator}")
        elif known[key] != wanted:
            return False
    return True
