"""The numbers of trials, worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from runwatch.derive.trials import TrialsSummary, bounded_exceptions, measure_trials, summarise_trials
from runwatch.derive.verdicts import verdicts
from runwatch.facts import PrintedMean, TrialsFolder, TrialsUpdate
from runwatch.measurements import Measurements
from runwatch.parsing.log_records import TrialResult
from tests.unit.trial_trees import WRITTEN, capture, update_of

PASSED = TrialResult("p", 1.0, True, 3.0, "", False, 100.0)
FAILED = dataclasses.replace(PASSED, name="f", reward=0.0)
UNSCORED = dataclasses.replace(PASSED, name="u", reward=None, exception="RewardFileNotFoundError")
TIMED_OUT = dataclasses.replace(FAILED, name="o", exception="AgentTimeoutError", turns=40.0)
NO_SANDBOX = TrialResult("n", None, False, None, "DaytonaError", False, 100.0)

HOUR = 3600.0


def summary_of(*results: TrialResult, **fields: object) -> TrialsSummary:
    folder = TrialsFolder("job", tuple(results))
    return summarise_trials(TrialsUpdate((dataclasses.replace(folder, **fields),)))  # type: ignore[arg-type]


def measured(
    summary: TrialsSummary,
    *,
    bucket: str = "eval",
    target: int | None = None,
    observed: float = WRITTEN,
    is_over: bool = False,
    chunk_logs: dict[int, float] | None = None,
) -> tuple[Measurements, list[str]]:
    values = Measurements()
    evidence = measure_trials(
        values, summary, bucket=bucket, target=target, observed=observed, is_over=is_over, chunk_logs=chunk_logs
    )
    return values, [line.text for line in evidence]


def values_of(measurements: Measurements) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name in measurements.names():
        family = measurements.family(name)
        shown[name] = family[()] if () in family else {key[0]: value for key, value in family.items()}
    return shown


def test_the_captured_job(tmp_path: Path) -> None:
    # Two attempts each of pass-0 and pass-1 (1.0), half-0 (0.5), fail-0, ctx-0 and tmo-0 (0); norew-0 and envfail-0
    # have no reward, and envfail-0's agent never ran. Rewards: 4 x 1 + 2 x 0.5 over 12.
    values, evidence = measured(summarise_trials(update_of(capture(tmp_path))))
    assert values_of(values) == {
        "mljob_trials": 16,
        "mljob_trials_target": 16,
        "mljob_last_trial_timestamp_seconds": WRITTEN + 15,
        "mljob_trials_scored": 12,
        "mljob_trials_agent_ran": 14,
        "mljob_trial_pass_ratio": 0.5,
        "mljob_trial_reward": pytest.approx(0.4166666666666667),
        "mljob_trial_turns": 3,
        "mljob_trial_exceptions": {
            "AgentTimeoutError": 2,
            "ContextLengthExceededError": 2,
            "RewardFileNotFoundError": 2,
            "RuntimeError": 2,
        },
        "mljob_trial_exception_ratio": 0.5,
        "mljob_trial_instant_failures": 0,
    }
    assert not any("prints" in line for line in evidence)  # Harbor's 0.417 is ours


def test_the_captured_job_of_0_1(tmp_path: Path) -> None:
    # This version does not grade ctx-0, so 10 are scored: 4 x 1 + 2 x 0.5 over 10. It prints 5 over 16.
    values, evidence = measured(summarise_trials(update_of(capture(tmp_path, "0_1"))))
    assert (values.get("mljob_trials"), values.get("mljob_trials_scored")) == (16, 10)
    assert (values.get("mljob_trial_pass_ratio"), values.get("mljob_trial_reward")) == (0.6, 0.5)
    assert (values.get("mljob_trials_agent_ran"), values.get("mljob_trial_turns")) == (14, 3)
    assert values.get("mljob_trial_exception_ratio") == 0.5
    assert values.get("mljob_trial_instant_failures") == 0
    assert (
        "the root itself: Harbor prints 0.312, the mean over scored trials is 0.500: this version counts the 6 trials "
        "without a valid reward as 0"
    ) in evidence


def test_zero_results_are_zero_and_nothing_else_is_known() -> None:
    values, _ = measured(summary_of())
    assert values_of(values) == {
        "mljob_trials": 0,
        "mljob_trials_scored": 0,
        "mljob_trials_agent_ran": 0,
        "mljob_trial_instant_failures": 0,
    }


def test_without_a_verifier_there_is_no_reward_and_no_ratio() -> None:
    plain = dataclasses.replace(UNSCORED, exception="")
    values, _ = measured(summary_of(plain, plain), bucket="datagen")
    assert values.get("mljob_trials_scored") == 0
    assert values.get("mljob_trial_pass_ratio") is None
    assert values.get("mljob_trial_reward") is None
    assert values.get("mljob_trial_exception_ratio") == 0
    assert values.family("mljob_chunks") == {}


def test_turns_are_over_trials_whose_agent_ran_and_that_count_them() -> None:
    uncounted = dataclasses.replace(PASSED, turns=None)
    values, _ = measured(summary_of(PASSED, TIMED_OUT, NO_SANDBOX, uncounted))
    assert values.get("mljob_trial_turns") == (3 + 40) / 2
    assert values.get("mljob_trials_agent_ran") == 3


@pytest.mark.parametrize(
    ("counted", "uncounted", "turns"),
    [(2, 17, 1.0), (2, 18, None), (19, 30, None), (20, 30, 1.0), (25, 0, 1.0)],
)
def test_no_engine_is_called_dead_by_the_turns_of_a_few(counted: int, uncounted: int, turns: float | None) -> None:
    """Of 20 trials whose agent ran and timed out, say, two that failed in their first turn are no 20 dead ones."""
    one_turn, silent = dataclasses.replace(FAILED, turns=1.0), dataclasses.replace(TIMED_OUT, turns=None)
    values, evidence = measured(summary_of(*[one_turn] * counted, *[silent] * uncounted), bucket="datagen")
    assert values.get("mljob_trial_turns") == turns
    assert values.get("mljob_trials_agent_ran") == counted + uncounted
    told = f"mean turns 1.00 over {counted} of the {counted + uncounted} trials whose agent ran"
    assert any(line.startswith(told) for line in evidence) == (turns is None)


def test_the_same_ratio_for_every_version_and_why_harbor_prints_another() -> None:
    # 0.1.x: 1 passed, 1 failed, 2 without a reward: it prints 1/4, over scored trials it is 1/2.
    old = summary_of(PASSED, FAILED, UNSCORED, NO_SANDBOX, means=(PrintedMean("e", 0.25),), missing_counts_as_zero=True)
    values, evidence = measured(old)
    assert (values.get("mljob_trial_reward"), values.get("mljob_trial_pass_ratio")) == (0.5, 0.5)
    assert (
        "job: Harbor prints 0.250, the mean over scored trials is 0.500: this version counts the 2 trials "
        "without a valid reward as 0"
    ) in evidence
    new = summary_of(PASSED, FAILED, UNSCORED, NO_SANDBOX, means=(PrintedMean("e", 0.5),))
    values, evidence = measured(new)
    assert values.get("mljob_trial_reward") == 0.5
    assert not any("prints" in line for line in evidence)
    _, evidence = measured(summary_of(PASSED, FAILED, means=(PrintedMean("e", 0.9),)))
    assert any("its metric is another" in line for line in evidence)


def test_the_eight_most_frequent_exceptions_and_the_rest() -> None:
    counts = {f"E{number}": number for number in range(1, 12)} | {"other": 5, "A8": 8}
    assert bounded_exceptions(counts) == (
        ("E11", 11), ("E10", 10), ("E9", 9), ("A8", 8), ("E8", 8), ("E7", 7), ("E6", 6), ("E5", 5),
        ("other", 5 + 4 + 3 + 2 + 1),
    )  # fmt: skip
    assert bounded_exceptions({"B": 1, "A": 1}) == (("A", 1), ("B", 1))


def test_targets() -> None:
    one, two = TrialsFolder("a", (PASSED,), total=10), TrialsFolder("b", (), total=6)
    unknown = TrialsFolder("c", ())
    assert summarise_trials(TrialsUpdate((one, two))).total == 16
    assert summarise_trials(TrialsUpdate((one, unknown))).total is None
    chunked = dataclasses.replace(one, chunk=0)
    assert summarise_trials(TrialsUpdate((chunked,), chunks=(0,))).total == 10
    assert summarise_trials(TrialsUpdate((chunked,), chunks=(0, 1))).total is None
    values, evidence = measured(summarise_trials(TrialsUpdate((one,))), target=300)
    assert values.get("mljob_trials_target") == 300
    assert "300 results to come in all: configured" in evidence


def test_rl_is_over_its_last_hundred_scored_trials_alone() -> None:
    results = [
        dataclasses.replace(PASSED, name=f"{number}", reward=float(number < 60), finished=float(number))
        for number in range(150)
    ]
    later = [dataclasses.replace(NO_SANDBOX, name=f"x{number}", finished=1000.0) for number in range(20)]
    # Trials 50 to 149 are the last hundred with a reward: 10 of them passed.
    values, _ = measured(summary_of(*reversed(results), *later), bucket="rl")
    assert values_of(values) == {"mljob_rl_trials_in_window": 100, "mljob_rl_trial_pass_ratio": 0.1}
    values, _ = measured(summary_of(NO_SANDBOX), bucket="rl")
    assert values_of(values) == {"mljob_rl_trials_in_window": 0}
    values, evidence = measured(summary_of(PASSED), bucket="other")
    assert (values_of(values), evidence) == ({}, [])


def chunked(*folders: TrialsFolder, chunks: Sequence[int] = (0, 1, 2, 3)) -> TrialsSummary:
    return summarise_trials(TrialsUpdate(folders, chunks=tuple(chunks)))


def test_states_of_chunks() -> None:
    now = WRITTEN + 10 * HOUR
    done = TrialsFolder("0", (PASSED,), chunk=0, finished=True, changed=WRITTEN)
    moving = TrialsFolder("1", (PASSED,), chunk=1, changed=now - HOUR)
    unmoved = TrialsFolder("2", (PASSED,), chunk=2, changed=now - 2 * HOUR - 1)
    summary = chunked(done, moving, unmoved)

    def states(**options: object) -> dict[str, float]:
        values, _ = measured(summary, bucket="datagen", observed=now, **options)  # type: ignore[arg-type]
        return {key[0]: value for key, value in values.family("mljob_chunks").items() if value}

    # Where the log is not known nothing is called hung.
    assert states() == {"done": 1, "running": 2, "pending": 1}
    silent = now - 2 * HOUR - 1
    assert states(chunk_logs={0: silent, 1: silent, 2: silent}) == {"done": 1, "running": 1, "hung": 1, "pending": 1}
    assert states(chunk_logs={2: now - 2 * HOUR}) == {"done": 1, "running": 2, "pending": 1}
    assert states(is_over=True, chunk_logs={2: silent}) == {"done": 1, "failed": 2, "pending": 1}
    _, evidence = measured(summary, bucket="datagen", observed=now)
    assert "the logs of 2 running chunks are not known: whether they hang cannot be told" in evidence
    values, _ = measured(summary, bucket="eval", observed=now)
    assert values.family("mljob_chunks") == {}


def test_a_chunk_whose_log_is_there_began_though_no_trial_did() -> None:
    """Its engine boots for long, or hangs there: that is no chunk that still waits for its turn."""
    now = WRITTEN + 5 * HOUR
    summary = chunked(TrialsFolder("0", (PASSED,), chunk=0, finished=True, changed=WRITTEN), chunks=(0, 1, 2, 3))

    def states(is_over: bool) -> dict[str, float]:
        logs = {0: now, 1: now - HOUR, 2: now - 3 * HOUR}
        values, _ = measured(summary, bucket="datagen", observed=now, is_over=is_over, chunk_logs=logs)
        return {key[0]: value for key, value in values.family("mljob_chunks").items() if value}

    assert states(is_over=False) == {"done": 1, "running": 1, "hung": 1, "pending": 1}
    assert states(is_over=True) == {"done": 1, "failed": 2, "pending": 1}


def test_a_chunk_whose_log_ends_in_its_failure_does_not_hang() -> None:
    now = WRITTEN + 5 * HOUR
    died = now - 3 * HOUR  # its last result a minute before, and silence since
    summary = chunked(
        TrialsFolder("0", (PASSED,), chunk=0, changed=died - 60),
        TrialsFolder("1", (PASSED,), chunk=1, changed=now - 60),
        TrialsFolder("2", (PASSED,), chunk=2, finished=True, changed=died - 60),
        chunks=(0, 1, 2),
    )

    def states(*failed: int, logs: float = died) -> dict[str, float]:
        written = {0: logs, 1: logs, 2: logs}
        values, _ = measured_chunks(summary, now, written, frozenset(failed))
        return {key[0]: value for key, value in values.family("mljob_chunks").items() if value}

    assert states() == {"done": 1, "running": 1, "hung": 1}
    assert states(0) == {"done": 1, "running": 1, "failed": 1}
    # Results came long after the log's end: another task goes on with it.
    assert states(0, 1) == {"done": 1, "running": 1, "failed": 1}
    # Harbor had finished; what follows it failed, and no traces were saved.
    assert states(0, 2) == {"running": 1, "failed": 2}


def measured_chunks(
    summary: TrialsSummary, observed: float, logs: dict[int, float], failed: frozenset[int]
) -> tuple[Measurements, list[str]]:
    values = Measurements()
    evidence = measure_trials(
        values,
        summary,
        bucket="datagen",
        target=None,
        observed=observed,
        is_over=False,
        chunk_logs=logs,
        failed_chunks=failed,
    )
    return values, [line.text for line in evidence]


def test_a_chunk_is_done_when_all_of_its_jobs_are() -> None:
    first = TrialsFolder("a", (), chunk=0, finished=True)
    again = TrialsFolder("b", (), chunk=0, finished=False)
    values, _ = measured(chunked(first, again, chunks=(0,)), bucket="datagen")
    assert values.get("mljob_chunks", state="done") == 0
    assert values.get("mljob_chunks", state="running") == 1


def test_a_majority_of_agent_timeouts_raises_no_flag() -> None:
    summary = summary_of(*[TIMED_OUT] * 80, *[PASSED] * 20, total=100)
    values, _ = measured(summary)
    assert values.get("mljob_trial_exception_ratio") == 0.8
    assert values.get("mljob_trial_instant_failures") == 0
    assert values.get("mljob_trial_pass_ratio") == 0.2
    values.set("mljob_state", 1.0, state="running")
    values.set("mljob_phase", 1.0, phase="stepping")
    values.set("mljob_observed_timestamp_seconds", WRITTEN, source="trials")
    words = [verdict.word for verdict in verdicts(values, "eval", {}, WRITTEN, intervals={})]
    assert set(words) <= {"stable"}


def test_unreadable_results_are_told_and_in_no_number() -> None:
    values, evidence = measured(summary_of(PASSED, unreadable=2, running=1))
    assert values.get("mljob_trials") == 1
    assert "job: 2 results could not be read at several looks: in no other number" in evidence
    assert "job: 1 results, 1 trial folders without one" in evidence
