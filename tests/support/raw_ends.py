"""Both ends of a proxy in plain JSON: a server that answers what a test says, and a client that shows what it gets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import trio

from trio_mcp import Channel, ConnectionLost, Incoming, Outgoing, Proxy, memory_channel_pair

MODERN = "2026-07-28"
LEGACY = "2025-11-25"

KEY = "io.modelcontextprotocol/"

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "experimental": {"nobody/knows": {"this": [1]}},
    "notYet": {"known": True},
}

INFO: dict[str, Any] = {"name": "raw", "version": "7", "notYet": "known"}

Script = Callable[["RawServer", dict[str, Any]], object]


class RawServer:
    """A server of one revision: a target for a proxy.

    Attributes:
        received: What it was sent, over all its connections.
        channels: Its connections.
        instructions: What it says of itself.
    """

    def __init__(self, revision: str, script: Script | None = None) -> None:
        self.revision = revision
        self.script = script
        self.received: list[dict[str, Any]] = []
        self.channels: list[Channel] = []
        self.ended = 0
        self.instructions = "be kind"
        self._news = trio.lowlevel.ParkingLot()

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve one connection."""
        self.channels.append(channel)
        task_status.started()
        try:
            while True:
                for one in await channel.receive():
                    assert isinstance(one, Incoming)
                    reply = self.take(json.loads(one.data))
                    if reply is not None:
                        await self.say(reply, channel=channel)
        except (trio.EndOfChannel, trio.ClosedResourceError, ConnectionLost):
            pass
        finally:
            self.ended += 1
            with trio.CancelScope(shield=True):
                await channel.aclose()

    def take(self, message: dict[str, Any]) -> object:
        """Take a message, and return what answers it, if anything does."""
        self.received.append(message)
        self._news.unpark_all()
        return self._reply(message)

    def _reply(self, message: dict[str, Any]) -> object:
        method, is_modern = message.get("method"), self.revision == MODERN
        if method == "initialize" and not is_modern:
            result = {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "serverInfo": INFO}
            return answer(message, {**result, "instructions": self.instructions, "notYet": 1})
        if method == "server/discover" and is_modern:
            return answer(
                message,
                {
                    "resultType": "complete",
                    "ttlMs": 5,
                    "cacheScope": "public",
                    "supportedVersions": [MODERN],
                    "capabilities": CAPABILITIES,
                    "instructions": self.instructions,
                    "_meta": {f"{KEY}serverInfo": INFO},
                    "notYet": 1,
                },
            )
        if method in {"initialize", "server/discover"}:
            return refusal(message, -32601, "no such method")
        return None if self.script is None else self.script(self, message)

    async def say(self, message: object, channel: Channel | None = None) -> None:
        """Send something."""
        await (channel or self.channels[-1]).send([Outgoing(json.dumps(message).encode())])

    async def wait_for(self, method: str) -> dict[str, Any]:
        """Wait until it was sent a method, and return the last message with it."""
        while True:
            if found := self.all(method):
                return found[-1]
            await self._news.park()

    def all(self, method: str) -> list[dict[str, Any]]:
        """Return what it was sent with a method."""
        return [message for message in self.received if message.get("method") == method]


class RawClient:
    """A client of one revision.

    Attributes:
        received: What it was sent and did not wait for.
    """

    def __init__(self, channel: Channel, revision: str) -> None:
        self.revision = revision
        self.channel = channel
        self.received: list[dict[str, Any]] = []
        self.handshake: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {"elicitation": {}, "notYet": {"known": 1}}
        self._ids = count(1)

    async def say(self, message: object) -> None:
        """Send something."""
        await self.channel.send([Outgoing(json.dumps(message).encode())])

    async def ask(self, method: str, params: dict[str, Any] | None = None, *, id: object = None) -> object:
        """Send a request, and return its id."""
        id = f"call {next(self._ids)}" if id is None else id
        if self.revision == MODERN:
            params = dict(params or {})
            params["_meta"] = {
                f"{KEY}protocolVersion": MODERN,
                f"{KEY}clientCapabilities": self.capabilities,
                f"{KEY}clientInfo": {"name": "raw client", "version": "3", "notYet": 2},
                **params.get("_meta", {}),
            }
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        await self.say(message if params is None else {**message, "params": params})
        return id

    async def wait(self, is_meant: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a message, and return it; others stay in `received`."""
        while True:
            for index, message in enumerate(self.received):
                if is_meant(message):
                    return self.received.pop(index)
            for one in await self.channel.receive():
                assert isinstance(one, Incoming)
                self.received.append(json.loads(one.data))

    async def answer_to(self, id: object) -> dict[str, Any]:
        """Wait for the answer to a request."""
        return await self.wait(lambda message: message.get("id") == id and "method" not in message)

    async def message(self, method: str) -> dict[str, Any]:
        """Wait for a request or notification of the server."""
        return await self.wait(lambda message: message.get("method") == method)

    async def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        return await self.answer_to(await self.ask(method, params))

    async def begin(self, revision: str) -> None:
        """Begin a session of the legacy era."""
        params = {
            "protocolVersion": revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "raw client", "version": "3", "notYet": 2},
        }
        self.handshake = await self.call("initialize", params)
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})


@asynccontextmanager
async def open_raw_client(proxy: Proxy, revision: str) -> AsyncGenerator[RawClient]:
    """Serve a client over a proxy for as long as the body runs."""
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(proxy.serve_channel, theirs)
        client = RawClient(ours, revision)
        if revision != MODERN:
            await client.begin(revision)
        yield client
        await ours.aclose()


def answer(request: dict[str, Any], result: object) -> dict[str, Any]:
    """Return the message that answers a request."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def refusal(request: dict[str, Any], code: int, message: str, data: object = None) -> dict[str, Any]:
    """Return the message that answers a request with an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": request["id"], "error": error if data is None else {**error, "data": data}}
