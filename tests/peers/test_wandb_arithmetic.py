"""The pure parts of reading W&B: ranges against servers of every kind, waiting times, and what texts mean."""

from __future__ import annotations

import json
import random
from bisect import bisect_left

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from runwatch.facts import Failure, FailureReason
from runwatch.sources.wandb_budget import Backoff, RequestBudget, backoff_seconds, retry_after_seconds
from runwatch.sources.wandb_ranges import RangeReader, ServerPages
from runwatch.sources.wandb_requests import GraphqlAnswer, Refusal, RunPath, read_body
from runwatch.sources.wandb_runs import page_address, parse_config, parse_time
from tests.peers.wandb_fixtures import Clock
from tests.peers.wandb_server_runs import sampled

# Shrinking would read large runs a thousand times over.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
# Stretches of a run: how many rows, how far apart, and how far the next stretch is away.
STRETCHES = st.lists(
    st.tuples(st.integers(1, 4_000), st.sampled_from([1, 1, 2, 7, 500]), st.integers(1, 50_000_000)),
    min_size=1,
    max_size=3,
)


def steps_of(stretches: list[tuple[int, int, int]], first: int) -> list[int]:
    steps, step = [], first
    for rows, stride, jump in stretches:
        steps += range(step, step + rows * stride, stride)
        step += rows * stride + jump
    return steps


def read_all(steps: list[int], reader: RangeReader, kind: str, cap: int, seed: int = 3) -> tuple[list[int], int]:
    """Read from a server that gives at most `cap` rows; the rows, as a digest would hold them, and the requests."""
    chance = random.Random(seed)
    kept: list[int] = []
    for requests in range(1, 5_000):
        low, high, samples = asked = reader.next_range()
        there = [str(step) for step in steps[bisect_left(steps, low) : bisect_left(steps, high)]]
        limit = min(samples, cap)
        given_rows = there[:limit] if kind == "cut" else sampled(there, limit, chance, uniform=kind == "uniform")
        answer = [int(row) for row in given_rows]
        if reader.take(asked, answer, 0):
            kept += answer
        if reader.void:
            reader.void, kept = False, []
        elif not reader.pending and reader.cursor > (steps[-1] if steps else -1):
            return kept, requests
    raise AssertionError("it never ends")


@settings(max_examples=150, phases=NO_SHRINKING, deadline=None)
@given(
    STRETCHES,
    st.integers(0, 70_000_000),
    st.sampled_from(["bucket", "uniform", "cut"]),
    st.sampled_from([137, 500, 1_000, 3_333, 10**9]),
)
def test_a_server_of_any_kind_hides_no_row(
    stretches: list[tuple[int, int, int]], first: int, kind: str, cap: int
) -> None:
    steps = steps_of(stretches, first)
    reader = RangeReader(ServerPages(), line_count=len(steps))
    kept, requests = read_all(steps, reader, kind, cap)
    assert kept == steps
    assert reader.rows_read == len(steps)
    assert requests < 80 + 80 * len(steps) / min(cap, 10_000)


@settings(max_examples=150, phases=NO_SHRINKING, deadline=None)
@given(STRETCHES, st.integers(0, 70_000_000), st.sampled_from(["bucket", "uniform"]), st.sampled_from([None, -300, 40]))
def test_a_count_that_is_wrong_or_missing_hides_no_row(
    stretches: list[tuple[int, int, int]], first: int, kind: str, error: int | None
) -> None:
    steps = steps_of(stretches, first)
    count = None if error is None else max(0, len(steps) + error)
    kept, requests = read_all(steps, RangeReader(ServerPages(), line_count=count), kind, cap=10**9)
    assert kept == steps
    assert requests < 150


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("999999", 3600.0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("١", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, now=100.0) == seconds


def test_backoff_doubles_up_to_five_minutes() -> None:
    assert [backoff_seconds(n) for n in range(9)] == [0, 5, 10, 20, 40, 80, 160, 300, 300]
    clock = Clock(1_000.0)
    backoff = Backoff(clock)
    assert backoff.now() is None
    backoff.failed(Failure(FailureReason.OTHER, "boom"))
    clock.now += 4
    assert backoff.now() == Failure(FailureReason.OTHER, "boom; asked again in 1 s")
    clock.now += 1
    assert backoff.now() is None
    backoff.failed(Failure(FailureReason.THROTTLED, "slow down"), retry_after=60.0)
    clock.now += 59
    assert backoff.now() is not None
    # A clock that was set back by a day must not silence the source for a day.
    clock.now -= 86_400
    assert backoff.now() is None
    backoff.succeeded()
    assert backoff.now() is None


def test_the_budget_flows_in_steadily() -> None:
    clock = Clock(0.0)
    budget = RequestBudget(6, clock)
    taken = []
    for _tick in range(3_000):
        clock.now += 0.1
        if budget.take():
            taken.append(clock.now)
    # The bucket, and one every ten seconds of the five minutes; the last falls on the very end.
    assert 6 + 29 <= len(taken) <= 6 + 30
    assert budget.seconds_until_next() <= 10.0
    clock.now -= 1_000
    assert budget.seconds_until_next() <= 10.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("entity/project/run", RunPath("entity", "project", "run")),
        (" entity/project/runs/x ", RunPath("entity", "project", "x")),
        ("entity/project", None),
        ("a//c", None),
        ("", None),
        ("a/b/c/d", None),
    ],
)
def test_run_paths(text: str, expected: RunPath | None) -> None:
    assert RunPath.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (None, {}),
        ("", {}),
        ("not json", {}),
        ("[1]", {}),
        ('{"a": {"value": 1, "desc": null}, "b": {"value": 1, "other": 2}, "c": 4, "_wandb": {"value": {}}}',
         {"a": 1, "b": {"value": 1, "other": 2}, "c": 4}),
        ('{"lr": {"value": NaN}}', {"lr": pytest.approx(float("nan"), nan_ok=True)}),
    ],
)  # fmt: skip
def test_configurations(text: str | None, config: dict[str, object]) -> None:
    assert parse_config(text) == config


def test_times_are_utc_and_may_be_broken() -> None:
    assert parse_time("1970-01-01T00:01:00Z") == 60.0
    assert parse_time("1970-01-01T00:01:00") == 60.0
    assert parse_time("1970-01-01T00:01:00.250000+00:00") == 60.25
    assert [parse_time(text) for text in (None, "", "yesterday")] == [None, None, None]


@pytest.mark.parametrize(
    ("base_url", "page"),
    [
        ("https://api.wandb.ai", "https://wandb.ai"),
        ("https://api.forge.coreweave.com/", "https://forge.coreweave.com/wandb"),
        ("https://api.models.example.com", "https://app.models.example.com"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("https://example.com/wandb/", "https://example.com/wandb"),
    ],
)
def test_page_addresses(base_url: str, page: str) -> None:
    assert page_address(base_url) == page


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "errors", "path", "message"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.binary(max_size=200) | JSON_LIKE.map(lambda value: json.dumps(value).encode()))
def test_no_body_is_too_strange(body: bytes) -> None:
    assert isinstance(read_body(body), GraphqlAnswer | Refusal)
