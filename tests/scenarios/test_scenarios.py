"""Every scenario: exactly the alerts that it names fire, at exactly the minutes that it names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.required_programs import lacking
from tests.scenarios.format import load_scenario
from tests.scenarios.judge import is_alone, judge, rule_files
from tests.scenarios.played import play_once, shared_folder

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.yaml"))
BATCH = 20
_MISSING = "promtool is missing. Install it: apt-get install prometheus, or take it from a Prometheus release"


def batches() -> Iterator[list[Path]]:
    """Put scenarios of like length together: an evaluation lasts as long as the longest of them."""
    scenarios = {path: load_scenario(path) for path in CORPUS}
    lengths = {path: len(scenario.watched) for path, scenario in scenarios.items()}
    shared = (path for path, scenario in scenarios.items() if not is_alone(scenario))
    together = sorted(shared, key=lambda path: (-lengths[path], path))
    yield from (together[i : i + BATCH] for i in range(0, len(together), BATCH))
    yield from ([path] for path, scenario in scenarios.items() if is_alone(scenario))


@pytest.fixture(scope="session", autouse=True)
def promtool() -> None:
    """Without promtool nothing can be judged: skipped at home, a failure in CI."""
    if shutil.which("promtool") is None:
        lacking(_MISSING)


@pytest.mark.parametrize("paths", list(batches()), ids=lambda paths: f"{len(paths)}-from-{paths[0].stem}")
def test_scenarios(paths: list[Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = shared_folder(tmp_path_factory)
    differs = judge([play_once(path, folder) for path in paths], rule_files(), tmp_path)
    assert not differs, "\n".join(f"{name}:\n{text}" for name, text in differs.items())


def alert_names() -> list[str]:
    """Return the alerts of the rules, but the dead man's switch."""
    documents = [yaml.safe_load(path.read_text()) for path in rule_files()]
    rules = [rule for document in documents for group in document["groups"] for rule in group["rules"]]
    return sorted({rule["alert"] for rule in rules if "alert" in rule} - {"Watchdog"})


def test_every_alert_has_scenarios_that_fire_are_just_below_and_only_look_like_it() -> None:
    covered = {words for path in CORPUS for words in load_scenario(path).covers}
    wanted = {f"{alert}: {kind}" for alert in alert_names() for kind in ("fires", "below", "benign")}
    assert sorted(wanted - covered) == []


def test_scenarios_cover_what_they_say() -> None:
    for path in CORPUS:
        scenario = load_scenario(path)
        expected = {firing.alert for firing in scenario.expect}
        fires = {words.removesuffix(": fires") for words in scenario.covers if words.endswith(": fires")}
        silent = {words.partition(": ")[0] for words in scenario.covers if words.endswith((": below", ": benign"))}
        assert fires <= expected, f"{path.name} covers the firing of an alert that it does not expect"
        assert not silent & (expected - fires), f"{path.name} expects an alert that it says is silent"
