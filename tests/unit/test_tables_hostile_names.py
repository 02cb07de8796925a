"""Names are upstream text: no name may move the cursor, colour the terminal, be read as markup or look like another."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from runwatch.figures import printable
from runwatch.measurements import JobReport
from runwatch.report.line import compact_line
from runwatch.report.tables import render_tables
from runwatch.report.wrapping import wrap
from tests.unit.small_fleet import NOW, job, measure


def named(run: str) -> JobReport:
    return job(run, "sft", measure({"step": 3, "target_step": 9}, "running", "stepping"), [("stable", "stable")])


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r\t", "two\\x0alines\\x0d\\x09"),
        ("[bold]not[/bold] [link=x]", "[bold]not[/bold] [link=x]"),
        (":skull: a", ":skull: a"),
        ("right\u202eto-left", "right\\u202eto-left"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone\ud800surrogate", "lone\\ud800surrogate"),
        ("back\\slash", "back\\\\slash"),
        ("line\u2028separator", "line\\u2028separator"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("grüße-模型-ж", "grüße-模型-ж"),
        ('quote"and│bar', 'quote"and│bar'),
    ],
)
def test_hostile_names_are_shown_harmless(run: str, shown: str) -> None:
    text = render_tables([named(run)], NOW, bucket=None, width=200)
    assert f"│ {shown} " in text
    assert compact_line(named(run), NOW).startswith(f"{shown} state=running step=3/9 (33.3%)")


@settings(max_examples=60)
@given(run=st.text(min_size=1, max_size=120), width=st.integers(40, 130))
def test_any_name_keeps_the_table_whole(run: str, width: int) -> None:
    text = render_tables([named(run)], NOW, bucket=None, width=width)
    lines = text.split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert all(line[:1] in {"", "┌", "├", "└", "│", "S", "T"} for line in lines)
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in text.replace("\n", ""))


@given(left=st.text(max_size=8), right=st.text(max_size=8))
def test_different_names_look_different(left: str, right: str) -> None:
    assert (printable(left) == printable(right)) is (left == right)


def test_a_long_name_is_shown_whole() -> None:
    run = "delphi-" + "0123456789" * 12
    rows = [line.split("│")[1].strip() for line in render_tables([named(run)], NOW, bucket="sft", width=80).splitlines()
            if line.startswith("│")]  # fmt: skip
    assert run in "".join(rows)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("history not read for 23 min", 24, ["history not read for", "23 min"]),
        ("entropy −34 % vs trend", 11, ["entropy", "−34 % vs", "trend"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh", "ij"]),
        ("模型模型", 5, ["模型", "模型"]),
        ("", 5, [""]),
    ],
)
def test_wrapping_keeps_a_number_with_its_unit(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


def test_figures_are_wrapped_at_commas_only() -> None:
    assert wrap("12 / 7.20 h, 1 unexplained", 13, only_at_commas=True) == ["12 / 7.20 h,", "1 unexplained"]
    assert wrap("1,234,567 8", 3, only_at_commas=True) == ["1,234,567 8"]
