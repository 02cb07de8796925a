"""What the exporter may reach: the cluster's API, and by the NetworkPolicy the network."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from runwatch.sources import kubernetes_client
from tests.helm.chart_rendering import (
    CONFIG,
    EVERYTHING,
    MATRIX,
    NAME,
    NAMESPACE,
    SITES,
    TOP,
    Manifest,
    Values,
    manifests,
    of_kind,
    only,
    pod,
)

IN_CLUSTER: Values = {"config": {"sites": {"cluster": {"scheduler": "kubernetes", "namespace": "runs"}}}}


def rights(rules: list[Manifest]) -> set[tuple[str, str, str, str]]:
    """Return group, resource, verb and name (empty for all) of each thing that is allowed."""
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def access(values: Values) -> list[Manifest]:
    return [each for each in manifests(values) if each["apiVersion"].startswith("rbac.")]


@pytest.mark.parametrize(
    "sites",
    [
        {},
        {"desk": {"scheduler": "none"}},
        {"marin": SITES["marin"], "leonardo": SITES["leonardo"]},
        {"far": SITES["far"]},
    ],
)
def test_without_a_site_in_the_cluster_there_is_no_right_and_no_token(sites: Values) -> None:
    values = {"config": {"sites": sites}, "rbac": {"extraNamespaces": ["evals"]}}
    assert access(values) == []
    assert pod(values)["spec"]["automountServiceAccountToken"] is False


def test_a_site_in_the_cluster_has_a_role_in_its_namespace() -> None:
    role, binding = only("Role", IN_CLUSTER), only("RoleBinding", IN_CLUSTER)
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "runs"
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]
    assert pod(IN_CLUSTER)["spec"]["automountServiceAccountToken"] is True
    # Another pod with this account gets no token unless it asks.
    assert only("ServiceAccount", IN_CLUSTER)["automountServiceAccountToken"] is False
    assert pod(IN_CLUSTER)["spec"]["serviceAccountName"] == only("ServiceAccount", IN_CLUSTER)["metadata"]["name"]


def test_the_role_is_the_documented_one() -> None:
    text = (TOP / "docs" / "kubernetes-rbac.md").read_text(encoding="utf-8")
    documented = next(each for each in yaml.safe_load_all(text.split("```")[1].partition("\n")[2]) if "rules" in each)
    assert rights(only("Role", IN_CLUSTER)["rules"]) == rights(documented["rules"])


def test_the_role_lets_list_what_the_exporter_lists_and_nothing_be_written() -> None:
    granted = rights(only("Role", IN_CLUSTER)["rules"])
    listed = {
        (value.group, value.plural)
        for value in vars(kubernetes_client).values()
        if isinstance(value, kubernetes_client.Resource)
    }
    assert len(listed) == 4
    assert {(group, resource) for group, resource, verb, _ in granted if verb == "list"} == listed
    assert {verb for _, _, verb, _ in granted} == {"list", "get"}
    assert not any("*" in part for right in granted for part in right)
    assert not any(resource.startswith("secrets") for _, resource, _, _ in granted)


def test_each_namespace_with_jobs_has_its_own_role() -> None:
    values = {"config": CONFIG, "rbac": {"extraNamespaces": ["evals"]}}
    # `own` names no namespace, so it is that of the service account; `far` is reached by a kubeconfig.
    assert [role["metadata"]["namespace"] for role in of_kind("Role", values)] == ["evals", "runs", NAMESPACE]
    for role in of_kind("Role", values):
        names = {name for _, resource, _, name in rights(role["rules"]) if resource == "namespaces"}
        assert names == {role["metadata"]["namespace"]}


def test_one_cluster_role_where_that_is_asked_for() -> None:
    values = {**IN_CLUSTER, "rbac": {"clusterWide": True, "logs": False}}
    role, binding = only("ClusterRole", values), only("ClusterRoleBinding", values)
    assert "namespace" not in role["metadata"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == f"{NAMESPACE}-{NAME}"
    assert ("", "pods/log", "get", "") not in rights(role["rules"])
    assert of_kind("Role", values) == of_kind("RoleBinding", values) == []


def test_a_service_account_of_ones_own_keeps_its_token() -> None:
    values = MATRIX["existing-secrets"]
    assert access(values) == of_kind("ServiceAccount", values) == []
    assert pod(values)["spec"]["serviceAccountName"] == "mine"
    assert pod(values)["spec"]["automountServiceAccountToken"] is True


def policy(values: Values) -> dict[str, Any]:
    spec: dict[str, Any] = only("NetworkPolicy", values | {"networkPolicy": {"enabled": True}})["spec"]
    return spec


def ports(values: Values) -> list[int]:
    """Return the TCP ports that may be connected to anywhere, without name look-ups."""
    rules = [rule for rule in policy(values)["egress"] if "to" not in rule]
    return [port["port"] for rule in rules[1:] for port in rule["ports"]]


def test_a_policy_closes_both_directions() -> None:
    spec = policy({})
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
    # OpenShift's DNS pods listen on 5353, and its policies see the port behind the Service.
    assert sorted((port["port"], port["protocol"]) for port in spec["egress"][0]["ports"]) == [
        *((53, "TCP"), (53, "UDP")),
        *((5353, "TCP"), (5353, "UDP")),
    ]
    assert spec["podSelector"]["matchLabels"].items() <= pod({})["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [443]),
        ({"wandb": {"base_url": "https://wandb.example.org"}}, [443]),
        ({"wandb": {"base_url": "http://wandb.example.org:8080"}}, [443, 8080]),
        ({"sites": {"a": {"scheduler": "iris", "controller": "http://10.0.0.5:10000"}}}, [10000, 443]),
        ({"sites": {"a": {"scheduler": "iris", "controller": "http://controller"}}}, [443, 80]),
        ({"sites": {"a": {"scheduler": "iris", "controller": "https://[fd00::1]:7000/x"}}}, [443, 7000]),
        ({"sites": {"a": {"scheduler": "kubernetes"}}}, [443, 6443]),
        ({"sites": {"a": {"scheduler": "slurm", "timezone": "UTC"}}}, [443]),
        ({"sites": {"a": {"scheduler": "slurm", "timezone": "UTC", "command_prefix": ["ssh", "x"]}}}, [22, 443]),
    ],
)
def test_a_policy_opens_what_the_config_needs(config: Values, expected: list[int]) -> None:
    assert sorted(ports({"config": config})) == sorted(expected)


def test_the_metadata_server_is_open_only_for_google_storage() -> None:
    assert all("to" not in rule for rule in policy({})["egress"])
    opened = [rule for rule in policy({"config": CONFIG})["egress"] if "to" in rule]
    blocks = [each["ipBlock"]["cidr"] for rule in opened for each in rule["to"]]
    assert blocks
    assert all(re.fullmatch(r"169\.254\.169\.25[24]/32", block) for block in blocks)


def test_who_may_scrape_and_what_else_is_open_are_values() -> None:
    spec = only("NetworkPolicy", EVERYTHING)["spec"]
    assert spec["ingress"][0]["from"] == EVERYTHING["networkPolicy"]["ingressFrom"]
    assert spec["egress"][-1] == EVERYTHING["networkPolicy"]["extraEgress"][0]
    assert 8443 in [port["port"] for rule in spec["egress"] for port in rule.get("ports", [])]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"maxUnavailable": "30%"}, {"maxUnavailable": "30%"}),
        ({"minAvailable": 2}, {"minAvailable": 2}),
        ({"minAvailable": 0}, {"minAvailable": 0}),
    ],
)
def test_the_disruption_budget(budget: Values, expected: Values) -> None:
    spec = only("PodDisruptionBudget", {"podDisruptionBudget": {"enabled": True, **budget}})["spec"]
    assert {key: value for key, value in spec.items() if key != "selector"} == expected
    assert spec["selector"]["matchLabels"].items() <= pod({})["metadata"]["labels"].items()
