"""One state of scheduler and history: who is believed, when, and when they disagree."""

from __future__ import annotations

import pytest

from runwatch.catalogue import JOB_PHASES
from runwatch.facts import (
    HistoryEnd,
    HistoryRun,
    SchedulerFacts,
    SchedulerState,
    Successor,
)
from tests.unit.scheduler_reports import MINUTE, conflict_of, report_of, state_of, stepping, wandb
from tests.unit.scheduler_stories import FAILED, HOUR, PREEMPTED, SUCCEEDED, T0, WALL_TIME, attempt, facts, gang, polled


@pytest.mark.parametrize(
    ("said", "state", "phase"),
    [
        (SchedulerState.PENDING, "pending", "queued"),
        (SchedulerState.RUNNING, "running", "bringup"),
        (SchedulerState.PREEMPTED, "preempted", "bringup"),
        (SchedulerState.SUCCEEDED, "succeeded", "finished"),
        (SchedulerState.FAILED, "failed", "finished"),
        (SchedulerState.TIMEOUT, "timeout", "finished"),
        (SchedulerState.KILLED, "killed", "finished"),
        (SchedulerState.GONE, "vanished", "finished"),
        (SchedulerState.UNKNOWN, "unknown", "bringup"),
        (SchedulerState.NO_TASKS, "running", "bringup"),
    ],
)
def test_the_schedulers_word(said: SchedulerState, state: str, phase: str) -> None:
    assert state_of(report_of((100, facts(state=said)), at=110)) == (state, phase)
    # where no source of steps was ever read there is no phase at all
    report = report_of((100, facts(state=said)), at=110, history=False)
    assert state_of(report) == (state, None)
    assert not report.measurements.family("mljob_phase")


def test_other_jobs_are_stepping_from_their_start() -> None:
    for said, phase in (
        (SchedulerState.PENDING, "queued"),
        (SchedulerState.RUNNING, "stepping"),
        (SchedulerState.FAILED, "finished"),
    ):
        assert state_of(report_of((100, facts(state=said)), at=110, history=False, bucket="other"))[1] == phase


def test_one_phase_at_a_time() -> None:
    measured = report_of((100, facts(gang(0, 0))), at=110, steps=stepping(100)).measurements
    assert sorted(measured.family("mljob_phase").values()) == [0.0] * (len(JOB_PHASES) - 1) + [1.0]
    assert measured.one_hot("mljob_phase") == "stepping"


@pytest.mark.parametrize(
    ("scheduler", "lasted", "state"),
    [
        ("kubernetes", 300, "running"),
        ("kubernetes", 301, "vanished"),
        ("iris", 600, "running"),
        ("iris", 601, "vanished"),
    ],
)
def test_running_without_tasks_is_borne_for_a_while(scheduler: str, lasted: float, state: str) -> None:
    bare = facts(state=SchedulerState.NO_TASKS)
    polls = [(0.0, facts(gang(0, 0))), *polled(bare, range(60, 60 + int(lasted), 60)), (60.0 + lasted, bare)]
    report = report_of(*polls, at=60 + lasted, history=False, scheduler=scheduler)
    assert state_of(report)[0] == state
    assert report.measurements.get("mljob_end_timestamp_seconds") == (T0 + 60 if state == "vanished" else None)


def test_a_record_that_is_gone_after_the_run_said_that_it_is_done_is_no_disappearance() -> None:
    gone = facts(state=SchedulerState.GONE)
    run = wandb("finished", 1000, HistoryEnd.SUCCEEDED, 1000)
    report = report_of((60, facts(gang(0, 0))), (1100, gone), at=1100, run=run, steps=stepping(990))
    assert state_of(report) == ("succeeded", "finished")
    assert report.measurements.get("mljob_end_timestamp_seconds") == T0 + 1000
    # ... unless the gang was started again since
    again = facts([*gang(0, 0, 1000, FAILED), *gang(1, 1050)])
    report = report_of((1060, again), (1200, gone), at=1200, run=run, steps=stepping(990))
    assert state_of(report)[0] == "vanished"


@pytest.mark.parametrize("later", [SchedulerState.GONE, SchedulerState.UNKNOWN])
def test_an_end_that_was_seen_stays_true_when_the_record_is_dropped(later: SchedulerState) -> None:
    over = facts(gang(0, 0, 1000, SUCCEEDED), SchedulerState.SUCCEEDED, ended=T0 + 1000)
    report = report_of((1060, over), (9000, facts(state=later)), at=9000, history=False)
    assert state_of(report)[0] == "succeeded"
    assert report.measurements.get("mljob_end_timestamp_seconds") == T0 + 1000
    # submitted anew under its name it runs again
    again = facts(gang(7, 9500), identity="2")
    assert state_of(report_of((1060, over), (9560, again), at=9560, history=False))[0] == "running"


def test_a_scheduler_that_cannot_tell_leaves_it_to_a_fresh_heartbeat() -> None:
    said = facts(state=SchedulerState.UNKNOWN)
    fresh = report_of((1000, said), at=1000, run=wandb("running", 900), steps=stepping(990))
    stale = report_of((1000, said), at=1000, run=wandb("running", 600), steps=stepping(590))
    told = report_of((1000, said), at=1000, run=wandb("failed", 600, HistoryEnd.FAILED, 600), steps=stepping(590))
    assert [state_of(report)[0] for report in (fresh, stale, told)] == ["running", "unknown", "failed"]


def test_terminal_at_the_scheduler_while_the_history_goes_on_is_a_conflict() -> None:
    over = facts(gang(0, 0, 1000, FAILED), SchedulerState.FAILED, ended=T0 + 1000)
    calm = report_of((1060, over), at=1060, run=wandb("running", 1040), steps=stepping(990))
    assert (state_of(calm)[0], conflict_of(calm)) == ("failed", 0)  # a heartbeat just before its death is fresh, too
    odd = report_of((1200, over), at=1200, run=wandb("running", 1190), steps=stepping(1180))
    assert (state_of(odd)[0], conflict_of(odd)) == ("failed", 1)


@pytest.mark.parametrize(
    ("run", "conflict"),
    [
        (wandb("failed", 900, HistoryEnd.FAILED, 900), 1),
        (wandb("killed", 900, HistoryEnd.KILLED, 900), 1),
        (wandb("crashed", 900), 1),
        (wandb("running", 1400), 0),
        (wandb("finished", 900, HistoryEnd.SUCCEEDED, 900), 0),  # it may still export and upload: finishing
        (wandb("failed", 1450, HistoryEnd.FAILED, 1450), 0),  # the scheduler was not asked since, but for 50 s
    ],
)
def test_running_at_the_scheduler_while_the_history_says_that_it_is_over(run: HistoryRun, conflict: float) -> None:
    report = report_of((1500, facts(gang(0, 0))), at=1500, run=run, steps=stepping(890))
    assert state_of(report)[0] == "running"
    assert conflict_of(report) == conflict


@pytest.mark.parametrize(("answered", "conflict"), [(1200, 0), (1201, 1)])
def test_a_scheduler_that_went_silent_does_not_contradict_a_crash_that_it_could_not_see(
    answered: float, conflict: float
) -> None:
    # The run spoke last at 900, and W&B takes it for dead 300 s later: it may have been preempted since.
    report = report_of((answered, facts(gang(0, 0))), at=1300, run=wandb("crashed", 900), steps=stepping(890))
    assert state_of(report) == ("running", "stepping")
    assert conflict_of(report) == conflict


def test_a_trainer_that_says_it_is_done_while_the_job_runs_is_finishing() -> None:
    run = wandb("finished", 900, HistoryEnd.SUCCEEDED, 900)
    assert state_of(report_of((960, facts(gang(0, 0))), at=960, run=run, steps=stepping(890)))[1] == "finishing"
    again = facts([*gang(0, 0, 905, PREEMPTED), *gang(1, 950)])
    assert state_of(report_of((960, again), at=960, run=run, steps=stepping(890)))[1] == "resuming"


@pytest.mark.parametrize("state", [SchedulerState.PENDING, SchedulerState.PREEMPTED])
def test_never_a_conflict_while_it_waits_or_resumes(state: SchedulerState) -> None:
    crashed = wandb("crashed", 900)
    waits = facts(gang(0, 0, 900, PREEMPTED), state)
    assert conflict_of(report_of((2000, waits), at=2000, run=crashed, steps=stepping(890), saved=[(80, 1700)])) == 0
    resumes = facts([*gang(0, 0, 900, PREEMPTED), *gang(1, 1000)])
    assert conflict_of(report_of((2000, resumes), at=2000, run=crashed, steps=stepping(890), saved=[(80, 1700)])) == 0


def test_checkpoints_that_go_on_while_the_history_is_silent_are_still_a_conflict() -> None:
    report = report_of(
        (3000, facts(gang(0, 0))), at=3000, run=wandb("running", 2990), steps=stepping(890), saved=[(99, 2000)]
    )
    assert conflict_of(report) == 1


def test_no_conflict_where_there_are_no_two_to_compare() -> None:
    assert conflict_of(report_of((60, facts(gang(0, 0))), at=60, history=False)) is None
    assert conflict_of(report_of(at=60, steps=stepping(50))) is None


def test_silent_while_it_redoes_steps_is_resuming_and_no_stall() -> None:
    """Down at 10,000 s, back at 10,300 s; W&B shows nothing below step 1000; 300 steps are to be redone, 50 min."""
    said = facts([*gang(0, 0, 10_000, PREEMPTED), *gang(1, 10_300)], preemptions=8)
    at = 10_300 + 50 * MINUTE
    report = report_of((at, said), at=at, run=wandb("running", at), steps=stepping(10_000), saved=[(700, 7100)])
    assert state_of(report) == ("running", "resuming")
    measured = report.measurements
    assert measured.get("mljob_replay_expected_seconds") == pytest.approx(300 * 10.0)
    assert measured.get("mljob_attempt_start_timestamp_seconds") == T0 + 10_300
    assert measured.get("mljob_attempt_first_step_timestamp_seconds") is None
    assert conflict_of(report) == 0
    words = [verdict.word for verdict in report.verdicts]
    assert "resuming" in words
    assert not {"stalled", "not_resumed"} & set(words)
    # the limit is 45 min after the interruption + those 50 min
    late = 10_000 + 45 * MINUTE + 3000 + 1
    report = report_of((late, said), at=late, run=wandb("running", late), steps=stepping(10_000), saved=[(700, 7100)])
    assert "not_resumed" in [verdict.word for verdict in report.verdicts]


@pytest.mark.parametrize(
    ("said", "answered", "phase"),
    [
        (facts(gang(0, 0), covered_from=T0), 1500, "stepping"),
        (
            facts(gang(0, 0), covered_from=T0),
            1411,
            "stepping",
        ),  # clocks may be 90 s apart: the newest row is that of 1500 s
        (facts(gang(0, 0), covered_from=T0), 1409, "resuming"),  # it may have begun again since
        (facts(gang(0, 0)), 1500, "resuming"),  # it may have, unseen
        (facts(covered_from=T0), 1500, "resuming"),
        (
            facts(gang(0, 950), covered_from=T0),
            1500,
            "resuming",
        ),  # by another clock this start came after the highest step
        (facts([*gang(0, 0, 1050, PREEMPTED), *gang(1, 1100)], covered_from=T0), 1500, "resuming"),
    ],
)
def test_steps_that_go_back_within_an_attempt_are_no_resuming(
    said: SchedulerFacts, answered: float, phase: str
) -> None:
    # Steps of 10 s up to 1000 s, then those from 700 s on again.
    steps = [*stepping(1000), *((70 + i, 1210.0 + 10 * i) for i in range(30))]
    report = report_of((answered, said), at=1510, run=HistoryRun(), steps=steps)
    assert state_of(report) == ("running", phase)


def test_the_first_new_step_ends_the_resuming() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1300)])
    steps = [*stepping(1000), (101, 2500.0)]
    report = report_of((2510, said), at=2510, run=wandb("running", 2500), steps=steps, saved=[(70, 700)])
    assert state_of(report) == ("running", "stepping")
    assert report.measurements.get("mljob_attempt_first_step_timestamp_seconds") == T0 + 2500
    assert report.measurements.get("mljob_replay_expected_seconds") is None


def test_without_a_complete_checkpoint_everything_is_to_be_done_again() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1300)])
    report = report_of((1400, said), at=1400, run=wandb("running", 1400), steps=stepping(1000), saved=[])
    assert report.measurements.get("mljob_replay_expected_seconds") == pytest.approx(101 * 10.0)


def test_a_last_step_that_was_reached_is_not_waited_for_again() -> None:
    said = facts([*gang(0, 0, 1000, PREEMPTED), *gang(1, 1300)])
    assert state_of(report_of((1400, said), at=1400, steps=stepping(1000), target=101))[1] == "finishing"


def test_a_chain_waits_as_timeout_and_goes_on_as_running() -> None:
    first = attempt("x", 0, 0, 8 * HOUR, WALL_TIME, link="100")
    waits = facts([first], SchedulerState.TIMEOUT, scheduler_job="100", ended=T0 + 8 * HOUR, links=("100", "101"),
                  successor=Successor("101", running=False, can_start=True))  # fmt: skip
    report = report_of((9 * HOUR, waits), at=9 * HOUR, steps=stepping(8 * HOUR - 5), scheduler="slurm")
    assert state_of(report)[0] == "timeout"
    assert dict(report.measurements.family("mljob_successor")) == {("101",): 1.0}
    assert report.measurements.get("mljob_interruptions", cause="chain") == 1
    assert report.verdicts[0].text.endswith("; successor 101 waits")
    runs = facts([first, attempt("x", 0, 9 * HOUR, link="101")], scheduler_job="101", links=("100", "101"))
    report = report_of((9 * HOUR + 60, runs), at=9 * HOUR + 60, steps=stepping(8 * HOUR - 5), scheduler="slurm")
    assert state_of(report) == ("running", "resuming")
    assert dict(report.measurements.family("mljob_successor")) == {("101",): 1.0}
    # as the scheduler's record of the ended link tells it
    took_over = facts([first], SchedulerState.TIMEOUT, scheduler_job="100", ended=T0 + 8 * HOUR,
                      successor=Successor("101", running=True, can_start=True))  # fmt: skip
    report = report_of((9 * HOUR + 60, took_over), at=9 * HOUR + 60, steps=stepping(8 * HOUR - 5), scheduler="slurm")
    assert state_of(report)[0] == "running"


def test_a_successor_that_can_never_start_is_none() -> None:
    over = facts(state=SchedulerState.FAILED, scheduler_job="100", ended=T0 + 50,
                 successor=Successor("101", running=False, can_start=False))  # fmt: skip
    report = report_of((60, over), at=60)
    assert not report.measurements.family("mljob_successor")
    assert state_of(report)[0] == "failed"


def test_an_end_that_the_run_told_after_the_scheduler_went_blind_counts() -> None:
    said = facts(gang(0, 0))
    run = wandb("finished", 1000, HistoryEnd.SUCCEEDED, 1000)
    seen = report_of((900, said), at=1190, run=run, steps=stepping(990))
    assert state_of(seen)[0] == "running"  # the scheduler is asked each minute: its word comes
    blind = report_of((900, said), at=1201, run=run, steps=stepping(990))
    assert state_of(blind)[0] == "succeeded"
