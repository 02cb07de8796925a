"""What a regular expression on job ids says about how the ids begin, so that not every job has to be listed."""

from __future__ import annotations

_SPECIAL = frozenset(".^$*+?{}[]\\|()")


def literal_beginning(pattern: str) -> str:
    """Return the text that every match of a search begins with; "" where the expression does not say.

    Only what is plain is read: `^/user/name` up to the first character with a meaning of its own.
    """
    if not pattern.startswith("^") or _has_outer_alternative(pattern):
        return ""
    literal = ""
    for index, character in enumerate(pattern[1:], start=1):
        if character in _SPECIAL:
            # What may be absent, or repeated, is no part of every match.
            return literal[:-1] if character in "*?{" else literal
        literal += character
        if index == len(pattern) - 1:
            break
    return literal


def _has_outer_alternative(pattern: str) -> bool:
    depth, escaped, in_class = 0, False, False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            return True
    return False
