"""A real Alertmanager, and questions to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.e2e.prometheus_process import STARTS, get, is_ready_or_over
from tests.e2e.running_server import eventually, written_so_far
from tests.ending_processes import end
from tests.free_ports import free_port
from tests.required_programs import required_program

NAMES = ("prometheus-alertmanager", "alertmanager")  # Debian's name, and the project's own


def alertmanager_program() -> str:
    """Return the path of Alertmanager; without it a test fails in CI and is skipped elsewhere."""
    return required_program("prometheus-alertmanager", *NAMES)


@dataclass(frozen=True)
class Alertmanager:
    """One that runs, at `url`; what it says goes to `log`."""

    url: str
    log: Path

    def inhibited(self) -> set[tuple[str, str, str]]:
        """Return alert name, severity and run (empty where it has none) of all alerts that others mute."""
        alerts = json.loads(get(f"{self.url}/api/v2/alerts"))
        muted = [alert["labels"] for alert in alerts if alert["status"]["inhibitedBy"]]
        return {(labels["alertname"], labels["severity"], labels.get("run", "")) for labels in muted}


@contextmanager
def alerting(config: Path, folder: Path) -> Iterator[Alertmanager]:
    """Run an Alertmanager of its own, without peers, on this config."""
    log = folder / "alertmanager.log"
    for attempt in range(STARTS):
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        arguments = [
            f"--config.file={config}",
            f"--storage.path={folder / f'alertmanager-data-{attempt}'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen([alertmanager_program(), *arguments], stdout=output, stderr=output)
        try:
            eventually(partial(is_ready_or_over, process, url), "Alertmanager is up", 60)
            if process.poll() is None:
                yield Alertmanager(url, log)
                return
        finally:
            end(process, log)
    raise AssertionError(written_so_far(log))
