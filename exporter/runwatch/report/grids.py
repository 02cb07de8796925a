"""Grids: which cells of a sweep run, wait, are done or failed, each counted once, and which of them ends last.

A cell may have several jobs in the fleet: restart copies, and backups that wait behind the one that runs. They have the
cell's name, to which the fleet adds `@<site>` and `#<scheduler id>` where two would share one, and launchers words such
as `-restart2`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from runwatch.catalogue import ENDED_STATES, GRID_CELL_STATES, METRICS
from runwatch.exposition import escape_help, escape_label_value, format_value
from runwatch.measurements import JobReport

_COPY = re.compile(r"(?i)(?:[-_.](?:restart|resume|resumed|retry|chain|link|backup|copy)[-_.]?\d{0,6})+$")
_WAITING_STATES = frozenset({"pending", "preempted"})


@dataclass(frozen=True, slots=True)
class GridCell:
    """One cell of a grid. `report` is the job that stands for it, `state` a word of `GRID_CELL_STATES`.

    `state` is "" where nothing tells.
    """

    grid: str
    name: str
    state: str
    report: JobReport


def cell_name(report: JobReport) -> str:
    """Return the name of the cell that a job is of: the job's, without what tells its copies apart."""
    name = report.run
    at_site = f"@{report.site}"
    before, mark, after = name.rpartition(at_site)
    if mark and before and (not after or after.startswith("#")):
        name = before
    return _COPY.sub("", name) or name


def grid_cells(reports: Iterable[JobReport]) -> tuple[GridCell, ...]:
    """Return every distinct cell of every grid, by grid and name.

    Of a cell's copies the one that runs stands for it, else one that is done, else one that waits, else one that failed
    (where two are alike the first by name).
    """
    cells: dict[tuple[str, str], GridCell] = {}
    for report in sorted(reports, key=lambda report: (report.run, report.site)):
        grid = report.info.get("grid", "")
        if not grid:
            continue
        found = GridCell(grid, cell_name(report), cell_state(report), report)
        known = cells.get((grid, found.name))
        if known is None or _rank(found.state) < _rank(known.state):
            cells[grid, found.name] = found
    return tuple(cells[key] for key in sorted(cells))


def cell_state(report: JobReport) -> str:
    """Return the state of the cell that a job is of, "" where nothing tells.

    An ended link whose successor waits is no failure: its cell is pending.
    """
    state = report.measurements.one_hot("mljob_state")
    if state == "running":
        return "running"
    if state == "succeeded":
        return "done"
    if state in _WAITING_STATES or (state in ENDED_STATES and report.measurements.family("mljob_successor")):
        return "pending"
    return "failed" if state in ENDED_STATES else ""


_RANKED = ("running", "done", "pending", "failed", "")


def _rank(state: str) -> int:
    return _RANKED.index(state)


def long_pole(cells: Sequence[GridCell]) -> tuple[GridCell, float] | None:
    """Return the running cell that ends last and its ETA in seconds; None where no ETA is known."""
    timed = [
        (eta, cell)
        for cell in cells
        if cell.state == "running" and (eta := cell.report.measurements.get("mljob_eta_seconds")) is not None
    ]
    if not timed:
        return None
    eta, cell = max(timed, key=lambda pair: pair[0])
    return cell, eta


def grid_samples(reports: Iterable[JobReport]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield metric name, label values in the catalogue's order, and value: cells by grid, site and state; long poles.

    Each site of a grid has all states, so that a count that fell to 0 is seen as such.
    """
    by_grid: dict[str, list[GridCell]] = {}
    for cell in grid_cells(reports):
        by_grid.setdefault(cell.grid, []).append(cell)
    for grid, cells in by_grid.items():
        counts = Counter((cell.report.site, cell.state) for cell in cells)
        for site in sorted({cell.report.site for cell in cells}):
            for state in GRID_CELL_STATES:
                yield "runwatch_grid_cells", (grid, site, state), float(counts[site, state])
    for grid, cells in by_grid.items():
        found = long_pole(cells)
        if found is not None:
            yield "runwatch_grid_long_pole", (grid, found[0].report.run), found[1]


def render_grids(reports: Iterable[JobReport]) -> bytes:
    """Return the metrics of all grids in Prometheus text format 0.0.4, empty where there is no grid."""
    families: dict[str, list[str]] = {}
    for name, values, value in grid_samples(reports):
        pairs = zip(METRICS[name].labels, values, strict=True)
        labels = ",".join(f'{label}="{escape_label_value(text)}"' for label, text in pairs)
        families.setdefault(name, []).append(f"{name}{{{labels}}} {format_value(value)}\n")
    return "".join(
        f"# HELP {name} {escape_help(METRICS[name].help)}\n# TYPE {name} {METRICS[name].kind}\n{''.join(lines)}"
        for name, lines in families.items()
    ).encode()
