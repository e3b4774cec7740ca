"""Everything that MCPServer of the Python SDK 2.3 can offer and ask, in both eras."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import base64
from typing import Annotated, Literal

import anyio
from hosting import run_mcpserver
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import (
    CallToolResult,
    Completion,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestURLParams,
    EmbeddedResource,
    EmptyResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    ToolChoice,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}

server = MCPServer("full")
subscribed = set()


class Booking(BaseModel):
    name: str = Field(description="The guest.")
    nights: int = Field(ge=1)
    room: Literal["single", "double"] = "single"
    breakfast: bool = True


def said_by_user(text):
    return [SamplingMessage(role="user", content=TextContent(type="text", text=text))]


async def ask_for_summary(text: str) -> Sample:
    return Sample(said_by_user(f"Summarise: {text}"), max_tokens=100, system_prompt="Be brief.")


async def ask_with_tools() -> Sample:
    tools = [Tool(name="weather", input_schema=SCHEMA)]
    return Sample(said_by_user("How warm?"), max_tokens=100, tools=tools, tool_choice=ToolChoice(mode="required"))


async def ask_for_booking() -> Elicit[Booking]:
    return Elicit("Your booking, please.", Booking)


async def ask_for_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def summarise(text: str, said: Annotated[CreateMessageResult, Resolve(ask_for_summary)]) -> str:
    return f"{said.model}: {said.content.text}"


@server.tool()
async def research(said: Annotated[CreateMessageResultWithTools, Resolve(ask_with_tools)]) -> str:
    return f"{said.stop_reason}: {said.content_as_list[0].name} {said.content_as_list[0].input['city']}"


@server.tool()
async def book(answer: Annotated[ElicitationResult[Booking], Resolve(ask_for_booking)]) -> str:
    return answer.data.model_dump_json() if isinstance(answer, AcceptedElicitation) else answer.action


@server.tool()
async def pay(ctx: Context) -> CallToolResult | InputRequiredResult:
    if ctx.protocol_version < "2026":
        answer = await ctx.elicit_url("Please pay.", "https://example.com/pay", "payment-7")
        await ctx.session.send_elicit_complete("payment-7")
    elif ctx.input_responses is None:
        params = ElicitRequestURLParams(message="Please pay.", url="https://example.com/pay")
        return InputRequiredResult(input_requests={"pay": ElicitRequest(params=params)})
    else:
        answer = ctx.input_responses["pay"]
    return CallToolResult(content=[TextContent(type="text", text=answer.action)])


@server.tool()
async def where(roots: Annotated[ListRootsResult, Resolve(ask_for_roots)]) -> str:
    return ", ".join(str(root.uri) for root in roots.roots)


async def follow(context, params):
    subscribed.add(params.uri)
    return EmptyResult()


async def leave(context, params):
    subscribed.discard(params.uri)
    return EmptyResult()


# For clients of the legacy era; those of the modern one it serves itself.
server._lowlevel_server.add_request_handler("resources/subscribe", SubscribeRequestParams, follow)
server._lowlevel_server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, leave)


@server.tool()
async def change(ctx: Context) -> None:
    if ctx.protocol_version < "2026":
        for uri in sorted(subscribed):
            await ctx.session.send_resource_updated(uri)
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
        return
    await ctx.notify_resource_updated("notes://today")
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_resources_changed()


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for step in range(1, to + 1):
        await ctx.info(f"step {step}", logger_name="count")
        await ctx.report_progress(step, to)
    return f"counted to {to}"


@server.tool()
async def block(ctx: Context) -> None:
    await ctx.report_progress(1)
    await anyio.sleep_forever()


@server.resource("notes://today", title="Today", mime_type="text/plain")
def today() -> str:
    return "buy milk"


@server.resource("notes://picture", mime_type="image/png")
def picture() -> bytes:
    return PNG


@server.resource("notes://{author}/{title}")
def note(author: str, title: str) -> str:
    return f"{title} is by {author}"


@server.prompt(title="Review")
def review(title: str, tone: str = "kind") -> list:
    contents = TextResourceContents(uri="notes://today", text="a note")
    return [
        UserMessage(f"Review {title} in a {tone} way."),
        AssistantMessage("Which edition?"),
        UserMessage(EmbeddedResource(type="resource", resource=contents)),
    ]


@server.completion()
async def complete(ref, argument, context):
    if argument.name == "tone":
        tones = ["kind", "harsh", "honest"]
        return Completion(values=[tone for tone in tones if tone.startswith(argument.value)])
    author = context.arguments["author"] if context and context.arguments else "nobody"
    return Completion(values=[f"{argument.value} by {author}"], has_more=True)


run_mcpserver(server)
