"""The tables as box-drawn text for a terminal or a chat, and as JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.box import SQUARE
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runwatch.figures import utc
from runwatch.measurements import JobReport
from runwatch.report.cells import View
from runwatch.report.grids import grid_cells
from runwatch.report.json_values import blind_json, metrics_json
from runwatch.report.rows import FilledTable, fill_tables, order_worst_first, tables_of
from runwatch.report.wrapping import wrap

_NARROWEST = 40  # no terminal is narrower, and no table can be drawn in less
_NAME_LEAST = 14  # a name is wrapped, never shortened, and to no less than this
_WORDS_LEAST = 20
_EDGE = 1
_PADDINGS = (1, 0)  # spaces on either side of a cell, the roomier first


@dataclass(frozen=True, slots=True)
class _Part:
    """Some columns of a table, by index, and the width of each."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    padding: int


def render_tables(
    reports: Sequence[JobReport],
    now: float,
    *,
    bucket: str | None = None,
    width: int = 120,
) -> str:
    """Return the tables of all buckets, box-drawn, no line wider than `width` columns of a terminal.

    Words and names are wrapped, figures never are. A table whose figures do not fit beside each other is drawn in
    several parts, each with the job's name.

    Args:
        reports: All jobs, in any order.
        now: Unix seconds, to tell which sources are blind.
        bucket: Only jobs of this bucket; None for all.
        width: Columns of the terminal; at least 40 are used.
    """
    filled = fill_tables(reports, now, bucket=bucket)
    if not filled:
        return "No jobs.\n" if bucket is None else f"No jobs of bucket {bucket}.\n"
    width = max(width, _NARROWEST)
    console = Console(
        file=StringIO(),
        width=width,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    return "\n".join(_draw(table, width, console) for table in filled)


def _draw(table: FilledTable, width: int, console: Console) -> str:
    parts = min((_parts(table, width, padding) for padding in _PADDINGS), key=len)
    blocks = []
    for number, part in enumerate(parts, start=1):
        mark = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        blocks.append(f"{table.kind.title}{mark}\n")
        with console.capture() as capture:
            console.print(_rich_table(table, part), no_wrap=True, crop=False, overflow="ignore")
        blocks.append(capture.get())
    blocks += ["".join(f"{line}\n" for line in wrap(note, width)) for note in table.notes]
    return "".join(blocks)


def _rich_table(table: FilledTable, part: _Part) -> Table:
    columns = [table.kind.columns[index] for index in part.columns]
    rows = [
        [
            wrap(row.cells[index], wide, only_at_commas=not column.is_text)
            for index, wide, column in zip(part.columns, part.widths, columns, strict=True)
        ]
        for row in table.rows
    ]
    # Lines between the rows keep jobs apart that take two lines or more.
    several_lines = any(len(lines) > 1 for row in rows for lines in row)
    drawn = Table(box=SQUARE, show_lines=several_lines, padding=(0, part.padding))
    for column, wide in zip(columns, part.widths, strict=True):
        drawn.add_column(Text("\n".join(wrap(column.title, wide))), width=wide, no_wrap=True, overflow="ignore")
    for row in rows:
        drawn.add_row(*(Text("\n".join(lines)) for lines in row))
    return drawn


def _longest(texts: Sequence[str]) -> int:
    return max((cell_len(text) for text in texts), default=0)


def _natural_width(table: FilledTable, index: int) -> int:
    return _longest([table.kind.columns[index].title, *(row.cells[index] for row in table.rows)])


def _least_width(table: FilledTable, index: int) -> int:
    """Return the width below which a column is not squeezed: a figure is never cut, a name and words are wrapped."""
    if table.kind.columns[index].is_text:
        return min(_NAME_LEAST if index == 0 else _WORDS_LEAST, _natural_width(table, index))
    figures = [piece for row in table.rows for piece in wrap(row.cells[index], 0, only_at_commas=True)]
    return _longest([*table.kind.columns[index].title.split(), *figures])


def _parts(table: FilledTable, width: int, padding: int) -> tuple[_Part, ...]:
    """Divide the columns over as few parts as fit the width, the name first in each."""
    least = [_least_width(table, index) for index in range(len(table.kind.columns))]
    overhead = _EDGE + 2 * padding
    groups: list[list[int]] = [[]]
    used = start = _EDGE + overhead + least[0]
    for index in range(1, len(least)):
        needed = overhead + least[index]
        if groups[-1] and used + needed > width:
            groups.append([])
            used = start
        groups[-1].append(index)
        used += needed
    room = [width - _EDGE - overhead * (1 + len(group)) for group in groups]
    return tuple(
        _Part((0, *group), _spread(table, (0, *group), least, spare), padding)
        for group, spare in zip(groups, room, strict=True)
    )


def _spread(table: FilledTable, indices: tuple[int, ...], least: Sequence[int], room: int) -> tuple[int, ...]:
    """Give what the least widths leave over to the columns that can use it.

    Figures come first: they are few characters short, and then stand on one line. Of what is left the name may take
    two thirds, or all that the words cannot use: words wrap well, names do not.
    """
    widths = {index: least[index] for index in indices}
    wanted = {index: _natural_width(table, index) - widths[index] for index in indices}
    spare = max(0, room - sum(widths.values()))
    texts = [index for index in indices if table.kind.columns[index].is_text]
    figures = sorted((index for index in indices if index not in texts), key=lambda index: wanted[index])
    kept_for_name = min(wanted[0], spare // 2)
    for index in figures:
        if wanted[index] <= spare - kept_for_name:
            widths[index] += wanted[index]
            spare -= wanted[index]
    name_share = min(wanted[0], max(2 * spare // 3, spare - sum(wanted[index] for index in texts if index != 0)))
    widths[0] += name_share
    spare -= name_share
    for index in texts:
        if index != 0:
            share = min(wanted[index], spare)
            widths[index] += share
            spare -= share
    return tuple(widths[index] for index in indices)


def tables_json(
    reports: Sequence[JobReport],
    now: float,
    bucket: str | None = None,
) -> str:
    """Return what the tables show as JSON, worst first: numbers as measured, under the metrics' own names.

    Each job has `run`, `bucket`, `site`, `tables` (keys of the tables it stands in), `info`, `verdicts` (`verdict`
    and `text`, worst first), `note`, `blind_sources` and `metrics`. A metric that was not measured has no key. `grids`
    has for each grid its distinct cells: `cell`, `run` (the job that stands for it), `site` and `state` (null where
    nothing tells).
    """
    shown = order_worst_first([r for r in reports if bucket in {None, r.bucket}], View(now))
    document = {
        "now": now,
        "now_utc": utc(now),
        "jobs": [_job_json(report, now) for report in shown],
        "grids": _grids_json(shown),
    }
    return json.dumps(document, ensure_ascii=True, indent=2, allow_nan=False) + "\n"


def _grids_json(reports: Sequence[JobReport]) -> dict[str, list[dict[str, str | None]]]:
    grids: dict[str, list[dict[str, str | None]]] = {}
    for cell in grid_cells(reports):
        entry = {"cell": cell.name, "run": cell.report.run, "site": cell.report.site, "state": cell.state or None}
        grids.setdefault(cell.grid, []).append(entry)
    return grids


def _job_json(report: JobReport, now: float) -> dict[str, object]:
    return {
        "run": report.run,
        "bucket": report.bucket,
        "site": report.site,
        "tables": [kind.key for kind in tables_of(report)],
        "info": dict(report.info),
        "verdicts": [{"verdict": verdict.word, "text": verdict.text} for verdict in report.verdicts],
        "note": next((entry.text for entry in report.evidence if entry.topic == "note"), ""),
        "blind_sources": blind_json(report, now),
        "metrics": metrics_json(report.measurements),
    }
