"""What a client keeps of responses that have not come to their end, however many there are."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing
from inside_core import Headers
from inside_http import HttpRequest, HttpResponse, parse_target
from inside_transports import HttpInbox, ResponseRoom

from trio_mcp import Incoming, Limits, Received

PIECES = 100


class Pieces:
    """A body in pieces, which come one in a turn of the event loop, and count what was read and not let go."""

    def __init__(self, size: int, counted: Counted) -> None:
        self._left = PIECES
        self._size = size
        self._counted = counted

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._left:
            return b""
        self._left -= 1
        self._counted.add(self._size)
        return b"x" * self._size

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Counted:
    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    def add(self, size: int) -> None:
        self.now += size
        self.most = max(self.most, self.now)


@pytest.mark.parametrize("size", [10, 1_000, 8_000])
async def test_many_unfinished_responses_keep_no_more_than_may_be(
    size: int, autojump_clock: trio.testing.MockClock
) -> None:
    """4 times max_message_bytes: each may be as large as a message; the oldest goes on, and in the end all are read."""
    body = PIECES * size
    room = ResponseRoom(2 * body)
    counted = Counted()
    done: list[int] = []

    async def read(number: int) -> None:
        request = HttpRequest(method="POST", target=parse_target("http://a.example/"), headers=(), body=b"")
        response = HttpResponse(request, 200, Headers(()), Pieces(size, counted))
        with room.place() as place:
            assert await response.read(body, hold=place.hold) == b"x" * body
            counted.add(-body)
            done.append(number)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(partial(read, number))
    assert sorted(done) == list(range(20))
    assert counted.most <= 3 * body + 20 * size


async def test_who_is_cancelled_takes_no_room(autojump_clock: trio.testing.MockClock) -> None:
    """A response that nobody wants any more must not hold up the others."""
    room = ResponseRoom(100)
    async with trio.open_nursery() as nursery:

        async def read(scope: trio.CancelScope) -> None:
            with scope, room.place() as place:
                await place.hold(80)
                await trio.sleep_forever()

        scopes = [trio.CancelScope(), trio.CancelScope()]
        for scope in scopes:
            nursery.start_soon(read, scope)
            await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()
        with room.place() as place, trio.fail_after(1):
            await place.hold(10)
            scopes[1].cancel()
            await place.hold(100)
    with room.place() as place:
        await place.hold(1_000)


async def test_only_one_large_message_is_decoded_and_not_taken(autojump_clock: trio.testing.MockClock) -> None:
    """Many large answers at once wait as bytes: decoded they take fifty times as much."""
    inbox = HttpInbox("the server", Limits())
    data = b'{"jsonrpc":"2.0","method":"x","params":{"x":[' + b"[]," * 5_000 + b"[]]}}"
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(inbox.deliver, data, None)
        await trio.testing.wait_all_tasks_blocked()
        taken: list[Received] = []
        while len(taken) < 10:
            received = await inbox.receive()
            assert len(received) == 1
            taken += received
            await trio.testing.wait_all_tasks_blocked()
    assert all(isinstance(one, Incoming) and one.data == data for one in taken)
