"""Looking once: every source is read to its end, and where that cannot be done it is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from runwatch import one_shot
from runwatch.config.load import check
from runwatch.facts import (
    Failure,
    FailureReason,
    HistoryRow,
    HistoryRun,
    HistoryUpdate,
    LogFacts,
    SourceKind,
    TrialsFolder,
    TrialsUpdate,
)
from runwatch.fleet import Job
from runwatch.one_shot import Look, look_once
from runwatch.parsing.log_records import TrialResult
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Deliver, Outcome

START = 1_790_000_000.0
DOWN = Failure(FailureReason.NETWORK, "connection refused")


class Scripted:
    """A source that gives one prepared outcome a poll, the last one again and again."""

    def __init__(self, kind: SourceKind, outcomes: Sequence[Outcome], seconds: float = 0.0) -> None:
        self.kind = kind
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.polls = 0

    def poll(self, jobs: Sequence[Job], deliver: Deliver) -> None:
        time.sleep(self.seconds)
        for job in jobs:
            deliver(job, self.outcomes[min(self.polls, len(self.outcomes) - 1)])
        self.polls += bool(jobs)

    def forget(self, run: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held."""


class ScriptedSources:
    """Stands in the place of the sources that the config asks for."""

    made: ClassVar[list[SourceBinding]] = []
    runs_finder = None
    scheduler_finders: ClassVar[dict[str, object]] = {}

    def __init__(self, *_: object, **__: object) -> None:
        """All is in `made`."""

    def bindings(self, *_: object) -> list[SourceBinding]:
        return self.made

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Look, list[str]]]:
    monkeypatch.setattr(one_shot, "SourceSet", ScriptedSources)
    monkeypatch.setattr(one_shot, "_PAUSE_SECONDS", 0.0)

    def look(job: str, *made: SourceBinding) -> tuple[Look, list[str]]:
        path = tmp_path / "runwatch.yaml"
        path.write_text(f"jobs: [{{run: it, {job}}}]\n")
        config, faults, _ = check(path)
        assert config is not None, faults
        monkeypatch.setattr(ScriptedSources, "made", list(made))
        told: list[str] = []
        return look_once(config, at=START + 60, progress=told.append), told

    return look


def trials(count: int, *, caught_up: bool) -> TrialsUpdate:
    results = tuple(TrialResult(f"t{i}", 1.0, True, 3.0, "", False, START + i) for i in range(count))
    return TrialsUpdate((TrialsFolder("", results),), caught_up=caught_up)


def rows(first: int, count: int, *, caught_up: bool) -> HistoryUpdate:
    read = [HistoryRow(i, START + i, i, {"train/loss": 2.0}) for i in range(first, first + count)]
    return HistoryUpdate(HistoryRun(), read, caught_up=caught_up)


EVAL = "bucket: eval, trials: {path: /trials, target: 300}"


def test_a_long_tree_of_trials_is_read_to_its_end(look: Callable[..., tuple[Look, list[str]]]) -> None:
    pages = [trials(50 * page, caught_up=page == 6) for page in range(1, 7)]
    seen, told = look(EVAL, SourceBinding(Scripted(SourceKind.TRIALS, pages)))
    assert seen.failed == ()
    assert seen.reports[0].measurements.get("mljob_trials") == 300
    assert told[0] == "trials: 100 results read, more wait"


def test_trials_that_do_not_come_to_an_end_are_told(look: Callable[..., tuple[Look, list[str]]]) -> None:
    source = Scripted(SourceKind.TRIALS, [trials(50, caught_up=False)])
    seen, _ = look(EVAL, SourceBinding(source))
    assert seen.failed == ("it: trials: not read to its end, so nothing of it is shown",)
    assert seen.reports[0].measurements.get("mljob_trials") is None
    assert source.polls == 4  # the first, and three that brought nothing more


def test_a_log_that_does_not_come_to_an_end_is_told(look: Callable[..., tuple[Look, list[str]]]) -> None:
    facts = Scripted(SourceKind.LOG, [LogFacts(("/x.out",), caught_up=False)])
    history = Scripted(SourceKind.HISTORY, [rows(0, 9, caught_up=True)])
    seen, _ = look("bucket: sft, history: {log: /x.out}", SourceBinding(history, "log"), SourceBinding(facts))
    assert seen.failed == ("it: log: not read to its end, so nothing of it is shown",)
    assert seen.reports[0].measurements.get("mljob_step") == 8


def test_a_history_that_does_not_come_to_an_end_is_told(look: Callable[..., tuple[Look, list[str]]]) -> None:
    pages = [rows(0, 9, caught_up=False), rows(9, 0, caught_up=False)]
    history = Scripted(SourceKind.HISTORY, pages)
    seen, _ = look("bucket: sft, history: {jsonl: /x.jsonl}", SourceBinding(history, "jsonl"))
    assert seen.failed == ("it: history: not read to its end, so nothing of it is shown",)


def test_a_first_read_that_fails_later_is_told_once(look: Callable[..., tuple[Look, list[str]]]) -> None:
    source = Scripted(SourceKind.TRIALS, [trials(50, caught_up=False), DOWN])
    seen, _ = look(EVAL, SourceBinding(source))
    assert seen.failed == ("it: trials: network: connection refused",)


def test_the_next_history_is_read_to_its_end_too(look: Callable[..., tuple[Look, list[str]]]) -> None:
    down = Scripted(SourceKind.HISTORY, [DOWN])
    pages = [rows(20 * page, 20, caught_up=page == 5) for page in range(6)]
    jsonl = Scripted(SourceKind.HISTORY, pages)
    seen, _ = look(
        "bucket: sft, history: [{wandb: e/p/r}, {jsonl: /x.jsonl}]",
        SourceBinding(jsonl, "jsonl"), SourceBinding(down, "wandb"),
    )  # fmt: skip
    assert seen.failed == ()
    assert seen.reports[0].measurements.get("mljob_step") == 119


def test_the_last_history_is_asked_when_all_before_it_failed(look: Callable[..., tuple[Look, list[str]]]) -> None:
    jsonl = Scripted(SourceKind.HISTORY, [rows(0, 5, caught_up=True)])
    # While the first is being asked all others have had their turn.
    wandb, log = Scripted(SourceKind.HISTORY, [DOWN], seconds=0.2), Scripted(SourceKind.HISTORY, [DOWN])
    seen, _ = look(
        "bucket: sft, history: [{wandb: e/p/r}, {log: /x.out}, {jsonl: /x.jsonl}]",
        SourceBinding(jsonl, "jsonl"), SourceBinding(wandb, "wandb"), SourceBinding(log, "log"),
    )  # fmt: skip
    assert seen.reports[0].measurements.get("mljob_step") == 4
