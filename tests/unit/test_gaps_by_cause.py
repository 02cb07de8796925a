"""Whole runs with gaps of every cause, from rows and polls to `mljob_gaps`."""

from __future__ import annotations

import pytest

from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.job import measure_job
from runwatch.derive.job_view import HistoryView, JobView
from runwatch.facts import Attempt, AttemptEnd, HistoryRow, HistoryRun, SchedulerFacts, SchedulerState, SourceKind
from runwatch.fleet import Job
from runwatch.measurements import JobReport
from runwatch.scheduler_digest import SchedulerDigest
from tests.unit.scheduler_stories import FAILED, HOUR, PREEMPTED, T0, WALL_TIME, attempt, facts, gang

DAY = 24 * HOUR
POLL = 600.0
DOWN = 0.5 * HOUR
STALL = "stall"
# One gap each day at noon, the silent stall on the seventh day, the failure on the third, the chain's restart on the
# ninth.
CAUSES = [PREEMPTED, PREEMPTED, FAILED, PREEMPTED, PREEMPTED, PREEMPTED, STALL, PREEMPTED, WALL_TIME, PREEMPTED,
          PREEMPTED, PREEMPTED]  # fmt: skip
NOONS = [(day + 0.5) * DAY for day in range(len(CAUSES))]
END = len(CAUSES) * DAY


def rows(skew: float = 0.0) -> list[HistoryRow]:
    """A step a minute, but for half an hour after each noon; the trainer's clock is `skew` seconds ahead."""
    found, time, step = [], 0.0, 0
    stops = list(NOONS)
    while time < END:
        found.append(HistoryRow(step, T0 + time + skew, step, {"train/loss": 1.0}))
        step += 1
        time += 60.0
        if stops and time >= stops[0]:
            time = stops.pop(0) + DOWN
    return found


def lives() -> list[Attempt]:
    """Every start of the gang of eight; its tasks are placed again ten minutes after they were stopped."""
    found: list[Attempt] = []
    started, number, link = 0.0, 0, "1"
    for noon, cause in zip(NOONS, CAUSES, strict=True):
        if isinstance(cause, AttemptEnd):
            found += gang(number, started, noon + 5, cause, link=link)
            started, number = noon + 600, number + 1
            link = "2" if cause is WALL_TIME else link
    return [*found, *gang(number, started, link=link)]


def as_told_at(time: float, attempts: list[Attempt]) -> SchedulerFacts:
    """What a scheduler that remembers everything for a day tells at a time."""
    known = []
    for one in attempts:
        if one.started is None or one.started > T0 + time:
            continue
        if one.ended is not None and one.ended > T0 + time:
            known.append(Attempt(one.key, one.link, one.started, None, AttemptEnd.RUNNING))
        elif one.ended is None or one.ended > T0 + time - DAY:
            known.append(one)
    up = any(one.ended is None for one in known)
    state = SchedulerState.RUNNING if up else SchedulerState.PREEMPTED
    return facts(known, state, scheduler_job=known[-1].link, preemptions=8 * 9 + 8)


def report_of(skew: float = 0.0, unread: tuple[float, float] | None = None) -> JobReport:
    digest, attempts = SchedulerDigest(POLL), lives()
    time = 0.0
    while time <= END + POLL:
        if unread is None or not unread[0] <= time <= unread[1]:
            digest.add(as_told_at(time, attempts), T0 + time)
        time += POLL
    history = HistoryDigest(is_rl=False)
    history.add(rows(skew))
    now = T0 + END + POLL
    view = JobView(
        Job("r", "sft", "a", scheduler="iris"),
        history=HistoryView(HistoryRun(), history.summary(), "test"),
        scheduler=digest.view(now),
        observed={SourceKind.HISTORY: now, SourceKind.SCHEDULER: now},
    )
    return measure_job(view, now, {})


def by_cause(report: JobReport, name: str = "mljob_gaps") -> dict[str, float]:
    return {cause: value for (cause,), value in report.measurements.family(name).items()}


@pytest.mark.parametrize("skew", [-90.0, -30.0, 0.0, 30.0, 90.0])
def test_twelve_gaps_of_nine_preemptions_a_failure_a_chain_restart_and_a_silent_stall(skew: float) -> None:
    report = report_of(skew)
    assert by_cause(report) == {"preemption": 9, "failure": 1, "chain": 1, "unexplained": 1, "unknown": 0}
    assert by_cause(report, "mljob_interruptions") == {"preemption": 9, "failure": 1, "chain": 1, "unknown": 0}
    assert report.measurements.get("mljob_preemptions") == 80  # eight for each, and a user's cancel that hit eight
    assert by_cause(report, "mljob_gap_end_timestamp_seconds") == {
        "preemption": T0 + NOONS[11] + DOWN + skew,
        "failure": T0 + NOONS[2] + DOWN + skew,
        "chain": T0 + NOONS[8] + DOWN + skew,
        "unexplained": T0 + NOONS[6] + DOWN + skew,
    }
    seconds = by_cause(report, "mljob_gap_seconds")
    assert seconds["preemption"] == pytest.approx(9 * (DOWN + 60.0))
    assert seconds["unknown"] == 0


def test_a_week_in_which_the_scheduler_was_not_read() -> None:
    """From the evening of the second day to that of the ninth: its gaps are unknown, and none is called unexplained.

    The scheduler forgets after a day, so that the stops of the last day before it is read again are told after all.
    """
    report = report_of(unread=(1.9 * DAY, 8.9 * DAY))
    assert by_cause(report) == {"preemption": 5, "failure": 0, "chain": 1, "unexplained": 0, "unknown": 6}
    # The gang that ran when the reading stopped is gone when it goes on: it ended in between, nobody knows how.
    interrupted = by_cause(report, "mljob_interruptions")
    assert interrupted == {"preemption": 5, "failure": 0, "chain": 1, "unknown": 1}
    unknown = [line for line in report.evidence if line.topic == "gaps" and line.fields["cause"] == "unknown"]
    days = [round((float(str(line.fields["start_timestamp_seconds"])) - T0) / DAY - 0.5) for line in unknown]
    assert days == [2, 3, 4, 5, 6, 7]


def test_the_evidence_names_the_interruption_of_each_gap() -> None:
    lines = [line for line in report_of().evidence if line.topic == "gaps"]
    assert len(lines) == 12
    failure = lines[2]
    assert failure.fields["interruption_timestamp_seconds"] == T0 + NOONS[2] + 5
    assert failure.fields["interruption_attempts"] == 8
    assert "shows no interruption" in lines[6].text


def small_report(
    said: SchedulerFacts, steps: list[float], evaluations: tuple[float, ...] = (), run: HistoryRun | None = None
) -> JobReport:
    history = HistoryDigest(is_rl=False)
    logged = [(time, {"train/loss": 1.0}) for time in steps] + [(time, {"eval/loss": 1.0}) for time in evaluations]
    history.add(
        HistoryRow(i, T0 + time, None, values)
        for i, (time, values) in enumerate(sorted(logged, key=lambda row: row[0]))
    )
    now = T0 + 20_000
    digest = SchedulerDigest(60)
    digest.add(said, now)
    view = JobView(
        Job("r", "sft", "a", scheduler="iris"),
        history=HistoryView(run or HistoryRun(), history.summary(), "test"),
        scheduler=digest.view(now),
        observed={SourceKind.HISTORY: now, SourceKind.SCHEDULER: now},
    )
    return measure_job(view, now, {})


BEFORE = [10.0 * i for i in range(101)]  # to 1000 s


def test_a_preemption_during_an_evaluation() -> None:
    """Evaluation from 1000 to 3000 s makes no step; the gang is preempted in the midst of it and evaluates again."""
    steps = [*BEFORE, *(6000.0 + 10 * i for i in range(50))]
    said = facts([*gang(0, 0, 2200, PREEMPTED), *gang(1, 2800)], covered_from=T0)
    report = small_report(said, steps, evaluations=(1500.0, 2000.0, 4000.0, 5000.0))
    assert by_cause(report) == {"preemption": 1, "failure": 0, "chain": 0, "unexplained": 0, "unknown": 0}


def test_two_preemptions_in_one_gap_are_one_gap_and_two_interruptions() -> None:
    steps = [*BEFORE, *(6000.0 + 10 * i for i in range(50))]
    said = facts([*gang(0, 0, 1005, PREEMPTED), *gang(1, 1500, 2500, PREEMPTED), *gang(2, 3500)], covered_from=T0)
    report = small_report(said, steps)
    assert by_cause(report)["preemption"] == 1
    assert by_cause(report, "mljob_interruptions")["preemption"] == 2
    (line,) = [line for line in report.evidence if line.topic == "gaps"]
    assert line.fields["interruption_2_timestamp_seconds"] == T0 + 2500


def test_a_gap_that_is_still_open_is_in_no_count_but_its_interruption_is() -> None:
    said = facts(gang(0, 0, 1005, PREEMPTED), SchedulerState.PREEMPTED, covered_from=T0)
    report = small_report(said, BEFORE)
    assert set(by_cause(report).values()) == {0}
    assert by_cause(report, "mljob_interruptions")["preemption"] == 1
    assert report.measurements.one_hot("mljob_phase") == "resuming"
    assert report.measurements.get("mljob_interruptions_since_progress") == 1


def test_a_whole_chain_of_timeouts_explains_each_of_its_gaps() -> None:
    links = [attempt("x", 0, 3000 * i, 3000 * i + 2000, WALL_TIME, link=str(i)) for i in range(5)]
    links.append(attempt("x", 0, 15_000, link="5"))
    steps = [3000.0 * i + 10 * k for i in range(6) for k in range(10, 200)]
    report = small_report(facts(links, scheduler_job="5", covered_from=T0), steps)
    assert by_cause(report) == {"preemption": 0, "failure": 0, "chain": 5, "unexplained": 0, "unknown": 0}


@pytest.mark.parametrize(("drops", "replayed"), [(False, 0), (True, None)])
def test_where_the_history_hides_a_replay_after_an_interruption_it_is_not_zero(
    drops: bool, replayed: float | None
) -> None:
    steps = [*BEFORE, *(6000.0 + 10 * i for i in range(50))]
    said = facts([*gang(0, 0, 1005, PREEMPTED), *gang(1, 1500)], covered_from=T0)
    report = small_report(said, steps, run=HistoryRun(drops_replayed_steps=drops))
    assert report.measurements.get("mljob_replayed_steps") == replayed


def test_without_any_scheduler_no_cause_but_unknown_was_looked_up() -> None:
    history = HistoryDigest(is_rl=False)
    history.add(rows())
    now = T0 + END
    view = JobView(
        Job("r", "sft", "a"),
        history=HistoryView(HistoryRun(), history.summary(), "test"),
        observed={SourceKind.HISTORY: now},
    )
    assert by_cause(measure_job(view, now, {})) == {"unknown": 12}
