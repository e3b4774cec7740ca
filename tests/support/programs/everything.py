"""A server that offers all there is, written once for every revision: the subject of the tests of this folder.

As a program it is served over stdio; in memory it is `server`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import attrs
import trio

from trio_mcp import (
    Audio,
    CacheHint,
    CapabilityMissing,
    Context,
    Field,
    Image,
    NotificationContext,
    Preferences,
    RequestError,
    ResourceNotFound,
    Server,
    ToolError,
    URLElicitationRequired,
    assistant_message,
    user_message,
)
from trio_mcp.types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    ElicitRequestURLParams,
    EmbeddedResource,
    Icon,
    ImageContent,
    LoggingLevel,
    ModelHint,
    ModelPreferences,
    PromptMessage,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
    ToolResultContent,
)

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
FILES = Path(__file__).parent / "files"
NOTES: list[str] = []
"""What has become of handlers, for the tool `notes`."""

server: Server[Any] = Server(
    "everything",
    version="1.2.3",
    title="Everything",
    instructions="Try everything.",
    page_size=5,
    request_state_keys=[b"a secret of thirty-two bytes ....", b"an older secret of thirty-two b."],
    cache={"resources/templates/list": CacheHint(ttl=60, scope="public")},
)
ICON = Icon(src="https://example.com/icon.png", mime_type="image/png", sizes=["48x48"])
FOR_USERS = Annotations(audience=["user"], priority=0.9, last_modified="2025-01-12T15:00:58Z")


# Tools that answer at once.


@server.tool(title="Echo", icons=[ICON], annotations=ToolAnnotations(read_only_hint=True))
async def echo(text: str) -> str:
    """Say it back.

    Args:
        text: What to say.
    """
    return text


@attrs.frozen
class Weather:
    """The weather in one place.

    Attributes:
        temperature: In degrees Celsius.
        conditions: In a word or two.
    """

    temperature: float
    conditions: str


@server.tool
async def weather(city: str) -> Weather:
    """Tell the weather."""
    return Weather(22.5, f"Partly cloudy in {city}")


@server.tool
async def users() -> list[Weather]:
    """Give an array."""
    return [Weather(1, "one"), Weather(2, "two")]


@server.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
async def broken_promise() -> dict[str, Any]:
    """Give something else than was promised."""
    return {"n": "not a number"}


@server.tool(name="admin.tools.list")
async def no_parameters() -> str:
    """Take nothing, under a name with dots."""
    return "nothing taken"


@server.tool(
    input_schema={
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    }
)
async def draft_07(arguments: dict[str, Any]) -> str:
    """Add two numbers, by an older JSON Schema."""
    return str(arguments["a"] + arguments["b"])


@server.tool
async def route(region: Annotated[str, Field("Where to.", header="Region")], statement: str) -> str:
    """Take a parameter that HTTP carries in a header, too."""
    return f"{statement} in {region}"


@server.tool
async def show(what: Literal["text", "image", "audio", "link", "embedded", "blob"]) -> Any:
    """Show one block of content, with annotations where it can have them."""
    if what == "text":
        return TextContent(text="a text", annotations=FOR_USERS)
    if what == "image":
        return Image(PNG, annotations=FOR_USERS)
    if what == "audio":
        return Audio(WAV)
    if what == "link":
        return ResourceLink(
            uri="note://today",
            name="today",
            description="Of today.",
            mime_type="text/plain",
            annotations=FOR_USERS,
        )
    if what == "blob":
        return EmbeddedResource(
            resource=BlobResourceContents(uri="picture://logo", mime_type="image/png", blob="iVBORw==")
        )
    return EmbeddedResource(
        resource=TextResourceContents(uri="note://today", mime_type="text/plain", text="a note"),
        annotations=FOR_USERS,
    )


@server.tool
async def depart(day: date, seats: Annotated[int, Field("How many.", ge=1, le=9)] = 1) -> str:
    """Say why an argument cannot be, in the tool itself."""
    if day < date(2025, 8, 8):
        raise ToolError("Invalid departure date: must be in the future. Current date is 08/08/2025.")
    return f"{seats} seats on {day}"


@server.tool
async def fail(kind: Literal["bug", "protocol"]) -> str:
    """Fail in a way that is not for the model."""
    if kind == "protocol":
        raise RequestError(-32050, "refused on purpose", {"why": "a test"})
    raise ValueError("a secret of the server")


@server.tool
async def baskets(basket: str | None = None, item: str | None = None) -> dict[str, Any]:
    """Keep a state under a handle that the caller carries."""
    if basket is None:
        basket = f"bsk_{len(_BASKETS) + 1}"
        _BASKETS[basket] = []
    if basket not in _BASKETS:
        raise ToolError(f"There is no basket {basket}. Make a new one.")
    if item is not None:
        _BASKETS[basket].append(item)
    return {"basket": basket, "items": list(_BASKETS[basket])}


_BASKETS: dict[str, list[str]] = {}


# Tools that take their time.


@server.tool
async def count(to: int, ctx: Context, total: bool = True) -> str:
    """Count, and report it."""
    async with ctx.progress(total=to if total else None) as progress:
        for number in range(to):
            await progress.advance(1, f"at {number + 1}")
        await progress.report(to - 0.5)  # less than before: not sent
        await progress.report(to + 0.5, "half more")
    return "counted"


@server.tool
async def log_all(ctx: Context) -> str:
    """Log one message of each severity."""
    for level in get_args(LoggingLevel):
        await ctx.log(level, {"level": level, "details": {"host": "localhost"}}, logger="everything")
    return "logged"


@server.tool
async def wait(name: str, ctx: Context) -> str:
    """Wait to be cancelled, note it, and try to say something all the same."""
    NOTES.append(f"{name} began")
    await ctx.report_progress(1)
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        NOTES.append(f"{name} was cancelled")
        raise
    finally:
        with trio.CancelScope(shield=True):
            await ctx.report_progress(2)
            await ctx.error("too late")


@server.tool
async def notes() -> list[str]:
    """Tell what has become of handlers, once."""
    told = list(NOTES)
    NOTES.clear()
    return told


# Changes.


async def _extra() -> str:
    return "extra"


@server.tool
async def change(kind: Literal["tools", "prompts", "resources"]) -> str:
    """Add something called "extra", or take it away again."""
    NOTES.append(f"changed {kind}")
    if kind == "tools":
        if "extra" in _EXTRAS:
            server.remove_tool("extra")
        else:
            server.tool(name="extra", description="One more.")(_extra)
    elif kind == "prompts":
        if "extra prompt" in _EXTRAS:
            server.remove_prompt("extra")
        else:
            server.prompt(name="extra")(_extra)
    elif "extra resource" in _EXTRAS:
        server.remove_resource("extra://it")
    else:
        server.add_resource("extra://it", "one more")
    _EXTRAS.symmetric_difference_update(
        {{"tools": "extra", "prompts": "extra prompt"}.get(kind, "extra resource")}
    )
    return "changed"


_EXTRAS: set[str] = set()


@server.tool
async def update(uri: str) -> str:
    """Say that a resource has changed."""
    await server.resource_updated(uri)
    return "updated"


# Questions to the client.


@attrs.frozen
class Contact:
    """Who somebody is.

    Attributes:
        name: Your full name.
        email: Your email address.
        age: Your age.
    """

    name: str
    email: Annotated[str, Field(keywords={"format": "email"})]
    age: Annotated[int | None, Field(ge=18)] = None


@attrs.frozen
class Wishes:
    """Every kind of field."""

    colour: Literal["red", "green", "blue"]
    share: Annotated[float, Field(ge=0, le=1)]
    copies: int = 1
    gift: bool = False
    note: Annotated[str, Field(max_length=50)] = "none"


@attrs.frozen
class Several:
    """A choice of several."""

    colours: list[Literal["red", "green", "blue"]]


_FORMS: dict[str, Any] = {"name": str, "contact": Contact, "wishes": Wishes, "several": Several}


@server.tool
async def ask(form: Literal["name", "contact", "wishes", "several"], ctx: Context) -> str:
    """Ask the user to fill in a form."""
    try:
        answer = await ctx.elicit(f"Please fill in: {form}", _FORMS[form])
    except CapabilityMissing as missing:
        return f"cannot ask: {missing.message}"
    return f"{answer.action}: {answer.value!r}" if answer.accepted else answer.action


@server.tool
async def insist(ctx: Context) -> str:
    """Ask the user, and do not look at what they did before taking the answer."""
    return (await ctx.elicit("Who?", str)).value


@server.tool
async def visit(ctx: Context) -> str:
    """Send the user to a URL, and tell when they are done there."""
    visited = await ctx.elicit_url("Please sign in.", "https://example.com/connect")
    if visited.accepted and visited.elicitation_id is not None:
        for _ in range(2):  # the second is for one that is done already
            await ctx.elicitation_complete(visited.elicitation_id)
        await ctx.elicitation_complete("nobody knows this one")
    return visited.action


@server.tool
async def must_visit(ctx: Context) -> str:
    """Refuse until the user has been at a URL."""
    if ctx.input_responses:
        return "thank you"
    raise URLElicitationRequired(
        ElicitRequestURLParams(message="Authorize.", url="https://example.com/authorize")
    )


@server.tool
async def sample(what: Literal["text", "media", "preferences", "hints", "context"], ctx: Context) -> str:
    """Ask the client's model."""
    media = [
        "Look and listen",
        ImageContent(data="iVBORw==", mime_type="image/png"),
        AudioContent(data="UklGRg==", mime_type="audio/wav"),
    ]
    said: Any = media if what == "media" else "What is the capital of France?"
    liked: Preferences | None = None
    if what == "preferences":
        liked = ModelPreferences(
            hints=[ModelHint(name="claude-3-sonnet"), ModelHint(name="claude")],
            cost_priority=0.3,
            speed_priority=0.8,
            intelligence_priority=0.5,
        )
    elif what == "hints":
        liked = ["sonnet", "claude"]
    answer = await ctx.sample(
        said,
        max_tokens=100,
        model_preferences=liked,
        system_prompt="You are a helpful assistant.",
        temperature=0.1,
        stop_sequences=["END"],
        metadata={"trace": "x"},
        include_context="thisServer" if what == "context" else None,
    )
    return f"{answer.model} ({answer.stop_reason}): {answer.text}"


_GET_WEATHER = Tool(
    name="get_weather",
    description="Get the weather of a city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@server.tool
async def agent(ctx: Context, choice: Literal["auto", "required"] = "auto", bad: str = "") -> str:
    """Let the client's model use tools until it is done."""
    said: list[Any] = ["What is the weather in Paris and London?"]
    for turn in range(3):
        mode = "none" if turn == 2 else choice
        answer = await ctx.sample(said, max_tokens=1000, tools=[_GET_WEATHER], tool_choice=mode)
        said.append(answer)
        uses = answer.tool_uses
        if not uses:
            return answer.text
        results: Sequence[ToolResultContent] = [
            ToolResultContent(tool_use_id=use.id, content=[TextContent(text=f"Sunny in {use.input['city']}")])
            for use in uses
        ]
        if bad == "missing":
            said.extend(results[:1])
        elif bad == "mixed":
            said.append(SamplingMessage(role="user", content=[TextContent(text="Here:"), *results]))
        else:
            said.extend(results)
    return "no end"


@server.tool
async def where(ctx: Context) -> str:
    """Ask for the client's roots."""
    return ", ".join(f"{root.name}: {root.uri}" for root in await ctx.list_roots())


@server.notification_handler("notifications/roots/list_changed")
async def _roots_changed(params: Mapping[str, Any], ctx: NotificationContext) -> None:
    NOTES.append("roots changed")


@server.tool
async def both(ctx: Context) -> list[str]:
    """Ask two things at once."""
    told: dict[str, str] = {}

    async def model() -> None:
        told["model"] = (await ctx.sample("?", max_tokens=1)).text

    async def roots() -> None:
        told["roots"] = str(len(await ctx.list_roots()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(model)
        nursery.start_soon(roots)
    return [told["model"], told["roots"]]


@server.tool
async def outer(ctx: Context) -> str:
    """Ask the model, whose client calls `inner` to answer."""
    return await _noting("outer", ctx.sample("Go on", max_tokens=10))


@server.tool
async def inner(ctx: Context) -> str:
    """Ask the user, where that can be, or else for roots: both are questions to the same client."""
    try:
        return await _noting("inner", ctx.elicit("Who?", str))
    except CapabilityMissing:
        return await _noting("inner", ctx.list_roots())


async def _noting(name: str, question: Any) -> str:
    NOTES.append(f"{name} began")
    try:
        answer = await question
    except trio.Cancelled:
        NOTES.append(f"{name} was cancelled")
        raise
    return str(getattr(answer, "text", None) or getattr(answer, "value", None) or answer[0].name)


@server.tool(resume="replay")
async def replayed(ctx: Context) -> str:
    """Ask twice, and run again from the beginning each time."""
    first = (await ctx.elicit("First?", str)).value
    return f"{first}, {(await ctx.elicit('Second?', str)).value}"


# Resources.


@server.resource(
    "note://today", title="Today's note", annotations=FOR_USERS, icons=[ICON], size=6, mime_type="text/plain"
)
async def today() -> str:
    """What is to be done today."""
    return "a note"


@server.resource("picture://logo", mime_type="image/png", ttl=60, scope="public")
async def logo() -> bytes:
    """The logo."""
    return PNG


@server.resource("several://parts")
async def parts() -> list[TextResourceContents | BlobResourceContents]:
    """Several contents at once."""
    return [
        TextResourceContents(uri="several://parts/1", mime_type="text/plain", text="one"),
        BlobResourceContents(uri="several://parts/2", mime_type="image/png", blob="iVBORw=="),
    ]


@server.resource("shelf://{room}/{book}", title="A book", mime_type="text/plain", annotations=FOR_USERS, ttl=60)
async def book(room: Literal["attic", "cellar", "cabin"], book: int) -> str:
    """A book on a shelf."""
    if book > 99:
        raise ResourceNotFound
    return f"book {book} in the {room}"


@server.resource("broken://it")
async def broken() -> str:
    """Fail."""
    raise ValueError("a secret of the server")


@server.resource("asking://name")
async def asking(ctx: Context) -> str:
    """A resource that depends on who reads it."""
    return f"for {(await ctx.elicit('Who reads?', str)).value}"


@server.resource("git://repository/HEAD")
async def head() -> str:
    """The newest commit."""
    return "0123abc"


server.add_resource("https://example.com/page", "<p>also on the web</p>", mime_type="text/html")
server.add_directory(FILES, uri="file:///project/", ttl=1)


@server.completion("shelf://{room}/{book}", "book")
async def complete_book(typed: str, arguments: dict[str, str]) -> list[str]:
    """Complete the number of a book; the cellar has many."""
    return [str(n) for n in range(1000 if arguments.get("room") == "cellar" else 20) if str(n).startswith(typed)]


# Prompts.


@server.prompt(title="Request code review", icons=[ICON])
async def code_review(code: str, language: Literal["python", "pytorch", "pyside", "rust"] = "python") -> str:
    """Ask for a review.

    Args:
        code: The code to review.
        language: What it is written in.
    """
    return f"Please review this {language} code:\n{code}"


@server.prompt
async def gallery() -> list[PromptMessage]:
    """Show every kind of content."""
    embedded = EmbeddedResource(
        resource=TextResourceContents(uri="note://today", mime_type="text/plain", text="a note")
    )
    return [
        user_message(TextContent(text="Look:", annotations=FOR_USERS)),
        assistant_message(ImageContent(data="iVBORw==", mime_type="image/png")),
        user_message(AudioContent(data="UklGRg==", mime_type="audio/wav")),
        user_message(ResourceLink(uri="note://today", name="today", mime_type="text/plain")),
        user_message(embedded),
    ]


@server.prompt
async def broken_prompt() -> str:
    """Fail."""
    raise ValueError("a secret of the server")


@server.prompt
async def personal(ctx: Context) -> str:
    """A prompt for any client."""
    return f"for {(await ctx.elicit('Whose?', str)).value}"


@server.completion("code_review", "code")
async def complete_code(typed: str, arguments: dict[str, str]) -> list[str]:
    """Complete the code, by the language that is filled in."""
    if typed == "bug":
        raise ValueError("a secret of the server")
    return [f"{typed} in {arguments.get('language', 'any language')}"]


if __name__ == "__main__":
    server.run()
