"""A fleet of real files for the paging test: two sites, jobs that collapse, stall or are well, and what goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

COLLAPSING = 'rl <!channel> & "p|q"'
"""Slack reads `<!channel>` as a call to everybody; the others have a meaning in Slack, JSON, PromQL or an address."""
STALLED = "sft-stalled"
HEALTHY = "sft-healthy"
SOUTH_COLLAPSING = "rl-south"
SOUTH_STALLED = "sft-south-stalled"
SOUTH_UNREAD = "sft-south-unread"

STALL_AGE_SECONDS = 40 * 60.0
SFT_STEP_SECONDS = 8.0
RL_STEP_SECONDS = 60.0

HEALTHY_SFT = {"train/loss": 2.5, "train/grad_norm": 0.4}
HEALTHY_RL = {
    "reward/avg_raw_reward": 0.4,
    "policy/policy_loss": 0.01,
    "policy/policy_entropy": 0.5,
    "policy/raw_grad_norm": 0.3,
    "policy/ppo_clip_ratio": 0.002,
}
COLLAPSED_RL = {
    "reward/avg_raw_reward": 0.1,
    "policy/policy_loss": 0.2,
    "policy/policy_entropy": 0.1,  # at the third such step 76 % below the mean of the ten before
    "policy/raw_grad_norm": 4.0,  # above 1 for two steps
    "policy/ppo_clip_ratio": 0.05,  # above 1 %
}


@dataclass(frozen=True)
class PagingFleet:
    """The config, and where each job's rows are."""

    config: Path
    histories: Mapping[str, Path]

    def append(self, run: str, first_step: int, rows: Sequence[Mapping[str, float]], last: float) -> None:
        """Log further steps, one a second, the last of them at `last` (Unix seconds)."""
        with self.histories[run].open("a", encoding="utf-8") as file:
            file.write(_lines(first_step, rows, last, 1.0))


def _lines(first_step: int, rows: Sequence[Mapping[str, float]], last: float, seconds: float) -> str:
    start = last - (len(rows) - 1) * seconds
    clocks = ({"_step": first_step + i, "_timestamp": start + i * seconds} for i in range(len(rows)))
    return "".join(json.dumps({**clock, **row}) + "\n" for clock, row in zip(clocks, rows, strict=True))


@contextmanager
def closed_port() -> Iterator[int]:
    """Hold a port that nobody else can take and that refuses every connection."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        yield port


def write_paging_fleet(folder: Path, now: float, controller_port: int) -> PagingFleet:
    """Write the jobs as they are at `now` (Unix seconds).

    At the site north, without a scheduler: a collapse, a stall, a job that is well. At the
    site south, whose scheduler cannot be reached: a collapse and a stall of jobs that it is not asked about, and one
    job that it is.
    """
    collapse = _lines(1, [HEALTHY_RL] * 57 + [COLLAPSED_RL] * 3, now - 30, RL_STEP_SECONDS)
    stall = _lines(1, [HEALTHY_SFT] * 200, now - STALL_AGE_SECONDS, SFT_STEP_SECONDS)
    well = _lines(1, [HEALTHY_SFT] * 200, now - 5, SFT_STEP_SECONDS)
    jobs: tuple[tuple[str, str, str, str, dict[str, str]], ...] = (
        ("north", "rl", COLLAPSING, collapse, {}),
        ("north", "sft", STALLED, stall, {}),
        ("north", "sft", HEALTHY, well, {}),
        ("south", "rl", SOUTH_COLLAPSING, collapse, {}),
        ("south", "sft", SOUTH_STALLED, stall, {}),
        ("south", "sft", SOUTH_UNREAD, well, {"scheduler_job": "/u1/unread"}),
    )
    histories, entries = {}, []
    for index, (site, bucket, run, rows, more) in enumerate(jobs):
        path = folder / f"history-{index}.jsonl"
        path.write_text(rows, encoding="utf-8")
        histories[run] = path
        job = {"run": run, "bucket": bucket, "site": site, "history": {"jsonl": path.name}, **more}
        entries.append({**job, "config": {"num_train_steps": 1000}})
    settings = {
        "poll_interval": "1s",
        "listen": "127.0.0.1:0",
        "sites": {
            "north": {"scheduler": "none"},
            "south": {"scheduler": "iris", "controller": f"http://127.0.0.1:{controller_port}"},
        },
        "jobs": entries,
    }
    config = folder / "runwatch.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return PagingFleet(config, histories)
