"""Harbor's console in the logs of evals and datagen: a count of trials where nothing better was read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runwatch.derive.log import measure_log
from runwatch.derive.verdict_conditions import Subject
from runwatch.derive.verdict_trials import trials_stalled
from runwatch.facts import LogFacts
from runwatch.measurements import Measurements
from runwatch.parsing.harbor_console import ConsoleProgress, HarborFrame
from tests.unit.log_watching import Watched

LOGS = Path(__file__).parents[1] / "data" / "logs" / "harbor"
NOW = 1_796_000_000.0


def facts_of(tmp_path: Path, *contents: bytes) -> LogFacts:
    for number, content in enumerate(contents):
        path = tmp_path / f"{number}.out"
        path.write_bytes(content)
        os.utime(path, (NOW + number, NOW + number))
    return Watched(tmp_path / "*.out").facts()


def told(facts: LogFacts, bucket: str = "eval", measured: Measurements | None = None) -> tuple[Measurements, list[str]]:
    measured = measured if measured is not None else Measurements()
    evidence = measure_log(measured, facts, bucket=bucket, observed=NOW)
    return measured, [line.text for line in evidence if line.text.startswith("Harbor's console")]


def counts(measured: Measurements) -> tuple[float | None, float | None]:
    return measured.get("mljob_trials"), measured.get("mljob_trials_target")


PRINTED = "Harbor's console: 16 of 16 trials, it prints Mean 0.417 (what that is over differs by version: not used)"


@pytest.mark.parametrize("capture", ["console_notty.out", "console_tty.typescript"])
@pytest.mark.parametrize("bucket", ["eval", "datagen"])
def test_both_captures_end_at_16_of_16(tmp_path: Path, capture: str, bucket: str) -> None:
    facts = facts_of(tmp_path, (LOGS / capture).read_bytes())
    assert facts.console == ConsoleProgress(HarborFrame(16, 16, "Mean", 0.417), 1)
    measured, texts = told(facts, bucket)
    assert counts(measured) == (16, 16)
    assert texts == [f"{PRINTED}; counted, since no results were read"]
    # The mean that is printed is over scored trials here and over all elsewhere.
    assert measured.get("mljob_trial_reward") is None
    assert measured.get("mljob_trial_pass_ratio") is None


def test_the_middle_of_a_drawing_on_a_terminal(tmp_path: Path) -> None:
    content = (LOGS / "console_tty.typescript").read_bytes()
    first = content.index(b"Mean: 0.167")  # the capture draws it first at 4 of 16 trials
    redrawn = content.index(b"\x1b[1A", first)
    measured, texts = told(facts_of(tmp_path, content[:redrawn]))
    assert counts(measured) == (4, 16)
    assert texts[0].startswith("Harbor's console: 4 of 16 trials, it prints Mean 0.167")


@pytest.mark.parametrize("bucket", ["rl", "sft", "other"])
def test_other_jobs_have_no_trials_of_a_console(tmp_path: Path, bucket: str) -> None:
    measured, texts = told(facts_of(tmp_path, (LOGS / "console_notty.out").read_bytes()), bucket)
    assert (counts(measured), texts) == ((None, None), [])


def test_results_that_were_read_are_left_alone(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, (LOGS / "console_notty.out").read_bytes())
    read = Measurements()
    read.set("mljob_trials", 7)
    measured, texts = told(facts, measured=read)
    assert counts(measured) == (7, None)
    assert texts == [f"{PRINTED}; not counted: the folder of the trials was looked at"]
    # The folder answered that it is not there: the count would look like one that no result follows.
    empty = Measurements()
    empty.set("mljob_observed_timestamp_seconds", NOW, source="trials")
    measured, texts = told(facts, measured=empty)
    assert counts(measured) == (None, None)
    assert texts == [f"{PRINTED}; not counted: the folder of the trials was looked at"]


def test_one_chunk_or_the_last_of_several_runs_is_not_the_whole_job(tmp_path: Path) -> None:
    console = (LOGS / "console_notty.out").read_bytes()
    measured, texts = told(facts_of(tmp_path, b"Chunk Index: 3 / 20\n" + console), "datagen")
    assert (counts(measured), texts) == ((None, None), [f"{PRINTED}; not counted: it is of one chunk"])
    measured, texts = told(facts_of(tmp_path, b"Chunk Index: 0 / 1\n" + console), "datagen")
    assert counts(measured) == (16, 16)
    measured, texts = told(facts_of(tmp_path, console, console))
    assert counts(measured) == (None, None)
    assert texts == [f"{PRINTED}; not counted: the log holds 2 runs of Harbor, and this is of the last"]


def test_a_count_of_the_console_alone_is_never_a_stall() -> None:
    measured, _ = told(LogFacts(("a.out",), console=ConsoleProgress(HarborFrame(5, 16))))
    measured.set("mljob_state", 1.0, state="running")
    measured.set("mljob_start_timestamp_seconds", NOW - 86_400)
    measured.set("mljob_observed_timestamp_seconds", NOW, source="log")
    measured.set("mljob_observed_timestamp_seconds", NOW, source="scheduler")
    assert counts(measured) == (5, 16)
    assert trials_stalled(Subject(measured, "eval", {}, NOW)) is None
