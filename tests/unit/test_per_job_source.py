"""The bounds around blocking reads: deadline, slots a site, backoff, and rows that come late."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from runwatch.facts import (
    CheckpointListing,
    Failure,
    FailureReason,
    HistoryRow,
    HistoryRun,
    HistoryUpdate,
    SourceKind,
)
from runwatch.fleet import Job
from runwatch.sources.per_job import PerJobSource
from runwatch.sources.protocol import Outcome

SOON = 0.15
"""A deadline of polls in which nothing is to be read: on a busy machine nothing surely is within it."""
LONG = 20.0


def update(*cursors: int, caught_up: bool = True) -> HistoryUpdate:
    return HistoryUpdate(HistoryRun(), [HistoryRow(c, None, None, {}) for c in cursors], caught_up=caught_up)


def job(run: str, site: str = "here") -> Job:
    return Job(run=run, bucket="sft", site=site)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Gates:
    """Lets reads of chosen jobs hang until the test opens their gate; all are opened at the test's end."""

    def __init__(self) -> None:
        self.gates: dict[str, threading.Event] = {}
        self.calls: Counter[str] = Counter()

    def close(self, run: str) -> None:
        self.gates[run] = threading.Event()

    def read(self, outcome: Callable[[Job], Outcome]) -> Callable[[Job], Outcome]:
        def blocking(watched: Job) -> Outcome:
            self.calls[watched.run] += 1
            gate = self.gates.get(watched.run)
            if gate is not None:
                assert gate.wait(30)
            return outcome(watched)

        return blocking


@pytest.fixture
def gates() -> Iterator[Gates]:
    held = Gates()
    yield held
    for gate in held.gates.values():
        gate.set()


def poll(source: PerJobSource, *jobs: Job) -> list[tuple[str, Outcome]]:
    delivered: list[tuple[str, Outcome]] = []
    source.poll(jobs, lambda watched, outcome: delivered.append((watched.run, outcome)))
    return delivered


def poll_until(clock: Clock, runs: set[str], source: PerJobSource, *jobs: Job) -> list[tuple[str, Outcome]]:
    """Poll, and let the poll's time be over once these runs were answered."""
    delivered: list[tuple[str, Outcome]] = []
    begun = clock.now

    def deliver(watched: Job, outcome: Outcome) -> None:
        delivered.append((watched.run, outcome))
        if runs <= {run for run, _ in delivered}:
            clock.now = begun + LONG

    source.poll(jobs, deliver)
    return delivered


def wait_until_one_has_ended(source: PerJobSource) -> None:
    """Wait between two polls until a read that was let go has ended."""
    end = time.monotonic() + LONG
    while source._ended.empty():
        assert time.monotonic() < end
        time.sleep(0.005)


def wait_and_give_time(source: PerJobSource) -> None:
    """Wait until one has ended, and let the next poll, in which more is to be read, have time for it."""
    wait_until_one_has_ended(source)
    source._deadline = LONG


def cursors(delivered: list[tuple[str, Outcome]]) -> list[int]:
    return [row.cursor for _, outcome in delivered if isinstance(outcome, HistoryUpdate) for row in outcome.rows]


def test_every_job_has_an_outcome() -> None:
    source = PerJobSource(SourceKind.HISTORY, lambda j: update(int(j.run)), deadline=LONG, interval=60)
    delivered = poll(source, *(job(str(i), site=str(i % 3)) for i in range(60)))
    assert sorted(cursors(delivered)) == list(range(60))
    assert len(delivered) == 60


def test_in_flight_limit_holds_for_each_site() -> None:
    lock = threading.Lock()
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def read(watched: Job) -> Outcome:
        with lock:
            running[watched.site] += 1
            most[watched.site] = max(most[watched.site], running[watched.site])
        time.sleep(0.002)
        with lock:
            running[watched.site] -= 1
        return update()

    source = PerJobSource(SourceKind.HISTORY, read, deadline=LONG, interval=60, in_flight_per_site=3)
    assert len(poll(source, *(job(str(i), site="ab"[i % 2]) for i in range(40)))) == 40
    assert 1 <= most["a"] <= 3 and 1 <= most["b"] <= 3


def test_hung_read_is_a_timeout_and_its_rows_come_once_when_it_ends(gates: Gates) -> None:
    rows = iter([update(1), update(2), update()])
    gates.close("slow")
    source = PerJobSource(SourceKind.HISTORY, gates.read(lambda j: next(rows)), deadline=SOON, interval=60)
    for _ in range(3):
        begun = time.monotonic()
        [(run, outcome)] = poll(source, job("slow"))
        assert time.monotonic() - begun < LONG  # the read itself hangs for longer
        assert run == "slow"
        assert isinstance(outcome, Failure)
        assert outcome.reason is FailureReason.TIMEOUT
    assert gates.calls["slow"] == 1
    gates.gates["slow"].set()
    wait_and_give_time(source)
    assert cursors(poll(source, job("slow"))) == [1, 2]  # the late one, and a look of now
    assert cursors(poll(source, job("slow"))) == []
    assert gates.calls["slow"] == 3


def test_late_rows_say_how_long_ago_they_were_read(gates: Gates) -> None:
    clock = Clock()
    gates.close("slow")
    source = PerJobSource(
        SourceKind.HISTORY, gates.read(lambda j: update(1)), deadline=SOON, interval=600, clock=lambda: clock.now
    )
    thread = threading.Thread(target=poll, args=(source, job("slow")))
    thread.start()
    thread.join(LONG)
    clock.now = 35.0
    gates.gates["slow"].set()
    wait_and_give_time(source)
    clock.now = 600.0
    late, fresh = (outcome for _, outcome in poll(source, job("slow")))
    assert isinstance(late, HistoryUpdate)
    assert isinstance(fresh, HistoryUpdate)
    assert (late.age, fresh.age) == (565.0, 0.0)


def test_a_look_that_always_takes_longer_than_a_poll_is_heard_with_the_time_at_which_it_began(gates: Gates) -> None:
    clock = Clock()
    source = PerJobSource(
        SourceKind.CHECKPOINTS,
        gates.read(lambda j: CheckpointListing((), (str(gates.calls["slow"]),))),
        deadline=SOON,
        interval=60,
        clock=clock,
    )
    heard: list[Outcome] = []
    for _ in range(3):
        gates.close("slow")
        heard += [outcome for _, outcome in poll(source, job("slow"))]
        gates.gates["slow"].set()
        wait_until_one_has_ended(source)
        clock.now += 60.0
    first, *later = heard
    assert isinstance(first, Failure) and first.reason is FailureReason.TIMEOUT
    assert later == [CheckpointListing((), ("1",), age=60.0), CheckpointListing((), ("2",), age=60.0)]


def test_a_late_listing_is_followed_by_a_look_of_now(gates: Gates) -> None:
    listings = iter([CheckpointListing((), ("old",)), CheckpointListing((), ("new",))])
    gates.close("slow")
    source = PerJobSource(SourceKind.CHECKPOINTS, gates.read(lambda j: next(listings)), deadline=SOON, interval=60)
    poll(source, job("slow"))
    gates.gates["slow"].set()
    wait_and_give_time(source)
    late, fresh = (outcome for _, outcome in poll(source, job("slow")))
    assert isinstance(late, CheckpointListing) and late.age > 0
    assert fresh == CheckpointListing((), ("new",))


def test_hung_site_takes_no_slot_of_another(gates: Gates) -> None:
    for run in ("h0", "h1"):
        gates.close(run)
    clock = Clock()
    source = PerJobSource(
        SourceKind.HISTORY,
        gates.read(lambda j: update()),
        deadline=LONG,
        interval=60,
        in_flight_per_site=2,
        clock=clock,
    )
    well = {f"ok{i}" for i in range(8)}
    jobs = [job("h0", "hung"), job("h1", "hung"), job("h2", "hung"), *(job(run, "well") for run in sorted(well))]
    delivered = dict(poll_until(clock, well, source, *jobs))
    assert {run for run, outcome in delivered.items() if isinstance(outcome, HistoryUpdate)} == well
    waited = delivered["h2"]
    assert waited == Failure(FailureReason.TIMEOUT, "waited for a free slot of site hung")
    assert gates.calls["h2"] == 0
    gates.gates["h0"].set()
    wait_until_one_has_ended(source)
    # It had only waited: there is no backoff, and it goes first.
    assert isinstance(dict(poll_until(clock, {"h2"}, source, *jobs))["h2"], HistoryUpdate)


def test_every_job_of_a_site_with_more_than_a_poll_can_read_has_its_turn(gates: Gates) -> None:
    clock = Clock()

    def read(watched: Job) -> Outcome:
        clock.now += 5.0
        return CheckpointListing(())

    # One slot, 5 s a read and 30 s a poll: six or seven reads begin in a poll, so each of 25 jobs has been read within
    # five polls (5 x 6 = 30), and in twenty (20 x 6 = 120) at least four times.
    source = PerJobSource(
        SourceKind.CHECKPOINTS, gates.read(read), deadline=30.0, interval=60, in_flight_per_site=1, clock=clock
    )
    jobs = [job(f"j{i:02}") for i in range(25)]
    for minute in range(1, 21):
        clock.now = minute * 60.0
        poll(source, *jobs)
        if minute == 5:
            assert set(gates.calls) == {each.run for each in jobs}
    assert min(gates.calls.values()) >= 4


def test_whose_read_was_cut_short_by_those_before_it_goes_first() -> None:
    clock = Clock()
    poll_is_over = threading.Event()
    answered: set[str] = set()

    def read(watched: Job) -> Outcome:
        clock.now += 5.0
        if clock.now % 60.0 > 30.0:
            assert poll_is_over.wait(30)
        return CheckpointListing(())

    # One slot, reads of 5 s: those begun at 0, 5, ... 25 s end in time, the seventh, begun at 30 s, does not. Of
    # fourteen jobs it is the same two for ever, where these go last again.
    source = PerJobSource(SourceKind.CHECKPOINTS, read, deadline=31.5, interval=60, in_flight_per_site=1, clock=clock)
    jobs = [job(f"j{i:02}") for i in range(14)]
    for minute in range(1, 4):
        clock.now = minute * 60.0
        poll_is_over.clear()
        answered |= {run for run, outcome in poll(source, *jobs) if isinstance(outcome, CheckpointListing)}
        poll_is_over.set()
        wait_until_one_has_ended(source)
    # 3 x 6 reads in time.
    assert answered == {each.run for each in jobs}


def test_pages_are_read_on_until_caught_up() -> None:
    pages = iter([update(1, caught_up=False), update(2, caught_up=False), update(3)])
    source = PerJobSource(SourceKind.HISTORY, lambda j: next(pages), deadline=LONG, interval=60)
    assert cursors(poll(source, job("long"))) == [1, 2, 3]


def test_endless_pages_end_at_the_deadline_without_failure_or_loss() -> None:
    cursor = iter(range(10**9))

    def read(watched: Job) -> Outcome:
        time.sleep(0.01)
        return update(next(cursor), caught_up=False)

    source = PerJobSource(SourceKind.HISTORY, read, deadline=SOON, interval=60)
    seen: list[int] = []
    for _ in range(3):
        delivered = poll(source, job("long"))
        assert not any(isinstance(outcome, Failure) for _, outcome in delivered)
        seen += cursors(delivered)
    assert seen == list(range(len(seen)))
    assert len(seen) > 5


def test_backoff_doubles_up_to_five_minutes_and_ends_with_success() -> None:
    clock = Clock()
    calls: list[float] = []
    outcome: list[Outcome] = [Failure(FailureReason.NETWORK, "refused")]

    def read(watched: Job) -> Outcome:
        calls.append(clock.now)
        return outcome[0]

    source = PerJobSource(SourceKind.HISTORY, read, deadline=LONG, interval=60, clock=clock)
    for minute in range(23):
        clock.now = minute * 60.0
        assert poll(source, job("a")) == [("a", outcome[0])]
    # Waits of 1, 2, 4 and then 5 minutes.
    assert [call / 60 for call in calls] == [0, 1, 3, 7, 12, 17, 22]
    outcome[0] = update()
    for minute in range(27, 30):
        clock.now = minute * 60.0
        assert poll(source, job("a")) == [("a", outcome[0])]
    assert [call / 60 for call in calls[-3:]] == [27, 28, 29]


@pytest.mark.parametrize("reason", [FailureReason.NOT_FOUND, FailureReason.PARSE])
def test_missing_and_broken_files_are_looked_at_every_time(reason: FailureReason) -> None:
    clock = Clock()
    calls: list[float] = []

    def read(watched: Job) -> Outcome:
        calls.append(clock.now)
        return Failure(reason, "")

    source = PerJobSource(SourceKind.HISTORY, read, deadline=LONG, interval=60, clock=clock)
    for minute in range(5):
        clock.now = minute * 60.0
        poll(source, job("a"))
    assert len(calls) == 5


def test_exception_of_the_reader_is_logged_and_kills_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def read(watched: Job) -> Outcome:
        if watched.run == "bad":
            raise KeyError("secret-value")
        return update()

    source = PerJobSource(SourceKind.HISTORY, read, deadline=LONG, interval=60)
    with caplog.at_level(logging.ERROR):
        delivered = dict(poll(source, job("bad"), job("good")))
    assert delivered["bad"] == Failure(FailureReason.OTHER, "the reader failed: KeyError")
    assert isinstance(delivered["good"], HistoryUpdate)
    assert caplog.records[0].exc_info is not None


def test_forgotten_job_is_dropped_when_its_read_has_ended(gates: Gates) -> None:
    forgotten: list[str] = []
    results = iter([update(1), update(2)])
    gates.close("gone")
    source = PerJobSource(
        SourceKind.HISTORY, gates.read(lambda j: next(results)), deadline=SOON, interval=60, forget=forgotten.append
    )
    poll(source, job("gone"))
    source.forget("gone")
    assert forgotten == []  # the reader is still in it
    gates.gates["gone"].set()
    wait_and_give_time(source)
    assert cursors(poll(source, job("gone"))) == [2]
    assert forgotten == ["gone"]
    source.forget("gone")
    assert forgotten == ["gone", "gone"]


def test_closed_source_starts_nothing_and_wakes_its_poll(gates: Gates) -> None:
    closed: list[bool] = []
    gates.close("slow")
    source = PerJobSource(
        SourceKind.HISTORY,
        gates.read(lambda j: update()),
        deadline=LONG,
        interval=60,
        close=lambda: closed.append(True),
    )
    begun = time.monotonic()
    timer = threading.Timer(0.05, source.close)
    timer.start()
    assert poll(source, job("slow")) == []
    timer.join()
    assert time.monotonic() - begun < LONG / 2
    assert (poll(source, job("other")), closed) == ([], [True])
    assert gates.calls["other"] == 0
