"""Numbers, printed dicts and progress bars in a log's text, each expected value read off the text by hand."""

from __future__ import annotations

import math

import pytest

from runwatch.parsing.log_values import log_number, loguru_message, scan_pairs
from runwatch.parsing.progress_bars import ProgressBar, clock_seconds, split_bar


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.142", 3.142),
        ("1.235e+05", 123500.0),
        ("-0.0000", 0.0),
        ("0", 0.0),
        ("1e-06", 0.000001),
        ("42,080", 42080.0),
        ("12,345,678.5", 12345678.5),
        ("12.3k", 12300.0),
        ("1.5M", 1500000.0),
        ("100.00%", 1.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("-Infinity", -math.inf),
    ],
)
def test_a_number_is_read_as_it_is_printed(text: str, expected: float) -> None:
    assert log_number(text) == expected


@pytest.mark.parametrize("text", ["nan", "NaN", "NAN"])
def test_nan_is_a_number(text: str) -> None:
    value = log_number(text)
    assert value is not None and math.isnan(value)


def test_the_sign_of_a_rounded_zero_is_kept() -> None:
    value = log_number("-0.0000")
    assert value is not None and math.copysign(1.0, value) == -1.0


@pytest.mark.parametrize(
    "text", ["", "1_000", "1,00", "42,08", "abc", "1.2.3", "0x10", "True", "None", "1e", "9" * 200]
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert log_number(text) is None


def test_a_dict_of_numbers_strings_and_wrapped_numbers() -> None:
    pairs = scan_pairs(
        "{'loss': '5.755', 'grad_norm': nan, 'eval_accuracy': np.float64(0.5), "
        "'x': tensor(2.5, device='cuda:0'), 'name': 'abc', 'none': None}"
    )
    assert pairs is not None and pairs.closed
    assert {k: v for k, v in pairs.values.items() if k != "grad_norm"} == {
        "loss": 5.755,
        "eval_accuracy": 0.5,
        "x": 2.5,
    }
    assert math.isnan(pairs.values["grad_norm"])
    assert pairs.keys == {"loss", "grad_norm", "eval_accuracy", "x", "name", "none"}


def test_lines_of_a_broken_up_dict_say_whether_it_goes_on() -> None:
    first = scan_pairs("{'async/staleness_violation_count': 0,")
    last = scan_pairs("'trainer/global_step': 15}")
    assert first is not None and not first.closed and first.values == {"async/staleness_violation_count": 0.0}
    assert last is not None and last.closed and last.values == {"trainer/global_step": 15.0}


@pytest.mark.parametrize(
    "text",
    [
        "{'task': {'name': 'Causal Language Modeling', 'type': 'text-generation'}}",
        "{'loss': 1.0} and so on",
        "{'loss': [1.0]}",
        "{}",
        "",
        "loss: 1.0",
        '{"loss": 1.0}',
    ],
)
def test_what_is_no_flat_dict_is_none(text: str) -> None:
    assert scan_pairs(text) is None


def test_a_bar_with_hours_and_text_behind_it() -> None:
    bar, rest = split_bar("Training Batches Processed:  19%|█▉        | 15/80 [27:46:40<32:30:00, 1800.00s/it]2026 | x")
    assert bar == ProgressBar("Training Batches Processed", 15, 80, 100000.0)
    assert rest == "2026 | x"


def test_a_bar_without_description_and_with_ascii_marks() -> None:
    bar, rest = split_bar(" 35%|###4      | 320/916 [1:02:03<1:55:31, 11.63s/it, loss=3.1]")
    assert bar == ProgressBar("", 320, 916, 3723.0)
    assert not rest


def test_a_bar_of_shortened_counts_has_no_whole_number() -> None:
    bar, _ = split_bar("model.safetensors:  50%|█████     | 1.50G/3.00G [00:10<00:10, 150MB/s]")
    assert bar == ProgressBar("model.safetensors", None, None, 10.0)


@pytest.mark.parametrize(
    "text", ["", "50%", "[iris setup] step 3/7", "Generating train split: 400 examples [00:00, 14/s]"]
)
def test_what_is_no_bar_stays_text(text: str) -> None:
    assert split_bar(text) == (None, text)


def test_a_clock() -> None:
    assert clock_seconds("02:19") == 139.0
    assert clock_seconds("1:00:00") == 3600.0
    assert clock_seconds("?") is None


def test_a_loguru_line_gives_its_message() -> None:
    line = "2026-11-29 17:45:07.397 | INFO     | skyrl.train.trainer:train:498 - Started: 'step'"
    assert loguru_message(line) == "Started: 'step'"
    assert loguru_message("Started: 'step'") is None
