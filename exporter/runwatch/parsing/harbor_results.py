"""Result files of Harbor (0.1.x and 0.26 on) and of terminal-bench 0.2, from their bytes to records.

Harbor gives the same name, `result.json`, to the file of a trial and to the file of the whole job; the content tells
them apart. Times are naive local in some versions and files and UTC in others, so they are only ever subtracted from
one another within one file: when a result was written is what the store says of the object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from runwatch.facts import PrintedMean
from runwatch.parsing.log_records import TrialResult
from runwatch.thresholds import INSTANT_FAILURE_SECONDS

OTHER_EXCEPTION = "other"
"""Stands for the name of an exception that is no class name."""

_GRADED_BUT_INVALID = frozenset(
    {
        "VerifierTimeoutError", "RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError",
        "BadRequestError", "RateLimitError", "InternalServerError", "ServiceUnavailableError", "APIConnectionError",
        "APIError", "Timeout", "NetworkConnectionError",
    }
)  # fmt: skip
_NOT_GRADED = frozenset(
    {
        "EnvironmentStartTimeoutError", "EnvironmentBuildTimeoutError", "AgentSetupTimeoutError",
        "SandboxBuildFailedError", "HealthcheckError", "AddTestsDirError", "DownloadVerifierDirError",
        "MemoryLimitExceededError", "SandboxLikelyOutOfMemoryError", "AuthenticationError", "NotFoundError",
        "CancelledError",
    }
)  # fmt: skip
_API_ERROR = re.compile(r"Api\w*Error")
_CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_NO_FAILURE = frozenset({"", "unset", "none"})


@dataclass(frozen=True, slots=True)
class JobResult:
    """A Harbor job's own `result.json`.

    `total` is how many trials it will have, attempts included; `finished` whether it ended by itself (a crash leaves
    it unset). `means` are the means that Harbor prints, `missing_counts_as_zero` whether this version counts a trial
    without a reward as 0 in them (0.1.x does, from 0.26 on such a trial is left out).
    """

    total: int | None
    finished: bool
    means: tuple[PrintedMean, ...]
    missing_counts_as_zero: bool
    retries: int | None


def load_object(content: bytes) -> Mapping[str, object]:
    """Read a JSON object.

    Raises:
        ValueError: it is none, or only the beginning of one (Harbor writes its files in place).
    """
    try:
        value = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def is_job_result(value: Mapping[str, object]) -> bool:
    """Tell a job's result from a trial's: only the job's has totals."""
    return "trial_name" not in value and ("n_total_trials" in value or isinstance(value.get("stats"), dict))


def parse_trial_result(value: Mapping[str, object], name: str, finished: float | None) -> TrialResult:
    """Read a trial's `result.json`.

    `turns` is None where the agent ran and the file does not count its turns: its trajectory may tell.

    Args:
        value: the file's JSON object.
        name: the trial's folder.
        finished: when the file was written, Unix seconds by the store's clock.

    Raises:
        ValueError: it is not a trial's result.
    """
    if is_job_result(value) or not ({"trial_name", "task_name", "agent_info", "verifier_result"} & set(value)):
        raise ValueError("not the result of a trial")
    # A trial of several steps keeps agent, phase and exception in each step, and none of its own.
    parts = [value, *_mappings(value.get("step_results"))]
    exceptions = _present(parts, "exception_info")
    agents, phases = _present(parts, "agent_result"), _present(parts, "agent_execution")
    counted = [_count(_mapping(agent.get("metadata")), "n_episodes") for agent in agents]
    known = [count for count in counted if count is not None]
    turns = sum(known) if known and len(known) == len(counted) else None
    began = bool(agents) or any(phase.get("started_at") is not None for phase in phases)
    ran = began and turns != 0
    reward = _reward(value, exceptions)
    made_tokens = any(_count(agent, "n_output_tokens") for agent in agents)
    seconds = _sum_of_phases(phases)
    if seconds is None:
        seconds = _seconds(value.get("started_at"), value.get("finished_at"))
    return TrialResult(
        name=name,
        reward=reward,
        agent_ran=ran,
        turns=turns if ran else None,
        exception=class_name(exceptions[0].get("exception_type")) if exceptions else "",
        instant=began and not _passed(reward) and not made_tokens and _is_instant(seconds),
        finished=finished,
    )


def with_turns(result: TrialResult, turns: int) -> TrialResult:
    """Add the turns that a trajectory shows. An agent without a single one did not run."""
    return replace(result, turns=float(turns) if turns else None, agent_ran=turns > 0)


def count_agent_steps(content: bytes) -> int:
    """Count the agent's own steps in a trajectory (ATIF), those copied from an earlier part of it left out.

    Raises:
        ValueError: it is not a trajectory.
    """
    steps = load_object(content).get("steps")
    if not isinstance(steps, list):
        raise ValueError("no list of steps")
    return sum(
        isinstance(step, dict) and step.get("source") == "agent" and step.get("is_copied_context") is not True
        for step in steps
    )


def parse_job_result(value: Mapping[str, object]) -> JobResult:
    """Read a job's `result.json`.

    Raises:
        ValueError: it is not a job's result.
    """
    if not is_job_result(value):
        raise ValueError("not the result of a job")
    stats = _mapping(value.get("stats")) or {}
    evaluations = _mapping(stats.get("evals")) or {}
    means = [
        PrintedMean(printable(key), mean)
        for key, evaluation in evaluations.items()
        if (mean := _printed_mean(evaluation)) is not None
    ]
    total, retries = _count(value, "n_total_trials"), _count(stats, "n_retries")
    return JobResult(
        total=None if total is None else int(total),
        finished=isinstance(value.get("finished_at"), str),
        means=tuple(means),
        missing_counts_as_zero="n_completed_trials" not in stats,
        retries=None if retries is None else int(retries),
    )


def parse_run_results(value: Mapping[str, object], written: float) -> tuple[dict[str, TrialResult], int, float | None]:
    """Read the `results.json` of a terminal-bench 0.2 run: all trials that ended, written anew with each.

    A trial that was not resolved either way (`is_resolved` null: its agent failed before the tests) has no reward.

    Returns:
        The trials by task and name, how many entries could not be read, and the accuracy that the run prints.

    Raises:
        ValueError: it is not the result of a run.
    """
    entries = value.get("results")
    if not isinstance(entries, list):
        raise ValueError("no list of results")
    newest = len(entries) - 1
    read = [_run_trial(entry, written if position == newest else None) for position, entry in enumerate(entries)]
    trials = {trial.name: trial for trial in read if trial is not None}
    unreadable = sum(trial is None for trial in read)
    return trials, unreadable, _number(value.get("accuracy"))


def class_name(value: object) -> str:
    """Return an exception's class name as it may become a label: what is no class name is `other`."""
    text = value.strip() if isinstance(value, str) else ""
    return text if _CLASS_NAME.fullmatch(text) else OTHER_EXCEPTION


def printable(value: object) -> str:
    """Return upstream text for people: escaped where it does not print, and cut off."""
    text = value if isinstance(value, str) else ""
    return text[:400] if text.isprintable() else ascii(text[:400])[1:-1]


def _run_trial(entry: object, written: float | None) -> TrialResult | None:
    fields = _mapping(entry)
    if fields is None or not isinstance(fields.get("trial_name"), str):
        return None
    resolved = fields.get("is_resolved")
    reward = float(resolved) if isinstance(resolved, bool) else None
    mode = fields.get("failure_mode")
    began = fields.get("agent_started_at") is not None
    seconds = _seconds(fields.get("agent_started_at"), fields.get("agent_ended_at"))
    if seconds is None:
        seconds = _seconds(fields.get("trial_started_at"), fields.get("trial_ended_at"))
    tokens = _count(fields, "total_output_tokens")
    return TrialResult(
        name=f"{printable(fields.get('task_id'))}/{printable(fields['trial_name'])}",
        reward=reward,
        agent_ran=began,
        turns=None,
        exception="" if mode is None or mode in _NO_FAILURE else class_name(mode),
        instant=began and not _passed(reward) and not tokens and _is_instant(seconds),
        finished=written if written is not None else _zoned_time(fields.get("trial_ended_at")),
    )


def _reward(value: Mapping[str, object], exceptions: Sequence[Mapping[str, object]]) -> float | None:
    """Return the valid reward. Of several keys `reward` is the one, else the first in order, as Harbor prints it."""
    verified = _mapping(value.get("verifier_result")) or {}
    rewards = _mapping(verified.get("rewards")) or {}
    if not rewards and "reward" in verified:
        rewards = {"reward": verified["reward"]}
    stated = value.get("reward_valid")
    valid = stated if isinstance(stated, bool) else all(_leaves_reward_valid(info) for info in exceptions)
    if not rewards or not valid:
        return None
    return _number(rewards["reward"] if "reward" in rewards else rewards[min(rewards)])


def _leaves_reward_valid(exception_info: Mapping[str, object]) -> bool:
    """Whether a reward beside this exception counts: by Harbor's own word, else (0.1.x has none) by its class."""
    policy = _mapping(exception_info.get("policy")) or {}
    if isinstance(policy.get("has_valid_reward"), bool):
        return policy["has_valid_reward"] is True
    name = class_name(exception_info.get("exception_type")).rpartition(".")[2]
    return name not in _GRADED_BUT_INVALID and name not in _NOT_GRADED and _API_ERROR.fullmatch(name) is None


def _passed(reward: float | None) -> bool:
    return reward is not None and reward > 0


def _sum_of_phases(phases: Sequence[Mapping[str, object]]) -> float | None:
    lengths = [_seconds(phase.get("started_at"), phase.get("finished_at")) for phase in phases]
    known = [length for length in lengths if length is not None]
    return sum(known) if known and len(known) == len(lengths) else None


def _is_instant(seconds: float | None) -> bool:
    return seconds is not None and 0 <= seconds < INSTANT_FAILURE_SECONDS


def _printed_mean(evaluation: object) -> float | None:
    """Return Harbor's first metric: that is the one that its console shows."""
    metrics = (_mapping(evaluation) or {}).get("metrics")
    first = _mapping(metrics[0]) if isinstance(metrics, list) and metrics else None
    return _number(next(iter(first.values()), None)) if first else None


def _seconds(started: object, finished: object) -> float | None:
    begin, end = _time(started), _time(finished)
    if begin is None or end is None or (begin.tzinfo is None) != (end.tzinfo is None):
        return None
    return (end - begin).total_seconds()


def _time(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def _zoned_time(value: object) -> float | None:
    time = _time(value)
    if time is None or time.tzinfo is None:
        return None
    try:
        return time.timestamp()
    except OverflowError:
        return None


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _present(parts: Sequence[Mapping[str, object]], key: str) -> list[Mapping[str, object]]:
    return [found for part in parts if (found := _mapping(part.get(key))) is not None]


def _number(value: object) -> float | None:
    """Return a finite number; true and false are 1 and 0."""
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None


def _count(fields: Mapping[str, object] | None, key: str) -> float | None:
    number = _number((fields or {}).get(key))
    return number if number is not None and number >= 0 else None
