"""YAML text to a tree in which every value knows its file, line and key.

Only YAML's plain types are read (`yaml.SafeLoader`), and depth, size and the expansion of aliases are bounded, so no
text can exhaust the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from runwatch.config.faults import Fault, shown
from runwatch.parsing.yaml_faults import told

MAXIMUM_DEPTH = 32
MAXIMUM_VALUES = 200_000
_LONGEST_NUMBER = 400

_PREFIX = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({_PREFIX + "str", _PREFIX + "value"})
_CONSTRUCTED_TAGS = frozenset(_PREFIX + name for name in ("int", "float", "bool", "null"))
_BARE_KEY = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class DateValue:
    """A value that YAML reads as a date; no key of the config takes one, so it only has to be told from text."""

    text: str


Scalar = str | int | float | bool | DateValue | None


@dataclass(slots=True, eq=False)
class Entry:
    """One value of the file. `value` holds entries where it is a mapping or a list; `written` is a scalar's text."""

    file: str
    line: int
    parent: Entry | None
    name: str | int
    value: dict[str, Entry] | list[Entry] | Scalar = None
    written: str = ""

    @property
    def key(self) -> str:
        """The way to the value from the top of the file, such as `jobs[1].bucket`; empty for the file itself."""
        if self.parent is None:
            return ""
        before = self.parent.key
        if isinstance(self.name, int):
            return f"{before}[{self.name}]"
        name = self.name if _BARE_KEY.fullmatch(self.name) else json.dumps(self.name[:80], ensure_ascii=False)
        return f"{before}.{name}" if before else name

    def fault(self, message: str) -> Fault:
        """Return a fault at this value."""
        return Fault(self.file, self.line, self.key, message)

    def get(self, name: str) -> Entry | None:
        """Return the named value of a mapping, or None where there is none (also when this is no mapping)."""
        return self.value.get(name) if isinstance(self.value, dict) else None

    def text(self, name: str) -> str | None:
        """Return the named value of a mapping where it is text, else None."""
        entry = self.get(name)
        return entry.value if entry is not None and isinstance(entry.value, str) else None

    def named(self) -> dict[str, Entry]:
        """Return the values of a mapping by name; empty when this is no mapping."""
        return self.value if isinstance(self.value, dict) else {}

    def listed(self, name: str) -> list[Entry]:
        """Return the values of the named list; empty where there is none."""
        entry = self.get(name)
        return entry.value if entry is not None and isinstance(entry.value, list) else []

    def plain(self) -> object:
        """Return the value as plain dictionaries, lists and scalars."""
        if isinstance(self.value, dict):
            return {name: entry.plain() for name, entry in self.value.items()}
        if isinstance(self.value, list):
            return [entry.plain() for entry in self.value]
        return self.value

    def at(self, location: tuple[str | int, ...]) -> Entry:
        """Return the value at a location, or the last one on the way that exists.

        The number 0 is passed over at a mapping: one mapping may stand where a list of them is meant.
        """
        entry = self
        for part in location:
            if isinstance(entry.value, dict) and part in entry.value:
                entry = entry.value[str(part)]
            elif isinstance(entry.value, list) and isinstance(part, int) and part < len(entry.value):
                entry = entry.value[part]
            elif not (isinstance(entry.value, dict) and part == 0):
                break
        return entry


class _BoundedLoader(yaml.SafeLoader):
    """The safe loader with a limit on depth: its composer calls itself for each level."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node.

        Raises:
            yaml.composer.ComposerError: the node lies too deep.
        """
        if self.depth >= MAXIMUM_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAXIMUM_DEPTH} levels", mark)
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a scalar; a long one is text (YAML's expressions for numbers take quadratic time)."""
        if kind is yaml.ScalarNode and len(value) > _LONGEST_NUMBER:
            return _PREFIX + "str"
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


class _TooLargeError(Exception):
    """The tree is too deep or has too many values once its aliases are expanded."""


class _Builder:
    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self._values = 0
        self._resolver = _BoundedLoader("")

    def build(self, node: yaml.Node, parent: Entry | None, name: str | int, line: int, depth: int = 0) -> Entry:
        self._values += 1
        if self._values > MAXIMUM_VALUES:
            raise _TooLargeError(f"more than {MAXIMUM_VALUES} values once aliases are expanded")
        if depth > MAXIMUM_DEPTH:
            raise _TooLargeError(f"nested deeper than {MAXIMUM_DEPTH} levels once aliases are expanded")
        entry = Entry(self.file, line, parent, name)
        if isinstance(node, yaml.MappingNode):
            self._plain_tag(node, "map", entry)
            entry.value = self._mapping(node, entry, depth)
        elif isinstance(node, yaml.SequenceNode):
            self._plain_tag(node, "seq", entry)
            children: list[Entry] = []
            entry.value = children
            for index, child in enumerate(node.value):
                children.append(self.build(child, entry, index, _line(child), depth + 1))
        else:
            entry.written = node.value
            entry.value = self._scalar(node, entry)
        return entry

    def _plain_tag(self, node: yaml.Node, kind: str, entry: Entry) -> None:
        if node.tag != _PREFIX + kind:
            self.faults.append(entry.fault(f"tags are not read: remove {shown(node.tag.replace(_PREFIX, '!!'))}"))

    def _mapping(self, node: yaml.MappingNode, entry: Entry, depth: int) -> dict[str, Entry]:
        if depth > MAXIMUM_DEPTH:
            raise _TooLargeError(f"nested deeper than {MAXIMUM_DEPTH} levels once aliases are expanded")
        found: dict[str, Entry] = {}
        merged: list[dict[str, Entry]] = []
        for key_node, value_node in node.value:
            if key_node.tag == _PREFIX + "merge":
                merged.extend(self._merged(value_node, entry, depth))
                continue
            key = self._key(key_node, entry)
            if key is None:
                continue
            child = self.build(value_node, entry, key, _line(key_node), depth + 1)
            if key in found:
                self.faults.append(child.fault(f"duplicate key, first given on line {found[key].line}"))
                continue
            found[key] = child
        # What is written here wins over what is merged, and an earlier merge over a later one.
        for values in merged:
            for key, child in values.items():
                found.setdefault(key, child)
        return found

    def _merged(self, node: yaml.Node, entry: Entry, depth: int) -> Iterator[dict[str, Entry]]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else (node,):
            if isinstance(source, yaml.MappingNode):
                yield self._mapping(source, entry, depth + 1)
            else:
                message = "expected a mapping, or a list of mappings, to merge with <<"
                self.faults.append(Fault(self.file, _line(source), entry.key, message))

    def _key(self, node: yaml.Node, entry: Entry) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            message = "expected a name as the key, got a list or a mapping"
            self.faults.append(Fault(self.file, _line(node), entry.key, message))
            return None
        key: str = node.value
        holder = Entry(self.file, _line(node), entry, key)
        if node.tag in _TEXT_TAGS:
            return key if self._is_unicode(key, holder) else None
        self.faults.append(holder.fault(f'expected a name as the key: write "{key[:80]}" in quotes'))
        return None

    def _scalar(self, node: yaml.Node, entry: Entry) -> Scalar:
        text: str = node.value
        if node.tag in _TEXT_TAGS:
            return text if self._is_unicode(text, entry) else "-"
        meant = self._resolver.resolve(yaml.ScalarNode, text, (True, False))
        if node.tag != meant:
            self._plain_tag(node, "str", entry)
            return text
        if node.tag in _CONSTRUCTED_TAGS:
            try:
                value: Scalar = self._resolver.construct_object(node)
            except (ValueError, OverflowError):
                self.faults.append(entry.fault(f"expected a number or text in quotes, got {shown(text)}"))
                return text
            return value
        return DateValue(text)

    def _is_unicode(self, text: str, entry: Entry) -> bool:
        if not any("\ud800" <= character <= "\udfff" for character in text):
            return True
        self.faults.append(entry.fault(f"not valid Unicode: {shown(text)}"))
        return False


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def read_tree(text: str, file: str) -> tuple[Entry | None, list[Fault]]:
    """Read YAML text.

    Args:
        text: The text of one YAML document.
        file: The name that faults carry.

    Returns:
        The tree and the faults of its form (duplicate keys, tags, keys that are no text). The tree is None where the
        text is not YAML, is empty, or is over the limits: then there is exactly one fault.
    """
    try:
        loader = _BoundedLoader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [Fault(file, line, "", f"not YAML: the character U+{ord(text[error.position]):04X}")]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return None, [Fault(file, mark.line + 1 if mark else None, "", f"not YAML: {told(error)}")]
    except (ValueError, OverflowError):
        # The scanner turns \U escapes into characters without looking whether there is such a character.
        return None, [Fault(file, loader.line + 1, "", "not YAML: an escape names no Unicode character")]
    if node is None:
        return None, [Fault(file, 1, "", "the file is empty")]
    builder = _Builder(file)
    try:
        return builder.build(node, None, "", _line(node)), builder.faults
    except _TooLargeError as error:
        return None, [Fault(file, _line(node), "", str(error))]
