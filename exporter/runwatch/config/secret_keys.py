"""Keys that would hold a secret: none is ever a value in the config."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runwatch.config.faults import Fault
from runwatch.config.tree import Entry

_SECRET = re.compile(r"(?:^|[_.-])(?:api[_-]?key|key|token|password|passwd|secret|credentials?|bearer)$")


def is_secret(entry: Entry) -> bool:
    """Tell whether the key's name says that its value is a secret, and a value is given."""
    if not isinstance(entry.name, str) or entry.value is None or isinstance(entry.value, dict):
        return False
    # apiKey and API-KEY are api_key.
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", entry.name[:200]).lower()
    return _SECRET.search(name) is not None


def secret_faults(entry: Entry) -> Iterator[Fault]:
    """Find secrets given as values, anywhere below the entry. Their values are never repeated."""
    if is_secret(entry):
        keys = "token_file or token_command" if entry.key.startswith("sites.") else "api_key_file or api_key_env"
        yield entry.fault(f"secrets are never values here: use {keys}")
        return
    children = entry.value if isinstance(entry.value, list) else entry.named().values()
    for child in children:
        yield from secret_faults(child)
