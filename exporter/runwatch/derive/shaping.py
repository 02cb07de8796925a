"""Whether an RL job's rewards are shaped: rewards of unlike shaping must not be compared.

An unshaped reward is 0 or 1 a rollout, so the mean reward times the rollouts of a step is a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

SHAPING_STEPS = 5
FLOAT32_RELATIVE_NOISE = Decimal("4e-7")  # a mean computed in single precision is off by a few units of 1.2e-7
ABSOLUTE_NOISE = Decimal("1e-4")
_HALF = Decimal("0.5")


def shaping(
    rewards: Sequence[float], rollouts_per_step: int | None, logged: Sequence[float | None] | None = None
) -> str:
    """Tell `on`, `off` or, when it cannot be known, the empty string, from the last five steps' mean rewards.

    A reward is trusted to half a unit of its last printed decimal (logs print four decimals, histories all of them).
    A value whose printed digits leave half a rollout or more open decides nothing.

    Args:
        rewards: Mean reward a rollout of each step, oldest first; only the last five are looked at.
        rollouts_per_step: Number of rollouts that the mean is over, where a step does not log its own.
        logged: Number of rollouts that each mean is over, as logged beside it, None where it was not.
    """
    own = logged if logged is not None else [None] * len(rewards)
    numbers = [rollouts_per_step if number is None else number for number in own]
    verdicts = {
        _is_shaped(reward, int(rollouts))
        for reward, rollouts in list(zip(rewards, numbers, strict=True))[-SHAPING_STEPS:]
        if rollouts is not None and rollouts > 0
    } - {None}
    if not verdicts:
        return ""
    return "on" if True in verdicts else "off"


def _is_shaped(reward: float, rollouts: int) -> bool | None:
    if not math.isfinite(reward):
        return None
    printed = Decimal(repr(float(reward)))
    exponent = printed.as_tuple().exponent
    if not isinstance(exponent, int):
        return None
    total = printed * rollouts
    half_a_unit = _HALF * Decimal(1).scaleb(exponent)
    tolerance = max(rollouts * half_a_unit, ABSOLUTE_NOISE, FLOAT32_RELATIVE_NOISE * abs(total))
    if tolerance >= _HALF:
        return None
    return abs(total - total.to_integral_value()) > tolerance


def rollouts_per_step(config: Mapping[str, object], configured: int | None) -> int | None:
    """Return how many rollouts a step's mean reward is over, or None when it is not known.

    Args:
        config: The trainer's config as its tracker recorded it, nested or with dotted keys. SkyRL samples
            `generator.n_samples_per_prompt` rollouts for each of `trainer.train_batch_size` prompts.
        configured: `rollouts_per_step` of the job's own config; it wins.
    """
    if configured is not None:
        return configured
    prompts = _positive_int(config, "trainer", "train_batch_size")
    samples = _positive_int(config, "generator", "n_samples_per_prompt")
    if prompts is None or samples is None:
        return None
    return prompts * samples


def _positive_int(config: Mapping[str, object], section: str, name: str) -> int | None:
    value = config.get(f"{section}.{name}")
    if value is None:
        nested = config.get(section)
        value = nested.get(name) if isinstance(nested, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value > 0 and math.isfinite(value) and value == int(value) else None
