"""What is made of a log's bytes: any bytes at all, a history that starts mid-run, more links than one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.config.model import TrainerConfig
from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.progress import ProgressContext, measure_progress
from runwatch.derive.state import state_from_history
from runwatch.facts import HistoryRow, HistoryRun
from runwatch.measurements import Measurements
from runwatch.parsing.benign import shipped_patterns
from runwatch.parsing.failures import FailureFinder
from runwatch.parsing.trainer_log import TrainerLogParser
from runwatch.sources.job_log import JobLog
from runwatch.sources.log_files import LogFile
from runwatch.sources.log_follower import LogNews, LogPage, PageStart
from runwatch.sources.log_parsers import LogParsers
from tests.unit.log_watching import BANNER, logged_step

WRITTEN = 1_796_000_000.0


def job_log() -> JobLog:
    return JobLog(LogParsers(TrainerLogParser, FailureFinder, shipped_patterns(), UTC))


def news(*pages: tuple[int, bytes, PageStart]) -> LogNews:
    files = [LogFile(f"/{number}.out", (0, number), len(data), WRITTEN) for number, data, _ in pages]
    return LogNews(
        tuple(LogPage(file, data, start) for file, (_, data, start) in zip(files, pages, strict=True)), tuple(files)
    )


PARTS: list[bytes] = [
    BANNER.format(total=50).encode(),
    logged_step(1, 50).encode(),
    logged_step(40, 50).encode(),
    b"[rank1]: Traceback (most recent call last):\n[rank1]: RuntimeError: x\n",
    b"(skyrl_entrypoint pid=1) 2026-11-29 10:00:07.398 | INFO     | a:b:22 - Step 15: \n",
    b"(skyrl_entrypoint pid=1) {'a/b': 1}\n",
    b'WANDB_MIRROR kind=train step=2 metrics={"policy/policy_loss": NaN}\n',
    b"No available shared memory broadcast block found in 60 seconds\n",
    b"\xff\xfe\x00\x1b[",
    b"{'loss': nan, 'grad_norm': '1e400', 'epoch': 1}\n",
    b"Running: 99999999999 reqs\n",
]


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(st.sampled_from(PARTS) | st.binary(max_size=30), max_size=8).map(b"".join),
            st.sampled_from(list(PageStart)),
        ),
        max_size=6,
    )
)
def test_no_bytes_raise_and_rows_stay_in_order(pages: Sequence[tuple[int, bytes, PageStart]]) -> None:
    log = job_log()
    rows: list[HistoryRow] = []
    for page in pages:
        log.take(news(page))
        update = log.history()
        if update.reset:
            rows = []
        rows += update.rows
        log.facts()
    assert [row.cursor for row in rows] == sorted({row.cursor for row in rows})


def test_a_log_that_goes_on_at_a_host_whose_clock_is_two_hours_behind_the_first_ones() -> None:
    def line(step: int, written: float) -> str:
        stamp = datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        payload = f'{{"tracker": "json_logger", "event": "log", "step": {step}, "metrics": {{"train/loss": 3.0}}}}'
        return f"{stamp} - 0 - levanter.json_logger - json_logger.py:60 - INFO :: {payload}\n"

    began = WRITTEN - 4000.0
    ahead = [line(step, began + 7200.0 + 10.0 * step) for step in range(100)]
    right = [line(step, began + 1500.0 + 10.0 * (step - 100)) for step in range(100, 200)]
    log = job_log()
    log.take(news((0, "".join(ahead + right).encode(), PageStart.BEGINS)))
    digest = HistoryDigest(is_rl=False)
    digest.add(log.history().rows)
    steps = digest.summary().steps
    assert (steps.latest_step, steps.latest_time) == (199, began + 1500.0 + 990.0)
    assert (steps.step_duration, steps.recent_step_duration, steps.gaps) == (10.0, 10.0, ())


def test_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        data = (BANNER.format(total=100_000) + "".join(logged_step(step, 100_000) for step in range(count))).encode()
        started = time.process_time()
        log = job_log()
        log.take(news((0, data, PageStart.BEGINS)))
        assert len(log.history().rows) >= count - 1
        return time.process_time() - started

    seconds(100)
    assert seconds(8000) < 8 * max(min(seconds(1000) for _ in range(3)), 0.02) * 3


def test_of_a_history_that_starts_mid_run_only_what_is_known_is_told() -> None:
    digest = HistoryDigest(is_rl=False)
    times = [1000.0, 1020.0, 1040.0, 1060.0, 2060.0, 2080.0]
    digest.add(HistoryRow(n, t, 500 + n, {"train/loss": 2.0}) for n, t in enumerate(times))
    summary = digest.summary()
    for starts_mid_run in (True, False):
        run = HistoryRun(config={"num_train_steps": 600}, starts_mid_run=starts_mid_run)
        state = state_from_history(run, summary, None, observed=2100.0, last_reached=False)
        context = ProgressContext(
            own=TrainerConfig(), run=run, is_rl=False, start=state.start, end=None, observed=2100.0, checkpoints=None
        )
        found = Measurements()
        evidence = measure_progress(found, summary, context)
        names = set(found.names())
        unknown = {
            "mljob_first_step_timestamp_seconds",
            "mljob_gaps",
            "mljob_gap_seconds",
            "mljob_longest_gap_seconds",
            "mljob_replayed_steps",
            "mljob_goodput_ratio",
            "mljob_eta_with_interruptions_seconds",
        }
        assert names & unknown == (set() if starts_mid_run else unknown)
        assert state.start == (None if starts_mid_run else 1000.0)
        assert found.get("mljob_step") == 505
        assert found.get("mljob_step_duration_recent_seconds") == 20.0
        assert found.get("mljob_gap_end_timestamp_seconds", cause="unknown") == 2060.0
        assert any("read from step 500 on" in line.text for line in evidence) is starts_mid_run


@pytest.mark.parametrize("first", [(0, b"", PageStart.BEGINS), (0, b"setup\n", PageStart.BEGINS)])
def test_an_empty_log_is_an_answer_without_steps(first: tuple[int, bytes, PageStart]) -> None:
    log = job_log()
    log.take(news(first))
    update = log.history()
    assert (list(update.rows), update.caught_up, update.run.config) == ([], True, {})
    assert update.run.heartbeat == WRITTEN
