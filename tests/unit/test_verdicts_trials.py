"""The verdicts on trials at their limits, and beside what looks like them and is harmless."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from runwatch.derive.verdicts import verdicts
from tests.unit.small_fleet import HOUR, MINUTE, NOW, Value, measure

SEEN = NOW - 10
OBSERVED: dict[str, Value] = {"observed_timestamp_seconds": {"trials": SEEN, "log": SEEN}}
SOME: dict[str, Value] = {"trials": 142, "trials_target": 300, "trials_scored": 120, "trials_agent_ran": 140}
LAST = "last_trial_timestamp_seconds"


def words(
    values: Mapping[str, Value],
    bucket: str = "eval",
    state: str = "running",
    phase: str = "stepping",
    info: Mapping[str, str] | None = None,
    **more: str | float,
) -> dict[str, str]:
    measured = measure(OBSERVED | dict(values), state, phase)
    found = verdicts(measured, bucket, info or {}, NOW, **more)  # type: ignore[arg-type]
    return {verdict.word: verdict.text for verdict in found}


@pytest.mark.parametrize(
    ("bucket", "values", "text"),
    [
        ("eval", {LAST: SEEN - 60 * MINUTE}, None),
        ("eval", {LAST: SEEN - 61 * MINUTE}, "no new result for 1 h 1 min (limit 1 h)"),
        ("datagen", {LAST: SEEN - 120 * MINUTE}, None),
        ("datagen", {LAST: SEEN - 121 * MINUTE}, "no new result for 2 h 1 min (limit 2 h)"),
        ("rl", {LAST: SEEN - 9 * HOUR}, None),
        ("other", {LAST: SEEN - 9 * HOUR}, None),
        # the newest attempt started later
        ("eval", {LAST: SEEN - 9 * HOUR, "attempt_start_timestamp_seconds": SEEN - 60 * MINUTE}, None),
        # zero results count, from the start of the attempt, or of the job where attempts are not known
        (
            "eval",
            {"trials": 0, "attempt_start_timestamp_seconds": SEEN - 61 * MINUTE},
            "no result at all for 1 h 1 min (limit 1 h)",
        ),
        (
            "eval",
            {"trials": 0, "start_timestamp_seconds": SEEN - 61 * MINUTE},
            "no result at all for 1 h 1 min (limit 1 h)",
        ),
        ("eval", {"trials": 0}, None),
        # nothing tells when it began: from when it was first asked for results, while there is none
        ("eval", {"trials": 0, "source_configured_timestamp_seconds": {"trials": SEEN - 60 * MINUTE}}, None),
        (
            "eval",
            {"trials": 0, "source_configured_timestamp_seconds": {"trials": SEEN - 61 * MINUTE}},
            "no result at all for 1 h 1 min (limit 1 h)",
        ),
        ("eval", {"trials": 9, "source_configured_timestamp_seconds": {"trials": SEEN - 61 * MINUTE}}, None),
        # all are there; or how many there will be is not known
        ("eval", {LAST: SEEN - 9 * HOUR, "trials": 300}, None),
        ("eval", {LAST: SEEN - 9 * HOUR, "chunks": {"hung": 0}}, "no new result for 9 h (limit 1 h)"),
        # a chunk hangs while others bring results
        (
            "datagen",
            {LAST: SEEN - 60, "chunks": {"hung": 1, "running": 2}},
            "1 chunk hangs: log and trials silent for over 2 h",
        ),
    ],
)
def test_trials_stalled(bucket: str, values: dict[str, Value], text: str | None) -> None:
    assert words(SOME | values, bucket).get("trials_stalled") == text


def test_a_stall_needs_a_number_to_come_that_is_not_reached() -> None:
    unknown = {"trials": 142, LAST: SEEN - 2 * HOUR}
    assert "trials_stalled" in words(unknown)
    assert "trials_stalled" not in words(unknown, phase="finishing")
    assert "trials_stalled" not in words({LAST: SEEN - 9 * HOUR})


@pytest.mark.parametrize("state", ["pending", "preempted", "succeeded", "failed", "unknown"])
def test_only_a_running_job_stalls(state: str) -> None:
    assert "trials_stalled" not in words(SOME | {LAST: SEEN - 9 * HOUR}, state=state)


def test_the_older_of_trials_and_scheduler_counts() -> None:
    old = SOME | {LAST: SEEN - 90 * MINUTE, "observed_timestamp_seconds": {"trials": SEEN, "scheduler": SEEN - HOUR}}
    assert "trials_stalled" not in words(old)
    blind = SOME | {LAST: NOW - 9 * HOUR, "observed_timestamp_seconds": {"trials": NOW - 9 * HOUR + 60}}
    found = words(blind)
    assert "trials_stalled" not in found
    assert found["unobserved"] == "trials not read for 8 h 59 min"


def test_many_agent_timeouts_raise_no_flag() -> None:
    values = SOME | {
        "trial_exceptions": {"AgentTimeoutError": 114}, "trial_exception_ratio": 0.8, "trial_pass_ratio": 0.05,
        "trial_turns": 40, "trial_instant_failures": 0, LAST: SEEN - 60,
    }  # fmt: skip
    assert words(values) == {"stable": "stable"}
    assert words(values, "datagen") == {"stable": "stable"}


@pytest.mark.parametrize(
    ("bucket", "values", "holds"),
    [
        ("eval", {}, True),
        ("eval", {"trials": 9}, False),
        ("eval", {"trials_scored": 1}, False),
        ("eval", {"trial_exception_ratio": 0.9}, False),
        ("datagen", {}, True),
        ("datagen", {"trials_agent_ran": 10}, False),  # it may have no verifier, and hard tasks time out
        ("eval", {"trials_agent_ran": 10}, True),
        ("rl", {}, False),
    ],
)
def test_no_result_with_everything_failing_does(bucket: str, values: dict[str, Value], holds: bool) -> None:
    failing: dict[str, Value] = {
        "trials": 10, "trials_scored": 0, "trials_agent_ran": 0, "trial_exception_ratio": 1, LAST: SEEN - 60,
    }  # fmt: skip
    found = words(failing | values, bucket)
    assert ("deep_probe" in found) is holds
    assert not holds or found["deep_probe"] == "deep-probe: every trial failed, none is scored"


@pytest.mark.parametrize(
    ("bucket", "values", "info", "holds"),
    [
        ("datagen", {}, {}, True),
        ("datagen", {"trial_turns": 1.06}, {}, False),
        ("datagen", {"trials_agent_ran": 19}, {}, False),
        ("datagen", {}, {"turns": "single"}, False),
        ("eval", {}, {}, False),
    ],
)
def test_dead_engine(bucket: str, values: dict[str, Value], info: dict[str, str], holds: bool) -> None:
    one_turn: dict[str, Value] = {"trials": 30, "trials_agent_ran": 20, "trial_turns": 1.05, LAST: SEEN - 60}
    found = words(one_turn | values, bucket, info=info)
    assert ("dead_engine" in found) is holds
    if holds:
        assert found["dead_engine"] == "dead engine: 1.05 turns a trial over 20 trials: do not consolidate"


@pytest.mark.parametrize(
    ("instant", "trials", "holds"), [(10, 19, True), (10, 20, False), (9, 9, False), (0, 0, False)]
)
def test_instant_failures(instant: float, trials: float, holds: bool) -> None:
    values: dict[str, Value] = {"trials": trials, "trial_instant_failures": instant, "trials_target": 50}
    assert ("instant_failures" in words(values)) is holds


@pytest.mark.parametrize(("ended_ago", "holds"), [(HOUR, True), (HOUR + 1, False), (None, False)])
def test_do_not_use_these_results_for_an_hour_after_the_end(ended_ago: float | None, holds: bool) -> None:
    values: dict[str, Value] = {
        "trials": 30, "trials_agent_ran": 20, "trial_turns": 1.0, "trial_instant_failures": 20, LAST: SEEN - 2 * HOUR,
    }  # fmt: skip
    if ended_ago is not None:
        values["end_timestamp_seconds"] = NOW - ended_ago
    found = set(words(values, "datagen", "succeeded", "finished"))
    assert found == {"completed", *({"dead_engine", "instant_failures"} if holds else ())}


@pytest.mark.parametrize(
    ("values", "bucket", "state", "holds"),
    [
        ({"upload_complete": 0}, "datagen", "timeout", True),
        ({"upload_complete": 1}, "datagen", "timeout", False),
        ({}, "datagen", "timeout", False),  # not known is not "not complete"
        ({"upload_complete": 0}, "datagen", "failed", False),
        ({"upload_complete": 0}, "eval", "timeout", False),
        ({"upload_complete": 0, "successor": {"77": 1}}, "datagen", "timeout", False),
    ],
)
def test_traces_stranded(values: dict[str, Value], bucket: str, state: str, holds: bool) -> None:
    assert ("traces_stranded" in words(SOME | values, bucket, state, "finished")) is holds


ANSWERED = "engine_last_success_timestamp_seconds"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"engine_running_requests": 0}, "engine idle: no running request"),
        (
            {"engine_running_requests": 0, ANSWERED: SEEN - 11 * MINUTE},
            "engine idle: no running request, and no answer 200 for 11 min",
        ),
        ({"engine_running_requests": 0, ANSWERED: SEEN - 10 * MINUTE}, None),
        ({"engine_running_requests": 1, ANSWERED: SEEN - 11 * MINUTE}, None),
        ({ANSWERED: SEEN - 5 * HOUR}, None),
        ({"engine_running_requests": 0, "trials": 300}, None),
    ],
)
def test_engine_idle(values: dict[str, Value], text: str | None) -> None:
    assert words(SOME | {LAST: SEEN - 60} | values).get("engine_idle") == text
    assert "engine_idle" not in words(SOME | values, "rl")


@pytest.mark.parametrize(("count", "holds"), [(4, False), (5, True)])
def test_auth_failures(count: float, holds: bool) -> None:
    assert ("auth_failures" in words(SOME | {LAST: SEEN - 60, "auth_failures": count})) is holds


@pytest.mark.parametrize(
    ("bucket", "values", "holds"),
    [
        ("eval", {LAST: SEEN - 15 * MINUTE}, False),
        ("eval", {LAST: SEEN - 15 * MINUTE - 1}, True),
        ("datagen", {LAST: SEEN - 2 * HOUR}, False),
        ("datagen", {LAST: SEEN - 2 * HOUR - 1}, True),
        ("datagen", {LAST: SEEN - HOUR, "upload_complete": 1, "upload_timestamp_seconds": SEEN - 900}, False),
        ("datagen", {LAST: SEEN - HOUR, "upload_complete": 1, "upload_timestamp_seconds": SEEN - 901}, True),
        ("eval", {LAST: SEEN - 60, "upload_complete": 1, "upload_timestamp_seconds": SEEN - 901}, False),
        ("eval", {LAST: SEEN - HOUR, "attempt_start_timestamp_seconds": SEEN - 15 * MINUTE}, False),
        (
            "datagen",
            {
                LAST: SEEN - 9 * HOUR,
                "upload_complete": 1,
                "upload_timestamp_seconds": SEEN - 8 * HOUR,
                "attempt_start_timestamp_seconds": SEEN - 900,
            },
            False,
        ),
    ],
)
def test_zombie(bucket: str, values: dict[str, Value], holds: bool) -> None:
    done = SOME | {"trials": 300} | values
    found = words(done, bucket, phase="finishing")
    assert ("zombie" in found) is holds
    assert found["finishing"] == "all results are there, still running"
    assert "zombie" not in words(done, bucket)


@pytest.mark.parametrize(
    ("values", "more", "text"),
    [
        ({"rl_step": 9, "rl_trials_in_window": 0}, {}, "deep-probe: steps, but no trial scored"),
        ({"rl_trials_in_window": 0}, {}, None),
        ({"rl_step": 9}, {}, None),  # standard RL makes no trials, and that is no fault
        ({"rl_step": 9, "rl_trials_in_window": 4}, {"rl_turns": 1.05}, "deep-probe: 1.05 turns a trial"),
        ({"rl_step": 9, "rl_trials_in_window": 4}, {"rl_turns": 1.06}, None),
        ({"rl_step": 9, "rl_reward": 0, "rl_trials_in_window": 0}, {"rl_turns": 1.0},
         "deep-probe: reward exactly 0, steps, but no trial scored, 1.00 turns a trial"),
    ],
)  # fmt: skip
def test_a_silently_dead_rl_run(values: dict[str, Value], more: dict[str, float], text: str | None) -> None:
    assert words(values, "rl", **more).get("deep_probe") == text


@pytest.mark.parametrize(
    ("ratio", "trials", "others", "holds"),
    [
        (0.09, 100, {"rl_grad_norm_last2_min": 1.2}, True),
        (0.10, 100, {"rl_grad_norm_last2_min": 1.2}, False),
        (0.09, 99, {"rl_grad_norm_last2_min": 1.2}, False),
        (0.09, 100, {}, False),
        (0.0, 100, {"rl_entropy_deviation_ratio": -0.34}, True),
    ],
)
def test_a_low_pass_ratio_is_a_signal_of_the_collapse(
    ratio: float, trials: float, others: dict[str, Value], holds: bool
) -> None:
    values = {"rl_step": 40, "rl_trial_pass_ratio": ratio, "rl_trials_in_window": trials} | others
    found = words(values, "rl")
    assert ("collapse" in found) is holds
    if holds:
        assert f"pass-rate {round(100 * ratio)} % over the last 100 trials: cancel" in found["collapse"]
    assert "collapse" not in words(values, "rl", info={"ablation": "spike-mitigation"})


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ("open", "completed with 142 of 300 results; clean-up open: eval-agentic-cleanup"),
        ("gone", "completed with 142 of 300 results; clean-up done: the trial tree is gone"),
        ("", "completed with 142 of 300 results; clean-up: eval-agentic-cleanup"),
    ],
)
def test_clean_up_is_open_while_the_trial_tree_is_there(tree: str, text: str) -> None:
    assert words(SOME, "eval", "succeeded", "finished", trial_tree=tree)["completed"] == text


def test_ends_say_results_reason_and_what_is_left() -> None:
    values = SOME | {"exit_code": 1, "end_reason": {"traceback": 1}}
    assert words(values, "eval", "failed", "finished", trial_tree="open", failed_alike="Error, exit 1") == {
        "failed": "failed, exit 1 with 142 of 300 results (traceback): diagnose, failed again alike (Error, exit 1): "
        "not transient; clean-up open"
    }
    assert words(SOME, "datagen", "timeout", "finished", trial_tree="open") == {
        "timeout": "ended at the wall-time limit with 142 of 300 results; clean-up open"
    }
    chained = SOME | {"successor": {"77": 1}}
    assert words(chained, "eval", "timeout", "finished", trial_tree="open") == {
        "timeout": "ended at the wall-time limit with 142 of 300 results; successor 77 waits"
    }
    assert words({"trials": 7, "upload_complete": 0}, "datagen", "succeeded", "finished")["completed"] == (
        "completed; its log shows no completed upload; clean-up: datagen-job-cleanup"
    )


def test_bring_up_and_resuming_speak_of_results() -> None:
    assert words({"trials": 0}, phase="bringup") == {"bringup": "no first result yet"}
    assert words({"trials": 5}, phase="resuming") == {"resuming": "resuming, no new result yet"}
