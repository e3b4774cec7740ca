"""Everything that FastMCP of the Python SDK 1.30 can offer and ask."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import base64

import anyio
from hosting import run_fastmcp
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.prompts.base import AssistantMessage, UserMessage
from mcp.types import (
    Completion,
    EmbeddedResource,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolChoice,
)
from pydantic import BaseModel, Field

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}

server = FastMCP("full")
subscribed = set()


class Booking(BaseModel):
    name: str = Field(description="The guest.")
    nights: int = Field(ge=1)
    room: str = Field("single", json_schema_extra={"enum": ["single", "double"]})  # it refuses a Literal
    breakfast: bool = True


@server.tool()
async def summarise(text: str, ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=f"Summarise: {text}"))
    said = await ctx.session.create_message([message], max_tokens=100, system_prompt="Be brief.")
    return f"{said.model}: {said.content.text}"


@server.tool()
async def research(ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="How warm?"))
    said = await ctx.session.create_message(
        [message],
        max_tokens=100,
        tools=[Tool(name="weather", inputSchema=SCHEMA)],
        tool_choice=ToolChoice(mode="required"),
    )
    return f"{said.stopReason}: {said.content_as_list[0].name} {said.content_as_list[0].input['city']}"


@server.tool()
async def book(ctx: Context) -> str:
    answer = await ctx.elicit("Your booking, please.", Booking)
    return answer.data.model_dump_json() if answer.action == "accept" else answer.action


@server.tool()
async def pay(ctx: Context) -> str:
    answer = await ctx.elicit_url("Please pay.", "https://example.com/pay", "payment-7")
    await ctx.session.send_elicit_complete("payment-7")
    return answer.action


@server.tool()
async def where(ctx: Context) -> str:
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def change(ctx: Context) -> None:
    for uri in sorted(subscribed):
        await ctx.session.send_resource_updated(uri)
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_resource_list_changed()


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for step in range(1, to + 1):
        await ctx.session.send_log_message("info", f"step {step}", logger="count")
        await ctx.report_progress(step, to)
    return f"counted to {to}"


@server.tool()
async def block(ctx: Context) -> None:
    await ctx.report_progress(1)
    await anyio.sleep_forever()


@server._mcp_server.subscribe_resource()
async def subscribe(uri):
    subscribed.add(str(uri))


@server._mcp_server.unsubscribe_resource()
async def unsubscribe(uri):
    subscribed.discard(str(uri))


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
    return Completion(values=[f"{argument.value} by {author}"], hasMore=True)


run_fastmcp(server)
