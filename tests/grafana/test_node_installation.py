"""Which Node runs Grafana's code: never one that is too old, and none is no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.grafana import node_installation as installation


def programs(folder: Path, version: str) -> None:
    for name, said in (("node", version), ("npm", "10.0.0")):
        (folder / name).write_text(f"#!/bin/sh\necho {said}\n")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize("version", ["v20.0.0", "v24.19.0"])
def test_a_node_on_the_path_is_taken_where_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    programs(tmp_path, version)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = installation.node_installation()
    assert found == installation.NodeInstallation((str(tmp_path / "node"),), (str(tmp_path / "npm"),))


def test_a_node_that_is_too_old_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, "v18.20.4")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = installation.node_installation()
    assert found is None or str(tmp_path) not in found.node[0]


def test_without_any_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert installation.node_installation() is None
