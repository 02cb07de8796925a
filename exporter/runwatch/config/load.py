"""Reading the config: every fault in one go, each with its file, line and key."""

from __future__ import annotations

from pathlib import Path

from runwatch.config.faults import ConfigError, Fault
from runwatch.config.model import Config
from runwatch.config.notices import warnings
from runwatch.config.paths import resolve_paths
from runwatch.config.schema import schema_faults
from runwatch.config.semantics import semantic_faults
from runwatch.config.tree import Entry, read_tree
from runwatch.parsing.benign import read_patterns
from runwatch.server.web_config import WebConfigError, load_web_config, tls_context

__all__ = ["ConfigError", "Fault", "check", "load_config", "warnings"]

MAXIMUM_BYTES = 16 * 1024 * 1024


def load_config(path: Path) -> Config:
    """Read a config. Relative paths in it start at its folder and are absolute afterwards.

    Raises:
        ConfigError: the file cannot be read, or holds one fault or more.
    """
    config, _, faults = _read(path)
    if config is None or faults:
        raise ConfigError(faults)
    return config


def check(path: Path) -> tuple[Config | None, tuple[Fault, ...], tuple[Fault, ...]]:
    """Read a config and return it (None when it has a fault), its faults and the warnings about it."""
    config, root, faults = _read(path)
    if config is None or faults:
        return None, faults, ()
    return config, (), warnings(config, root)


def _read(path: Path) -> tuple[Config | None, Entry | None, tuple[Fault, ...]]:
    root, faults = _read_file(path, str(path))
    if root is None:
        return None, None, tuple(faults)
    if not isinstance(root.value, dict):
        return None, root, (root.fault("expected a mapping with keys such as jobs and sites"), *faults)
    resolve_paths(root, path.parent.absolute())
    config, type_faults = schema_faults(root)
    faults += [*type_faults, *semantic_faults(root), *_web_config_faults(root), *_benign_faults(root)]
    # Two checks may come to one conclusion; each is told once, in the order of the file.
    in_order = sorted(dict.fromkeys(faults), key=lambda fault: fault.line or 0)
    return config, root, tuple(in_order)


def _read_file(path: Path, name: str) -> tuple[Entry | None, list[Fault]]:
    try:
        with path.open("rb") as file:
            content = file.read(MAXIMUM_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return None, [Fault(name, None, "", f"cannot be read: {reason}")]
    if len(content) > MAXIMUM_BYTES:
        return None, [Fault(name, None, "", f"larger than {MAXIMUM_BYTES // 1024 // 1024} MiB")]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return None, [Fault(name, line, "", f"expected UTF-8, got the byte 0x{content[error.start]:02X}")]
    return read_tree(text, name)


def _web_config_faults(root: Entry) -> list[Fault]:
    entry = root.get("web_config")
    if entry is None or not isinstance(entry.value, str) or not entry.value or "\0" in entry.value:
        return []
    try:
        web_config = load_web_config(Path(entry.value))
        if web_config.tls is not None:
            tls_context(web_config.tls)
    except WebConfigError as error:
        return [entry.fault(str(error))]
    return []


def _benign_faults(root: Entry) -> list[Fault]:
    entry = root.get("benign_lines")
    if entry is None or not isinstance(entry.value, str) or not entry.value or "\0" in entry.value:
        return []
    try:
        read_patterns(Path(entry.value))
    except ConfigError as error:
        return list(error.faults)
    return []
