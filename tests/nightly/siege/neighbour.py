"""The honest client beside an attack, a program of its own: ``python neighbour.py '{"host": "lean", …}' FILE``.

It asks for something every few milliseconds, in four ways, and writes to the file what became of each call, a line of
JSON each. `modern` and `session` are clients of this library that are open all the time; `fresh` and `newcomer` write
what they send by hand, share no code with the server, and connect anew each time: the latter begins a session, uses
it and ends it. Where clients need tokens, each of the four has one of its own.
"""

from __future__ import annotations

import itertools
import json
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, Any, Final, TypeAlias

import attrs
import h11
import trio
from judging import INTERVALS
from plans import HTTP
from spoken import Wire, connected, wire_over

from trio_mcp import (
    Client,
    Era,
    HttpServerParameters,
    RequestError,
    TcpServerParameters,
    UnixServerParameters,
    WebSocketServerParameters,
    open_client,
)

PATIENCE: Final = 10.0
"""Seconds after which it gives a call up."""

MAX_ANSWER: Final = 1_000_000
BUSY: Final = -31002
"""The code of the error by which a server says that it is too busy."""

META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

Call: TypeAlias = Callable[[], Awaitable[object]]


@attrs.frozen
class Server:
    """What is asked.

    Attributes:
        host: What serves.
        at: Its port, or the path of its socket.
        authorization: What shows who asks; empty for nothing.
        authority: A file with who issues certificates, for TLS.
    """

    host: str
    at: str
    authorization: str
    authority: str

    @property
    def is_http(self) -> bool:
        """Whether it speaks HTTP, and says by a header field when to come back."""
        return self.host in HTTP

    def headers(self, kind: str) -> dict[str, str]:
        """Return what shows who a kind of client is."""
        return {"Authorization": f"{self.authorization}-{kind}"} if self.authorization else {}

    def target(self, kind: str) -> Any:
        """Return what `open_client` takes."""
        if self.host == "unix":
            return UnixServerParameters(self.at)
        if self.host in ("tcp", "tls"):
            is_secure = self.host == "tls"
            context = ssl.create_default_context(cafile=self.authority) if is_secure else False
            return TcpServerParameters("127.0.0.1", int(self.at), tls=context)
        if self.is_http:
            return HttpServerParameters(f"http://127.0.0.1:{self.at}/mcp", headers=self.headers(kind))
        return WebSocketServerParameters(f"ws://127.0.0.1:{self.at}/mcp", headers=self.headers(kind))

    @asynccontextmanager
    async def wire(self, kind: str) -> AsyncGenerator[Wire]:
        """Connect to exchange messages, and shake hands."""
        async with connected(self.host, self.at) as stream:
            wire = wire_over(self.host, stream, self.headers(kind))
            try:
                await wire.shake_hands()
            except EOFError as error:
                raise RefusedError(
                    "refused" if " 429" in str(error) or " 503" in str(error) else str(error)
                ) from None
            yield wire


class RefusedError(Exception):
    """The server has refused a call for now."""


def say(file: IO[str], kind: str, since: float, outcome: str) -> None:
    """Write what became of a call."""
    file.write(json.dumps([kind, since, time.monotonic() - since, outcome]) + "\n")


def is_busy(error: RequestError) -> bool:
    """Return whether an error says that a server is too busy."""
    return error.status in (429, 503) or error.code == BUSY


async def measure(file: IO[str], kind: str, call: Call) -> bool:
    """Make a call, and write what became of it; return whether it succeeded."""
    since = time.monotonic()
    outcome = "ok"
    try:
        with trio.fail_after(PATIENCE):
            await call()
    except RefusedError as refused:
        outcome = str(refused)
    except RequestError as error:
        is_told = error.retry_after is not None or error.status is None
        outcome = (
            ("refused" if is_told else "refused without Retry-After")
            if is_busy(error)
            else f"failed: {error!r:.200}"
        )
    except trio.TooSlowError:
        outcome = "failed: no answer"
    except Exception as error:  # whatever it is, it is what this is here to find out
        outcome = f"failed: {error!r:.200}"
    say(file, kind, since, outcome)
    return outcome == "ok"


def calls_of(client: Client) -> Iterator[Call]:
    """Yield what a client asks for, again and again."""
    return itertools.cycle(
        [
            lambda: client.call_tool("add", {"a": 1, "b": 2}),
            lambda: client.call_tool("check", {"numbers": [1, 2, 3], "unlike": ["a", "b"]}),
            lambda: client.call_tool("order", {"order": {"title": "Dune", "copies": 2}}),
            lambda: client.read_resource("book://dune/line/7", fresh=True),
            lambda: client.call_tool("ask", {}),
            lambda: client.call_tool("nap", {}),
        ]
    )


async def stay(file: IO[str], kind: str, server: Server) -> None:
    """Be a client of this library, without end."""
    era: Era = "modern" if kind == "modern" else "legacy"
    parameters = server.target(kind)
    while True:
        since = time.monotonic()
        try:
            async with open_client(parameters, era=era, on_elicit=lambda _: {"value": True}) as client:
                for call in calls_of(client):
                    if not await measure(file, kind, call):
                        break  # begin anew, as who has lost a session would
                    await trio.sleep(INTERVALS[kind])
        except Exception as error:
            say(file, kind, since, f"failed: {error!r:.200}")
        await trio.sleep(INTERVALS[kind])


class Hand:
    """A connection written by hand, for one request after the other."""

    def __init__(self, stream: trio.SocketStream, headers: Mapping[str, str]) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ANSWER)
        self._own = headers

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive_some())
        if isinstance(event, h11.ConnectionClosed):
            raise trio.BrokenResourceError("the server has closed the connection")
        return event

    async def send(self, method: str, message: Any, **headers: str) -> tuple[dict[str, str], bytes]:
        """Send a request, and return the answer.

        Raises:
            RefusedError: It was refused; says whether it was told when to come back.
        """
        body = b"" if message is None else json.dumps(message).encode()
        fields = {
            "Host": "localhost",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **self._own,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        request = h11.Request(method=method, target="/mcp", headers=list(fields.items()))
        data = [self._http.send(request), self._http.send(h11.Data(body)), self._http.send(h11.EndOfMessage())]
        await self._stream.send_all(b"".join(part for part in data if part))
        head = await self._event()
        told = {name.decode(): value.decode() for name, value in head.headers}
        if head.status_code in (429, 503):
            raise RefusedError(
                "refused" if told.get("retry-after", "").isdigit() else "refused without Retry-After"
            )
        read = bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            read += event.data
        if head.status_code not in (200, 202, 204):
            raise AssertionError(f"{head.status_code} {bytes(read[:100])!r}")
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return told, bytes(read)


def asked(id: int, method: str, **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def call_once(server: Server) -> None:
    """Connect, call a tool, go."""
    call = asked(1, "tools/call", name="add", arguments={"a": 1, "b": 2}, _meta=META)
    if not server.is_http:
        async with server.wire("fresh") as wire:
            check_answer(await wire.ask(call))
        return
    async with await trio.open_tcp_stream("127.0.0.1", int(server.at), happy_eyeballs_delay=PATIENCE) as stream:
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add"}
        _, body = await Hand(stream, server.headers("fresh")).send("POST", call, **headers)
        assert b'"3"' in body, body[:200]


def check_answer(answer: Any) -> None:
    """Look at what a call over a wire was answered.

    Raises:
        RefusedError: It was refused for now.
    """
    if answer.get("error", {}).get("code") == BUSY:
        raise RefusedError("refused")
    assert '"3"' in json.dumps(answer), str(answer)[:200]


async def visit(server: Server) -> None:
    """Connect, begin a session, call a tool, end the session, go."""
    call = asked(1, "tools/call", name="add", arguments={"a": 1, "b": 2})
    if not server.is_http:
        async with server.wire("newcomer") as wire:
            await wire.begin_session()
            check_answer(await wire.ask(call))
        return
    async with await trio.open_tcp_stream("127.0.0.1", int(server.at), happy_eyeballs_delay=PATIENCE) as stream:
        hand = Hand(stream, server.headers("newcomer"))
        me = {"name": "newcomer", "version": "1"}
        begin = asked(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=me)
        told, _ = await hand.send("POST", begin)
        mine = {"Mcp-Session-Id": told["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        try:
            await hand.send("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **mine)
            _, body = await hand.send("POST", call, **mine)
            assert b'"3"' in body, body[:200]
        finally:
            with trio.move_on_after(1, shield=True):
                await hand.send("DELETE", None, **mine)


async def come(file: IO[str], kind: str, call: Call) -> None:
    """Be somebody who connects anew, without end."""
    while True:
        await measure(file, kind, call)
        await trio.sleep(INTERVALS[kind])


async def main(server: Server, path: str) -> None:
    """Ask, until this is ended."""
    with open(path, "a", buffering=1, encoding="utf-8") as file:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stay, file, "modern", server)
            nursery.start_soon(stay, file, "session", server)
            nursery.start_soon(come, file, "fresh", partial(call_once, server))
            nursery.start_soon(come, file, "newcomer", partial(visit, server))


if __name__ == "__main__":
    trio.run(main, Server(**json.loads(sys.argv[1])), sys.argv[2])
