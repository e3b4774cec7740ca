"""Our codec alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.peers.codecs.spinning import TEXT, call_of, list_of, spin
from trio_mcp import Revision
from trio_mcp._codec import _json
from trio_mcp._codec._jsonrpc import Request, Response, encode_response, from_wire, parse_message, to_wire
from trio_mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent


def make(name: str) -> Mapping[str, Callable[[], object]]:
    """Return what is done in a revision."""
    revision = Revision(name)
    call, tools = call_of(name), list_of(name)

    def read_call() -> object:
        message = parse_message(_json.decode(call))
        assert isinstance(message, Request)
        return from_wire(message.params, CallToolRequestParams)

    def write_result() -> object:
        result = CallToolResult(content=(TextContent(text=TEXT),))
        return encode_response(7, to_wire(result, revision))

    def read_tools() -> object:
        message = parse_message(_json.decode(tools))
        assert isinstance(message, Response)
        return from_wire(message.result, ListToolsResult)

    return {"read-call": read_call, "write-result": write_result, "read-tools": read_tools}


if __name__ == "__main__":
    spin(make)
