"""Every set of values lints and gives objects that the API takes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import helm_python
import pytest

from tests.helm.chart_rendering import (
    CHART_FOLDER,
    CRD_GROUP,
    EVERYTHING,
    MATRIX,
    NAME,
    NAMESPACE,
    Manifest,
    Values,
    chart,
    manifests,
    texts,
)
from tests.helm.kubernetes_schemas import faults

LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

each_set = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)


@each_set
def test_it_lints_strictly(values: Values) -> None:
    report = helm_python.lint(CHART_FOLDER, values, strict=True, namespace=NAMESPACE)
    severe = [message for message in report["messages"] if message["severity"] > 1]
    assert (report["total_charts_linted"], report["errors"], severe) == (1, [], [])


@each_set
def test_every_object_is_one_that_the_api_takes(values: Values) -> None:
    found = {f"{each['kind']} {each['metadata']['name']}": faults(each) for each in manifests(values)}
    assert found
    assert {name: problems for name, problems in found.items() if problems} == {}


@each_set
def test_names_and_labels_are_well_formed_and_names_differ(values: Values) -> None:
    rendered = manifests(values)
    names = Counter((each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in rendered)
    assert [name for name, count in names.items() if count > 1] == []
    for each in rendered:
        assert OBJECT_NAME.fullmatch(each["metadata"]["name"])
    for key, value in (item for each in rendered for item in labels_in(each)):
        assert LABEL_KEY.fullmatch(key), key
        assert isinstance(value, str), (key, value)
        assert LABEL_VALUE.fullmatch(value), (key, value)


def labels_in(node: Any) -> list[tuple[str, Any]]:
    """Return key and value of each label and of each label that is asked for."""
    if isinstance(node, list):
        return [item for each in node for item in labels_in(each)]
    if not isinstance(node, dict):
        return []
    own = [item for key in ("labels", "matchLabels") if isinstance(node.get(key), dict) for item in node[key].items()]
    # The labels of alerts, in groups of rules, are Prometheus's and not an object's.
    return own + labels_in([each for key, each in node.items() if key != "groups"])


def test_a_fault_in_an_object_would_be_seen() -> None:
    deployment = next(each for each in manifests() if each["kind"] == "Deployment")
    assert faults({**deployment, "spec": {**deployment["spec"], "replica": 1}})
    assert faults({**deployment, "spec": {**deployment["spec"], "replicas": "one"}})
    monitor = next(each for each in manifests(EVERYTHING) if each["kind"] == "ServiceMonitor")
    assert faults({**monitor, "spec": {**monitor["spec"], "endpoint": []}})


def kinds(rendered: list[Manifest]) -> list[str]:
    return sorted(each["kind"] for each in rendered)


def test_the_defaults_need_no_crd_and_no_right() -> None:
    assert kinds(manifests()) == ["ConfigMap", "Deployment", "Service", "ServiceAccount"]


@pytest.mark.parametrize("name", [name for name in MATRIX if name not in ("everything", "sharded", "shards-alone")])
def test_what_needs_a_crd_is_made_only_where_it_was_asked_for(name: str) -> None:
    assert [each["kind"] for each in manifests(MATRIX[name]) if each["apiVersion"] == CRD_GROUP] == []


def test_everything_is_everything() -> None:
    rendered = Counter(kinds(manifests(EVERYTHING)))
    assert rendered.pop("ConfigMap") > 3  # the config, two extra ones and the dashboards
    assert rendered.pop("PrometheusRule") >= 1
    assert rendered == {
        "Deployment": 1,
        "NetworkPolicy": 1,
        "PodDisruptionBudget": 1,
        "PodMonitor": 1,
        "Role": 3,
        "RoleBinding": 3,
        "Secret": 1,
        "Service": 1,
        "ServiceAccount": 1,
        "ServiceMonitor": 1,
    }


def test_no_object_holds_what_helm_could_not_print() -> None:
    for values in MATRIX.values():
        for path, text in texts(values).items():
            assert "<no value>" not in text, path
            assert "%!" not in text, path
            assert "map[" not in text, path


def test_a_namespace_and_a_release_that_look_like_numbers_stay_texts() -> None:
    rendered = chart().render(EVERYTHING | {"shards": 2}, name="1e3", namespace="0123")
    for path, text in rendered.items():
        if path.endswith(".yaml"):
            assert not re.search(r"^\s*namespace: 0123$", text, re.MULTILINE), path
            assert not re.search(r"^\s*[\w./]*(instance|name): 1e3$", text, re.MULTILINE), path


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, NAME),
        ({"nameOverride": "watcher"}, "demo-watcher"),
        ({"fullnameOverride": "mine"}, "mine"),
        ({"fullnameOverride": "x" * 60}, "x" * 40),
        ({"nameOverride": "demo"}, "demo"),
    ],
)
def test_names_can_be_chosen(values: Values, name: str) -> None:
    named = {each["metadata"]["name"] for each in manifests(values | {"shards": 2})}
    assert named == {name, f"{name}-pods"}


def test_the_notes_say_what_is_missing() -> None:
    notes = texts()["NOTES.txt"]
    assert "nothing is watched yet" in notes
    assert "no PrometheusRule is made" in notes
    everything = texts(EVERYTHING | {"shards": 3})["NOTES.txt"]
    assert "scraped twice" in everything
    assert "port-forward demo-runwatch-0 9877:9877" in everything
    assert "-n grafana get configmaps -l grafana_dashboard=1" in everything
    assert "nothing is watched" not in everything


def test_the_notes_name_the_receivers_that_call_nobody() -> None:
    def told(**alertmanager: Any) -> str:
        return texts({"alertmanagerConfig": {"enabled": True, **alertmanager}})["NOTES.txt"]

    everyone = (
        "dead-mans-switch, webhook, training-page, training-notify, trials-page, trials-notify, platform-page, "
        "platform-notify"
    )
    assert f"keys are yours: {everyone}." in told()
    assert "grafana.example.org" in told()
    own = [{"name": name} for name in everyone.split(", ") if name != "trials-page"]
    assert "keys are yours: trials-page." in told(receivers=own)
    ours = told(receivers=[*own, {"name": "trials-page"}], baseUrl="https://grafana.team.org")
    assert "WARNING" not in ours
    assert "are examples" not in texts()["NOTES.txt"]
