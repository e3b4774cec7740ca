"""What is kept of requests over HTTP: in whose name, how much at most, what is refused, and who goes on working."""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio
from http_raw import call_tool
from http_wire import Served, Wire, head_for, request_for, serving
from shared.http_server_what_requests_keep import (
    HOG,
    HONEST,
    MIB,
    SETTINGS,
    bytes_of,
    echo_server,
    large_server,
    until_lent,
)

from trio_mcp import Limits

# Bodies that arrive.


async def unfinished(served: Served, stack: AsyncExitStack, size: int, *, sent: int, of: dict[str, str]) -> Wire:
    """Begin a request, and send less of its body than it says."""
    wire = await stack.enter_async_context(served.wire())
    await wire.stream.send_all(head_for(size, of) + b" " * sent)
    return wire


async def test_unfinished_bodies_of_one_address_leave_room_for_others(host: str) -> None:
    """Each is small, a hundred of them were hundreds of MiB; those for which there is no room are refused."""
    server = echo_server()
    async with serving(server, SETTINGS) as served, AsyncExitStack() as stack:
        wires: list[Wire] = []
        for number in range(20):
            wires.append(await unfinished(served, stack, 200_000, sent=120_000, of=HOG))
            await until_lent(server, least=min(8, number + 1) * 128 * 1024)
        assert bytes_of(server).lent == 1 * MIB
        assert bytes_of(server).of == {"bodies": 1 * MIB}
        for wire in wires[8:]:
            status, body = await wire.answer()
            assert status == 429
            assert b"max_kept_bytes" in body
            assert await wire.wait_closed() == b""

        message = call_tool("echo", text="x" * 100_000)
        async with served.wire() as honest:
            await honest.stream.send_all(request_for(message, HONEST))
            assert (await honest.answer())[0] == 200

        # Those that were left are as good as before, once there is room for the rest of one.
        for wire in wires[1:4]:
            await wire.stream.aclose()
        while bytes_of(server).lent > 5 * 128 * 1024:
            await trio.sleep(0.01)
        rest = wires[0]
        await rest.stream.send_all(b" " * 80_000)
        assert (await rest.answer())[0] == 400  # no JSON
    assert server.statistics() == ()


async def test_answers_that_are_not_read_are_kept_and_further_ones_refused(host: str) -> None:
    """What the system does not take is kept; the address that reads nothing gets no more, and others do."""
    limits = Limits(max_kept_bytes=48 * MIB, max_kept_bytes_per_principal=24 * MIB)
    gate = large_server(limits)
    message = call_tool("large", size=10_000_000)
    async with serving(gate.server, SETTINGS) as served, AsyncExitStack() as stack:
        wires: list[Wire] = []
        for _ in range(6):
            wires.append(await stack.enter_async_context(served.wire()))
            before, lent = bytes_of(gate.server).refused, bytes_of(gate.server).lent
            await wires[-1].stream.send_all(request_for(message, HOG))
            while bytes_of(gate.server).lent == lent and bytes_of(gate.server).refused == before:
                await trio.sleep(0.01)
            assert bytes_of(gate.server).lent <= 24 * MIB
        assert bytes_of(gate.server).refused == 4
        async with served.wire() as honest:
            await honest.stream.send_all(request_for(message, HONEST))
            assert len((await honest.answer())[1]) > 10_000_000
        for wire in wires[2:]:
            assert (await wire.answer())[0] == 429
        for wire in wires[:2]:
            assert len((await wire.answer())[1]) > 10_000_000
        while "answers" in bytes_of(gate.server).of and bytes_of(gate.server).lent > 10 * MIB:
            await trio.sleep(0.01)
