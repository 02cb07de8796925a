"""Whole config files: those that are good, and those whose lines tell the faults that must be found on them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runwatch.config.load import ConfigError, check, load_config
from runwatch.facts import SourceKind

FOLDER = Path(__file__).parents[1] / "data" / "config"
GOOD = sorted(FOLDER.glob("*.good.yaml"))
BAD = sorted(FOLDER.glob("*.bad.yaml"))


def _expected(path: Path) -> list[tuple[int, str, str]]:
    """Read the expectations that stand behind `#!`: `KEY: part of the message`, several joined by ` && `."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        _, mark, rest = line.partition(" #! ")
        for expectation in rest.split(" && ") if mark else []:
            key, _, message = expectation.partition(": ")
            found.append((number, key, message))
    return found


def test_there_are_files() -> None:
    assert len(GOOD) >= 2
    assert len(BAD) >= 5


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_bad_file_tells_exactly_the_faults_of_its_lines(path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    faults = raised.value.faults
    expected = _expected(path)
    assert Counter((fault.line, fault.key) for fault in faults) == Counter((line, key) for line, key, _ in expected)
    for line, key, message in expected:
        told = [fault.message for fault in faults if (fault.line, fault.key) == (line, key)]
        assert any(message in text for text in told), (line, key, message, told)
    for fault in faults:
        assert str(fault) == f"{path}:{fault.line}: {fault.key}: {fault.message}"
        assert len(str(fault).splitlines()) == 1
    assert check(path) == (None, faults, ())


def test_no_secret_is_repeated() -> None:
    path = FOLDER / "secrets.bad.yaml"
    assert path.read_text().count("hush-") == 6
    assert "hush-" not in "\n".join(str(fault) for fault in check(path)[1])
    server = "\n".join(str(fault) for fault in check(FOLDER / "server.bad.yaml")[1])
    assert "0123456789abcdef" not in server


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_good_file_is_read(path: Path) -> None:
    config, faults, _ = check(path)
    assert faults == ()
    assert config == load_config(path)


def test_example_has_its_values_and_absolute_paths() -> None:
    config = load_config(FOLDER / "example.good.yaml")
    assert config.web_config == FOLDER / "web.yaml"
    assert config.sites["marin"].token_file == FOLDER / "secrets" / "iris"
    assert config.jobs[0].checkpoints == (
        "gs://bucket/checkpoints/midtraining-a",
        str(FOLDER / "local" / "checkpoints"),
    )
    assert config.jobs[1].history[0].log == "auto"
    assert config.jobs[3].history[0].jsonl == FOLDER / "runs" / "anything.jsonl"
    assert config.jobs[3].history[1].wandb_offline == FOLDER.parent / "offline-run"
    assert config.jobs[3].config.checkpoint_interval == 5400.0
    assert config.jobs[3].labels.shaping == "on"
    assert config.discover[0].history[0].wandb == "team/midtraining/{name}-*"
    assert [config.interval(kind) for kind in (SourceKind.HISTORY, SourceKind.CHECKPOINTS)] == [120.0, 60.0]
    assert [config.scheduler(site) for site in ("marin", "desk", "none")] == ["iris", "", ""]


def test_the_example_warns_of_a_file_that_is_not_there() -> None:
    path = FOLDER / "example.good.yaml"
    assert [(warning.line, warning.key) for warning in check(path)[2]] == [(11, "sites.marin.token_file")]


def test_merge_takes_what_is_not_written() -> None:
    first, second = load_config(FOLDER / "merges.good.yaml").jobs
    assert (first.run, second.run) == ("first", "second")
    assert second.history == first.history
    assert second.labels.owner == "u1"
