"""The Trainer's log, on captures whose figures were read off with grep."""

from __future__ import annotations

import math

import pytest

from runwatch.parsing.log_records import LogRow
from runwatch.parsing.trainer_log import TrainerLogParser
from tests.unit.log_fragments import LOGS, capture, fragments_of

BANNER = (
    "[INFO|trainer.py:1469] 2026-11-29 17:45:54,008 >> ***** Running training *****\n"
    "[INFO|trainer.py:1472] 2026-11-29 17:45:54,008 >>   Num Epochs = 1\n"
    "[INFO|trainer.py:1478] 2026-11-29 17:45:54,009 >>   Total optimization steps = {total}\n"
)


def bar(step: int, total: int, clock: str = "00:10") -> str:
    return f"\r {100 * step // total:2d}%|█▏        | {step}/{total} [{clock}<00:30,  1.20it/s]"


def logged(step: int, total: int, values: str, clock: str = "00:10") -> str:
    return f"{bar(step, total, clock)}\r{' ' * 40}\r{{{values}}}\n{bar(step, total, clock)}"


def parsed(text: str) -> tuple[TrainerLogParser, list[LogRow]]:
    parser = TrainerLogParser()
    return parser, parser.feed(fragments_of(text))


def test_transformers_5_prints_strings_of_four_digits() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(capture("sft/sft_llamafactory095_tf56.out")) + parser.finish()
    assert (parser.format, parser.total_steps, parser.completed, parser.unparsed) == ("hugging_face", 50, True, 0)
    assert [row.step for row in rows] == [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]
    assert rows[0].values == {
        "train/loss": 5.755,
        "train/grad_norm": 1.281,
        "train/learning_rate": 0.0032,
        "train/epoch": 0.1,
    }
    assert rows[3].values["train/loss"] == 3.647
    assert rows[3].values["train/grad_norm"] == 0.5982
    assert rows[-1].values["train/loss"] == 3.117  # not 3.79, the mean of the whole run that is printed at the end
    assert rows[-1].values["train/grad_norm"] == 0.4405
    assert rows[-1].values["train/learning_rate"] == 4.872e-06
    assert {row.attempt for row in rows} == {0}


def test_transformers_4_prints_numbers_with_the_same_meaning() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(capture("sft/sft_llamafactory095_tf4571.out"))
    assert (parser.format, parser.total_steps, parser.completed, parser.unparsed) == ("hugging_face", 100, True, 0)
    assert [row.step for row in rows] == list(range(1, 101))
    assert rows[3].values == {
        "train/loss": 5.7664,
        "train/grad_norm": 0.9325844049453735,
        "train/learning_rate": 0.0012,
        "train/epoch": 0.08,
    }
    assert rows[-1].values["train/loss"] == 2.8944
    assert rows[-1].values["train/grad_norm"] == 0.39810678362846375
    assert rows[-1].elapsed == 139.0  # 02:19


def test_both_versions_give_the_same_keys() -> None:
    keys = []
    for name in ("sft/sft_llamafactory095_tf56.out", "sft/sft_llamafactory095_tf4571.out"):
        keys.append({key for row in TrainerLogParser().feed(capture(name)) for key in row.values})
    assert keys[0] == keys[1] == {"train/loss", "train/grad_norm", "train/learning_rate", "train/epoch"}


@pytest.mark.parametrize("name", ["sft/sft_llamafactory095_tf56.out", "sft/hf_trainer_tf4571_resumed.out"])
def test_portions_of_any_size_give_the_same_rows(name: str) -> None:
    whole = TrainerLogParser()
    rows = whole.feed(capture(name))
    for portion in (1, 7, 4096):
        parser = TrainerLogParser()
        fed = [
            row for piece in fragments_of((LOGS / name).read_bytes(), portion=portion) for row in parser.feed([piece])
        ]
        assert [(r.step, dict(r.values), r.attempt) for r in fed] == [(r.step, dict(r.values), r.attempt) for r in rows]
        assert parser.position == whole.position


def test_a_resumed_log_goes_back_and_then_on() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(capture("sft/hf_trainer_tf4571_resumed.out"))
    training = [(row.step, row.attempt) for row in rows if "train/loss" in row.values]
    # It died at step 33 and went on from checkpoint-30 with a bar that began at 0: no step 0 comes of that.
    assert training == [(s, 0) for s in range(5, 31, 5)] + [(s, 1) for s in range(35, 81, 5)]
    assert parser.total_steps == 80
    assert parser.position is not None and (parser.position.step, parser.position.attempt) == (80, 1)
    assert rows[0].values["train/loss"] == 5.5727
    resumed = next(row for row in rows if row.attempt == 1)
    assert resumed.values["train/loss"] == 5.5642
    assert resumed.elapsed == 1.0  # the bar's clock began anew: not compared with the first start's 24 s


def test_evaluations_are_at_the_trainers_step_though_their_own_bar_runs_to_6() -> None:
    rows = TrainerLogParser().feed(capture("sft/hf_trainer_tf4571_resumed.out"))
    evaluations = [(row.step, row.values["eval/loss"]) for row in rows if "eval/loss" in row.values]
    assert evaluations == [
        (20, 5.4738240242004395),
        (40, 5.467369556427002),
        (60, 5.350091934204102),
        (80, 5.305862903594971),
    ]
    assert not any("train/loss" in row.values and "eval/loss" in row.values for row in rows)


def test_where_the_first_start_ends_its_last_step_shown_is_the_position() -> None:
    fragments = capture("sft/hf_trainer_tf4571_resumed.out")
    died = next(i for i, fragment in enumerate(fragments) if fragment.text.startswith("RuntimeError"))
    parser = TrainerLogParser()
    parser.feed(fragments[: died + 2])
    assert parser.position is not None and parser.position.step == 32
    assert not parser.completed


def test_a_nan_gradient_behind_a_finite_loss() -> None:
    rows = TrainerLogParser().feed(capture("sft/hf_trainer_tf4571_nan.out"))
    assert [row.values["train/loss"] for row in rows] == [5.5728, 5.5666, 4.4451, 0.0]
    assert [math.isnan(row.values["train/grad_norm"]) for row in rows] == [False, False, True, True]


def test_further_keys_of_a_fork_are_kept() -> None:
    _, rows = parsed(
        BANNER.format(total="1,200")
        + logged(
            5,
            1200,
            "'loss': 1.5, 'grad_norm': 0.2, 'learning_rate': 1e-05, 'loss_rank_avg': 1.4, 'loss_nan_ranks': 2, "
            "'num_input_tokens_seen': 327680, 'epoch': 0.01",
        )
    )
    assert len(rows) == 1 and rows[0].step == 5
    assert rows[0].values["train/loss_nan_ranks"] == 2.0
    assert rows[0].values["train/num_input_tokens_seen"] == 327680.0
    assert rows[0].values["train/loss"] == 1.5


def test_setup_bars_are_no_steps() -> None:
    parser, rows = parsed(
        "Running tokenizer on dataset (num_proc=2):  50%|█████     | 200/400 [00:00<00:00, 1302.69 examples/s]\n"
        "Packing:  25%|██▌       | 100/400 [00:10<00:30, 10.0it/s]\n"
        "[iris setup] step 3/7\n"
        "Loading weights: 100%|██████████| 27/27 [00:00<00:00, 9252.14it/s]\n"
    )
    assert (parser.format, parser.total_steps, parser.position, rows) == ("", None, None, [])


def test_a_bar_of_another_total_is_no_step() -> None:
    parser, _ = parsed(BANNER.format(total=50) + bar(3, 50) + bar(40, 60, "00:11") + bar(4, 50, "00:12"))
    assert parser.total_steps == 50
    assert parser.position is not None and parser.position.step == 4


def test_an_evaluations_bar_of_the_same_total_is_told_by_its_clock() -> None:
    parser, _ = parsed(
        BANNER.format(total=50) + bar(10, 50, "10:00") + "\n" + bar(30, 50, "00:03") + bar(49, 50, "00:05")
    )
    assert parser.position is not None and parser.position.step == 10


def test_a_bar_at_0_is_no_step() -> None:
    parser, rows = parsed(BANNER.format(total=200) + "\r  0%|          | 0/200 [00:00<?, ?it/s]")
    assert (parser.format, parser.total_steps, parser.position, rows) == ("hugging_face", 200, None, [])


def test_a_log_without_banner_is_known_by_a_loss_and_its_bar() -> None:
    values = "'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1"
    parser, rows = parsed(logged(10, 300, values) + logged(20, 300, values, "00:20"))
    assert [row.step for row in rows] == [10, 20]
    assert parser.total_steps == 300


def test_text_of_a_model_that_imitates_metrics_gives_none() -> None:
    imitation = "{'loss': '0.001', 'grad_norm': '99', 'learning_rate': '1', 'epoch': '9'}"
    text = (
        f"training example:\n{imitation}\n***** Running training *****\n  Total optimization steps = 7\n"
        "2026-11-29 17:45:07.397 | INFO     | skyrl.train.trainer:train:1 - Step 900: \n{'policy/policy_loss': '1.0'}\n"
        f"inputs:\nthe log said {imitation}\n[INFO|2026-11-29 17:45:52] llamafactory.data.loader:144 >> {imitation}\n"
        + BANNER.format(total=50)
        + logged(5, 50, "'loss': '5.7', 'grad_norm': '1.2', 'learning_rate': '0.003', 'epoch': '0.1'")
        + f"\nSample: {imitation}\n{imitation}\nthe end\n"
        + logged(10, 50, "'loss': '5.1', 'grad_norm': '1.1', 'learning_rate': '0.003', 'epoch': '0.2'", "00:20")
    )
    # The lines as LLaMA-Factory begins them, so that what stands in its examples is known for what it is.
    start = "[INFO|2026-11-29 17:45:52] llamafactory.hparams.parser:523 >> Process rank: 0, world size: 1\n"
    parser, rows = parsed(start + text)
    assert [(row.step, row.values["train/loss"]) for row in rows] == [(5, 5.7), (10, 5.1)]
    assert (parser.format, parser.total_steps) == ("hugging_face", 50)
    assert parser.unparsed == 1  # the one that stood where the Trainer's would


def test_a_banner_in_a_models_text_does_not_end_the_run() -> None:
    values = "'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1"
    parser, rows = parsed(
        BANNER.format(total=50)
        + logged(5, 50, values)
        + "\n"
        + BANNER.format(total=7)
        + logged(10, 50, values, "00:20")
    )
    assert [(row.step, row.attempt) for row in rows] == [(5, 0), (10, 0)]
    assert parser.total_steps == 50


def test_a_dict_cut_off_by_a_buffer_is_counted_and_no_row() -> None:
    values = "'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1"
    parser, rows = parsed(
        BANNER.format(total=50) + logged(5, 50, values) + "\n{'loss': 2.4, 'grad_n" + bar(10, 50, "00:20")
    )
    assert [row.step for row in rows] == [5]
    assert parser.unparsed == 1


def test_another_ranks_dict_does_not_overwrite_the_loss() -> None:
    values = "'loss': {}, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1"
    _, rows = parsed(
        BANNER.format(total=50) + f"[rank3]: {{{values.format(77.0)}}}\n" + logged(5, 50, values.format(2.5))
    )
    assert [row.values["train/loss"] for row in rows] == [2.5]


def test_the_v1_trainer_of_llama_factory_says_its_own_step() -> None:
    parser, rows = parsed(
        "[INFO|2026-11-29 17:45:53] llamafactory.v1.core.base_trainer:144 >> "
        "loss: 1.2345, grad_norm: 0.1, learning_rate: 1e-05, epoch: 0.2, step: 10, total_steps: 50\n"
    )
    assert [(row.step, row.values["train/loss"], row.values["train/grad_norm"]) for row in rows] == [(10, 1.2345, 0.1)]
    assert parser.total_steps == 50


def test_a_described_bar_is_no_step_though_its_total_is_the_same() -> None:
    shards = "\rWriting model shards:  40%|████      | 20/50 [00:20<00:30,  1.20it/s]\n"
    parser, _ = parsed(BANNER.format(total=50) + bar(5, 50) + shards)
    assert parser.position is not None and parser.position.step == 5


def test_a_loss_that_another_bar_follows_has_no_step() -> None:
    values = "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}"
    parser, rows = parsed(BANNER.format(total=50) + bar(5, 50) + f"\r{values}\n" + bar(3, 6) + bar(6, 50, "00:12"))
    assert rows == []
    assert parser.unparsed == 1


def test_an_evaluation_may_have_its_own_bar_drawn_first() -> None:
    _, rows = parsed(
        BANNER.format(total=50) + bar(5, 50) + "\r{'eval_loss': 2.5, 'epoch': 0.1}\n" + bar(6, 6, "00:01") + bar(5, 50)
    )
    assert [(row.step, dict(row.values)) for row in rows] == [(5, {"eval/loss": 2.5, "train/epoch": 0.1})]


def test_metrics_and_a_bar_on_two_sides_of_a_gap_are_not_put_together() -> None:
    values = "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}"
    parser = TrainerLogParser()
    rows = parser.feed(fragments_of(BANNER.format(total=50) + bar(5, 50, "10:00") + f"\r{values}\n"))
    parser.skip()
    rows += parser.feed(fragments_of(bar(40, 50, "05:00")))
    assert rows == []
    # The clock is younger than before: another start, whose beginning is in what was left out.
    assert parser.position is not None and (parser.position.step, parser.position.attempt) == (40, 1)
