"""Logs of which an interface gives only the newest lines: overlaps, growth, short answers, other containers."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.facts import Failure, FailureReason
from runwatch.fleet import Job
from runwatch.parsing.log_lines import each_redrawing
from runwatch.sources.log_follower import LogNews, PageStart
from runwatch.sources.log_tails import Tail, TailFollower, TailLine, overlap
from tests.unit.log_fragments import LOGS
from tests.unit.log_watching import BANNER, Watched, logged_step, steps

START = 1_790_000_000.0


class Tails:
    """Answers each fetch with the next of the given tails; the last is repeated."""

    def __init__(self, *answers: Sequence[str] | Failure) -> None:
        self.answers = list(answers)
        self.fetches = 0

    def __call__(self, lines: int) -> Tail | Failure:
        self.fetches += 1
        answer = self.answers[0]
        if len(self.answers) > 1:
            self.answers.pop(0)
        return answer if isinstance(answer, Failure) else Tail(answer[-lines:], is_whole=len(answer) < lines)


def look(follower: TailFollower, tails: Tails) -> tuple[PageStart | None, list[str]]:
    news = follower.look(tails)
    assert isinstance(news, LogNews), news
    if not news.pages:
        return None, []
    (page,) = news.pages
    return page.start, page.data.decode().strip("\n").split("\n")


def test_only_new_lines_are_passed_on() -> None:
    follower = TailFollower("log", max_lines=4)
    tails = Tails(
        ["a", "b"], ["a", "b"], ["a", "b", "c"], ["b", "c", "d", "e"], ["e", "f", "g", "h"], ["p", "q", "r", "s"]
    )
    assert look(follower, tails) == (PageStart.BEGINS, ["a", "b"])
    assert look(follower, tails) == (None, [])
    assert look(follower, tails) == (PageStart.CONTINUES, ["c"])
    assert look(follower, tails) == (PageStart.CONTINUES, ["d", "e"])
    assert look(follower, tails) == (PageStart.CONTINUES, ["f", "g", "h"])
    assert look(follower, tails) == (PageStart.SKIPS, ["p", "q", "r", "s"])
    assert tails.fetches == 6


def test_a_first_tail_that_is_full_does_not_begin_with_the_log() -> None:
    assert look(TailFollower("log", max_lines=2), Tails(["y", "z"])) == (PageStart.SKIPS, ["y", "z"])


def test_a_last_line_that_grew_comes_again_whole() -> None:
    follower = TailFollower("log")
    tails = Tails(["a", "b", "10%"], ["a", "b", "10% 20%", "c"])
    look(follower, tails)
    assert look(follower, tails) == (PageStart.CONTINUES, ["10% 20%", "c"])


def test_fewer_lines_are_fetched_once_more_before_they_count() -> None:
    follower = TailFollower("log")
    tails = Tails(["a", "b", "c"], ["a"], ["a", "b", "c", "d"])
    look(follower, tails)
    assert look(follower, tails) == (PageStart.CONTINUES, ["d"])
    assert tails.fetches == 3
    restarted = Tails(["x", "y"])
    assert look(follower, restarted) == (PageStart.BEGINS, ["x", "y"])
    assert restarted.fetches == 2


def test_no_lines_twice_where_there_were_some_is_a_failure() -> None:
    follower = TailFollower("log")
    look(follower, Tails(["a", "b"]))
    empty = Tails([])
    failed = follower.look(empty)
    assert isinstance(failed, Failure)
    assert empty.fetches == 2
    assert look(follower, Tails(["a", "b", "c"])) == (PageStart.CONTINUES, ["c"])
    refused = Failure(FailureReason.AUTH, "no right to read logs")
    assert follower.look(Tails(refused)) == refused


def test_a_first_tail_of_long_lines_is_short_and_does_not_begin_with_the_log() -> None:
    """Kubernetes gives no more than 1 MiB: 1,250 lines where 5,000 were asked for, of a log that has 9,000."""
    log = "".join(logged_step(step, 9000) for step in range(1, 101))
    watched = Watched("auto", tail=lambda job, lines: Tail(log.splitlines()[-60:], is_whole=False))
    update = watched.history()
    assert update.run.starts_mid_run
    assert steps(update)[-1] == 100


def test_another_containers_log_may_be_longer_than_what_was_read_of_the_one_before() -> None:
    follower = TailFollower("log")
    assert look(follower, Tails(["a"])) == (PageStart.BEGINS, ["a"])
    assert look(follower, Tails(["x", "y", "z"])) == (PageStart.BEGINS, ["x", "y", "z"])


@pytest.mark.parametrize(
    ("name", "bucket", "rows"),
    [("rl/rl_ray_console_shape.out", "rl", 2), ("sft/sft_llamafactory095_tf56.out", "sft", 10)],
)
def test_a_log_whose_bars_are_lines_tells_what_its_file_does(name: str, bucket: str, rows: int) -> None:
    log = (LOGS / name).read_bytes().decode()
    tail = Watched("auto", tail=lambda job, lines: Tail(each_redrawing(log), is_whole=True), bucket=bucket).history()
    file = Watched(LOGS / name, bucket=bucket).history()
    told = [[(row.trainer_step, repr(row.values)) for row in update.rows] for update in (tail, file)]
    assert told[0] == told[1]
    assert len([row for row in tail.rows if row.values]) == rows
    assert tail.run.config == file.run.config


def test_history_from_tails() -> None:
    text = BANNER.format(total=10) + logged_step(1, 10)
    answers: list[Sequence[str] | Failure | None] = [None, Failure(FailureReason.NETWORK, "down"), text.splitlines()]

    def tail(job: Job, lines: int) -> Sequence[str] | Failure | None:
        assert lines == 5000
        return answers[0]

    watched = Watched("auto", tail=tail)
    unknown = watched.try_history()
    assert isinstance(unknown, Failure) and unknown.reason is FailureReason.NOT_FOUND
    del answers[0]
    assert watched.try_history() == answers[0]
    del answers[0]
    update = watched.history()
    assert (steps(update), update.run.config, update.run.starts_mid_run) == ([1], {"num_train_steps": 10}, False)
    answers[0] = (text + logged_step(2, 10)).splitlines()
    assert steps(watched.history()) == [2]


@given(st.lists(st.sampled_from("ab"), max_size=9), st.lists(st.sampled_from("ab"), max_size=9))
def test_overlap_is_the_longest_end_that_is_a_beginning(before: list[str], lines: list[str]) -> None:
    fitting = [n for n in range(min(len(before), len(lines)) + 1) if n == 0 or before[-n:] == lines[:n]]
    assert overlap(before, lines) == max(fitting)


def test_the_age_of_first_lines_is_not_known_and_later_ones_came_with_their_look() -> None:
    now = [5000.0]
    follower = TailFollower("log", clock=lambda: now[0])
    tails = Tails(["a"], ["a"], ["a", "b"], ["a", "b"])
    seen = []
    for _ in range(4):
        news = follower.look(tails)
        assert isinstance(news, LogNews)
        seen.append((news.files[0].modified, news.files[0].modified_is_known))
        now[0] += 60
    assert seen == [(5000.0, False), (5000.0, False), (5120.0, True), (5120.0, True)]


def test_lines_whose_times_are_told_have_them_at_the_first_look() -> None:
    lines = [TailLine("  Total optimization steps = 10", START)]
    # One line of a bar that is redrawn is told when it ends; the bar's own seconds tell of what is in it.
    lines += [
        TailLine(text, START + 5 + 20 * step)
        for step in (1, 2)
        for text in logged_step(step, 10).removesuffix("\n").split("\n")
    ]
    lines += [
        TailLine("daytona.common.errors.DaytonaAuthenticationError: Unauthorized", START + 50),
        TailLine("daytona.common.errors.DaytonaAuthenticationError: Unauthorized"),  # not older than the one before
        TailLine("RuntimeError: CUDA out of memory", START + 60),
    ]
    watched = Watched("auto", tail=lambda job, _: lines, bucket="datagen")
    told = watched.history()
    # The bar stood at 40 s in a line of 45 s: the attempt began at 5 s.
    assert [(row.trainer_step, row.time) for row in told.rows] == [(1, START + 25), (2, START + 45)]
    assert told.run.heartbeat == START + 60
    facts = watched.facts()
    assert facts.last_write == START + 60
    assert facts.auth_failures == (START + 50,)
    assert [failure.time for failure in facts.failures] == [START + 60]


def test_a_log_that_brings_nothing_new_was_written_when_its_last_line_was() -> None:
    follower = TailFollower("log", clock=lambda: START + 999)
    written = []
    for count in (1, 1, 2):
        lines = [TailLine("a", START), TailLine("b", START + 7)][:count]
        news = follower.look(lambda _, lines=lines: Tail(lines, is_whole=True))  # type: ignore[misc]
        assert isinstance(news, LogNews)
        written.append((news.files[0].modified, news.files[0].modified_is_known))
    assert written == [(START, True), (START, True), (START + 7, True)]


def test_steps_of_a_first_tail_without_stamps_have_no_time() -> None:
    text = "  Total optimization steps = 10\n" + logged_step(1, 10) + logged_step(2, 10)
    answers = [text.splitlines()]
    watched = Watched("auto", tail=lambda job, lines: answers[0])
    assert [row.time for row in watched.history().rows] == [None, None]
    assert watched.facts().last_write is None
    before = time.time()
    answers[0] = (text + logged_step(3, 10)).splitlines()
    (row,) = watched.history().rows
    assert row.trainer_step == 3
    assert row.time is not None and before <= row.time <= time.time()
    assert watched.facts().last_write == row.time
