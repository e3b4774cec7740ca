"""What a caller asks of a tool's result."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import ABSENT, ToolError, from_json, to_json, types
from trio_mcp.types import CallToolResult, ImageContent, TextContent, Tool, ToolResultContent, evolve

TEXT = TextContent(text="no such shelf")
MORE = (TEXT, ImageContent(data="aGk=", mime_type="image/png"), TextContent(text="try another"))


def test_a_result_says_whether_the_tool_failed_by_a_boolean() -> None:
    """Two answers to one question, not three."""
    assert CallToolResult(content=()).is_error is False
    assert CallToolResult(content=(), is_error=True).is_error is True
    assert ToolResultContent(tool_use_id="1", content=()).is_error is False
    assert CallToolResult(content=(), is_error=None).is_error is False  # what was the default before
    assert evolve(CallToolResult(content=(), is_error=True), is_error=False).is_error is False


def test_what_is_missing_reads_as_none() -> None:
    """And is told apart from null, where somebody must know."""
    given: list[dict[str, Any]] = [{}, *({"structured_content": value} for value in (None, 0, ABSENT))]
    seen = [
        (result.structured_content, result.has_structured_content)
        for kind in given
        for result in (
            CallToolResult(content=(), **kind),
            ToolResultContent(tool_use_id="1", content=(), **kind),
            evolve(CallToolResult(content=(), **kind), is_error=True),
        )
    ]
    assert seen == [(None, False)] * 3 + [(None, True)] * 3 + [(0, True)] * 3 + [(None, False)] * 3
    assert repr(CallToolResult(content=(), structured_content=None, is_error=True)) == (
        "CallToolResult(content=(), structured_content=None, is_error=True)"
    )


def test_types_have_the_functions_for_json_too() -> None:
    """Where the classes are, one looks for what writes and reads them."""
    tool = Tool(name="add", input_schema={"type": "object"})
    assert types.to_json(tool) == to_json(tool)
    assert types.to_json(tool, "2024-11-05") == to_json(tool, "2024-11-05")
    assert types.from_json(types.to_json(tool), Tool) == tool
    with pytest.raises(TypeError) as refused:
        types.to_json({"name": "add"})
    with pytest.raises(TypeError) as refused_there:
        to_json({"name": "add"})
    assert str(refused.value) == str(refused_there.value)
    with pytest.raises(ValueError) as unread:
        types.from_json({"name": 3}, Tool)
    with pytest.raises(ValueError) as unread_there:
        from_json({"name": 3}, Tool)
    assert str(unread.value) == str(unread_there.value)


def test_an_object_goes_to_json_and_back() -> None:
    """As it is sent to a peer; of the latest revision, if no other is named."""
    result = CallToolResult(content=(TEXT,), structured_content=[1], is_error=True)
    plain = to_json(result)
    assert plain == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "no such shelf"}],
        "structuredContent": [1],
        "isError": True,
    }
    assert from_json(plain, CallToolResult) == result
    assert "structuredContent" not in to_json(result, "2025-03-26")
    assert to_json(evolve(result, structured_content=None))["structuredContent"] is None
    with pytest.raises(ValueError, match=r"\Acontent: required, but missing"):
        from_json({}, CallToolResult)
    with pytest.raises(TypeError):
        to_json({"content": []})


def test_check_raises_what_the_tool_said_of_its_failure() -> None:
    """Otherwise it is the result itself, to go on with."""
    result = CallToolResult(content=(TEXT,))
    assert result.check() is result
    with pytest.raises(ToolError) as caught:
        evolve(result, content=MORE, is_error=True).check()
    assert caught.value.args == ("no such shelf\ntry another",)
    with pytest.raises(ToolError, match=r"\Athe tool failed without a message\Z"):
        CallToolResult(content=(), is_error=True).check()
