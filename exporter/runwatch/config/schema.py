"""The complaints of the types in `config.model`, put into plain words."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runwatch.config.addresses import LISTEN_EXPECTED
from runwatch.config.durations import DURATION_EXPECTED
from runwatch.config.faults import Fault, did_you_mean, one_line, shown
from runwatch.config.model import Config
from runwatch.config.secret_keys import is_secret
from runwatch.config.tree import DateValue, Entry

_EXPECTED = {
    "string": "text",
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "path": "a path",
}


def schema_faults(root: Entry) -> tuple[Config | None, list[Fault]]:
    """Check the tree against the types.

    Returns:
        The config (None when there is a fault) and the faults.
    """
    try:
        return Config.model_validate(root.plain()), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    faults = [_fault(root, detail) for detail in details if not _is_told_elsewhere(root, detail)]
    return None, faults


def _is_told_elsewhere(root: Entry, detail: ErrorDetails) -> bool:
    entry = root.at(detail["loc"])
    return detail["type"] == "extra_forbidden" and is_secret(entry)


def _fault(root: Entry, detail: ErrorDetails) -> Fault:
    location = detail["loc"]
    kind = detail["type"]
    if kind == "missing":
        parent = root.at(location[:-1])
        return Fault(root.file, parent.line, Entry(root.file, 0, parent, location[-1]).key, "required, but not given")
    entry = root.at(location)
    if kind == "extra_forbidden":
        known = known_keys(location[:-1])
        close = did_you_mean(str(location[-1]), known)
        return entry.fault(f"unknown key{close or '; known: ' + ', '.join(known)}")
    return entry.fault(_message(entry, kind, detail))


def _message(entry: Entry, kind: str, detail: ErrorDetails) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "literal_error":
        words = [word for word in re.findall(r"'([^']*)'", context["expected"]) if word]
        if not isinstance(entry.value, str) and entry.written in words:
            return _in_quotes(entry)
        return f"expected one of {', '.join(words)}, got {_got(entry)}"
    if kind in {"greater_than_equal", "less_than_equal"}:
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"expected a whole number of {bound}, got {_got(entry)}"
    if kind == "value_error":
        # A number such as 1:30, which YAML reads as 90, is shown as it is written.
        return str(context["error"]) if isinstance(entry.value, str) else f"{DURATION_EXPECTED}, got {_got(entry)}"
    if kind == "string_too_short":
        return "expected text, got an empty one"
    if entry.name == "listen" and kind == "string_type":
        return f"{LISTEN_EXPECTED}, got {_got(entry)}"
    if kind in {"string_type", "path_type"} and isinstance(entry.value, bool | int | float | DateValue):
        return _in_quotes(entry)
    if kind.startswith("int_parsing") or kind in {"int_from_float", "finite_number"}:
        return f"expected a whole number, got {_got(entry)}"
    expected = _EXPECTED.get(kind.removesuffix("_type"))
    if expected is None:
        return one_line(detail["msg"])
    if entry.name == "history" and kind == "tuple_type":
        expected = "a mapping, or a list of mappings"
    # A text that stands where a mapping is meant may be a secret, and is not repeated.
    got = "text" if expected.startswith(("a mapping", "a list")) and isinstance(entry.value, str) else _got(entry)
    return f"expected {expected}, got {got}"


def _in_quotes(entry: Entry) -> str:
    if isinstance(entry.value, bool):
        read = "true" if entry.value else "false"
    else:
        read = "a date" if isinstance(entry.value, DateValue) else "a number"
    return f'write "{one_line(entry.written[:80])}" in quotes: YAML reads it as {read}'


def _got(entry: Entry) -> str:
    if isinstance(entry.value, dict):
        return "a mapping"
    if isinstance(entry.value, list):
        return "a list"
    return "nothing" if entry.value is None else shown(entry.written)


def known_keys(location: tuple[str | int, ...]) -> list[str]:
    """Return the keys that may stand in the mapping at a location of the config."""
    annotation: Any = Config
    for part in location:
        model = _model_in(annotation)
        if isinstance(part, str) and get_origin(annotation) is not dict and model is not None:
            annotation = model.model_fields[part].annotation
        else:
            annotation = model
    model = _model_in(annotation)
    return [] if model is None else list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)
