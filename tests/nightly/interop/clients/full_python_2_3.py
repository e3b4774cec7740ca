"""All of a server's features with the Python SDK 2.3: ``full_python_2_3.py MODE MARKER URL|COMMAND…``; see full_script.py.

The mode is the SDK's: how it finds a revision.
"""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, ANN204
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import sys
import warnings
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from full_script import User, found, run
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

EVENTS = {
    "ToolsListChanged": "notifications/tools/list_changed",
    "PromptsListChanged": "notifications/prompts/list_changed",
    "ResourcesListChanged": "notifications/resources/list_changed",
    "ResourceUpdated": "notifications/resources/updated",
}


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def reach(target, *args):
    if target.endswith("/sse"):
        return sse_client(target)
    if target.startswith("http:"):
        return target  # as its users write it
    return StdioServerParameters(command=target, args=args)


class Adapter:
    def __init__(self, client, user):
        self._client = client
        self._user = user
        self.revision = client.protocol_version

    async def list_tools(self, cursor):
        return plain(await self._client.list_tools(cursor=cursor))

    async def list_resources(self, cursor):
        return plain(await self._client.list_resources(cursor=cursor))

    async def list_templates(self, cursor):
        return plain(await self._client.list_resource_templates(cursor=cursor))

    async def list_prompts(self, cursor):
        return plain(await self._client.list_prompts(cursor=cursor))

    async def call_tool(self, name, arguments, on_progress=None):
        return plain(await self._client.call_tool(name, arguments, progress_callback=on_progress))

    async def read(self, uri):
        return plain(await self._client.read_resource(uri))

    async def get_prompt(self, name, arguments):
        return plain(await self._client.get_prompt(name, arguments))

    async def complete(self, ref, argument, value, context):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        asked = {"name": argument, "value": value}
        return plain(await self._client.complete(kind(**ref), asked, context_arguments=context))

    async def set_log_level(self, level):
        if self.revision < "2026":  # where it is an option of the client instead
            await self._client.set_logging_level(level)

    async def roots_changed(self):
        await self._client.send_roots_list_changed()

    async def subscribe(self, uri):
        await self._client.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        await self._client.unsubscribe_resource(uri)

    @asynccontextmanager
    async def listen(self, uri):
        async with (
            self._client.listen(
                tools_list_changed=True,
                prompts_list_changed=True,
                resources_list_changed=True,
                resource_subscriptions=[uri],
            ) as subscription,
            anyio.create_task_group() as tasks,
        ):

            async def listen():
                async for event in subscription:
                    self._user.notified(EVENTS[type(event).__name__], {"uri": getattr(event, "uri", None)})

            tasks.start_soon(listen)
            yield
            tasks.cancel_scope.cancel()

    async def give_up(self, scope):
        scope.cancel()


async def main():
    mode, marker, *server = sys.argv[1:]
    user = User()

    async def on_sample(_, params):
        answer = await user.sample(plain(params))
        uses_tools = isinstance(answer["content"], list)
        return (types.CreateMessageResultWithTools if uses_tools else types.CreateMessageResult)(**answer)

    async def on_elicit(_, params):
        return types.ElicitResult(**await user.elicit(plain(params)))

    async def on_list_roots(_):
        return types.ListRootsResult(**await user.list_roots())

    async def on_log(params):
        user.heard_log(plain(params))

    async def on_message(message):
        # In the modern era the subscription says the same.
        if not isinstance(message, Exception) and client.protocol_version < "2026":
            user.notified(message.method, plain(message).get("params"))

    async with Client(
        reach(*server),
        mode=mode,
        sampling_callback=on_sample,
        sampling_capabilities=types.SamplingCapability(tools={}),
        elicitation_callback=on_elicit,
        list_roots_callback=on_list_roots,
        message_handler=on_message,
        logging_callback=on_log,
        log_level="warning",
    ) as client:
        await run(Adapter(client, user), user, marker)
    found("closed", value=True)


warnings.simplefilter("ignore")
anyio.run(main)
