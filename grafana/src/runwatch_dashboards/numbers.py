"""How numbers are written in cells, where Grafana's own formats would say something untrue, and limits of colours."""

from __future__ import annotations

import math
from collections.abc import Mapping

from grafana_foundation_sdk.models import dashboard as models

from runwatch import thresholds
from runwatch_dashboards.palette import PLAIN, WARNING

_SMALLEST_EXPONENT = -7

SIGNED = frozenset(
    {"mljob_rl_reward", "mljob_rl_policy_loss", "mljob_rl_policy_entropy", "mljob_loss", "mljob_trial_reward"}
)
"""The metrics of table columns whose values may be below zero."""


def above(limit: float) -> float:
    """Return the least number above a limit: Grafana's step counts from its value on, most rules are about more."""
    return math.nextafter(limit, math.inf)


LIMITS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "mljob_rl_grad_norm": ((above(thresholds.RL_GRAD_NORM_LIMIT), WARNING),),
}
"""From which value upward a metric's cell is coloured."""

LOWER_LIMITS: Mapping[str, tuple[float, str]] = {
    "mljob_trial_turns": (above(thresholds.DEAD_ENGINE_TURNS), WARNING),
}
"""Below which value a metric's cell is coloured."""


def limits(metric: str) -> tuple[tuple[tuple[float, str], ...], str]:
    """Return the steps of a metric's cells and the colour below all of them."""
    if metric in LOWER_LIMITS:
        limit, colour = LOWER_LIMITS[metric]
        return ((limit, PLAIN),), colour
    return LIMITS.get(metric, ()), PLAIN


def tiny(decimals: int, *, signed: bool) -> list[models.ValueMapping]:
    """Return mappings that write what is below half of the last decimal as `3e-5`, never as a false zero.

    Grafana has one format a column. A mapping can only write a fixed text, so that there is one for each first digit.

    Args:
        decimals: How many the column has.
        signed: Whether values may be negative.
    """
    half = 0.5 * 10.0**-decimals
    rows = [_range(0.0, 0.0, f"{0:.{decimals}f}")]
    for low, high, text in _digits(half):
        rows.append(_range(low, high, text))
        if signed:
            rows.append(_range(-high, -low, f"-{text}"))
    return rows


def _digits(half: float) -> list[tuple[float, float, str]]:
    """Return (lowest, highest, text) for each first digit below `half`, largest first, and one for all that is less."""
    rows = []
    for exponent in range(math.floor(math.log10(half)), _SMALLEST_EXPONENT - 1, -1):
        for digit in range(9, 0, -1):
            low, high = (0.95 if digit == 1 else digit - 0.5), digit + 0.5
            if low * 10.0**exponent < half:
                rows.append((_exact(low, exponent), min(_exact(high, exponent), half), f"{digit}e{exponent}"))
    lowest = _exact(0.95, _SMALLEST_EXPONENT)
    return [*rows, (1e-300, lowest, f"<1e{_SMALLEST_EXPONENT}")]


def _exact(mantissa: float, exponent: int) -> float:
    return float(f"{mantissa}e{exponent}")


def _range(low: float, high: float, text: str) -> models.ValueMapping:
    result = models.ValueMappingResult(text=text, color=PLAIN)
    return models.RangeMap(models.DashboardRangeMapOptions(from_val=low, to=high, result=result))
