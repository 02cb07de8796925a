"""The committed dashboards are those that the builders make: `make docs` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch_dashboards.__main__ import main
from runwatch_dashboards.files import generated_files
from tests.grafana.dashboard_parts import FOLDER


def test_committed_dashboards_are_fresh() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    made = generated_files()
    assert sorted(committed) == sorted(made)
    assert [name for name in made if committed[name] != made[name]] == []


def test_program_writes_the_dashboards(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert main([str(folder)]) == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == generated_files()


def test_program_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: python -m runwatch_dashboards FOLDER\n"
