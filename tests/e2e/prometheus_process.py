"""A real Prometheus that scrapes one port, and questions to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.e2e.running_server import eventually

STARTS = 3  # somebody else may take the free port before Prometheus binds it


def prometheus_program() -> str:
    """Return the path of `prometheus`; without it a test fails in CI and is skipped elsewhere."""
    path = shutil.which("prometheus")
    if path is not None:
        return path
    missing = "prometheus is missing: install the Debian package `prometheus` (apt-get install prometheus)"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str) -> bytes:
    with urlopen(url, timeout=10) as response:
        body: bytes = response.read()
    return body


def answers(url: str) -> bool:
    try:
        get(url)
    except (URLError, ConnectionError):
        return False
    return True


@dataclass(frozen=True)
class Prometheus:
    """One that runs, at `url`."""

    url: str

    def api(self, path: str, **arguments: str) -> object:
        answer = json.loads(get(f"{self.url}/api/v1/{path}?{urlencode(arguments)}"))
        assert answer["status"] == "success"
        return answer["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the labels and the value of each series of an instant query."""
        data = self.api("query", query=expression)
        assert isinstance(data, dict)
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]

    def value(self, expression: str) -> float:
        [(_, value)] = self.query(expression)
        return value


@contextmanager
def scraping(exporter_port: int, folder: Path, target_labels: dict[str, str]) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes the exporter each second, with these labels on the target."""
    config = folder / "prometheus.yml"
    target = {"targets": [f"127.0.0.1:{exporter_port}"], "labels": target_labels}
    scrape = {"job_name": "runwatch", "static_configs": [target]}
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}))
    log = folder / "prometheus.log"
    for attempt in range(STARTS):
        port = free_port()
        arguments = [
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / f'prometheus-data-{attempt}'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen([prometheus_program(), *arguments], stdout=output, stderr=output)
        try:
            url = f"http://127.0.0.1:{port}"
            eventually(lambda p=process, u=url: p.poll() is not None or answers(f"{u}/-/ready"), "Prometheus is up", 30)
            if process.poll() is None:
                yield Prometheus(url)
                return
        finally:
            process.terminate()
            process.wait(30)
    raise AssertionError(log.read_text())
