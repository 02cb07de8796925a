"""Faults of templates with a `*`, and of the state file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.config.load import check
from runwatch.config.model import Trials

SITE = "sites: {m: {scheduler: kubernetes}}\n"


def faults(folder: Path, text: str) -> list[tuple[str, str]]:
    path = folder / "c.yaml"
    path.write_text(text)
    return [(fault.key, fault.message) for fault in check(path)[1]]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ("history: {wandb: 'e/p/{name}-*'}, checkpoints: ['gs://bucket/{name}-*/checkpoints']", []),
        ("history: {log: '/logs/*/{name}*.out'}", []),
        ("history: {wandb: 'e/{name}-*/r'}", [("discover[0].history.wandb", "expected * in the run's id alone")]),
        ("history: {wandb: 'e/*/{name}-*'}", [("discover[0].history.wandb", "expected one * at most, got 2")]),
        ("checkpoints: ['/c/{name}-*-*']", [("discover[0].checkpoints[0]", "expected one * at most, got 2")]),
        ("trials: {path: '/t*/{name}-*'}", [("discover[0].trials.path", "expected one * at most, got 2")]),
    ],
)
def test_stars(tmp_path: Path, places: str, expected: list[tuple[str, str]]) -> None:
    entry = f"discover: [{{site: m, match: '(?P<name>.+)', bucket: sft, {places}}}]\n"
    found = faults(tmp_path, SITE + entry)
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert all(message.startswith(begin) for (_, message), (_, begin) in zip(found, expected, strict=True))


def test_the_state_file_is_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    job = "jobs: [{run: a, bucket: rl, history: {jsonl: rows.jsonl}}]\n"
    assert faults(tmp_path, f"state_file: state.json\n{job}") == []
    assert check(tmp_path / "c.yaml")[0].state_file == tmp_path / "state.json"  # type: ignore[union-attr]
    wrong = {
        "folder": f"expected a file, and {tmp_path}/folder is a folder",
        "c.yaml": "is written, and cannot be the config itself",
        "key": "is written, and cannot be the file of wandb.api_key_file too",
        "./token": "is written, and cannot be the file of sites.i.token_file too",
    }
    others = "wandb: {api_key_file: key}\nsites: {i: {scheduler: iris, controller: 'http://h:1', token_file: token}}\n"
    for path, message in wrong.items():
        assert faults(tmp_path, f"state_file: {path}\n{others}{job}") == [("state_file", message)]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("{site: m, match: a, bucket: rl}, {site: m, match: b, bucket: rl}, {wandb: e/p, bucket: rl}", []),
        ("{site: m, match: a, bucket: rl}, {site: m, match: a, bucket: sft}", ["discover[1]"]),
        ("{site: m, match: a, bucket: rl}, {site: n, match: a, bucket: sft}", []),
        ("{wandb: e/p, bucket: rl, state: running}, {wandb: e/p, bucket: other}", []),
        ("{wandb: e/p, bucket: rl}, {wandb: e/p, bucket: other, state: running}", ["discover[1]"]),
        ("{wandb: e/p, bucket: rl, state: Running}", ["discover[0].state"]),
    ],
)
def test_an_entry_that_can_find_nothing_is_warned_of(tmp_path: Path, entries: str, expected: list[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"sites: {{m: {{scheduler: kubernetes}}, n: {{scheduler: kubernetes}}}}\ndiscover: [{entries}]\n")
    config, found, warnings = check(path)
    assert config is not None
    assert (found, [warning.key for warning in warnings]) == ((), expected)


@pytest.mark.parametrize(
    ("written", "meant"), [("10", 10), ("0x10", 16), ("1_000", 1000), ("010", None), ("1:30", None), ("0o17", None)]
)
def test_a_count_is_what_people_read(tmp_path: Path, written: str, meant: int | None) -> None:
    path = tmp_path / "c.yaml"
    job = "jobs: [{run: a, bucket: eval, trials: {path: /t, target: %s}}]\n"
    path.write_text(job % written)
    config, found, _ = check(path)
    assert [fault.key for fault in found] == ([] if meant else ["jobs[0].trials.target"])
    assert config is None or config.jobs[0].trials == Trials(path="/t", target=meant)
