"""Changes of the rules that change nothing, each with its reason. No scenario can tell them: they are not counted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.scenarios.mutation.mutants import Mutant


@dataclass(frozen=True, slots=True)
class Equivalent:
    """Mutants that say the same as the rules: patterns of the unit, the change and its place, and the reason."""

    unit: str
    change: str
    place: str
    reason: str

    def is_one(self, mutant: Mutant) -> bool:
        """Tell whether a mutant is of this kind."""
        return bool(
            re.fullmatch(self.unit, mutant.unit)
            and re.search(self.change, mutant.change)
            and re.search(self.place, mutant.place)
        )


EQUIVALENTS = (
    Equivalent(
        "MLJobTaskFailures",
        r"line 3: unless … dropped$",
        r'mljob_interruptions\{cause="failure"\} unless ignoring',
        "the count is only told in the text: no condition is on it",
    ),
    Equivalent(
        "mljob:throughput_ratio",
        "> → >=$",
        r"\) > 0$",
        "a ratio to 0 is infinite or no number, and so never below the limit",
    ),
)


def reason_of(mutant: Mutant) -> str:
    """Return why a mutant says the same as the rules, nothing where it does not."""
    return next((e.reason for e in EQUIVALENTS if e.is_one(mutant)), "")
