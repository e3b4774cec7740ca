"""Checking values against untrusted schemas: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from inside_schema import (
    MAX_BACKTRACKS,
    MAX_NODES,
    SchemaCost,
    SchemaValidator,
    UnusableSchema,
    measure,
)


def test_a_schema_with_too_many_nodes_is_refused() -> None:
    names = {f"n{i}": {"$ref": "#/$defs/a"} for i in range(100)}
    measure({"properties": names, "$defs": {"a": {"properties": {str(i): True for i in range(90)}}}})
    with pytest.raises(UnusableSchema, match=rf"properties: .* {MAX_NODES} nodes"):
        measure({"properties": names, "$defs": {"a": {"properties": {str(i): True for i in range(110)}}}})


VALUES: dict[str, Any] = {
    "number": 5,
    "mixed": [1, 2, {"a": 3}],
    "deep": [[[[]]]],
    "text": ["abc"],
    "long": "x" * (3 * 1_024 + 5),
    "alike": [[1], [2]],
    "far": [1e308, -5e-324, 2**1000],
}


def test_the_work_that_a_value_makes_is_foreseen(subtests: pytest.Subtests) -> None:
    cases: list[tuple[SchemaCost, str, int]] = [
        (SchemaCost(1), "number", 1),
        (SchemaCost(1), "mixed", 5),
        (SchemaCost(10), "mixed", 50),
        (SchemaCost(1), "deep", 4),
        (SchemaCost(1, per_character=10), "mixed", 5 + 10),
        (SchemaCost(1, per_character=10), "text", 2 + 10 * 3),
        (SchemaCost(5), "long", 5 + 5 * 3),
        (SchemaCost(1, divisions=2), "mixed", 5 + 3 * 2 * 3_000),
        (SchemaCost(1, divisions=2), "far", 4 + 2 * 3 * 3_000 + 1_001 * 2_001 // 4_000),
        (SchemaCost(1, per_character=10, backtracks=True), "text", 2 + 30 * ((3 + MAX_BACKTRACKS) // 2)),
        (SchemaCost(1, keywords={"uniqueItems"}), "mixed", 5),
        (SchemaCost(1, keywords={"uniqueItems"}), "alike", 5 + 2 * 32 * 5 // 64),
    ]
    for cost, name, checks in cases:
        with subtests.test(cost=cost, name=name):
            value = VALUES[name]
            assert cost.steps(value, 1_000_000) == checks
            assert cost.steps(value, checks - 1) > checks - 1


HONEST: dict[str, Callable[[], tuple[dict[str, Any], object]]] = {
    "orders": lambda: (
        {"items": {"required": ["id"], "properties": {f"p{i}": {"type": "string"} for i in range(30)}}},
        [{"id": "x", **{f"p{i}": "abc" for i in range(30)}}] * 2_000,
    ),
    "addresses": lambda: (
        {
            "items": {
                "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
            }
        },
        [f"somebody.{i}@example.com" for i in range(50)],
    ),
    "words": lambda: ({"uniqueItems": True, "items": {"type": "string"}}, [str(i) for i in range(100_000)]),
    "points": lambda: ({"uniqueItems": True}, [{"x": i, "y": i} for i in range(1_000)]),
    "numbers": lambda: ({"uniqueItems": True, "items": {"maximum": 2**52}}, list(range(100_000))),
    "countries": lambda: ({"items": {"enum": [f"c{i}" for i in range(250)]}}, ["c7"] * 100_000),
    "moments": lambda: (
        {"items": {"pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})$"}},
        ["2026-07-28T12:30:00Z"] * 5_000,
    ),
    "prices": lambda: ({"items": {"multipleOf": 0.01}}, [19.99] * 5_000),
    "stamps": lambda: ({"items": {"multipleOf": 1_000}}, [1_795_000_000_000_000_000] * 5_000),
    "text": lambda: ({"pattern": r"^\S"}, "word " * 100_000),
}


def test_what_is_usual_is_checked_however_much_it_is(subtests: pytest.Subtests) -> None:
    """An estimate that refuses honest results protects nobody."""
    for name in HONEST:
        with subtests.test(name):
            schema, value = HONEST[name]()
            SchemaValidator(schema, max_bytes=256 * 1024).check(value)


MEAGRE = """
import resource, sys
from trio_mcp._schema import InvalidValue
from trio_mcp._schema._validator import SchemaValidator
alternatives = {"anyOf": [{"maxLength": i} for i in range(1_000)]}
SchemaValidator({"type": "array", **alternatives}, max_bytes=100_000).check([])
text, numbers = "x" * 8_000_000, [1] * 1_000_000
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 128 * 2**20,) * 2)
for schema, value in (alternatives, text), ({"items": {"type": "string"}}, numbers), (alternatives, [text]):
    try:
        SchemaValidator(schema, max_bytes=100_000).check(value)
    except InvalidValue as error:
        print(len(str(error)) < 4_000)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads /proc, and needs a limit of address space"
)
def test_to_say_what_is_wrong_takes_no_memory_out_of_proportion() -> None:
    """17 KB of a server's schema and 8 MB of its text ended the process of a client: each error held the text."""
    done = subprocess.run(
        [sys.executable, "-c", MEAGRE], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n", "")
