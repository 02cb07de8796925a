"""The compact line, character for character, and the order of its health read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from runwatch.measurements import Measurements
from runwatch.report.line import ANSWERED_WORDS, compact_line, health_read
from runwatch.thresholds import VERDICTS
from tests.unit.small_fleet import (
    HOUR,
    MINUTE,
    NOW,
    Value,
    bringing_up,
    completed,
    fresh,
    job,
    measure,
    nothing_measured,
    pending_cell,
    rl_collapsing,
    sft_blind,
)
from tests.unit.whole_fleet import datagen_dead_engine, eval_with_timeouts, eval_without_a_result

RUNNING: dict[str, Value] = {
    "step": 12345, "target_step": 29945, "loss": 2.34567, "tokens_per_second": 65535.6, "gaps": {"unknown": 12},
    "gap_seconds": {"unknown": 25920}, "checkpoint_step": 12000, "eta_seconds": 140800,
    "observed_timestamp_seconds": fresh(),
}  # fmt: skip
NAME = "delphi-1e23-p33m67-k0p20-lr0.67-b6607e"


def line(values: dict[str, Value], verdicts: Sequence[tuple[str, str]] = (("stable", "stable"),)) -> str:
    return compact_line(job(NAME, "sft", measure(values, "running", "stepping"), verdicts), NOW)


def test_a_healthy_run() -> None:
    # 12345 / 29945 = 41.2 %; 25920 s = 7.2 h; 140800 s = 1 d 15 h 7 min.
    assert line(RUNNING) == (
        f"{NAME} state=running step=12345/29945 (41.2%) loss=2.346 ~65,536tok/s preempts=— gaps=12/7.20h "
        "ckpt=step-12000 | ETA 1 d 15 h"
    )


def test_nothing_measured() -> None:
    assert compact_line(nothing_measured(), NOW) == (
        "datagen-x state=— trials=—/— (—%) loss=— ~—tok/s preempts=— gaps=—/—h ckpt=— | "
        "no result known: trials not read"
    )


def test_results_stand_for_steps() -> None:
    # 142 / 300 = 47.3 %
    assert compact_line(eval_with_timeouts(), NOW) == (
        "tb2-qwen3-32b state=running trials=142/300 (47.3%) loss=— ~—tok/s preempts=— gaps=—/—h ckpt=— | "
        "pass-rate 0.211; 31.25 turns a trial"
    )
    assert compact_line(eval_without_a_result(), NOW) == (
        "tb2-new state=running trials=0/300 (0.0%) loss=— ~—tok/s preempts=— gaps=—/—h ckpt=— | "
        "pre-first-result: setup or compile, 9 min since its start"
    )
    assert compact_line(datagen_dead_engine(), NOW) == (
        "datagen-dead state=running trials=40/— (—%) loss=— ~—tok/s preempts=— gaps=—/—h ckpt=— | "
        "dead engine: 1.00 turns a trial over 40 trials: do not consolidate"
    )


def test_before_the_first_step() -> None:
    assert compact_line(bringing_up(), NOW) == (
        "rl-new state=running step=—/500 (—%) loss=— ~—tok/s preempts=— gaps=—/—h ckpt=— | "
        "pre-first-step: setup or compile, 22 min since its start"
    )
    assert compact_line(pending_cell(), NOW).endswith("ckpt=— | pre-first-step: queued")


def test_a_job_that_makes_no_steps_is_not_in_setup() -> None:
    values: dict[str, Value] = {"start_timestamp_seconds": NOW - 3 * HOUR}
    for state, phase in (("running", "stepping"), ("unknown", None)):
        upload = job("upload", "other", measure(values | {"observed_timestamp_seconds": fresh()}, state, phase))
        assert compact_line(upload, NOW).endswith(" ckpt=— | —")


def test_of_a_job_in_an_unknown_state_no_setup_is_claimed() -> None:
    report = job("x", "sft", measure({}, "unknown", "bringup"), [("unknown", "state unknown"), ("bringup", "no step")])
    assert health_read(report, NOW) == "state unknown; pre-first-step"


@pytest.mark.parametrize("words", [("checkpoint_saved",), ("resumed", "checkpoint_saved")])
def test_news_alone_is_stable_and_not_unknown(words: tuple[str, ...]) -> None:
    values: dict[str, Value] = {"step": 7, "observed_timestamp_seconds": fresh()}
    assert line(values, [(word, "good news") for word in words]).endswith(" | stable")


def test_a_zero_is_not_a_dash() -> None:
    values: dict[str, Value] = {
        "step": 0, "target_step": 10, "loss": 0, "gaps": {"unknown": 0}, "gap_seconds": {"unknown": 0},
        "checkpoint_step": 0, "observed_timestamp_seconds": fresh(),
    }  # fmt: skip
    assert line(values) == (
        f"{NAME} state=running step=0/10 (0.0%) loss=0.000 ~—tok/s preempts=— gaps=0/0.00h ckpt=step-0 | stable"
    )


def test_the_loss_of_an_rl_job_is_its_policy_loss() -> None:
    assert compact_line(rl_collapsing(), NOW) == (
        "rl-base state=running step=41/80 (51.2%) loss=-0.09300 ~—tok/s preempts=— gaps=2/1.50h ckpt=step-40 | "
        "collapse: grad 1.3, two steps + entropy −34 % vs trend: cancel; ETA 3 h 12 min"
    )


@pytest.mark.parametrize(
    ("loss", "text"), [(1e-5, "1.000e-5"), (12.3456, "12.35"), (0.00412345, "0.004123"), (1.0, "1.000")]
)
def test_four_significant_digits(loss: float, text: str) -> None:
    assert f" loss={text} " in line(RUNNING | {"loss": loss})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "preempts=—"),
        ({"interruptions": {"preemption": 9, "failure": 1}, "preemptions": 80}, "preempts=9"),
        ({"interruptions": {"preemption": 0}, "preemptions": 8}, "preempts=0"),  # a user's cancel of eight tasks
        ({"preemptions": 80}, "preempts=80*"),
    ],
)
def test_preemptions_are_gang_interruptions_or_the_schedulers_sum_with_a_mark(
    values: dict[str, Value], text: str
) -> None:
    assert f" {text} " in line(RUNNING | values)


def test_an_unknown_target_has_no_percentage() -> None:
    values: dict[str, Value] = {"step": 7, "observed_timestamp_seconds": fresh()}
    assert " step=7/— (—%) " in line(values)


def test_an_ended_job_has_no_eta() -> None:
    assert compact_line(completed(), NOW).endswith(" | completed; clean-up: sft-job-cleanup")


def test_blindness_comes_first() -> None:
    assert health_read(sft_blind(), NOW) == "history not read for 23 min; ETA 45 min"
    assert health_read(replace(sft_blind(), intervals={"history": 10 * MINUTE}), NOW) == "ETA 45 min"


def test_answers_come_in_the_order_of_the_questions() -> None:
    # In the order of verdicts a missing checkpoint is worse than a slow rate; in the read the rate comes first.
    verdicts = [
        ("nonfinite", "loss not finite"),
        ("no_checkpoint", "no complete checkpoint after 2 h of steps (limit 1 h)"),
        ("throughput_degraded", "tok/s 62 % of its baseline"),
        ("resumed", "resumed after 22 min"),
        ("checkpoint_saved", "checkpoint saved"),
    ]
    assert line(RUNNING, verdicts).split(" | ")[1] == (
        "tok/s 62 % of its baseline; loss not finite; no complete checkpoint after 2 h of steps (limit 1 h); "
        "ETA 1 d 15 h"
    )


def test_every_verdict_has_a_place_in_the_read() -> None:
    assert set(VERDICTS) == ANSWERED_WORDS


def test_it_is_one_line() -> None:
    report = replace(nothing_measured(), run="two\nlines", measurements=Measurements())
    assert "\n" not in compact_line(report, NOW)
