from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.parsing.checkpoint_layouts import (
    Layout,
    MarkerReading,
    SkyrlParent,
    StepFolder,
    content_marker,
    judge,
    newest_first,
    parse_latest_step,
    parse_step_folder,
    read_marker,
)

LEVANTER = StepFolder("step-10", Layout.LEVANTER, 10)
HUGGING_FACE = StepFolder("checkpoint-10", Layout.HUGGING_FACE, 10)
SKYRL = StepFolder("global_step_10", Layout.SKYRL, 10)
COMMIT = {"schema_version": 1, "step": 10, "attempt_id": "ab" * 16, "manifest_sha256": "cd" * 32}


@pytest.mark.parametrize(
    ("name", "layout", "step"),
    [
        ("step-0", Layout.LEVANTER, 0),
        ("step-29945", Layout.LEVANTER, 29945),
        ("checkpoint-60", Layout.HUGGING_FACE, 60),
        ("global_step_9", Layout.SKYRL, 9),
    ],
)
def test_names_of_checkpoints(name: str, layout: Layout, step: int) -> None:
    assert parse_step_folder(name) == StepFolder(name, layout, step)


@pytest.mark.parametrize(
    "name",
    [
        "step-",
        "step-5\n",
        "step-5.tmp",
        "xstep-5",
        "step-٥",  # a digit, but not one that a trainer writes
        "step--5",
        "step_5",
        "tmp-checkpoint-5",
        "checkpoint-5-hf",
        "checkpoint-best",
        "global_step5",  # DeepSpeed's folder inside checkpoint-N
        "global_step_5_evals",  # SkyRL's dumped rollouts
        "global_step_5_20260101",
        "step-" + "9" * 5000,
        "",
    ],
)
def test_names_that_are_none(name: str) -> None:
    assert parse_step_folder(name) is None


def steps_the_slow_way(names: list[str]) -> list[int]:
    """Try every step up to the largest that the test makes, from above."""
    return [
        step
        for step in range(300, -1, -1)
        for name in names
        if name in (f"step-{step}", f"checkpoint-{step}", f"global_step_{step}")
    ]


@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda prefix, step: f"{prefix}{step}",
                st.sampled_from(["step-", "checkpoint-", "global_step_", "export-", "step"]),
                st.integers(0, 300),
            ),
            st.text(max_size=12).filter(lambda text: re.search("[0-9]", text) is None),
        ),
        max_size=20,
        unique=True,
    )
)
def test_newest_first_sorts_numbers_as_numbers(names: list[str]) -> None:
    assert [folder.step for folder in newest_first(names)] == steps_the_slow_way(names)


def test_ten_thousand_is_above_nine_thousand() -> None:
    assert [folder.name for folder in newest_first(["step-10000", "step-500", "step-9000"])] == [
        "step-10000",
        "step-9000",
        "step-500",
    ]


@pytest.mark.parametrize(
    ("content", "valid", "kind"),
    [
        (b'{"step": 10, "timestamp": "2026-11-29T17:44:01.052589", "is_temporary": true}', True, "temporary"),
        (b'{"step": 10, "timestamp": "2026-11-29T17:44:01", "is_temporary": false, "more": [1]}', True, "permanent"),
        (b'{"step": 10, "timestamp": "2026-11-29T17:44:01"}', True, "permanent"),
        (b'{"step": 10, "timestamp": 1796000000}', False, ""),
        (b'{"step": 10, "timestamp": "yesterday"}', False, ""),
        (b'{"step": "10", "timestamp": "2026-11-29T17:44:01"}', False, ""),
        (b'{"step": true, "timestamp": "2026-11-29T17:44:01"}', False, ""),
        (b'{"step": 10.5, "timestamp": "2026-11-29T17:44:01"}', False, ""),
        (b'{"step": 10, "timest', False, ""),
        (b"", False, ""),
        (b"[]", False, ""),
        (b"\xff\xfe", False, ""),
        (b"[" * 100_000, False, ""),
    ],
)
def test_levanter_metadata(content: bytes, valid: bool, kind: str) -> None:
    reading = read_marker(LEVANTER, content)
    assert (reading.valid, reading.kind) == (valid, kind)


def test_a_marker_of_another_step_is_told() -> None:
    reading = read_marker(LEVANTER, b'{"step": 9, "timestamp": "2026-11-29T17:44:01"}')
    assert reading.valid
    assert "step 9, though the folder is step-10" in reading.evidence


@pytest.mark.parametrize(
    ("content", "valid"),
    [
        (b'{"global_step": 10, "max_steps": 50, "log_history": [{"loss": NaN, "step": 5}]}', True),
        (b'{"max_steps": 50}', False),
        (b'{"global_step": 10, "log_history": [{"lo', False),
    ],
)
def test_hugging_face_trainer_state(content: bytes, valid: bool) -> None:
    assert read_marker(HUGGING_FACE, content).valid is valid


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({}, True),
        ({"schema_version": 2}, True),
        ({"step": 9}, False),
        ({"step": "10"}, False),
        ({"attempt_id": ""}, False),
        ({"manifest_sha256": None}, False),
        ({"schema_version": None}, False),
    ],
)
def test_commit_record(changes: dict[str, object], valid: bool) -> None:
    assert read_marker(SKYRL, json.dumps({**COMMIT, **changes}).encode()).valid is valid


@given(st.binary(max_size=60), st.sampled_from([LEVANTER, HUGGING_FACE, SKYRL]))
def test_any_content_is_read_without_raising(content: bytes, folder: StepFolder) -> None:
    reading = read_marker(folder, content)
    assert reading.evidence


STATE = {"trainer_state.pt": 100.0}
ASYNC_STATE = {"trainer_state.pt": 100.0, "fully_async_state.pt": 130.0}
VALID = MarkerReading(True, "as read", "permanent")
INVALID = MarkerReading(False, "as read")


@pytest.mark.parametrize(
    ("folder", "markers", "reading", "parent", "saved_at"),
    [
        (LEVANTER, {}, None, SkyrlParent(), None),
        (LEVANTER, {"trainer_state.json": 5.0}, None, SkyrlParent(), None),
        (LEVANTER, {"metadata.json": 5.0}, None, SkyrlParent(), 5.0),
        (LEVANTER, {"metadata.json": 5.0}, VALID, SkyrlParent(), 5.0),
        (LEVANTER, {"metadata.json": 5.0}, INVALID, SkyrlParent(), None),
        (HUGGING_FACE, {}, None, SkyrlParent(), None),
        (HUGGING_FACE, {"trainer_state.json": 7.0}, VALID, SkyrlParent(), 7.0),
        (SKYRL, {}, None, SkyrlParent(10), None),
        (SKYRL, STATE, None, SkyrlParent(None), None),
        (SKYRL, STATE, None, SkyrlParent(9), None),
        (SKYRL, STATE, None, SkyrlParent(10), 100.0),
        (SKYRL, STATE, None, SkyrlParent(30), 100.0),
        (SKYRL, STATE, None, SkyrlParent(30, is_async=True), None),
        (SKYRL, ASYNC_STATE, None, SkyrlParent(9, is_async=True), None),
        (SKYRL, ASYNC_STATE, None, SkyrlParent(10, is_async=True), 130.0),
        # The fork's record decides alone, with or without the older layout's objects.
        (SKYRL, {"checkpoint_commit.json": 140.0}, VALID, SkyrlParent(None), 140.0),
        (SKYRL, {"checkpoint_commit.json": 140.0, **STATE}, INVALID, SkyrlParent(10), None),
        (SKYRL, {"checkpoint_commit.json": 140.0}, None, SkyrlParent(9, is_async=True), 140.0),
    ],
)
def test_complete_or_partial(
    folder: StepFolder,
    markers: dict[str, float],
    reading: MarkerReading | None,
    parent: SkyrlParent,
    saved_at: float | None,
) -> None:
    judgement = judge(folder, markers, reading, parent)
    assert (judgement.complete, judgement.saved_at) == (saved_at is not None, saved_at)
    assert judgement.evidence


def test_only_objects_with_readable_content_are_read() -> None:
    assert content_marker(SKYRL, ASYNC_STATE) is None
    assert content_marker(SKYRL, {"checkpoint_commit.json": 1.0, **STATE}) == "checkpoint_commit.json"


@pytest.mark.parametrize("content", [b"15", b"15\n", b" 15 "])
def test_latest_step(content: bytes) -> None:
    assert parse_latest_step(content) == 15


@pytest.mark.parametrize("content", [b"", b"1 5", b"-1", b"15.0", b"global_step_15", "١".encode(), b"9" * 30])
def test_latest_step_that_is_none(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"latest_ckpt_global_step\.txt holds"):
        parse_latest_step(content)
