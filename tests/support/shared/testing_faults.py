"""What the tests of faults share in several layers."""

from __future__ import annotations

from typing import Literal

import trio
import trio.testing

from trio_mcp.testing import Fault, FaultyStream

END = "the end"

LOST = "lost"


def message(number: int) -> bytes:
    return b'{"n":%d}' % number


# Bytes.
async def pieces(
    faults: list[Fault], data: bytes, direction: Literal["sent", "received"]
) -> list[tuple[float, bytes | str]]:
    """Send bytes through a faulty stream, and return the pieces that come, in which time."""
    one, other = trio.testing.memory_stream_pair()
    begin = trio.current_time()
    found: list[tuple[float, bytes | str]] = []
    sender: trio.abc.Stream = FaultyStream(one, faults) if direction == "sent" else one
    receiver: trio.abc.Stream = FaultyStream(other, faults) if direction == "received" else other

    async def send() -> None:
        try:
            await sender.send_all(data)
        except trio.BrokenResourceError:
            found.append((round(trio.current_time() - begin, 3), "broken for the sender"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        with trio.move_on_after(100):
            while True:
                try:
                    piece = await receiver.receive_some()
                except trio.BrokenResourceError:
                    found.append((round(trio.current_time() - begin, 3), LOST))
                    break
                found.append((round(trio.current_time() - begin, 3), bytes(piece) or END))
                if not piece:
                    break
        nursery.cancel_scope.cancel()
    return found
