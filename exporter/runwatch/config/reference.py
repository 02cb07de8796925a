"""Makes `docs/config.md` from the types: `python -m runwatch.config.reference > docs/config.md`."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from runwatch.config import model
from runwatch.config.durations import format_duration, parse_duration
from runwatch.terminal import write

_SECTIONS: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("Top level", "", model.Config),
    ("`wandb`", "wandb.", model.WandbSettings),
    ("`sites`", "sites.NAME.", model.Site),
    ("`jobs`", "jobs[].", model.JobSpec),
    ("`discover`", "discover[].", model.Discovery),
    ("`history`", "history.", model.HistorySource),
    ("`trials`", "trials.", model.Trials),
    ("`config`", "config.", model.TrainerConfig),
    ("`labels`", "labels.", model.Labels),
)
_MODEL_WORDS: dict[Any, str] = {section: f"mapping ({title})" for title, _, section in _SECTIONS}
_TYPE_WORDS: dict[Any, str] = {str: "text", int: "whole number", bool: "true or false", Path: "path", float: "number"}

_INTRODUCTION = """# The config

<!-- Made by `python -m runwatch.config.reference > docs/config.md`; change `runwatch/config/model.py` instead. -->

One YAML file. `runwatch check FILE` prints every fault in it with its line and key; a key that is not listed here is a
fault.

- **Durations** are numbers with units, such as `90s`, `5m`, `2h` or `1d12h` (`ms`, `s`, `m`, `h`, `d`, `w`).
- **Relative paths** start at the folder of the config file; `~` is the home of the user that runs the exporter.
- **Secrets are never values in it**: `*_file`, `*_env` and `token_command` name where they are.
- **Text that YAML reads as something else** (`on`, `yes`, `12`, `2024-05-01`) is written in quotes.
- **Anchors, aliases and merges** (`&base`, `*base`, `<<: *base`) work.
"""


def render() -> str:
    """Return the text of `docs/config.md`."""
    return "\n".join([_INTRODUCTION, *(_section(*section) for section in _SECTIONS)])


def _section(title: str, prefix: str, section: type[BaseModel]) -> str:
    meaning = inspect.getdoc(section) or ""
    required_first = sorted(section.model_fields.items(), key=lambda item: not item[1].is_required())
    rows = [_row(prefix, name, field) for name, field in required_first]
    return "\n".join(
        [f"## {title}\n", f"{meaning}\n", "| key | type | default | meaning |", "|---|---|---|---|", *rows, ""]
    )


def _row(prefix: str, name: str, field: FieldInfo) -> str:
    # pydantic moves the validator of a duration from the type to the field, except within an optional type.
    is_duration = any(isinstance(part, BeforeValidator) and part.func is parse_duration for part in field.metadata)
    kind = "duration" if is_duration else _type(field.annotation)
    return f"| `{prefix}{name}` | {kind} | {_default(field, kind)} | {field.description or ''} |"


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation == model.Duration:
        return "duration"
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts if part)
    if origin in {Union, UnionType}:
        return " or ".join(_type(part) for part in parts if part is not NoneType)
    if origin is tuple:
        return f"{_type(parts[0])}, or list of it" if parts[0] is model.HistorySource else f"list of {_type(parts[0])}"
    if origin is dict:
        return f"mapping of name to {_type(parts[1])}"
    return _TYPE_WORDS.get(annotation) or _MODEL_WORDS[annotation]


def _default(field: FieldInfo, kind: str) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value in (None, "", (), {}) or isinstance(value, BaseModel):
        return ""
    if kind == "duration":
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    write(render())
