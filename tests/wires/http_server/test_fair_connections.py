"""Whose connections are opened and read when many are ready at once: in passes of the event loop, not in seconds."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
from inside_endpoint import accept_waiting


def leave(client: socket.socket, how: str) -> None:
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("how", ["reset", "closed"])
async def test_what_waits_is_accepted_at_once_but_for_those_that_have_gone(how: str) -> None:
    """A client that opens thousands and leaves would cost a task for each."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listener.socket.getsockname()
    clients = [socket.create_connection(address) for _ in range(6)]
    for client in clients[:4]:
        leave(client, how)
    found = await accept_waiting(listener, 100)
    while len(found) < 2:  # the system takes its time with the last ones
        found += await accept_waiting(listener, 100)
    assert len(found) == 2
    assert [client for _, client in found] == ["127.0.0.1"] * 2
    assert [connection.gettimeout() for connection, _ in found] == [0.0] * 2
    for each in (*clients[4:], *(connection for connection, _ in found)):
        each.close()
    await listener.aclose()


async def test_no_more_are_accepted_in_a_turn_than_asked_for() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    clients = [socket.create_connection(listener.socket.getsockname()) for _ in range(6)]
    found = await accept_waiting(listener, 4)
    assert len(found) == 4
    while len(found) < 6:
        found += await accept_waiting(listener, 4)
    for each in (*clients, *(connection for connection, _ in found)):
        each.close()
    await listener.aclose()
