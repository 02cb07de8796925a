"""The pods: how they are confined, what is mounted where, how they are probed, and what shards and replicas make."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helm.chart_rendering import (
    CONFIG,
    EVERYTHING,
    MATRIX,
    NAME,
    Manifest,
    Values,
    config_text,
    container,
    of_kind,
    only,
    pod,
    texts,
    workload,
)

OPENSHIFT = MATRIX["openshift"]


def mounts(values: Values) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return by path whether it is mounted to be read only, and the volume that is mounted there."""
    volumes = {volume["name"]: volume for volume in pod(values)["spec"]["volumes"]}
    return {
        mount["mountPath"]: (mount.get("readOnly"), {k: v for k, v in volumes[mount["name"]].items() if k != "name"})
        for mount in container(values)["volumeMounts"]
    }


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_the_pod_security_standard_restricted_holds(values: Values) -> None:
    spec, confined = pod(values)["spec"], container(values)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["securityContext"].get("runAsUser") != 0
    assert confined["allowPrivilegeEscalation"] is False
    assert confined["privileged"] is False
    assert confined["readOnlyRootFilesystem"] is True
    assert confined["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert not any("hostPort" in port for port in container(values)["ports"])
    assert not any("hostPath" in volume for volume in spec["volumes"])


def test_no_id_need_be_fixed_as_on_openshift() -> None:
    assert pod()["spec"]["securityContext"].keys() >= {"runAsUser", "runAsGroup", "fsGroup"}
    assert pod(OPENSHIFT)["spec"]["securityContext"].keys() == {"runAsNonRoot", "seccompProfile"}
    given = {"podSecurityContext": {"runAsUser": 1000680000, "runAsGroup": 0, "fsGroup": 1000680000}}
    assert "runAsUser: 1000680000\n" in texts(given)["deployment.yaml"]


def test_all_that_is_written_to_is_bounded() -> None:
    mounted = mounts({})
    assert mounted == {
        "/etc/runwatch": (True, {"configMap": {"name": NAME}}),
        "/var/lib/runwatch": (None, {"emptyDir": {"sizeLimit": "128Mi"}}),
        "/tmp": (None, {"emptyDir": {"sizeLimit": "1Gi"}}),
    }
    assert {"name": "HOME", "value": "/tmp"} in container()["env"]
    assert "state_file: /var/lib/runwatch/state.json\n" in config_text()


def test_secrets_are_files_that_follow_their_secret() -> None:
    mounted = mounts(EVERYTHING)
    assert mounted["/secrets"] == (True, {"secret": {"secretName": "runwatch-secrets", "defaultMode": 0o440}})
    assert mounted["/etc/runwatch-web"] == (True, {"secret": {"secretName": "runwatch-web", "defaultMode": 0o440}})
    # A mount with a subPath never sees a change.
    assert not any("subPath" in mount for mount in container(EVERYTHING)["volumeMounts"])
    assert "web_config: /etc/runwatch-web/web.yaml\n" in config_text(EVERYTHING)


def test_no_secret_is_in_arguments_or_environment() -> None:
    ours = container({**EVERYTHING, "shards": 3})
    assert ours["args"] == ["serve", "--config=/etc/runwatch/runwatch.yaml", "--shard=$(POD_NAME)/3"]
    assert [variable["name"] for variable in ours["env"]] == ["POD_NAME", "HOME", "GOOGLE_APPLICATION_CREDENTIALS"]


def test_a_changed_config_changes_the_pods_and_nothing_else_does() -> None:
    def checksum(values: Values) -> str:
        found: str = pod(values)["metadata"]["annotations"]["checksum/config"]
        return found

    assert re.fullmatch("[0-9a-f]{64}", checksum({}))
    assert checksum({"replicas": 2}) == checksum({})
    assert checksum({"config": {"linger": "2h"}}) != checksum({})


def probes(values: Values) -> dict[str, Manifest]:
    ours = container(values)
    return {name: ours[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}


def test_probes_ask_what_the_exporter_answers() -> None:
    found = probes({})
    assert {name: probe["httpGet"]["path"] for name, probe in found.items()} == {
        "startup": "/-/healthy",
        "liveness": "/-/healthy",
        "readiness": "/-/ready",
    }
    assert {probe["httpGet"]["scheme"] for probe in found.values()} == {"HTTP"}
    # The server may take a minute to start on a busy node, before which it is not to be restarted.
    assert found["startup"]["periodSeconds"] * found["startup"]["failureThreshold"] >= 60


def test_behind_a_web_config_probes_need_no_password() -> None:
    for probe in probes(EVERYTHING).values():
        assert probe["tcpSocket"] == {"port": "metrics"}
        assert "httpGet" not in probe
    tls_alone = {"webConfig": {"existingSecret": "web", "scheme": "HTTPS", "probe": "httpGet"}}
    assert {probe["httpGet"]["scheme"] for probe in probes(tls_alone).values()} == {"HTTPS"}


def test_probe_timing_is_a_value() -> None:
    assert probes({"livenessProbe": {"periodSeconds": 7}})["liveness"]["periodSeconds"] == 7


def test_the_port_is_the_configs() -> None:
    values = {"config": {"listen": "[::]:9000"}, "shards": 2}
    assert [port["containerPort"] for port in container(values)["ports"]] == [9000]
    assert [service["spec"]["ports"][0]["port"] for service in of_kind("Service", values)] == [9877, 9000]
    assert pod({"config": {"listen": ":9000"}})["metadata"]["annotations"]["prometheus.io/port"] == "9000"


def test_selectors_hold_only_what_stays() -> None:
    for values in MATRIX.values():
        labels = workload(values)["spec"]["selector"]["matchLabels"]
        assert labels.keys() - {"runwatch/replica"} == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
        assert labels.items() <= pod(values)["metadata"]["labels"].items()
        for service in of_kind("Service", values):
            assert service["spec"]["selector"].items() <= pod(values)["metadata"]["labels"].items()


def test_replicas_alone_are_a_deployment() -> None:
    assert only("Deployment", {"replicas": 3})["spec"]["replicas"] == 3
    assert "--shard" not in " ".join(container({"replicas": 3})["args"])


def test_each_shard_is_a_pod_that_knows_its_number() -> None:
    sharded = only("StatefulSet", {"shards": 4})
    assert sharded["spec"]["replicas"] == 4
    assert sharded["spec"]["podManagementPolicy"] == "Parallel"
    assert sharded["spec"]["serviceName"] in [each["metadata"]["name"] for each in of_kind("Service", {"shards": 4})]
    ours = container({"shards": 4})
    assert "--shard=$(POD_NAME)/4" in ours["args"]
    # Kubernetes fills in only what stands in `env`.
    assert ours["env"][0]["name"] == "POD_NAME"
    assert ours["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert of_kind("Deployment", {"shards": 4}) == []


def test_replicas_of_shards_have_the_shards_ordinals() -> None:
    sets = of_kind("StatefulSet", {"shards": 4, "replicas": 3})
    assert [each["metadata"]["name"] for each in sets] == [NAME, f"{NAME}-replica-1", f"{NAME}-replica-2"]
    assert {each["spec"]["replicas"] for each in sets} == {4}
    selectors = [each["spec"]["selector"]["matchLabels"] for each in sets]
    assert [selector["runwatch/replica"] for selector in selectors] == ["0", "1", "2"]
    for each in sets:
        assert each["spec"]["selector"]["matchLabels"].items() <= each["spec"]["template"]["metadata"]["labels"].items()


def test_a_claim_keeps_the_state_of_each_pod() -> None:
    values = {"state": {"claim": {"enabled": True, "storageClassName": "fast", "size": "2Gi"}}, "replicas": 2}
    kept = only("StatefulSet", values)
    assert kept["spec"]["replicas"] == 2
    (claim,) = kept["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "state"
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    assert "state" not in [volume["name"] for volume in pod(values)["spec"]["volumes"]]
    assert "state" in [mount["name"] for mount in container(values)["volumeMounts"]]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ({}, "runwatch:0.1.0"),
        ({"tag": "1.2.3"}, "runwatch:1.2.3"),
        ({"registry": "r.example.org:5000", "repository": "ml/watch", "tag": "x"}, "r.example.org:5000/ml/watch:x"),
        ({"tag": "x", "digest": f"sha256:{'a' * 64}"}, f"runwatch@sha256:{'a' * 64}"),
    ],
)
def test_the_image_is_put_together(image: Values, name: str) -> None:
    assert container({"image": image})["image"] == name


def test_what_is_given_for_the_pod_arrives() -> None:
    spec = pod(EVERYTHING)["spec"]
    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName", "hostAliases", "dnsConfig"):
        assert spec[key] == EVERYTHING[key], key
    assert spec["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "demo"
    assert container(EVERYTHING)["resources"] == EVERYTHING["resources"]
    assert container(EVERYTHING)["envFrom"] == EVERYTHING["extraEnvFrom"]
    assert mounts(EVERYTHING)["/logs"][1] == {"persistentVolumeClaim": {"claimName": "logs", "readOnly": True}}
    assert [each["name"] for each in spec["containers"]] == ["runwatch", "tunnel"]
    assert pod(EVERYTHING)["metadata"]["labels"]["c"] == "d"
    assert pod(EVERYTHING)["metadata"]["labels"]["team"] == "ml"


def test_extra_manifests_are_filled_in() -> None:
    names = [
        each["metadata"]["name"] for each in of_kind("ConfigMap", {"extraManifests": EVERYTHING["extraManifests"]})
    ]
    assert names == [NAME, "demo-more", "demo-text"]


def test_the_config_is_not_filled_in() -> None:
    assert "{{ .Values.shards }}" in config_text({"config": CONFIG})
