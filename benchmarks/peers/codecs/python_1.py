"""The codec of the Python SDK 1 alone: it is the same in all its revisions."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from mcp.types import (
    CallToolResult,
    ClientRequest,
    JSONRPCMessage,
    JSONRPCResponse,
    ListToolsResult,
    TextContent,
)
from spinning import TEXT, call_of, list_of, spin


def make(revision):
    call, tools = call_of(revision), list_of(revision)

    def read_call():
        message = JSONRPCMessage.model_validate_json(call).root
        return ClientRequest.model_validate(message.model_dump(by_alias=True, mode="json", exclude_none=True))

    def write_result():
        result = CallToolResult(content=[TextContent(type="text", text=TEXT)])
        data = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        message = JSONRPCMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result=data))
        return message.model_dump_json(by_alias=True, exclude_none=True)

    def read_tools():
        message = JSONRPCMessage.model_validate_json(tools).root
        return ListToolsResult.model_validate(message.result)

    return {"read-call": read_call, "write-result": write_result, "read-tools": read_tools}


spin(make)
