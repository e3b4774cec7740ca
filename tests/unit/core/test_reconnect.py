"""How long a client waits before it opens a stream again, and which tools it remembers for their headers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import MAX_DELAY, MAX_RETRY, MAX_TOOLS, MIN_DELAY, HeaderMark, MarkedTools, Reconnect


def delays(retry: int | None, count: int, *, failed: bool = True, chance: float = 0.0) -> list[float]:
    reconnect = Reconnect()
    return [reconnect.next_delay(retry, failed=failed, chance=chance) for _ in range(count)]


def test_pauses_double_up_to_a_cap() -> None:
    assert delays(None, 9) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert delays(None, 3, chance=1.0) == pytest.approx([0.6, 1.2, 2.4])
    assert delays(None, 3, failed=False) == [
        0.5,
        1,
        2,
    ]  # a server that ends a stream at once is not run in circles


def test_what_the_server_asks_for_is_the_least() -> None:
    """2025-11-25, basic/transports: "The client MUST respect the `retry` field"."""
    assert delays(500, 3) == [0.5, 1, 2]
    assert delays(5_000, 4) == [5, 10, 20, 30]
    assert delays(45_000, 3) == [45, 45, 45]


def test_what_the_server_asks_for_is_kept_to_within_reason() -> None:
    """It may ask for no wait at all, or for one without end; both would be the end of listening."""
    assert delays(600_000, 3) == [MAX_RETRY] * 3
    assert [Reconnect(900).next_delay(600_000, failed=True, chance=0)] == [600]
    first, *rest = delays(0, 12)
    assert first == MIN_DELAY
    assert rest[-1] == 30


@given(st.none() | st.integers(0, 10**15), st.integers(1, 5000), st.floats(0, 1))
def test_a_pause_is_finite_and_never_too_short(retry: int | None, attempts: int, chance: float) -> None:
    """Whatever the server asks for, and however often."""
    for delay in delays(retry, min(attempts, 50), chance=chance):
        assert math.isfinite(delay)
        assert delay >= min((retry or 0) / 1000, MAX_RETRY)
        assert MIN_DELAY <= delay <= 1.2 * max(MAX_DELAY, MAX_RETRY)


def test_a_message_is_a_fresh_start() -> None:
    reconnect = Reconnect()
    for _ in range(5):
        reconnect.next_delay(None, failed=True, chance=0)
    assert reconnect.failures == 5
    reconnect.received()
    assert reconnect.failures == 0
    assert reconnect.next_delay(None, failed=True, chance=0) == 0.5
    reconnect.next_delay(None, failed=False, chance=0)
    assert reconnect.failures == 0


def tool(name: Any, header: str | None, kind: str = "string") -> dict[str, Any]:
    mark = {} if header is None else {"x-mcp-header": header}
    return {"name": name, "inputSchema": {"properties": {"a": {"type": kind, **mark}}}}


def call(name: object) -> dict[str, Any]:
    return {"name": name, "arguments": {}}


def test_tools_are_remembered_as_they_were_listed_last() -> None:
    """A tool may gain, change and lose its marks."""
    tools = MarkedTools(1 << 24)
    assert tools.marks_of("tools/call", call("t")) == ()
    assert tools.learn({"tools": [tool("t", "A")]}) == []
    assert tools.marks_of("tools/call", call("t")) == (HeaderMark("A", ("a",)),)
    assert tools.marks_of("prompts/get", call("t")) == ()
    for params in (None, {}, call(7), call("u")):
        assert tools.marks_of("tools/call", params) == ()
    tools.learn({"tools": [tool("t", "B")]})
    assert tools.marks_of("tools/call", call("t")) == (HeaderMark("B", ("a",)),)
    tools.learn({"tools": [tool("t", None)]})
    assert tools.marks_of("tools/call", call("t")) == ()


def test_invalid_tools_are_taken_out_and_the_rest_stays() -> None:
    """2026-07-28, basic/transports/streamable-http: "does not prevent other valid tools from being used"."""
    tools = MarkedTools(1 << 24)
    result = {
        "tools": [tool("a", "A"), tool("b", ""), tool("c", "C", "number"), tool("d", None)],
        "nextCursor": "x",
    }
    problems = tools.learn(result)
    assert [each["name"] for each in result["tools"]] == ["a", "d"]  # type: ignore[index]  # pyright: ignore[reportArgumentType]
    assert [problem.split("'")[1] for problem in problems] == ["b", "c"]
    assert result["nextCursor"] == "x"


def test_what_is_no_tool_is_left_to_others(subtests: pytest.Subtests) -> None:
    """The types are checked elsewhere."""
    cases: list[Any] = [None, {}, 7, [None], [7], [{}], [{"name": 7, "inputSchema": {}}], [{"name": "t"}]]
    for tools in cases:
        with subtests.test(tools=tools):
            result = {"tools": tools}
            assert MarkedTools(1 << 24).learn(result) == []
            assert result == {"tools": tools}
            assert MarkedTools(1 << 24).learn({}) == []


def test_the_memory_for_tools_is_bounded() -> None:
    """Promise 10: those that were seen first go first."""
    tools = MarkedTools(1 << 24)
    tools.learn({"tools": [tool(str(n), "A") for n in range(MAX_TOOLS + 5)]})
    assert tools.marks_of("tools/call", call("4")) == ()
    assert tools.marks_of("tools/call", call("5")) != ()


def test_the_marks_of_tools_are_bounded_in_bytes() -> None:
    """Promise 10: the names of the properties come from the server, and may be as long as a message."""
    tools = MarkedTools(100_000)
    for number in range(10):
        tools.learn({"tools": [tool(f"{number}{'x' * 10_000}", "A")]})
    known = [number for number in range(10) if tools.marks_of("tools/call", call(f"{number}{'x' * 10_000}"))]
    assert known == [8, 9]
