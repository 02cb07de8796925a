"""Chips that the pods of a gang ask for, and their type, read from pod specs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runwatch.parsing import kubernetes_fields as fields
from runwatch.parsing.kubernetes_fields import Json

CHIP_RESOURCES = ("nvidia.com/gpu", "google.com/tpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")
"""Extended resources that count whole chips. Shares of a chip (`nvidia.com/mig-*`) are no chips."""

TYPE_LABELS = (
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
)
"""Labels of nodes that name the type of their chips, where a pod selects its nodes by them."""


@dataclass(frozen=True, slots=True)
class Chips:
    """How many chips, and their type; empty where the specs name none or more than one."""

    count: int
    type: str


def chips_of(specs: Iterable[tuple[int, Json]]) -> Chips:
    """Add up the chips of pods.

    Args:
        specs: how many pods there are of each pod spec.
    """
    total = 0
    types: set[str] = set()
    for pods, spec in specs:
        a_pod = _chips_of_pod(spec)
        total += pods * a_pod
        if pods and a_pod:
            types.add(_type(spec))
    return Chips(total, types.pop() if len(types) == 1 else "")


def asks_for_chips(container: Json) -> bool:
    """Whether a container asks for at least one chip."""
    return _chips_of_container(container) > 0


def _chips_of_pod(spec: Json) -> int:
    """Containers run beside each other, set-up containers one after the other before them."""
    together = sum(_chips_of_container(container) for container in fields.items(spec, "containers"))
    before = [_chips_of_container(container) for container in fields.items(spec, "initContainers")]
    return max([together, *before])


def _chips_of_container(container: Json) -> int:
    asked = {**fields.mapping(container, "resources", "requests"), **fields.mapping(container, "resources", "limits")}
    return sum(_quantity(asked.get(resource)) for resource in CHIP_RESOURCES)


def _quantity(value: object) -> int:
    """Extended resources are whole numbers, written as text or as a number."""
    written = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(written) if written.isascii() and written.isdigit() else 0


def _type(spec: Json) -> str:
    for key in TYPE_LABELS:
        chosen = fields.mapping(spec, "nodeSelector").get(key)
        if isinstance(chosen, str):
            return chosen
    terms = fields.items(
        spec,
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    named = {
        tuple(values)
        for term in terms
        for wish in fields.items(term, "matchExpressions")
        if fields.text(wish, "key") in TYPE_LABELS
        and fields.text(wish, "operator") == "In"
        and isinstance(values := wish.get("values"), list)
    }
    only = named.pop() if len(named) == 1 else ()
    return only[0] if len(only) == 1 and isinstance(only[0], str) else ""
