"""How things look: harmless, and within the width of the terminal."""

from __future__ import annotations

from typing import Any

from inside_parsers import signature_of
from processor_time import costs_of


def test_the_parameters_of_a_tool_are_shown_in_time_by_their_number() -> None:
    def schema_of(size: int) -> dict[str, Any]:
        names = [f"n{number}" for number in range(size)]
        return {"properties": {key: {} for key in names}, "required": [*reversed(names), 5, {}]}

    assert signature_of("a", {"properties": {"b": {}, "c": {}}, "required": ["c", 5, []]}) == "a(b?, c)"
    small, large = schema_of(1_000), schema_of(8_000)
    once, more = costs_of(lambda: signature_of("a", small), lambda: signature_of("a", large))
    assert more < 24 * once
