"""The tables as one HTML page: no script, no request to anywhere, readable on a phone, dark or light by preference."""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from runwatch.derive.observation import blind_limit, is_asked
from runwatch.figures import MISSING, duration, printable, utc
from runwatch.measurements import JobReport
from runwatch.report.columns import CellFormat, Column
from runwatch.report.rows import FilledTable, Row, fill_tables

_STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --ground: #ffffff; --line: #b8b8b8; --quiet: #595959; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --ground: #161616; --line: #4d4d4d; --quiet: #a6a6a6; }
}
body { margin: 1rem; background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
p { margin: .3rem 0; color: var(--quiet); }
a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
thead th { white-space: nowrap; }
td.figure { white-space: nowrap; }
td.words { min-width: 14rem; }
tbody th { font-weight: 600; min-width: 9rem; overflow-wrap: anywhere; }
"""

STYLE_SHA256 = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
"""Base64 of the SHA-256 of the page's only style sheet, as a content security policy names it."""

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_SHA256}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The header under which the page works: it loads nothing and runs nothing."""


_NEVER = -math.inf


def render_page(reports: Sequence[JobReport], now: float) -> bytes:
    """Return the page as UTF-8: the same tables as in the terminal, when it was made, and how old the facts are.

    Args:
        reports: All jobs, in any order.
        now: Unix seconds: when the page is made.
    """
    tables = fill_tables(reports, now)
    body = "".join(_table(table) for table in tables) or "<p>No jobs.</p>\n"
    document = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>runwatch</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>runwatch</h1>\n"
        f"<p>Made at {_time(now)} from the facts below. {len(reports)} jobs. "
        f"{MISSING} is what was not measured.</p>\n"
        f"{body}{_sources(reports, now)}</body>\n</html>\n"
    )
    return document.encode()


def _time(timestamp: float) -> str:
    text = escape(utc(timestamp))
    return f'<time datetime="{text}">{text}</time>'


def _table(table: FilledTable) -> str:
    heads = "".join(f'<th scope="col">{escape(column.title)}</th>' for column in table.kind.columns)
    rows = "".join(_row(table, row) for row in table.rows)
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in table.notes)
    title = escape(table.kind.title)
    return (
        f'<h2>{title}</h2>\n<div class="wide"><table>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table></div>\n{notes}"
    )


def _row(table: FilledTable, row: Row) -> str:
    cells = zip(table.kind.columns, row.cells, strict=True)
    return f"<tr>{''.join(_cell(column, text, row.report) for column, text in cells)}</tr>\n"


def _cell(column: Column, text: str, report: JobReport) -> str:
    if column.format is CellFormat.NAME:
        return f'<th scope="row">{_linked(escape(text), report.info.get("url", ""))}</th>'
    kind = "words" if column.is_text else "figure"
    return f'<td class="{kind}">{escape(text)}</td>'


def _linked(name: str, url: str) -> str:
    """Link a name to the job's own page, where that is a web address: upstream text may say anything."""
    if not url.startswith(("https://", "http://")):
        return name
    return f'<a href="{escape(printable(url))}" rel="noopener noreferrer">{name}</a>'


def _ago(now: float, seen: float) -> str:
    return "never" if seen == _NEVER else f"{duration(max(0.0, now - seen))} ago"


def _sources(reports: Sequence[JobReport], now: float) -> str:
    """Say how old each source's facts are, at each site: the newest answer for any job, and the oldest.

    One that never answered for a job stands there too, its answer older than any. Jobs that are over are left out: they
    are not asked any more.
    """
    answers: dict[tuple[str, str], list[tuple[float, str]]] = {}
    blind: Counter[tuple[str, str]] = Counter()
    for report in reports:
        if not is_asked(report.measurements):
            continue
        answered = report.measurements.family("mljob_observed_timestamp_seconds")
        for (source,) in {*answered, *report.measurements.family("mljob_source_configured_timestamp_seconds")}:
            seen = answered.get((source,), _NEVER)
            answers.setdefault((source, report.site), []).append((seen, report.run))
            blind[source, report.site] += now - seen > blind_limit(source, report.intervals)
    if not answers:
        return "<h2>Sources</h2>\n<p>No source has answered for a job that is not over.</p>\n"
    rows = []
    for (source, site), found in sorted(answers.items()):
        newest, (oldest, oldest_run) = max(found)[0], min(found)
        cells = (
            printable(site),
            str(len(found)),
            _ago(now, newest),
            f"{_ago(now, oldest)} ({printable(oldest_run)})",
            str(blind[source, site]),
        )
        figures = "".join(f'<td class="figure">{escape(text)}</td>' for text in cells)
        rows.append(f'<tr><th scope="row">{escape(printable(source))}</th>{figures}</tr>\n')
    titles = ("Source", "Site", "Jobs", "Newest answer", "Oldest answer", "Not read lately")
    heads = "".join(f'<th scope="col">{title}</th>' for title in titles)
    return (
        f'<h2>Sources</h2>\n<div class="wide"><table>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{''.join(rows)}</tbody>\n</table></div>\n"
    )
