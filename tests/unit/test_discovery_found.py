"""Which records of schedulers' listings are one job, and how long found jobs are kept."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.facts import FoundSchedulerJob, SchedulerState
from runwatch.found.jobs import KnownJob, absorb, moved_to

KEY = ("s", "^n")
DAY = 86_400.0
RUNNING, PENDING, TIMEOUT = SchedulerState.RUNNING, SchedulerState.PENDING, SchedulerState.TIMEOUT


def record(
    job: str,
    state: SchedulerState = RUNNING,
    submitted: float | None = 0.0,
    *,
    name: str = "n",
    owner: str = "u",
    child: str = "",
    ended: float | None = None,
    links: tuple[str, ...] = (),
) -> FoundSchedulerJob:
    return FoundSchedulerJob(job, name, state, submitted, owner, child, ended, links)


def look(known: Sequence[KnownJob], *records: FoundSchedulerJob, now: float) -> tuple[KnownJob, ...]:
    return absorb(known, {KEY: records}, [], now, DAY)


def test_a_chain_is_one_job_and_keeps_its_id() -> None:
    known = look((), record("1"), record("2", PENDING, 5.0), now=10.0)
    assert [(job.scheduler_job, job.ids, job.first_submitted) for job in known] == [("1", ("1", "2"), 0.0)]
    known = look(known, record("1", TIMEOUT, 0.0), record("2", RUNNING, 5.0), record("3", PENDING, 60.0), now=70.0)
    assert [(job.scheduler_job, job.ids, job.over_since) for job in known] == [("1", ("1", "2", "3"), None)]
    known = look(known, record("2", TIMEOUT, 5.0), record("3", RUNNING, 60.0), now=130.0)
    assert [(job.scheduler_job, job.submission) for job in known] == [("1", "1 0.0")]


def test_a_resubmission_under_one_name_is_the_same_job_asked_for_by_its_new_id() -> None:
    known = look((), record("1"), now=10.0)
    known = look(known, record("1", SchedulerState.FAILED, ended=20.0), now=70.0)
    assert [(job.over_since, job.first_seen) for job in known] == [(20.0, 10.0)]
    known = look(known, record("9", PENDING, 100.0), now=130.0)
    assert [(job.scheduler_job, job.submitted, job.first_submitted, job.over_since) for job in known] == [
        ("9", 100.0, 0.0, None)
    ]


def test_a_resubmission_under_one_id_is_told_by_its_time() -> None:
    before = look((), record("/u/n", submitted=1.0), now=10.0)
    after = look(before, record("/u/n", submitted=50.0), now=70.0)
    assert (before[0].submission, after[0].submission) == ("/u/n 1.0", "/u/n 50.0")
    assert len(after) == 1


def test_a_chain_that_is_given_by_its_name_is_one_submission() -> None:
    def chain(known: Sequence[KnownJob], submitted: float, now: float) -> tuple[KnownJob, ...]:
        return absorb(known, {KEY: [record("n", submitted=submitted)]}, [], now, DAY, chained=["s"])

    known = chain((), 1.0, 10.0)
    known = chain(known, 5.0, 70.0)  # the first link left the listing; the second was submitted while it went on
    assert [job.submission for job in known] == ["n 1.0"]
    known = chain(known, 100.0, 130.0)
    assert [job.submission for job in known] == ["n 100.0"]
    # Elsewhere another time is another submission, whatever the clocks say.
    known = look(look((), record("n", submitted=1.0), now=10.0), record("n", submitted=5.0), now=70.0)
    assert [job.submission for job in known] == ["n 5.0"]


def test_a_successor_that_names_its_chain_is_a_link_however_late_it_was_submitted() -> None:
    known = look((), record("1"), now=10.0)
    known = look(known, record("2", RUNNING, 40.0, links=("1", "2")), now=70.0)
    assert [(job.scheduler_job, job.ids) for job in known] == [("1", ("1", "2"))]


def test_records_of_one_name_that_run_at_one_time_are_several_jobs_also_later() -> None:
    known = look((), record("1"), record("2", submitted=1.0), record("3", PENDING, 2.0), now=10.0)
    assert [job.ids for job in known] == [("1",), ("2",), ("3",)]
    known = look(known, record("1", TIMEOUT), record("2", TIMEOUT, 1.0), record("3", RUNNING, 2.0), now=70.0)
    assert [(job.ids, job.over_since) for job in known] == [(("1",), 70.0), (("2",), 70.0), (("3",), None)]


def test_one_name_of_two_people_or_two_sites_is_two_jobs() -> None:
    assert len(look((), record("1"), record("2", TIMEOUT, owner="v"), now=1.0)) == 2
    both = absorb((), {("s", "n"): [record("1")], ("t", "n"): [record("1")]}, [], 1.0, DAY)
    assert [job.site for job in both] == ["s", "t"]


def test_a_coordinator_and_its_child_are_one_job() -> None:
    coordinator = record("/u/n-coord", name="/u/n-coord", child="/u/n-coord/train-1")
    child = record("/u/n-coord/train-1", name="/u/n-coord/train-1")
    (job,) = look((), child, coordinator, record("/u/n-coord/a/b", name="/u/n-coord/a/b"), now=1.0)
    assert (job.scheduler_job, job.child) == ("/u/n-coord", "/u/n-coord/train-1")
    assert len(look((), child, now=1.0)) == 1
    assert len(look((), record("/u/n", name="/u/n"), record("/u/n2", name="/u/n2"), now=1.0)) == 2


def test_a_job_is_kept_through_its_end_and_for_linger() -> None:
    known = look((), record("1"), now=0.0)
    known = look(known, now=DAY)
    assert len(known) == 1
    assert look(known, now=DAY + 1.0) == ()


def test_a_job_that_ended_long_ago_is_not_taken_up_and_is_not_found_anew() -> None:
    assert look((), record("1", TIMEOUT, ended=0.0), now=DAY + 1.0) == ()
    known = look((), record("1", TIMEOUT, ended=0.0), now=DAY - 1.0)
    assert [job.expired(DAY - 1.0, DAY) for job in known] == [False]
    # Where the listing tells no end, the first look that saw it over counts; it stays known while it is shown.
    known = look((), record("1", TIMEOUT), now=0.0)
    for day in range(1, 4):
        known = look(known, record("1", TIMEOUT), now=day * DAY + 1.0)
        assert [job.expired(day * DAY + 1.0, DAY) for job in known] == [True]
    assert look(known, now=3 * DAY + 2.0) == ()


def test_a_listing_that_failed_lets_no_job_go() -> None:
    known = look((), record("1"), now=0.0)
    for listed in ({}, {("other", "x"): []}):
        (kept,) = absorb(known, listed, [KEY], 10 * DAY, DAY)
        assert kept.model_copy(update={"last_seen": 0.0}) == known[0]


def test_a_job_that_ended_while_nobody_could_look_is_kept_for_linger_from_the_first_answer() -> None:
    known = absorb(look((), record("1"), now=0.0), {}, [KEY], 3 * DAY, DAY)
    known = look(known, now=3 * DAY + 60.0)
    assert [(job.over_since, job.goes_on) for job in known] == [(None, False)]
    assert len(look(known, now=4 * DAY)) == 1
    assert look(known, now=4 * DAY + 1.0) == ()
    # What ended before stays as long as it would have.
    over = absorb(look((), record("1", TIMEOUT, ended=0.0), now=0.0), {}, [KEY], DAY - 1.0, DAY)
    assert look(over, now=DAY + 1.0) == ()


def test_the_first_entry_that_shows_a_job_has_it() -> None:
    first, second = ("s", "n"), ("s", "^n$")
    both = absorb((), {first: [record("1")], second: [record("1")]}, [], 0.0, DAY)
    assert [job.match for job in both] == ["n"]
    # While the first one cannot be read the job stays with it.
    assert [job.match for job in absorb(both, {second: [record("1")]}, [first], 1.0, DAY)] == ["n"]
    swapped = absorb(both, {second: [record("1")], first: [record("1")]}, [], 1.0, DAY)
    assert [job.match for job in swapped] == ["^n$"]


def test_a_name_that_two_people_have_is_left_to_who_had_it_first() -> None:
    # SLURM: all jobs of one name and one user are one record, of the first user by the name.
    known = look((), record("n", submitted=1.0, links=("10",)), now=10.0)
    known = look(known, record("n", links=("10",)), record("12", owner="v", links=("12",)), now=70.0)
    assert [(job.owner, job.scheduler_job) for job in known] == [("u", "n"), ("v", "12")]
    # Those of the first are not shown any more, and the other one's is now the first of that name.
    known = look(known, record("n", owner="v", links=("12",)), now=130.0)
    assert [(job.owner, job.scheduler_job) for job in known] == [("u", "n"), ("v", "12")]
    known = look(known, record("n", submitted=200.0, owner="w", links=("20", "21")), now=210.0)
    named = [("u", "n"), ("v", "12"), ("w", "20")]
    assert [(job.owner, job.scheduler_job) for job in known] == named
    twice = {key: [record("n", submitted=200.0, owner="w", links=("20", "21"))] for key in (KEY, ("s", "n"))}
    assert [(job.owner, job.scheduler_job) for job in absorb(known, twice, [], 220.0, DAY)] == named
    assert [job.scheduler_job for job in absorb(known[:1], twice, [], 220.0, DAY)] == ["n", "20"]


def test_a_job_whose_owner_is_named_otherwise_is_the_same_job() -> None:
    known = look((), record("job/n", submitted=1.0), now=10.0)
    known = look(known, record("job/n", submitted=100.0, owner="v"), now=110.0)
    assert [(job.owner, job.scheduler_job, job.submitted) for job in known] == [("v", "job/n", 100.0)]
    known = look(known, record("job/n", submitted=100.0, owner="v"), now=170.0)
    assert len(known) == 1


def test_a_job_of_which_only_its_being_there_is_known_stays_as_it_was() -> None:
    known = look((), record("jobset/n", submitted=1.0), now=10.0)
    hidden = record("jobset/n", SchedulerState.UNKNOWN, None, owner="")
    (job,) = look(known, hidden, now=70.0)
    assert (job.owner, job.submission, job.goes_on) == ("u", known[0].submission, True)


def test_a_slurm_job_that_is_submitted_anew_within_minutes_is_a_new_submission() -> None:
    known = look((), record("n", submitted=1.0, links=("10",)), now=60.0)
    # squeue shows the one that failed at 100 beside the new one, for some minutes.
    listed = {KEY: [record("n", submitted=110.0, links=("20",))]}
    for now in (120.0, 600.0):
        known = absorb(known, listed, [], now, DAY, chained=["s"])
        assert [(job.scheduler_job, job.submission, job.first_submitted) for job in known] == [("n", "n 110.0", 1.0)]


@pytest.mark.parametrize("asked_by", ["n", "10"])
def test_a_job_that_slurm_requeued_is_no_new_submission(asked_by: str) -> None:
    # scontrol(1): "If a job is requeued, the submit time is reset."
    known = look((), record(asked_by, submitted=1.0, links=("10",)), now=60.0)
    requeued = record(asked_by, PENDING, submitted=90.0, links=("10",))
    (job,) = absorb(known, {KEY: [requeued]}, [], 120.0, DAY, chained=["s"])
    assert job.submission == f"{asked_by} 1.0"


def test_the_ids_of_a_chain_stay_known() -> None:
    known = look((), record("n", submitted=1.0, links=("10", "11")), now=10.0)
    listed = {KEY: [record("n", submitted=5.0, links=("11", "12"))]}
    (job,) = absorb(known, listed, [], 100.0, DAY, chained=["s"])
    assert job.ids == ("10", "11", "12", "n")
    # After a restart the time at which it was seen to go on is rounded down, here to before its newest link.
    rounded = job.model_copy(update={"alive_at": 0.0})
    (job,) = absorb([rounded], listed, [], 160.0, DAY, chained=["s"])
    assert (job.ids, job.submission) == (("10", "11", "12", "n"), "n 1.0")
    # Submitted anew after its end it is another chain.
    over = absorb([job], {KEY: [record("n", TIMEOUT, 5.0, ended=150.0, links=("12",))]}, [], 160.0, DAY, chained=["s"])
    (job,) = absorb(over, {KEY: [record("n", submitted=300.0, links=("20",))]}, [], 310.0, DAY, chained=["s"])
    assert job.ids == ("20", "n")


def test_after_a_change_of_the_config_jobs_go_to_the_entry_that_matches() -> None:
    (job,) = look((), record("1"), now=0.0)
    assert moved_to([job], [("s", "^x"), KEY]) == (job,)
    assert [moved.match for moved in moved_to([job], [("t", "n"), ("s", "x"), ("s", "n$")])] == ["n$"]
    assert moved_to([job], [("s", "x")]) == ()


RECORDS = st.lists(
    st.builds(
        record,
        st.sampled_from("123456"),
        st.sampled_from([RUNNING, PENDING, TIMEOUT, SchedulerState.FAILED]),
        st.sampled_from([None, 0.0, 5.0, 50.0]),
        name=st.sampled_from(["n", "m"]),
        owner=st.sampled_from(["u", "v"]),
        ended=st.sampled_from([None, 7.0]),
        links=st.sampled_from([(), ("1", "2"), ("4",)]),
    ),
    max_size=6,
    unique_by=lambda each: each.scheduler_job,
)


@settings(max_examples=150)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.integers())
def test_the_answer_hangs_on_no_order_and_loses_no_record(looks: list[list[FoundSchedulerJob]], seed: int) -> None:
    random = Random(seed)
    straight: tuple[KnownJob, ...] = ()
    shuffled: tuple[KnownJob, ...] = ()
    for number, records in enumerate(looks):
        now = 60.0 * (number + 1)
        straight = look(straight, *records, now=now)
        mixed = list(records)
        random.shuffle(mixed)
        shuffled = look(shuffled, *mixed, now=now)
        assert straight == shuffled
        seen = {(job.name, each) for job in straight if job.last_seen == now for each in job.ids}
        for each in records:
            assert any((each.name, own) in seen for own in (each.scheduler_job, *each.links))
