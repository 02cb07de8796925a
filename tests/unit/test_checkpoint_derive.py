from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.derive.checkpoint_interval import Interval, checkpoint_interval, read_time_span
from runwatch.derive.checkpoints import measure_checkpoints, measure_interval
from runwatch.facts import Checkpoint, CheckpointListing
from runwatch.facts.checkpoints import newest_complete
from runwatch.measurements import Evidence, Measurements


def checkpoint(
    step: int, saved_at: float | None, *, kind: str = "permanent", layout: str = "levanter", root: str = "gs://b/r"
) -> Checkpoint:
    return Checkpoint(
        step=step,
        root=root,
        path=f"{root}/step-{step}",
        complete=saved_at is not None,
        evidence="as seen",
        saved_at=saved_at,
        kind=kind,
        layout=layout,
    )


def measure(
    *checkpoints: Checkpoint, step: int | None = None, notes: tuple[str, ...] = (), configured: float | None = None
) -> tuple[Measurements, list[Evidence]]:
    measured = Measurements()
    evidence = measure_checkpoints(
        measured,
        CheckpointListing(checkpoints, notes),
        step=step,
        step_duration=None,
        trainer_config={},
        configured_interval=configured,
    )
    return measured, evidence


def interval(
    *checkpoints: Checkpoint,
    step_duration: float | None = None,
    config: Mapping[str, object] | None = None,
    configured: float | None = None,
) -> Interval | None:
    return checkpoint_interval(
        checkpoints, step_duration=step_duration, trainer_config=config or {}, configured=configured
    )


def seconds(found: Interval | None) -> float | None:
    return None if found is None else found.seconds


def test_the_newest_complete_one_is_measured() -> None:
    measured, evidence = measure(
        checkpoint(9000, 5000.0), checkpoint(10000, None), checkpoint(500, 100.0), step=9120, configured=900.0
    )
    assert measured.get("mljob_checkpoint_step") == 9000
    assert measured.get("mljob_checkpoint_timestamp_seconds") == 5000
    assert measured.get("mljob_checkpoint_lag_steps") == 120
    assert measured.get("mljob_checkpoints", completeness="complete") == 2
    assert measured.get("mljob_checkpoints", completeness="partial") == 1
    assert measured.get("mljob_checkpoint_interval_seconds") == 900
    assert [line.text for line in evidence] == [
        "gs://b/r/step-10000 partial: as seen",
        "gs://b/r/step-9000 complete: as seen",
        "gs://b/r/step-500 complete: as seen",
        "interval 900 s: config.checkpoint_interval",
    ]
    assert evidence[1].fields["saved_timestamp_seconds"] == 5000.0
    assert {line.topic for line in evidence} == {"checkpoints"}


def test_none_yet_is_zero_and_no_step() -> None:
    measured, evidence = measure(notes=("read, still before its first checkpoint",), step=7)
    assert measured.get("mljob_checkpoints", completeness="complete") == 0
    assert measured.get("mljob_checkpoints", completeness="partial") == 0
    assert set(measured.names()) == {"mljob_checkpoints"}
    assert [line.text for line in evidence] == [
        "no checkpoint folder yet",
        "read, still before its first checkpoint",
        "interval not known: not configured, and too few complete checkpoints",
    ]


def test_how_many_there_are_is_absent_where_not_all_were_looked_into() -> None:
    measured = Measurements()
    measure_checkpoints(
        measured,
        CheckpointListing((checkpoint(300, 900.0), checkpoint(299, None)), not_looked_into=298),
        step=None,
        step_duration=None,
        trainer_config={},
        configured_interval=None,
    )
    assert measured.get("mljob_checkpoint_step") == 300
    assert not measured.family("mljob_checkpoints")


def test_a_checkpoint_ahead_of_every_step_is_a_lag_below_zero_and_is_told() -> None:
    measured, evidence = measure(checkpoint(40, 900.0), step=30)
    assert measured.get("mljob_checkpoint_lag_steps") == -10
    assert any("step 40 is ahead of step 30" in line.text for line in evidence)
    _, agreeing = measure(checkpoint(40, 900.0), step=40)
    assert not any("ahead" in line.text for line in agreeing)


def test_without_a_step_there_is_no_lag() -> None:
    measured, _ = measure(checkpoint(40, 900.0))
    assert measured.get("mljob_checkpoint_step") == 40
    assert measured.get("mljob_checkpoint_lag_steps") is None


def test_of_one_step_in_two_roots_the_later_counts() -> None:
    measured, _ = measure(checkpoint(40, 900.0), checkpoint(40, 950.0, root="gs://b/t"), checkpoint(39, 990.0))
    assert measured.get("mljob_checkpoint_timestamp_seconds") == 950


def test_older_ones_are_told_in_one_line() -> None:
    _, evidence = measure(*(checkpoint(step, 10.0 * step if step % 2 else None) for step in range(1, 26)))
    assert evidence[0].text.startswith("gs://b/r/step-25 complete")
    assert evidence[19].text.startswith("gs://b/r/step-6 partial")
    assert evidence[20].text == "5 older ones: 3 complete, 2 partial"


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=30))
def test_newest_against_counting_down(folders: list[tuple[int, bool]]) -> None:
    found = newest_complete(checkpoint(step, 1.0 if complete else None) for step, complete in folders)
    by_counting_down = next((step for step in range(300, -1, -1) if (step, True) in folders), None)
    assert (None if found is None else found.step) == by_counting_down


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (900, 900.0),
        (0.5, 0.5),
        ("0:15:00", 900.0),
        ("1:00:00.500000", 3600.5),
        ("1 day, 2:00:00", 93_600.0),
        ("2 days, 0:00:30", 172_830.0),
        ("10m", 600.0),
        ("600s", 600.0),
        ("1h30m", 5400.0),
        ({"days": 1, "seconds": 30}, 86_430.0),
        ({"days": 0, "seconds": 900, "microseconds": 500_000}, 900.5),
        ({"minutes": 10}, 600.0),
        (0, None),
        (-5, None),
        ("-1 day, 23:59:00", None),
        ("0:00:00", None),
        ("15:00", None),  # minutes or hours: nobody can tell
        ("soon", None),
        ("", None),
        (True, None),
        (None, None),
        ([900], None),
        ({"fortnights": 1}, None),
        ({"days": "1"}, None),
        ({}, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        ({"days": 10**400}, None),
    ],
)
def test_spans_of_time(value: object, expected: float | None) -> None:
    assert read_time_span(value) == expected


LEVANTER_CONFIG = {"trainer": {"checkpointer": {"save_interval": "0:15:00"}, "ckpt_interval": 5}, "save_steps": 10}


@pytest.mark.parametrize(
    ("config", "step_duration", "expected"),
    [
        (LEVANTER_CONFIG, 8.0, 900.0),
        ({"trainer.checkpointer.save_interval": "10m"}, None, 600.0),
        ({"save_steps": 100}, 3.0, 300.0),
        ({"save_steps": 100, "save_strategy": "steps"}, 3.0, 300.0),
        ({"save_steps": 100, "save_strategy": "SaveStrategy.STEPS"}, 3.0, 300.0),
        ({"save_steps": 100.0}, 3.0, 300.0),
        ({"save_steps": 500, "save_strategy": "epoch"}, 3.0, None),
        ({"save_steps": 500, "save_strategy": "no"}, 3.0, None),
        ({"save_steps": 0.1}, 3.0, None),
        ({"save_steps": 100}, None, None),
        ({"trainer": {"ckpt_interval": 10}}, 1800.0, 18_000.0),
        ({"trainer.ckpt_interval": 10}, 1800.0, 18_000.0),
        ({"ckpt_interval": 10}, 1800.0, 18_000.0),
        ({"trainer": {"ckpt_interval": -1}}, 1800.0, None),
        ({"trainer": {"ckpt_interval": 10**400}}, 1800.0, None),
        ({"trainer": {"ckpt_interval": "10"}}, 1800.0, None),
        ({"trainer": None}, 1800.0, None),
    ],
)
def test_the_trainers_own_interval(
    config: Mapping[str, object], step_duration: float | None, expected: float | None
) -> None:
    assert seconds(interval(step_duration=step_duration, config=config)) == expected


def test_the_configured_interval_wins() -> None:
    assert interval(config=LEVANTER_CONFIG, configured=60.0) == Interval(60.0, "config.checkpoint_interval")


@pytest.mark.parametrize(("configured", "expected"), [(7200.0, 7200.0), (None, None)])
def test_a_configured_interval_is_told_before_the_first_listing(
    configured: float | None, expected: float | None
) -> None:
    measured = Measurements()
    evidence = measure_interval(measured, None, step_duration=None, trainer_config={}, configured_interval=configured)
    assert measured.get("mljob_checkpoint_interval_seconds") == expected
    assert not measured.family("mljob_checkpoints")
    assert len(evidence) == (expected is not None)


def test_the_measured_interval_is_the_median_of_one_kind() -> None:
    permanent = [checkpoint(step, time) for step, time in ((10, 0.0), (20, 3600.0), (30, 20_000.0), (40, 23_000.0))]
    # Intervals 3600, 16400 and 3000: the median is 3600.
    assert interval(*permanent) == Interval(3600.0, "median time between 4 complete permanent checkpoints")
    two_temporary = [checkpoint(41, 23_100.0, kind="temporary"), checkpoint(42, 23_200.0, kind="temporary")]
    assert seconds(interval(*permanent, *two_temporary)) == 3600.0
    third = checkpoint(43, 23_400.0, kind="temporary")
    # Intervals 100 and 200: 150, the smaller of the two kinds' medians.
    assert interval(*permanent, *two_temporary, third) == Interval(
        150.0, "median time between 3 complete temporary checkpoints"
    )


def test_a_copy_below_another_root_is_no_further_save() -> None:
    saved = [checkpoint(step, 36.0 * step, layout="hf", kind="") for step in (100, 200, 300)]
    copies = [checkpoint(step, 36.0 * step + 5, layout="hf", kind="", root="gs://b/copy") for step in (100, 200, 300)]
    # Saved at 3600, 7200 and 10800 s, each copied 5 s later: one each hour.
    assert interval(*saved, *copies) == Interval(3600.0, "median time between 3 complete checkpoints")
    assert interval(*saved[:2], *copies[:2]) is None


def test_too_few_of_a_kind_measure_nothing() -> None:
    assert interval(checkpoint(1, 0.0), checkpoint(2, 10.0)) is None
    assert interval(checkpoint(1, 0.0), checkpoint(2, 10.0), checkpoint(3, None)) is None
    mixed = [checkpoint(1, 0.0), checkpoint(2, 10.0), checkpoint(3, 20.0, kind="temporary")]
    assert interval(*mixed) is None
    unread = [checkpoint(step, 10.0 * step, kind="") for step in (1, 2, 3)]
    assert interval(*unread) is None
    assert seconds(interval(*(checkpoint(step, 10.0 * step, kind="", layout="hf") for step in (1, 2, 3)))) == 10.0
    copied = [checkpoint(step, 5.0) for step in (1, 2, 3)]
    assert interval(*copied) is None
