"""A run of the fleet that goes on while it is watched, so that the lines of pictures have a shape.

Its signals wander within their healthy bands, until gradient norm and entropy leave them: it collapses once more.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.grafana.fleet import DESK, RL_ROW

FIRST_STEP = 21
"""The one after the last step that `fleet.py` writes of it."""

HEALTHY_SHARE = 0.7
"""The part of the steps before the collapse."""


def row(place: int, steps: int) -> dict[str, float]:
    """Return the values of one step.

    Args:
        place: Which, from 0.
        steps: How many there will be.
    """
    into_collapse = max(0.0, place - HEALTHY_SHARE * steps)
    wave, ripple = math.sin(0.31 * place), math.sin(2.6 * place)
    return {
        **RL_ROW,
        "reward/avg_raw_reward": 0.25 + 0.003 * min(place, HEALTHY_SHARE * steps) + 0.012 * ripple,
        "reward/avg_pass_at_8": 0.5 + 0.02 * wave,
        "reward/avg_pass_at_4": 0.4 + 0.02 * wave,
        "policy/policy_loss": 0.0125 + 0.002 * ripple,
        "policy/raw_grad_norm": 0.35 + 0.06 * wave + 0.03 * ripple + 0.12 * into_collapse,
        "policy/policy_entropy": (0.75 + 0.03 * wave) * 0.9**into_collapse,
        "policy/ppo_clip_ratio": 0.003 + 0.001 * ripple,
        "policy/log_ratio_abs_mean": 0.011 + 0.002 * wave,
        "policy/log_ratio_abs_max": 0.3 + 0.08 * ripple,
        "tis/imp_ratio_mean": 1.02 + 0.05 * wave,
        "tis/log_ratio_abs_mean": 0.03 + 0.004 * ripple,
        "generate/avg_num_tokens": 2048 + 150 * wave,
        "timing/step": 60 + 5 * ripple,
        "timing/generate": 40 + 4 * ripple,
    }


@contextmanager
def going_on(folder: Path, seconds: float, every: float = 3.0) -> Iterator[None]:
    """Write steps of `collapsed-rl` in a fleet's folder, one each `every` seconds, for `seconds` at most."""
    path, over, steps = folder / DESK / "collapsed-rl.jsonl", threading.Event(), int(seconds / every)

    def write() -> None:
        for place in range(steps):
            values = {"_step": FIRST_STEP + place, "_timestamp": time.time(), **row(place, steps)}
            with path.open("a") as file:
                file.write(json.dumps(values) + "\n")
            if over.wait(every):
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
