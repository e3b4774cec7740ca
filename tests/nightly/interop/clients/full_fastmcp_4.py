"""All of a server's features with FastMCP 4: ``full_fastmcp_4.py MODE MARKER URL|COMMAND…``; see full_script.py.

The mode is the SDK's beneath it: how it finds a revision.
"""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, ANN204
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import asyncio
import sys

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from full_script import User, found, run


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def reach(target, *args):
    if target.endswith("/sse"):
        return SSETransport(target)
    if target.startswith("http:"):
        return StreamableHttpTransport(target)
    return StdioTransport(target, list(args), keep_alive=False)


class Adapter:
    def __init__(self, client):
        self._client = client
        self.revision = client.protocol_version

    async def list_tools(self, cursor):
        return plain(await self._client.list_tools_mcp(cursor=cursor))

    async def list_resources(self, cursor):
        return plain(await self._client.list_resources_mcp(cursor=cursor))

    async def list_templates(self, cursor):
        return plain(await self._client.list_resource_templates_mcp(cursor=cursor))

    async def list_prompts(self, cursor):
        return plain(await self._client.list_prompts_mcp(cursor=cursor))

    async def call_tool(self, name, arguments, on_progress=None):
        return plain(await self._client.call_tool_mcp(name, arguments, progress_handler=on_progress))

    async def read(self, uri):
        return plain(await self._client.read_resource_mcp(uri))

    async def get_prompt(self, name, arguments):
        return plain(await self._client.get_prompt_mcp(name, arguments))

    async def complete(self, ref, argument, value, context):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        asked = {"name": argument, "value": value}
        return plain(await self._client.complete_mcp(kind(**ref), asked, context_arguments=context))

    async def set_log_level(self, level):
        if self.revision < "2026":  # where it wants everything instead
            await self._client.set_logging_level(level)

    async def roots_changed(self):
        await self._client.send_roots_list_changed()

    async def subscribe(self, uri):
        await self._client.session.subscribe_resource(uri)  # it has no method of its own

    async def unsubscribe(self, uri):
        await self._client.session.unsubscribe_resource(uri)

    def listen(self, uri):
        raise NotImplementedError

    async def give_up(self, scope):
        scope.cancel()


async def main():
    mode, marker, *server = sys.argv[1:]
    user = User()

    async def on_sample(messages, params, context):
        answer = await user.sample(plain(params))
        uses_tools = isinstance(answer["content"], list)
        return (types.CreateMessageResultWithTools if uses_tools else types.CreateMessageResult)(**answer)

    async def on_elicit(message, kind, params, context):
        answer = await user.elicit(plain(params))
        return ElicitResult(action=answer["action"], content=answer.get("content"))

    async def list_roots(context):
        return [types.Root(**root) for root in (await user.list_roots())["roots"]]

    async def on_log(message):
        user.heard_log(plain(message))

    async def on_message(message):
        if not isinstance(message, Exception):
            user.notified(message.method, plain(message).get("params"))

    async with Client(
        reach(*server),
        mode=mode,
        sampling_handler=on_sample,
        sampling_capabilities=types.SamplingCapability(tools={}),
        elicitation_handler=on_elicit,
        roots=list_roots,
        log_handler=on_log,
        message_handler=on_message,
    ) as client:
        await run(Adapter(client), user, marker)
    found("closed", value=True)


asyncio.run(main())
