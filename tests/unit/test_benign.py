"""Benign lines as data: what is set aside, what beside it makes it a fault, and complaints about a user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.config.faults import ConfigError
from runwatch.config.load import check, load_config
from runwatch.parsing.benign import BenignLines, parse_patterns, read_patterns, shipped_patterns

HEARTBEAT = (
    "INFO 07-11 01:44:59 [shm_broadcast.py:542] No available shared memory broadcast block found in 60 seconds. "
    "This typically happens when some processes are hanging"
)
NCCL = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE) ran for 600000 ms"


def test_the_heartbeat_alone_is_counted_and_is_no_fault() -> None:
    lines = BenignLines(shipped_patterns(), "marin")
    assert all(lines.take(HEARTBEAT, 5.0) for _ in range(40))
    assert not lines.take("RuntimeError: CUDA error", 6.0)
    (count,) = lines.counts()
    assert (count.count, count.fault) == (40, "")
    assert count.reason == "shared-memory heartbeat of an engine that waits with nothing scheduled"
    assert count.example == HEARTBEAT[:200]


@pytest.mark.parametrize("fault", [NCCL, "F preparing to dump debug info", "Fatal Python error: SIGABRT"])
@pytest.mark.parametrize("heartbeat_first", [True, False])
def test_the_heartbeat_beside_a_nccl_hang_is_a_fault(fault: str, heartbeat_first: bool) -> None:
    lines = BenignLines(shipped_patterns(), "")
    for text in (HEARTBEAT, "between", fault) if heartbeat_first else (fault, "between", HEARTBEAT):
        assert lines.take(text, 9.0) == (text == HEARTBEAT)
    (count,) = lines.counts()
    assert (count.count, count.fault, count.fault_time) == (1, fault[:200], 9.0)


def test_far_apart_is_not_beside() -> None:
    patterns = parse_patterns("- {pattern: waits, reason: idle, fault_beside: [hang], within: 10}", "own.yaml")
    for distance, fault in ((10, "hang"), (11, "")):
        lines = BenignLines(patterns, "")
        lines.take("it waits", None)
        for _ in range(distance - 1):
            lines.take("other", None)
        lines.take("hang", None)
        assert lines.counts()[0].fault == fault


@pytest.mark.parametrize(
    "text",
    [
        "harbor.trial.errors.AgentTimeoutError: Agent execution timed out after 900.0 seconds",
        "ContextLengthExceededError: Model reached its limit",
        "'policy/rollout_train_prob_diff_mean': '3412345.1234',",
        "ValueError: The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
        "LiteLLM:WARNING: Failed to fetch remote model cost map from https://x: timeout",
        "h:1:2 [0] NCCL INFO AllReduce: opCount 2f sendbuff 0x7f",
        "debug-token: refreshed",
    ],
)
def test_lines_that_are_no_faults_however_they_look(text: str) -> None:
    lines = BenignLines(shipped_patterns(), "leonardo")
    assert lines.covers(text)
    assert lines.counts() == ()
    assert lines.take(text, None)
    assert [count.count for count in lines.counts()] == [1]


@pytest.mark.parametrize(
    "text", [NCCL, "torch.OutOfMemoryError: CUDA out of memory.", "RuntimeError: boom", "all is well"]
)
def test_real_faults_and_plain_lines_are_not_benign(text: str) -> None:
    assert not BenignLines(shipped_patterns(), "").covers(text)


def test_a_pattern_of_one_site_holds_there_only() -> None:
    patterns = parse_patterns("- {pattern: chatter, reason: r, site: jupiter}\n", "own.yaml")
    assert BenignLines(patterns, "jupiter").take("chatter", None)
    assert not BenignLines(patterns, "leonardo").take("chatter", None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- pattern: 'a('\n  reason: r\n", "own.yaml:1: [0].pattern: not a regular expression: "),
        ("- pattern: ok\n", "own.yaml:1: [0]: reason is missing"),
        ("- reason: r\n", "own.yaml:1: [0]: pattern is missing"),
        ("- pattern: ok\n  reason: r\n  sit: x\n", "own.yaml:3: [0].sit: unknown key; did you mean site?"),
        ("- pattern: 'a*'\n  reason: r\n", "own.yaml:1: [0].pattern: matches every line"),
        ("- pattern: 12\n  reason: r\n", "own.yaml:1: [0].pattern: expected a regular expression"),
        ("- {pattern: ok, reason: r}\n- text\n", "own.yaml:2: [1]: expected a mapping"),
        ("- {pattern: ok, reason: r, within: 0}\n", "own.yaml:1: [0].within: expected a whole number of lines"),
        ("- {pattern: ok, reason: r, fault_beside: x}\n", "own.yaml:1: [0].fault_beside: expected a list"),
        ("- {pattern: ok, reason: r, fault_beside: ['(']}\n", "own.yaml:1: [0].fault_beside[0]: not a regular"),
        ("a: b\n", "own.yaml:1: expected a list"),
        ("- [", "own.yaml:1: not YAML"),
    ],
)
def test_complaints_name_file_line_and_key(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_patterns(text, "own.yaml")
    assert any(str(fault).startswith(complaint) for fault in caught.value.faults), caught.value.faults


def test_the_config_names_a_user_s_file_and_check_reads_it(tmp_path: Path) -> None:
    (tmp_path / "lines.yaml").write_text("- {pattern: a quirk, reason: known}\n", encoding="utf-8")
    config = tmp_path / "runwatch.yaml"
    config.write_text("benign_lines: lines.yaml\n", encoding="utf-8")
    loaded = load_config(config)
    assert loaded.benign_lines == tmp_path / "lines.yaml"
    assert [pattern.reason for pattern in read_patterns(tmp_path / "lines.yaml")] == ["known"]
    (tmp_path / "lines.yaml").write_text("- {pattern: a quirk}\n", encoding="utf-8")
    _, faults, _ = check(config)
    assert [str(fault) for fault in faults] == [
        f"{tmp_path / 'lines.yaml'}:1: [0]: reason is missing: expected why the line is no fault"
    ]
    (tmp_path / "lines.yaml").unlink()
    _, faults, _ = check(config)
    assert [str(fault) for fault in faults] == [f"{tmp_path / 'lines.yaml'}: cannot be read: No such file or directory"]
