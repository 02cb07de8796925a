"""`runwatch serve`: polls for ever, publishes after each poll, reloads its config, ends cleanly."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from runwatch.config.faults import ConfigError
from runwatch.config.load import load_config
from runwatch.config.model import Config
from runwatch.contained import Contained
from runwatch.discovery import Finders, FleetFinder
from runwatch.ending import bound_the_end
from runwatch.exposition import Exposition
from runwatch.fleet import Fleet
from runwatch.found.shards import Shard
from runwatch.measurements import JobReport
from runwatch.merged_calls import MergedCalls
from runwatch.poller import Poller, PollLoop
from runwatch.remembered import Remembered
from runwatch.report.grids import render_grids
from runwatch.report.page import render_page
from runwatch.server.listening import Address
from runwatch.server.process import ReloadResult, ServerGoneError, ServerProcess
from runwatch.source_log import SourceLog
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch

_log = logging.getLogger(__name__)

_HEAR_SECONDS = 1.0
_STOP_SECONDS = 3.0
_RETIRE_SECONDS = 120.0
_PAGE_SECONDS = 5.0


class Service:
    """The exporter as a long-running program.

    Args:
        config_path: read again at each reload.
        config: what the file held at the start.
        shard: the part of the jobs that is watched here; None for all.
    """

    def __init__(self, config_path: Path, config: Config, shard: Shard | None = None) -> None:
        self._config_path = config_path
        self._config = self._started_with = config
        self._telemetry = Telemetry()
        self._remembered = Remembered(config.state_file, config.linger)
        self._watch = Watch(config, self._telemetry, remembered=self._remembered)
        self._sources = SourceSet(self._telemetry, progress=_log.info, log_paths=self._watch.log_paths)
        self._finder = FleetFinder(self._telemetry, self._remembered, shard=shard)
        self._fleet = Fleet(())
        self._discovered = threading.Event()
        self._look_now = threading.Event()
        self._exposition = Exposition()
        self._source_log = SourceLog()
        self._exposed: set[str] = set()
        self._publishing = threading.Lock()
        self._configuring = threading.RLock()
        self._ended = threading.Event()
        self._exit_code = 0
        self._ready = False
        self._page_made: float | None = None
        self._server = ServerProcess(self.reload, self._server_exited)
        # With thousands of jobs and dozens of sites each poll would wait for the bodies of all others to be made.
        self._poller = Poller(self._watch, MergedCalls(self.publish).call)

    def start(self) -> tuple[Address, ...]:
        """Start the server and the pollers; return the addresses that are served.

        Raises:
            ServerStartError: the address or the web configuration cannot be used.
        """
        addresses = self._server.start(self._config.listen, self._config.web_config, self._config.enable_lifecycle)
        self._telemetry.set_reload(True, time.time())
        self._apply(self._config, self._finder.current(self._config, time.time()))
        threading.Thread(target=self._discover_for_ever, name="discover", daemon=True).start()
        return addresses

    def wait(self) -> int:
        """Wait until `stop` is called or the server's process is gone; return the exit code."""
        # A signal is heard only when the main thread runs Python, and it does not wake this wait where the system gave
        # it to another thread, or gave it just before the wait began.
        while not self._ended.wait(_HEAR_SECONDS):
            pass
        bound_the_end()
        self._look_now.set()
        self._poller.stop(_STOP_SECONDS)
        self._server.stop()
        self._finder.close()
        self._sources.close()
        return self._exit_code

    def stop(self) -> None:
        """End the program; safe in a signal handler, which may have interrupted the very lock that the event takes."""
        threading.Thread(target=self._ended.set, name="stop", daemon=True).start()

    def ask_reload(self) -> None:
        """Reload in a thread of its own; safe in a signal handler."""
        threading.Thread(target=self.reload, name="reload", daemon=True).start()

    def reload(self) -> ReloadResult:
        """Read the config again. A bad one keeps the old one, and every fault of it is logged."""
        with self._configuring:
            try:
                config = load_config(self._config_path)
            except ConfigError as error:
                self._telemetry.set_reload(False, time.time())
                for fault in error.faults:
                    _log.error("config not reloaded: %s", fault)
                self.publish()
                return ReloadResult(False, "; ".join(str(fault) for fault in error.faults))
            for key in ("listen", "web_config", "enable_lifecycle", "state_file"):
                if getattr(config, key) != getattr(self._started_with, key):
                    _log.warning("%s is another than at the start: it takes effect at the next start", key)
            self._config = config
            self._telemetry.set_reload(True, time.time())
            self._apply(config, self._finder.current(config, time.time()))
        self._look_now.set()
        _log.info("config reloaded")
        self.publish()
        return ReloadResult(True)

    def publish(self) -> None:
        """Derive all reports, render what changed and hand the new bodies to the server."""
        with self._publishing:
            if self._ended.is_set():
                return
            # Asked before the reports are made: what a source brings from here on is not in them.
            all_tried = self._discovered.is_set() and self._poller.every_source_tried()
            reports = self._watch.reports(apart=True)
            self._source_log.note(self._watch.health)
            for report in reports:
                self._exposition.update(report)
            # What cannot be derived keeps its last values, and its observed times stand still.
            current = {report.run for report in reports} | (self._exposed & self._watch.unmeasured)
            for run in self._exposed - current:
                self._exposition.remove(run)
            self._exposed = current
            self._telemetry.set_series(self._exposition.series)
            try:
                self._server.publish(
                    self._exposition.render(self._telemetry.render(reproducible=False) + render_grids(reports))
                )
                self._publish_page(reports)
                if not self._ready and all_tried:
                    self._server.set_ready(True)
                    self._ready = True
            except ServerGoneError as error:
                _log.error("the server's process is gone: %s", error)
                self._server_exited(1)

    def _publish_page(self, reports: Sequence[JobReport]) -> None:
        """Render the page, at most every few seconds: people read it, and it costs more than the exposition."""
        now = time.monotonic()
        if self._page_made is None or now - self._page_made >= _PAGE_SECONDS or not self._ready:
            self._server.publish_page(render_page(reports, self._watch.now()))
            self._page_made = now

    def _apply(self, config: Config, fleet: Fleet) -> None:
        """Watch these jobs from now on, with the sources that they need."""
        with self._configuring:
            self._fleet = fleet
            self._telemetry.set_jobs_dropped(fleet.dropped)
            self._watch.set_jobs(config, fleet.jobs)
            stopped = self._poller.set_bindings(config, self._sources.bindings(config, fleet.jobs))
        if stopped:
            # A source is closed when its last poll is over, and nobody waits for that.
            threading.Thread(target=self._retire, args=(stopped,), name="retire", daemon=True).start()

    def _retire(self, stopped: Sequence[PollLoop]) -> None:
        for loop in stopped:
            loop.join(_RETIRE_SECONDS)
        self._sources.close_retired()

    def _discover_for_ever(self) -> None:
        while not self._ended.is_set():
            self._look_now.clear()
            with Contained("discovery"):
                self._discover()
            self._discovered.set()
            with Contained("publishing what discovery found"):
                self.publish()
            if not self._ended.is_set():
                self._look_now.wait(self._config.poll_interval)

    def _discover(self) -> None:
        with self._configuring:
            config = self._config
            finders = Finders(wandb=self._sources.runs_finder, schedulers=self._sources.scheduler_finders)
        if not config.discover:
            self._watch.note_blind(())
            self._remembered.save(config.linger)
            return
        fleet, _ = self._finder.look(config, finders, time.time())
        self._watch.note_blind(self._finder.blind)
        with self._configuring:
            if config is self._config and fleet != self._fleet:
                self._apply(config, fleet)

    def _server_exited(self, code: int) -> None:
        if not self._ended.is_set():
            _log.error("the server's process ended by itself with exit code %d", code)
            self._exit_code = 1
            self._ended.set()
