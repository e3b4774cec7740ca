"""All of a server's features with the Python SDK 1.30: ``full_python_1_30.py MARKER URL|COMMAND…``; see full_script.py."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, ANN204
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import sys

import anyio
from full_script import User, found, run
from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def page(cursor):
    return types.PaginatedRequestParams(cursor=cursor)


def reach(target, *args):
    if target.endswith("/sse"):
        return sse_client(target)
    if target.startswith("http:"):
        return streamable_http_client(target)
    return stdio_client(StdioServerParameters(command=target, args=args))


class Adapter:
    def __init__(self, session, revision):
        self._session = session
        self.revision = revision

    async def list_tools(self, cursor):
        return plain(await self._session.list_tools(params=page(cursor)))

    async def list_resources(self, cursor):
        return plain(await self._session.list_resources(params=page(cursor)))

    async def list_templates(self, cursor):
        return plain(await self._session.list_resource_templates(params=page(cursor)))

    async def list_prompts(self, cursor):
        return plain(await self._session.list_prompts(params=page(cursor)))

    async def call_tool(self, name, arguments, on_progress=None):
        return plain(await self._session.call_tool(name, arguments, progress_callback=on_progress))

    async def read(self, uri):
        return plain(await self._session.read_resource(uri))

    async def get_prompt(self, name, arguments):
        return plain(await self._session.get_prompt(name, arguments))

    async def complete(self, ref, argument, value, context):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        asked = {"name": argument, "value": value}
        return plain(await self._session.complete(kind(**ref), asked, context_arguments=context))

    async def set_log_level(self, level):
        await self._session.set_logging_level(level)

    async def roots_changed(self):
        await self._session.send_roots_list_changed()

    async def subscribe(self, uri):
        await self._session.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        await self._session.unsubscribe_resource(uri)

    async def give_up(self, scope):
        # This release has the notification but leaves it to its user to send it.
        params = types.CancelledNotificationParams(requestId=self._session._request_id - 1, reason="enough")
        await self._session.send_notification(
            types.ClientNotification(types.CancelledNotification(method="notifications/cancelled", params=params))
        )
        scope.cancel()


async def main():
    marker, *server = sys.argv[1:]
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
        if isinstance(message, types.ServerNotification):
            user.notified(message.root.method, plain(message).get("params"))

    async with (
        reach(*server) as streams,
        ClientSession(
            *streams[:2],
            sampling_callback=on_sample,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            elicitation_callback=on_elicit,
            list_roots_callback=on_list_roots,
            logging_callback=on_log,
            message_handler=on_message,
        ) as session,
    ):
        agreed = await session.initialize()
        await run(Adapter(session, agreed.protocolVersion), user, marker)
    found("closed", value=True)


anyio.run(main)
