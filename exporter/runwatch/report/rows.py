"""Which job stands in which table, in which order: the tables as text cells, before they are drawn or made HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.derive.observation import has_ended
from runwatch.figures import MISSING, duration, percent, printable
from runwatch.measurements import JobReport
from runwatch.report.cell_formats import cell, largest_n
from runwatch.report.cells import View, job_name, percent_of_target, severity_rank
from runwatch.report.columns import (
    BRINGUP_TABLE,
    DATAGEN_TABLE,
    EVAL_TABLE,
    OTHER_TABLE,
    RL_TABLE,
    SFT_TABLE,
    TABLES,
    TRAINING_HEALTH_TABLE,
    TableKind,
)
from runwatch.report.grids import GridCell, grid_cells, long_pole

_OWN_TABLES = {"rl": RL_TABLE, "sft": SFT_TABLE, "datagen": DATAGEN_TABLE, "eval": EVAL_TABLE}
_TALLIED = (("running", "running"), ("pending", "pending"), ("done", "done"))
_ALSO_TALLIED = (("failed", "ended without success"), ("", "unknown"))


@dataclass(frozen=True, slots=True)
class Row:
    """One job's cells, in the order of the table's columns. Every cell is printable text."""

    report: JobReport
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilledTable:
    """One table with its rows, worst first, and the lines below it."""

    kind: TableKind
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def fill_tables(reports: Sequence[JobReport], now: float, *, bucket: str | None = None) -> tuple[FilledTable, ...]:
    """Return the tables that have rows, in the order in which they are shown.

    Every job stands in exactly one of RL, SFT, Datagen, Eval, Other and Bring-up; one with steps also in Training
    health.

    Args:
        reports: All jobs. Sites are named when these stand at more than one.
        now: Unix seconds, to tell which sources are blind.
        bucket: Only jobs of this bucket; None for all.
    """
    view = View(now, show_site=len({report.site for report in reports}) > 1)
    shown = order_worst_first([report for report in reports if bucket in {None, report.bucket}], view)
    members: dict[str, list[JobReport]] = {kind.key: [] for kind in TABLES}
    for report in shown:
        for kind in tables_of(report):
            members[kind.key].append(report)
    rl = members[RL_TABLE.key]
    notes = {RL_TABLE.key: (*_pass_at_notes(rl, view), *_shaping_notes(rl, view))}
    grids_below = SFT_TABLE if members[SFT_TABLE.key] else BRINGUP_TABLE  # a grid of which no cell runs yet
    notes[grids_below.key] = _grid_notes([report for report in shown if report.bucket == "sft"], view)
    return tuple(
        FilledTable(
            kind,
            tuple(
                Row(report, tuple(cell(report, column, view) for column in kind.columns))
                for report in members[kind.key]
            ),
            notes.get(kind.key, ()),
        )
        for kind in TABLES
        if members[kind.key]
    )


def order_worst_first(reports: Sequence[JobReport], view: View) -> list[JobReport]:
    """Return the jobs by their worst verdict, then by name."""
    return sorted(reports, key=lambda report: (severity_rank(report, view), report.run, report.site))


def tables_of(report: JobReport) -> tuple[TableKind, ...]:
    """Return the tables that a job stands in; the first is the one of its own."""
    has_steps = any(report.measurements.get(name) is not None for name in ("mljob_step", "mljob_rl_step"))
    own = _OWN_TABLES.get(report.bucket, OTHER_TABLE)
    if has_steps:
        return (own, TRAINING_HEALTH_TABLE)
    has_results = bool(report.measurements.get("mljob_trials"))
    if has_results or own is OTHER_TABLE or has_ended(report.measurements):
        return (own,)
    return (BRINGUP_TABLE,)


def _pass_at_notes(members: Sequence[JobReport], view: View) -> tuple[str, ...]:
    """Say what N is: pass@8 and pass@16 are not comparable."""
    jobs_by_n: dict[str, list[str]] = {}
    for report in members:
        series = report.measurements.family("mljob_rl_pass_at_n")
        if series:
            n = max(series, key=largest_n)[0]
            jobs_by_n.setdefault(printable(n), []).append(job_name(report, view))
    if not jobs_by_n:
        return ()
    if len(jobs_by_n) == 1:
        return (f"pass@N: N = {next(iter(jobs_by_n))}",)
    return tuple(f"pass@N: N = {n} for {', '.join(jobs)}" for n, jobs in sorted(jobs_by_n.items()))


def _shaping_notes(members: Sequence[JobReport], view: View) -> tuple[str, ...]:
    """Say which rewards must not be compared: those of shaped and of unshaped jobs."""
    rewarded = [report for report in members if report.measurements.get("mljob_rl_reward") is not None]
    by_shaping = {
        shaping: [job_name(report, view) for report in rewarded if report.info.get("shaping", "") == shaping]
        for shaping in ("on", "off")
    }
    if not all(by_shaping.values()):
        return ()
    shaped, base = (", ".join(by_shaping[shaping]) for shaping in ("on", "off"))
    return (f"rewards not comparable: {shaped} with {base}",)


def _grid_notes(members: Sequence[JobReport], view: View) -> tuple[str, ...]:
    cells = grid_cells(members)
    grids = sorted({cell.grid for cell in cells})
    return tuple(_grid_note(grid, [cell for cell in cells if cell.grid == grid], view) for grid in grids)


def _grid_note(grid: str, cells: Sequence[GridCell], view: View) -> str:
    """Sum a grid up: running cells with their share, distinct cells running, pending and done, and the long pole."""
    states = [cell.state for cell in cells]
    tally = [f"{states.count(state)} {word}" for state, word in _TALLIED]
    tally += [f"{count} {word}" for state, word in _ALSO_TALLIED if (count := states.count(state))]
    parts = [f"grid {printable(grid)}: {' / '.join(tally)}"]
    running = [cell.report for cell in cells if cell.state == "running"]
    if running:
        parts.append("running: " + ", ".join(f"{job_name(report, view)} {_share(report)}" for report in running))
    last = long_pole(cells)
    if last is not None:
        parts.append(f"long pole: {job_name(last[0].report, view)}, ETA {duration(last[1])}")
    return "; ".join(parts)


def _share(report: JobReport) -> str:
    share = percent_of_target(report)
    return MISSING if share is None else percent(share / 100, 1)
