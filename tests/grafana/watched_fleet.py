"""The fleet, watched by real exporters that a real Prometheus scrapes, with the recording and alert rules."""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.e2e.prometheus_process import STARTS, Prometheus, answers, prometheus_program
from tests.e2e.running_exporter import serving
from tests.e2e.running_server import eventually
from tests.ending_processes import end
from tests.free_ports import free_port
from tests.grafana.fleet import JOBS, Fleet, write_fleet

RULES = Path(__file__).parents[2] / "alerts" / "rules" / "runwatch.yaml"
SETTLED_SCRAPES = 6
"""So often all is scraped before it is looked at, once a second: a rate needs more than one scrape, and rules build on
rules.
"""


@dataclass(frozen=True, slots=True)
class WatchedFleet:
    """The fleet, the Prometheus that knows it, and the moment (Unix seconds) at which the panels are looked at."""

    fleet: Fleet
    prometheus: Prometheus
    looked: float


def _rules() -> dict[str, object]:
    """Return the rules as they are, but evaluated each second and with short waits: a test has no minutes."""
    content = yaml.safe_load(RULES.read_text())
    for group in content["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "3s"
            rule.pop("keep_firing_for", None)  # that the exporters were down before they started is over at once
    return content  # type: ignore[no-any-return]


def _started_or_ended(process: subprocess.Popen[bytes], url: str) -> bool:
    return process.poll() is not None or answers(f"{url}/-/ready")


@contextmanager
def prometheus_of(targets: Sequence[Mapping[str, object]], folder: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes targets, written as its `static_configs`, each second, with the rules."""
    rules = folder / "rules.yml"
    rules.write_text(yaml.safe_dump(_rules()))
    scrape = {"job_name": "runwatch", "static_configs": list(targets)}
    config = folder / "prometheus.yml"
    times = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config.write_text(json.dumps({"global": times, "rule_files": [str(rules)], "scrape_configs": [scrape]}))
    log = folder / "prometheus.log"
    for attempt in range(STARTS):
        port = free_port()
        command = [
            prometheus_program(),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / f'data-{attempt}'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            url = f"http://127.0.0.1:{port}"
            eventually(functools.partial(_started_or_ended, process, url), "Prometheus is up", 60)
            if process.poll() is None:
                yield Prometheus(url)
                return
        finally:
            end(process, log)
    raise AssertionError(log.read_text())


def settle(prometheus: Prometheus) -> None:
    """Wait until everything was scraped some times more."""

    def scrapes() -> float:
        return prometheus.value("min(count_over_time(up[1h]))")

    begun = scrapes()
    eventually(lambda: scrapes() >= begun + SETTLED_SCRAPES, "some more scrapes", 60)


@contextmanager
def watched_fleet(folder: Path) -> Iterator[WatchedFleet]:
    """Write the fleet, watch it, and wait until all of it was seen."""
    prometheus_program()
    fleet = write_fleet(folder, time.time())
    with ExitStack() as stack:
        ports = {site: stack.enter_context(serving(config)).port for site, config in fleet.configs.items()}
        shards = [{"targets": [f"127.0.0.1:{port}"], "labels": {"shard": site}} for site, port in ports.items()]
        prometheus = stack.enter_context(prometheus_of(shards, folder))
        jobs = sum(JOBS.values())
        eventually(lambda: len(prometheus.query("mljob_info")) == jobs, "all jobs were scraped", 60)
        firing = 'ALERTS{alertname="MLJobRLCollapse", alertstate="firing"}'
        eventually(lambda: len(prometheus.query(firing)) == 1, "the rules saw the fleet and its collapse", 60)
        down = 'ALERTS{alertname="RunwatchDown"}'
        eventually(lambda: not prometheus.query(down), "it is no longer thought down", 60)
        settle(prometheus)
        yield WatchedFleet(fleet, prometheus, time.time())
