"""`trainer_state.json`, `trainer_log.jsonl` and Harbor's console."""

from __future__ import annotations

import json
import math

import pytest

from runwatch.parsing.harbor_console import ConsoleProgress, HarborConsole, HarborFrame, latest_frame, parse_frame
from runwatch.parsing.history_rows import MalformedRow
from runwatch.parsing.trainer_log import TrainerLogParser
from runwatch.parsing.trainer_log_jsonl import TrainerLogEnd, read_end
from runwatch.parsing.trainer_state import parse_trainer_state
from tests.unit.log_fragments import LOGS, capture


def test_a_real_state_holds_rows_in_full_precision() -> None:
    state = parse_trainer_state((LOGS / "sft/trainer_state_checkpoint-80.json").read_bytes())
    assert (state.global_step, state.max_steps, state.save_steps, state.malformed) == (80, 80, 30, 0)
    assert [row.step for row in state.rows if "train/loss" in row.values] == list(range(5, 81, 5))
    assert [row.step for row in state.rows if "eval/loss" in row.values] == [20, 40, 60, 80]
    assert state.rows[0].values == {
        "train/loss": 5.5727,
        "train/grad_norm": 0.8428071737289429,
        "train/learning_rate": 0.0038,
        "train/epoch": 0.125,
    }


def test_the_state_and_the_log_of_one_run_say_the_same() -> None:
    state = parse_trainer_state((LOGS / "sft/trainer_state_checkpoint-80.json").read_bytes())
    rows = TrainerLogParser().feed(capture("sft/hf_trainer_tf4571_resumed.out"))
    kept = {(row.step, "eval/loss" in row.values): row.values for row in rows}
    assert len(kept) == len(state.rows) == 20
    for row in state.rows:
        logged = kept[row.step, "eval/loss" in row.values]
        assert logged.keys() == row.values.keys()
        # The log prints the epoch with two decimals.
        assert {k: v for k, v in logged.items() if k != "train/epoch"} == {
            k: v for k, v in row.values.items() if k != "train/epoch"
        }
        assert logged["train/epoch"] == pytest.approx(row.values["train/epoch"], abs=0.00501)


def test_a_state_with_a_nan_gradient() -> None:
    state = parse_trainer_state((LOGS / "sft/trainer_state_nan_checkpoint-20.json").read_bytes())
    assert [math.isnan(row.values["train/grad_norm"]) for row in state.rows] == [False, False, True, True]


@pytest.mark.parametrize(
    "content", [b"", b'{"global_step": 80, "log_hist', b"[]", b"{}", b'{"global_step": -1}', b"\xff"]
)
def test_a_state_that_is_half_written_or_none_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedRow):
        parse_trainer_state(content)


def test_entries_without_a_step_are_counted_and_the_runs_summary_is_no_row() -> None:
    history = [{"loss": 1.0, "step": 5}, {"loss": 1.0}, "x", {"train_runtime": 3.0, "train_loss": 2.0, "step": 5}]
    state = parse_trainer_state(json.dumps({"global_step": 5, "max_steps": 0, "log_history": history}).encode())
    assert [(row.step, dict(row.values)) for row in state.rows] == [(5, {"train/loss": 1.0})]
    assert (state.malformed, state.max_steps) == (2, None)


FIRST = b'{"current_steps":5,"total_steps":50,"loss":5.75,"lr":0.0032,"epoch":0.1,"elapsed_time":"0:00:00"}\n'
LAST = b'{"current_steps":50,"total_steps":50,"epoch":1.0,"percentage":100.0,"elapsed_time":"1 day, 2:03:04"}\n'


def test_a_trainer_log_confirms_completion_by_its_last_line() -> None:
    assert not read_end([FIRST]).completed
    assert read_end([FIRST, LAST]) == TrainerLogEnd(50, 50)
    assert read_end([FIRST, LAST]).completed
    assert not read_end([LAST, FIRST]).completed  # resumed, and steps went back
    assert not read_end([]).completed


def test_the_v1_trainers_keys_and_lines_that_cannot_be_read() -> None:
    lines = [b'{"loss":NaN,"step":50,"total_steps":50}\n', b'{"loss": 1.0}\n', b'{"step":', b"\n"]
    assert read_end(lines) == TrainerLogEnd(50, 50, malformed=2)
    assert read_end(lines).completed


def test_harbors_console_without_a_terminal_shows_the_end_only() -> None:
    assert latest_frame(capture("harbor/console_notty.out")) == HarborFrame(16, 16, "Mean", 0.417)


def test_harbors_console_on_a_terminal_counts_up() -> None:
    frames = [
        f for fragment in capture("harbor/console_tty.typescript") if (f := parse_frame(fragment.text)) is not None
    ]
    assert (frames[0].done, frames[0].total, frames[0].value) == (0, 16, None)
    assert [f.done for f in frames] == sorted(f.done for f in frames)
    assert frames[-1] == HarborFrame(16, 16, "Mean", 0.417)


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("⠇  5/16 Mean: 0.167 ━━━━━━╸━━━━ 0:00:01 0:00:03", HarborFrame(5, 16, "Mean", 0.167)),
        ("  0/16 Running trials... ━━━━", HarborFrame(0, 16)),
        ("  2/16 Accuracy: 0.500 ━━━━", HarborFrame(2, 16, "Accuracy", 0.5)),
        ("Running tasks (3/80, Accuracy: 33.25%) - Last: abc", HarborFrame(3, 80, "Accuracy", 0.3325)),
        ("17/16 Mean: 0.167", None),
        ("I solved 5/16 Mean: 0.9", None),
        ("5/16 Mean: high", None),
        ("⠇ 0:00:01 pass-0__K79YLcY: running agent...", None),
    ],
)
def test_frames(text: str, frame: HarborFrame | None) -> None:
    assert parse_frame(text) == frame


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        (["  0/16 Running trials...", " 5/16 Mean: 0.100", "16/16 Mean: 0.417"], 1),
        ([" 9/16 Mean: 0.100", " 7/16 Mean: 0.143", "16/16 Mean: 0.417"], 1),  # killed and resumed
        (["16/16 Mean: 0.200", "Results written to /a/result.json", "16/16 Mean: 0.417"], 2),
        (["16/16 Mean: 0.200", " 0/16 Running trials...", "16/16 Mean: 0.417"], 2),
        ([" 80/80 Mean: 0.200", "16/16 Mean: 0.417"], 2),
        (["Results written to /a/result.json", "16/16 Mean: 0.417", "16/16 Mean: 0.417"], 1),
    ],
)
def test_a_console_keeps_the_newest_drawing_and_counts_runs(lines: list[str], runs: int) -> None:
    console = HarborConsole()
    assert console.progress is None
    for line in lines:
        console.take(line)
    assert console.progress == ConsoleProgress(HarborFrame(16, 16, "Mean", 0.417), runs)
