"""The section Progress on whole runs, with values worked out by hand."""

from __future__ import annotations

import math
import random

import pytest

from runwatch.config.model import TrainerConfig
from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.progress import ProgressContext, last_step_reached, measure_progress, segment_starts
from runwatch.facts import Checkpoint, HistoryRow, HistoryRun, TrainerFacts
from runwatch.measurements import Evidence, Measurements

START = 1_790_000_000.0
GAP_MINUTES = (6, 9, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90)


def measure(
    rows: list[HistoryRow],
    *,
    own: TrainerConfig | None = None,
    run: HistoryRun | None = None,
    observed: float | None = None,
    end: float | None = None,
    checkpoints: list[Checkpoint] | None = None,
    is_rl: bool = False,
    trainer: TrainerFacts | None = None,
    start: float | None = None,
) -> tuple[Measurements, list[Evidence]]:
    own, run = own or TrainerConfig(), run or HistoryRun()
    digest = HistoryDigest(is_rl=is_rl, segment_starts=segment_starts(run.config, own))
    digest.add(rows)
    summary = digest.summary()
    latest = summary.steps.latest_time or 0.0
    measured = Measurements()
    start = start if start is not None else summary.start_time
    context = ProgressContext(own, run, is_rl, start, end, observed or latest, checkpoints, trainer=trainer)
    return measured, measure_progress(measured, summary, context)


def steady(count: int, seconds: float = 8.0, first: int = 0) -> list[HistoryRow]:
    return [HistoryRow(first + i, START + seconds * i, None, {"train/loss": 2.0}) for i in range(count)]


def long_run() -> list[HistoryRow]:
    """29,945 steps at 8 s within 5 %, with twelve gaps spread over the run."""
    source = random.Random(7)
    after = dict(zip(range(2000, 29_000, 2200), GAP_MINUTES, strict=False))
    time, rows = START, []
    for step in range(29_945):
        rows.append(HistoryRow(step, time, None, {"train/loss": 3.0}))
        time += 8.0 * source.uniform(0.95, 1.05)
        if step in after:
            time += 60.0 * after[step]
    return rows


def test_the_run_of_29945_steps_with_twelve_gaps() -> None:
    own = TrainerConfig(train_batch_size=128, max_seq_len=4096, num_train_steps=40_000)
    measured, evidence = measure(long_run(), own=own)
    assert measured.get("mljob_step") == 29_944
    assert measured.get("mljob_gaps", cause="unknown") == 12
    hours = (measured.get("mljob_gap_seconds", cause="unknown") or 0) / 3600
    assert hours == pytest.approx(7.2, abs=0.05)
    assert measured.get("mljob_step_duration_seconds") == pytest.approx(8.0, abs=0.05)
    assert measured.get("mljob_tokens_per_second_baseline") == pytest.approx(65_536, rel=0.01)
    assert measured.get("mljob_tokens_per_second") == pytest.approx(65_536, rel=0.02)
    assert measured.get("mljob_longest_gap_seconds") == pytest.approx(5400 + 8, abs=1)
    assert measured.get("mljob_gap_threshold_seconds") == 300.0
    busy = 29_944 * 8.0
    assert measured.get("mljob_goodput_ratio") == pytest.approx(busy / (busy + 7.2 * 3600), abs=0.001)
    assert measured.get("mljob_eta_seconds") == pytest.approx((40_000 - 29_945) * 8.0, rel=0.02)
    gaps = [line for line in evidence if line.topic == "gaps"]
    assert len(gaps) == 12


def test_gaps_of_a_cause_that_was_not_looked_up_have_no_series() -> None:
    measured, _ = measure(steady(10))
    assert dict(measured.family("mljob_gaps")) == {("unknown",): 0.0}
    assert measured.get("mljob_longest_gap_seconds") is None


def test_two_intervals_are_too_few_for_a_threshold() -> None:
    measured, _ = measure(steady(3))
    for name in ("mljob_gap_threshold_seconds", "mljob_step_duration_seconds", "mljob_step_duration_recent_seconds"):
        assert measured.get(name) is None
    assert dict(measured.family("mljob_gaps")) == {}


def test_tokens_per_second_from_the_trackers_config_and_at_the_current_batch_of_a_schedule() -> None:
    config = {
        "trainer": {"train_batch_size": [{"start": 0, "value": 10}, {"start": 50, "value": 30}]},
        "train_seq_len": None,
        "model": {"max_seq_len": 100},
    }
    rows = steady(50) + [HistoryRow(50 + i, START + 400 + 16.0 * i, None, {"train/loss": 2.0}) for i in range(50)]
    measured, _ = measure(rows, run=HistoryRun(config=config))
    assert measured.get("mljob_tokens_per_second") == 30 * 100 / 16.0
    assert measured.get("mljob_tokens_per_second_baseline") == 30 * 100 / 16.0


def test_the_batch_is_that_of_the_steps_that_the_durations_are_of_while_older_ones_are_done_again() -> None:
    config = {"trainer": {"train_batch_size": [{"start": 0, "value": 10}, {"start": 50, "value": 30}]}}
    rows = [HistoryRow(i, START + 8.0 * i, i, {"train/loss": 2.0}) for i in range(50)]
    rows += [HistoryRow(50 + i, START + 400 + 16.0 * i, 50 + i, {"train/loss": 2.0}) for i in range(10)]
    rows += [HistoryRow(60 + i, START + 700 + 8.0 * i, 45 + i, {"train/loss": 2.0}) for i in range(3)]
    measured, _ = measure(rows, own=TrainerConfig(max_seq_len=100), run=HistoryRun(config=config))
    assert measured.get("mljob_step") == 47
    assert measured.get("mljob_tokens_per_second") == 30 * 100 / 16.0


@pytest.mark.parametrize("schedule", [None, [{"start": 0, "value": 10}, {"start": 300, "value": 30}]])
def test_a_run_that_was_resumed_with_another_batch_is_as_quick_as_before(schedule: object) -> None:
    """300 steps of 10 sequences in 8 s, then 100 of 30 in 24 s: 125 tokens a second all along, not 375 in the first."""
    sizes = [10] * 300 + [30] * 100
    config = {"trainer": {"train_batch_size": schedule or 30}, "model": {"max_seq_len": 100}}
    rows, now = [], START
    for step, size in enumerate(sizes):
        took = 0.8 * size
        now += took
        values = {"throughput/examples_per_second": size / took, "throughput/duration": took}
        rows.append(HistoryRow(step, now, step, values))
    measured, _ = measure(rows, run=HistoryRun(config=config))
    assert measured.get("mljob_tokens_per_second") == pytest.approx(125.0)
    assert measured.get("mljob_tokens_per_second_baseline") == pytest.approx(125.0)
    assert measured.get("mljob_step_duration_recent_seconds") == pytest.approx(24.0)
    assert measured.get("mljob_step_duration_seconds") == pytest.approx(8.0)  # of the whole run
    measured, _ = measure(rows[:300], run=HistoryRun(config={**config, "trainer": {"train_batch_size": 10}}))
    assert measured.get("mljob_tokens_per_second_baseline") == pytest.approx(125.0)


def test_hugging_faces_batch_of_one_process_is_not_taken_for_the_jobs() -> None:
    config = {"per_device_train_batch_size": 4, "train_batch_size": 4, "model": {"max_seq_len": 100}}
    measured, _ = measure(steady(20), run=HistoryRun(config=config))
    assert measured.get("mljob_tokens_per_second") is None


def test_the_trainers_own_rate_only_where_batch_or_length_is_not_known() -> None:
    rows = [HistoryRow(i, START + 8.0 * i, None, {"throughput/tokens_per_second": 777.0}) for i in range(20)]
    measured, _ = measure(rows)
    assert measured.get("mljob_tokens_per_second") == 777.0
    known, _ = measure(rows, own=TrainerConfig(train_batch_size=8, max_seq_len=100))
    assert known.get("mljob_tokens_per_second") == 100.0


def test_no_eta_once_it_ended_and_none_without_a_target() -> None:
    own = TrainerConfig(num_train_steps=100)
    assert measure(steady(20), own=own)[0].get("mljob_eta_seconds") == 80 * 8.0
    assert measure(steady(20), own=own, end=START + 200)[0].get("mljob_eta_seconds") is None
    assert measure(steady(20))[0].get("mljob_eta_seconds") is None


@pytest.mark.parametrize(("count", "reached"), [(99, False), (100, True)])
def test_where_steps_count_from_zero_the_last_is_target_minus_one(count: int, reached: bool) -> None:
    digest = HistoryDigest(is_rl=False)
    digest.add(steady(count))
    assert last_step_reached(digest.summary(), 100) is reached


def test_where_the_trainer_counts_from_one_the_last_is_the_target() -> None:
    digest = HistoryDigest(is_rl=False)
    digest.add([HistoryRow(i, START + i, i + 1, {"train/loss": 1.0}) for i in range(99)])
    assert not last_step_reached(digest.summary(), 100)
    digest.add([HistoryRow(99, START + 99, 100, {"train/loss": 1.0})])
    assert last_step_reached(digest.summary(), 100)


@pytest.mark.parametrize(
    ("last", "reached", "eta"), [(498, False, 16.0), (500, True, 0.0), (501, True, 0.0), (510, False, None)]
)
def test_a_run_that_goes_on_past_its_target_is_not_at_its_end(last: int, reached: bool, eta: float | None) -> None:
    """It was resumed for more steps than its config tells: a hang of it is a stall, and when it ends nobody knows."""
    rows = steady(last, first=1)
    digest = HistoryDigest(is_rl=False)
    digest.add(rows)
    assert last_step_reached(digest.summary(), 500) is reached
    measured, evidence = measure(rows, own=TrainerConfig(num_train_steps=500))
    assert measured.get("mljob_eta_seconds") == eta
    assert measured.get("mljob_target_step") == 500
    assert any("which the run went past" in found.text for found in evidence) is (last == 510)


def test_goodput_ends_where_the_history_was_last_read_and_counts_the_first_step() -> None:
    rows = [HistoryRow(i, START + 10.0 * (i + 1), None, {"_runtime": 10.0 * (i + 1)}) for i in range(10)]
    measured, _ = measure(rows, observed=START + 200.0)
    assert measured.get("mljob_goodput_ratio") == pytest.approx(100.0 / 200.0)
    ended, _ = measure(rows, observed=START + 900.0, end=START + 100.0)
    assert ended.get("mljob_goodput_ratio") == pytest.approx(1.0)


def test_a_restart_at_a_host_whose_clock_is_two_hours_behind_the_first_ones() -> None:
    # Placed 8 s before its first row. 300 steps with a clock that is 2 h ahead, 400 s down, then 300 more.
    ahead = [HistoryRow(i, START + 7200.0 + 8.0 * i, None, {}) for i in range(300)]
    right = [HistoryRow(300 + i, START + 2392.0 + 400.0 + 8.0 * i, None, {}) for i in range(300)]
    own = TrainerConfig(train_batch_size=64, max_seq_len=1000, num_train_steps=1000)
    measured, evidence = measure(ahead + right, own=own, start=START - 8.0)
    assert measured.get("mljob_tokens_per_second") == 8000.0
    assert measured.get("mljob_tokens_per_second_baseline") == 8000.0
    assert measured.get("mljob_eta_seconds") == 400 * 8.0  # it counts from zero: 600 of 1000 are done
    # 600 steps of 8 s, of which the one across the 400 s is lost with them; the last row is 5192 s after the placing.
    assert measured.get("mljob_goodput_ratio") == pytest.approx(599 * 8.0 / 5192.0)
    assert any("set back once, by 1 h 53 min in all" in found.text for found in evidence)


def test_steps_done_again_are_not_productive() -> None:
    rows = steady(20) + [HistoryRow(20 + i, START + 160 + 8.0 * i, 10 + i, {"train/loss": 2.0}) for i in range(15)]
    rows = [HistoryRow(r.cursor, r.time, r.trainer_step or r.cursor, r.values) for r in rows]
    measured, _ = measure(rows)
    assert measured.get("mljob_step") == 24
    assert measured.get("mljob_replayed_steps") == 10  # 10 to 19
    # 24 intervals of 8 s are new steps, in 34 intervals of time; the first row is where the history begins.
    assert measured.get("mljob_goodput_ratio") == pytest.approx(24 / 34)


def frozen_run() -> list[HistoryRow]:
    """W&B's view of a run that died at step 99, was down 600 s, loaded for 100 s and did 30 steps again."""
    rows = [HistoryRow(i, START + 10.0 * i, None, {"_runtime": 10.0 * i}) for i in range(100)]
    resumed = START + 990.0 + 600.0 + 100.0 + 300.0
    return rows + [
        HistoryRow(100 + i, resumed + 10.0 * (i + 1), None, {"_runtime": 1390.0 + 10 * (i + 1)}) for i in range(5)
    ]


def checkpoint(step: int, saved_at: float) -> Checkpoint:
    return Checkpoint(step, "/ckpt", f"/ckpt/step-{step}", True, "metadata.json is there", saved_at)


def test_a_frozen_history_takes_the_replay_from_the_checkpoint_it_resumed_from() -> None:
    run = HistoryRun(drops_replayed_steps=True)
    saved = [checkpoint(40, START + 405), checkpoint(69, START + 695), checkpoint(90, START + 1950)]
    measured, evidence = measure(frozen_run(), run=run, checkpoints=saved)
    assert measured.get("mljob_replayed_steps") == 30
    assert any("resumed from step 69" in line.text for line in evidence)


def test_a_tracker_that_shows_steps_going_back_needs_no_checkpoint_to_count_them() -> None:
    """HF's callback logs without its step: W&B counts the calls, and drops nothing when the trainer goes back."""
    steps = [*range(5, 80, 5), *range(65, 100, 5)]  # down after step 75, resumed from checkpoint-60
    times = [START + 10.0 * i + (600.0 if i >= 15 else 0.0) for i in range(len(steps))]
    runtimes = [10.0 * i for i in range(len(steps))]  # the run's own clock leaves out the 600 s
    rows = [HistoryRow(i, times[i], step, {"train/loss": 1.0, "_runtime": runtimes[i]}) for i, step in enumerate(steps)]
    for saved in (None, [checkpoint(70, START + 145)]):  # the one it resumed from is gone
        measured, _ = measure(rows, run=HistoryRun(drops_replayed_steps=True), checkpoints=saved)
        assert measured.get("mljob_replayed_steps") == 15  # 61 to 75


def test_when_that_checkpoint_is_gone_the_number_is_not_known_and_not_zero() -> None:
    run = HistoryRun(drops_replayed_steps=True)
    assert (
        measure(frozen_run(), run=run, checkpoints=[checkpoint(40, START + 405)])[0].get("mljob_replayed_steps") is None
    )
    assert measure(frozen_run(), run=run, checkpoints=[])[0].get("mljob_replayed_steps") is None
    assert measure(frozen_run(), run=run)[0].get("mljob_replayed_steps") is None
    assert measure(steady(20), run=run)[0].get("mljob_replayed_steps") == 0


@pytest.mark.parametrize(("losses", "expected"), [([2.0, math.nan], 1), ([math.nan, 2.0], 0), ([math.inf], 1)])
def test_nonfinite_follows_the_latest_value(losses: list[float], expected: int) -> None:
    rows = [HistoryRow(i, START + i, None, {"train/loss": loss}) for i, loss in enumerate(losses)]
    measured, _ = measure(rows)
    assert measured.get("mljob_nonfinite", metric="loss") == expected
    assert measured.get("mljob_nonfinite", metric="grad_norm") is None
    assert measured.get("mljob_loss") == (2.0 if 2.0 in losses else None)


def test_a_loss_that_some_ranks_could_not_measure_is_not_finite() -> None:
    rows = [HistoryRow(0, START, None, {"loss": 2.0, "loss_nan_ranks": 1.0})]
    assert measure(rows)[0].get("mljob_nonfinite", metric="loss") == 1


def test_five_ratios_make_the_least_of_the_last_five() -> None:
    losses = [2.0] * 50 + [4.0, 5.0, 6.0, 5.0]
    rows = [HistoryRow(i, START + 8 * i, None, {"loss": loss}) for i, loss in enumerate(losses)]
    assert measure(rows)[0].get("mljob_loss_trend_last5_min_ratio") is None
    rows.append(HistoryRow(len(rows), START + 8 * len(rows), None, {"loss": 3.2}))
    measured, _ = measure(rows)
    assert measured.get("mljob_loss_trend_last5_min_ratio") == pytest.approx(1.6)
    assert measured.get("mljob_loss_trend_ratio") == pytest.approx(1.6)


def test_an_rl_jobs_loss_is_not_a_training_loss() -> None:
    rows = [HistoryRow(i, START + i, i, {"loss": 2.0}) for i in range(5)]
    measured, _ = measure(rows, is_rl=True)
    assert measured.get("mljob_loss") is None
    assert measured.get("mljob_nonfinite", metric="loss") is None


def test_a_checkpoint_tells_the_target_where_neither_config_nor_history_does() -> None:
    rows = [HistoryRow(i, START + 10.0 * i, i, {"train/loss": 2.0}) for i in range(1, 41)]
    state = TrainerFacts(global_step=30, max_steps=80, save_steps=30)
    measured, evidence = measure(rows, trainer=state)
    assert measured.get("mljob_target_step") == 80
    assert measured.get("mljob_eta_seconds") == 400.0  # 40 steps of 10 s are to come
    texts = [line.text for line in evidence]
    assert "target step 80 from max_steps in trainer_state.json of the checkpoint at step 30" in texts
    told, _ = measure(rows, trainer=state, run=HistoryRun(config={"max_steps": 100}))
    assert told.get("mljob_target_step") == 100
    beyond, _ = measure(rows, trainer=TrainerFacts(global_step=30, max_steps=30))
    assert beyond.get("mljob_target_step") is None
