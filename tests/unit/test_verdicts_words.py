"""Ends, news, blindness, the order of verdicts, and that each word has a condition, a rule and a place."""

from __future__ import annotations

import pytest

from runwatch.derive.verdict_rules import rule_of
from runwatch.derive.verdicts import verdicts
from runwatch.measurements import Measurements, Verdict
from runwatch.thresholds import VERDICTS
from tests.unit.small_fleet import HOUR, MINUTE, NOW, Value, measure

SEEN = NOW - 10
READ: dict[str, Value] = {"observed_timestamp_seconds": {"history": SEEN, "checkpoints": SEEN}}


@pytest.mark.parametrize(
    ("bucket", "kind", "cleanup"),
    [
        ("rl", "agentic", "clean-up: rl-agentic-job-cleanup"),
        ("rl", "standard", "clean-up: rl-standard-job-cleanup"),
        ("rl", "", "clean-up: rl-agentic-job-cleanup or rl-standard-job-cleanup"),
        ("sft", "midtraining", "clean-up: sft-job-cleanup"),
        ("datagen", "", "clean-up: datagen-job-cleanup"),
        ("eval", "", "clean-up: eval-agentic-cleanup"),
        ("other", "gpu-ci", "nothing to do"),
    ],
)
def test_a_completed_job_names_its_cleanup(bucket: str, kind: str, cleanup: str) -> None:
    found = verdicts(measure({}, "succeeded", "finished"), bucket, {"kind": kind}, NOW)
    assert found == (Verdict("completed", f"completed; {cleanup}"),)


@pytest.mark.parametrize(
    ("trials", "target", "expected"),
    [
        (142, 300, "completed with 142 of 300 results; clean-up: eval-agentic-cleanup"),
        (300, 300, "completed; clean-up: eval-agentic-cleanup"),
        (142, None, "completed; clean-up: eval-agentic-cleanup"),
    ],
)
def test_an_eval_that_completed_early_says_what_is_missing(trials: int, target: int | None, expected: str) -> None:
    values: dict[str, Value] = {"trials": trials} | ({} if target is None else {"trials_target": target})
    found = verdicts(measure(values, "succeeded", "finished"), "eval", {}, NOW)
    assert found == (Verdict("completed", expected),)


@pytest.mark.parametrize(
    ("state", "values", "expected"),
    [
        ("failed", {"exit_code": 137, "step": 120, "target_step": 500},
         Verdict("failed", "failed, exit 137 at step 120 of 500 (24.0 %): diagnose")),
        ("failed", {"step": 29990, "target_step": 29995},
         Verdict("failed", "failed at step 29990 of 29995 (99.98 %): diagnose")),
        ("failed", {}, Verdict("failed", "failed: diagnose")),
        ("timeout", {"step": 120}, Verdict("timeout", "ended at the wall-time limit at step 120")),
        ("killed", {}, Verdict("killed", "killed")),
        ("vanished", {}, Verdict("vanished", "vanished: its record or its pods are gone; diagnose")),
    ],
)  # fmt: skip
def test_other_ends(state: str, values: dict[str, Value], expected: Verdict) -> None:
    assert verdicts(measure(values, state, "finished"), "sft", {}, NOW) == (expected,)


@pytest.mark.parametrize(
    ("phase", "state", "expected"),
    [
        ("queued", "pending", Verdict("queued", "queued")),
        ("bringup", "running", Verdict("bringup", "no first step yet")),
        ("bringup", "preempted", Verdict("bringup", "preempted before its first step")),
        ("resuming", "running", Verdict("resuming", "resuming, no new step yet")),
        ("resuming", "preempted", Verdict("resuming", "preempted, waits to be placed again")),
        ("finishing", "running", Verdict("finishing", "last step reached, still running")),
        ("stepping", "running", Verdict("stable", "stable")),
        ("stepping", "unknown", Verdict("unknown", "state unknown: no source tells whether it runs")),
    ],
)
def test_phases(phase: str, state: str, expected: Verdict) -> None:
    assert verdicts(measure(READ, state, phase), "sft", {}, NOW) == (expected,)


def test_nothing_measured_says_nothing() -> None:
    assert verdicts(Measurements(), "rl", {}, NOW) == ()


def test_stable_needs_a_history_that_was_read() -> None:
    scheduler_only: dict[str, Value] = {"observed_timestamp_seconds": {"scheduler": SEEN}}
    assert verdicts(measure(scheduler_only, "running"), "sft", {}, NOW) == ()


@pytest.mark.parametrize(("age", "holds"), [(30 * MINUTE, True), (30 * MINUTE + 1, False)])
def test_a_saved_checkpoint_is_news_for_half_an_hour(age: float, holds: bool) -> None:
    found = verdicts(
        measure(READ | {"checkpoint_timestamp_seconds": SEEN - age}, "running", "stepping"), "sft", {}, NOW
    )
    expected = Verdict("checkpoint_saved", "checkpoint saved") if holds else Verdict("stable", "stable")
    assert found == (expected,)


@pytest.mark.parametrize(
    ("ended_ago", "length", "expected"),
    [
        (30 * MINUTE, 22 * MINUTE, Verdict("resumed", "resumed after 22 min")),
        (12 * MINUTE, None, Verdict("resumed", "resumed 12 min ago")),
        (30 * MINUTE + 1, 22 * MINUTE, Verdict("stable", "stable")),
    ],
)
def test_resumed(ended_ago: float, length: float | None, expected: Verdict) -> None:
    measured = measure(READ | {"gap_end_timestamp_seconds": {"preemption": SEEN - ended_ago}}, "running", "stepping")
    assert verdicts(measured, "sft", {}, NOW, newest_gap_seconds=length) == (expected,)


@pytest.mark.parametrize(
    ("age", "interval", "blind"),
    [(300, 60, False), (301, 60, True), (301, 600, False), (1800, 600, False), (1801, 600, True)],
)
def test_blind_after_five_minutes_or_three_intervals(age: float, interval: float, blind: bool) -> None:
    measured = measure({"observed_timestamp_seconds": {"history": NOW - age}}, "running", "stepping")
    found = {verdict.word for verdict in verdicts(measured, "sft", {}, NOW, intervals={"history": interval})}
    assert found == ({"unobserved"} if blind else {"stable"})


@pytest.mark.parametrize(("asked", "blind"), [(45 * MINUTE, False), (45 * MINUTE + 1, True)])
def test_a_source_that_never_answered(asked: float, blind: bool) -> None:
    measured = measure({"source_configured_timestamp_seconds": {"history": NOW - asked}}, "unknown")
    texts = {verdict.word: verdict.text for verdict in verdicts(measured, "sft", {}, NOW)}
    assert texts.get("unobserved") == ("history never read, asked for 45 min" if blind else None)


def test_a_job_that_is_over_is_not_polled_and_so_not_blind() -> None:
    measured = measure({"observed_timestamp_seconds": {"history": NOW - 20 * HOUR}}, "killed", "finished")
    assert [verdict.word for verdict in verdicts(measured, "sft", {}, NOW)] == ["killed"]


@pytest.mark.parametrize(
    ("cause", "word", "text"),
    [
        ("unexplained", "silent_stall", "silent stall ended 0 s ago"),
        ("preemption", "resumed", "resumed 0 s ago"),
    ],
)
def test_a_trainers_clock_that_goes_fast_makes_no_age_below_zero(cause: str, word: str, text: str) -> None:
    measured = measure(READ | {"gap_end_timestamp_seconds": {cause: SEEN + 90}}, "running", "stepping")
    assert {verdict.word: verdict.text for verdict in verdicts(measured, "sft", {}, NOW)}[word] == text


def test_worst_first() -> None:
    values: dict[str, Value] = {
        "nonfinite": {"loss": 1, "grad_norm": 1}, "tokens_per_second": 1, "tokens_per_second_baseline": 2,
        "checkpoint_timestamp_seconds": SEEN - 60, "grad_norm": 12, "grad_norm_window_ratio": 30,
        "last_step_timestamp_seconds": SEEN - 5 * HOUR, "gap_threshold_seconds": 300,
    }  # fmt: skip
    found = verdicts(measure(READ | values, "running", "stepping"), "sft", {"new_setting": "yes"}, NOW)
    assert [verdict.word for verdict in found] == [
        "nonfinite", "grad_explosion", "deep_probe", "throughput_degraded", "checkpoint_saved",
    ]  # fmt: skip
    assert found[0].text == "loss and grad norm not finite"


def test_each_word_has_a_rule() -> None:
    assert all(rule_of(word) for word in VERDICTS)
    with pytest.raises(KeyError):
        rule_of("fine")
