"""`runwatch demo` as a user runs it: it shows everything there is, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from runwatch.demo import guide
from runwatch.demo.fleet import BRINGUP, COLLAPSING, ENDED, EVAL, FAILED, LIVE, LOGGED, RL, STALLED
from tests.e2e.alertmanager_process import alertmanager_program
from tests.e2e.prometheus_process import Prometheus, get, prometheus_program
from tests.e2e.running_server import eventually, written_so_far
from tests.ending_processes import end

LAST_LINE = "Ctrl-C ends all of it."
ALL_JOBS = (ENDED, LIVE, STALLED, RL, COLLAPSING, BRINGUP, FAILED, LOGGED, EVAL)


@dataclass(frozen=True)
class Demo:
    process: subprocess.Popen[bytes]
    output: Path
    temporary: Path

    def text(self) -> str:
        return written_so_far(self.output)

    def ports(self) -> set[int]:
        return {int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)", self.text())}

    def exporter_url(self) -> str:
        found = re.search(r"(http://127\.0\.0\.1:\d+)/metrics", self.text())
        assert found is not None
        return found[1]


@contextmanager
def running_demo(tmp_path: Path, port: int, **environment: str) -> Iterator[Demo]:
    """Run the demo until it has told everything; whatever a test leaves of it is ended."""
    output, temporary = tmp_path / "output.txt", tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "runwatch", "demo", "--port", str(port)]
    # A narrower terminal draws a table in several parts.
    surroundings = {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "120", **environment}
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=surroundings)
    try:
        eventually(lambda: process.poll() is not None or LAST_LINE in written_so_far(output), "the demo is up", 120)
        assert process.poll() is None, written_so_far(output)
        yield Demo(process, output, temporary)
    finally:
        end(process, output)


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below one."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (parent := parent_of(folder)) is not None:
            parents.setdefault(parent, []).append(int(folder.name))
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
    return found


def parent_of(folder: Path) -> int | None:
    try:
        status = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(status.rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody waited for yet is over all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_shows_everything_and_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    prometheus_program()
    alertmanager_program()
    with running_demo(tmp_path, 0) as demo:
        text = demo.text()
        tables = text[text.index("┌") : text.rindex("┘")]
        assert [run for run in ALL_JOBS if run not in tables] == []
        for title in ("\nRL\n", "\nSFT\n", "\nTraining health\n", "\nBring-up"):
            assert title in text
        page = get(f"{demo.exporter_url()}/").decode()
        assert [run for run in ALL_JOBS if run not in page] == []
        assert f'mljob_step{{run="{LIVE}"' in get(f"{demo.exporter_url()}/metrics").decode()

        prometheus_url = re.search(r"Prometheus +(http://127\.0\.0\.1:\d+)/", text)
        assert prometheus_url is not None
        prometheus = Prometheus(prometheus_url[1])
        eventually(lambda: bool(prometheus.query("mljob_info")), "the first scrape", 60)
        assert {labels["run"] for labels, _ in prometheus.query("mljob_info")} == set(ALL_JOBS)
        for _, query in guide.QUERIES:
            assert query in text
            assert prometheus.query(query), query
        graph = re.search(r"a graph +(http://\S+)", text)
        assert graph is not None
        assert b"<html" in get(graph[1])

        assert_alerts_reach_the_terminal(demo, prometheus)

        # The replayed jobs go on while it runs: 2 s a step.
        step = prometheus.value(f'mljob_step{{run="{LIVE}"}}')
        eventually(lambda: prometheus.value(f'mljob_step{{run="{LIVE}"}}') >= step + 2, "it goes on", 60)

        pids, ports = descendants(demo.process.pid), demo.ports()
        assert len(pids) == 4  # exporter, its server, Alertmanager, Prometheus
        assert len(ports) == 3
        assert all(is_open(port) for port in ports)
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(60) == 0
        assert [pid for pid in pids if is_alive(pid)] == []
        assert [port for port in ports if is_open(port)] == []
        assert list(demo.temporary.iterdir()) == []


def assert_alerts_reach_the_terminal(demo: Demo, prometheus: Prometheus) -> None:
    """The rules are loaded and find what the demo's jobs are made for; what Alertmanager is told gets to the user.

    The rules wait as long as they do for everybody. So that this test need not, an alert of its own is sent.
    """
    found = re.search(r"Alertmanager +(http://127\.0\.0\.1:\d+)/", demo.text())
    assert found is not None
    alertmanager_url = found[1]
    groups = prometheus.api("rules")
    assert isinstance(groups, dict)
    alerts = {rule["name"]: rule for group in groups["groups"] for rule in group["rules"] if rule["type"] == "alerting"}
    assert {"MLJobStalled", "MLJobRLCollapse", "RunwatchSourceDown", "Watchdog"} <= set(alerts)

    labels = {"alertname": "MLJobFailed", "severity": "critical", "bucket": "sft", "run": "sent", "site": "desk"}
    annotations = {
        "summary": "sent (desk) failed\x1b[2J",
        "description": "Step 7 of 9",
        "runbook_url": "",
        "dashboard_url": "",
    }
    # Alertmanager waits 30 s for the rest of a group, but not with an alert that began before that.
    sent = [{"labels": labels, "annotations": annotations, "startsAt": "2026-01-01T00:00:00Z"}]
    request = Request(
        f"{alertmanager_url}/api/v2/alerts", json.dumps(sent).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=60):
        pass
    page = (
        "Alertmanager pages training-page:\n  [critical] MLJobFailed: sent (desk) failed\\x1b[2J\n      Step 7 of 9\n"
    )
    eventually(lambda: page in demo.text(), "the page is in the terminal", 60)

    query = re.search(r"^  (\S+/amtool .*)$", demo.text(), re.MULTILINE)
    assert query is not None
    assert "sent (desk) failed" in subprocess.run(query[1].split(), capture_output=True, check=True, text=True).stdout
    alerts_page = re.search(r"alerts +(http://\S+)", demo.text())
    assert alerts_page is not None
    assert b"<html" in get(alerts_page[1])

    def waiting() -> set[tuple[str, str]]:
        active = prometheus.api("alerts")
        assert isinstance(active, dict)
        found = [alert["labels"] for alert in active["alerts"]]
        return {(of["alertname"], of["run"]) for of in found if of["alertname"] in ("MLJobStalled", "MLJobRLCollapse")}

    eventually(lambda: len(waiting()) >= 2, "the rules were evaluated, as they are every 30 s", 90)
    assert waiting() == {("MLJobStalled", STALLED), ("MLJobRLCollapse", COLLAPSING)}
    known = prometheus.api("alertmanagers")
    assert isinstance(known, dict)
    assert [manager["url"] for manager in known["activeAlertmanagers"]] == [f"{alertmanager_url}/api/v2/alerts"]


def test_a_port_in_use_and_no_prometheus_are_told_and_what_it_tells_to_try_works(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running_demo(tmp_path, port, PATH="") as demo:
            assert f"port {port} cannot be used (Address already in use): taking a free one" in demo.text()
            assert "apt-get install prometheus" in demo.text()
            assert demo.exporter_url() != f"http://127.0.0.1:{port}"
            commands = re.findall(r"^  (\S.* -m runwatch (?:explain|line|tables) .*)$", demo.text(), re.MULTILINE)
            assert len(commands) == 3
            for command in commands:
                ran = subprocess.run(command.split(), capture_output=True, check=False, timeout=60, text=True)
                assert (ran.returncode, ran.stderr) == (0, "")
                assert re.search(rf"{LIVE}|{RL}", ran.stdout)
            demo.process.send_signal(signal.SIGTERM)
            assert demo.process.wait(60) == 0
            assert list(demo.temporary.iterdir()) == []


def test_an_exporter_that_dies_ends_the_demo(tmp_path: Path) -> None:
    with running_demo(tmp_path, 0, PATH="") as demo:
        [exporter] = [
            pid for pid in descendants(demo.process.pid) if parent_of(Path(f"/proc/{pid}")) == demo.process.pid
        ]
        os.kill(exporter, signal.SIGKILL)
        assert demo.process.wait(60) == 1
        assert "runwatch demo: the exporter ended by itself with exit code -9" in demo.text()
        assert list(demo.temporary.iterdir()) == []


def test_kill_9_leaves_no_process_behind(tmp_path: Path) -> None:
    with running_demo(tmp_path, 0) as demo:
        pids = descendants(demo.process.pid)
        assert len(pids) >= 2
        demo.process.kill()
        eventually(lambda: not any(is_alive(pid) for pid in pids), "its programs ended", 60)


def test_a_signal_while_it_starts_ends_it_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runwatch", "demo", "--port", "0"]
    output, temporary = tmp_path / "output.txt", tmp_path / "temporary"
    temporary.mkdir()
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "TMPDIR": str(temporary)})
    try:
        eventually(lambda: "starting the exporter on recorded jobs\n" in written_so_far(output), "it begins", 60)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, written_so_far(output)
    finally:
        end(process, output)
    assert list(temporary.iterdir()) == []
