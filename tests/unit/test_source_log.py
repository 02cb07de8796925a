"""The log of `serve` says why a source is down: once, anew where the reason is another one, and when it is back."""

from __future__ import annotations

import pytest

from runwatch.facts import Failure, FailureReason, SourceKind
from runwatch.source_log import SourceLog
from runwatch.sources.binding import SourceBinding
from runwatch.sources.protocol import Outcome
from tests.unit.test_watch import DOWN, MISSING, Clock, Scripted, job, update, watch_of

REFUSED = Failure(FailureReason.AUTH, "cannot read token_file: No such file or directory")


def test_each_change_of_a_source_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    watch, _ = watch_of(job("one"), job("two"), job("three", site="b"), clock=clock)
    answers: dict[str, Outcome] = {}
    source = SourceBinding(Scripted(SourceKind.HISTORY, lambda each: answers[each.run]), "jsonl")
    log = SourceLog()

    def said(one: Outcome, two: Outcome, three: Outcome) -> list[str]:
        caplog.clear()
        clock.now += 10
        answers.update(one=one, two=two, three=three)
        watch.poll(source)
        log.note(watch.health)
        return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]

    down = "WARNING history at a cannot be read: network: connection refused"
    good = update(0, 5)
    assert said(good, good, good) == []
    assert said(DOWN, good, good) == []  # one job of two: the source answers
    assert said(DOWN, DOWN, good) == [down]
    assert said(DOWN, DOWN, good) == []
    assert said(REFUSED, REFUSED, REFUSED) == [
        f"WARNING history at a cannot be read: auth: {REFUSED.detail}",
        f"WARNING history at b cannot be read: auth: {REFUSED.detail}",
    ]
    assert said(MISSING, REFUSED, REFUSED) == ["INFO history at a can be read again"]  # an answer, if no good one
    assert said(DOWN, DOWN, good) == [down, "INFO history at b can be read again"]


def test_a_source_that_is_asked_no_more_is_not_called_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = SourceLog()
    log.note({(SourceKind.SCHEDULER, "m"): DOWN, (SourceKind.HISTORY, "m"): False})
    log.note({})
    log.note({(SourceKind.SCHEDULER, "m"): True, (SourceKind.HISTORY, "m"): True})
    assert [record.getMessage() for record in caplog.records] == [
        "scheduler at m cannot be read: network: connection refused"
    ]
