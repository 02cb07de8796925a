"""No text makes a parser of logs raise, loop, or take more than linear time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.parsing.failures import FailureFinder, most_telling
from runwatch.parsing.harbor_console import parse_frame
from runwatch.parsing.log_records import LogFragment, LogRow
from runwatch.parsing.log_values import log_number, scan_pairs
from runwatch.parsing.progress_bars import split_bar
from runwatch.parsing.trainer_log import TrainerLogParser
from runwatch.parsing.trainer_log_jsonl import read_end
from tests.unit.log_fragments import capture, fragments_of

NAMES = (
    "sft/hf_trainer_tf4571_resumed.out",
    "sft/hf_trainer_tf4571_nan.out",
    "levanter/progress_resumed.out",
    "levanter/progress_shortened.out",
)
CAPTURES = {name: capture(name) for name in NAMES}
PIECES = st.sampled_from(
    [
        *(
            "{'loss': ",
            "'5.8'",
            ", 'grad_norm': nan",
            ", 'epoch': 0.1}",
            "{'eval_loss': 1.0, 'epoch': 1}",
            "}",
            "'",
            "\r",
        ),
        *(
            "***** Running training *****",
            "  Total optimization steps = 50",
            " 10%|█ | 5/50 [00:01<00:09,  5.00it/s]",
            "\n",
        ),
        *("2026-11-29 17:45:07.397 | INFO     | a:b:1 - ", "Step 15: ", "reward/avg_raw_reward: 0.5", "(skyrl pid=1) "),
        *(
            "WANDB_MIRROR kind=train step=2 metrics=",
            '{"a/b": 1.0}',
            "Training Step Progress:  1%|| 1/9 [00:01<?, ?it/s]",
        ),
        *("Progress on:train ", "326it/3.00kit rate:- remaining:? elapsed:00:01 postfix:loss=1", "[rank3]: ", "\x1b[A"),
        *(
            "Traceback (most recent call last):",
            "ValueError: x",
            "Root Cause (first observed failure):",
            "  exitcode  : -9 ",
        ),
        *(
            "5/16 Mean: 0.5",
            "slurmstepd: error: *** JOB 1 ON vm CANCELLED AT x DUE TO ",
            "99999999999999999999",
            " ",
            "é",
        ),
    ]
)


def all_parsers(fragments: list[LogFragment]) -> None:
    parser = TrainerLogParser()
    rows = parser.feed(fragments) + parser.finish()
    assert all(row.step >= 0 for row in rows)
    assert parser.unparsed <= len(fragments) + 1
    finder = FailureFinder()
    finder.feed(fragments)
    most_telling(finder.failures)
    for fragment in fragments:
        parse_frame(fragment.text)
        scan_pairs(fragment.text)
        log_number(fragment.text)
        split_bar(fragment.text)


@given(st.lists(PIECES | st.text(max_size=8), max_size=60))
def test_pieces_of_real_lines_in_any_order(pieces: list[str]) -> None:
    all_parsers(fragments_of("".join(pieces)))


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    all_parsers(fragments_of(data))
    read_end(data.splitlines(keepends=True))


@given(
    st.lists(st.builds(LogFragment, st.text(max_size=40), st.none() | st.integers(0, 9), st.sampled_from(["", "a"])))
)
def test_any_fragments(fragments: list[LogFragment]) -> None:
    all_parsers(fragments)


def told(name: str, rows: list[LogRow]) -> set[tuple[int | str, str, str]]:
    """Return each value with its step; where only a rounded count is printed, with that count."""
    rounded = name == "levanter/progress_shortened.out"
    return {
        (f"{(row.step + 6) // 10} tens" if rounded and row.step >= 999 else row.step, key, repr(value))
        for row in rows
        for key, value in row.values.items()
        if not (rounded and key == "run_progress")
    }


@given(st.data())
@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_made_up_where_a_part_is_left_out(name: str, data: st.DataObject) -> None:
    fragments = CAPTURES[name]
    begin = data.draw(st.integers(0, len(fragments)))
    end = data.draw(st.integers(begin, len(fragments)))
    true = told(name, TrainerLogParser().feed(fragments))
    parser = TrainerLogParser()
    rows = parser.feed(fragments[:begin])
    parser.skip()
    rows += parser.feed(fragments[end:])
    assert told(name, rows) <= true


HOSTILE = {
    "spaces": " ",
    "open braces": "{",
    "quotes": "'",
    "pairs": "{'loss': 1.0, ",
    "pair starts": "'a': ",
    "digits": "9",
    "digits and commas": "9,",
    "colons": "a: ",
    "percent bars": "1%|",
    "bars": " 10%|█ | 5/50 [00:01<00:09,  5.00it/s]",
    "dots": "a.",
    "rewards": "reward/a: 1, ",
    "parentheses": "(",
    "stars": "*",
    "stamps": "2026-11-29 17:45:07.397 | INFO     | a:b:1 - ",
    "signs": ">> ",
    "exceptions": "aError: ",
    "memory": "memory NCCL timed out node ",
    "nested json": 'WANDB_MIRROR kind=train step=1 metrics={"a":',
    "secrets": "token ",
}


HEADS = ("", "{'loss': 1.0, ", "2026-11-29 17:45:07.397 | INFO     | a:b:1 - ", "[INFO|x.py:1] ", "slurmstepd: error: ")


def work_on(piece: str, length: int) -> Callable[[], None]:
    fragments = [LogFragment(head + piece * (length // len(piece))) for head in HEADS]
    opened = [LogFragment("Traceback (most recent call last):"), *fragments]

    def work() -> None:
        all_parsers(fragments)
        all_parsers(opened)

    return work


def seconds(work: Callable[[], None]) -> float:
    """Return the least processor time of a few tries."""
    tries = []
    for _ in range(3):
        begun = time.process_time()
        work()
        tries.append(time.process_time() - begun)
    return min(tries)


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_length_of_a_line_and_not_with_its_square(name: str) -> None:
    short, long = seconds(work_on(HOSTILE[name], 125_000)), seconds(work_on(HOSTILE[name], 1_000_000))
    assert long < 24 * max(short, 0.005)  # 8 times as long; with the square it would be 64 times as much
