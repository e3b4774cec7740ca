"""What is of another kind than its hint says is refused where it is given, by its name: what was wanted, and what was found.

Programs that are checked never see this. Others saw an error of the library's insides, or nothing until much later.
"""

from __future__ import annotations

import inspect
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from inside_server import FunctionOptions, PromptOptions, ResourceOptions, ToolOptions

import trio_mcp
from trio_mcp import (
    ClientOptions,
    Context,
    GroupOptions,
    HttpServerSettings,
    Limits,
    ListOptions,
    McpASGI,
    Proxy,
    RequestError,
    Server,
    WorkOptions,
    memory_channel_pair,
    open_client,
    open_clients,
    open_endpoint,
    serve_http,
    serve_stdio,
    serve_tcp,
    serve_unix,
    serve_websocket,
)
from trio_mcp.types import Tool

API: Any = trio_mcp
"""What type checkers do not look at."""


class Other:
    """Of no kind that anything takes; and JSON has none."""

    def __repr__(self) -> str:
        return "<other>"


OTHER: Any = Other()


def shop() -> Any:
    """Return a server with one of everything."""
    server = Server("shop")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.prompt
    def hello(name: str) -> str:
        return name

    @server.resource("note://{name}")
    def note(name: str) -> str:
        return name

    return server


def names_of(function: Callable[..., Any]) -> list[str]:
    """Return what a function takes, but for what its caller does not choose."""
    found = inspect.signature(function).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in found if one.kind in named and one.name not in {"self", "task_status"}]


async def finished(outcome: Any) -> None:
    """Enter what is a block, and await what can be awaited."""
    if isinstance(outcome, AbstractAsyncContextManager):
        async with outcome:
            pass
    elif isinstance(outcome, Awaitable):
        await outcome


async def refusal(act: Callable[[], Any]) -> Exception:
    """Return what an act is refused with."""
    with pytest.raises((TypeError, ValueError)) as refused:
        await finished(act())
    return refused.value


# Every option.

SERVES: dict[Callable[..., Any], dict[str, Any]] = {
    serve_http: {"port": 0},
    serve_websocket: {"port": 0},
    serve_tcp: {"port": 0},
    serve_unix: {"path": "it"},
    serve_stdio: {},
    open_endpoint: {},
    McpASGI: {},
}

REGISTRATIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tool": (ToolOptions, ()),
    "prompt": (PromptOptions, ()),
    "resource": (FunctionOptions, ("a://b",)),
    "add_resource": (ResourceOptions, ("a://b", "c")),
    "add_file": (ResourceOptions, ("a.txt",)),
    "add_directory": (ResourceOptions, (".",)),
}


def register(method: str, *given: Any, **options: Any) -> None:
    """Register something; what is registered by a decorator is a function."""
    decorator = getattr(shop(), method)(*given, **options)
    if decorator is not None:
        decorator(plain)


def plain() -> str:
    return ""


def all_options() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield each option with what it is of, and what gives it something else."""
    for name in names_of(Server.__init__):
        yield "Server", name, partial(API.Server, **({"name": "x"} | {name: OTHER}))
    for name in names_of(Proxy.__init__):
        yield "Proxy", name, partial(API.Proxy, **({"target": shop()} | {name: OTHER}))
    for function, usual in SERVES.items():
        for name in names_of(function):
            yield function.__name__, name, partial(function, **({"server": shop()} | usual | {name: OTHER}))
    for name in ClientOptions.__annotations__:
        target = "http://127.0.0.1:1" if name == "auth" else shop()
        yield "open_client", name, partial(API.open_client, target, **{name: OTHER})
    for name in GroupOptions.__annotations__:
        yield "open_clients", name, partial(API.open_clients, {"shop": "http://127.0.0.1:1"}, **{name: OTHER})
    for method, (options, given) in REGISTRATIONS.items():
        for name in options.__annotations__:
            yield method, name, partial(register, method, *given, **{name: OTHER})
    yield "resource", "unsafe_variables", partial(shop().resource, "a://{b}", unsafe_variables=OTHER)
    arguments: dict[str, dict[str, Any]] = {
        "add_resource": {"uri": "a://b", "content": "c"},
        "add_file": {"path": "a.txt", "uri": None},
        "add_directory": {"path": ".", "uri": None, "pattern": "*", "hidden": False},
        "completion": {"reference": "hello", "argument": "name", "thread": True},
        "resource_updated": {"uri": ""},
        "list_changed": {"kind": ""},
        "notify": {"method": "x/y", "params": None},
    }
    for method, usual in arguments.items():
        for name in usual:
            if (method, name) != (
                "completion",
                "reference",
            ):  # which may be the function: the error speaks of that
                yield method, name, partial(getattr(shop(), method), **(usual | {name: OTHER}))
    for name in ("shutdown", "on_frame"):
        yield "serve_channel", name, partial(shop().serve_channel, memory_channel_pair()[0], **{name: OTHER})


EXPLAINED = {"target": "a client is opened on "}
"""What is refused by a sentence that has no need of the name."""


async def test_every_option_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """If it is of no kind that could be meant; nothing was begun."""
    monkeypatch.chdir(tmp_path)
    tried = 0
    for of, name, act in all_options():
        tried += 1
        with subtests.test(f"{of}({name}=)"):
            said = str(await refusal(act))
            assert EXPLAINED.get(name, name) in said
            assert "\n" not in said
            assert "attribute" not in said, "an error of the insides"
    assert tried > 200
    assert list(tmp_path.iterdir()) == []


# What is called for each request is looked at only when it has failed.

CLIENT: dict[str, dict[str, Any]] = {
    "call_tool": {"name": "add", "arguments": {"a": 1, "b": 2}, "returns": None, "input_required": "answer"},
    "read_resource": {"uri": "note://b", "input_required": "answer"},
    "get_prompt": {"name": "hello", "arguments": {"name": "x"}, "input_required": "answer"},
    "complete": {"ref": "hello", "argument": "name", "value": "x", "context": None, "meta": None},
    "discover": {"meta": None},
    "ping": {"meta": None},
    "set_log_level": {"level": "info", "meta": None},
    "set_roots": {"roots": []},
    "request": {"method": "tools/list", "params": None, "on_progress": None},
    "request_many": {"requests": [], "batch": False},
    "notify": {"method": "x/y", "params": None},
    "answer_input": {"input_requests": {}},
    "listen": {
        "tools_list_changed": True,
        "prompts_list_changed": True,
        "resources_list_changed": True,
        "resources": (),
        "max_events": None,
    },
    "list_tools": dict.fromkeys(ListOptions.__annotations__),
}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_argument_of_a_client_is_refused_by_its_name(
    revision: str, subtests: pytest.Subtests
) -> None:
    """Also where it cost a request to find out, whose error was about JSON, or the server's."""
    async with open_client(shop(), revision=revision, roots=[]) as client:
        for method, given in CLIENT.items():
            calls = getattr(client, method)
            if method in {"call_tool", "read_resource", "get_prompt"}:
                given = given | dict.fromkeys(WorkOptions.__annotations__)
            usual = {key: value for key, value in given.items() if value is not None}
            for name in given:
                if revision < "2026" and (name in {"input_responses", "request_state"} or method == "discover"):
                    continue  # it has none of these, and they are left out
                with subtests.test(method=method, name=name):
                    error = await refusal(partial(calls, **(usual | {name: OTHER})))
                    assert name in str(error), error


GROUP: dict[str, dict[str, Any]] = {
    "call_tool": {"name": "shop_add", "arguments": {}, "returns": None, "input_required": "answer"},
    "get_prompt": {"name": "shop_hello", "arguments": {}, "input_required": "answer"},
    "listen": {
        "tools_list_changed": True,
        "prompts_list_changed": True,
        "resources_list_changed": True,
        "resources": None,
        "max_events": None,
    },
    "wait_ready": {"at_least": 1},
}


async def test_every_argument_of_a_group_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    """Before a server is looked for that could be meant."""
    async with open_clients({"shop": shop()}) as group:
        await group.wait_settled()
        for method, usual in GROUP.items():
            for name in usual:
                with subtests.test(method=method, name=name):
                    error = await refusal(partial(getattr(group, method), **(usual | {name: OTHER})))
                    assert name in str(error), error


CONTEXT: dict[str, dict[str, Any]] = {
    "elicit": {"message": "Name?", "wanted": str},
    "elicit_url": {"message": "Pay", "url": "https://example.com", "elicitation_id": "1"},
    "elicitation_complete": {"elicitation_id": "1"},
    "sample": {
        "messages": "Hello",
        "max_tokens": 9,
        "system_prompt": None,
        "model_preferences": None,
        "temperature": None,
        "stop_sequences": None,
        "include_context": None,
        "metadata": None,
        "tools": None,
        "tool_choice": None,
        "on_progress": None,
    },
    "within_roots": {"path": ".", "require": True},
    "progress": {"total": None},
    "report_progress": {"progress": 1, "total": None},
    "log": {"level": "info", "data": "", "logger": None},
    "log_nowait": {"level": "info", "data": "", "logger": None},
    "wants_log": {"level": "info"},
    "error": {"data": "", "logger": None},
    "request": {"method": "roots/list", "params": None, "on_progress": None},
    "notify": {"method": "x/y", "params": None},
    "release_connection": {"retry_after": None},
    "start_soon": {"async_fn": trio.sleep_forever, "until": "session"},
}


async def test_every_argument_of_a_context_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    """In the handler that has made the mistake."""
    server = Server("shop")
    seen: list[Exception] = []

    @server.tool
    async def act(ctx: Context) -> None:
        for method, usual in CONTEXT.items():
            for name in usual:
                with subtests.test(method=method, name=name):
                    error = await refusal(partial(getattr(ctx, method), **(usual | {name: OTHER})))
                    assert name in str(error), error
                    seen.append(error)

    async with open_client(
        server,
        revision="2025-11-25",
        log_level="debug",
        on_elicit=lambda _: "cancel",
        on_sample=lambda _: "",
        roots=[],
        elicit_modes=["form", "url"],
    ) as client:
        assert (await client.call_tool("act")).text == ""
    assert len(seen) == sum(map(len, CONTEXT.values()))


# What is said.


def read(text: str) -> str:
    return text


def with_completion(*given: str) -> None:
    shop().completion(*given)(read)


@asynccontextmanager
async def served(function: Callable[..., Any], *given: Any, **options: Any) -> AsyncGenerator[None]:
    await function(shop(), *given, **options)
    yield


def with_client(act: Callable[[Any], Any]) -> Callable[[], Any]:
    async def run() -> None:
        async with open_client(shop(), roots=[]) as client:
            await finished(act(client))

    return run


def returns_a_context() -> Context:
    raise AssertionError


async def iterate(block: Any) -> None:
    async for _ in block:
        raise AssertionError


LEVELS = " or ".join(map(repr, ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")))
TIMEOUT = "write 'with trio.fail_after(seconds):' around it, or open_client(request_timeout=...) for all"
SAID: Mapping[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no function": (lambda: API.open_client(shop(), on_log=3), TypeError, "on_log takes a function, not int"),
    "a word for a function": (
        lambda: API.open_client(shop(), on_elicit="accept"),
        TypeError,
        "on_elicit takes a function, not str",
    ),
    "no middleware": (
        lambda: API.Server("x", middleware=[3]),
        TypeError,
        "middleware takes a function in a list, not list of int",
    ),
    "one for several": (
        lambda: API.Server("x", request_state_keys="secret"),
        TypeError,
        "request_state_keys takes bytes in a list, not str: write request_state_keys=[...]",
    ),
    "a mapping for settings": (
        lambda: API.serve_http(shop(), settings={}),
        TypeError,
        "settings takes HttpServerSettings(...), not dict",
    ),
    "a mapping for limits": (
        lambda: API.open_client(shop(), limits={}),
        TypeError,
        "limits takes Limits(...), not dict",
    ),
    "nothing where something is needed": (
        lambda: API.open_client(shop(), limits=None),
        TypeError,
        "limits takes Limits(...), not None",
    ),
    "a token": (
        lambda: API.serve_http(shop(), port=0, authenticate="secret"),
        TypeError,
        "authenticate takes a function, not str",
    ),
    "a token for a protected server": (
        lambda: API.serve_http(shop(), port=0, auth="secret"),
        TypeError,
        "auth takes ResourceServer(...), not str",
    ),
    "a list of routes": (
        lambda: API.serve_http(shop(), port=0, routes=[("/a", read)]),
        TypeError,
        "routes takes a function by name in a mapping or a function, not list of tuple",
    ),
    "routes to nothing": (
        lambda: API.serve_http(shop(), port=0, routes={"/a": 3}),
        TypeError,
        "routes takes a function by name in a mapping or a function, not dict of int",
    ),
    "a route without a slash": (
        lambda: API.serve_http(shop(), port=0, routes={"a": read}),
        ValueError,
        "routes takes paths that begin with a slash, not 'a': write '/a'",
    ),
    "a port for a host": (
        lambda: API.serve_http(shop(), 8000),
        TypeError,
        "host takes a name or an address, not 8000: write port=8000",
    ),
    "no server": (lambda: API.serve_http(3), TypeError, "server takes a Server or a Proxy, not int"),
    "a class for a server": (
        lambda: API.serve_tcp(Server),
        TypeError,
        "server takes a Server or a Proxy, not the class Server",
    ),
    "a function for a server": (
        lambda: API.serve_stdio(read),
        TypeError,
        "server takes a Server or a Proxy, not function",
    ),
    "no server in an application": (
        lambda: API.McpASGI(3),
        TypeError,
        "server takes a Server or a Proxy, not int",
    ),
    "a number for TLS": (
        lambda: API.serve_tcp(shop(), ssl_context=3),
        TypeError,
        "ssl_context takes SSLContext, not int",
    ),
    "a name that is none": (lambda: shop().tool(name=3)(read), TypeError, "name takes str, not int"),
    "a list for a schema": (
        lambda: shop().tool(input_schema=[])(read),
        TypeError,
        "input_schema takes a mapping, not list",
    ),
    "a word that is none of two": (
        lambda: shop().tool(resume="again")(read),
        ValueError,
        "resume takes 'park' or 'replay' or 'never', not 'again'",
    ),
    "a prompt that is not there": (
        partial(with_completion, "nope", "name"),
        ValueError,
        "completion('nope', 'name') has nothing to complete yet: Unknown prompt: nope",
    ),
    "an argument that a prompt does not have": (
        partial(with_completion, "hello", "nope"),
        ValueError,
        "completion('hello', 'nope') has nothing to complete yet: prompt hello has no argument 'nope'; it has name",
    ),
    "a variable that a template does not have": (
        partial(with_completion, "note://{name}", "nope"),
        ValueError,
        (
            "completion('note://{name}', 'nope') has nothing to complete yet: "
            "template note://{name} has no variable 'nope'; it has name"
        ),
    ),
    "a context as a result": (
        lambda: shop().tool(returns_a_context),
        TypeError,
        (
            "returns_a_context(): return value: trio_mcp.Context has no form in JSON; "
            "a dataclass, an attrs class or a TypedDict has one"
        ),
    ),
    "a transport that is none": (
        lambda: shop().run("htttp"),
        ValueError,
        "transport must be 'stdio', 'streamable-http', 'sse', 'websocket', 'tcp' or 'unix', not 'htttp'",
    ),
    "an option of the transport's short name": (
        lambda: shop().run("http", settings=API.SocketServerSettings()),
        TypeError,
        "settings must be HttpServerSettings over streamable-http",
    ),
    "header fields": (
        lambda: API.open_client("http://127.0.0.1:1/mcp", headers={}),
        TypeError,
        "there is no option headers: write HttpServerParameters(url, headers=...) in place of the URL",
    ),
    "rounds of questions": (
        lambda: API.open_client("http://127.0.0.1:1/mcp", max_input_rounds=3),
        TypeError,
        "there is no option max_input_rounds: write limits=Limits(max_input_rounds=...)",
    ),
    "seconds for a client": (
        lambda: API.open_client("http://127.0.0.1:1/mcp", timeout=3),
        TypeError,
        f"there is no option timeout: {TIMEOUT}",
    ),
    "seconds for a call": (
        with_client(lambda client: client.call_tool("add", {"a": 1, "b": 2}, timeout=3)),
        TypeError,
        f"there is no option timeout: {TIMEOUT}",
    ),
    "a function for a tool": (
        with_client(lambda client: client.call_tool(read)),
        TypeError,
        "name takes str, not function",
    ),
    "an item for its name": (
        with_client(lambda client: client.call_tool(Tool(name="add", input_schema={}))),
        TypeError,
        "name takes str, not Tool",
    ),
    "a number for a URI": (
        with_client(lambda client: client.read_resource(3)),
        TypeError,
        "uri takes str, not int",
    ),
    "a number for an argument of a prompt": (
        with_client(lambda client: client.get_prompt("hello", {"name": 3})),
        TypeError,
        "arguments takes str by name in a mapping, not dict of int",
    ),
    "a list of parameters": (
        with_client(lambda client: client.request("x/y", [1])),
        TypeError,
        "params takes a mapping, not list",
    ),
    "a notification with a list": (
        with_client(lambda client: client.notify("x/y", [1])),
        TypeError,
        "params takes a mapping, not list",
    ),
    "a message for a method": (
        with_client(lambda client: client.request({"method": "x/y"})),
        TypeError,
        "method takes str, not dict",
    ),
    "what JSON does not have": (
        with_client(lambda client: client.request("x/y", {"a": [1, {"b": read}]})),
        TypeError,
        "a.1.b: JSON has no function",
    ),
    "a word that is none": (
        with_client(lambda client: client.call_tool("add", {"a": 1, "b": 2}, input_required="no")),
        ValueError,
        "input_required takes 'answer' or 'return', not 'no'",
    ),
    "a level that is none": (
        with_client(lambda client: client.set_log_level("loud")),
        ValueError,
        f"level takes {LEVELS}, not 'loud'",
    ),
    "a value for a type": (
        with_client(lambda client: client.call_tool("add", {"a": 1, "b": 2}, returns=3)),
        TypeError,
        "returns: 3 has no form in JSON",
    ),
    "listening that is iterated over": (
        with_client(lambda client: iterate(client.listen(tools_list_changed=True))),
        TypeError,
        "write 'async with client.listen(...) as it', and 'async for one in it' inside",
    ),
}


async def test_the_error_says_what_was_found_and_what_to_write(subtests: pytest.Subtests) -> None:
    """In the words of who has written it."""
    for name, (act, kind, said) in SAID.items():
        with subtests.test(name):
            error = await refusal(act)
            assert (type(error), str(error)) == (kind, said)


async def test_a_block_that_is_entered_without_async() -> None:
    """Python's own error names a class of its library."""
    async with open_client(shop()) as client:
        with pytest.raises(TypeError) as refused, client.listen(tools_list_changed=True):  # type: ignore[attr-defined] # pyright: ignore[reportGeneralTypeIssues]
            pass
    assert str(refused.value) == (
        "write 'async with client.listen(...)', in an async function that trio.run runs"
    )


async def test_a_list_is_no_result() -> None:
    """As it is in other libraries."""
    async with open_client(shop()) as client:
        pages: Any = client.list_tools()
        with pytest.raises(AttributeError) as refused:
            pages.tools  # noqa: B018 - it is what raises
        assert str(refused.value) == "a list that was not awaited has no 'tools': await it, and leave out .tools"
        tools: Any = await pages
        with pytest.raises(AttributeError) as refused:
            tools.tools  # noqa: B018 - it is what raises
        assert str(refused.value) == "what was awaited is the list itself, which has no 'tools': leave out .tools"
        assert tools == list(tools)


async def test_errors_of_python_name_the_class_that_users_know() -> None:
    """And not the part of it that has the method."""
    server = Server("shop")

    @server.tool
    async def act(ctx: Context) -> list[str]:
        said: list[str] = []
        anything: Any = ctx
        for name in ("elicit", "elicit_url", "elicitation_complete", "sample", "within_roots", "info"):
            with pytest.raises(TypeError) as refused:
                getattr(anything, name)()
            said.append(str(refused.value).split(" missing ")[0])
        return said

    async with open_client(server) as client:
        said = await client.call_tool("act", returns=list[str])
    assert said == [
        f"Context.{name}()"
        for name in ("elicit", "elicit_url", "elicitation_complete", "sample", "within_roots", "info")
    ]


# What is meant is taken.


async def test_what_servers_refuse_for_their_own_reasons_stays_their_error() -> None:
    """An argument that is of the right kind is none of ours to judge."""
    async with open_client(shop()) as client:
        with pytest.raises(RequestError, match="no/uri"):
            await client.read_resource("no/uri")


async def test_a_type_error_of_middleware_stays_itself() -> None:
    """It is about something else."""

    async def fails(message: object, call_next: object) -> Any:
        raise TypeError("of my own")

    async with open_client(shop(), revision="2025-11-25") as opened:
        assert opened.revision
    with pytest.raises(TypeError, match="of my own"):
        async with open_client(shop(), revision="2025-11-25", middleware=[fails]) as client:
            await client.call_tool("add", {"a": 1, "b": 2})


@pytest.mark.parametrize(
    "options",
    [
        {"revisions": ("2025-11-25",)},
        {"middleware": ()},
        {"icons": None, "cache": None, "rate": None},
        {"limits": Limits(), "strict_input": True, "request_state_keys": [b"x" * 32]},
    ],
)
def test_what_is_of_the_right_kind_is_taken(options: Mapping[str, Any]) -> None:
    """A tuple for a list, `None` where it means the default."""
    assert API.Server("x", **options).info.name == "x"


async def test_what_has_the_right_methods_is_taken() -> None:
    """No class needs to be inherited from: a store of events is what has its methods, a callback what can be called."""

    class Store:
        async def append(self, *_: Any) -> str:
            raise AssertionError

        async def read(self, *_: Any) -> Any:
            raise AssertionError

        async def forget(self, *_: Any) -> None:
            raise AssertionError

    class Called:
        def __call__(self, _: Any) -> None:
            raise AssertionError

    async with API.open_endpoint(shop(), HttpServerSettings(), event_store=Store()):
        pass
    async with open_client(shop(), on_log=Called()):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="cannot listen at"):
            await serve_tcp(
                shop(),
                "127.0.0.1",
                taken.getsockname()[1],
                ssl_context=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
            )
