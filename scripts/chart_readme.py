"""Writes the table of values in the chart's README.md from the comments of its values.yaml.

    python scripts/chart_readme.py            # writes the table anew
    python scripts/chart_readme.py --check    # exit code 1 when it is stale

A value is described by the comment above its key that begins with `# --`; a mapping without one is described by its
keys. A value that nothing describes is an error.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[1] / "helm" / "runwatch"
BEGIN = "<!-- Made by scripts/chart_readme.py from values.yaml: begin -->"
END = "<!-- Made by scripts/chart_readme.py from values.yaml: end -->"
_DESCRIBES = re.compile(r"\s*# -- (.*)")
_GOES_ON = re.compile(r"\s*# ?(.*)")


class UndescribedError(ValueError):
    """A value without a description, or a README.md without the marks; the message is one line."""


@dataclass(frozen=True, slots=True)
class Value:
    """One row: the key with dots between its parts, the default as JSON, and what it means."""

    key: str
    default: str
    meaning: str


def described_values(text: str) -> list[Value]:
    """Return the values of a values.yaml in its order.

    Raises:
        UndescribedError: a value has no comment that begins with `# --`, or the file is no mapping.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise UndescribedError("values.yaml: expected a mapping")
    return list(_values(root, yaml.safe_load(text), "", text.splitlines()))


def _values(
    node: yaml.MappingNode, defaults: Mapping[str, object], prefix: str, lines: Sequence[str]
) -> Iterator[Value]:
    for key_node, value_node in node.value:
        key = f"{prefix}{key_node.value}"
        line: int = key_node.start_mark.line
        default = defaults[key_node.value]
        meaning = _meaning(lines[:line])
        if meaning:
            yield Value(key, json.dumps(default, ensure_ascii=False), meaning)
        elif isinstance(value_node, yaml.MappingNode) and isinstance(default, dict) and default:
            yield from _values(value_node, default, f"{key}.", lines)
        else:
            raise UndescribedError(f"values.yaml:{line + 1}: {key}: expected a comment `# -- …` above it")


def _meaning(before: Sequence[str]) -> str:
    """Return the description that ends right above a key, empty where there is none."""
    words: list[str] = []
    for line in reversed(before):
        if first := _DESCRIBES.fullmatch(line):
            return " ".join([first[1], *reversed(words)])
        goes_on = _GOES_ON.fullmatch(line)
        if goes_on is None:
            return ""
        words.append(goes_on[1])
    return ""


def table(values: Sequence[Value]) -> str:
    """Return the values as a table in Markdown."""
    rows = [f"| `{value.key}` | `{_cell(value.default)}` | {_cell(value.meaning)} |" for value in values]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def with_table(readme: str, values_text: str) -> str:
    """Return README.md with the table between its marks made anew.

    Raises:
        UndescribedError: a value is not described, or the marks are missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UndescribedError(f"README.md: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table(described_values(values_text))}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Write README.md, or with `--check` say whether it is stale."""
    path = CHART / "README.md"
    readme = path.read_text(encoding="utf-8")
    try:
        made = with_table(readme, (CHART / "values.yaml").read_text(encoding="utf-8"))
    except UndescribedError as error:
        print(error, file=sys.stderr)
        return 2
    if "--check" in arguments:
        if made != readme:
            print(f"{path}: stale; run python scripts/chart_readme.py", file=sys.stderr)
        return int(made != readme)
    path.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
