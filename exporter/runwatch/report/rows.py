"""Which job stands in which table, in which order: the tables as text cells, before they are drawn or made HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runwatch.derive.observation import NO_INTERVALS, Intervals, has_ended
from runwatch.figures import MISSING, duration, printable
from runwatch.measurements import JobReport
from runwatch.report.cells import View, cell, job_name, largest_n, percent_of_target, severity_rank
from runwatch.report.columns import (
    BRINGUP_TABLE,
    OTHER_TABLE,
    RL_TABLE,
    SFT_TABLE,
    TABLES,
    TRAINING_HEALTH_TABLE,
    TableKind,
)

_TRAINING_TABLES = {"rl": RL_TABLE, "sft": SFT_TABLE}
_WAITING_STATES = frozenset({"pending", "preempted"})


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


def fill_tables(
    reports: Sequence[JobReport], now: float, *, bucket: str | None = None, intervals: Intervals = NO_INTERVALS
) -> tuple[FilledTable, ...]:
    """Return the tables that have rows, in the order in which they are shown.

    Every job stands in exactly one of RL, SFT, Other and Bring-up; a training job with steps also in Training health.

    Args:
        reports: All jobs. Sites are named when these stand at more than one.
        now: Unix seconds, to tell which sources are blind.
        bucket: Only jobs of this bucket; None for all.
        intervals: Seconds between polls by source, for the same.
    """
    view = View(now, intervals, show_site=len({report.site for report in reports}) > 1)
    shown = order_worst_first([report for report in reports if bucket in {None, report.bucket}], view)
    members: dict[str, list[JobReport]] = {kind.key: [] for kind in TABLES}
    for report in shown:
        for kind in tables_of(report):
            members[kind.key].append(report)
    notes = {RL_TABLE.key: _pass_at_notes(members[RL_TABLE.key], view)}
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
    phase = report.measurements.one_hot("mljob_phase")
    training = _TRAINING_TABLES.get(report.bucket)
    if has_steps:
        return (training or OTHER_TABLE, TRAINING_HEALTH_TABLE)
    if has_ended(report.measurements):
        return (training or OTHER_TABLE,)
    if training is not None or (report.bucket != "other" and phase in {"queued", "bringup"}):
        return (BRINGUP_TABLE,)
    return (OTHER_TABLE,)


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


def _grid_notes(members: Sequence[JobReport], view: View) -> tuple[str, ...]:
    grids = sorted({grid for report in members if (grid := report.info.get("grid", ""))})
    return tuple(_grid_note(grid, members, view) for grid in grids)


def _grid_note(grid: str, members: Sequence[JobReport], view: View) -> str:
    """Sum a grid up: running cells with their share, cells running, pending and done, and the long pole."""
    cells = [report for report in members if report.info.get("grid", "") == grid]
    states = [report.measurements.one_hot("mljob_state") for report in cells]
    running = [report for report, state in zip(cells, states, strict=True) if state == "running"]
    counts = {
        "running": len(running),
        "pending": sum(state in _WAITING_STATES for state in states),
        "done": states.count("succeeded"),
    }
    others = {
        "ended without success": sum(state in {"failed", "timeout", "killed", "vanished"} for state in states),
        "unknown": sum(state in {None, "unknown"} for state in states),
    }
    tally = [f"{count} {word}" for word, count in counts.items()]
    tally += [f"{count} {word}" for word, count in others.items() if count]
    parts = [f"grid {printable(grid)}: {' / '.join(tally)}"]
    if running:
        parts.append("running: " + ", ".join(f"{job_name(report, view)} {_share(report)}" for report in running))
    last = _long_pole(running)
    if last is not None:
        parts.append(f"long pole: {job_name(last, view)}, ETA {duration(_eta(last))}")
    return "; ".join(parts)


def _share(report: JobReport) -> str:
    share = percent_of_target(report)
    return MISSING if share is None else f"{share:.1f} %"


def _eta(report: JobReport) -> float:
    return report.measurements.get("mljob_eta_seconds") or 0.0


def _long_pole(running: Sequence[JobReport]) -> JobReport | None:
    timed = [report for report in running if report.measurements.get("mljob_eta_seconds") is not None]
    return max(timed, key=_eta, default=None)
