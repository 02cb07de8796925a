"""A real Prometheus for the demo: its configuration and its start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from runwatch.demo.children import LOOPBACK, Child, Children, answers, free_port

SCRAPE_SECONDS = 2
_STARTS = 3  # the free port that was chosen may be taken before Prometheus binds it
_START_SECONDS = 30.0


def program() -> str | None:
    """Return the path of `prometheus`, None where it is not installed."""
    return shutil.which("prometheus")


def start(
    children: Children, program_path: str, folder: Path, exporter_port: int, wait: Callable[..., bool]
) -> tuple[Child, int] | str:
    """Start Prometheus on a free port and wait until it answers queries.

    Args:
        children: Where it is started.
        program_path: The program.
        folder: For its configuration, data and log.
        exporter_port: What it scrapes.
        wait: Waits until its first argument returns true, for at most so many seconds; returns whether it did.

    Returns:
        The program and its port, or why there is none.
    """
    folder.mkdir()
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: {SCRAPE_SECONDS}s}}\n"
        "scrape_configs:\n"
        "  - job_name: runwatch\n"
        f"    static_configs: [{{targets: ['{LOOPBACK}:{exporter_port}']}}]\n",
        encoding="utf-8",
    )
    said = ""
    for attempt in range(_STARTS):
        port = free_port()
        command = [
            program_path,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / f'data-{attempt}'}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--log.level=warn",
        ]
        child = children.start(command, folder / f"prometheus-{attempt}.log")
        wait(lambda c=child, p=port: c.exit_code is not None or answers(p, "/-/ready") is not None, _START_SECONDS)
        if child.exit_code is None:
            return child, port
        said = child.log_tail()
    return f"Prometheus did not start:\n{said}"


def query_url(port: int, expression: str) -> str:
    """Return the address of a graph of an expression, as a browser takes it."""
    arguments = urlencode({"g0.expr": expression, "g0.tab": "0", "g0.range_input": "1h"})
    return f"http://{LOOPBACK}:{port}/graph?{arguments}"
