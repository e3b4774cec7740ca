"""The cancellation contract of a client over HTTP, in both eras and over HTTP+SSE, on a mock clock.

The server is a script; what is checked is what reaches it, and when control comes back. What both ends promise each other
is in `tests/memory/matrix/test_cancellation_contract.py`, over every transport.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from http_mcp import HttpCall, result
from http_sessions import KINDS, SSE, HttpServer
from tape import Tape

import trio_mcp
from trio_mcp import ConnectionLost, Limits, Progress, open_client

ALL = pytest.mark.parametrize("speaks", KINDS)


def goodbyes(server: HttpServer) -> list[Any]:
    """Return the ids of the requests that the server was told are given up, by whatever its transport uses."""
    if server.is_modern:
        return [message["id"] for message in server.script.gone]
    return [call.message["params"]["requestId"] for call in server.asked("notifications/cancelled")]


async def stream_progress(server: HttpServer, call: HttpCall, to: int, every: float) -> None:
    """Tell progress, and then the result."""
    token = call.message["params"]["_meta"]["progressToken"]
    is_stream = server.speaks != SSE
    if is_stream:
        await call.stream()
    else:
        await call.answer(b"Accepted", 202, "text/plain")
        call = server.streams[-1]
    id = server.asked("x/count")[-1].id
    for n in range(1, to + 1):
        await trio.sleep(every)
        params = {"progressToken": token, "progress": n}
        await call.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    await call.event({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "counted": to}})
    if is_stream:
        await call.end()


def counting(speaks: str, to: int = 5, every: float = 1) -> HttpServer:
    server = HttpServer(speaks)
    server.handlers["x/count"] = lambda call: stream_progress(server, call, to, every)
    return server


# 1. Exactly one goodbye.


@pytest.mark.parametrize(("accepts_after", "goodbye_after"), [(3, 3), (60, 5)])
async def test_a_goodbye_does_not_overtake_its_request(
    accepts_after: float, goodbye_after: float, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 1, over HTTP+SSE: it comes over another connection, and a server may not have looked at the first yet.

    A server that accepts nothing is told all the same, within half of `goodbye_timeout`.
    """
    server = HttpServer(SSE)
    told_at: list[float] = []

    async def accept_late(call: HttpCall) -> None:
        await trio.sleep(accepts_after)
        await call.answer(b"Accepted", 202, "text/plain")

    server.handlers["x/hang"] = accept_late
    async with open_client(server.parameters(), limits=Limits(goodbye_timeout=10)) as client:
        begin = trio.current_time()
        with trio.move_on_after(1):
            await client.request("x/hang")
        assert trio.current_time() - begin == 1, "nobody waits for it"
        while not goodbyes(server):
            await trio.sleep(0.25)
        told_at.append(trio.current_time() - begin)
    assert goodbyes(server) == [server.asked("x/hang")[0].id]
    assert goodbye_after <= told_at[0] <= goodbye_after + 1.25
    assert server.script.running == 0


# 2. Nothing for nothing.


@pytest.mark.parametrize("answered", [True, False])
async def test_a_goodbye_that_waits_is_taken_back_by_the_answer(
    answered: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 2, over HTTP+SSE: the answer comes on the stream before the server has accepted the request."""
    server = HttpServer(SSE)

    async def accept_late(call: HttpCall) -> None:
        await trio.sleep(2)
        if answered:
            await server.streams[-1].event(result(call.id))
        await trio.sleep(1)
        await call.answer(b"Accepted", 202, "text/plain")

    server.handlers["x/hang"] = accept_late
    async with open_client(server.parameters(), limits=Limits(goodbye_timeout=10)) as client:
        with trio.move_on_after(1):
            await client.request("x/hang")
        await trio.sleep(30)
        await client.request("x/echo")
    assert goodbyes(server) == ([] if answered else [server.asked("x/hang")[0].id])


@ALL
async def test_a_call_that_never_left_leaves_no_trace(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 2: whoever gives up while the request still waits for its token has asked for nothing."""
    is_slow = False

    async def headers() -> dict[str, str]:
        if is_slow:
            await trio.sleep(10)
        return {}

    server = HttpServer(speaks)
    async with open_client(server.parameters(headers=headers)) as client:
        await trio.testing.wait_all_tasks_blocked()
        is_slow = True
        with trio.move_on_after(1):
            await client.request("x/hang")
        assert trio.current_time() == 1
        is_slow = False
        await trio.sleep(30)
        await client.request("x/echo")
    assert not server.asked("x/hang")
    assert goodbyes(server) == []


@ALL
async def test_a_call_that_is_answered_already_is_not_cancelled(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 2: the answer is here while the last progress callback still runs, and then the deadline passes."""
    server = counting(speaks, to=1, every=0)

    async def dawdle(_: Progress) -> None:
        await trio.sleep(60)

    async with open_client(server.parameters()) as client:
        with trio.move_on_after(10) as scope:
            await client.request("x/count", on_progress=dawdle)
        assert scope.cancelled_caught
    assert not server.asked("notifications/cancelled")


async def test_initialize_is_never_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 2, and 2025-11-25, basic/utilities/cancellation: clients must not cancel `initialize`."""
    server = HttpServer("2025-11-25")

    async def silent(call: HttpCall) -> None:
        await trio.sleep_forever()

    server.script._handler = silent
    with pytest.raises(ConnectionLost, match="connect_timeout"):
        async with open_client(server.parameters(), era="legacy"):
            raise AssertionError
    assert server.script.said == ["POST initialize"]


# 3. Control comes back at once.


@ALL
async def test_giving_up_does_not_wait_for_the_network(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 3: a server that takes no notification, and one that never answers, hold up nobody."""
    server = HttpServer(speaks)
    inner = server.script._handler

    async def serve(call: HttpCall) -> None:
        if call.rpc == "notifications/cancelled":
            await trio.sleep_forever()
        await inner(call)

    server.script._handler = serve
    async with open_client(server.parameters(), limits=Limits(goodbye_timeout=1)) as client:
        for _ in range(3):
            begin = trio.current_time()
            with trio.move_on_after(0.5):
                await client.request("x/hang")
            assert trio.current_time() - begin == 0.5
        begin = trio.current_time()
        await client.request("x/echo")
        assert trio.current_time() == begin
    assert trio.current_time() - begin <= 1
    assert len(goodbyes(server)) == 3


# 7. Nobody waits for ever.


@ALL
async def test_when_the_server_dies_everybody_learns_it(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 7: whoever waits, whoever asks afterwards, and whoever only wants to leave."""
    server = HttpServer(speaks)
    drop = trio.Event()

    async def until_drop(call: HttpCall) -> None:
        if speaks == SSE:
            await call.answer(b"Accepted", 202, "text/plain")
        await drop.wait()

    server.handlers["x/drop"] = until_drop
    failures: list[Exception] = []
    async with open_client(server.parameters(restart=None)) as client:

        async def ask(method: str) -> None:
            try:
                await client.request(method)
            except (ConnectionLost, trio_mcp.HttpStatusError) as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, "x/drop")
            await trio.testing.wait_all_tasks_blocked()
            server.down = (503, b"down")
            drop.set()
            server.forget_sessions()
        await ask("x/echo")
    assert len(failures) == 6
    assert all(isinstance(failure, ConnectionLost) for failure in failures[:5])


# 8. Nothing is left: tests/memory/http/test_open_client_sessions.py.


# 10. Bounded.


@ALL
async def test_many_calls_given_up_at_any_moment_leave_nothing(speaks: str) -> None:
    """No pending id, no exchange, no handler; and each was cancelled at most once."""
    server = HttpServer(speaks)
    tape = Tape()

    async def jittery(call: HttpCall) -> None:
        await trio.sleep(0.005)
        await server.reply(call)

    server.handlers["x/jittery"] = jittery
    with trio.fail_after(50):
        async with open_client(server.parameters(), on_frame=tape) as client:

            async def ask(n: int) -> None:
                with trio.move_on_after(n % 13 / 1000):
                    await client.request(("x/jittery", "x/hang")[n % 2])

            async with trio.open_nursery() as nursery:
                for n in range(200):
                    nursery.start_soon(ask, n)
            await client.request("x/echo")
            assert client.statistics().calls == 0
    assert len(goodbyes(server)) == len(set(goodbyes(server)))
    assert all(count == 1 for count in tape.goodbyes().values())
    assert server.script.running == 0
