"""Walks PromQL that `promql-parser` has read: the selectors of an expression, its divisions, its lists of labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from promql_parser import (
    AggregateExpr,
    BinaryExpr,
    Call,
    MatrixSelector,
    NumberLiteral,
    ParenExpr,
    SubqueryExpr,
    UnaryExpr,
    VectorSelector,
)
from promql_parser import parse as parse_promql


@dataclass(frozen=True)
class Selector:
    """A metric's name and the labels that it is selected by."""

    name: str
    labels: tuple[str, ...]


def parse(expression: str) -> object:
    """Return the tree of an expression.

    Raises:
        ValueError: it is no PromQL.
    """
    return parse_promql(expression)


def nodes(tree: object) -> Iterator[object]:
    """Yield an expression and all that it is made of."""
    yield tree
    for child in _children(tree):
        yield from nodes(child)


def _children(tree: object) -> list[object]:
    if isinstance(tree, BinaryExpr):
        return [tree.lhs, tree.rhs]
    if isinstance(tree, AggregateExpr):
        return [tree.expr] + ([tree.param] if tree.param is not None else [])
    if isinstance(tree, ParenExpr | UnaryExpr | SubqueryExpr):
        return [tree.expr]
    if isinstance(tree, MatrixSelector):
        return [tree.vector_selector]
    if isinstance(tree, Call):
        return list(tree.args)
    return []


def selectors(expression: str) -> list[Selector]:
    """Return every selector of an expression."""
    return [
        Selector(node.name, tuple(matcher.name for matcher in node.matchers.matchers))
        for node in nodes(parse(expression))
        if isinstance(node, VectorSelector)
    ]


def named_labels(expression: str) -> set[str]:
    """Return the labels that aggregations and matchings of an expression name."""
    found: set[str] = set()
    for node in nodes(parse(expression)):
        if isinstance(node, AggregateExpr) and node.modifier is not None:
            found |= set(node.modifier.labels)
        if isinstance(node, BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            found |= set(node.modifier.matching.labels)
    return found


def unguarded_divisions(expression: str) -> list[str]:
    """Return every divisor of an expression that may be zero: one that is neither a number nor filtered by `> 0`."""
    return [
        str(node.rhs)
        for node in nodes(parse(expression))
        if isinstance(node, BinaryExpr) and str(node.op) in {"/", "%"} and not _never_zero(node.rhs)
    ]


def _never_zero(divisor: object) -> bool:
    while isinstance(divisor, ParenExpr):
        divisor = divisor.expr
    if isinstance(divisor, NumberLiteral):
        return divisor.val != 0
    return (
        isinstance(divisor, BinaryExpr)
        and str(divisor.op) == ">"
        and isinstance(divisor.rhs, NumberLiteral)
        and divisor.rhs.val >= 0
    )
