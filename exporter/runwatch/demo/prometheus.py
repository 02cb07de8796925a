"""A real Prometheus for the demo, with our rules: its configuration and its start."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlencode

import yaml

from runwatch.alerting.files import generated_files
from runwatch.demo.children import LOOPBACK, Children, answers
from runwatch.demo.servers import Server, Wait, start_server

SCRAPE_SECONDS = 2


def program() -> str | None:
    """Return the path of `prometheus`, None where it is not installed."""
    return shutil.which("prometheus")


def start(
    children: Children,
    program_path: str,
    folder: Path,
    wait: Wait,
    *,
    exporter_port: int,
    alertmanager: Server | None,
) -> Server | str:
    """Start Prometheus on a free port and wait until it answers queries.

    Args:
        children: Where it is started.
        program_path: The program.
        folder: For its configuration, rules, data and log.
        wait: Lets time pass.
        exporter_port: What it scrapes.
        alertmanager: Where its alerts go, None for nowhere.

    Returns:
        The server, or why there is none.
    """
    folder.mkdir()
    rules = folder / "rules.yaml"
    rules.write_text(generated_files()["rules/runwatch.yaml"], encoding="utf-8")
    settings: dict[str, object] = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "runwatch", "static_configs": [{"targets": [f"{LOOPBACK}:{exporter_port}"]}]},
        ],
    }
    if alertmanager is not None:
        managers = [{"static_configs": [{"targets": [f"{LOOPBACK}:{alertmanager.port}"]}]}]
        settings["alerting"] = {"alertmanagers": managers}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")

    def arguments(port: int, data: Path) -> list[str]:
        return [
            program_path,
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={LOOPBACK}:{port}",
            # Else links lead to the machine's name, where nobody listens.
            f"--web.external-url=http://{LOOPBACK}:{port}/",
            "--log.level=warn",
        ]

    return start_server(children, "Prometheus", folder, arguments, wait)


def alerts_url(prometheus: Server) -> str:
    """Return the address of the page of alerts; Debian's Prometheus 2.42 has it at another place than all others."""
    page = "/alerts" if answers(prometheus.port, "/alerts") is not None else "/classic/alerts"
    return f"{prometheus.url}{page}"


def query_url(prometheus: Server, expression: str) -> str:
    """Return the address of a graph of an expression, as a browser takes it."""
    arguments = urlencode({"g0.expr": expression, "g0.tab": "0", "g0.range_input": "1h"})
    return f"{prometheus.url}/graph?{arguments}"
