"""What Prometheus, Grafana and Alertmanager get: monitors, rules, dashboards, Alertmanager's config."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts.programs import amtool
from tests.e2e.prometheus_tools import promtool
from tests.helm.chart_rendering import CHART_FOLDER, EVERYTHING, NAME, NAMESPACE, TOP, Values, of_kind, only, pod, texts

RULES = sorted((TOP / "alerts" / "rules").glob("*.yaml"))
DASHBOARDS = sorted((TOP / "grafana" / "dashboards").glob("*.json"))
TEMPLATES = sorted((TOP / "alerts" / "templates").glob("*.tmpl"))

ENDPOINTS = {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}


def endpoint(kind: str, values: Values) -> dict[str, Any]:
    key = kind[0].lower() + kind[1:]
    (found,) = only(kind, {key: {"enabled": True}} | values)["spec"][ENDPOINTS[kind]]
    assert isinstance(found, dict)
    return found


def relabelled(endpoint: dict[str, Any], pod_name: str) -> dict[str, str]:
    """Return the target labels as Prometheus makes them: its regular expressions match the whole text."""
    labels = {"__meta_kubernetes_pod_name": pod_name, "job": "something"}
    for step in endpoint["relabelings"]:
        assert step["action"] == "replace"
        source = ";".join(labels.get(name, "") for name in step.get("sourceLabels", []))
        matched = re.fullmatch(step.get("regex", "(.*)"), source)
        if matched is not None:
            labels[step["targetLabel"]] = matched.expand(step["replacement"].replace("$1", r"\1"))
    return {name: value for name, value in labels.items() if not name.startswith("__")}


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_targets_have_the_job_that_the_alerts_look_for(kind: str) -> None:
    rules = RULES[0].read_text(encoding="utf-8")
    assert 'up{job="runwatch"}' in rules
    assert relabelled(endpoint(kind, {}), f"{NAME}-5d8f7c9b4d-12345") == {"job": "runwatch"}


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_the_target_label_shard_is_the_pods_ordinal(kind: str) -> None:
    sharded = endpoint(kind, {"shards": 12})
    assert relabelled(sharded, f"{NAME}-0") == {"job": "runwatch", "shard": "0"}
    assert relabelled(sharded, f"{NAME}-replica-1-11") == {"job": "runwatch", "shard": "11"}


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_monitor_selects_each_pod_once(kind: str) -> None:
    values = {"shards": 2, "serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}
    monitor = only(kind, values)["spec"]
    assert monitor["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    wanted = monitor["selector"]["matchLabels"].items()
    if kind == "PodMonitor":
        assert wanted <= pod(values)["metadata"]["labels"].items()
        return
    services = [each for each in of_kind("Service", values) if wanted <= each["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in services] == [NAME]
    assert endpoint(kind, values)["port"] in [port["name"] for port in services[0]["spec"]["ports"]]


def test_what_is_given_for_a_monitor_arrives() -> None:
    monitor, given = only("ServiceMonitor", EVERYTHING), EVERYTHING["serviceMonitor"]
    (found,) = monitor["spec"]["endpoints"]
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert found["scheme"] == "https"
    assert found["tlsConfig"] == given["tlsConfig"]
    assert found["basicAuth"] == given["basicAuth"]
    assert found["metricRelabelings"] == given["metricRelabelings"]
    assert found["relabelings"][-1] == given["relabelings"][0]


def test_annotations_are_the_fallback() -> None:
    def annotations(values: Values) -> dict[str, str]:
        found = pod(values)["metadata"]["annotations"]
        return {key.partition("/")[2]: value for key, value in found.items() if key.startswith("prometheus.io/")}

    assert annotations({}) == {"scrape": "true", "path": "/metrics", "port": "9877", "scheme": "http"}
    assert annotations({"scrapeAnnotations": {"enabled": False}}) == {}
    for monitor in ("serviceMonitor", "podMonitor"):
        assert annotations({monitor: {"enabled": True}}) == {}
    assert annotations({"webConfig": {"existingSecret": "web", "scheme": "HTTPS"}})["scheme"] == "https"


def test_the_readmes_scrape_config_is_one(tmp_path: Path) -> None:
    readme = (CHART_FOLDER / "README.md").read_text(encoding="utf-8")
    (text,) = [block for block in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "scrape_configs" in block]
    # Debian's Prometheus is built without the discovery of Kubernetes.
    discovery = "kubernetes_sd_configs: [{role: pod}]"
    assert text.count(discovery) == 1
    known = text.replace(discovery, "static_configs: [{targets: ['127.0.0.1:9877']}]")
    (tmp_path / "prometheus.yml").write_text(known, encoding="utf-8")
    checked = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stderr
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["job_name"] == "runwatch"
    assert pod({})["metadata"]["labels"]["app.kubernetes.io/name"] == job["relabel_configs"][0]["regex"]


def test_the_rules_are_the_repositorys_and_promtool_takes_them(tmp_path: Path) -> None:
    rendered = of_kind("PrometheusRule", {"prometheusRule": {"enabled": True}})
    assert [each["metadata"]["name"] for each in rendered] == [f"{NAME}-{path.stem}" for path in RULES]
    for made, path in zip(rendered, RULES, strict=True):
        assert made["spec"] == yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        written = tmp_path / path.name
        written.write_text(yaml.safe_dump(made["spec"]), encoding="utf-8")
        checked = promtool("check", "rules", str(written))
        assert checked.returncode == 0, checked.stderr
        count = sum(len(group["rules"]) for group in made["spec"]["groups"])
        assert f"{count} rules found" in checked.stdout.decode()
        assert count > 50


def test_the_rules_texts_are_as_they_are() -> None:
    text = texts({"prometheusRule": {"enabled": True}})["prometheusrule.yaml"]
    for path in RULES:
        lines = [f"  {line}" for line in path.read_text(encoding="utf-8").splitlines()]
        assert "\n".join(lines) in text


def test_every_dashboard_is_a_config_map() -> None:
    rendered = [each for each in of_kind("ConfigMap", EVERYTHING) if "-dashboard-" in each["metadata"]["name"]]
    assert DASHBOARDS
    assert [name for each in rendered for name in each["data"]] == [path.name for path in DASHBOARDS]
    for made, path in zip(rendered, DASHBOARDS, strict=True):
        (content,) = made["data"].values()
        assert json.loads(content) == json.loads(path.read_text(encoding="utf-8"))
        # The API refuses ConfigMaps of more.
        assert len(content.encode()) < 1024 * 1024
        assert made["metadata"]["namespace"] == "grafana"
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert made["metadata"]["annotations"] == {"grafana_folder": "runwatch"}


def test_the_label_of_dashboards_is_a_value() -> None:
    values = {"dashboards": {"enabled": True, "label": "example.org/dashboards", "labelValue": "true"}}
    rendered = [each for each in of_kind("ConfigMap", values) if "-dashboard-" in each["metadata"]["name"]]
    assert rendered
    for each in rendered:
        assert each["metadata"]["labels"]["example.org/dashboards"] == "true"
        assert "grafana_dashboard" not in each["metadata"]["labels"]
        assert each["metadata"]["namespace"] == NAMESPACE
        assert "annotations" not in each["metadata"]


def alertmanager(**values: Any) -> dict[str, str]:
    data: dict[str, str] = only("Secret", {"alertmanagerConfig": {"enabled": True, **values}})["stringData"]
    return data


def test_alertmanagers_config_is_the_repositorys_with_its_paths_moved(tmp_path: Path) -> None:
    data = alertmanager(templates=f"{tmp_path}/*.tmpl")
    assert sorted(data) == ["alertmanager.yaml", *sorted(path.name for path in TEMPLATES)]
    for name, text in data.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    checked = amtool("check-config", str(tmp_path / "alertmanager.yaml"))
    assert checked.returncode == 0, checked.stderr
    assert sorted(path.name for path in tmp_path.glob("*.tmpl")) == [path.name for path in TEMPLATES]
    own = yaml.safe_load((TOP / "alerts" / "alertmanager.yml").read_text(encoding="utf-8"))
    assert yaml.safe_load(data["alertmanager.yaml"]) == own | {"templates": [f"{tmp_path}/*.tmpl"]}


def test_prometheus_operator_finds_key_and_templates() -> None:
    data = alertmanager()
    assert yaml.safe_load(data["alertmanager.yaml"])["templates"] == ["/etc/alertmanager/config/*.tmpl"]
    assert data["base.tmpl"].count("https://grafana.example.org") == 1
    assert data["runwatch.tmpl"] == (TOP / "alerts" / "templates" / "runwatch.tmpl").read_text(encoding="utf-8")


def test_the_base_of_links_and_the_secrets_folder_are_values() -> None:
    data = alertmanager(baseUrl="https://g.example.com/grafana/", secretsFolder="/etc/alertmanager/secrets/keys")
    assert "}}https://g.example.com/grafana{{" in data["base.tmpl"]
    files = re.findall(r"/etc/alertmanager/secrets/\S+", data["alertmanager.yaml"])
    assert len(files) >= 5
    assert all(path.startswith("/etc/alertmanager/secrets/keys/") for path in files)


def test_ones_own_receivers_replace_those_of_their_names() -> None:
    own = yaml.safe_load((TOP / "alerts" / "alertmanager.yml").read_text(encoding="utf-8"))["receivers"]
    mine = [
        {"name": "training-page", "webhook_configs": [{"url": "https://hooks.example.com/{{ x }}"}]},
        {"name": "added"},
    ]
    found = yaml.safe_load(alertmanager(receivers=mine)["alertmanager.yaml"])["receivers"]
    assert found == [mine[0] if each["name"] == "training-page" else each for each in own] + [mine[1]]
