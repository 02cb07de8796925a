"""Times, durations, ids, dependencies, states and exit codes as SLURM writes them."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from runwatch.facts import AttemptEnd, SchedulerState
from runwatch.parsing.slurm_ids import (
    Dependency,
    dependencies_of_submit_line,
    parse_dependencies,
    parse_job_id,
    without_dependency,
)
from runwatch.parsing.slurm_states import STATES, can_start, exit_code, meaning, parse_exit, state_word, waiting
from runwatch.parsing.slurm_times import parse_duration, parse_span, parse_time, zone_error

UTC = ZoneInfo("UTC")
ROME = ZoneInfo("Europe/Rome")
HOUR = 3600

# 2026-10-25 in Rome: 03:00 summer time (01:00 UTC) becomes 02:00, so 02:30 is at 00:30 UTC and again at 01:30 UTC.
FIRST_HALF_PAST_TWO = 1792888200.0
SECOND_HALF_PAST_TWO = FIRST_HALF_PAST_TWO + HOUR


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:05", 5),
        ("12:34", 754),
        ("1:29", 89),
        ("2:03:04", 7384),
        ("1-02:03:04", 93784),
        ("365-00:00:00", 31536000),
        ("00:00:03", 3),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("Partition_Limit", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["N/A", "NONE", "None", "Unknown", "", "0", "99999999999999999999", "17:30:05", "x"])
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text, UTC) is None


def test_times_are_those_of_the_zone_or_unix_seconds() -> None:
    assert parse_time("1970-01-02T00:00:00", UTC) == 86400
    assert parse_time("1970-01-02T00:00:00", ROME) == 86400 - HOUR
    assert parse_time("1795987733", ROME) == 1795987733
    assert parse_time("2026-07-01T12:00:00", ROME) == parse_time("2026-07-01T10:00:00", UTC)


def test_hour_that_happens_twice_is_told_by_what_is_known_beside_it() -> None:
    text = "2026-10-25T02:30:00"
    assert parse_time(text, ROME) == FIRST_HALF_PAST_TWO
    assert parse_time(text, ROME, near=SECOND_HALF_PAST_TWO + 100) == SECOND_HALF_PAST_TWO
    assert parse_time(text, ROME, near=FIRST_HALF_PAST_TWO - 100) == FIRST_HALF_PAST_TWO


def test_running_through_the_hour_that_happens_twice() -> None:
    now = SECOND_HALF_PAST_TWO + 600
    for elapsed, started in ((600.0, SECOND_HALF_PAST_TWO), (600.0 + HOUR, FIRST_HALF_PAST_TWO)):
        found = parse_span("2026-10-25T02:29:00", "2026-10-25T02:30:00", "N/A", elapsed, ROME, ended=False, now=now)
        assert found == (started - 60, started, None)


def test_ended_in_the_hour_that_happens_twice() -> None:
    # Started at 02:50 summer time and ran for 40 min: its end reads 02:30 again.
    begun = FIRST_HALF_PAST_TWO + 1200
    found = parse_span(
        "2026-10-25T01:00:00", "2026-10-25T02:50:00", "2026-10-25T02:30:00", 2400.0, ROME, ended=True, now=begun + 9999
    )
    assert found == (FIRST_HALF_PAST_TWO - 5400, begun, SECOND_HALF_PAST_TWO)


@pytest.mark.parametrize(
    ("offsets", "ahead"),
    [
        ([], None),
        ([0.0, 3.0, -40.0], None),
        ([3600.0, 3597.0, 3605.0], HOUR),
        ([-18000.0, -18002.0, -20700.0], -5 * HOUR),  # the last was suspended for 45 min
        ([19800.0], 5.5 * HOUR),  # Asia/Kolkata read as UTC
        ([-420.0, -1200.0], None),  # suspended, each for a time of its own
        ([-3600.0, 0.0, 0.0], None),  # one was suspended for an hour
    ],
)
def test_times_of_another_zone_are_told_by_how_long_jobs_have_run(offsets: list[float], ahead: float | None) -> None:
    assert zone_error(offsets) == ahead


@pytest.mark.parametrize(
    ("text", "base", "key", "count"),
    [
        ("1234567", "1234567", "1234567", 1),
        ("6_3", "6", "6_3", 1),
        ("6_[1-3%1]", "6", "6_[]", 3),
        ("6_[0,2,5-9:2]", "6", "6_[]", 5),
        ("6_[7]", "6", "6_[]", 1),
        ("12+1", "12", "12", 1),
    ],
)
def test_job_ids(text: str, base: str, key: str, count: int) -> None:
    found = parse_job_id(text)
    assert found is not None
    assert (found.base, found.key, found.count, found.complete) == (base, key, count, True)


def test_array_expression_that_was_cut_short_is_not_counted_as_whole() -> None:
    found = parse_job_id("6_[1,3,5,...]")
    assert found is not None and not found.complete


@pytest.mark.parametrize("text", ["", "train", "12_x", "12.batch", "-5", "1 2", "٣"])
def test_what_is_no_job_id(text: str) -> None:
    assert parse_job_id(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(null)", ()),
        ("afterany:1(unfulfilled)", (Dependency("afterany", "1", "unfulfilled"),)),
        (
            "afterany:1(unfulfilled),afterok:2(failed)",
            (Dependency("afterany", "1", "unfulfilled"), Dependency("afterok", "2", "failed")),
        ),
        ("afternotok:7?afterany:8", (Dependency("afternotok", "7", "", True), Dependency("afterany", "8", "", True))),
        ("after:3+5", (Dependency("after", "3"),)),
        ("afterany:6_*", (Dependency("afterany", "6"),)),
        ("afterany:20:21", (Dependency("afterany", "20"), Dependency("afterany", "21"))),
        ("singleton(unfulfilled)", (Dependency("singleton", "", "unfulfilled"),)),
    ],
)
def test_dependencies(text: str, found: tuple[Dependency, ...]) -> None:
    assert parse_dependencies(text) == found


@pytest.mark.parametrize(
    ("line", "jobs"),
    [
        ("sbatch --parsable --dependency=afterany:1 chain.sbatch", ["1"]),
        ("sbatch -d afternotok:17 chain.sbatch", ["17"]),
        ("sbatch --dependency afterany:3,afternotok:4 x.sh", ["3", "4"]),
        ("sbatch chain.sbatch", []),
        ("sbatch -J with-d train.sh", []),
    ],
)
def test_dependency_of_a_submit_line(line: str, jobs: list[str]) -> None:
    assert [dependency.job for dependency in dependencies_of_submit_line(line)] == jobs


def test_submit_lines_of_one_chain_are_alike_without_it() -> None:
    lines = ("sbatch --dependency=afterany:1 a.sh --lr 1", "sbatch a.sh --lr 1", "sbatch -d afterany:9 a.sh --lr 1")
    assert {without_dependency(line) for line in lines} == {"sbatch a.sh --lr 1"}


# Every code of `squeue(1)`, JOB STATE CODES.
DOCUMENTED_STATES = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL",
    "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "RUNNING", "RESV_DEL_HOLD", "REQUEUE_FED", "REQUEUE_HOLD", "REQUEUED",
    "RESIZING", "REVOKED", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED", "TIMEOUT",
}  # fmt: skip


def test_every_documented_state_has_its_meaning() -> None:
    assert set(STATES) >= DOCUMENTED_STATES
    assert meaning("A_STATE_OF_2030").state is SchedulerState.UNKNOWN


@pytest.mark.parametrize(
    ("word", "state", "end"),
    [
        ("TIMEOUT", SchedulerState.TIMEOUT, AttemptEnd.WALL_TIME),
        ("DEADLINE", SchedulerState.FAILED, AttemptEnd.FAILED),
        ("NODE_FAIL", SchedulerState.FAILED, AttemptEnd.FAILED),
        ("OUT_OF_MEMORY", SchedulerState.FAILED, AttemptEnd.FAILED),
        ("PREEMPTED", SchedulerState.FAILED, AttemptEnd.PREEMPTED),
        ("REQUEUED", SchedulerState.PREEMPTED, AttemptEnd.UNKNOWN),
        ("SUSPENDED", SchedulerState.PREEMPTED, AttemptEnd.RUNNING),
        ("COMPLETING", SchedulerState.RUNNING, AttemptEnd.RUNNING),
        ("REVOKED", SchedulerState.UNKNOWN, AttemptEnd.UNKNOWN),
    ],
)
def test_states(word: str, state: SchedulerState, end: AttemptEnd) -> None:
    assert (meaning(word).state, meaning(word).end) == (state, end)


def test_state_words() -> None:
    assert state_word("CANCELLED by 1000") == "CANCELLED"
    assert state_word("CANCELLED+") == "CANCELLED"
    assert state_word("") == ""


@pytest.mark.parametrize(
    ("word", "text", "code"),
    [
        ("FAILED", "3:0", 3),
        ("FAILED", "0:9", 137),
        ("COMPLETED", "0:0", 0),
        ("TIMEOUT", "0:15", None),  # scontrol: the signal that SLURM sent
        ("TIMEOUT", "0:0", None),  # sacct, of the same job
        ("CANCELLED", "0:15", None),
        ("CANCELLED", "143:0", None),  # scontrol, where a shell caught it
        ("OUT_OF_MEMORY", "0:125", None),  # SLURM's mark of a kill for want of memory: no signal has this number
        ("OUT_OF_MEMORY", "137:0", 137),
        ("RUNNING", "0:0", None),
        ("FAILED", "", None),
    ],
)
def test_exit_codes(word: str, text: str, code: int | None) -> None:
    assert exit_code(word, parse_exit(text)) == code


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("Dependency", "dependency"),
        ("DependencyNeverSatisfied", "dependency"),
        ("Priority", "queue"),
        ("Resources", "capacity"),
        ("BeginTime", "queue"),
        ("QOSMaxJobsPerUserLimit", "quota"),
        ("AssocGrpCpuLimit", "quota"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "capacity"),
        ("MaxGRESPerAccount", "quota"),
        ("PartitionNodeLimit", "quota"),
        ("PartitionDown", "capacity"),
        ("MaxPoweredUpNodes", "capacity"),
        ("JobHeldUser", "queue"),
        ("JobHoldMaxRequeue", "queue"),
        ("job requeued in held state", "queue"),
        ("launch failed requeued held", "queue"),
        ("a reason that nobody knows", "unknown"),
    ],
)
def test_what_a_job_waits_for(reason: str, word: str) -> None:
    assert waiting(reason) == word


def test_what_can_never_start() -> None:
    assert not can_start("DependencyNeverSatisfied")
    assert not can_start("InvalidQOS")
    assert can_start("JobHeldAdmin")
    assert can_start("Dependency")
