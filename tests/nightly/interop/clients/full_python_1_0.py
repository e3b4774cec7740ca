"""All of a server's features with the Python SDK 1.0: ``full_python_1_0.py MARKER URL|COMMAND…``; see full_script.py.

That release has no callbacks: its user reads what the server says and asks, and answers.
"""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, ANN204
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import sys

import anyio
from full_script import User, found, run
from mcp import types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def reach(target, *args):
    if target.startswith("http:"):
        return sse_client(target)
    return stdio_client(StdioServerParameters(command=target, args=args))


async def listen(session, user):
    """Hear what the server says, and answer what it asks; it declares roots by itself, and no sampling."""
    async for message in session.incoming_messages:
        if isinstance(message, types.ServerNotification):
            method, params = message.root.method, plain(message).get("params")
            user.heard_log(params) if method == "notifications/message" else user.notified(method, params)
        elif not isinstance(message, Exception):
            answer = types.ListRootsResult(**await user.list_roots())
            await message.respond(types.ClientResult(answer))


class Adapter:
    def __init__(self, session, revision):
        self._session = session
        self.revision = revision

    async def _request(self, kind, method, result):
        request = types.ClientRequest(kind(method=method))
        return plain(await self._session.send_request(request, result))

    async def list_tools(self, cursor):
        return await self._list(types.ListToolsRequest, "tools/list", types.ListToolsResult, cursor)

    async def list_resources(self, cursor):
        return await self._list(types.ListResourcesRequest, "resources/list", types.ListResourcesResult, cursor)

    async def list_templates(self, cursor):
        raise NotImplementedError  # it has the types, but not among those a client may send

    async def list_prompts(self, cursor):
        return await self._list(types.ListPromptsRequest, "prompts/list", types.ListPromptsResult, cursor)

    async def _list(self, kind, method, result, cursor):
        page = await self._request(kind, method, result)
        page.pop("nextCursor", None)  # it puts cursors beside the parameters, where no server finds them
        return page

    async def call_tool(self, name, arguments, on_progress=None):
        if on_progress is not None:
            raise NotImplementedError
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.CallToolRequest(method="tools/call", params=params)
        return plain(await self._session.send_request(types.ClientRequest(request), types.CallToolResult))

    async def read(self, uri):
        return plain(await self._session.read_resource(uri))

    async def get_prompt(self, name, arguments):
        return plain(await self._session.get_prompt(name, arguments))

    async def complete(self, ref, argument, value, context):
        if context is not None:
            raise NotImplementedError
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceReference
        return plain(await self._session.complete(kind(**ref), {"name": argument, "value": value}))

    async def set_log_level(self, level):
        await self._session.set_logging_level(level)

    async def roots_changed(self):
        await self._session.send_roots_list_changed()

    async def subscribe(self, uri):
        await self._session.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        await self._session.unsubscribe_resource(uri)


async def main():
    marker, *server = sys.argv[1:]
    user = User()
    async with (
        reach(*server) as streams,
        ClientSession(*streams) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listen, session, user)
        agreed = await session.initialize()
        await run(Adapter(session, agreed.protocolVersion), user, marker)
        tasks.cancel_scope.cancel()
    found("closed", value=True)


anyio.run(main)
