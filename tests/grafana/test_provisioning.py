"""The provisioning files as Grafana reads them, and that they, the README and the dashboards name the same things."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from tests.grafana.dashboard_parts import TOP

FOLDER = TOP / "grafana" / "provisioning"
README = (TOP / "grafana" / "README.md").read_text(encoding="utf-8")

ENVIRONMENT = {
    "RUNWATCH_PROMETHEUS_URL": "http://prometheus:9090",
    "RUNWATCH_ALERTMANAGER_URL": "http://alertmanager:9093",
}


def read(path: Path, environment: Mapping[str, str]) -> Any:
    """Read a file as Grafana does: as YAML, with $NAME and ${NAME} in each value filled from the environment."""

    def expanded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: expanded(child) for key, child in value.items()}
        if isinstance(value, list):
            return [expanded(child) for child in value]
        return Template(value).substitute(environment) if isinstance(value, str) else value

    return expanded(yaml.safe_load(path.read_text(encoding="utf-8")))


def data_sources() -> list[dict[str, Any]]:
    files = sorted((FOLDER / "datasources").glob("*.yaml"))
    return [source for path in files for source in read(path, ENVIRONMENT)["datasources"]]


def test_there_are_two_data_sources_with_uids_of_their_own() -> None:
    found = [(one["type"], one["uid"], one["url"]) for one in data_sources()]
    assert found == [
        ("alertmanager", "runwatch-alertmanager", "http://alertmanager:9093"),
        ("prometheus", "runwatch-prometheus", "http://prometheus:9090"),
    ]


def test_no_data_source_makes_itself_the_default_or_can_be_edited() -> None:
    for source in data_sources():
        assert source["isDefault"] is False
        assert source["editable"] is False


def test_prometheus_names_the_alertmanager_that_is_there() -> None:
    by_type = {one["type"]: one for one in data_sources()}
    assert by_type["prometheus"]["jsonData"]["alertmanagerUid"] == by_type["alertmanager"]["uid"]


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_an_address_is_needed_from_the_environment(name: str) -> None:
    given = {key: value for key, value in ENVIRONMENT.items() if key != name}
    with pytest.raises(KeyError, match=name):
        for path in (FOLDER / "datasources").glob("*.yaml"):
            read(path, given)


def provider() -> dict[str, Any]:
    [one] = read(FOLDER / "dashboards" / "runwatch.yaml", {})["providers"]
    return dict(one)


def test_dashboards_are_in_a_folder_and_cannot_be_changed_in_the_browser() -> None:
    assert (provider()["folder"], provider()["folderUid"], provider()["type"]) == ("runwatch", "runwatch", "file")
    assert provider()["allowUiUpdates"] is False
    assert provider()["disableDeletion"] is True


def test_the_readme_mounts_the_folder_that_is_read_and_sets_what_is_needed() -> None:
    assert f":{provider()['options']['path']}" in README
    assert set(re.findall(r"\bRUNWATCH_\w+", README)) == set(ENVIRONMENT)


def test_the_readme_names_files_that_exist() -> None:
    named = set(re.findall(r"`((?:grafana|alerts)/[\w./-]*)`", README))
    assert named
    assert [name for name in named if not (TOP / name).exists()] == []
