"""Whether a dashboard is one by the SDK's types: read by them and written again, nothing is lost or changed."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.grafana.dashboard_parts import Json, name_of

OF_PROMETHEUS_ANNOTATIONS = {"step", "tagKeys", "textFormat", "titleFormat", "useValueForTime"}
"""What Grafana's Prometheus data source reads of an annotation, and the SDK's type does not have."""


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                if before[key] is not None and not (
                    path.startswith("annotations.list") and key in OF_PROMETHEUS_ANNOTATIONS
                ):
                    yield f"{path}.{key} is unknown"
                continue
            yield from _differences(before[key], after[key], f"{path}.{key}" if path else key)
        return
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(*pair, f"{path}[{place}]")
        return
    if before != after:
        yield f"{path} is {before!r}, read as {after!r}"


def _is(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type as the SDK annotates them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return any(_is(value, one) for one in arguments)
    if origin is list:
        return isinstance(value, list) and all(_is(one, arguments[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is(one, arguments[1]) for one in value.values())
    if origin is typing.Literal:
        return value in arguments
    if hint in {int, float}:
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [member.value for member in hint]
    if isinstance(value, dict) and hasattr(hint, "from_json"):
        # The SDK leaves some lists of objects as they were read.
        return not list(_differences(value, json.loads(JSONEncoder().encode(hint.from_json(value))), ""))
    return hint in {object, Any} or isinstance(value, hint)


def _type_faults(value: Any, path: str) -> Iterator[str]:
    """Yield what has another type than the SDK's class says; its constructors take anything."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from _type_faults(one, f"{path}[{place}]")
        return
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _type_faults(one, f"{path}.{name}")
        return
    if not type(value).__module__.startswith("grafana_foundation_sdk.models"):
        return
    for name, hint in typing.get_type_hints(type(value)).items():
        if not hasattr(value, name):
            continue
        if not _is(getattr(value, name), hint):
            yield f"{path}.{name} is {getattr(value, name)!r}"
        yield from _type_faults(getattr(value, name), f"{path}.{name}")


def sdk_faults(dashboard: Json) -> list[str]:
    """Return what the SDK's types do not know of a dashboard, or read as something else.

    What they add to it, the defaults of what was left out, is no fault.
    """
    register_default_plugins()
    try:
        read = Dashboard.from_json(json.loads(json.dumps(dashboard)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [f"{name_of(dashboard)}: the SDK cannot read it: {error!r}"]
    written = json.loads(JSONEncoder().encode(read))
    faults = [*_differences(dashboard, written, ""), *_type_faults(read, "dashboard")]
    return [f"{name_of(dashboard)}: {fault}" for fault in faults]
