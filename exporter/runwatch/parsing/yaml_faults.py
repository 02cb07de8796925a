"""What the YAML parser's complaints mean to who wrote the file. Nothing of what is said here is from the file."""

from __future__ import annotations

import yaml

_ADVICE = (
    ("found character '\\t'", "indent with spaces, not with tabs"),
    ("expected <block end>", "is the line indented as those that it belongs to?"),
    (
        "mapping values are not allowed here",
        "is the line indented as those that it belongs to, and is text that holds ': ' in quotes?",
    ),
    ("could not find expected ':'", "a key ends with ': '"),
    ("found unexpected end of stream", "is a quote left open?"),
    ("but found another document", "'---' begins another one: one file holds one"),
)


def advice(error: yaml.YAMLError) -> str:
    """Return what to look for, empty where the complaint is of no common kind."""
    problem = getattr(error, "problem", None) or ""
    return next((text for beginning, text in _ADVICE if problem.startswith(beginning)), "")


def told(error: yaml.MarkedYAMLError) -> str:
    """Return the complaint in one line, with the line where what it is about began, if that is another, and advice."""
    problem, context = error.problem or "", error.context or ""
    text = f"{context}, {problem}" if problem.startswith("but ") else f"{problem} {context}".strip()
    begun = _begun(error)
    if begun is not None:
        text += f" that began on line {begun}"
    return f"{text}: {hint}" if (hint := advice(error)) else text


def _begun(error: yaml.MarkedYAMLError) -> int | None:
    if error.context_mark is None or error.problem_mark is None or not (error.context or "").startswith("while "):
        return None
    line = int(error.context_mark.line)
    return line + 1 if line != error.problem_mark.line else None
