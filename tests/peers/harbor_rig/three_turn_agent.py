"""An agent for Harbor that takes three turns without a model. Runs in Harbor's own Python environment.

The task's instruction makes it time out (TIMEOUT) or leave its context (CTX).
"""

from __future__ import annotations

import asyncio
import json

from harbor.agents.base import BaseAgent
from harbor.llms.base import ContextLengthExceededError

INPUT_TOKENS = 1234
OUTPUT_TOKENS = 56


class ThreeTurnAgent(BaseAgent):
    """Counts its turns where terminus-2 does, and writes the same trajectory."""

    @staticmethod
    def name() -> str:
        return "three-turns"

    def version(self) -> str:
        return "0.0.1"

    async def setup(self, environment: object) -> None:
        return None

    async def run(self, instruction: str, environment: object, context: object) -> None:
        task = instruction.strip()
        turns = 0
        try:
            for turn in range(1, 4):
                turns = turn
                await asyncio.sleep(0.15)
            if "TIMEOUT" in task:
                await asyncio.sleep(60)
            if "CTX" in task:
                raise ContextLengthExceededError("exceeds 32768")
            await environment.exec(f"echo {task} > /app/out")
        finally:
            context.n_input_tokens = INPUT_TOKENS * turns
            context.n_output_tokens = OUTPUT_TOKENS * turns
            context.n_cache_tokens = 0
            context.metadata = {"n_episodes": turns, "api_request_times_msec": [12.5] * turns, "summarization_count": 0}
            (self.logs_dir / "trajectory.json").write_text(json.dumps(trajectory(task, turns), indent=2))


def trajectory(task: str, turns: int) -> dict[str, object]:
    """Return what an agent writes of its steps, in ATIF."""
    metrics = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
    steps = [{"step_id": 1, "source": "user", "message": task}]
    steps += [
        {"step_id": turn + 1, "source": "agent", "message": "t", "metrics": metrics} for turn in range(1, turns + 1)
    ]
    totals = {"total_prompt_tokens": INPUT_TOKENS * turns, "total_completion_tokens": OUTPUT_TOKENS * turns}
    return {
        "schema_version": "ATIF-v1.5",
        "session_id": "s",
        "agent": {"name": "three-turns", "version": "0.0.1", "model_name": "m"},
        "steps": steps,
        "final_metrics": totals,
    }
