"""LLaMA-Factory's `trainer_log.jsonl`: used to confirm that training was completed, and for nothing else.

While a run goes on the file may be empty, sparse or frozen (a thread writes it), its remaining time is wrong after a
resumption, and it has no grad norm. Its two writers: `train/callbacks.py` (`current_steps`, `total_steps`) and the v1
trainer (`step`, `total_steps`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runwatch.parsing.history_rows import MalformedRow, parse_json_line, whole_number

_STEP_KEYS = ("current_steps", "step")
_TOTAL_KEY = "total_steps"


@dataclass(frozen=True, slots=True)
class TrainerLogEnd:
    """Where the file ends: its last step and total (None: no readable line), and how many lines were not readable."""

    step: int | None = None
    total: int | None = None
    malformed: int = 0

    @property
    def completed(self) -> bool:
        """The last line says that every step is done."""
        return self.step is not None and self.total is not None and 0 < self.total <= self.step


def read_end(lines: Iterable[bytes]) -> TrainerLogEnd:
    """Read the lines of a `trainer_log.jsonl`; the last readable one counts, since steps go back on a resumption."""
    step: int | None = None
    total: int | None = None
    malformed = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            record = parse_json_line(line)
        except MalformedRow:
            malformed += 1
            continue
        found = next((n for key in _STEP_KEYS if (n := whole_number(record.get(key))) is not None), None)
        goal = whole_number(record.get(_TOTAL_KEY))
        if found is None or goal is None:
            malformed += 1
            continue
        step, total = found, goal
    return TrainerLogEnd(step, total, malformed)
