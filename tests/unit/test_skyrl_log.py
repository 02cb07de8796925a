"""A SkyRL driver's log: blocks, the short lines of the wandb tracker, and the fork's mirrored payloads."""

from __future__ import annotations

import math

import pytest

from runwatch.parsing.log_records import LogRow
from runwatch.parsing.trainer_log import TrainerLogParser
from tests.unit.log_fragments import capture, fragments_of

RAY = "\x1b[36m(skyrl_entrypoint pid=6935)\x1b[0m "
SYNC = "Training Batches Processed"
ASYNC = "Training Step Progress"


def said(message: str, *, prefix: str = RAY, second: int = 7) -> str:
    """One loguru line of the driver; of a message with several lines only the first has loguru's prefix."""
    first, *others = message.split("\n")
    head = f"{prefix}\x1b[32m2026-11-29 17:45:{second:02d}.397\x1b[0m | \x1b[1mINFO    \x1b[0m | "
    head += f"\x1b[36mskyrl.train.trainer\x1b[0m:\x1b[36mtrain\x1b[0m:\x1b[36m498\x1b[0m - \x1b[1m{first}"
    return "\n".join([head, *(prefix + line for line in others)]) + "\x1b[0m\n"


def bar(done: int, total: int, clock: str, description: str = SYNC) -> str:
    return f"{RAY}\r{description}:  19%|█▉        | {done}/{total} [{clock}<01:18, 1800.00s/it]\n"


def step_lines(loss: float, reward: float = 0.5, *, clip: float = 0.0) -> str:
    return (
        said(f"reward/avg_pass_at_8: 0.75, reward/avg_raw_reward: {reward}")
        + said("Finished: 'policy_train', time cost: 61.5s")
        + said(
            f"{{'final_loss': {loss}, 'policy_loss': {loss}, 'policy_lr': 1e-06, "
            f"'clip_ratio': {clip}, 'grad_norm': nan}}"
        )
    )


def parsed(text: str) -> tuple[TrainerLogParser, list[LogRow]]:
    parser = TrainerLogParser()
    rows = parser.feed(fragments_of(text))
    return parser, rows + parser.finish()


def test_the_capture_has_two_blocks_beside_lines_of_full_precision() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(capture("rl/rl_ray_console_shape.out"))
    assert (parser.format, parser.total_steps, parser.unparsed, parser.completed) == ("skyrl", 80, 0, False)
    assert [row.step for row in rows] == [15, 16]
    values = rows[0].values
    assert values["reward/avg_raw_reward"] == 0.619140625  # the block prints 0.6191
    assert values["policy/policy_lr"] == 1e-06  # the block prints 0.0000
    assert values["reward/avg_pass_at_8"] == 0.75
    assert values["policy/policy_loss"] == -0.004
    assert values["policy/policy_entropy"] == 0.31
    assert values["policy/grad_norm"] == 0.006
    assert values["policy/loss_metrics/clip_ratio"] == 0.0
    assert values["timing/step"] == 123.456  # the timer's own line says 123.45, which is no rounding of it
    assert values["async/staleness_violation_count"] == 0.0
    assert values["trainer/global_step"] == 15.0
    assert math.isnan(values["generate/avg_tokens_non_zero_rewards"])
    assert parser.position is not None and parser.position.step == 16


def test_blocks_alone_have_four_decimals() -> None:
    _, rows = parsed(
        bar(14, 80, "00:10")
        + said(
            "Step 15: \n{'policy/policy_loss': '-0.0000',\n 'reward/avg_raw_reward': '0.6191',\n"
            " 'trainer/global_step': 15}"
        )
    )
    assert [row.step for row in rows] == [15]
    assert math.copysign(1.0, rows[0].values["policy/policy_loss"]) == -1.0
    assert rows[0].values["reward/avg_raw_reward"] == 0.6191


def test_two_blocks_of_one_step_are_merged() -> None:
    _, rows = parsed(
        bar(14, 80, "00:10", ASYNC)
        + said("Step 15: \n{'policy/policy_loss': '0.1000',\n 'policy/grad_norm': '0.2000'}")
        + said("Step 15: \n{'timing/step': '30.0000',\n 'timing/generate': '20.0000'}")
        + said("Step 16: \n{'policy/policy_loss': '0.3000',\n 'policy/grad_norm': '0.2000'}")
    )
    assert [row.step for row in rows] == [15, 15, 16]
    assert rows[1].values == {
        "policy/policy_loss": 0.1,
        "policy/grad_norm": 0.2,
        "timing/step": 30.0,
        "timing/generate": 20.0,
    }
    assert rows[2].values == {"policy/policy_loss": 0.3, "policy/grad_norm": 0.2}


def test_other_actors_lines_within_a_block_are_passed_over() -> None:
    block = said("Step 15: \n{'policy/policy_loss': '0.1000',\n 'reward/avg_raw_reward': '0.5000'}").splitlines(
        keepends=True
    )
    other = "(RolloutWorker pid=77) 'policy/policy_loss': '9.0000',\n"
    parser, rows = parsed(bar(14, 80, "00:10") + block[0] + other + block[1] + other + block[2])
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(15, 0.1)]
    assert parser.unparsed == 0


def test_lines_without_a_step_belong_to_the_bars_next_update() -> None:
    parser, rows = parsed(
        bar(14, 80, "00:10")
        + step_lines(0.25, 0.619140625)
        + bar(15, 80, "30:10")
        + step_lines(-1.5e-05, clip=0.0125)
        + bar(16, 80, "1:00:10")
    )
    assert [row.step for row in rows] == [15, 16]
    assert rows[0].values["policy/policy_loss"] == 0.25
    assert rows[0].values["reward/avg_raw_reward"] == 0.619140625
    assert rows[0].values["timing/policy_train"] == 61.5
    assert rows[1].values["policy/policy_loss"] == -1.5e-05
    assert rows[1].values["policy/clip_ratio"] == 0.0125
    assert math.isnan(rows[1].values["policy/grad_norm"])
    assert rows[1].elapsed == 3610.0
    assert parser.total_steps == 80


def test_what_stands_before_the_first_bar_that_is_seen_has_no_step() -> None:
    parser, rows = parsed(step_lines(0.5) + bar(15, 80, "30:10") + step_lines(0.25) + bar(16, 80, "1:00:10"))
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(16, 0.25)]
    assert parser.unparsed == 1


def test_a_step_whose_bar_was_lost_does_not_take_the_next_ones_number() -> None:
    _, rows = parsed(bar(14, 80, "00:10") + step_lines(0.5) + step_lines(0.25) + bar(16, 80, "1:00:10"))
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(16, 0.25)]


@pytest.mark.parametrize(("kept", "rollouts"), [("488", 488.0), ("N/A", None)])
def test_the_forks_line_of_rewards_says_how_many_rollouts_were_kept(kept: str, rollouts: float | None) -> None:
    """`trainer.py` of marin-community/MarinSkyRL since March 2026; the sync trainer drops none and says N/A."""
    reward = f"reward/avg_pass_at_8: 0.75, reward/avg_raw_reward: 0.6147540983606558 (effective_batch={kept} samples)"
    status = "{'final_loss': 0.5, 'policy_loss': 0.25, 'ppo_clip_ratio': 0.0, 'raw_grad_norm': 0.125}"
    text = bar(0, 80, "00:00") + said("Step 1: effective_batch=488 samples (61/64 groups), discard_rate=4.7%")
    parser, rows = parsed(text + said(reward) + said(status) + bar(1, 80, "30:00"))
    assert parser.unparsed == 0
    [row] = rows
    assert row.step == 1
    assert row.values["reward/avg_raw_reward"] == 0.6147540983606558
    assert row.values["reward/avg_pass_at_8"] == 0.75
    assert row.values.get("async/effective_batch_samples") == rollouts
    assert row.values["policy/raw_grad_norm"] == 0.125


def test_the_forks_lines_beside_its_own_count_as_read() -> None:
    mirror = 'WANDB_MIRROR kind=train step=1 metrics={"policy/policy_loss": 0.25, "reward/avg_raw_reward": 0.5}'
    line = "reward/avg_pass_at_8: 0.75, reward/avg_raw_reward: 0.5 (effective_batch=512 samples)"
    parser, rows = parsed(2 * (said(line) + said(mirror)))
    assert parser.unparsed == 0
    assert [row.step for row in rows] == [1, 1]


def test_a_link_that_finds_nothing_left_to_do_is_completed() -> None:
    loaded = said("Successfully loaded complete checkpoint state from global_step_80")
    parser, rows = parsed(loaded + said("Training already complete on resume — exiting cleanly."))
    assert (parser.format, parser.completed, rows) == ("skyrl", True, [])


def test_the_bar_counts_further_than_the_steps_with_dynamic_sampling() -> None:
    parser, rows = parsed(
        bar(14, 80, "00:10")
        + step_lines(0.5)
        + bar(15, 80, "00:20")
        + bar(16, 80, "00:30")  # sampled on, without a step
        + step_lines(0.25)
        + bar(17, 80, "00:40")
    )
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(15, 0.5), (16, 0.25)]
    assert parser.position is not None and parser.position.step == 16


def test_a_bar_that_moves_before_the_first_steps_metrics_is_no_step() -> None:
    sampled_on = said("Finished: 'generate', time cost: 300.0s") + bar(1, 80, "05:00")
    parser, rows = parsed(bar(0, 80, "00:00") + sampled_on)
    assert (rows, parser.position) == ([], None)
    parser, rows = parsed(bar(0, 80, "00:00") + sampled_on + step_lines(0.5) + bar(2, 80, "10:00"))
    assert [row.step for row in rows] == [1]
    without_metrics, _ = parsed(bar(0, 80, "00:00") + bar(1, 80, "05:00"))
    assert without_metrics.position is not None and without_metrics.position.step == 1


def test_a_saved_checkpoint_tells_the_step_better_than_the_bar() -> None:
    parser, rows = parsed(
        bar(20, 80, "00:10")  # 3 of these updates were no steps, before what is read here
        + step_lines(0.5)
        + said("Successfully saved checkpoint for global_step_18 to: /data/ckpts/global_step_18")
        + bar(21, 80, "00:20")
        + step_lines(0.25)
        + bar(22, 80, "00:30")
    )
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(18, 0.5), (19, 0.25)]
    assert parser.position is not None and parser.position.step == 19


def test_the_forks_own_lines_are_preferred_to_all_others() -> None:
    mirror = (
        'WANDB_MIRROR kind=train step=2 metrics={"policy/log_ratio_abs_mean": 0.0121, "policy/policy_loss": 2.77e-09, '
        '"policy/raw_grad_norm": NaN, "reward/avg_raw_reward": -0.9194, "tis/imp_ratio_mean": 1.02}'
    )
    parser, rows = parsed(
        bar(1, 33, "00:10", ASYNC)
        + said(mirror)
        + said('WANDB_MIRROR kind=eval step=2 metrics={"eval/all/avg_score": 0.25}')
        + step_lines(9.0)
        + said("Step 2: \n{'policy/policy_loss': '9.0000',\n 'reward/avg_raw_reward': '9.0000'}")
        + bar(2, 33, "00:20", ASYNC)
    )
    assert [row.step for row in rows] == [2, 2]
    assert rows[0].values["policy/policy_loss"] == 2.77e-09
    assert rows[0].values["reward/avg_raw_reward"] == -0.9194
    assert rows[0].values["policy/log_ratio_abs_mean"] == 0.0121
    assert math.isnan(rows[0].values["policy/raw_grad_norm"])
    assert rows[1].values == {"eval/all/avg_score": 0.25}
    assert (parser.format, parser.total_steps) == ("skyrl", 33)


def test_a_resumed_run_does_steps_again_and_the_later_line_comes_later() -> None:
    def mirrored(step: int, loss: float) -> str:
        return said(f'WANDB_MIRROR kind=train step={step} metrics={{"policy/policy_loss": {loss}}}')

    parser, rows = parsed(
        bar(0, 33, "00:00")
        + mirrored(11, 0.5)
        + bar(11, 33, "20:00")
        + mirrored(12, 0.4)
        + bar(12, 33, "30:00")
        + said("Successfully loaded complete checkpoint state from global_step_10")
        + bar(10, 33, "00:00")
        + mirrored(11, 0.3)
        + bar(11, 33, "10:00")
        + said("Training done!")
    )
    assert [(r.step, r.values["policy/policy_loss"], r.attempt) for r in rows] == [
        (11, 0.5, 0),
        (12, 0.4, 0),
        (11, 0.3, 1),
    ]
    assert parser.position is not None and parser.position.step == 11
    assert parser.completed


def test_a_link_without_mirrored_lines_falls_back_to_the_short_ones() -> None:
    _, rows = parsed(
        bar(1, 33, "00:10")
        + said('WANDB_MIRROR kind=train step=2 metrics={"policy/policy_loss": 0.5}')
        + bar(2, 33, "00:20")
        + bar(2, 33, "00:00")
        + step_lines(0.25)
        + bar(3, 33, "10:00")
    )
    assert [(r.step, r.values["policy/policy_loss"], r.attempt) for r in rows] == [(2, 0.5, 0), (3, 0.25, 1)]


def test_text_of_a_model_that_imitates_metrics_gives_none() -> None:
    mirror = 'WANDB_MIRROR kind=train step=900 metrics={"policy/policy_loss": 1.0}'
    status = "{'policy_loss': 1.0, 'policy_entropy': 2.0, 'grad_norm': 3.0}"
    transcript = "".join(
        f"{who}{line}\n"
        for who in (RAY, "(AgentLoop pid=77) ", "")
        for line in (mirror, status, "Step 900: ", "{'policy/policy_loss': '1.0000'}", "reward/avg_raw_reward: 1.0")
    )
    parser, rows = parsed(
        bar(14, 80, "00:10")
        + transcript
        + said(mirror, prefix="(AgentLoop pid=77) ")
        + f"{RAY}the model said: {said(mirror, prefix='')}"
        + step_lines(0.25)
        + bar(15, 80, "30:10")
    )
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(15, 0.25)]
    assert parser.total_steps == 80


def test_nested_bars_are_no_steps() -> None:
    parser, rows = parsed(
        bar(14, 80, "00:10")
        + f"{RAY}\rGenerating Trajectories: 100%|██████████| 64/64 [00:01<00:00,  3.32it/s]\x1b[A\n"
        + f"{RAY}\rGeneration Buffer Progress:  50%|█████     | 60/120 [00:01<00:00,  3.32it/s, buffer qsize=7]\n"
        + f"{RAY}\rPolicy Train epoch [1/1]:  50%|█████     | 20/40 [00:01<00:00,  3.32it/s, pg=0.1]\n"
    )
    assert rows == []
    assert parser.position is not None and parser.position.step == 14


def test_a_line_that_cannot_be_read_is_counted() -> None:
    parser, rows = parsed(bar(14, 80, "00:10") + said('WANDB_MIRROR kind=train step=6 metrics={"broken": '))
    assert rows == []
    assert parser.unparsed == 1


def test_the_async_trainer_says_its_total_before_its_bar() -> None:
    parser, rows = parsed(said("Total training steps: 1,033") + said("Step 5: loss=1.2345, grad_norm=0.5") + said("x"))
    assert parser.total_steps == 1033
    assert [(row.step, dict(row.values)) for row in rows] == [(5, {"train/loss": 1.2345, "train/grad_norm": 0.5})]


def test_an_agent_that_trained_something_before_the_first_bar_is_not_the_trainer() -> None:
    agent = "(AgentLoop pid=77) "
    transcript = (
        f"{agent}\r 10%|█         | 5/50 [00:01<00:09,  5.00it/s]\r{' ' * 40}\r"
        "{'loss': 1.0, 'grad_norm': 1.0, 'learning_rate': 0.1, 'epoch': 0.1}\n"
        f"{agent}\r 10%|█         | 5/50 [00:01<00:09,  5.00it/s]\n"
    )
    banner = f"{agent}***** Running training *****\n{agent}  Total optimization steps = 50\n"
    parser, rows = parsed(transcript)
    assert (rows, parser.format, parser.total_steps) == ([], "", None)
    parser, rows = parsed(
        banner + transcript + bar(14, 80, "00:10") + step_lines(0.25) + transcript + bar(15, 80, "30:00")
    )
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows[1:]] == [(15, 0.25)]
    assert (parser.format, parser.total_steps) == ("skyrl", 80)


def test_metrics_and_a_bar_on_two_sides_of_a_gap_are_not_put_together() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(fragments_of(bar(14, 80, "00:10") + step_lines(0.5)))
    parser.skip()
    rows += parser.feed(fragments_of(bar(40, 80, "5:00:00") + step_lines(0.25) + bar(41, 80, "5:30:00")))
    assert [(row.step, row.values["policy/policy_loss"], row.attempt) for row in rows] == [(41, 0.25, 0)]


def test_a_block_before_any_bar_takes_its_own_actors_lines_only() -> None:
    block = said("Step 15: \n{'policy/policy_loss': '0.1000',\n 'reward/avg_raw_reward': '0.5000'}")
    header, *rest = block.splitlines(keepends=True)
    parser, rows = parsed(header + "(RolloutWorker pid=77) {'policy/policy_loss': '9.0000'}\n" + "".join(rest))
    assert [(row.step, row.values["policy/policy_loss"]) for row in rows] == [(15, 0.1)]
    assert parser.format == "skyrl"


def test_the_bar_that_a_resumed_run_begins_with_is_no_step() -> None:
    resumed = said("Successfully loaded complete checkpoint state from global_step_10") + bar(10, 80, "00:00")
    parser, rows = parsed(bar(9, 80, "10:00") + step_lines(0.1) + bar(10, 80, "20:00") + resumed)
    assert [(row.step, row.attempt) for row in rows] == [(10, 0)]
    assert parser.position is not None
    assert (parser.position.step, parser.position.attempt) == (10, 0)  # the one that was done, not the bar's beginning


def test_where_steps_tell_their_number_a_bar_that_runs_ahead_is_no_step_after_a_restart_either() -> None:
    mirrored = said('WANDB_MIRROR kind=train step=10 metrics={"policy/policy_loss": 0.1}')
    resumed = said("Successfully loaded complete checkpoint state from global_step_10") + bar(10, 80, "00:00")
    parser, _ = parsed(bar(9, 80, "10:00") + mirrored + bar(10, 80, "20:00") + resumed + bar(12, 80, "30:00"))
    assert parser.position is not None
    assert (parser.position.step, parser.attempt) == (10, 1)  # dynamic sampling moved the bar twice


def test_the_block_behind_the_async_trainers_bar_keeps_the_full_precision_before_it() -> None:
    block = (
        "Step 15: \n{'policy/policy_loss': '0.0000',\n 'policy/grad_norm': 'nan',\n 'async/staleness_max': '2.0000'}"
    )
    _, rows = parsed(bar(14, 80, "10:00", ASYNC) + step_lines(0.0000123) + bar(15, 80, "20:00", ASYNC) + said(block))
    assert [row.step for row in rows] == [15, 15]
    assert rows[-1].values["policy/policy_loss"] == 0.0000123
    assert rows[-1].values["async/staleness_max"] == 2.0
