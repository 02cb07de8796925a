"""Levanter's progress lines, as tqdm-loggable wrote them, and the payloads of its JSON tracker."""

from __future__ import annotations

import math

import pytest

from runwatch.derive.step_timeline import StepTimeline
from runwatch.parsing.trainer_log import TrainerLogParser
from tests.unit.log_fragments import capture, fragments_of


def test_progress_lines_give_step_loss_and_total() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(capture("levanter/progress_resumed.out"))
    assert (parser.format, parser.total_steps, parser.unparsed) == ("levanter", 20, 0)
    # 2.00it done is step 1: Levanter's step counts from 0. The second start resumes from step 10.
    assert [(row.step, row.attempt) for row in rows] == [
        *[(step, 0) for step in (1, 3, 5, 7, 9, 11, 13, 13)],
        *[(step, 1) for step in (11, 13, 15, 17, 19, 19)],
    ]
    assert rows[0].values == {"train/loss": 5.0, "run_progress": 0.05}
    assert math.isnan(rows[7].values["train/loss"])
    assert rows[-1].values["train/loss"] == 4.98
    assert rows[-1].elapsed == 3.0


def test_shortened_counts_never_go_back_and_stay_within_what_is_printed() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(capture("levanter/progress_shortened.out"))
    # 993, 996 and 999 done after 0, 1 and 1 s; then 1.00k (1000 or more) after 2 s, at 7 steps in 2 s since the first:
    # 1002. 1.01k (1005 or more) after 3 s, at 12 in 3 s: 1006. 1.02k (1015 or more) after 5 s, at 22 in 5 s: 1015.
    assert [row.step for row in rows] == [992, 995, 998, 1001, 1005, 1014]
    assert parser.total_steps == 39062  # whole in the first line only: later ones print 39.1k
    assert [row.values["train/loss"] for row in rows] == [4.01, 4.0, 4.0, 4.0, 3.99, 3.98]


def progress(count: str, total: str, clock: str) -> str:
    return (
        "I20261129 17:45:53 123 tqdm_loggable.tqdm_logging "
        f"Progress on:train {count}/{total} rate:1.4s/it remaining:1:04:17 elapsed:{clock} postfix:loss=3.14\n"
    )


def printed(done: int) -> str:
    """A count as tqdm's `format_sizeof` prints it, below 10,000."""
    return f"{done}it" if done < 1000 else f"{done / 1000:.2f}kit"


@pytest.mark.parametrize("seconds_a_step", [1.4, 6.0, 8.0, 20.0, 45.0])
def test_shortened_counts_do_not_distort_the_duration_of_a_step(seconds_a_step: float) -> None:
    """A line a minute and ten steps a figure: the least step of each figure would tell 6.4 s where it is 8.0 s."""
    parser = TrainerLogParser()
    parser.feed(fragments_of("Progress on:train -/9000 rate:- remaining:? elapsed:00:00 postfix:-\n"))
    timeline = StepTimeline()
    printed_at = 0.0
    for done in range(1, 9001):
        now = seconds_a_step * done
        if now - printed_at < 60.0:
            continue
        printed_at = now
        clock = f"{int(now) // 3600}:{int(now) // 60 % 60:02}:{int(now) % 60:02}"
        for row in parser.feed(fragments_of(progress(printed(done), "9.00kit", clock))):
            assert abs(row.step + 1 - done) < 10
            timeline.add(row.step, row.elapsed or 0.0)
    summary = timeline.summary()
    assert summary.step_duration == pytest.approx(seconds_a_step, rel=0.02)
    assert summary.recent_step_duration == pytest.approx(seconds_a_step, rel=0.02)
    assert summary.latest_step is not None
    assert summary.latest_step < 8999  # 9.00k is printed from 8995 on: the last step is not known to be done


def test_a_shortened_count_alone_tells_no_step_and_a_shortened_total_none() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(fragments_of(progress("12.3kit", "39.1kit", "09:13") + progress("12.3kit", "39.1kit", "10:13")))
    assert rows == []
    assert (parser.format, parser.total_steps, parser.position) == ("levanter", None, None)


def test_one_digit_less_is_not_taken_for_a_step_back() -> None:
    parser = TrainerLogParser()
    counts = ("9.98kit", "9.99kit", "10.0kit", "10.1kit")
    rows = parser.feed(fragments_of("".join(progress(c, "39.1kit", f"{i}:00:00") for i, c in enumerate(counts, 1))))
    assert [row.step for row in rows] == [9984, 9994, 10049]  # 9985, 9995 (10.0k after 9.99k) and 10050 are done


def marin(text: str) -> str:
    return f"I20261129 17:45:53 123 {text}\n"


def test_four_processes_in_one_file_are_one_start_of_one_run() -> None:
    """Each prints a line a minute by its own clock, which began 0, 3, 7 and 11 s late; a step takes 8 s."""
    late = (0, 3, 7, 11)
    lines = [(seconds, "Progress on:train -/9000 rate:- remaining:? elapsed:00:00 postfix:-") for seconds in late]
    for seconds in late:
        for minute in range(1, 120):
            now, own = seconds + 62 * minute, 62 * minute
            line = progress(printed(now // 8), "9.00kit", f"{own // 3600}:{own // 60 % 60:02}:{own % 60:02}")
            lines.append((now, line.split(" ", 3)[3].strip()))
    lines.sort()
    parser = TrainerLogParser()
    rows = parser.feed(fragments_of("".join(marin(line) for _, line in lines)))
    assert {row.attempt for row in rows} == {0}
    assert [row.step for row in rows] == sorted(row.step for row in rows)
    assert rows[-1].step == (11 + 62 * 119) // 8 - 1
    # The second start of the four: their lines without a count come first.
    again = [(line if " -/" in line else line.replace("loss=3.14", "loss=2.5")) for _, line in lines[:40]]
    rows = parser.feed(fragments_of("".join(marin(line) for line in again)))
    assert {row.attempt for row in rows} == {1}
    assert rows[0].step == 62 // 8 - 1


def test_a_process_that_is_a_step_late_does_nothing_again() -> None:
    parser = TrainerLogParser()
    start = "Progress on:train -/9000 rate:- remaining:? elapsed:00:00 postfix:-\n"
    counts = (("10.0it", "01:20"), ("9.00it", "01:19"), ("18.0it", "02:24"), ("17.0it", "02:20"))
    rows = parser.feed(fragments_of(start + "".join(progress(count, "9.00kit", clock) for count, clock in counts)))
    assert [(row.step, row.attempt) for row in rows] == [(9, 0), (17, 0)]


def test_where_the_line_of_a_start_is_lost_its_clock_tells_of_it() -> None:
    parser = TrainerLogParser()
    counts = (("326it", "09:13"), ("333it", "10:14"), ("301it", "01:02"))
    rows = parser.feed(fragments_of("".join(progress(count, "600it", clock) for count, clock in counts)))
    assert [(row.step, row.attempt) for row in rows] == [(325, 0), (332, 0), (300, 1)]


def test_payloads_count_once_whichever_process_wrote_them_and_again_after_a_resumption() -> None:
    def payload(process: int, step: int, values: str) -> str:
        prefix = f"2026-11-29T17:45:53 - {process} - levanter.json_logger - json_logger.py:60 - INFO :: "
        return prefix + f'{{"tracker": "json_logger", "event": "log", "step": {step}, "metrics": {{{values}}}}}\n'

    def unnamed(text: str) -> str:
        return marin(text.partition(" :: ")[2].rstrip("\n"))

    loss, speed = '"train/loss": 3.5', '"throughput/duration": 2.5'
    named = payload(0, 7, loss) + payload(1, 7, loss) + payload(0, 7, speed) + payload(1, 7, '"throughput/duration": 9')
    rows = TrainerLogParser().feed(fragments_of(named))
    assert [dict(row.values) for row in rows] == [{"train/loss": 3.5}, {"throughput/duration": 2.5}]
    resumes = marin("Resuming training from step 6")
    rows = TrainerLogParser().feed(
        fragments_of(2 * unnamed(payload(0, 7, loss)) + resumes + unnamed(payload(0, 7, loss)))
    )
    assert [(row.step, row.attempt) for row in rows] == [(7, 0), (7, 1)]


def test_payloads_of_the_json_tracker_are_preferred() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(
        fragments_of(
            "2026-11-29T17:45:53 - 0 - levanter.json_logger - json_logger.py:60 - INFO :: "
            '{"tracker": "json_logger", "event": "log", "step": 12345, '
            '"metrics": {"train/loss": 3.1415926, "grad": {"norm": 2}}}\n'
            '2026-11-29T17:45:54 - 0 - levanter.json_logger - json_logger.py:60 - INFO :: {"tracker": "json_logger", '
            '"event": "summary", "metrics": {"throughput/mean_mfu": 40.0}}\n' + progress("326it", "600it", "09:13")
        )
    )
    assert [(row.step, dict(row.values)) for row in rows] == [(12345, {"train/loss": 3.1415926, "grad.norm": 2.0})]
    assert (parser.total_steps, parser.unparsed) == (600, 0)


def test_a_run_that_has_nothing_left_to_do_is_completed() -> None:
    parser = TrainerLogParser()
    parser.feed(
        fragments_of(
            "Progress on:train -/3000 rate:- remaining:? elapsed:00:00 postfix:-\n"
            "I20261129 17:45:53 levanter.trainer Training already complete at step 3000 (target: 3000). "
            "Running final hooks only.\n"
        )
    )
    assert (parser.completed, parser.total_steps) == (True, 3000)


def test_evaluation_and_quoted_lines_are_no_steps() -> None:
    parser = TrainerLogParser()
    rows = parser.feed(
        fragments_of(
            "Progress on:eval 326it/3000it rate:1.4s/it remaining:1:04:17 elapsed:09:13 postfix:loss=3.14\n"
            "the log says 'Progress on:train 326it/3000it rate:1.4s/it remaining:- elapsed:09:13 postfix:loss=3.14'\n"
            "Progress on:train 326it/3000it and then it said no more\n"
        )
    )
    assert (rows, parser.format) == ([], "")
