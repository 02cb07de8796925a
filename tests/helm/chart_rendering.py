"""Renders the chart with Helm's own engine, and the sets of values that its tests go through."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

TOP = Path(__file__).parents[2]
CHART_FOLDER = TOP / "helm" / "runwatch"
RELEASE = "demo"
NAMESPACE = "watch"
NAME = "demo-runwatch"
CRD_GROUP = "monitoring.coreos.com/v1"

Manifest = dict[str, Any]
Values = dict[str, Any]

SITES: Values = {
    "cluster": {"scheduler": "kubernetes", "namespace": "runs"},
    "own": {"scheduler": "kubernetes"},
    "far": {"scheduler": "kubernetes", "context": "far", "namespace": "elsewhere"},
    "marin": {"scheduler": "iris", "controller": "http://10.0.0.5:10000", "token_file": "/secrets/iris"},
    "leonardo": {"scheduler": "slurm", "command_prefix": ["ssh", "login01"], "timezone": "Europe/Rome"},
    "desk": {"scheduler": "none"},
}
CONFIG: Values = {
    "poll_interval": "30s",
    "wandb": {"api_key_file": "/secrets/wandb-api-key"},
    "sites": SITES,
    "jobs": [
        {
            "run": "delphi",
            "bucket": "sft",
            "site": "marin",
            "scheduler_job": "/u1/delphi-coord",
            "history": [{"wandb": "team/project/delphi"}, {"log": "/logs/delphi/*.log"}],
            "checkpoints": ["gs://bucket/checkpoints/delphi"],
            "config": {"max_seq_len": 1048576, "train_batch_size": 10000000, "num_train_steps": 123456789},
            "labels": {"shaping": "on", "tracker_row": "12", "note": '{{ .Values.shards }}: it\'s "here"'},
        }
    ],
    "discover": [
        {"site": "cluster", "match": "^(?P<name>train-.+)$", "bucket": "rl", "history": {"wandb": "team/rl/{name}-*"}},
        {"wandb": "team/rl", "bucket": "rl", "state": "running"},
    ],
}
EVERYTHING: Values = {
    "config": CONFIG,
    "existingSecret": "runwatch-secrets",
    "webConfig": {"existingSecret": "runwatch-web", "scheme": "HTTPS"},
    "replicas": 2,
    "image": {"registry": "registry.example.org", "repository": "ml/runwatch", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "commonLabels": {"team": "ml"},
    "serviceAccount": {"annotations": {"iam.gke.io/gcp-service-account": "watch@project.iam.gserviceaccount.com"}},
    "rbac": {"extraNamespaces": ["evals"], "annotations": {"why": "lists jobs"}},
    "service": {"type": "NodePort", "port": 80, "annotations": {"a": "b"}},
    "serviceMonitor": {
        "enabled": True,
        "namespace": "monitoring",
        "labels": {"release": "prometheus"},
        "annotations": {"a": "b"},
        "relabelings": [{"action": "replace", "targetLabel": "team", "replacement": "ml"}],
        "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "python_.*"}],
        "tlsConfig": {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}, "serverName": "runwatch"},
        "basicAuth": {"username": {"name": "auth", "key": "user"}, "password": {"name": "auth", "key": "password"}},
    },
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "tlsConfig": {"insecureSkipVerify": True}},
    "prometheusRule": {"enabled": True, "namespace": "monitoring", "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True, "annotations": {"grafana_folder": "runwatch"}, "namespace": "grafana"},
    "alertmanagerConfig": {"enabled": True, "namespace": "monitoring", "labels": {"a": "b"}},
    "networkPolicy": {
        "enabled": True,
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egressPorts": [443, 8443],
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "podDisruptionBudget": {"enabled": True, "minAvailable": "50%"},
    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "important",
    "hostAliases": [{"ip": "10.0.0.5", "hostnames": ["controller"]}],
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "extraEnv": [{"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/secrets/gcs.json"}],
    "extraEnvFrom": [{"configMapRef": {"name": "proxy"}}],
    "extraVolumes": [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs", "readOnly": True}}],
    "extraVolumeMounts": [{"name": "logs", "mountPath": "/logs", "readOnly": True}],
    "initContainers": [{"name": "wait", "image": "busybox:1", "command": ["true"]}],
    "extraContainers": [{"name": "tunnel", "image": "tunnel:1"}],
    "extraManifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}},
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-text\n",
    ],
}
MATRIX: dict[str, Values] = {
    "minimal": {},
    "everything": EVERYTHING,
    "sharded": {**EVERYTHING, "shards": 3},
    "shards-alone": {"config": CONFIG, "shards": 2, "serviceMonitor": {"enabled": True}},
    "state-claim": {"state": {"claim": {"enabled": True, "storageClassName": "fast"}}},
    "existing-secrets": {
        "existingSecret": "runwatch-secrets",
        "webConfig": {"existingSecret": "web"},
        "serviceAccount": {"create": False, "name": "mine"},
        "rbac": {"create": False},
        "config": {"sites": {"cluster": {"scheduler": "kubernetes"}}},
    },
    "no-crds": {
        "config": CONFIG,
        "dashboards": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
        "alertmanagerConfig": {"enabled": True},
    },
    "openshift": {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}},
    "cluster-wide": {"config": CONFIG, "rbac": {"clusterWide": True, "logs": False}},
}


@functools.cache
def chart() -> Chart:
    """Return the chart as Helm loads it, once a process."""
    return Chart.load(CHART_FOLDER)


def texts(values: Values | None = None, namespace: str = NAMESPACE) -> dict[str, str]:
    """Render the chart; return what is not empty by template."""
    rendered = chart().render(values or {}, name=RELEASE, namespace=namespace)
    return {path.rpartition("/")[2]: text for path, text in rendered.items() if text.strip()}


def manifests(values: Values | None = None, namespace: str = NAMESPACE) -> list[Manifest]:
    """Render the chart; return its objects in the order of the templates' names. They are shared: to be read only."""
    return list(_manifests(json.dumps(values or {}), namespace))


@functools.cache
def _manifests(values: str, namespace: str) -> tuple[Manifest, ...]:
    rendered = texts(json.loads(values), namespace)
    found = [
        yaml.load_all(text, Loader=yaml.CSafeLoader)
        for path, text in sorted(rendered.items())
        if path.endswith(".yaml")
    ]
    return tuple(manifest for documents in found for manifest in documents if manifest is not None)


def of_kind(kind: str, values: Values | None = None) -> list[Manifest]:
    """Return the rendered objects of a kind."""
    return [manifest for manifest in manifests(values) if manifest["kind"] == kind]


def only(kind: str, values: Values | None = None) -> Manifest:
    """Return the one rendered object of a kind."""
    (manifest,) = of_kind(kind, values)
    return manifest


def workload(values: Values | None = None) -> Manifest:
    """Return the first Deployment or StatefulSet."""
    return next(each for each in manifests(values) if each["kind"] in ("Deployment", "StatefulSet"))


def pod(values: Values | None = None) -> Manifest:
    """Return the template of its pods."""
    template: Manifest = workload(values)["spec"]["template"]
    return template


def container(values: Values | None = None) -> Manifest:
    """Return the exporter's container."""
    found: Manifest = next(each for each in pod(values)["spec"]["containers"] if each["name"] == "runwatch")
    return found


def config_text(values: Values | None = None) -> str:
    """Return the rendered config file."""
    made = next(each for each in of_kind("ConfigMap", values) if each["metadata"]["name"] == NAME)
    text: str = made["data"]["runwatch.yaml"]
    return text
