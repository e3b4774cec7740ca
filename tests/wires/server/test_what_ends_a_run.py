"""What ends a program that serves comes out of it as itself, whatever nurseries it has passed."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio
from inside_core import HttpHost

from trio_mcp import Context, Server, Shutdown, open_client, run_until_signal, serve_http

pytestmark = pytest.mark.parametrize("host", ["hypercorn", "lean"])


class Odd(Exception):
    """What a lifespan raises."""


def make_server(where: str, error: BaseException) -> Server[trio.CancelScope]:
    @asynccontextmanager
    async def lifespan(_: Server[trio.CancelScope]) -> AsyncGenerator[trio.CancelScope]:
        if where == "entering":
            raise error
        with trio.CancelScope() as scope:
            yield scope
            await trio.lowlevel.checkpoint()
        if where == "leaving":
            raise error

    server = Server("ended", lifespan=lifespan)

    @server.tool
    async def end(ctx: Context[trio.CancelScope]) -> str:
        ctx.state.cancel()
        await trio.sleep_forever()
        raise AssertionError

    @server.tool
    async def wait() -> str:
        await trio.sleep_forever()
        raise AssertionError

    return server


def test_a_port_in_use_is_an_oserror(host: HttpHost) -> None:
    """`Server.run` promises one, and who tries the next port catches no groups."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use") as caught:
            Server("late").run("streamable-http", port=taken.getsockname()[1], http=host)
    assert caught.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("where", ["entering", "leaving"])
@pytest.mark.parametrize("error", [Odd("a reason"), SystemExit(3)])
def test_what_the_lifespan_raises_comes_out_as_it_is(where: str, error: BaseException, host: HttpHost) -> None:
    """A group of one would hide it from ``except``, and a status from the shell."""

    class Started(trio.TaskStatus[Any]):
        def started(self, value: object = None) -> None:
            shutdown.drain()

    shutdown = Shutdown()

    async def serve(*, shutdown: Shutdown) -> None:
        del shutdown  # no signal comes
        await serve_http(server, port=0, http=host, shutdown=ours, task_status=Started())

    server, ours = make_server(where, error), shutdown
    with pytest.raises(type(error)) as caught:
        run_until_signal(serve)
    assert caught.value is error
    assert caught.value.__context__ is None


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_status_that_the_lifespan_asks_for_comes_out(era: Literal["modern", "legacy"], host: HttpHost) -> None:
    """However many requests it has cancelled first, it is no group."""

    async def serve(*, shutdown: Shutdown) -> None:
        class Started(trio.TaskStatus[Any]):
            def started(self, value: Any = None) -> None:
                trio.lowlevel.spawn_system_task(call, value[0])

        await serve_http(
            make_server("leaving", SystemExit(3)), port=0, http=host, shutdown=shutdown, task_status=Started()
        )

    async def call(url: str) -> None:
        try:
            async with open_client(url, era=era) as client, trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(client.call_tool, "wait")
                await client.call_tool("end")
        except (Exception, trio.Cancelled, BaseExceptionGroup):  # noqa: ASYNC103, ASYNC104 - the program goes
            pass

    with pytest.raises(SystemExit) as caught:
        run_until_signal(serve)
    assert caught.value.code == 3
