"""Cutting a log's bytes into fragments: prefixes, bars without an end, any division of the bytes."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.parsing.log_lines import LogSplitter
from runwatch.parsing.log_records import LogFragment

LOGS = Path(__file__).parents[1] / "data" / "logs"
WRITTEN = datetime(2026, 11, 29, 18, 0, tzinfo=UTC).timestamp()


def split(data: bytes, *, starts_mid_line: bool = False) -> list[LogFragment]:
    splitter = LogSplitter(file_time=WRITTEN, starts_mid_line=starts_mid_line)
    return splitter.feed(data) + splitter.finish()


def texts(data: bytes, *, starts_mid_line: bool = False) -> list[str]:
    return [fragment.text for fragment in split(data, starts_mid_line=starts_mid_line)]


def test_ends_of_fragments() -> None:
    data = b"one\ntwo\r\nthree\rfour\x1b[Afive\x1b[12Asix\r\r\nseven"
    assert texts(data) == ["one", "two", "three", "four", "five", "six", "seven"]
    assert [fragment.bar for fragment in split(data)] == [False, False, True, True, True, False, False]


def test_prefixes_are_stripped_and_hold_to_the_end_of_the_line() -> None:
    data = (
        b"\x1b[36m(skyrl_entrypoint pid=6935, ip=10.0.0.2)\x1b[0m \rTrain:  50%|##  | 1/2 [00:01<00:01,  1.00s/it]\n"
        b"[rank3]: Traceback (most recent call last):\n"
        b" 7: [rank5]: inner wins\n"
        b"12: from srun\n"
        b"(Worker pid=9) loaded [repeated 7x across cluster] (Ray deduplicates logs by default. See https://x.)\n"
        b"no prefix: 3: at all\n"
    )
    assert [(fragment.text, fragment.rank, fragment.actor) for fragment in split(data)] == [
        ("Train:  50%|##  | 1/2 [00:01<00:01,  1.00s/it]", None, "skyrl_entrypoint"),
        ("Traceback (most recent call last):", 3, ""),
        ("inner wins", 5, ""),
        ("from srun", 12, ""),
        ("loaded", None, "Worker"),
        ("no prefix: 3: at all", None, ""),
    ]


def test_a_bar_is_cut_from_what_is_printed_behind_it() -> None:
    bar = "  5%|▌     | 1/20 [00:02<00:38,  2.00s/it]"
    data = f"\r{bar}\x1b[32m2026-11-29 17:45:06.191\x1b[0m | INFO     | a:b:1 - Started: 'step'\n".encode()
    found = split(data)
    assert [fragment.text for fragment in found] == [
        bar.strip(),
        "2026-11-29 17:45:06.191 | INFO     | a:b:1 - Started: 'step'",
    ]
    assert [fragment.bar for fragment in found] == [True, False]
    assert found[1].time == datetime(2026, 11, 29, 17, 45, 6, 191000, UTC).timestamp()


def test_the_newest_bar_needs_no_end() -> None:
    splitter = LogSplitter()
    assert splitter.feed(b"{'loss': 1.5}\n\r 80%|####| 40/50 [00:10<00:02,") == [LogFragment("{'loss': 1.5}")]
    assert splitter.feed(b" 4.00it/s") == []
    assert splitter.feed(b"]") == [LogFragment("80%|####| 40/50 [00:10<00:02, 4.00it/s]", bar=True)]
    assert splitter.feed(b"\r") + splitter.feed(b"\r 82%|####| 41/50 [00:11<00:02, 4.00it/s]") == [
        LogFragment("82%|####| 41/50 [00:11<00:02, 4.00it/s]", bar=True)
    ]
    assert splitter.finish() == []


def test_a_start_inside_a_line_and_a_character() -> None:
    assert texts("█ 40/50]\nwhole".encode()[1:], starts_mid_line=True) == ["whole"]
    assert texts(b"no end at all", starts_mid_line=True) == []
    assert texts("a\nb█".encode()[:-1]) == ["a", "b�"]


def test_a_huge_line_costs_a_bounded_buffer_and_is_counted() -> None:
    splitter = LogSplitter()
    found: list[LogFragment] = []
    for _ in range(64):
        found += splitter.feed(b"x" * (1 << 20))
    found += splitter.feed(b"\nnext\n")
    assert [len(fragment.text) for fragment in found] == [64 * 1024, 4]
    assert splitter.dropped_bytes == 64 * (1 << 20) - 64 * 1024


def test_real_captures_have_their_bars_and_lines() -> None:
    found = split((LOGS / "sft" / "sft_llamafactory095_tf56.out").read_bytes())
    bars = [fragment.text for fragment in found if "/50 [" in fragment.text]
    assert bars[-1].startswith("100%|") and "| 50/50 [00:03<00:00" in bars[-1]
    losses = [fragment.text for fragment in found if fragment.text.startswith("{'loss'")]
    assert len(losses) == 10
    assert losses[-1].startswith("{'loss': '3.117', 'grad_norm': '0.4405'")
    console = split((LOGS / "rl" / "rl_ray_console_shape.out").read_bytes())
    assert not any("\x1b" in fragment.text or "pid=" in fragment.text for fragment in console)
    assert {fragment.actor for fragment in console if "Training Batches" in fragment.text} == {"skyrl_entrypoint"}


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"\r", b"\n", b"\r\n", b"\x1b[A", b"\x1b[1A", b"\x1b[", b"\x1b", b"[36m", b"\x1b[0m", b"\x1b]8;;",
                b"\x07",
                b"(a pid=1) ", b"[rank2]: ", b"3: ", b"[repeated 7x across cluster]",
                b" (Ray deduplicates logs by default.)",
                b" 50%|##  | 1/2 [00:01<00:01, 1.00s/it", b"]", b"Train: ", "█".encode(), b"\xe2\x96",
                b"2026-11-29 17:45:06.191 | x",
                b"W1129 17:51:30.032000 1 a] b", b" ", b"text",
            ]
        ),
        st.binary(max_size=12),
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=300)
@given(pieces=PIECES, cuts=st.lists(st.integers(min_value=0, max_value=400), max_size=8), mid_line=st.booleans())
def test_wherever_the_bytes_are_divided_the_fragments_are_the_same(
    pieces: list[bytes], cuts: list[int], mid_line: bool
) -> None:
    data = b"".join(pieces)
    whole = split(data, starts_mid_line=mid_line)
    splitter = LogSplitter(file_time=WRITTEN, starts_mid_line=mid_line)
    found: list[LogFragment] = []
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(bounds):
        found += splitter.feed(data[start:end])
    assert found + splitter.finish() == whole
    one_by_one = LogSplitter(file_time=WRITTEN, starts_mid_line=mid_line)
    found = [fragment for place in range(len(data)) for fragment in one_by_one.feed(data[place : place + 1])]
    assert found + one_by_one.finish() == whole
    assert all(fragment.text.strip() for fragment in whole)


@pytest.mark.parametrize(
    "unit", [b"\r", b"\x1b", b"\x1b[", b"%|", b"a: ", b"(x ", b"[repeated ", b"1%|a|1/2 [0:0<0, ", b"\xe2", b"\x1b]"]
)
def test_takes_linear_time_on_text_made_to_be_slow(unit: bytes) -> None:
    def seconds(size: int) -> float:
        data = (unit * (size // len(unit) + 1))[:size] + b"\n"
        started = time.process_time()
        split(data)
        return time.process_time() - started

    seconds(10_000)
    small, large = min(seconds(50_000) for _ in range(3)), min(seconds(800_000) for _ in range(2))
    assert large < 16 * small * 4 + 0.2
