"""A real Prometheus that scrapes one port, and questions to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.e2e.prometheus_tools import promtool
from tests.e2e.running_server import eventually, written_so_far
from tests.ending_processes import end
from tests.free_ports import free_port
from tests.required_programs import required_program

STARTS = 3  # somebody else may take the free port before Prometheus binds it


def prometheus_program() -> str:
    """Return the path of `prometheus`; without it a test fails in CI and is skipped elsewhere."""
    return required_program("prometheus", "prometheus")


def get(url: str) -> bytes:
    with urlopen(url, timeout=60) as response:
        body: bytes = response.read()
    return body


def answers(url: str) -> bool:
    try:
        get(url)
    except (OSError, HTTPException):  # refused, not ready, too slow, or ended meanwhile
        return False
    return True


def is_ready_or_over(process: subprocess.Popen[bytes], url: str) -> bool:
    return process.poll() is not None or answers(f"{url}/-/ready")


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

    def firing(self) -> set[tuple[str, str, str]]:
        """Return alert name, severity and run (empty where it has none) of all alerts that fire."""
        labels = [labels for labels, _ in self.query('ALERTS{alertstate="firing"}')]
        return {(of["alertname"], of["severity"], of.get("run", "")) for of in labels}


@contextmanager
def running(
    config: Path, folder: Path, *arguments: str, fill: Callable[[Path], None] = lambda _data: None
) -> Iterator[Prometheus]:
    """Run a Prometheus.

    Args:
        config: Its config file.
        folder: For its data and log.
        arguments: More of them.
        fill: Called with the folder of its data before it starts.
    """
    log = folder / "prometheus.log"
    for attempt in range(STARTS):
        port = free_port()
        data = folder / f"prometheus-data-{attempt}"
        fill(data)
        command = [
            prometheus_program(),
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address=127.0.0.1:{port}",
            *arguments,
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            url = f"http://127.0.0.1:{port}"
            eventually(partial(is_ready_or_over, process, url), "Prometheus is up", 60)
            if process.poll() is None:
                yield Prometheus(url)
                return
        finally:
            end(process, log)
    raise AssertionError(written_so_far(log))


@contextmanager
def scraping(
    exporter_port: int,
    folder: Path,
    target_labels: dict[str, str],
    *,
    rules: Path | None = None,
    alertmanager_url: str = "",
    past: Path | None = None,
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes the exporter each second, with these labels on the target.

    Args:
        exporter_port: On 127.0.0.1.
        folder: For its config, data and log.
        target_labels: On the target.
        rules: A rule file, None for no rules.
        alertmanager_url: Where its alerts go, empty for nowhere. They are sent anew each second, not each minute.
        past: OpenMetrics text of samples that it finds in its data, as after a restart.
    """
    config = folder / "prometheus.yml"
    target = {"targets": [f"127.0.0.1:{exporter_port}"], "labels": target_labels}
    settings: dict[str, object] = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "runwatch", "static_configs": [target]}],
    }
    if rules is not None:
        settings["rule_files"] = [str(rules)]
    if alertmanager_url:
        managers = [{"targets": [alertmanager_url.removeprefix("http://")]}]
        settings["alerting"] = {"alertmanagers": [{"static_configs": managers}]}
    config.write_text(json.dumps(settings))

    def fill(data: Path) -> None:
        if past is not None:
            made = promtool("tsdb", "create-blocks-from", "openmetrics", str(past), str(data))
            assert made.returncode == 0, made.stderr

    with running(config, folder, "--rules.alert.resend-delay=1s", fill=fill) as prometheus:
        yield prometheus
