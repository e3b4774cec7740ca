"""Lifespans that take long to be entered or left, in this process: how long they may, and who can end them."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from interrupting import interrupted

from trio_mcp import (
    Limits,
    McpASGI,
    Server,
    Shutdown,
    StreamChannel,
    memory_channel_pair,
    open_client,
    run_client,
    serve_http,
)

FOR_EVER = 10_000


class Lived:
    """A server, and what has become of its lifespan.

    Args:
        entering: How many seconds it takes to be entered.
        leaving: How many to be left.
    """

    def __init__(self, *, entering: float = 0, leaving: float = 0, **limits: Any) -> None:
        self.lines: list[str] = []
        self._entering = entering
        self._leaving = leaving
        self.server: Server[None] = Server("lived", lifespan=self._lifespan, limits=Limits(**limits))

        @self.server.tool
        async def wait() -> str:
            await trio.sleep_forever()
            raise AssertionError

    @asynccontextmanager
    async def _lifespan(self, _: Server[None]) -> AsyncGenerator[None]:
        await self._pass("entered", self._entering)
        try:
            yield
        finally:
            await self._pass("left", self._leaving)  # noqa: ASYNC102 - what may become of that is what is tested

    async def _pass(self, what: str, seconds: float) -> None:
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            self.lines.append(f"not {what}")
            raise
        self.lines.append(what)


# A server in this process.


async def test_the_callers_cancellation_reaches_a_lifespan_that_is_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """goodbye_timeout: what was to be said is said by then, and nothing shields the rest."""
    lived = Lived(leaving=FOR_EVER)
    with trio.move_on_after(10):
        async with open_client(lived.server, limits=Limits(goodbye_timeout=3)):
            await trio.sleep_forever()
    assert trio.current_time() == 13
    assert lived.lines == ["entered", "not left"]


async def test_a_caller_that_is_cancelled_while_it_leaves_leaves(autojump_clock: trio.testing.MockClock) -> None:
    """The block itself was over; what it waits for on leaving is cancelled all the same."""
    lived = Lived(leaving=FOR_EVER, lifespan_timeout=FOR_EVER)
    with trio.move_on_after(10):
        async with open_client(lived.server, limits=Limits(goodbye_timeout=3)):
            pass
    assert trio.current_time() == 13
    assert lived.lines == ["entered", "not left"]


def test_ctrl_c_while_a_client_leaves_ends_the_program() -> None:
    """It reaches the lifespan as a cancellation does."""
    lived = Lived(leaving=FOR_EVER, lifespan_timeout=FOR_EVER)

    async def main() -> None:
        async with open_client(lived.server, limits=Limits(goodbye_timeout=3)):
            pass

    assert interrupted(main, at=10, unstick=lambda: None) == 13
    assert lived.lines == ["entered", "not left"]


async def test_a_lifespan_may_take_its_time_to_be_left(autojump_clock: trio.testing.MockClock) -> None:
    """lifespan_timeout: long enough for a cleanup that is one."""
    lived = Lived(leaving=29)
    async with open_client(lived.server):
        pass
    assert trio.current_time() == 29
    assert lived.lines == ["entered", "left"]


async def test_a_lifespan_that_is_never_left_is_cancelled(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """lifespan_timeout: its only client has gone, and what ends the client's block comes out as itself."""
    lived = Lived(leaving=FOR_EVER, lifespan_timeout=7)
    with pytest.raises(ValueError, match="the body's"):
        async with open_client(lived.server):
            raise ValueError("the body's")
    assert trio.current_time() == 7
    assert lived.lines == ["entered", "not left"]
    assert "took too long to end" in caplog.text


async def test_a_cancelled_client_task_cancels_the_lifespan(autojump_clock: trio.testing.MockClock) -> None:
    """goodbye_timeout: `run_client` is left as the block of `open_client`."""
    lived = Lived(leaving=FOR_EVER, lifespan_timeout=FOR_EVER)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_client, lived.server, limits=Limits(goodbye_timeout=3)))
        nursery.cancel_scope.cancel()
    assert trio.current_time() == 3
    assert lived.lines == ["entered", "not left"]


# Whatever is told by a `Shutdown`.


async def serve(lived: Lived, shutdown: Shutdown) -> None:
    """Serve a client that stays."""
    _, theirs = memory_channel_pair()
    await lived.server.serve_channel(theirs, shutdown=shutdown)


@pytest.mark.parametrize("end", [Shutdown.drain, Shutdown.abort])
async def test_a_lifespan_that_is_being_entered_is_cancelled_by_the_first_word(
    end: Callable[[Shutdown], None], autojump_clock: trio.testing.MockClock
) -> None:
    """Nobody is served yet. What serves returns, as it does when it was told later."""
    lived, shutdown = Lived(entering=FOR_EVER), Shutdown()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, lived, shutdown)
        await trio.sleep(1)
        end(shutdown)
    assert trio.current_time() == 1
    assert lived.lines == ["not entered"]


async def test_drain_gives_a_lifespan_its_time_and_abort_cancels_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Who has said the first word can say the second."""
    lived, shutdown = Lived(leaving=FOR_EVER), Shutdown()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, lived, shutdown)
        await trio.testing.wait_all_tasks_blocked()
        shutdown.drain()
        await trio.sleep(1_000)
        assert lived.lines == ["entered"]
        shutdown.abort()
    assert trio.current_time() == 1_000
    assert lived.lines == ["entered", "not left"]


@pytest.mark.parametrize("seconds", [1, FOR_EVER])
async def test_an_aborted_server_has_some_time_to_leave_its_lifespan(
    seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    """goodbye_timeout: handlers are cancelled at once; what cleans up after all of them may wait a little."""
    lived, shutdown = Lived(leaving=seconds), Shutdown()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, lived, shutdown)
        await trio.testing.wait_all_tasks_blocked()
        shutdown.abort()
    assert trio.current_time() == min(seconds, Limits().goodbye_timeout)
    assert lived.lines == ["entered", "left" if seconds == 1 else "not left"]


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
async def test_http_is_no_different(http: Any) -> None:
    """Entering is cancelled, and nobody was told that it serves."""
    lived, shutdown = Lived(entering=FOR_EVER), Shutdown()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(serve_http, lived.server, port=0, http=http, shutdown=shutdown))
            await trio.testing.wait_all_tasks_blocked()
            shutdown.drain()
    assert lived.lines == ["not entered"]


async def test_an_asgi_application_gives_its_lifespan_its_time(autojump_clock: trio.testing.MockClock) -> None:
    """Its host has asked for the end, and can cancel it."""
    lived = Lived(leaving=1_000)
    async with McpASGI(lived.server).running():
        pass
    assert trio.current_time() == 1_000
    assert lived.lines == ["entered", "left"]


async def test_the_host_of_an_asgi_application_can_cancel_it(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing of ours shields it."""
    lived = Lived(leaving=FOR_EVER)
    with trio.move_on_after(10):
        async with McpASGI(lived.server).running():
            pass
    assert trio.current_time() == 10
    assert lived.lines == ["entered", "not left"]


# The end of input over a stream, before the lifespan was entered.


async def send_to(lived: Lived, data: bytes, *, ends: bool = True) -> bytes:
    """Serve a stream on which all input is there before the server is, and return what is answered."""
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(data)
    if ends:
        await ours.send_eof()
    answers = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lived.server.serve_channel, StreamChannel(theirs, theirs))
        async for piece in ours:
            answers += piece
    return answers


PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'


async def test_a_client_that_is_gone_does_not_wait_for_a_lifespan_to_be_entered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """drain_timeout: it is what the client's requests have from when it has ended its input."""
    lived = Lived(entering=FOR_EVER, drain_timeout=4)
    assert await send_to(lived, PING % 1) == b""
    assert trio.current_time() == 4
    assert lived.lines == ["not entered"]


@pytest.mark.parametrize("max_waiting_bytes", [100, 1_000_000])
async def test_what_a_client_has_sent_before_is_answered(
    max_waiting_bytes: int, autojump_clock: trio.testing.MockClock
) -> None:
    """Once the lifespan is entered; as much as may wait is read before, and the rest then."""
    lived = Lived(entering=3, drain_timeout=4, max_waiting_bytes=max_waiting_bytes)
    answers = await send_to(lived, b"".join(PING % n for n in range(5_000)))
    assert len(answers.splitlines()) == 5_000
    assert lived.lines == ["entered", "left"]


async def test_a_stream_that_breaks_before_the_lifespan_is_entered_is_a_lost_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It is no different from one that breaks later."""

    class Broken(trio.abc.ReceiveStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError("broken")

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    lived = Lived(entering=3, drain_timeout=4)
    _, theirs = trio.testing.memory_stream_pair()
    await lived.server.serve_channel(StreamChannel(Broken(), theirs))
    assert lived.lines == ["entered", "left"]


async def test_what_was_opened_by_its_user_may_take_its_time(autojump_clock: trio.testing.MockClock) -> None:
    """There is somebody who can cancel it: `Limits.lifespan_timeout` is for a server that ends with its client."""
    lived = Lived(leaving=1_000)
    async with lived.server._hosted.open_service():
        pass
    assert trio.current_time() == 1_000
    assert lived.lines == ["entered", "left"]


def test_only_a_process_that_is_there_to_serve_spares_what_it_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who serves beside other work decides about the garbage collector alone."""
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    shutdown = Shutdown()
    shutdown.serving()
    assert calls == []
    shutdown.own_process()
    shutdown.serving()
    assert calls == ["freeze"]
