"""Runs the demo in the foreground until Ctrl-C.

A fleet in a temporary folder, the exporter, and, where they are installed, Prometheus and Alertmanager with our rules.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from runwatch.commands import print_tables
from runwatch.demo import alertmanager, guide, prometheus
from runwatch.demo.children import Child, Children, answers, why_port_is_not_free
from runwatch.demo.fleet import DemoFleet, write_fleet
from runwatch.demo.pages import Pages
from runwatch.demo.servers import Server
from runwatch.terminal import say

_TICK_SECONDS = 0.1
_START_SECONDS = 60.0
_SERVING = re.compile(r"^serving (http://\S+:(\d+))$", re.MULTILINE)


def run_demo(port: int) -> int:
    """Run the demo until SIGINT, SIGTERM or SIGHUP and return the exit code: 1 when the exporter ended by itself.

    Everything it writes goes into a temporary folder that is removed at the end. After a `kill -9` of the demo its
    programs end (on Linux), and only that folder stays behind.

    Args:
        port: The exporter's port on 127.0.0.1; 0 for any free one, which is also taken where this one is not free.
    """
    with tempfile.TemporaryDirectory(prefix="runwatch-demo-") as folder, Pages() as pages, Children() as children:
        demo = _Demo(Path(folder).resolve(), children, pages)
        signal.signal(signal.SIGINT, demo.ask_to_stop)
        signal.signal(signal.SIGTERM, demo.ask_to_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` leaves it
            signal.signal(signal.SIGHUP, demo.ask_to_stop)
        try:
            demo.run(port)
        except _StopRequested:
            _say("\nending: its programs are stopped, the temporary folder is removed")
            return 0
        except _ExporterEndedError as error:
            say(f"runwatch demo: {error}")
            return 1
    raise AssertionError("the demo ends by a signal or with its exporter")


class _StopRequested(Exception):  # noqa: N818 - a wish, not a fault
    """The user wants the demo to end."""


class _ExporterEndedError(Exception):
    """The exporter ended by itself; the text tells what it said last."""


def _say(text: str) -> None:
    print(text, flush=True)


class _Demo:
    def __init__(self, folder: Path, children: Children, pages: Pages) -> None:
        self._folder = folder
        self._children = children
        self._pages = pages
        self._stop = False
        self._fleet: DemoFleet | None = None
        self._exporter: Child | None = None
        self._servers: list[Server] = []

    def ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        """Note the wish; it is heard at the next tick, so that nothing is left half done."""
        self._stop = True

    def run(self, port: int) -> None:
        """Start everything, tell about it, and go on until a signal.

        Raises:
            _StopRequested: as it should end.
            _ExporterEndedError: as it should not.
        """
        if (reason := why_port_is_not_free(port)) is not None:
            _say(f"port {port} cannot be used ({reason}): taking a free one")
            port = 0
        _say("starting the exporter on recorded jobs")
        self._fleet = write_fleet(self._folder, port, time.time())
        url, bound = self._start_exporter(self._fleet.config)
        manager = self._start_alertmanager() if prometheus.program() is not None else None
        scraper = self._start_prometheus(bound, manager)
        _say("\nThe exporter runs:\n" + guide.addresses(url, scraper, manager, self._fleet.config))
        print_tables(self._fleet.config, None, None, False)
        _say("\n" + guide.explanation(self._fleet.config, scraper, manager))
        _say("Ctrl-C ends all of it.")
        while True:
            self._tick()
            self._tell_pages()
            self._tell_ends()

    def _tell_pages(self) -> None:
        for text in self._pages.take():
            _say(f"\n{datetime.now(UTC):%H:%M:%S} UTC  {text}")

    def _tell_ends(self) -> None:
        for server in [server for server in self._servers if server.child.exit_code is not None]:
            self._servers.remove(server)
            _say(f"{server.name} ended by itself; the exporter goes on. Its last words:\n{server.child.log_tail()}")

    def _start_exporter(self, config: Path) -> tuple[str, int]:
        command = [sys.executable, "-P", "-m", "runwatch", "serve", "--config", str(config)]
        exporter = self._exporter = self._children.start(command, self._folder / "exporter.log")
        if not self._wait(lambda: _SERVING.search(exporter.log()) is not None, _START_SECONDS):
            raise _ExporterEndedError(f"the exporter did not start:\n{exporter.log_tail()}")
        serving = _SERVING.search(exporter.log())
        if serving is None:
            raise AssertionError("the line was there")
        port = int(serving[2])
        if not self._wait(lambda: answers(port, "/-/ready") is not None, _START_SECONDS):
            raise _ExporterEndedError(f"the exporter was not ready in {_START_SECONDS:g} s:\n{exporter.log_tail()}")
        return serving[1], port

    def _start_alertmanager(self) -> Server | None:
        program = alertmanager.program()
        if program is None:
            _say("no Alertmanager here: it is not installed (Debian: apt-get install prometheus-alertmanager)")
            return None
        _say("starting Alertmanager")
        folder = self._folder / "alertmanager"
        return self._started(alertmanager.start(self._children, program, folder, self._wait, pages_url=self._pages.url))

    def _start_prometheus(self, exporter_port: int, manager: Server | None) -> Server | None:
        program = prometheus.program()
        if program is None:
            _say("no Prometheus here: `prometheus` is not installed (Debian: apt-get install prometheus)")
            return None
        _say("starting Prometheus")
        folder = self._folder / "prometheus"
        started = prometheus.start(
            self._children, program, folder, self._wait, exporter_port=exporter_port, alertmanager=manager
        )
        return self._started(started)

    def _started(self, server: Server | str) -> Server | None:
        if isinstance(server, str):
            _say(server + "The demo goes on without it.")
            return None
        self._servers.append(server)
        return server

    def _wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() >= deadline:
                return False
            self._tick()
        return True

    def _tick(self) -> None:
        """Let a moment pass: the replayed jobs go on, and the ends of the demo are noticed."""
        if self._stop:
            raise _StopRequested
        if self._exporter is not None and self._exporter.exit_code is not None:
            raise _ExporterEndedError(
                f"the exporter ended by itself with exit code {self._exporter.exit_code}. Its last words:\n"
                f"{self._exporter.log_tail()}"
            )
        if self._fleet is not None:
            self._fleet.advance(time.time())
        time.sleep(_TICK_SECONDS)
