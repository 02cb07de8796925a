"""What each command of the command line does. Results go to stdout; progress and complaints to stderr."""

from __future__ import annotations

import difflib
import logging
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from runwatch.cli import EXIT_BAD_CONFIG, EXIT_SOURCE_FAILED
from runwatch.config.load import check
from runwatch.config.model import Config
from runwatch.exposition import Exposition
from runwatch.figures import printable
from runwatch.measurements import JobReport
from runwatch.one_shot import Look, look_once
from runwatch.report.grids import render_grids
from runwatch.terminal import say, write, write_bytes


def load_or_complain(path: Path) -> Config | None:
    """Read a config; print its warnings, or every fault of it and return None."""
    config, faults, warnings = check(path)
    for warning in warnings:
        say(f"warning: {warning}")
    for fault in faults:
        say(str(fault))
    return config


def _look(path: Path, at: float | None, runs: Sequence[str] = ()) -> Look | None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s: %(message)s")
    config = load_or_complain(path)
    return None if config is None else look_once(config, at=at, progress=say, runs=runs)


def _exit_code(look: Look) -> int:
    for failure in look.failed:
        say(f"could not look: {printable(failure)}")
    return EXIT_SOURCE_FAILED if look.failed else 0


def print_metrics(path: Path, at: float | None) -> int:
    """Print the exposition once; with `at` two outputs are the same byte for byte."""
    look = _look(path, at)
    if look is None:
        return EXIT_BAD_CONFIG
    exposition = Exposition()
    for report in look.reports:
        exposition.update(report)
    look.telemetry.set_series(exposition.series)
    body = exposition.render(look.telemetry.render(reproducible=at is not None) + render_grids(look.reports))
    write_bytes(body.plain)
    return _exit_code(look)


def print_tables(path: Path, at: float | None, bucket: str | None, as_json: bool) -> int:
    """Print the tables, or all measurements as JSON."""
    from runwatch.report.tables import render_tables, tables_json

    look = _look(path, at)
    if look is None:
        return EXIT_BAD_CONFIG
    if as_json:
        write(tables_json(look.reports, look.now, bucket) + "\n")
    else:
        width = shutil.get_terminal_size((120, 40)).columns
        write(render_tables(look.reports, look.now, bucket=bucket, width=width) + "\n")
    return _exit_code(look)


def _chosen(look: Look, runs: Sequence[str]) -> list[JobReport] | None:
    """Return the reports of the named jobs, or of all; None, after saying why, where one of them has none."""
    known = {report.run: report for report in look.reports}
    missing = [run for run in runs if run not in known]
    for run in missing:
        if run in look.no_longer_shown:
            say(f"job {run!r} ended longer ago than `linger` says, and is not shown any more")
            continue
        near = difflib.get_close_matches(run, known, n=1)
        hint = f" (did you mean {printable(near[0])}?)" if near else ""
        say(f"no job is named {run!r}{hint}; known are: {', '.join(map(printable, sorted(known))) or 'none'}")
    return None if missing else [known[run] for run in runs] or list(look.reports)


def _exit_code_of_missing(look: Look) -> int:
    """Where jobs could not be looked up, one that is not known may be there all the same."""
    return _exit_code(look) if look.may_lack_jobs else EXIT_BAD_CONFIG


def print_lines(path: Path, at: float | None, runs: Sequence[str]) -> int:
    """Print the compact line of the named jobs, or of all."""
    from runwatch.report.line import compact_line

    look = _look(path, at, runs)
    if look is None:
        return EXIT_BAD_CONFIG
    chosen = _chosen(look, runs)
    if chosen is None:
        return _exit_code_of_missing(look)
    write("".join(compact_line(report, look.now) + "\n" for report in chosen))
    return _exit_code(look)


def print_explanation(path: Path, at: float | None, run: str, as_json: bool) -> int:
    """Print the evidence behind one job's numbers."""
    from runwatch.report.explain import explain_json, explain_text

    look = _look(path, at, [run])
    if look is None:
        return EXIT_BAD_CONFIG
    chosen = _chosen(look, [run])
    if chosen is None:
        return _exit_code_of_missing(look)
    write((explain_json if as_json else explain_text)(chosen[0], look.now) + "\n")
    return _exit_code(look)


def serve(path: Path, shard_text: str | None = None) -> int:
    """Serve until SIGTERM or SIGINT; SIGHUP reloads the config.

    Args:
        path: The config file.
        shard_text: `INDEX/COUNT`, to watch only that part of the jobs; None for all.
    """
    from runwatch.found.shards import Shard, ShardError
    from runwatch.server.listening import ServerStartError
    from runwatch.service import Service

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # one line a request is not news
    try:
        shard = None if shard_text is None else Shard.parse(shard_text)
    except ShardError as error:
        say(f"runwatch serve: {error}")
        return EXIT_BAD_CONFIG
    config = load_or_complain(path)
    if config is None:
        return EXIT_BAD_CONFIG
    service = Service(path, config, shard)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    signal.signal(signal.SIGHUP, lambda *_: service.ask_reload())
    try:
        addresses = service.start()
    except ServerStartError as error:
        say(f"runwatch serve: {error}")
        return 1
    for address in addresses:
        say(f"serving {address.url}")
    return service.wait()
