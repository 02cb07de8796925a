"""The real `runwatch serve` as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.prometheus_process import answers, get
from tests.e2e.running_server import eventually, written_so_far
from tests.ending_processes import end

SERVING = re.compile(r"^serving http://127\.0\.0\.1:(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Exporter:
    """One that runs and is ready."""

    process: subprocess.Popen[bytes]
    port: int

    def metrics(self) -> str:
        return get(f"http://127.0.0.1:{self.port}/metrics").decode()


@contextmanager
def serving(config: Path, *arguments: str) -> Iterator[Exporter]:
    """Run the exporter on a config that listens on port 0 of 127.0.0.1, with more arguments where some are given."""
    log = config.with_suffix(".log")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "runwatch", "serve", "--config", str(config), *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        eventually(
            lambda: process.poll() is not None or SERVING.search(written_so_far(log)) is not None,
            "it tells its port",
            60,
        )
        found = SERVING.search(written_so_far(log))
        assert found is not None, written_so_far(log)
        port = int(found[1])
        eventually(lambda: answers(f"http://127.0.0.1:{port}/-/ready"), "it is ready", 60)
        yield Exporter(process, port)
    finally:
        end(process, log)
