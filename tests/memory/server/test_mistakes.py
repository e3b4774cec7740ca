"""What is easily written wrong in a server: refused where it is written, by a sentence that says what to write."""

# pyright: basic, reportSelfClsParameterName=false, reportArgumentType=false

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Annotated, Any

import attrs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from trio_mcp import Client, Context, Depends, Field, NotificationContext, Revision, Server, open_client, types


class Shelf:
    def find(self, title: str) -> str:
        return title

    @classmethod
    def open(cls, title: str) -> str:
        return title

    def shut(cls, title: str) -> str:  # noqa: N805 - what is tested
        return title


class Cursor:
    pass


def read(copies: int) -> int:
    return copies


def ours(copies: int = Field(ge=1)) -> None: ...  # type: ignore[assignment]


def theirs(copies: int = pydantic.Field(3, ge=1)) -> None: ...


def strictly(copies: int = pydantic.Field(3, ge=1, strict=True)) -> None: ...


def elsewhere(copies: Annotated[int, pydantic.Field(validation_alias="count")]) -> None: ...


def written(copies: int = pydantic.Field(3, json_schema_extra=lambda _schema: None)) -> None: ...


def derived(copies: int = pydantic.Field(default_factory=len)) -> None: ...


def of_dataclass(titles: list[str] = dataclasses.field(default_factory=list)) -> None: ...  # noqa: B008


def of_struct(copies: int = msgspec.field(default=3)) -> None: ...


def of_attrs(copies: int = attrs.field(default=3)) -> None: ...


@dataclasses.dataclass
class Order:
    copies: int = pydantic.Field(3)


@pydantic.dataclasses.dataclass
class Line:
    copies: int = pydantic.Field(3)


def of_order(order: Order) -> None: ...


def bare(ctx, title: str) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001


def bare_too(title: str, context) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001


async def stream(title: str) -> AsyncIterator[str]:  # noqa: ASYNC900 - what is tested
    yield title


def generate(title: str) -> Iterator[str]:
    yield title


def of_cursor(cursor: Cursor) -> None: ...


def of_dependency(copies: int = Depends(read)) -> None: ...  # type: ignore[assignment]


def on_field(_given: int, _count: Annotated[int, Depends(theirs)]) -> None: ...


FUNCTIONS: dict[str, tuple[Any, str]] = {
    "Field": (
        ours,
        (
            "ours(): parameter 'copies': Field(...) is no default; write it inside Annotated: "
            "copies: Annotated[int, Field(...)]"
        ),
    ),
    "an option of pydantic's": (
        strictly,
        "strictly(): parameter 'copies': Field(strict=...) of pydantic is not supported for a parameter; leave it out",
    ),
    "an option inside": (
        elsewhere,
        (
            "elsewhere(): parameter 'copies': Field(validation_alias=...) of pydantic is not supported "
            "for a parameter; leave it out"
        ),
    ),
    "a function of the schema": (
        written,
        (
            "written(): parameter 'copies': Field(json_schema_extra=...) of pydantic is not supported "
            "for a parameter; leave it out"
        ),
    ),
    "a factory of other members": (
        derived,
        (
            "derived(): parameter 'copies': Field(default_factory=...) of pydantic is not supported "
            "for a parameter; leave it out"
        ),
    ),
    "dataclasses.field": (
        of_dataclass,
        (
            "of_dataclass(): parameter 'titles': dataclasses.field(...) is no default here; "
            "write the default itself: titles: list[str] = ..."
        ),
    ),
    "msgspec.field": (
        of_struct,
        (
            "of_struct(): parameter 'copies': msgspec.field(...) is no default here; "
            "write the default itself: copies: int = ..."
        ),
    ),
    "attrs.field": (
        of_attrs,
        (
            "of_attrs(): parameter 'copies': attrs.field(...) is no default here; "
            "write the default itself: copies: int = ..."
        ),
    ),
    "in a dataclass": (
        of_order,
        (
            "of_order(): parameter 'order': Order.copies: Field(...) is no default; write it inside Annotated: "
            "copies: Annotated[int, Field(...)] = 3"
        ),
    ),
    "of a dependency": (
        on_field,
        (
            "theirs(): parameter 'copies': Field(...) is no default; write it inside Annotated: "
            "copies: Annotated[int, Field(...)] = 3"
        ),
    ),
    "Depends": (
        of_dependency,
        "of_dependency(): parameter 'copies' has Depends(...) as its default; write it inside Annotated",
    ),
    "self": (Shelf.find, "find(): no client can give 'self'; register the bound method, Shelf(...).find"),
    "cls": (Shelf.shut, "shut(): no client can give 'cls'; register the bound method, Shelf.shut, a classmethod"),
    "a classmethod": (
        Shelf.__dict__["open"],
        "open() is a classmethod, which cannot be called yet: register it after its class",
    ),
    "ctx": (
        bare,
        "bare(): parameter 'ctx' needs an annotation; write ctx: Context, or ctx: Any if clients are to give it",
    ),
    "context": (
        bare_too,
        (
            "bare_too(): parameter 'context' needs an annotation; write context: Context, "
            "or context: Any if clients are to give it"
        ),
    ),
    "a class": (Shelf, "Shelf(): it is a class; give a function that makes the object"),
    "a class as a type": (
        of_cursor,
        (
            f"of_cursor(): parameter 'cursor': {__name__}.Cursor has no form in JSON; "
            "a dataclass, an attrs class or a TypedDict has one"
        ),
    ),
    "an async generator": (
        stream,
        "stream() is an async generator: return the whole result, and report steps by Context.progress()",
    ),
    "a lambda": (
        lambda title: title,
        "a lambda has no name: give it one, as in server.tool(name=...)(lambda: ...)",
    ),
    "a result": (read(3), "what is registered is a function, not 3"),
}


def test_a_function_that_cannot_be_meant_is_refused_with_what_to_write(subtests: pytest.Subtests) -> None:
    """Most of these were arguments that no client can give, or results that fail when they are sent."""
    for function, message in FUNCTIONS.values():
        with subtests.test(function=function, message=message):
            for register in (
                Server("shelf").tool,
                Server("shelf").prompt,
                Server("shelf").resource("shelf://{title}"),
            ):
                with pytest.raises((TypeError, ValueError)) as caught:
                    register(function)
                assert str(caught.value) == message


def test_a_generator_makes_the_messages_of_a_prompt_and_nothing_else() -> None:
    """A prompt has several messages, and may yield them."""
    server = Server("shelf")
    server.prompt(generate)
    wanted = "generate() is a generator: return the whole result, and report steps by Context.progress()"
    for register in (server.tool, server.resource("shelf://{title}")):
        with pytest.raises(TypeError) as caught:
            register(generate)
        assert str(caught.value) == wanted


def test_what_only_looks_like_a_mistake_is_registered() -> None:
    """A bound method has no `self`; an annotation says what is meant; a `Field` inside `Annotated` is at its place."""
    server = Server("shelf")

    @server.tool
    def order(
        copies: Annotated[int, pydantic.Field(alias="count", ge=1, description="How many.")] = 3,
    ) -> None: ...

    @server.tool
    def name(context: str, ctx: Any, cls: str) -> None: ...

    @server.tool
    async def wait(title: str, ctx: Context) -> None: ...

    @server.tool
    def put(line: Line) -> None: ...

    server.tool(Shelf().find)
    server.tool(Shelf.open)
    server.tool(name="tell")(lambda title: title)
    assert server.find_tool("order").input_schema["properties"] == {
        "count": {"type": "integer", "description": "How many.", "minimum": 1, "default": 3}
    }
    assert server.find_tool("name").input_schema["required"] == ["context", "ctx", "cls"]
    assert list(server.find_tool("find").input_schema["properties"]) == ["title"]  # type: ignore[call-overload]
    assert list(server.find_tool("open").input_schema["properties"]) == ["title"]  # type: ignore[call-overload]


@contextlib.asynccontextmanager
async def sound(_server: Server) -> AsyncGenerator[int]:
    yield 1


@contextlib.asynccontextmanager
async def of_nothing() -> AsyncGenerator[int]:
    yield 1


async def undecorated(_server: Server) -> AsyncIterator[int]:  # noqa: ASYNC900 - what is tested
    yield 1


@contextlib.contextmanager
def plain(_server: Server) -> Generator[int]:
    yield 1


def with_tool(**options: Any) -> Callable[[], object]:
    return lambda: Server("s").tool(**options)(read)


KNOWN = "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
ANYTHING: Any = Server  # whose wrong uses are the point
CALLS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a name as the function": (
        lambda: ANYTHING("s").tool("search"),
        TypeError,
        "@server.tool('search') takes no name in this place: write name='search'",
    ),
    "a name as the prompt": (
        lambda: ANYTHING("s").prompt("search"),
        TypeError,
        "@server.prompt('search') takes no name in this place: write name='search'",
    ),
    "more than one": (
        lambda: ANYTHING("s").tool("search", "Searches."),
        TypeError,
        "Server.tool() takes from 1 to 2 positional arguments but 3 were given",
    ),
    "a port as the transport's place": (
        lambda: ANYTHING("s").run("streamable-http", "127.0.0.1", 8000),
        TypeError,
        "Server.run() takes from 1 to 2 positional arguments but 4 were given",
    ),
    "of the class": (
        lambda: ANYTHING.tool(read),
        TypeError,
        "@Server.tool belongs to no server: write server = Server(...), @server.tool",
    ),
    "twice": (
        lambda: [server.tool(server.tool(read)) for server in (Server("s"),)],
        ValueError,
        (
            "there is a tool called 'read' already: each is registered once, by a name of its own; "
            "remove_tool takes it away"
        ),
    ),
    "a resource without a URI": (
        lambda: ANYTHING("s").resource(read),
        TypeError,
        '@server.resource needs more than a function: write @server.resource("orders://recent")',
    ),
    "a resource with nothing": (
        lambda: ANYTHING("s").resource(),
        TypeError,
        '@server.resource needs more than (): write @server.resource("orders://recent")',
    ),
    "a completion with nothing": (
        lambda: ANYTHING("s").completion(),
        TypeError,
        '@server.completion needs more than (): write @server.completion("summarise", "order_id")',
    ),
    "a bare completion": (
        lambda: ANYTHING("s").completion(read),
        TypeError,
        '@server.completion needs more than a function: write @server.completion("summarise", "order_id")',
    ),
    "a server with a port": (
        lambda: ANYTHING("s", port=8000),
        TypeError,
        "port is an option of run(): write server.run('streamable-http', port=...)",
    ),
    "a completion of nothing": (
        lambda: ANYTHING("s").completion(read, "title"),
        TypeError,
        '@server.completion needs more than a function: write @server.completion("summarise", "order_id")',
    ),
    "a handler of nothing": (
        lambda: ANYTHING("s").request_handler(read),
        TypeError,
        '@server.request_handler needs more than a function: write @server.request_handler("tools/list")',
    ),
    "a handler of notifications": (
        lambda: ANYTHING("s").notification_handler(3),
        TypeError,
        '@server.notification_handler needs more than 3: write @server.notification_handler("com.example/saved")',
    ),
    "no handler": (
        lambda: ANYTHING("s").request_handler("x/y")(3),
        TypeError,
        "what is registered is a function, not 3",
    ),
    "annotations": (
        with_tool(annotations={"readOnlyHint": True}),
        TypeError,
        "annotations takes types.ToolAnnotations(...), not dict",
    ),
    "annotations of a resource": (
        lambda: ANYTHING("s").add_resource("a://b", "c", annotations={"priority": 1}),
        TypeError,
        "annotations takes types.Annotations(...), not dict",
    ),
    "icons": (
        with_tool(icons="a.png"),
        TypeError,
        "icons takes types.Icon(...) in a list, not str: write icons=[...]",
    ),
    "icons in a list": (
        with_tool(icons=["a.png"]),
        TypeError,
        "icons takes types.Icon(...) in a list, not list of str",
    ),
    "content": (
        lambda: ANYTHING("s").add_resource("a://b", {"c": 1}),
        TypeError,
        "content takes str or bytes, not dict",
    ),
    "the name of a server": (
        lambda: ANYTHING(read),
        TypeError,
        "name takes str, not function",
    ),
    "limits": (lambda: ANYTHING("s", limits={}), TypeError, "limits takes Limits(...), not dict"),
    "middleware": (
        lambda: ANYTHING("s", middleware=read),
        TypeError,
        "middleware takes a function in a list, not function: write middleware=[...]",
    ),
    "extensions": (
        lambda: ANYTHING("s", extensions=["a"]),
        TypeError,
        "extensions takes ServerExtension(...) in a list, not list of str",
    ),
    "cache": (
        lambda: ANYTHING("s", cache=60),
        TypeError,
        "cache takes CacheHint(...) or CacheHint(...) by name in a mapping, not int",
    ),
    "one revision": (
        lambda: ANYTHING("s", revisions="2025-06-18"),
        TypeError,
        "revisions takes Revision(...) or str in a list, not str: write revisions=[...]",
    ),
    "no such revision": (
        lambda: ANYTHING("s", revisions=["2025-06-17"]),
        ValueError,
        f"'2025-06-17' is no revision of MCP: these are {KNOWN}",
    ),
    "the latest": (lambda: Revision("latest"), ValueError, f"'latest' is no revision of MCP: these are {KNOWN}"),
    "a lifespan that is called": (
        lambda: ANYTHING("s", lifespan=of_nothing()),
        TypeError,
        "lifespan takes the function itself, without parentheses, not _AsyncGeneratorContextManager",
    ),
    "a lifespan that is undecorated": (
        lambda: ANYTHING("s", lifespan=undecorated),
        TypeError,
        "lifespan undecorated() needs @asynccontextmanager above it, and to yield once",
    ),
    "a lifespan of nothing": (
        lambda: ANYTHING("s", lifespan=of_nothing),
        TypeError,
        "lifespan of_nothing() is called with the server: write async def of_nothing(server: Server)",
    ),
}


def test_a_call_that_cannot_be_meant_is_refused_with_what_to_write(subtests: pytest.Subtests) -> None:
    """When the program starts, and in the words of its author: no class is named that only this package knows."""
    for call, kind, message in CALLS.values():
        with subtests.test(call=call, kind=kind, message=message):
            with pytest.raises(kind) as caught:
                call()
            assert str(caught.value) == message


@contextlib.asynccontextmanager
async def twice(_server: Server) -> AsyncGenerator[int]:
    yield 1
    yield 2


@contextlib.asynccontextmanager
async def never(_server: Server) -> AsyncGenerator[int]:
    if _server.middleware:
        yield 1


@contextlib.asynccontextmanager
async def within(_server: Server) -> AsyncGenerator[int]:
    async with never(_server) as number:
        yield number


async def test_a_lifespan_yields_exactly_once() -> None:
    """What it enters itself is not its own mistake."""
    for lifespan in (twice, never):
        with pytest.raises(RuntimeError) as caught:
            async with open_client(Server("s", lifespan=lifespan)):
                pass
        name = lifespan.__name__
        assert str(caught.value) == f"lifespan {name}() must yield exactly once: the state, or nothing"
    with pytest.raises(RuntimeError, match=r"^generator didn't yield$"):
        async with open_client(Server("s", lifespan=within)):
            pass


async def test_a_lifespan_that_is_no_async_context_manager_is_refused_when_it_is_entered() -> None:
    """What a function returns is known when it is called."""
    with pytest.raises(TypeError) as caught:
        async with open_client(ANYTHING("s", lifespan=plain)):
            pass
    assert str(caught.value) == (
        "lifespan plain() has returned _GeneratorContextManager, which is no async context manager: "
        "write @asynccontextmanager above an async def that yields"
    )
    async with open_client(Server("s", lifespan=sound)) as client:
        await client.ping()


NO_TARGET = (
    "a client is opened on a URL, HttpServerParameters, WebSocketServerParameters, StdioServerParameters, "
    "TcpServerParameters, UnixServerParameters, a Server, a Proxy or a Channel, not on "
)
PROGRAM = "; a program is started by StdioServerParameters(command, args)"
PYTHON = "; a program is started by StdioServerParameters(sys.executable, ['server.py'])"
CONFIGURATION = "; open_clients(...) opens the servers of a configuration"
NO_URL = "a string must be the URL of a server, such as 'https://example.com/mcp', not "
TARGETS: dict[str, tuple[Any, str]] = {
    "a number": (3, f"{NO_TARGET}int"),
    "the class": (Server, f"{NO_TARGET}the class Server"),
    "a command line": (["python", "server.py"], f"{NO_TARGET}list{PROGRAM}"),
    "a path": (pathlib.PurePosixPath("server.py"), f"{NO_TARGET}PurePosixPath{PYTHON}"),
    "a path as text": ("server.py", f"{NO_URL}'server.py'{PYTHON}"),
    "a command": ("server", f"{NO_URL}'server'{PROGRAM}"),
    "a command line as text": (
        "npx -y @mcp/server",
        f"{NO_URL}'…'; a program is started by StdioServerParameters('npx', [...])",
    ),
    "nothing": ("", f"{NO_URL}''{PROGRAM}"),
    "a host": ("localhost:8000", f"{NO_URL}'localhost:8000'; write 'http://localhost:8000/mcp'"),
    "a host and a path": (
        "localhost:8000/x?key=secret",
        f"{NO_URL}'localhost:8000/x?…'; write 'http://localhost:8000/x?…'",
    ),
    "a configuration": ({"mcpServers": {}}, f"{NO_TARGET}dict{CONFIGURATION}"),
    "the path of a configuration": ("mcp.json", f"{NO_URL}'mcp.json'{CONFIGURATION}"),
}


@pytest.mark.parametrize(("target", "message"), TARGETS.values(), ids=TARGETS)
async def test_what_is_no_target_is_refused_with_what_is_one(target: Any, message: str) -> None:
    """By the names that one can write."""
    with pytest.raises((TypeError, ValueError)) as caught:
        async with open_client(target):
            pass
    assert str(caught.value) == message


async def test_errors_about_arguments_of_a_client_name_the_client() -> None:
    """And not the class below it."""
    async with open_client(Server("s")) as client:
        loose: Any = client
        with pytest.raises(
            TypeError, match=r"\AClient\.request\(\) missing 1 required positional argument: 'method'"
        ):
            await loose.request()


def test_annotations_that_are_right_are_taken() -> None:
    """The counterpart of those that are refused."""
    server = Server("s")
    server.tool(annotations=types.ToolAnnotations(read_only_hint=True), icons=[types.Icon(src="a:b")])(read)
    server.add_resource("a://b", "c", annotations=types.Annotations(priority=1.0))
    assert server.find_tool("read").annotations == types.ToolAnnotations(read_only_hint=True)


def test_a_hint_that_fills_nothing_says_what_to_write() -> None:
    """When it is registered; a dependency that is marked as one is none of these."""
    server = Server("mistaken")

    def number() -> int:
        raise NotImplementedError

    def some(c: Any) -> str:
        raise NotImplementedError

    reaches = "write ctx: Context, which reaches the client"
    texts: list[tuple[Any, str]] = [
        (Client, f"no parameter is a Client; {reaches}"),
        (NotificationContext | None, f"no parameter is a NotificationContext; {reaches}"),
        (NotificationContext[int], f"no parameter is a NotificationContext; {reaches}"),
        (Annotated[int, number], "a function inside Annotated fills no parameter; write Depends(number) there"),
        (Annotated[int, Depends], "Depends inside Annotated is not called; write Depends(...) there"),
        (Annotated[object, Depends], "Depends inside Annotated is not called; write Depends(...) there"),
        (Annotated[int, Field], "Field inside Annotated is not called; write Field(...) there"),
        (Annotated[int, pydantic.Field], "Field inside Annotated is not called; write Field(...) there"),
        (Annotated[int, lambda: 3], "a function inside Annotated fills no parameter; write Depends(...) there"),
    ]
    for hint, text in texts:
        some.__annotations__["c"] = hint
        for register in (server.tool, server.prompt, server.resource("a:{c}")):
            with pytest.raises(TypeError) as caught:
                register(some)
            assert str(caught.value) == f"some(): {text}"
    some.__annotations__["c"] = Annotated[int, Depends(number)]
    assert server.tool(some) is some
