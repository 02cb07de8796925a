"""The digest of an RL history against a slow version that keeps everything and computes in exact fractions."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.derive.rl_digest import RLDigest, RLSummary, completed_by
from runwatch.facts import HistoryRow

GRAD, ENTROPY, MEAN, MAX = (
    "policy/raw_grad_norm",
    "policy/policy_entropy",
    "policy/log_ratio_abs_mean",
    "policy/log_ratio_abs_max",
)
REWARD, LOSS, FAILED = "reward/avg_raw_reward", "policy/policy_loss", "policy/log_ratio_diagnostics_failed"
TOKENS, TIS = "generate/avg_num_tokens", "tis/log_ratio_abs_mean"
DEFINING = (GRAD, ENTROPY, MEAN, MAX, REWARD, LOSS)
ALL_KEYS = (*DEFINING, FAILED, TOKENS, TIS)

STEADY = {GRAD: 0.4, ENTROPY: 1.0, MEAN: 0.01, MAX: 0.2, REWARD: 0.5, LOSS: 0.1, FAILED: 0.0, TOKENS: 900.0}
COLLAPSING = {**STEADY, GRAD: 0.9, ENTROPY: 0.6, MEAN: 0.03}

Rows = Sequence[tuple[int, dict[str, float]]]


def digest_of(rows: Rows) -> RLSummary:
    digest = RLDigest()
    for cursor, (step, values) in enumerate(rows):
        digest.add(HistoryRow(cursor=cursor, time=float(step), trainer_step=step, values=values), step)
    return digest.summary()


@dataclass
class Expected:
    step: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    figures: dict[str, Fraction | None] = field(default_factory=dict)
    collapse_step: int | None = None
    rewards: tuple[float, ...] = ()


def exact(value: float) -> Fraction:
    return Fraction(repr(value))


def slow_figures(lineage: list[tuple[int, dict[str, float]]], index: int) -> dict[str, Fraction | None]:
    """All figures of one step, from the whole lineage before it."""

    def finite(key: str, until: int) -> list[Fraction]:
        return [exact(values[key]) for _, values in lineage[:until] if math.isfinite(values.get(key, math.nan))]

    def relative(key: str, average: str) -> Fraction | None:
        latest = lineage[index][1].get(key, math.nan)
        before = finite(key, index)
        if not math.isfinite(latest) or len(before) < 10:
            return None
        middle = statistics.median(before[-10:]) if average == "median" else statistics.mean(before[-10:])
        return exact(latest) / middle if middle > 0 else None

    entropy = relative(ENTROPY, "mean")
    grads = finite(GRAD, index + 1)
    has_grad = math.isfinite(lineage[index][1].get(GRAD, math.nan))
    return {
        "last2": min(grads[-2:]) if has_grad and len(grads) >= 2 else None,
        "grad": relative(GRAD, "median"),
        "entropy": None if entropy is None else entropy - 1,
        "mean": relative(MEAN, "median"),
        "max": relative(MAX, "median"),
    }


def slow_signal_count(figures: dict[str, Fraction | None], values: dict[str, float]) -> int:
    def above(name: str, limit: str) -> bool:
        figure = figures[name]
        return figure is not None and figure > Fraction(limit)

    substance = Fraction("0.001")
    count = 0
    if above("last2", "1") or (above("grad", "2") and exact(values[GRAD]) >= substance):
        count += 1
    if figures["entropy"] is not None and abs(figures["entropy"]) > Fraction("0.3"):
        count += 1
    if above("mean", "2") and exact(values[MEAN]) >= substance and figures["max"] is not None and not above("max", "2"):
        count += 1
    return count


def slow(rows: Rows) -> Expected:
    lineage: dict[int, dict[str, float]] = {}
    for step, values in rows:
        own = {key: value for key, value in values.items() if key in ALL_KEYS}
        if not own:
            continue
        if lineage and max(lineage) > step:
            lineage = {known: kept for known, kept in lineage.items() if known < step}
        lineage[step] = {**lineage.get(step, {}), **own}
    for values in lineage.values():
        if values.get(FAILED, 0) > 0:
            for key in (MEAN, MAX):
                values.pop(key, None)
    ordered = sorted(lineage.items())
    result = Expected()
    for index, (step, values) in enumerate(ordered):
        figures = slow_figures(ordered, index)
        if slow_signal_count(figures, values) >= 2:
            result.collapse_step = step
        if any(key in values for key in DEFINING):
            result.step, result.values, result.figures = step, values, figures
    rewards = [values[REWARD] for _, values in ordered if math.isfinite(values.get(REWARD, math.nan))]
    result.rewards = tuple(rewards[-5:])
    return result


def assert_same(summary: RLSummary, expected: Expected) -> None:
    assert summary.step == expected.step
    assert summary.collapse_step == expected.collapse_step
    assert summary.recent_rewards == expected.rewards
    assert repr(sorted(summary.values.values.items())) == repr(sorted(expected.values.items()))
    if expected.step is None:
        return
    figures = summary.figures
    got = {
        "last2": figures.grad_norm_last2_min,
        "grad": figures.grad_norm.ratio if figures.grad_norm else None,
        "entropy": figures.entropy.ratio if figures.entropy else None,
        "mean": figures.log_ratio_mean.ratio if figures.log_ratio_mean else None,
        "max": figures.log_ratio_max.ratio if figures.log_ratio_max else None,
    }
    for name, figure in expected.figures.items():
        assert got[name] == (None if figure is None else pytest.approx(float(figure), abs=1e-11)), name


def numbers(*usual: float) -> st.SearchStrategy[float]:
    return st.sampled_from([*usual, *usual, *usual, math.nan, math.inf, 0.0])


ROW_VALUES = st.fixed_dictionaries(
    {},
    optional={
        GRAD: numbers(0.0004, 0.001, 0.3, 0.5, 1.0, 1.1, 2.5),
        ENTROPY: numbers(0.5, 0.7, 1.0, 1.3, 1.4, -0.2),
        MEAN: numbers(0.0004, 0.001, 0.01, 0.02, 0.05),
        MAX: numbers(0.1, 0.2, 0.25, 0.5),
        REWARD: numbers(0.25, 0.5),
        LOSS: numbers(0.1, -0.1),
        FAILED: st.sampled_from([0.0, 0.0, 0.0, 0.125, 1.0]),
        TOKENS: numbers(900.0),
        TIS: numbers(7.0),
        "eval/all/avg_score": numbers(0.4),
        "timing/step": numbers(3.0),
        "system/gpu": numbers(1.0),
    },
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, dict[str, float]]]:
    """Steps that mostly go on by one, repeat (a split step) or fall back (a rollback), with any keys missing."""
    begun = draw(st.integers(0, 12))  # so that windows are full in many histories
    rows: list[tuple[int, dict[str, float]]] = [(step, STEADY) for step in range(begun)]
    step = begun - 1
    for move in draw(st.lists(st.sampled_from([1, 1, 1, 1, 1, 1, 0, 0, 3, -1, -4, -12]), min_size=8, max_size=30)):
        step = max(0, step + move)
        rows.append((step, draw(ROW_VALUES)))
    return rows


@settings(max_examples=200)
@given(histories())
def test_incremental_equals_slow_at_every_row(rows: list[tuple[int, dict[str, float]]]) -> None:
    digest = RLDigest()
    for count, (step, values) in enumerate(rows, start=1):
        digest.add(HistoryRow(count, None, step, values), step)
        if count % 7 == 0 or count == len(rows):
            assert_same(digest.summary(), slow(rows[:count]))


@settings(max_examples=50)
@given(st.data())
def test_rows_of_a_step_may_be_split_in_any_way(data: st.DataObject) -> None:
    whole = [(step, COLLAPSING if step == 13 else STEADY) for step in range(data.draw(st.integers(14, 18)))]
    split: list[tuple[int, dict[str, float]]] = []
    for step, values in whole:
        parts: list[dict[str, float]] = [{} for _ in range(3)]
        for key in data.draw(st.permutations(sorted(values))):
            parts[data.draw(st.integers(0, 2))][key] = values[key]
        split += [(step, part) for part in parts]
    assert digest_of(whole).collapse_step == 13
    assert digest_of(split) == digest_of(whole)


def test_a_later_row_of_the_step_can_take_a_collapse_back() -> None:
    rows = [(step, STEADY) for step in range(10)]
    assert digest_of([*rows, (10, COLLAPSING)]).collapse_step == 10
    assert digest_of([*rows, (10, COLLAPSING), (10, STEADY)]).collapse_step is None
    # Without entropy, grad norm and log-ratio still hold; the flag then voids the log-ratio.
    two = {key: value for key, value in COLLAPSING.items() if key != ENTROPY}
    assert digest_of([*rows, (10, two)]).collapse_step == 10
    assert digest_of([*rows, (10, two), (10, {FAILED: 1.0})]).collapse_step is None


def test_a_rollback_voids_later_steps_and_their_collapse() -> None:
    rows = [(step, STEADY) for step in range(12)] + [(12, COLLAPSING), (13, COLLAPSING)]
    assert digest_of(rows).collapse_step == 13
    resumed = [*rows, (11, {**STEADY, GRAD: 0.8})]
    summary = digest_of(resumed)
    assert (summary.step, summary.collapse_step) == (11, None)
    # The window of step 11 is steps 1 to 10 at 0.4: neither 0.9 of a void step nor the first step 11 is in it.
    assert summary.figures.grad_norm is not None
    assert (summary.figures.grad_norm.baseline, summary.figures.grad_norm.ratio) == (0.4, 2.0)
    assert summary.figures.grad_norm_last2_min == 0.4
    # A collapse older than the resumed step stays.
    old = [(step, COLLAPSING if step == 10 else STEADY) for step in range(15)]
    assert digest_of([*old, (12, STEADY)]).collapse_step == 10
    assert digest_of([*old, (10, STEADY)]).collapse_step is None


def test_eval_and_timing_at_the_resumed_step_do_not_void_it() -> None:
    rows = [(step, {**STEADY, REWARD: step / 16}) for step in range(12)]
    after_eval = [*rows, (9, {"eval/all/avg_score": 0.25, "timing/eval": 8.0, "system/gpu": 1.0})]
    summary = digest_of(after_eval)
    assert summary.step == 11
    assert summary.eval_score is not None
    assert (summary.eval_score.value, summary.eval_score.step) == (0.25, 9)
    # The first policy step after it is 10: step 9 is still in the lineage, 10 and 11 are replaced.
    assert digest_of([*after_eval, (10, {**STEADY, REWARD: 0.0})]).recent_rewards == (0.375, 0.4375, 0.5, 0.5625, 0.0)


def test_memory_is_bounded_and_long_histories_stay_exact() -> None:
    digest = RLDigest()
    timings = {f"timing/part{number}": 1.0 for number in range(100)}
    for step in range(10_000):
        values = {**STEADY, GRAD: 0.1 if step % 2 else 2.0, ENTROPY: 1.0 if step % 2 else 9.0, **timings}
        digest.add(HistoryRow(step, float(step), step, values), step)
        if step == 5_000:
            middle = deep_size(digest)
    assert deep_size(digest) <= middle * 1.05
    assert deep_size(digest) < 500_000
    summary = digest.summary()
    assert len(summary.timings) == 64
    assert summary.timing_parts_left_out == 36
    # Even steps: grad norm 2.0 against a median of (0.1 + 2.0) / 2 is no signal; entropy 9.0 against 5.0 is one.
    assert summary.collapse_step is None
    assert summary.step == 9_999
    assert summary.figures.grad_norm is not None
    assert summary.figures.grad_norm.baseline == pytest.approx(1.05)


def test_collapse_steps_kept_are_bounded_by_the_newest() -> None:
    digest = RLDigest()
    for step in range(3_000):
        # Halving entropy and a grad norm above 1: two signals at every step from the eleventh on.
        values = {GRAD: 1.5, ENTROPY: 2.0 ** -(step % 900)}
        digest.add(HistoryRow(step, None, step, values), step)
    assert digest.summary().collapse_step == 2_999
    assert len(digest._collapse_steps) == 1_000


def deep_size(item: object) -> int:
    seen: set[int] = set()
    waiting, total = [item], 0
    while waiting:
        current = waiting.pop()
        if id(current) in seen or isinstance(current, type):
            continue
        seen.add(id(current))
        total += sys.getsizeof(current)
        if isinstance(current, dict):
            waiting += [*current.keys(), *current.values()]
        elif isinstance(current, list | tuple | set):
            waiting += list(current)
        else:
            waiting += list(getattr(current, "__dict__", {}).values())
            slots = getattr(type(current), "__slots__", ())
            waiting += [getattr(current, slot) for slot in slots if hasattr(current, slot)]
    return total


@pytest.mark.parametrize(
    ("step", "collapsed", "held", "expected"),
    [
        (None, None, 7, (9, 7)),  # it tells nothing of RL: all stays
        (12, None, 7, (12, 7)),
        (12, 11, 7, (12, 11)),
        (12, 3, 7, (12, 7)),
        (12, None, None, (12, None)),
        (7, None, 7, (7, 7)),
        (6, None, 7, (6, None)),  # the step of the collapse was taken back
    ],
)
def test_a_history_in_anothers_place_forgets_no_collapse(
    step: int | None, collapsed: int | None, held: int | None, expected: tuple[int, int | None]
) -> None:
    before = RLSummary(step=9, collapse_step=held)
    found = completed_by(RLSummary(step=step, collapse_step=collapsed), before)
    assert (found.step, found.collapse_step) == expected
