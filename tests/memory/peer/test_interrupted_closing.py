"""Ctrl+C while a connection is being closed: it is closed without waiting for what is queued, and nothing is left."""

from __future__ import annotations

import pytest
from inside_peer import Peer, open_peer
from interrupting import interrupted
from peers import Handlers
from wires import ScriptedChannel

from trio_mcp import Limits


@pytest.mark.parametrize("way", ["quietly", "exception"])
def test_ctrl_c_while_the_queue_is_written_ends_the_program(way: str) -> None:
    """Promise 8: it comes out of a shielded wait, too, and no other task would then release the connection."""
    channel = ScriptedChannel()
    peers: list[Peer] = []

    async def main() -> None:
        async with open_peer(channel, Handlers({}), Limits(goodbye_timeout=10)) as peer:
            peers.append(peer)
            channel.stop_reading()
            await peer.notify("x/stuck")
            if way == "exception":
                raise LookupError("the body's")

    assert interrupted(main, at=1, unstick=lambda: peers[0]._let_go()) == 1
    assert not channel.sent
