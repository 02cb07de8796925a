"""The page: the tables' cells, no script, nothing that its content security policy forbids, hostile text as text."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from runwatch.report.page import CONTENT_SECURITY_POLICY, STYLE_SHA256, render_page
from runwatch.report.rows import fill_tables
from tests.unit.small_fleet import (
    NOW,
    Value,
    job,
    measure,
    nothing_measured,
    rl_seqnorm,
    sft_blind,
    sft_degraded,
    small_fleet,
)

VOID = {"meta"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed in order; collects tables, styles, tags and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.style = self.title = self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "style":
            self.style += data
        elif {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


def page(*args: object) -> Page:
    reports = list(args) or small_fleet()
    return Page(render_page(reports, NOW).decode())  # type: ignore[arg-type]


def test_the_page_has_the_tables_cells() -> None:
    made = page()
    filled = fill_tables(small_fleet(), NOW)
    assert len(made.tables) == len(filled) + 1
    for table, expected in zip(made.tables, filled, strict=False):
        assert table[0] == [column.title for column in expected.kind.columns]
        assert table[1:] == [list(row.cells) for row in expected.rows]
    assert "pass@N: N = 8" in made.text


def test_it_says_when_it_was_made_and_how_old_the_facts_are() -> None:
    made = page()
    assert "Made at 2026-03-01T12:00:00Z from the facts below. 9 jobs." in made.text
    assert made.tables[-1] == [
        ["Source", "Site", "Jobs", "Newest answer", "Oldest answer", "Not read lately"],
        ["checkpoints", "marin", "3", "10 s ago", "10 s ago (delphi-1e23-p33m67-k0p20-lr0.67-b6607e)", "0"],
        # Of five running jobs four were read ten seconds ago; the ended one is not asked any more.
        ["history", "marin", "5", "10 s ago", "23 min ago (cell-b)", "1"],
    ]


def test_a_source_that_never_answered_is_told() -> None:
    asked: dict[str, Value] = {"source_configured_timestamp_seconds": {"history": NOW - 60, "trials": NOW - 60}}
    read = job("read", "eval", measure(asked | {"observed_timestamp_seconds": {"history": NOW - 5}}, "running"))
    made = page(read, job("unread", "eval", measure(asked, "unknown")))
    assert made.tables[-1][1:] == [
        ["history", "marin", "2", "5 s ago", "never (unread)", "1"],
        ["trials", "marin", "2", "never", "never (read)", "2"],
    ]


def test_a_job_whose_next_link_waits_is_still_asked() -> None:
    values: dict[str, Value] = {"successor": {"77": 1}, "observed_timestamp_seconds": {"scheduler": NOW - 600}}
    made = page(job("chain", "sft", measure(values, "timeout")))
    assert made.tables[-1][1:] == [["scheduler", "marin", "1", "10 min ago", "10 min ago (chain)", "1"]]


def test_the_style_is_the_one_that_the_policy_names() -> None:
    made = page()
    digest = base64.b64encode(hashlib.sha256(made.style.encode()).digest()).decode()
    assert digest == STYLE_SHA256
    assert CONTENT_SECURITY_POLICY.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert "prefers-color-scheme: dark" in made.style


def test_nothing_is_run_or_loaded() -> None:
    made = page()
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & made.tags
    assert not {"style", "src", "onclick", "onload", "onerror"} & made.attributes
    assert made.links == ["https://wandb.ai/nyu-dice-lab/delphi/runs/b6607e"] * 2
    assert "viewport" in render_page([], NOW).decode()


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&amp;b", "</style></table>", "x\x00\x1b[1m"],
)
def test_hostile_text_stays_text(name: str) -> None:
    hostile = replace(rl_seqnorm(), run=name, site=name, bucket="sft", info={"grid": name, "kind": name})
    made = page(hostile, replace(sft_blind(), run=name + "2", site=name))
    assert not {"script", "img"} & made.tags
    assert "onerror" not in made.attributes
    shown = name.replace("\x00", "\\x00").replace("\x1b", "\\x1b")
    assert made.tables[0][2][0] == shown


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//evil.example", "", " https://x"])
def test_only_web_addresses_are_linked(url: str) -> None:
    assert page(replace(sft_degraded(), info={"url": url})).links == []


def test_a_quote_in_an_address_cannot_leave_the_attribute() -> None:
    made = page(replace(sft_degraded(), info={"url": 'https://x/" onclick="alert(1)'}))
    assert "onclick" not in made.attributes
    assert made.links[0] == 'https://x/" onclick="alert(1)'


def test_an_empty_fleet_and_an_unread_one() -> None:
    assert "No jobs." in Page(render_page([], NOW).decode()).text
    assert "No source has answered for a job that is not over." in page(nothing_measured()).text
