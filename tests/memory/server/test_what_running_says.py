"""What somebody reads who starts a server, or a client, in a way that does not work; and who starts it by hand."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from trio_mcp import (
    HttpServerSettings,
    McpASGI,
    Proxy,
    Server,
    Shutdown,
    SocketServerSettings,
    memory_channel_pair,
    open_asgi_client,
    open_client,
    open_clients,
    open_endpoint,
    open_sqlite_event_store,
    run_client,
    run_until_signal,
    serve_http,
    serve_stdio,
    serve_tcp,
    serve_unix,
    serve_websocket,
    testing,
)

pytestmark = pytest.mark.timeout(60)


# Options.


def test_an_option_of_something_else_is_refused(subtests: pytest.Subtests) -> None:
    """It was ignored, or its error named a function that the user does not know."""
    rows: list[tuple[Any, Any, type[Exception], str]] = [
        (
            "stdio",
            {"port": 8000},
            ValueError,
            (
                "port is an option of 'streamable-http', 'sse', 'websocket' and 'tcp', not of 'stdio': "
                "write run('streamable-http', port=...), or leave it out"
            ),
        ),
        (
            "unix",
            {"path": "it", "host": "127.0.0.1"},
            ValueError,
            (
                "host is an option of 'streamable-http', 'sse', 'websocket' and 'tcp', not of 'unix': "
                "write run('streamable-http', host=...), or leave it out"
            ),
        ),
        (
            "websocket",
            {"routes": {}},
            ValueError,
            (
                "routes is an option of 'streamable-http' and 'sse', not of 'websocket': "
                "write run('streamable-http', routes=...), or leave it out"
            ),
        ),
        ("unix", {}, ValueError, "a Unix socket needs its path: run('unix', path=...)"),
        (
            "pigeon",
            {},
            ValueError,
            "transport must be 'stdio', 'streamable-http', 'sse', 'websocket', 'tcp' or 'unix', not 'pigeon'",
        ),
        (
            "stdio",
            {"prot": 8000},
            TypeError,
            (
                "there is no option prot; see RunOptions: host, port, path, http, settings, ssl_context, unix_path, "
                "unix_mode, authenticate, auth, event_store, store, routes"
            ),
        ),
        (
            "tcp",
            {"settings": HttpServerSettings()},
            TypeError,
            "settings must be SocketServerSettings over tcp",
        ),
        (
            "sse",
            {"settings": SocketServerSettings()},
            TypeError,
            "settings must be HttpServerSettings over sse",
        ),
        ("streamable-http", {"port": 99_999}, ValueError, "port must be 0 to 65535, not 99999"),
        (
            "streamable-http",
            {"port": "8000"},
            TypeError,
            "port must be a whole number from 0 to 65535, not '8000'",
        ),
        ("tcp", {"port": -1}, ValueError, "port must be 0 to 65535, not -1"),
        ("websocket", {"port": True}, TypeError, "port must be a whole number from 0 to 65535, not True"),
    ]
    for transport, options, kind, said in rows:
        with subtests.test(transport=transport, options=options, kind=kind, said=said):
            with pytest.raises(kind) as caught:
                Server("x").run(transport, **options)
            assert str(caught.value) == said


# Where Trio runs, and where it does not.


async def test_a_program_in_a_program_is_refused() -> None:
    """Trio's own error is about its `run`, which the user has not called."""
    for transport, function in (("stdio", "serve_stdio"), ("sse", "serve_http"), ("unix", "serve_unix")):
        with pytest.raises(RuntimeError) as caught:
            Server("x").run(transport, **({"path": "it"} if transport == "unix" else {}))  # type: ignore[call-overload,arg-type,unused-ignore] # pyright: ignore[reportArgumentType]
        assert str(caught.value) == (
            f"run() starts Trio itself; inside Trio write: await trio_mcp.{function}(server, ...)"
        )

    async def serve(*, shutdown: Shutdown) -> None:
        raise AssertionError

    with pytest.raises(RuntimeError) as caught:
        run_until_signal(serve)
    assert str(caught.value) == (
        "run_until_signal(serve) starts Trio itself; inside Trio write: await serve(shutdown=trio_mcp.Shutdown())"
    )


async def no_shutdown() -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (
            no_shutdown,
            (
                "run_until_signal calls no_shutdown(shutdown=...): write async def main(*, shutdown), and await "
                "serve_http(server, shutdown=shutdown) in it"
            ),
        ),
        (
            functools.partial(no_shutdown),
            (
                "run_until_signal calls what it is given(shutdown=...): write async def main(*, shutdown), and await "
                "serve_http(server, shutdown=shutdown) in it"
            ),
        ),
        (3, "serve takes a function, not int"),
    ],
)
def test_what_cannot_be_called_with_a_shutdown_is_refused(serve: Any, said: str) -> None:
    """In Trio it would be an error of the library's insides."""
    with pytest.raises(TypeError) as caught:
        run_until_signal(serve)
    assert str(caught.value) == said


def test_what_takes_a_shutdown_is_run() -> None:
    """By the keyword, however it is written."""
    ran: list[Shutdown] = []

    async def main(shutdown: Shutdown) -> None:
        await trio.lowlevel.checkpoint()
        ran.append(shutdown)

    run_until_signal(main)
    assert len(ran) == 1


def test_a_program_in_a_program_of_asyncio_is_refused(subtests: pytest.Subtests) -> None:
    """It served, and kept the event loop of asyncio waiting for ever."""

    def check(transport: Any, function: str, kind: Callable[[Any], Server | Proxy]) -> None:
        async def main() -> None:
            kind(Server("behind") if kind is Proxy else "x").run(transport)

        with pytest.raises(RuntimeError) as caught:
            asyncio.run(main())
        assert str(caught.value) == (
            "run() starts Trio itself, and asyncio runs here: call it in a program of its own, or write: "
            f"await asyncio.to_thread(trio.run, functools.partial(trio_mcp.{function}, server, ...))"
        )

    rows: list[tuple[Any, str]] = [
        ("stdio", "serve_stdio"),
        ("streamable-http", "serve_http"),
        ("websocket", "serve_websocket"),
        ("tcp", "serve_tcp"),
    ]
    kinds: list[Callable[[Any], Server | Proxy]] = [Server, Proxy]
    for transport, function in rows:
        for kind in kinds:
            with subtests.test(transport=transport, function=function, kind=kind):
                check(transport, function, kind)


def test_run_until_signal_in_a_program_of_asyncio_is_refused() -> None:
    """Likewise."""

    async def main() -> None:
        run_until_signal(functools.partial(serve_http, Server("x"), port=0))

    with pytest.raises(RuntimeError) as caught:
        asyncio.run(main())
    assert str(caught.value) == (
        "run_until_signal(serve) starts Trio itself, and asyncio runs here: call it in a program of its own, or "
        "write: await asyncio.to_thread(trio.run, functools.partial(serve, shutdown=trio_mcp.Shutdown()))"
    )


async def enter(block: Any) -> None:
    async with block:
        raise AssertionError


USES: dict[str, Callable[[Server], Awaitable[object]]] = {
    "open_client()": lambda server: enter(open_client(server)),
    "open_clients()": lambda server: enter(open_clients({"one": server})),
    "run_client()": run_client,
    "open_endpoint()": lambda server: enter(open_endpoint(server)),
    "open_asgi_client()": lambda server: enter(open_asgi_client(McpASGI(server))),
    "open_sqlite_event_store()": lambda server: enter(open_sqlite_event_store("it")),
    "Server.open()": lambda server: enter(server.open()),
    "serve_channel()": lambda server: server.serve_channel(memory_channel_pair()[0]),
    "serve_http()": serve_http,
    "serve_websocket()": serve_websocket,
    "serve_tcp()": serve_tcp,
    "serve_unix()": lambda server: serve_unix(server, "it"),
    "serve_stdio()": serve_stdio,
    "McpASGI, for example on Hypercorn with --worker-class trio,": lambda server: enter(
        McpASGI(server).running()
    ),
}


def test_asyncio_is_named(subtests: pytest.Subtests) -> None:
    """Trio's own error is that some object has no attribute `runner`."""

    def check(name: str) -> None:
        async def use() -> None:
            await USES[name](Server("x"))

        with pytest.raises(RuntimeError) as caught:
            asyncio.run(use())
        assert str(caught.value) == (
            f"{name} needs Trio, and asyncio runs here: start the program with trio.run(main), or put the part "
            "that uses trio_mcp into a thread: await asyncio.to_thread(trio.run, main)"
        )

    for name in USES:
        with subtests.test(name=name):
            check(name)


def test_asyncio_is_named_in_tests() -> None:
    """`trio_mcp.testing` has an `open_client`, too."""

    async def use() -> None:
        await enter(testing.open_client(Server("x")))

    with pytest.raises(RuntimeError, match=r"^open_client\(\) needs Trio, and asyncio runs here: "):
        asyncio.run(use())


def test_a_block_needs_async_and_a_run() -> None:
    """A program that is not asynchronous at all."""
    block: Any = open_client(Server("x"))
    with pytest.raises(TypeError) as refused, block:
        raise AssertionError
    assert str(refused.value) == "write 'async with open_client(...)', in an async function that trio.run runs"
    with pytest.raises(AttributeError) as missing:
        block.call_tool("add")
    assert str(missing.value) == (
        "what open_client() returns has no 'call_tool': write 'async with open_client(...) as it', and use 'it'"
    )
    with pytest.raises(RuntimeError) as outside:
        block.__aenter__().send(None)
    assert (
        str(outside.value)
        == "open_client() needs Trio, which does not run here: call it in what trio.run(main) runs"
    )
