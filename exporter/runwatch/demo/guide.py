"""What the demo tells its user: addresses, what there is to see, what to try next."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from runwatch.demo.alertmanager import query_command
from runwatch.demo.fleet import BRINGUP, COLLAPSING, ENDED, EVAL, FAILED, LIVE, LOGGED, RL, STALLED
from runwatch.demo.prometheus import alerts_url, query_url
from runwatch.demo.servers import Server

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
    (STALLED, "the same replay, but its last step is 25 min old: MLJobStalled fires in 6 min"),
    (RL, "an RL job in SkyRL's format, a new step every 5 s: it collapsed at step 47 and recovered (generated values)"),
    (
        COLLAPSING,
        "an RL job with steps of 10 min that collapses now: MLJobRLCollapse fires in 3 min (generated values)",
    ),
    (BRINGUP, "an RL job that was evaluated once and has not made a step yet"),
    (LOGGED, "a fine-tune of 50 steps, read from its log alone: a real LLaMA-Factory run"),
    (EVAL, "16 trials of a real `harbor run` with a fake agent, 12 of them scored; the RL job above has them too"),
    (FAILED, "a fine-tune whose loss became NaN, exit code 1 (generated values, written by the real W&B client)"),
)

_ALERTING = """
The alert rules and the routes are the real ones, with their real waits: the collapse is told after 3 to 4 min, the
stall after 6 to 7. What a team's Slack or pager would get is written here; nobody outside is called.
"""


def command() -> str:
    """Return how the user called runwatch, to be pasted into another terminal."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "runwatch"])
    return shlex.quote(str(called.resolve() if called.is_file() else called))


def addresses(exporter_url: str, prometheus: Server | None, alertmanager: Server | None, config: Path) -> str:
    """Return where everything is."""
    lines = [("metrics", f"{exporter_url}/metrics"), ("page", f"{exporter_url}/")]
    if prometheus is not None:
        lines.append(("Prometheus", f"{prometheus.url}/"))
        lines.append(("a graph", query_url(prometheus, "mljob_step")))
        lines.append(("alerts", alerts_url(prometheus)))
    if alertmanager is not None:
        lines.append(("Alertmanager", f"{alertmanager.url}/"))
    lines.append(("config", str(config)))
    return "".join(f"  {name:<14}{value}\n" for name, value in lines)


def explanation(config: Path, prometheus: Server | None, alertmanager: Server | None) -> str:
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
    if prometheus is not None:
        parts.append(f"\nPromQL to paste into Prometheus ({prometheus.url}/graph).")
        parts.append(" Its first figures come some 10 s after its start.\n")
        parts += [f"  {query}\n      {meaning}\n" for meaning, query in QUERIES]
    if alertmanager is not None:
        parts.append(_ALERTING)
        if (query := query_command(alertmanager)) is not None:
            parts.append(f"All alerts, the muted ones too:\n  {query}\n")
    return "".join(parts)
