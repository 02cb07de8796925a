"""What is wrong with an object by the API's own schema."""

from __future__ import annotations

import functools
import json

import kubernetes_validate  # type: ignore[import-untyped]
import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from tests.helm.chart_rendering import CRD_GROUP, TOP, Manifest

OLDEST = "1.25"
"""The oldest Kubernetes that kubernetes-validate has schemas of."""

_CRDS = TOP / "tests" / "data" / "kubernetes_crds" / "monitoring.coreos.com_v1.yaml"


@functools.cache
def _crds() -> Manifest:
    schemas: Manifest = yaml.safe_load(_CRDS.read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schemas)
    return schemas


def faults(manifest: Manifest) -> tuple[str, ...]:
    """Return what the schemas say against an object, unknown fields too; empty where it is right."""
    return _faults(json.dumps(manifest, sort_keys=True))


@functools.cache
def _faults(text: str) -> tuple[str, ...]:
    manifest: Manifest = json.loads(text)
    if manifest["apiVersion"] == CRD_GROUP:
        schema = {**_crds(), "$ref": f"#/definitions/{manifest['kind']}"}
        return tuple(f"{fault.json_path}: {fault.message}" for fault in Draft7Validator(schema).iter_errors(manifest))
    found = []
    for version in (OLDEST, kubernetes_validate.latest_version()):
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{version}: {error.json_path}: {error.message}")
    return tuple(found)
