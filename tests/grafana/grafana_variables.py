"""Finds Grafana's variables in a text, and puts values in their place as Grafana does before it sends a query."""

from __future__ import annotations

import re
from collections.abc import Mapping

# `$1` is a group of label_replace, which Grafana leaves alone.
_VARIABLE = re.compile(r"\$([a-zA-Z_]\w*)|\$\{(\w+)(?:[.:][^}]*|\[[^\]]*\][^}]*)?\}|\[\[(\w+)(?::\w+)?\]\]")

VALUES = {
    "__interval": "1m",
    "__interval_ms": "60000",
    "__rate_interval": "5m",
    "__range": "1h",
    "__range_s": "3600",
    "__range_ms": "3600000",
    "__from": "1700000000000",
    "__to": "1700003600000",
}
"""What Grafana itself fills into every query."""

OF_LINKS = {"__url_time_range", "__all_variables", "__data", "__value", "__field", "__series", "__from", "__to"}
"""What Grafana itself fills into every link."""


def variable_names(text: str) -> set[str]:
    """Return the names of the variables that a text refers to, in any of Grafana's three spellings."""
    return {next(filter(None, match.groups())) for match in _VARIABLE.finditer(text)}


def filled(text: str, values: Mapping[str, str] | None = None) -> str:
    """Return a query with a value in the place of each variable: of `values`, else `x`."""
    known = {**VALUES, **(values or {})}

    def value(match: re.Match[str]) -> str:
        return known.get(next(filter(None, match.groups())), "x")

    return _VARIABLE.sub(value, text)
