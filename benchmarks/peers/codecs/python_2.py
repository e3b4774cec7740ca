"""The codec of the Python SDK 2 alone."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from mcp_types import CallToolResult, JSONRPCResponse, TextContent, jsonrpc_message_adapter
from mcp_types.methods import parse_client_request, parse_server_result, serialize_server_result
from spinning import TEXT, call_of, list_of, spin


def make(revision):
    call, tools = call_of(revision), list_of(revision)

    def read_call():
        message = jsonrpc_message_adapter.validate_json(call, by_name=False)
        return parse_client_request(message.method, revision, message.params)

    def write_result():
        result = CallToolResult(content=[TextContent(type="text", text=TEXT)])
        data = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        data = serialize_server_result("tools/call", revision, data)
        return JSONRPCResponse(jsonrpc="2.0", id=7, result=data).model_dump_json(
            by_alias=True, exclude_unset=True
        )

    def read_tools():
        message = jsonrpc_message_adapter.validate_json(tools, by_name=False)
        return parse_server_result("tools/list", revision, message.result)

    return {"read-call": read_call, "write-result": write_result, "read-tools": read_tools}


spin(make)
