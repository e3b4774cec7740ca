"""Somebody who means harm: connections from an address of their own, and bytes over them.

Shares no code with the library.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import h11
import trio
from spoken import Wire, connected, kind_of, reset, wire_over

THEIRS: Final = "127.0.0.2"
KIB: Final = 1024
MIB: Final = 1024 * KIB
MOST: Final = 4 * MIB - 2 * KIB
"""What fits into a body with what is around it."""

META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
LOGGED: Final = {**META, "io.modelcontextprotocol/logLevel": "debug"}
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, EOFError, h11.ProtocolError)
OWN: Final[dict[str, str]] = {}
"""Header fields of each request of this attacker: its token, if it has one."""

Attack: TypeAlias = "Callable[[Attacker], Awaitable[None]]"
ATTACKS: Final[dict[str, Attack]] = {}


def attack(function: Attack) -> Attack:
    """Register an attack, under the function's name."""
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


def head(
    length: int | None, headers: Mapping[str, str] | None = None, method: str = "POST", path: str = "/mcp"
) -> bytes:
    """Return the head of a request with a body of so many bytes."""
    fields = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **({} if length is None else {"Content-Length": str(length)}),
        **OWN,
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def post(message: Any, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> bytes:
    """Return a POST of a message, or of the bytes that are given."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return head(len(body), headers, path=path) + body


def request(method: str, /, id: object = 1, **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def modern(method: str, /, id: object = 1, **params: Any) -> bytes:
    """Return the POST of a request of the modern era."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = params.get("name", params.get("uri"))
    if name is not None and len(name) < 8 * KIB:
        headers["Mcp-Name"] = name
    return post(request(method, id, **{"_meta": META, **params}), headers)


def call(name: str, id: object = 1, meta: Mapping[str, Any] = META, **arguments: Any) -> bytes:
    """Return the POST of a modern request that calls a tool."""
    return modern("tools/call", id, name=name, arguments=arguments, _meta=meta)


def call_with(name: str, arguments: str) -> bytes:
    """Return the same, with the arguments as they are."""
    hole = "<arguments>"
    body = json.dumps(request("tools/call", name=name, arguments=hole, _meta=META)).replace(
        f'"{hole}"', arguments
    )
    return post(body.encode(), {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name})


class Attacker:
    """Somebody who means harm.

    Args:
        host: What serves.
        at: Its port, or the path of its socket.
        addresses: Where connections come from, in turn.

    Attributes:
        host: What serves.
        counts: What was sent, and what came back.
        connected: Set once there was a connection.
    """

    def __init__(self, host: str, at: str, addresses: Sequence[str] = (THEIRS,)) -> None:
        self.host = host
        self._at = at
        self._addresses = itertools.cycle(addresses)
        self.counts: Counter[str] = Counter()
        self.connected = trio.Event()

    @asynccontextmanager
    async def stream(
        self, *, slow_reader: bool = False, address: str | None = None, is_secured: bool = True
    ) -> AsyncGenerator[trio.abc.Stream]:
        """Connect, and close the connection when the block is left."""
        address = next(self._addresses) if address is None else address
        async with connected(
            self.host, self._at, address=address, slow_reader=slow_reader, is_secured=is_secured
        ) as stream:
            self.counts["connections"] += 1
            self.connected.set()
            yield stream

    @asynccontextmanager
    async def connection(
        self, *, slow_reader: bool = False, address: str | None = None
    ) -> AsyncGenerator[Connection]:
        """Do the same, to speak HTTP."""
        async with self.stream(slow_reader=slow_reader, address=address) as stream:
            yield Connection(self, stream)

    @asynccontextmanager
    async def wire(self, *, slow_reader: bool = False) -> AsyncGenerator[Wire]:
        """Do the same, to exchange messages, and shake hands."""
        async with self.stream(slow_reader=slow_reader) as stream:
            wire = self.wire_over(stream)
            await wire.shake_hands()
            yield wire

    def wire_over(self, stream: trio.abc.Stream) -> Wire:
        """Return what messages are exchanged by, before anything is sent."""
        return wire_over(self.host, stream, OWN)

    def whole(self, message: Any) -> bytes:
        """Return the bytes of a message that is exchanged, to send it often."""
        return kind_of(self.host).whole(message)

    async def send(self, wire: Wire, data: bytes) -> None:
        """Send bytes."""
        self.counts["bytes"] += len(data)
        await wire.stream.send_all(data)

    async def again(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do something again and again, also after having been cut."""
        while True:
            try:
                await work()
            except GONE as error:
                self.counts[f"cut: {type(error).__name__}"] += 1
                await trio.sleep(0.05)
            except BaseExceptionGroup as group:
                _, rest = group.split(GONE)
                if rest is not None:
                    raise rest from None
                self.counts["cut"] += 1
                await trio.sleep(0.05)
            await trio.lowlevel.checkpoint()

    async def many(self, count: int, work: Callable[[], Awaitable[object]]) -> None:
        """Let so many do something, again and again."""
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(self.again, work)

    async def ask_once(self, data: bytes) -> Answer:
        """Connect, send a request, and return the answer."""
        async with self.connection() as connection:
            return await connection.ask(data)

    async def flood(self, data: bytes, count: int = 4) -> None:
        """Ask the same over so many connections, again and again, and read the answers."""

        async def work() -> None:
            async with self.connection() as connection:
                while (await connection.ask(data)).goes_on:
                    pass

        await self.many(count, work)

    async def pile(self, data: bytes, count: int, *, is_read: bool = True) -> None:
        """Send the same over so many connections, and leave these open."""

        async def work() -> None:
            async with self.connection(slow_reader=not is_read) as connection:
                await connection.send(data)
                if is_read:
                    await connection.read_to_end()
                else:
                    await trio.sleep_forever()

        await self.many(count, work)

    async def begin_session(
        self, connection: Connection, *, is_initialized: bool = True, version: str = LEGACY
    ) -> dict[str, str]:
        """Begin a session, and return the header fields of what is sent in it.

        Raises:
            EOFError: It was refused.
        """
        begin = request(
            "initialize",
            protocolVersion=version,
            capabilities={"elicitation": {}},
            clientInfo={"name": "x", "version": "1"},
        )
        answer = await connection.ask(post(begin))
        if "mcp-session-id" not in answer.headers:
            await trio.sleep(0.05)
            raise EOFError("refused")
        mine = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": version}
        self.counts["sessions"] += 1
        if is_initialized:
            await connection.ask(post({"jsonrpc": "2.0", "method": "notifications/initialized"}, mine))
        return mine


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, *, goes_on: bool) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.goes_on = goes_on


class Connection:
    """A connection of the attacker's."""

    def __init__(self, attacker: Attacker, stream: trio.abc.Stream) -> None:
        self._attacker = attacker
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * MIB)

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self._attacker.counts["bytes"] += len(data)
        await self._stream.send_all(data)

    async def send_slowly(self, data: bytes, pause: float) -> None:
        """Send byte after byte."""
        for byte in data:
            await self.send(bytes([byte]))
            await trio.sleep(pause)

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self._stream.receive_some(1 * MIB)))
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("closed")
        return event

    async def ask(self, data: bytes) -> Answer:
        """Send a request and return the answer."""
        # What is sent is not h11's to judge; it need only know that something was, to read what comes back.
        self._http.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
        self._http.send(h11.EndOfMessage())
        self._attacker.counts["requests"] += 1
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                with suppress(*GONE):  # answered before it was read
                    await self.send(data)

            nursery.start_soon(send)
            answer = await self._answer()
            nursery.cancel_scope.cancel()
        return answer

    async def _answer(self) -> Answer:
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        self._attacker.counts[f"status {event.status_code}"] += 1
        told = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        body = bytearray()
        while not isinstance(part := await self._event(), h11.EndOfMessage):
            body += part.data
        goes_on = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if goes_on:
            self._http.start_next_cycle()
        return Answer(event.status_code, told, bytes(body), goes_on=goes_on)

    async def read_to_end(self) -> None:
        """Read, and forget, whatever comes."""
        first = await self._stream.receive_some(64 * KIB)
        if first.startswith(b"HTTP/1.1 "):
            self._attacker.counts[f"status {first[9:12].decode('latin-1')}"] += 1
        while first:
            first = await self._stream.receive_some(64 * KIB)
        raise EOFError("closed")

    async def read_some(self) -> bytes:
        """Read something."""
        return bytes(await self._stream.receive_some(64 * KIB))

    def reset(self) -> None:
        """Let closing be a reset."""
        reset(self._stream)
