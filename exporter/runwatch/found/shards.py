"""Which exporter of several watches a job, where one is not enough for all of them.

Each of them reads the whole config and finds every job, so that all give the jobs the same names, and then keeps its
part. The parts are told apart by a hash: no two exporters need to speak with each other.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_WRITTEN = re.compile(r"(?:.+-)?([0-9]{1,6})/([0-9]{1,6})", re.DOTALL)


class ShardError(ValueError):
    """A text that names no shard; the message is one line for who wrote it."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of the fleet: number `index`, from 0 on, of `count` parts."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `INDEX/COUNT`, such as `0/3`, or `NAME-INDEX/COUNT`, such as `runwatch-0/3`.

        The second form takes the name of a pod of a StatefulSet, which ends in the pod's ordinal.

        Raises:
            ShardError: the text has neither form, or the index is not below the count.
        """
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise ShardError(f"--shard: expected INDEX/COUNT such as 0/3, or a pod's name as in NAME-0/3, got {text!r}")
        index, count = int(written[1]), int(written[2])
        if index >= count:
            raise ShardError(f"--shard: expected an index from 0 to {max(0, count - 1)} of {count}, got {text!r}")
        return cls(index, count)

    def takes(self, run: str, grid: str = "") -> bool:
        """Tell whether a job is in this part; of all parts with one count exactly one says yes.

        The jobs of a grid stay together: its cells are counted, and its last one told, by one exporter.

        Args:
            run: The job's name, which is unique in the fleet.
            grid: Its label `grid`, empty where it has none.
        """
        key = f"grid {grid}" if grid else f"run {run}"
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index
