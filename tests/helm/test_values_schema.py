"""Bad values are refused before anything is installed, by a text that names the value; good ones pass."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import HelmError

from runwatch.config.model import Config, Site
from tests.helm.chart_rendering import CHART_FOLDER, MATRIX, Values, chart, texts

SCHEMA = json.loads((CHART_FOLDER / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS = yaml.safe_load((CHART_FOLDER / "values.yaml").read_text(encoding="utf-8"))


def nested(path: str, value: object) -> Values:
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_good_values_pass(values: Values) -> None:
    chart().validate_schema(copy.deepcopy(values))


BAD: list[tuple[str, object]] = [
    ("shard", 3),
    ("shards", 0),
    ("shards", "3"),
    ("shards", 1.5),
    ("replicas", 0),
    ("replicas", -1),
    ("existingSecret", {"name": "x"}),
    ("existingSecret", "Not A Name"),
    ("secretFileMode", "0440"),
    ("secretFileMode", 4096),
    ("image.pullPolicy", "Sometimes"),
    ("image.digest", "sha256:short"),
    ("image.name", "x"),
    ("image.repository", "Upper/Case"),
    ("config", None),
    ("config", "jobs: []"),
    ("rbac", None),
    ("state.claim", None),
    ("config.job", []),
    ("config.jobs", {}),
    ("config.listen", "0.0.0.0"),
    ("config.sites", {"a": {}}),
    ("config.sites", {"a": {"scheduler": "nomad"}}),
    ("webConfig.scheme", "https"),
    ("webConfig.probe", "exec"),
    ("serviceAccount.create", "yes"),
    ("serviceAccount.annotations", {"a": 1}),
    ("rbac.extraNamespaces", ["*"]),
    ("rbac.extraNamespaces", ["a,b"]),
    ("service.port", 70000),
    ("service.type", "ExternalName"),
    ("serviceMonitor.enabled", "true"),
    ("serviceMonitor.interval", "30 seconds"),
    ("podMonitor.label", {}),
    ("prometheusRule.labels", {"release": True}),
    ("dashboards.labelValue", 1),
    ("dashboards.labelValue", "a b"),
    ("dashboards.folder", "x"),
    ("alertmanagerConfig.baseUrl", "grafana"),
    ("alertmanagerConfig.baseUrl", 'https://x{{ template "y" }}'),
    ("alertmanagerConfig.receivers", [{"webhook_configs": []}]),
    ("networkPolicy.egressPorts", ["https"]),
    ("podDisruptionBudget.maxUnavailable", "half"),
    ("state.sizeLimit", "128 MB"),
    ("state.claim.accessModes", []),
    ("resources", {"cpu": "1"}),
    ("livenessProbe.httpGet", {"path": "/"}),
    ("livenessProbe.periodSeconds", 0),
    ("strategy.type", "OnDelete"),
    ("nodeSelector", {"gpu": True}),
    ("tolerations", {}),
    ("extraEnv", {"A": "b"}),
    ("extraEnv", [{"name": "A", "value": 1}]),
    ("extraVolumes", [{"emptyDir": {}}]),
    ("extraVolumeMounts", [{"name": "x"}]),
    ("extraArgs", [1]),
    ("extraManifests", {}),
]


@pytest.mark.parametrize(("path", "value"), BAD, ids=[f"{path}={json.dumps(value)}" for path, value in BAD])
def test_a_bad_value_is_refused_by_a_text_that_names_it(path: str, value: object) -> None:
    with pytest.raises(HelmError) as refused:
        chart().render(nested(path, value), name="demo", namespace="watch")
    text = refused.value.detail
    assert re.search("values don't meet the specifications of the schema", text), text
    *_, last = path.split(".")
    assert last in text or json.dumps(value) in text, text
    for parent in path.split(".")[:-1]:
        assert parent in text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"config": {"listen": "0.0.0.0:0"}},
            'config.listen: expected HOST:PORT with a port from 1 to 65535, got "0.0',
        ),
        (
            {"config": {"web_config": "/x"}, "webConfig": {"existingSecret": "web"}},
            "config.web_config and webConfig.existingSecret both name a web config: leave one out",
        ),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: Values, text: str) -> None:
    with pytest.raises(HelmError, match=re.escape(text)):
        texts(values)


def described(schema: Any) -> Any:
    return SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def test_schema_and_defaults_have_the_same_keys() -> None:
    def compare(path: str, schema: Any, default: Any) -> None:
        known = described(schema)
        # What Kubernetes defines itself is no list of keys, and these three say which of its keys may be set.
        if "properties" not in known or path in (".resources", ".strategy", ".config") or path.endswith("Probe"):
            return
        assert known["additionalProperties"] is False, path
        assert set(known["properties"]) - {"global"} == set(default), path
        for key, value in default.items():
            compare(f"{path}.{key}", known["properties"][key], value)

    compare("", SCHEMA, DEFAULTS)


def test_every_mapping_that_the_chart_defines_is_closed() -> None:
    def open_ones(path: str, schema: Any) -> list[str]:
        if isinstance(schema, list):
            return [found for index, each in enumerate(schema) for found in open_ones(f"{path}[{index}]", each)]
        if not isinstance(schema, dict):
            return []
        own = "properties" in schema and isinstance(schema.get("type"), str) and "additionalProperties" not in schema
        return [path] * own + [found for key, each in schema.items() for found in open_ones(f"{path}.{key}", each)]

    # A site and a receiver are checked in full by those who read them.
    assert open_ones("", SCHEMA) == [
        ".properties.config.properties.sites.additionalProperties",
        ".properties.alertmanagerConfig.properties.receivers.items",
    ]


def test_the_config_has_the_exporters_keys() -> None:
    config = SCHEMA["properties"]["config"]["properties"]
    assert list(config) == list(Config.model_fields)
    schedulers = config["sites"]["additionalProperties"]["properties"]["scheduler"]["enum"]
    assert schedulers == list(Site.model_json_schema()["properties"]["scheduler"]["enum"])


def test_the_schema_is_of_the_draft_that_helm_3_reads() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    newer = {"$defs", "prefixItems", "unevaluatedProperties", "dependentRequired", "dependentSchemas", "$anchor"}
    assert not newer & set(re.findall(r'"([$\w]+)":', json.dumps(SCHEMA)))


def test_a_chart_that_this_one_is_a_part_of_may_set_globals(tmp_path: Path) -> None:
    assert "configmap.yaml" in texts({"global": {"imageRegistry": "x"}})
