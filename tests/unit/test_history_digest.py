"""What is kept of a history: values worked out by hand, and paging that must not matter."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.history_digest import HistoryDigest, HistorySummary
from runwatch.facts import HistoryRow


def row(cursor: int, time: float | None, step: int | None = None, **values: float) -> HistoryRow:
    return HistoryRow(cursor, time, step, {key.replace("__", "/"): value for key, value in values.items()})


def digest_of(rows: list[HistoryRow]) -> HistorySummary:
    digest = HistoryDigest(is_rl=False)
    digest.add(rows)
    return digest.summary()


def test_the_logged_global_step_counts_and_not_the_number_of_log_calls() -> None:
    summary = digest_of([row(i, 10.0 * i, 5 * (i + 1), train__loss=2.0) for i in range(4)])
    assert summary.step == 20
    assert summary.steps.step_duration == 2.0
    assert not summary.counts_from_zero


def test_without_a_logged_step_the_cursor_is_the_step_and_counts_from_zero() -> None:
    summary = digest_of([row(i, 10.0 * i, loss=2.0) for i in range(4)])
    assert summary.step == 3
    assert summary.counts_from_zero


def test_log_calls_before_the_first_logged_step_are_no_steps() -> None:
    rows = [row(0, 0.0, x=1.0), row(40, 1.0, x=1.0)] + [row(41 + i, 10.0 + i, 1 + i, loss=1.0) for i in range(5)]
    summary = digest_of(rows)
    assert summary.step == 5
    assert summary.steps.first_time == 10.0
    assert summary.steps.step_duration == 1.0


def test_a_single_log_call_before_the_first_logged_step_is_no_step_either() -> None:
    summary = digest_of([row(0, 0.0, x=1.0)] + [row(1 + i, 10.0 + i, 5 * (1 + i), loss=1.0) for i in range(5)])
    assert (summary.step, summary.steps.first_step, summary.steps.first_time) == (25, 5, 10.0)
    assert not summary.counts_from_zero


def test_rows_without_the_step_once_it_is_logged_add_values_and_no_step() -> None:
    rows = [row(0, 0.0, 10, loss=3.0), row(1, 5.0, None, eval__loss=2.5), row(2, 9.0, None, loss=2.9)]
    summary = digest_of(rows)
    assert summary.step == 10
    assert summary.steps.latest_time == 0.0
    assert summary.validation_loss is not None
    assert (summary.validation_loss.value, summary.validation_loss.step) == (2.5, 10)
    assert summary.loss.latest is not None
    assert summary.loss.latest.value == 2.9


@pytest.mark.parametrize(("ahead", "dated"), [(-7200.0, -7200.0), (90.0, 90.0), (600.0, 0.0), (18000.0, 0.0)])
def test_no_step_is_dated_long_after_it_was_read(ahead: float, dated: float) -> None:
    digest = HistoryDigest(is_rl=False)
    digest.add([row(i, 1000.0 + ahead + 10.0 * i, loss=2.0) for i in range(90)], 1895.0)
    digest.add([row(i, 1000.0 + ahead + 10.0 * i, loss=2.0) for i in range(90, 96)], 1950.0)
    digest.add([], 9000.0)  # nothing new for two hours
    summary = digest.summary()
    assert (summary.steps.latest_time, summary.steps.high_water_time) == (1950.0 + dated,) * 2
    assert summary.ahead_seconds == (0.0 if dated else ahead)
    assert (summary.steps.step_duration, summary.steps.stepped_seconds) == (10.0, 950.0)


def test_an_evaluation_that_logs_a_step_of_its_own_leaves_the_trainers_count() -> None:
    before = [row(i, 10.0 * i, train__loss=2.0) for i in range(100)]
    evaluation = HistoryRow(100, 1000.0, 100, {"eval/acc": 0.5})
    after = [row(i, 10.0 * i, train__loss=2.0) for i in range(101, 201)]
    summary = digest_of([*before, evaluation, *after])
    assert (summary.step, summary.steps.latest_time, summary.steps.step_duration) == (200, 2000.0, 10.0)


def test_rows_from_before_the_clock_was_set_back_are_not_of_the_last_minutes() -> None:
    ahead = [row(i, 7200.0 + 10.0 * i, grad_norm=1.0) for i in range(60)]
    spike = row(60, 7800.0, grad_norm=30.0)
    right = [row(61 + i, 900.0 + 10.0 * i, grad_norm=1.0) for i in range(100)]
    ratios = digest_of([*ahead, spike, *right]).grad_norm.ratios
    assert max(found.ratio for found in ratios) == 1.0
    assert len(ratios) == 31  # the newest and those of the 300 s before it


def test_an_evaluation_before_training_is_no_step() -> None:
    summary = digest_of([row(0, 100.0, 0, eval__loss=9.0)])
    assert summary.step is None
    assert summary.steps.first_time is None
    assert summary.validation_loss is not None


@pytest.mark.parametrize(
    "beside",
    [
        {"timing__eval_generate": 31.0},  # SkyRL's evaluate()
        {"timing__eval": 40.0, "vllm__eval__requests": 64.0},
        {"train__num_input_tokens_seen": 0.0, "train__epoch": 0.0, "train__global_step": 0.0},  # HF's eval_on_start
    ],
)
def test_what_a_trainer_logs_beside_an_evaluation_makes_it_no_step(beside: dict[str, float]) -> None:
    before = row(0, 100.0, 0, eval__loss=9.0, **beside)
    summary = digest_of([before, *(row(i, 200.0 + i, i, loss=1.0, timing__step=1.0) for i in range(1, 6))])
    assert (summary.steps.first_step, summary.steps.first_time) == (1, 201.0)
    assert not summary.counts_from_zero  # of 6 steps one is left
    final = digest_of([row(5, 100.0, 5, loss=1.0), row(6, 130.0, 6, eval__loss=1.0, **beside)])
    assert (final.step, final.steps.latest_time) == (5, 100.0)


@pytest.mark.parametrize(
    "told",
    [
        {"val-core/gsm8k/reward/mean@1": 0.25, "val-aux/num_turns/mean": 2.0},  # verl's val_before_train
        {"validation/accuracy": 0.25, "timing/validation/total_validation_time": 80.0},  # NeMo-RL's val_at_start
        {"lm_eval/averages/macro_avg_acc": 0.3},
        {"lm loss validation": 9.0, "lm loss validation ppl": 8103.1, "lm loss test": 9.1},
    ],
)
def test_an_evaluation_by_whatever_name_is_no_step(told: dict[str, float]) -> None:
    """It is logged at step 0; the first of the 20 steps is 1."""
    before = HistoryRow(0, 100.0, None, told)
    assert digest_of([before]).step is None
    summary = digest_of([before, *(row(i, 900.0 + 60 * i, loss=1.0) for i in range(1, 20))])
    assert (summary.steps.first_step, summary.steps.first_time, summary.counts_from_zero) == (1, 960.0, False)


def test_a_late_line_of_an_rl_job_voids_no_later_step() -> None:
    """Two ranks log each step; the second's line comes 0.2 s after the first one's of the next step."""
    rows = []
    for step in range(1, 31):
        norm, entropy = (3.0, 0.2) if step == 29 else (0.5, 1.0)
        rows.append(row(step, 60.0 * step, policy__raw_grad_norm=norm, policy__policy_entropy=entropy))
        rows.append(row(step - 1, 60.0 * step + 0.2, policy__raw_grad_norm=0.5, policy__policy_entropy=1.0))
    digest = HistoryDigest(is_rl=True)
    digest.add(rows)
    summary = digest.summary()
    assert summary.step == 30
    assert summary.rl is not None
    assert (summary.rl.step, summary.rl.collapse_step) == (30, 29)


def test_megatrons_names() -> None:
    values = {"lm loss": 2.5, "grad-norm": 0.5, "learning-rate": 3e-4, "lm loss validation": 2.75}
    summary = digest_of([HistoryRow(10, 100.0, None, values)])
    found = (summary.loss.latest, summary.grad_norm.latest, summary.learning_rate, summary.validation_loss)
    assert [logged.value for logged in found if logged is not None] == [2.5, 0.5, 3e-4, 2.75]
    assert summary.step == 10


def test_keys_logged_at_different_cadences_are_all_seen() -> None:
    rows = [
        row(i, 8.0 * i, **({"train__loss": 3.0 - i / 10} | ({"grad__norm__total": 0.5 + i} if i % 10 == 9 else {})))
        for i in range(25)
    ]
    summary = digest_of(rows)
    assert summary.loss.latest is not None
    assert summary.loss.latest.value == pytest.approx(0.6)
    assert summary.grad_norm.latest is not None
    assert (summary.grad_norm.latest.value, summary.grad_norm.latest.step) == (19.5, 19)


def test_a_loss_that_is_not_finite_keeps_the_last_finite_one() -> None:
    summary = digest_of([row(0, 0.0, loss=2.0), row(1, 8.0, loss=math.nan)])
    assert summary.loss.latest is not None
    assert math.isnan(summary.loss.latest.value)
    assert summary.loss.latest_finite is not None
    assert summary.loss.latest_finite.value == 2.0
    assert summary.loss.ratios == ()


@pytest.mark.parametrize(("before", "expected"), [(49, ()), (50, (2.0,))])
def test_a_window_gives_no_ratio_until_fifty_values_came_before(before: int, expected: tuple[float, ...]) -> None:
    rows = [row(i, 8.0 * i, loss=2.0) for i in range(before)] + [row(before, 8.0 * before, loss=4.0)]
    assert tuple(r.ratio for r in digest_of(rows).loss.ratios) == expected


def test_the_window_counts_logged_values_and_not_steps() -> None:
    rows = [row(100 * i, 8.0 * i, loss=1.0 if i % 2 else 3.0) for i in range(50)] + [row(5000, 400.0, loss=6.0)]
    (ratio,) = digest_of(rows).loss.ratios
    assert ratio.ratio == 3.0  # 6 / median(25 x 1, 25 x 3) = 6 / 2


def test_grad_norm_ratios_are_kept_for_the_rows_of_the_last_five_minutes() -> None:
    rows = [row(i, 60.0 * i, grad_norm=1.0) for i in range(50)]
    rows += [row(50 + i, 60.0 * (50 + i), grad_norm=value) for i, value in enumerate([30.0, 1.0, 1.0, 1.0, 1.0, 1.0])]
    assert max(r.ratio for r in digest_of(rows).grad_norm.ratios) == 30.0  # 300 s before the newest row
    rows.append(row(56, 60.0 * 56, grad_norm=1.0))
    assert max(r.ratio for r in digest_of(rows).grad_norm.ratios) == 1.0


def test_a_value_whose_window_has_no_median_above_zero_has_no_ratio_and_keeps_none_before_it() -> None:
    rows = [row(i, 8.0 * i, loss=2.0, grad_norm=1.0) for i in range(50)]
    rows += [row(50 + i, 400.0 + 60.0 * i, loss=0.0, grad_norm=5.0 if i == 0 else 0.0) for i in range(26)]
    assert [r.ratio for r in digest_of(rows[:76]).loss.ratios] == [0.0] * 5  # medians 2 and, once, 1
    rows.append(row(76, 400.0 + 60.0 * 26, loss=3.0, grad_norm=0.0))  # 26 zeros of 50: the median is 0
    summary = digest_of(rows)
    assert summary.loss.ratios == ()
    assert all(r.ratio < 5.0 for r in summary.grad_norm.ratios)


def test_the_start_is_where_the_runs_own_clock_was_zero() -> None:
    assert digest_of([row(0, 1000.0, _runtime=40.0, loss=1.0)]).start_time == 960.0


def test_rows_without_a_time_move_the_step_and_are_counted() -> None:
    summary = digest_of([row(0, 0.0, loss=1.0), row(1, None, loss=1.0)])
    assert (summary.step, summary.rows_without_time, summary.steps.latest_step) == (1, 1, 0)


def test_levanter_counts_from_zero_also_when_its_step_is_logged() -> None:
    assert digest_of([row(5, 1.0, 5, run_progress=0.5, train__loss=1.0)]).counts_from_zero


def test_lightning_counts_from_zero_also_where_it_logs_each_fiftieth_step() -> None:
    """It logs when a batch is done and counts it after that: of 500 steps the last row is 499."""
    rows = [row(i, 8.0 * i, 49 + 50 * i, trainer__global_step=49.0 + 50 * i, epoch=0.0, loss=1.0) for i in range(10)]
    summary = digest_of(rows)
    assert (summary.step, summary.counts_from_zero) == (499, True)
    skyrl = [row(i, 8.0 * i, i, trainer__global_step=float(i), trainer__epoch=0.0, loss=1.0) for i in range(1, 9)]
    assert not digest_of(skyrl).counts_from_zero


def test_the_trainers_own_rate_is_the_median_over_the_recent_and_over_all_rows() -> None:
    rows = [row(i, 8.0 * i, throughput__tokens_per_second=1000.0) for i in range(200)]
    rows += [row(200 + i, 8.0 * (200 + i), throughput__tokens_per_second=500.0) for i in range(50)]
    summary = digest_of(rows)
    assert summary.trainer_rate == 500.0
    assert summary.trainer_rate_baseline == 1000.0


@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_how_rows_are_paged_changes_nothing(source: random.Random, pages: int) -> None:
    rows = [
        row(i, 1e9 + 8 * i + source.choice([0, 0, 0, 500]), source.choice([None, i]), train__loss=source.random())
        for i in range(source.randrange(120))
    ]
    cuts = sorted(source.randrange(len(rows) + 1) for _ in range(pages))
    paged = HistoryDigest(is_rl=False)
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        paged.add(rows[start:end])
        paged.summary()
    assert paged.summary() == digest_of(rows)
