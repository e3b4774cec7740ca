"""The statements of a module, for tests that read source."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement, however deep, and none of the expressions, which are ten times as many."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child
            yield from statements_in(child)


def code_lines(source: str) -> int:
    """Return how many lines there are that are neither blank, nor comments, nor docstrings."""
    stripped = map(str.strip, source.splitlines())
    lines = {number for number, line in enumerate(stripped, 1) if line and not line.startswith("#")}
    for node in statements_in(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)
