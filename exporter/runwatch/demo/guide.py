"""What the demo tells its user: addresses, what there is to see, what to try next."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from runwatch.demo.fleet import BRINGUP, ENDED, EVAL, FAILED, LIVE, LOGGED, RL
from runwatch.demo.prometheus import query_url

QUERIES = (
    ("hours to go at the rate of the last steps", "mljob_eta_seconds / 3600"),
    (
        "seconds without a new step, as the source last saw it (never against the clock)",
        'max by (run) (mljob_observed_timestamp_seconds{source="history"})'
        " - on (run) mljob_last_step_timestamp_seconds"
        ' and on (run) mljob_state{state="running"} == 1',
    ),
    ("share of the time that made new steps", "mljob_goodput_ratio"),
)

_JOBS = (
    (ENDED, "a run of 300 steps that ended, recorded with the real W&B client; real Levanter checkpoints"),
    (LIVE, "the same run replayed as JSON lines, a new step every 2 s: two gaps, 51 steps done again, an aborted save"),
    (RL, "an RL job in SkyRL's format, a new step every 5 s: it collapsed at step 47 and recovered (generated values)"),
    (BRINGUP, "an RL job that was evaluated once and has not made a step yet"),
    (LOGGED, "a fine-tune of 50 steps, read from its log alone: a real LLaMA-Factory run"),
    (EVAL, "16 trials of a real `harbor run` with a fake agent, 12 of them scored; the RL job above has them too"),
    (FAILED, "a fine-tune whose loss became NaN, exit code 1 (generated values, written by the real W&B client)"),
)


def command() -> str:
    """Return how the user called runwatch, to be pasted into another terminal."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "runwatch"])
    return shlex.quote(str(called.resolve() if called.is_file() else called))


def addresses(exporter_url: str, prometheus_port: int | None, config: Path) -> str:
    """Return where everything is."""
    lines = [("metrics", f"{exporter_url}/metrics"), ("page", f"{exporter_url}/")]
    if prometheus_port is not None:
        lines.append(("Prometheus", f"http://127.0.0.1:{prometheus_port}/"))
        lines.append(("a graph", query_url(prometheus_port, "mljob_step")))
    lines.append(("config", str(config)))
    return "".join(f"  {name:<12}{value}\n" for name, value in lines)


def explanation(config: Path, prometheus_port: int | None) -> str:
    """Return what there is to see and what to try next."""
    called, path = command(), shlex.quote(str(config))
    parts = ["What you see\n", *(f"  {run:<22}{text}\n" for run, text in _JOBS)]
    parts.append("\nWhat to try next, in another terminal, while this one runs\n")
    parts += [
        f"  {called} {arguments}\n"
        for arguments in (
            f"explain --config {path} {LIVE}",
            f"line --config {path}",
            f"tables --config {path} --bucket rl",
        )
    ]
    if prometheus_port is not None:
        parts.append(f"\nPromQL to paste into Prometheus (http://127.0.0.1:{prometheus_port}/graph).")
        parts.append(" Its first figures come some 10 s after its start.\n")
        parts += [f"  {query}\n      {meaning}\n" for meaning, query in QUERIES]
    return "".join(parts)
