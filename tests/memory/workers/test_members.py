"""Processes that have joined a store: how they find each other, and what is kept of a session. Without processes."""

from __future__ import annotations

import gc
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import trio
import trio.testing
from inside_endpoint import EventWriter, KeptSession, PostBody, Unanswered
from inside_wire import parse_message
from inside_workers import CONNECT_SECONDS, StoreReach

from trio_mcp import HttpRefused, Limits, RequestError, StoredEvent

LIMITS = Limits(max_subscriptions=2, max_message_bytes=200)


class Group:
    """What several members of a store know: where each is, and who is gone."""

    def __init__(self) -> None:
        self.addresses: dict[int, str] = {}
        self.locked: set[int] = set()


class Member:
    """A store, as one process sees it."""

    def __init__(self, group: Group, number: int, secret: bytes = b"s" * 32, host: str = "127.0.0.1") -> None:
        self.group = group
        self.number = number
        self.secret = secret
        self.host = host

    async def announce(self, address: str) -> None:
        self.group.addresses[self.number] = address

    async def address_of(self, number: int) -> str | None:
        return self.group.addresses.get(number)

    async def gone(self, number: int) -> bool:
        if number in self.group.locked:
            return False
        del self.group.addresses[number]
        return True


def reach(group: Group, number: int, **options: Any) -> StoreReach:
    return StoreReach(cast("Any", Member(group, number, **options)))


def notices_loss(stream: trio.SocketStream) -> bool:
    """Whether a connection breaks whose other machine has vanished, if nothing is sent."""
    return bool(stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))


@asynccontextmanager
async def listening(group: Group, number: int, admitted: list[bool]) -> AsyncGenerator[None]:
    """Listen as a process does, and note who was admitted."""
    ours = reach(group, number)

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            admitted.append(await ours.admit(stream))
            assert not admitted[-1] or notices_loss(stream)

    async with ours.listening() as listener, trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])  # noqa: ASYNC113 - it listens already
        yield
        nursery.cancel_scope.cancel()


async def test_processes_show_each_other_that_they_know_the_secret() -> None:
    """Who does not know it is let in nowhere, and learns nothing; nor is a process taken for another one."""
    group, admitted = Group(), list[bool]()
    async with listening(group, 2, admitted):
        stream = await reach(group, 1).connect(2)
        assert stream is not None
        async with stream:
            assert notices_loss(stream)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert admitted == [True]

        address = group.addresses[2]
        group.addresses[3] = address  # the port was another process's
        for ours, number in ((reach(group, 1, secret=b"x" * 32), 2), (reach(group, 1), 3)):
            with pytest.raises(HttpRefused, match="does not answer"):
                await ours.connect(number)
        assert group.addresses == {2: address, 3: address}, "who is gone for certain is another matter"
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        stranger = await trio.open_tcp_stream(host, int(port))
        async with stranger:
            await stranger.send_all(b"n" * 16 + b"H" * 100)
            assert len(await stranger.receive_some()) == 48
            with suppress(trio.BrokenResourceError):
                assert await stranger.receive_some() == b""
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert admitted == [True, False, False, False]


async def test_nothing_listens_where_a_process_is_gone() -> None:
    """Unless it is known to live, or its address is one that only its own machine reaches: then it is not looked for."""
    group = Group()
    async with listening(group, 2, []):
        pass
    address = group.addresses[2]
    group.locked.add(2)
    with pytest.raises(HttpRefused, match="does not answer"):
        await reach(group, 1).connect(2)
    group.locked.clear()
    with pytest.raises(HttpRefused, match="does not answer"):
        await reach(group, 1, host="10.0.0.1").connect(2)
    assert group.addresses == {2: address}
    assert await reach(group, 1).connect(2) is None
    assert group.addresses == {}, "and so all know"
    assert await reach(group, 1).connect(3) is None


async def test_a_process_that_does_not_answer_is_not_gone(autojump_clock: trio.testing.MockClock) -> None:
    """The kernel lets others connect to one that is stopped."""
    group = Group()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        group.addresses[2] = f"tcp:127.0.0.1:{listener.socket.getsockname()[1]}"
        with pytest.raises(HttpRefused, match="does not answer") as refused:
            await reach(group, 1).connect(2)
        assert refused.value.status == 503
        assert trio.current_time() >= CONNECT_SECONDS
        with trio.move_on_after(1) as scope:
            await reach(group, 1).connect(2)
        assert scope.cancelled_caught
        assert 2 in group.addresses
    gc.collect()  # which would warn of a socket that is open


def posted(*messages: dict[str, Any]) -> PostBody:
    found = [parse_message(each) for each in messages]
    value: Any = list(messages) if len(messages) > 1 else next(iter(messages))
    return PostBody(b"", value, found)


def said(method: str, **params: Any) -> dict[str, Any]:
    head = {} if method.startswith("notifications/") else {"id": 1}
    return {"jsonrpc": "2.0", "method": method, "params": params, **head}


def test_what_lasts_of_what_a_client_says_is_said_again() -> None:
    """In an order that works; what is refused, or over, or does not last, is not. Nothing more is kept."""
    kept = KeptSession("ann")
    handshake: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "\ud800"},
    }
    assert kept.note(posted(said("initialize", **handshake, _meta={"big": "x" * 100})), LIMITS)
    assert not kept.note(
        posted(said("tools/call", name="x"), said("notifications/cancelled", requestId=1)), LIMITS
    )
    assert kept.note(posted(said("notifications/initialized")), LIMITS)
    for uri in ("a://1", "a://2", "a://3"):
        assert kept.note(posted(said("resources/subscribe", uri=uri)), LIMITS)
    assert kept.note(
        posted(said("resources/unsubscribe", uri="a://1"), said("logging/setLevel", level="info")), LIMITS
    )
    assert kept.note(posted(said("resources/subscribe", uri=5)), LIMITS)
    assert kept.note(posted(said("resources/subscribe", uri="a://" + "x" * 100)), LIMITS)
    assert kept.size == len("a://2")
    again = KeptSession.decode(kept.encode())
    assert again.principal == "ann"
    assert [(each["method"], each["params"]) for each in again.messages()] == [
        ("initialize", handshake),
        ("notifications/initialized", {}),
        ("logging/setLevel", {"level": "info"}),
        ("resources/subscribe", {"uri": "a://2"}),
    ]
    assert again.encode() == kept.encode()
    for wrong in (b"", b"[]", b"{}", b'{"principal": null}'):
        with pytest.raises(HttpRefused, match="another version"):
            KeptSession.decode(wrong)


def test_a_stream_that_has_lost_its_process_fails_what_it_has_not_answered() -> None:
    left = Unanswered(Unanswered.encode([1, "1", 2, "x"]))
    for data in (b'{"id":1,"result":{}}', b'{"id":"x","error":{}}', b'{"id":2,"method":"m"}', b"[]"):
        left.read(data)
    assert [json.loads(each)["id"] for each in left.errors()] == ["1", 2]


class _Away:
    """A store of events that cannot be used for some time."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.kept = list[int]()

    async def append(self, session: str, stream: int, events: list[StoredEvent]) -> None:
        await trio.lowlevel.checkpoint()
        if trio.current_time() < self.until:
            raise RequestError(-32000, "away")
        self.kept += [number for number, _ in events]


class _Stream:
    number = 1

    def __init__(self) -> None:
        self.left = [(1, b"a"), (2, b"b")]

    def unstored(self) -> list[StoredEvent]:
        return self.left

    def mark_stored(self, number: int) -> None:
        self.left = [event for event in self.left if event[0] > number]


@pytest.mark.parametrize(("away", "kept"), [(10.0, [1, 2]), (1_000.0, [])])
async def test_events_wait_for_a_store_that_is_away(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, away: float, kept: list[int]
) -> None:
    """But not for ever: they weigh on their session."""
    store, stream = _Away(away), _Stream()
    writer = EventWriter(cast("Any", store), "w1.session", lambda _: None)
    async with trio.open_nursery() as nursery:
        writer.soon(cast("Any", stream), cast("Any", nursery))
    assert store.kept == kept
    assert stream.left == []
    assert ("are lost: away" in caplog.text) is (not kept)
