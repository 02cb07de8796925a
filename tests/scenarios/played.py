"""Scenarios are simulated once in a test session: what judges the rules and what judges their mutants share them."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from tests.scenarios.format import load_scenario
from tests.scenarios.judge import Played, play, rule_files


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of this test session share, and no other session does."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "played-scenarios"


def play_once(path: Path, folder: Path) -> Played:
    """Return a scenario with the series that the rules read, simulated by whichever process comes to it first.

    Args:
        path: the scenario file.
        folder: where the series are kept, the same for all processes of a session.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{path.stem}.json"
    with (folder / f"{path.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists():
            return Played(path.stem, load_scenario(path), json.loads(kept.read_text()))
        played = play(path, rule_files())
        kept.write_text(json.dumps(played.series))
    return played
