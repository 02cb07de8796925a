"""Values that repeat what the chart sets, and values that are taken away: objects that are sound, or a clear text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from helm_python import HelmError

from tests.helm.chart_rendering import CHART_FOLDER, EVERYTHING, MATRIX, Manifest, Values, manifests, only, pod, texts
from tests.helm.kubernetes_schemas import faults

DEFAULTS = yaml.safe_load((CHART_FOLDER / "values.yaml").read_text(encoding="utf-8"))
ALL_KINDS: Values = {
    key: {"enabled": True}
    for key, value in DEFAULTS.items()
    if isinstance(value, dict) and value.get("enabled") is False
}
SAME_LABEL: Values = {key: {"labels": {"release": "prometheus"}} for key in ("serviceMonitor", "podMonitor")} | {
    "prometheusRule": {"labels": {"release": "prometheus"}},
    "alertmanagerConfig": {"labels": {"release": "prometheus"}},
    "commonLabels": {"release": "prometheus"},
    "podLabels": {"release": "prometheus"},
}
OWN_LABELS = {"app.kubernetes.io/name": "x", "app.kubernetes.io/component": "x", "app.kubernetes.io/part-of": "ml"}


def joined(first: Values, second: Values) -> Values:
    """Return both, the second's values where both have one."""
    both = dict(first)
    for key, value in second.items():
        mappings = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = joined(both[key], value) if mappings else value
    return both


class OnceLoader(yaml.SafeLoader):
    """Reads YAML as kustomize, Flux and Argo CD do: a key that stands twice in a mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping, or raise where a key is there twice."""
        keys = [key.value for key, _ in node.value]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.YAMLError(f"{node.start_mark}: twice: {twice}")
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize(
    "values",
    [
        *MATRIX.values(),
        joined(EVERYTHING, SAME_LABEL),
        joined(EVERYTHING, {"commonLabels": OWN_LABELS, "podLabels": OWN_LABELS, "shards": 2}),
        {"podAnnotations": {"prometheus.io/scrape": "false", "checksum/config": "x"}},
        joined(ALL_KINDS, {"commonLabels": {"grafana_dashboard": "1"}}),
    ],
)
def test_no_key_is_there_twice(values: Values) -> None:
    for path, text in texts(values).items():
        if path.endswith(".yaml"):
            assert list(yaml.load_all(text, Loader=OnceLoader)), path


def test_labels_that_are_given_do_not_lead_selectors_astray() -> None:
    values = joined(EVERYTHING, {"commonLabels": OWN_LABELS, "podLabels": OWN_LABELS})
    labels = pod(values)["metadata"]["labels"]
    assert only("Deployment", values)["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["app.kubernetes.io/part-of"] == "ml"
    service = only("Service", values)
    assert service["spec"]["selector"].items() <= labels.items()
    assert only("ServiceMonitor", values)["spec"]["selector"]["matchLabels"].items() <= (
        service["metadata"]["labels"].items()
    )
    assert {each["metadata"]["labels"]["app.kubernetes.io/managed-by"] for each in labelled(values)} == {"Helm"}


def labelled(values: Values) -> list[Manifest]:
    return [each for each in manifests(values) if "labels" in each["metadata"]]


def test_an_annotation_that_is_given_wins_over_the_scrapes() -> None:
    annotations = pod({"podAnnotations": {"prometheus.io/scrape": "false", "checksum/config": "x"}})["metadata"][
        "annotations"
    ]
    assert annotations["prometheus.io/scrape"] == "false"
    assert annotations["prometheus.io/port"] == "9877"
    assert len(annotations["checksum/config"]) == 64


def test_recreate_is_one_word() -> None:
    """The API refuses a Deployment that recreates and says how it rolls, which the defaults do."""
    assert only("Deployment", {"strategy": {"type": "Recreate"}})["spec"]["strategy"] == {"type": "Recreate"}


def paths_of(values: Values, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict) and not key.lower().endswith("securitycontext"):  # whose inside is Kubernetes' own
            yield from paths_of(value, (*above, key))


@pytest.mark.parametrize("path", [".".join(each) for each in paths_of(DEFAULTS)])
def test_a_value_that_is_taken_away_leaves_sound_objects_or_is_missed_by_name(path: str) -> None:
    """`null` takes a default away in Helm; rendered as 0 it would be no pods, no time to end, files for nobody."""
    *above, last = path.split(".")
    values: Values = {last: None}
    for key in reversed(above):
        values = {key: values}
    try:
        rendered = manifests(joined(ALL_KINDS, values))
    except HelmError as refused:
        assert last in refused.detail
        return
    assert {each["metadata"]["name"]: problems for each in rendered if (problems := faults(each))} == {}
    text = "".join(texts(joined(ALL_KINDS, values)).values())
    assert "<nil>" not in text
    assert "<no value>" not in text
    spec = pod(values)["spec"]
    assert spec["terminationGracePeriodSeconds"] == 30
    assert only("Deployment", values)["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"minAvailable": None}, {"maxUnavailable": 1}),
        ({"maxUnavailable": None, "minAvailable": 1}, {"minAvailable": 1}),
    ],
)
def test_a_budget_of_which_one_side_is_taken_away(budget: Values, expected: Values) -> None:
    spec = only("PodDisruptionBudget", {"podDisruptionBudget": {"enabled": True, **budget}})["spec"]
    assert {key: value for key, value in spec.items() if key != "selector"} == expected


def test_a_budget_without_either_side_is_refused() -> None:
    neither = {"podDisruptionBudget": {"enabled": True, "minAvailable": None, "maxUnavailable": None}}
    with pytest.raises(HelmError, match="podDisruptionBudget: give maxUnavailable or minAvailable"):
        texts(neither)
