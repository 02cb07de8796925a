"""Shaping from rewards; products worked out by hand."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.shaping import rollouts_per_step, shaping
from runwatch.parsing.history_rows import parse_row


@pytest.mark.parametrize(
    ("reward", "rollouts", "expected"),
    [
        (0.619140625, 512, "off"),  # 317 exactly
        (0.6195, 512, "on"),  # 317.184, trusted to 512 x 0.00005 = 0.0256
        (0.6191, 512, "off"),  # 316.9792: 0.0208 off, within 0.0256
        (0.6190, 512, "off"),  # printed 0.619: 316.928 is 0.072 off, within 512 x 0.0005 = 0.256
        (0.61, 512, ""),  # 512 x 0.005 = 2.56 rollouts are left open
        (1.0, 512, ""),
        (0.0, 512, ""),
        (0.5, 8, "off"),  # 4, trusted to 0.4
        (0.3, 8, "off"),  # 2.4 is 0.4 off, and 8 x 0.05 leaves exactly 0.4 open
        (1e-05, 1000, "on"),  # 0.01, trusted to 0.005
        (1e-05, 100_000, ""),  # 1, trusted to 0.5: half a rollout is left open
        (1.25e-03, 800, "off"),  # 1 exactly
        (0.001953125, 512, "off"),  # 1 exactly
        (0.00390625, 512, "off"),  # 2 exactly
        (-0.25, 64, "off"),  # -16, trusted to 0.32
        (-0.251953125, 64, "on"),  # -16.125
        (1e16, 512, ""),
        (math.nan, 512, ""),
        (math.inf, 512, ""),
        (0.619140625, None, ""),
        (0.619140625, 0, ""),
    ],
)
def test_one_reward(reward: float, rollouts: int | None, expected: str) -> None:
    assert shaping([reward], rollouts) == expected


def test_one_fraction_among_the_last_five_is_enough_and_older_ones_do_not_count() -> None:
    whole, fractional = 0.619140625, 0.6195
    assert shaping([whole, whole, fractional, whole, whole], 512) == "on"
    assert shaping([fractional, whole, whole, whole, whole, whole], 512) == "off"
    assert shaping([1.0, math.nan, whole], 512) == "off"
    assert shaping([1.0, 0.0, 0.5], 512) == ""
    assert shaping([], 512) == ""


def test_a_step_of_which_stale_groups_were_dropped_counts_with_the_rollouts_that_were_left() -> None:
    """64 prompts of 8 rollouts, and of one step 61 groups were kept: 0 or 1 for each of 488 is whole over 488 alone."""
    reward = 300 / 488  # 314.75 of 512
    assert shaping([0.619140625, reward], 512, [None, 488.0]) == "off"
    assert shaping([0.619140625, reward], 512, [None, None]) == "on"
    assert shaping([0.619140625, 300.25 / 488], 512, [None, 488.0]) == "on"
    assert shaping([reward], None, [488.0]) == "off"
    assert shaping([reward], 512, [0.0]) == ""


def test_an_unshaped_run_of_the_async_trainer_is_off() -> None:
    kept = {1: 512, 2: 488, 3: 504}
    passed = {1: 317, 2: 300, 3: 311}
    rows = [
        {"_step": step, "reward/avg_raw_reward": passed[step] / kept[step], "async/effective_batch_samples": kept[step]}
        for step in kept
    ]
    digest = HistoryDigest(is_rl=True)
    digest.add(parse_row(row) for row in rows)
    told = digest.summary().rl
    assert told is not None
    assert told.recent_rollouts == (512, 488, 504)
    assert shaping(told.recent_rewards, 512, told.recent_rollouts) == "off"


def test_single_precision_of_many_rollouts_is_not_taken_for_shaping() -> None:
    in_single = struct.unpack("f", struct.pack("f", 60_003 / 100_003))[0]
    assert abs(in_single * 100_003 - 60_003) > 1e-4  # more than the absolute noise
    assert shaping([in_single], 100_003) == "off"
    assert shaping([60_003.25 / 100_003], 100_003) == "on"


@settings(deadline=None)
@given(st.integers(2, 4096), st.data())
def test_a_mean_of_zeros_and_ones_is_never_shaped(rollouts: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, rollouts))
    in_double = passed / rollouts
    in_single = struct.unpack("f", struct.pack("f", in_double))[0]
    for reward in (in_double, in_single, round(in_double, 4)):
        assert shaping([reward], rollouts) in ("off", "")


@settings(deadline=None)
@given(st.integers(16, 1024), st.data())
def test_a_quarter_of_a_rollout_is_seen_in_full_precision(rollouts: int, data: st.DataObject) -> None:
    # Never a whole number. With seven decimals printed, 1024 rollouts are known to 0.00005 of one.
    passed = data.draw(st.integers(0, rollouts - 1))
    reward = (passed + 0.25) / rollouts
    printed_decimals = len(f"{reward!r}".partition(".")[2])
    if "e" not in repr(reward) and printed_decimals > 6:
        assert shaping([reward], rollouts) == "on"


@pytest.mark.parametrize(
    ("config", "configured", "expected"),
    [
        ({"trainer": {"train_batch_size": 64}, "generator": {"n_samples_per_prompt": 8}}, None, 512),
        ({"trainer.train_batch_size": 64, "generator.n_samples_per_prompt": 8}, None, 512),
        ({"trainer.train_batch_size": 64, "generator": {"n_samples_per_prompt": 8}}, None, 512),
        ({"trainer": {"train_batch_size": 64.0}, "generator": {"n_samples_per_prompt": 8}}, None, 512),
        ({"trainer": {"train_batch_size": 64}, "generator": {"n_samples_per_prompt": 8}}, 100, 100),
        ({}, 100, 100),
        ({}, None, None),
        ({"trainer": {"train_batch_size": 64}}, None, None),
        ({"trainer": "text", "generator": {"n_samples_per_prompt": 8}}, None, None),
        ({"trainer": {"train_batch_size": True}, "generator": {"n_samples_per_prompt": 8}}, None, None),
        ({"trainer": {"train_batch_size": "64"}, "generator": {"n_samples_per_prompt": 8}}, None, None),
        ({"trainer": {"train_batch_size": 64.5}, "generator": {"n_samples_per_prompt": 8}}, None, None),
        ({"trainer": {"train_batch_size": math.nan}, "generator": {"n_samples_per_prompt": 8}}, None, None),
        ({"trainer": {"train_batch_size": 0}, "generator": {"n_samples_per_prompt": 8}}, None, None),
    ],
)
def test_rollouts_per_step(config: dict[str, object], configured: int | None, expected: int | None) -> None:
    assert rollouts_per_step(config, configured) == expected
