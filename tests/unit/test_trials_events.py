"""A reader that follows a tree through any course of events ends with what one that never looked before sees."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.derive.trials import TrialsSummary, summarise_trials
from tests.unit.trial_trees import WRITTEN, Reading, job_result, trial, write

JOBS = ("one", "two")
NAMES = tuple(f"t{number}__aaaaaaa" for number in range(4))
EXCEPTIONS = ("", "AgentTimeoutError", "RateLimitError")

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["finish", "begin", "half", "delete", "look"]),
        st.sampled_from(JOBS),
        st.sampled_from(NAMES),
        st.sampled_from([None, 0.0, 0.25, 1.0]),
        st.sampled_from(EXCEPTIONS),
    ),
    max_size=25,
)


def happen(root: Path, number: int, event: tuple[str, str, str, float | None, str]) -> None:
    kind, job, name, reward, exception = event
    folder = root / job / name
    match kind:
        case "finish":
            trial(folder, reward, exception=exception, turns=number % 5, written=WRITTEN + number)
        case "begin":
            shutil.rmtree(folder, ignore_errors=True)
            write(folder / "trial.log", "")
        case "half":
            write(folder / "result.json", '{"trial_name": "t', WRITTEN + number)
        case "delete":
            shutil.rmtree(folder, ignore_errors=True)


def counted_slowly(root: Path) -> dict[str, object]:
    """Read every result anew and count in the plainest way."""
    rows = []
    for path in sorted(root.glob("*/*/result.json")):
        try:
            value = json.loads(path.read_text())
        except ValueError:
            continue
        kind = (value["exception_info"] or {}).get("exception_type", "")
        reward = (value["verifier_result"] or {}).get("rewards", {}).get("reward")
        reward = None if kind == "RateLimitError" else reward
        rows.append((reward, kind, value["agent_result"]["metadata"]["n_episodes"], path.stat().st_mtime))
    scored = [row[0] for row in rows if row[0] is not None]
    turns = [row[2] for row in rows if row[2] > 0]
    return {
        "trials": len(rows),
        "scored": len(scored),
        "passed": len([reward for reward in scored if reward > 0]),
        "mean": sum(scored) / len(scored) if scored else None,
        "ran": len(turns),
        "turns": sum(turns) / len(turns) if turns else None,
        "exceptions": {kind: sum(row[1] == kind for row in rows) for kind in {row[1] for row in rows} if kind},
        "last": max((row[3] for row in rows), default=None),
    }


def figures(summary: TrialsSummary) -> dict[str, object]:
    return {
        "trials": summary.trials,
        "scored": summary.scored,
        "passed": summary.passed,
        "mean": summary.reward_mean,
        "ran": summary.agent_ran,
        "turns": summary.turns_mean,
        "exceptions": dict(summary.exceptions),
        "last": summary.last,
    }


@settings(max_examples=60)
@given(EVENTS)
def test_following_equals_reading_anew_and_counting_slowly(
    events: list[tuple[str, str, str, float | None, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for job in JOBS:
            job_result(root / job, 4)
        following = Reading(clock=lambda: WRITTEN)
        for number, event in enumerate(events):
            happen(root, number, event)
            if event[0] == "look":
                following.update(root)
        # A result that is half written now keeps its former content for a while: that alone may differ.
        for path in root.glob("*/*/result.json"):
            if not path.read_text().endswith("}"):
                path.unlink()
        followed = following.update(root)
        assert followed == Reading(clock=lambda: WRITTEN).update(root)
        assert figures(summarise_trials(followed)) == counted_slowly(root)
