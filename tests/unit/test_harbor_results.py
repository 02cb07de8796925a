"""Result files of Harbor and of terminal-bench: what is read from each, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runwatch.facts import PrintedMean
from runwatch.parsing.harbor_results import (
    JobResult,
    class_name,
    count_agent_steps,
    is_job_result,
    load_object,
    parse_job_result,
    parse_run_results,
    parse_trial_result,
    with_turns,
)
from runwatch.parsing.log_records import TrialResult

DATA = Path(__file__).parents[1] / "data" / "harbor"


def parsed(name: str) -> TrialResult:
    return parse_trial_result(load_object((DATA / name).read_bytes()), "t", 7.0)


def trial(**changes: Any) -> TrialResult:
    """Parse a trial like Harbor 0.1.x writes it: naive times, no word on whether the reward is valid."""
    value: dict[str, Any] = {
        "trial_name": "t__abcdefg",
        "agent_result": {"n_output_tokens": 56, "metadata": {"n_episodes": 3}},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "started_at": "2025-11-01T10:00:00.000000",
        "finished_at": "2025-11-01T10:05:00.000000",
        "agent_execution": {"started_at": "2025-11-01T10:01:00", "finished_at": "2025-11-01T10:04:00"},
    }
    return parse_trial_result({**value, **changes}, "t", None)


def raised(kind: str, **fields: Any) -> dict[str, Any]:
    return {"exception_type": kind, "exception_message": "m", "exception_traceback": "", **fields}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trial_result_pass-0.json", TrialResult("t", 1.0, True, 3.0, "", False, 7.0)),
        # A trial that times out is still scored.
        ("trial_result_tmo-0.json", TrialResult("t", 0.0, True, 3.0, "AgentTimeoutError", False, 7.0)),
        ("trial_result_norew-0.json", TrialResult("t", None, True, 3.0, "RewardFileNotFoundError", False, 7.0)),
        # Its environment failed before the agent, in 37 ms and without a token: no instant failure.
        ("trial_result_envfail-0.json", TrialResult("t", None, False, None, "RuntimeError", False, 7.0)),
    ],
)
def test_the_captured_trials(name: str, expected: TrialResult) -> None:
    assert parsed(name) == expected


def test_the_captured_job_results() -> None:
    final = parse_job_result(load_object((DATA / "job_result_final.json").read_bytes()))
    mean = PrintedMean("fake-terminus__my-model__htasks", 0.4166666666666667)
    assert final == JobResult(16, True, (mean,), missing_counts_as_zero=False, retries=0)
    during = parse_job_result(load_object((DATA / "job_result_midrun.json").read_bytes()))
    assert (during.total, during.finished, during.means[0].value) == (16, False, 1 / 6)


def test_a_job_result_of_0_1_counts_missing_rewards_as_0() -> None:
    stats = {"n_trials": 12, "n_errors": 8, "evals": {"a__m__d": {"metrics": [{"mean": 0.3125}]}}}
    value = {"id": "x", "n_total_trials": 16, "finished_at": "2025-11-01T10:00:00", "stats": stats}
    assert parse_job_result(value) == JobResult(16, True, (PrintedMean("a__m__d", 0.3125),), True, None)


def test_the_two_files_of_one_name_are_told_apart() -> None:
    job = load_object((DATA / "job_result_final.json").read_bytes())
    one_trial = load_object((DATA / "trial_result_pass-0.json").read_bytes())
    assert is_job_result(job)
    assert not is_job_result(one_trial)
    with pytest.raises(ValueError, match="trial"):
        parse_trial_result(job, "t", None)
    with pytest.raises(ValueError, match="job"):
        parse_job_result(one_trial)


@pytest.mark.parametrize(
    ("changes", "reward"),
    [
        ({}, 1.0),
        ({"verifier_result": {"rewards": {"reward": 0.5}}}, 0.5),
        ({"verifier_result": {"rewards": {"a": 0.25, "reward": 0.5}}}, 0.5),
        ({"verifier_result": {"rewards": {"speed": 0.75, "accuracy": 0.25}}}, 0.25),  # the first by name
        ({"verifier_result": {"reward": 1}}, 1.0),
        ({"verifier_result": {"rewards": {"reward": None}}}, None),
        ({"verifier_result": {"rewards": {"reward": float("nan")}}}, None),
        ({"verifier_result": {"rewards": {"reward": 10**400}}}, None),
        ({"verifier_result": {"rewards": {}}}, None),
        ({"verifier_result": None}, None),
        ({"exception_info": raised("AgentTimeoutError")}, 1.0),
        ({"exception_info": raised("ContextLengthExceededError")}, 1.0),
        ({"exception_info": raised("DaytonaError")}, 1.0),  # not known: the reward that is there counts
        ({"exception_info": raised("VerifierTimeoutError")}, None),
        ({"exception_info": raised("RateLimitError")}, None),
        ({"exception_info": raised("ApiKeyError")}, None),
        ({"exception_info": raised("CancelledError")}, None),
        # What Harbor itself says goes before the class.
        ({"exception_info": raised("RateLimitError", policy={"has_valid_reward": True})}, 1.0),
        ({"exception_info": raised("AgentTimeoutError", policy={"has_valid_reward": False})}, None),
        ({"exception_info": raised("RateLimitError"), "reward_valid": True}, 1.0),
        ({"reward_valid": False}, None),
    ],
)
def test_which_reward_counts(changes: dict[str, Any], reward: float | None) -> None:
    assert trial(**changes).reward == reward


FAST = {"started_at": "2025-11-01T10:01:00Z", "finished_at": "2025-11-01T10:01:04.999Z"}
SLOW = {"started_at": "2025-11-01T10:01:00Z", "finished_at": "2025-11-01T10:01:05Z"}
NOTHING = {"n_output_tokens": None, "metadata": {"n_episodes": 1}}
FAILED = {"verifier_result": {"rewards": {"reward": 0.0}}}


@pytest.mark.parametrize(
    ("changes", "instant"),
    [
        ({"agent_result": NOTHING, "agent_execution": FAST, **FAILED}, True),
        ({"agent_result": {"n_output_tokens": 0}, "agent_execution": FAST, **FAILED}, True),
        ({"agent_result": None, "agent_execution": FAST, "verifier_result": None}, True),
        ({"agent_result": NOTHING, "agent_execution": SLOW, **FAILED}, False),
        ({"agent_result": {"n_output_tokens": 1}, "agent_execution": FAST, **FAILED}, False),
        # Without a phase of the agent the whole trial counts: five minutes here, then 3 s.
        ({"agent_result": NOTHING, "agent_execution": None, **FAILED}, False),
        (
            {"agent_result": NOTHING, "agent_execution": None, "finished_at": "2025-11-01T10:00:03", **FAILED},
            True,
        ),
        # Naive and zoned times do not subtract, nor does a clock that went back.
        ({"agent_result": NOTHING, "agent_execution": None, "finished_at": "2025-11-01T10:00:03Z", **FAILED}, False),
        ({"agent_result": NOTHING, "agent_execution": None, "finished_at": "2025-11-01T09:00:03", **FAILED}, False),
        ({"agent_result": None, "agent_execution": None, "finished_at": "2025-11-01T10:00:03", **FAILED}, False),
        # An agent that reports no tokens and passes did not fail.
        ({"agent_result": NOTHING, "agent_execution": FAST}, False),
    ],
)
def test_instant_failures(changes: dict[str, Any], instant: bool) -> None:
    assert trial(**changes).instant is instant


@pytest.mark.parametrize(
    ("agent", "phase", "ran", "turns"),
    [
        ({"metadata": {"n_episodes": 3}}, FAST, True, 3.0),
        ({"metadata": {"n_episodes": 0}}, FAST, False, None),
        ({"metadata": None}, FAST, True, None),
        (None, FAST, True, None),
        (None, {"started_at": None}, False, None),
        (None, None, False, None),
        ({"metadata": {"n_episodes": 2}}, None, True, 2.0),
    ],
)
def test_whether_the_agent_ran_and_its_turns(agent: Any, phase: Any, ran: bool, turns: float | None) -> None:
    result = trial(agent_result=agent, agent_execution=phase)
    assert (result.agent_ran, result.turns) == (ran, turns)


def test_a_trial_of_several_steps_is_the_sum_of_its_steps() -> None:
    steps = [
        {"agent_result": {"n_output_tokens": 0, "metadata": {"n_episodes": 2}}, "agent_execution": FAST},
        {
            "agent_result": {"n_output_tokens": None, "metadata": {"n_episodes": 5}},
            "agent_execution": FAST,
            "exception_info": raised("AgentTimeoutError"),
        },
    ]
    result = trial(agent_result=None, agent_execution=None, step_results=steps, **FAILED)
    assert (result.agent_ran, result.turns, result.exception, result.reward) == (True, 7.0, "AgentTimeoutError", 0.0)
    assert not result.instant  # twice 4.999 s
    assert trial(agent_result=None, agent_execution=None, step_results=steps[:1], **FAILED).instant


def test_turns_of_a_trajectory() -> None:
    captured = next((DATA / "captured_0_26" / "eval-fake__tb").glob("pass-0__*/agent/trajectory.json"))
    assert count_agent_steps(captured.read_bytes()) == 3
    steps = [{"source": "agent", "is_copied_context": True}, {"source": "agent"}, {"source": "system"}, 3]
    assert count_agent_steps(json.dumps({"steps": steps}).encode()) == 1
    with pytest.raises(ValueError, match="steps"):
        count_agent_steps(b"{}")
    uncounted = trial(agent_result={"metadata": None})
    assert with_turns(uncounted, 4).turns == 4.0
    assert with_turns(uncounted, 0) == trial(agent_result={"metadata": {"n_episodes": 0}})


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("AgentTimeoutError", "AgentTimeoutError"),
        (" harbor.Error ", "harbor.Error"),
        ("", "other"),
        (None, "other"),
        ("x" * 65, "other"),
        ('a"b\n', "other"),
        ("Fehler{}", "other"),
        ("\x1b[31mError", "other"),
        ("Übel", "other"),
    ],
)
def test_names_of_exceptions_are_class_names_or_other(written: object, name: str) -> None:
    assert class_name(written) == name


def run_trial(name: str, **changes: Any) -> dict[str, Any]:
    """One entry of terminal-bench 0.2.18's results, with the fields of its model `TrialResults`."""
    value = {
        "trial_name": name,
        "task_id": "task",
        "is_resolved": True,
        "failure_mode": "unset",
        "total_output_tokens": 900,
        "trial_started_at": "2025-07-01T10:00:00+00:00",
        "trial_ended_at": "2025-07-01T10:05:00+00:00",
        "agent_started_at": "2025-07-01T10:01:00+00:00",
        "agent_ended_at": "2025-07-01T10:04:00+00:00",
    }
    return {**value, **changes}


def test_a_run_of_terminal_bench() -> None:
    crashed = {"agent_started_at": None, "agent_ended_at": None, "is_resolved": None}
    dead = {"total_output_tokens": 0, "agent_ended_at": "2025-07-01T10:01:02+00:00", "is_resolved": False}
    entries = [
        run_trial("a"),
        run_trial("b", is_resolved=False, failure_mode="agent_timeout"),
        run_trial("c", failure_mode="unknown_agent_error", **crashed),
        run_trial("d", failure_mode="none", **dead),
        "no trial",
    ]
    trials, unreadable, accuracy = parse_run_results({"results": entries, "accuracy": 0.25}, written=99.0)
    ended = 1_751_364_300.0  # 2025-07-01T10:05:00Z
    assert trials == {
        "task/a": TrialResult("task/a", 1.0, True, None, "", False, ended),
        "task/b": TrialResult("task/b", 0.0, True, None, "agent_timeout", False, ended),
        "task/c": TrialResult("task/c", None, False, None, "unknown_agent_error", False, ended),
        "task/d": TrialResult("task/d", 0.0, True, None, "", True, ended),
    }
    assert (unreadable, accuracy) == (1, 0.25)
    newest, _, _ = parse_run_results({"results": entries[:1]}, written=99.0)
    assert newest["task/a"].finished == 99.0  # by the store's clock


@pytest.mark.parametrize(
    "content", [b"", b'{"id": 1, "sta', b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a":' * 100_000]
)
def test_what_is_no_object_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        load_object(content)


KEYS = st.sampled_from(
    [
        "trial_name", "task_name", "agent_info", "verifier_result", "rewards", "reward", "exception_info", "policy",
        "exception_type", "agent_result", "metadata", "n_episodes", "n_output_tokens", "agent_execution", "started_at",
        "finished_at", "step_results", "stats", "evals", "metrics", "mean", "n_total_trials", "results", "is_resolved",
        "failure_mode", "steps", "source", "trial_ended_at", "reward_valid", "has_valid_reward", "accuracy",
    ]
)  # fmt: skip
TIMES = st.sampled_from(["2025-11-01T10:00:00", "2025-11-01T10:00:00Z", "0001-01-01T00:00:00+14:00", "tomorrow"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | TIMES
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=8), max_leaves=30
)


@given(st.dictionaries(KEYS, VALUES, max_size=12))
@example({"results": [{"trial_name": "x", "trial_ended_at": "0001-01-01T00:00:00+14:00"}, {}]})
def test_any_object_is_read_or_refused(value: dict[str, Any]) -> None:
    try:
        result = parse_trial_result(value, "t", None)
    except ValueError:
        assert is_job_result(value) or not {"trial_name", "task_name", "agent_info", "verifier_result"} & set(value)
    else:
        assert result.reward is None or abs(result.reward) < float("inf")
        assert result.turns is None or result.turns > 0
    if is_job_result(value):
        parse_job_result(value)
    if isinstance(value.get("results"), list):
        parse_run_results(value, 1.0)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        value = load_object(content)
    except ValueError:
        return
    assert isinstance(value, dict)
