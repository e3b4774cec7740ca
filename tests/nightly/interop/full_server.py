"""The server that offers all there is to offer and asks all there is to ask; other implementations' clients use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs
import trio
from running import run

from trio_mcp import (
    Audio,
    Context,
    Field,
    Image,
    NotificationContext,
    ResourceNotFound,
    Server,
    ToolError,
    URLElicitationRequired,
    assistant_message,
    user_message,
)
from trio_mcp.types import (
    Annotations,
    ElicitRequestURLParams,
    EmbeddedResource,
    Icon,
    PromptMessage,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolResultContent,
)

PNG: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108040000"
    "00b51c0c020000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)
WAV: Final = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\0\0\0\0"
NOTES: Final = {"lem": ["fiasco", "solaris"], "orwell": ["1984", "animal farm"]}
PAY_URL: Final = "https://example.com/pay?order=7"
PAYMENT: Final = "payment-7"

# Pages, so that every list of more is read with a cursor.
server = Server("full", version="1", title="Everything", instructions="Try all of it.", page_size=4)
proceed_with, proceeding = trio.open_memory_channel[None](0)
roots_changed = trio.Event()
paid = trio.Event()


# What tools give.


@attrs.frozen
class Place:
    """Where something is."""

    city: str
    country: str | None = None


@attrs.frozen
class Report:
    """What the weather is like."""

    place: Place
    celsius: float
    sky: Literal["clear", "cloudy"]
    hours: list[int]


@server.tool(
    title="Weather",
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    icons=[Icon(src="https://example.com/sun.png", mime_type="image/png", sizes=["48x48"])],
    meta={"example.com/source": "made up"},
)
async def weather(city: Annotated[str, Field(min_length=1)], country: str | None = None) -> Report:
    """Say what the weather is like.

    Args:
        city: The name of the city.
        country: The code of its country.
    """
    return Report(Place(city, country), 21.5, "clear", [9, 12])


@server.tool
async def primes() -> list[int]:
    """Give programs something that is no object."""
    return [2, 3, 5]


@server.tool
async def contents() -> list[TextContent | Image | Audio | EmbeddedResource | ResourceLink]:
    """Give one of each kind of content."""
    return [
        TextContent(text="some text", annotations=Annotations(audience=["user"], priority=0.5)),
        Image(PNG),
        Audio(WAV),
        EmbeddedResource(resource=TextResourceContents(uri="notes://today", text="a note")),
        ResourceLink(uri="notes://lem/solaris", name="solaris"),
    ]


@server.tool
async def broken() -> str:
    """Fail as planned."""
    raise ToolError("it is broken")


# What handlers say meanwhile.


@server.tool
async def proceed() -> None:
    """Let `steps` go on."""
    await proceed_with.send(None)


@server.tool
async def steps(ctx: Context) -> str:
    """Report two steps, and after each wait until `proceed` is called."""
    async with ctx.progress(total=2) as progress:
        for step in (1, 2):
            await progress.advance(message=f"step {step}")
            await proceeding.receive()
    return "done"


@server.tool
async def log_all(ctx: Context) -> str:
    """Log in three levels."""
    await ctx.debug("of no interest")
    await ctx.warning({"disk": "nearly full"}, logger="full")
    await ctx.error("disk full")
    return "logged"


# Resources.

server.add_resource(
    "notes://today",
    "buy milk",
    title="Today",
    annotations=Annotations(audience=["user"], priority=0.9, last_modified="2026-01-02T03:04:05Z"),
)
server.add_resource("notes://picture.png", PNG)


@server.resource("notes://{author}/{title}", mime_type="text/plain")
async def note(author: str, title: str) -> str:
    """A note about a book."""
    if title not in NOTES.get(author, []):
        raise ResourceNotFound(f"notes://{author}/{title}")
    return f"{title} is by {author}"


@server.resource("notes://both")
async def both() -> list[str | bytes]:
    """Text and bytes in one."""
    return ["text", b"\0\1\2\3"]


@server.resource("notes://diary")
async def diary(ctx: Context) -> str:
    """What only who knows the word may read."""
    return f"read with {(await ctx.elicit('The word?', str)).value}"


@server.completion("notes://{author}/{title}", "author")
async def complete_author(value: str) -> list[str]:
    return [author for author in NOTES if author.startswith(value)]


@server.completion("notes://{author}/{title}", "title")
async def complete_title(value: str, arguments: Mapping[str, str]) -> list[str]:
    """Complete a title, of the author's books where the client says who that is."""
    authors = [arguments["author"]] if "author" in arguments else list(NOTES)
    return [title for author in authors for title in NOTES[author] if title.startswith(value)]


# Prompts.


@server.prompt
async def greet() -> str:
    """Say hello."""
    return "Say hello."


@server.prompt(title="Review")
async def review(title: str, tone: Literal["kind", "harsh", "honest"] = "kind") -> list[PromptMessage]:
    """Review a book.

    Args:
        title: The book.
        tone: How to say it.
    """
    return [
        user_message(f"Review {title} in a {tone} way."),
        assistant_message("Which edition?"),
        user_message(EmbeddedResource(resource=TextResourceContents(uri="notes://today", text="a note"))),
    ]


@server.prompt
async def personal(ctx: Context) -> str:
    """Ask for a name, and greet its bearer."""
    return f"Greet {(await ctx.elicit('Your name?', str)).value}."


# Asking the client.


@server.tool
async def summarise(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    said = await ctx.sample(
        f"Summarise: {text}",
        max_tokens=100,
        system_prompt="Be brief.",
        model_preferences="small",
        temperature=0.5,
    )
    return f"{said.model}: {said.text}"


@server.tool
async def research(ctx: Context) -> str:
    """Let the client's model use a tool of this server."""
    question = SamplingMessage(role="user", content=TextContent(text="How warm is it in Kyiv?"))
    wish = await ctx.sample(question, max_tokens=100, tools=["weather"], tool_choice="required")
    (use,) = wish.tool_uses
    report = await weather(str(use.input["city"]))
    answer = ToolResultContent(tool_use_id=use.id, content=[TextContent(text=f"{report.celsius} degrees")])
    said = await ctx.sample(
        [question, wish, SamplingMessage(role="user", content=answer)], max_tokens=100, tools=["weather"]
    )
    return said.text


@attrs.frozen
class Booking:
    """What a form asks for."""

    name: Annotated[str, Field("The guest.", min_length=1)]
    nights: Annotated[int, Field(ge=1, le=30)]
    breakfast: bool = True
    room: Literal["single", "double"] = "single"


@server.tool
async def book(ctx: Context) -> str:
    """Ask for several values in a form."""
    answer = await ctx.elicit("Your booking, please.", Booking)
    return str(attrs.astuple(answer.value)) if answer.accepted else answer.action


@attrs.frozen
class Toppings:
    """What a form with a choice of several asks for."""

    toppings: list[Literal["basil", "ham", "olives"]]


@server.tool
async def pizza(ctx: Context) -> str:
    """Ask for a choice of several values."""
    return ", ".join((await ctx.elicit("On your pizza?", Toppings)).value.toppings)


@server.tool
async def pay(ctx: Context) -> str:
    """Send the user to a URL, and say when they are done there."""
    answer = await ctx.elicit_url("Please pay.", PAY_URL, PAYMENT)
    if answer.elicitation_id is not None:
        await ctx.elicitation_complete(answer.elicitation_id)
    return answer.action


@server.tool
async def pay_first() -> str:
    """Refuse to go on before the user was at a URL."""
    if not paid.is_set():
        paid.set()
        raise URLElicitationRequired(
            ElicitRequestURLParams(message="Please pay first.", url=PAY_URL, elicitation_id=PAYMENT)
        )
    return "paid"


@server.tool
async def where(ctx: Context) -> list[str]:
    """List the client's roots."""
    return [f"{root.name}: {root.uri}" for root in await ctx.list_roots()]


@server.notification_handler("notifications/roots/list_changed")
async def on_roots_changed(params: Mapping[str, Any], ctx: NotificationContext[Any]) -> None:
    roots_changed.set()


@server.tool
async def where_next(ctx: Context) -> list[str]:
    """List the client's roots, once it has said that they have changed."""
    await roots_changed.wait()
    return [root.uri for root in await ctx.list_roots()]


@server.tool
async def wizard(ctx: Context) -> str:
    """Ask twice, the second time for what the first answer was."""
    first = await ctx.elicit("First?", str)
    second = await ctx.elicit(f"Second, after {first.value}?", str)
    return f"{first.value} {second.value}"


@server.tool
async def ask_all(ctx: Context) -> str:
    """Ask all there is to ask, at once."""
    heard: dict[str, str] = {}

    async def ask_model() -> None:
        heard["model"] = (await ctx.sample("Well?", max_tokens=10)).text

    async def ask_user() -> None:
        heard["user"] = (await ctx.elicit("Well?", str)).value

    async def ask_roots() -> None:
        # Not before the others have been refused, if they are: Python SDK 1.0 dies of a question that is cancelled.
        await trio.lowlevel.checkpoint()
        heard["roots"] = str(len(await ctx.list_roots()))

    async with trio.open_nursery() as nursery:
        for ask in (ask_model, ask_user, ask_roots):
            nursery.start_soon(ask)
    return ", ".join(f"{key}: {heard[key]}" for key in sorted(heard))


def mark(marker: str) -> None:
    """Leave a mark; nothing in a `finally` should wait."""
    Path(marker).touch()


@server.tool
async def ask_in_vain(marker: str, ctx: Context) -> str:
    """Ask what the client never answers, and leave a mark when made to stop."""
    try:
        return (await ctx.elicit("In vain?", str)).value
    except trio.Cancelled:
        mark(marker)
        raise


# Changes.


@server.tool
async def touch(uri: str) -> None:
    """Say that a resource has changed."""
    await server.resource_updated(uri)


@server.tool
async def change_lists() -> None:
    """Offer more than before."""
    server.tool(name="extra_tool")(proceed)
    server.prompt(name="extra_prompt")(greet)
    server.add_resource("notes://extra", "more")


if __name__ == "__main__":
    run(server)
