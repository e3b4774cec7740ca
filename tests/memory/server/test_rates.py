"""How often a client may use a tool, a prompt or a resource: by client, on Trio's clock."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import call_tool, open_raw

from trio_mcp import (
    Client,
    Context,
    HttpServerParameters,
    McpASGI,
    Principal,
    Proxy,
    RequestError,
    Revision,
    Server,
    open_client,
)

LEGACY, MODERN = Revision.V2025_11_25, Revision.V2026_07_28
BOTH = pytest.mark.parametrize("revision", [LEGACY, MODERN])
BUSY = -31002


@pytest.fixture
def clock(autojump_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """A clock that jumps."""
    return autojump_clock


def limited_server() -> Server:
    """Return a server whose things have rates, and one that has none."""
    server = Server("limited")

    @server.tool(rate="2/minute")
    async def search(words: str = "") -> str:
        return f"found {words}"

    @server.tool
    async def free() -> str:
        return "free"

    @server.tool(rate="1/minute")
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    @server.prompt(rate="1/hour")
    def hello() -> str:
        return "hello"

    @server.resource("note://{name}", rate="1/10 seconds")
    async def note(name: str) -> str:
        return name

    return server


@asynccontextmanager
async def opened(server: Server, revision: Revision) -> AsyncGenerator[Client]:
    """Open a client without a cache that could answer for the server."""
    async with open_client(server, revision=revision, cache=None, on_elicit=lambda _: {"value": "Ada"}) as client:
        yield client


async def refusal(asking: Any) -> RequestError:
    """Return the error that a call ends with."""
    with pytest.raises(RequestError) as caught:
        await asking
    assert caught.value.code == BUSY
    return caught.value


@BOTH
async def test_a_tool_may_be_called_so_often(
    revision: Revision, clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal says when to try again, and then it works."""
    del clock
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    async with opened(limited_server(), revision) as client:
        for word in ("a", "b"):
            assert (await client.call_tool("search", {"words": word})).text == f"found {word}"
        error = await refusal(client.call_tool("search"))
        assert error.message == "the tool search may be used 2/minute by each client (rate): try again in 30 s"
        assert error.data == {"retryAfter": 30}
        await trio.sleep(10)
        assert (await refusal(client.call_tool("search"))).data == {"retryAfter": 20}
        assert (await client.call_tool("free")).text == "free"
        await trio.sleep(20)
        assert not (await client.call_tool("search")).is_error
        await refusal(client.call_tool("search"))
    records = [record.__dict__ for record in caplog.records if record.name == "trio_mcp.audit"]
    names = ("event", "limit", "method", "target", "server", "transport", "client", "principal")
    assert [tuple(one[name] for name in names) for one in records] == 3 * [
        ("request", "rate", "tools/call", "search", "limited", "memory", None, None)
    ]


@BOTH
async def test_records_name_what_was_asked_for(
    revision: Revision, clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A prompt by its name, a resource by its URI, also that of a template; a proxy refuses in its own name."""
    del clock
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    async with opened(limited_server(), revision) as client:
        for _ in range(2):
            with suppress(RequestError):
                await client.get_prompt("hello")
            with suppress(RequestError):
                await client.read_resource("note://a")
    proxy: Any = Proxy(limited_server(), rate="2/minute")
    async with opened(proxy, revision) as client:
        await client.call_tool("free")
        await client.call_tool("free")
        await refusal(client.call_tool("free"))
    records = [record.__dict__ for record in caplog.records if record.name == "trio_mcp.audit"]
    assert [(one["limit"], one["method"], one["target"], one["server"], one["transport"]) for one in records] == [
        ("rate", "prompts/get", "hello", "limited", "memory"),
        ("rate", "resources/read", "note://a", "limited", "memory"),
        ("rate", "tools/call", "free", "proxy", "memory"),
    ]


@BOTH
async def test_prompts_and_resources_have_rates_too(revision: Revision, clock: trio.testing.MockClock) -> None:
    """What a template stands for counts together."""
    del clock
    async with opened(limited_server(), revision) as client:
        await client.get_prompt("hello")
        assert (await refusal(client.get_prompt("hello"))).data == {"retryAfter": 3_600}
        assert (await client.read_resource("note://a")).text == "a"
        error = await refusal(client.read_resource("note://b"))
        assert error.message.startswith("the resource note://{name} may be used 1/10 seconds by each client")
        await trio.sleep(10)
        assert (await client.read_resource("note://b")).text == "b"
        assert len(await client.list_tools()) == 3


@BOTH
async def test_a_call_that_asks_its_client_counts_once(revision: Revision, clock: trio.testing.MockClock) -> None:
    """In the modern era it is sent twice, and goes on where it has waited."""
    del clock
    async with opened(limited_server(), revision) as client:
        assert (await client.call_tool("ask")).text == "Ada"
        assert (await refusal(client.call_tool("ask"))).data == {"retryAfter": 60}


async def test_each_client_has_a_rate_of_its_own(clock: trio.testing.MockClock) -> None:
    """Over HTTP a client is a principal, however many connections it has."""
    del clock

    async def who(call: Any) -> Principal:
        return Principal(call.headers.get("x-user"))

    async with open_raw(limited_server(), authenticate=who) as raw:

        async def status(user: str) -> int:
            return (await raw.send(call_tool("search", words="a"), {"X-User": user})).status

        assert [await status("ann") for _ in range(3)] == [200, 200, 429]
        assert [await status("bob") for _ in range(3)] == [200, 200, 429]
        assert await status("ann") == 429
        refused = await raw.send(call_tool("search"), {"X-User": "ann"})
        assert refused.headers["retry-after"] == str(refused.messages[0]["error"]["data"]["retryAfter"]) == "30"
        assert "retry-after" not in (await raw.send(call_tool("free"), {"X-User": "ann"})).headers


async def test_connections_have_rates_of_their_own(clock: trio.testing.MockClock) -> None:
    """In memory each connection is a client."""
    del clock
    server = limited_server()
    for _ in range(2):
        async with opened(server, MODERN) as client:
            await client.get_prompt("hello")
            await refusal(client.get_prompt("hello"))


async def test_a_tool_that_is_registered_again_begins_anew(clock: trio.testing.MockClock) -> None:
    """And one that is hidden is unknown, however often it was called."""
    del clock
    server = limited_server()
    async with opened(server, MODERN) as client:
        for _ in range(2):
            await client.call_tool("search")
        server.disable_tool("search")
        with pytest.raises(RequestError, match="Unknown tool"):
            await client.call_tool("search")
        server.remove_tool("search")

        @server.tool(rate="1/minute")
        async def search() -> str:
            return "new"

        assert (await client.call_tool("search")).text == "new"
        await refusal(client.call_tool("search"))


@pytest.mark.parametrize(
    ("rate", "error", "shown"),
    [
        ("10", ValueError, "'10'"),
        ("0/minute", ValueError, "'0/minute'"),
        (10, TypeError, "10"),
        ("", ValueError, "''"),
    ],
)
def test_a_rate_that_is_none_is_refused_by_its_value(rate: Any, error: type[Exception], shown: str) -> None:
    """When it is registered, and nothing is registered then."""
    server = Server("limited")

    async def some() -> str:
        raise NotImplementedError

    registering: list[Callable[[], object]] = [
        lambda: server.tool(rate=rate)(some),
        lambda: server.prompt(rate=rate)(some),
        lambda: server.resource("a:b", rate=rate)(some),
    ]
    for register in registering:
        with pytest.raises(error, match=rf"^rate.*{shown}$"):
            register()

    with pytest.raises(ValueError, match="no tool"):
        server.find_tool("some")


# A whole server.


@BOTH
async def test_a_server_counts_what_its_handlers_serve(revision: Revision, clock: trio.testing.MockClock) -> None:
    """Whatever is asked for; a client can still be reached, and leave."""
    del clock
    server = Server("limited", rate="2/minute")

    @server.tool
    async def free() -> str:
        return "free"

    async with opened(server, revision) as client:
        assert (await client.call_tool("free")).text == "free"
        assert len(await client.list_tools()) == 1
        error = await refusal(client.list_tools())
        assert error.message == "the server limited may be used 2/minute by each client (rate): try again in 30 s"
        await client.ping()
        await trio.sleep(30)
        assert (await client.call_tool("free")).text == "free"
        assert (await refusal(client.call_tool("free"))).data == {"retryAfter": 30}


async def test_the_connections_of_a_principal_count_together(clock: trio.testing.MockClock) -> None:
    """Over HTTP, in both eras and in all sessions; another principal is not concerned."""
    del clock
    server = Server("limited", rate="3/minute")

    @server.tool
    async def free() -> str:
        return "free"

    async def who(call: Any) -> Principal:
        return Principal(call.headers.get("x-user"))

    @asynccontextmanager
    async def client_of(user: str, revision: Revision) -> AsyncGenerator[Client]:
        app = McpASGI(server, authenticate=who)
        target = HttpServerParameters("http://localhost/mcp", headers={"X-User": user}, app=app)
        async with open_client(target, revision=revision) as client:
            yield client

    for revision in (LEGACY, MODERN, LEGACY):
        async with client_of("ann", revision) as client:
            assert (await client.call_tool("free")).text == "free"
    async with client_of("ann", MODERN) as ann, client_of("bob", LEGACY) as bob:
        assert (await refusal(ann.call_tool("free"))).data == {"retryAfter": 20}
        assert (await bob.call_tool("free")).text == "free"


async def test_the_refusal_of_a_server_has_retry_after(clock: trio.testing.MockClock) -> None:
    """Over modern HTTP, as other refusals have it; a client finds it in the error."""
    del clock
    server = Server("limited", rate="1/minute")

    @server.tool
    async def free() -> str:
        return "free"

    app = McpASGI(server)
    async with (
        open_raw(server) as raw,
        open_client(HttpServerParameters("http://localhost/mcp", app=app), revision=MODERN) as client,
    ):
        assert (await raw.send(call_tool("free"))).status == 200
        refused = await raw.send(call_tool("free"))
        assert (refused.status, refused.headers["retry-after"]) == (429, "60")
        assert (await refusal(client.call_tool("free"))).retry_after == 60


def _limited_server(rate: Any) -> object:
    return Server("limited", rate=rate)


def _limited_proxy(rate: Any) -> object:
    return Proxy(Server("a"), rate=rate)


@pytest.mark.parametrize("make", [_limited_server, _limited_proxy])
def test_the_rate_of_a_server_is_checked(make: Callable[[Any], object]) -> None:
    """By its value."""
    with pytest.raises(ValueError, match=r"^rate must be a rate such as .* not 'much'$"):
        make("much")
    with pytest.raises(TypeError, match=r"^rate must be a rate such as .* not 3$"):
        make(3)


# A proxy.


@pytest.mark.parametrize("behind", [LEGACY, MODERN])
@BOTH
async def test_a_proxy_counts_what_it_forwards(
    revision: Revision, behind: Revision, clock: trio.testing.MockClock
) -> None:
    """What is refused does not reach the server; what no rate is about does, as on a server."""
    del clock
    server = Server("behind", revisions=[behind])
    called: list[str] = []

    @server.tool
    async def free() -> str:
        called.append("free")
        return "free"

    proxy = Proxy(server, rate="2/minute")
    async with open_client(proxy, revision=revision, cache=None) as client, open_client(proxy) as other:
        assert (await client.call_tool("free")).text == "free"
        assert len(await client.list_tools()) == 1
        error = await refusal(client.call_tool("free"))
        assert error.message == "the proxy may be used 2/minute by each client (rate): try again in 30 s"
        assert error.data == {"retryAfter": 30}
        assert called == ["free"]
        await client.ping()
        assert (await other.call_tool("free")).text == "free"
        await trio.sleep(30)
        assert (await client.call_tool("free")).text == "free"


async def test_a_proxy_passes_retry_after_on(clock: trio.testing.MockClock) -> None:
    """Its own, and that of the server behind it."""
    del clock
    behind = HttpServerParameters("http://localhost/mcp", app=McpASGI(limited_server()))
    async with open_raw(Proxy(behind, rate="3/minute")) as raw:
        answers = [await raw.send(call_tool("search")) for _ in range(4)]
        assert [(each.status, each.headers.get("retry-after")) for each in answers] == [
            (200, None),
            (200, None),
            (503, "30"),
            (429, "20"),
        ]
