"""Peers that follow a script: they say exactly these messages, and expect exactly those.

Either end of any channel. What a message must look like, and how a difference is shown, is in `_matching`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from .._absent import ABSENT
from .._bindings._memory import memory_channel_pair
from .._channel import Channel, Incoming, Outgoing, TooLarge
from .._client._open import ServesChannels, kind_of, serves_channels
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import RequestId, read_id
from .._errors import METHOD_NOT_FOUND, ConnectionLost
from .._limits import check_seconds
from .._revisions import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY, Revision
from .._trio import open_hidden_nursery
from ._matching import Matcher, ScriptMismatch, mismatch, shown_json

WITHIN: Final = 5.0
"""How long a peer waits for a message it expects, in seconds on Trio's clock, unless it is told otherwise."""

_TURNS: Final = 10
"""For how many passes of the event loop a peer looks whether more is said than is expected."""

_ENDS: Final = (trio.EndOfChannel, ConnectionLost, trio.ClosedResourceError)
"""How the end of a connection is told; the last if the peer has closed it itself."""

_INFO: Final = {"name": "script", "version": "1"}


@final
@attrs.frozen
class Say:
    """A step of a script: say this.

    Args:
        message: Plain JSON, in which `Same` stands for what was received; or bytes, which are sent as they are.
    """

    message: object


@final
@attrs.frozen
class Expect:
    """A step of a script: receive exactly this next.

    Args:
        pattern: Plain JSON, with ``...`` and `Same`; see `ScriptedPeer.expect`.
        within: How long to wait, in seconds. Default: as long as for any message.
    """

    pattern: object
    within: float | None = None


Script: TypeAlias = "Sequence[Say | Expect] | Callable[[ScriptedPeer], Awaitable[object]]"
"""What a scripted peer does: steps, or an async function that is given the `ScriptedPeer`."""


@final
class ScriptedPeer:
    """One end of a connection, which says what it is told to and checks what it receives, message by message.

    It obeys no rule of the protocol by itself: it can be any server or client, honest or not. Open one with
    `scripted_server` or `scripted_client`, or on a channel of your own.

    In what is expected, ``...`` stands for any value, ``...: ...`` in an object for whatever else it has, ``...``
    at the end of a list for further items, `Same` for one value in several places, such as an id, and any other
    object for what is equal to it, such as ``pytest.approx(0.3)``::

        call = await peer.expect({"jsonrpc": "2.0", "id": Same("call"), "method": "tools/call", ...: ...})
        await peer.say({"jsonrpc": "2.0", "id": Same("call"), "result": {"content": []}})

    One task at a time may receive. A cancelled `expect` has received nothing; a cancelled `say` may have said a
    part.

    Args:
        channel: The end of the connection.
        within: How long it waits for each message it expects, in seconds; `math.inf` for ever.

    Attributes:
        received: Every message that was received so far, decoded.
        revision: What was agreed on by `accept` or `shake_hands`; `None` before.
    """

    def __init__(self, channel: Channel, *, within: float = WITHIN) -> None:
        check_seconds("within", within)
        self._channel: Final = channel
        self._within: Final = within
        self._matcher: Final = Matcher()
        self._unread: deque[Any] = deque()
        self._ids = 0
        self._passes: Callable[[Any], bool] = lambda _: False  # what a replay takes for no message
        self.received: list[Any] = []
        self.revision: Revision | None = None

    # What is expected.

    async def expect(self, pattern: object, *, within: float | None = None) -> Any:
        """Receive the next message, which must be this one.

        Args:
            pattern: What it must look like.
            within: How long to wait, in seconds. Default: as long as for any message.

        Returns:
            The message, decoded.

        Raises:
            ScriptMismatch: Another one came, none in time, or the connection ended.
        """
        got = await self._next(pattern, self._within if within is None else within)
        differences = self._matcher.differences(pattern, got)
        if differences:
            raise mismatch("another message was expected:", pattern, got, differences)
        return got

    async def expect_nothing(self, seconds: float = 0.0) -> None:
        """Check that nothing comes for so many seconds. The end of the connection is nothing, too.

        Raises:
            ScriptMismatch: Something came.
        """
        got: list[Any] = []
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(_cancel_after, seconds, nursery.cancel_scope)
            with suppress(*_ENDS):
                got.append(await self._receive())
                nursery.cancel_scope.cancel(reason="something came")
        if got:
            raise ScriptMismatch(f"no message was expected, and this came:\n  {shown_json(got[0])}")

    async def expect_end(self, *, within: float | None = None) -> None:
        """Wait for the end of the connection, before which nothing must come.

        Raises:
            ScriptMismatch: Something came, or no end in time.
        """
        within = self._within if within is None else within
        with trio.move_on_after(within):
            try:
                got = await self._receive()
            except _ENDS:
                return
            raise ScriptMismatch(f"the end of the connection was expected, and this came:\n  {shown_json(got)}")
        raise ScriptMismatch(f"the connection has not ended within {within:g} s")

    async def _next(self, pattern: object, within: float) -> Any:
        with trio.move_on_after(within):
            try:
                return await self._receive()
            except _ENDS as end:
                how = f": {end}" if str(end) else ""
                problem = f"a message was expected, and the connection has ended{how}"
                raise mismatch(problem, pattern, ABSENT, ()) from end
        raise mismatch(f"a message was expected, and none came within {within:g} s", pattern, ABSENT, ())

    async def _receive(self) -> Any:
        while True:
            while not self._unread:
                for one in await self._channel.receive():
                    if isinstance(one, Incoming):
                        self._unread.append(_decoded(one.data))
                    elif isinstance(one, TooLarge):
                        self._unread.append(f"a message of {one.size} bytes, which is too large")
            await trio.lowlevel.cancel_shielded_checkpoint()
            got = self._unread.popleft()
            self.received.append(got)
            if not self._passes(got):
                return got

    # What is said.

    async def say(self, *messages: object) -> None:
        """Say messages, in order: plain JSON with `Same` in it, or bytes as they are.

        Raises:
            LookupError: A `Same` has no value yet.
            ConnectionLost: The connection has failed.
        """
        await self._channel.send([self._outgoing(message) for message in messages])
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _outgoing(self, message: object) -> Outgoing:
        if isinstance(message, bytes):
            return Outgoing(message)
        filled = self._matcher.filled(message)
        data = json.dumps(filled, separators=(",", ":"), ensure_ascii=False).encode()
        parts: list[Any] = filled if is_array(filled) else [filled]
        return Outgoing(data, _ids_in(parts, asks=True), _ids_in(parts, asks=False))

    async def answer(self, request: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Answer a request that was received by a result; one of the modern era gets its `resultType`."""
        if self.revision is not None and self.revision.is_modern:
            result = {"resultType": "complete", **result}
        await self.say({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def refuse(self, request: Mapping[str, Any], code: int, message: str, data: object = None) -> None:
        """Answer a request that was received by an error."""
        error: dict[str, object] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        await self.say({"jsonrpc": "2.0", "id": request["id"], "error": error})

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Say a notification."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
        await self.say(message if params is None else {**message, "params": params})

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> RequestId:
        """Say a request, with an id of its own; a client of the modern era adds its `_meta`. Returns the id."""
        self._ids += 1
        params = dict(params or {})
        if self.revision is not None and self.revision.is_modern:
            params["_meta"] = {**_meta_of(self.revision), **cast("dict[str, Any]", params.get("_meta", {}))}
        message: dict[str, object] = {"jsonrpc": "2.0", "id": self._ids, "method": method}
        await self.say({**message, "params": params} if params else message)
        return self._ids

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Say a request, and receive its result, before which nothing must come.

        Raises:
            ScriptMismatch: Something else came, an error too.
        """
        id = await self.request(method, params)
        answer = await self.expect({"jsonrpc": "2.0", "id": id, "result": ...})
        result: dict[str, Any] = answer["result"]
        return result

    async def play(self, steps: Sequence[Say | Expect]) -> None:
        """Take steps, one after another.

        Raises:
            ScriptMismatch: Something was not as expected; the text says at which step.
        """
        for number, step in enumerate(steps, 1):
            try:
                if isinstance(step, Say):
                    await self.say(step.message)
                elif isinstance(step, Expect):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                    await self.expect(step.pattern, within=step.within)
                else:
                    raise TypeError(f"step {number} of {len(steps)} must be an Expect or a Say, not {step!r}")
            except ScriptMismatch as error:
                told = f"step {number} of {len(steps)}: {error}"
                raise ScriptMismatch(told, error.differences) from error.__cause__
        await trio.lowlevel.checkpoint()

    # How connections begin and end.

    async def accept(
        self, revision: Revision | str = Revision.V2026_07_28, *, capabilities: Mapping[str, Any] | None = None
    ) -> None:
        """Do a server's part of how a connection begins: answer ``server/discover``, or the handshake.

        Args:
            revision: What this server speaks, and nothing else.
            capabilities: What it says it can do, as plain JSON. Default: nothing.

        Raises:
            ScriptMismatch: The client begins in another way.
        """
        revision = Revision(revision)
        begins = {"jsonrpc": "2.0", "id": ..., "method": ..., ...: ...}
        request = await self.expect(begins)
        if request["method"] == "server/discover" and not revision.is_modern:
            await self.refuse(request, METHOD_NOT_FOUND, "no method server/discover")
            request = await self.expect(begins)
        self.revision = revision
        first = "server/discover" if revision.is_modern else "initialize"
        if request["method"] != first:
            raise mismatch(f"{first} was expected:", {**begins, "method": first}, request, ())
        said: dict[str, Any] = {"capabilities": capabilities or {}}
        if revision.is_modern:
            said |= {"supportedVersions": [revision], "ttlMs": 0, "cacheScope": "private"}
            await self.answer(request, said)
            return
        await self.answer(request, {**said, "protocolVersion": revision, "serverInfo": _INFO})
        await self.expect({"jsonrpc": "2.0", "method": "notifications/initialized", ...: ...})

    async def shake_hands(
        self, revision: Revision | str = Revision.V2025_11_25, *, capabilities: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Do a client's part of how a connection begins: ``initialize``, or ``server/discover``.

        Args:
            revision: What this client speaks, and nothing else.
            capabilities: What it says it can do, as plain JSON; with a handshake only. Default: nothing.

        Returns:
            What the server has answered.

        Raises:
            ScriptMismatch: The server does not speak that revision.
        """
        revision = Revision(revision)
        self.revision = revision
        if revision.is_modern:
            return await self.call("server/discover")
        params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": _INFO}
        id = await self.request("initialize", params)
        result = {"protocolVersion": str(revision), ...: ...}
        answer = await self.expect({"jsonrpc": "2.0", "id": id, "result": result})
        await self.notify("notifications/initialized")
        said: dict[str, Any] = answer["result"]
        return said

    async def hang_up(self) -> None:
        """Close the connection. May be cancelled, and even then closes it."""
        await self._channel.aclose()


@asynccontextmanager
async def scripted_server(script: Script, *, within: float = WITHIN) -> AsyncGenerator[Channel]:
    """Be a server that follows a script, for as long as the block runs: ``open_client(channel)`` connects to it.

    When the script is over, the server stays silent; a message that comes then is one too many. Leaving the block
    closes the connection; what the script still expects then has not come. A script that waits for something else
    is cancelled. If the block raises something by itself, that comes out, and the script is cancelled.

    Args:
        script: What it does: steps, or an async function that is given the `ScriptedPeer`.
        within: How long it waits for each message it expects, in seconds.

    Raises:
        ScriptMismatch: The client has not done what the script expects. Raised at once, in place of what the
            block waits for; if the client has left too early, when the block has ended, or after `within`.
    """
    ours, theirs = memory_channel_pair()
    peer = ScriptedPeer(theirs, within=within)
    async with open_hidden_nursery() as nursery:
        has_ended, is_left = trio.Event(), trio.Event()

        async def follow() -> None:
            try:
                await _play(script, peer)
                with suppress(*_ENDS):
                    shown = shown_json(await peer._receive())
                    raise ScriptMismatch(f"the script is over, and this came:\n  {shown}")
            except ScriptMismatch as problem:
                if isinstance(problem.__cause__, _ENDS):
                    # An error of the block, if there is one, is why the client has gone, and cancels this.
                    with trio.move_on_after(within):
                        await is_left.wait()  # noqa: ASYNC120 - so the error comes out
                nursery.cancel_scope.cancel(reason="the client has not followed the script")
                with trio.CancelScope(shield=True):
                    await theirs.aclose()  # the client, which is leaving, has nobody to take leave of
                raise
            has_ended.set()

        nursery.start_soon(follow, name="scripted server")
        try:
            yield ours
        except BaseException:
            nursery.cancel_scope.cancel(reason="the block of the scripted server has failed")
            raise
        is_left.set()
        await ours.aclose()
        # What waits for a message is told of the end now; what waits for more is cancelled.
        for _ in range(_TURNS):
            await trio.lowlevel.checkpoint()
            if has_ended.is_set():
                break
        nursery.cancel_scope.cancel(reason="the block of the scripted server was left")


@asynccontextmanager
async def scripted_client(
    server: ServesChannels | Channel, *, within: float = WITHIN
) -> AsyncGenerator[ScriptedPeer]:
    """Be a client that a test speaks for, message by message, for as long as the block runs.

    When the block is left without an exception, nothing that the server has said must be unread. Then the
    connection is closed, and a server in this process has ended when this returns.

    Args:
        server: A `Server` or a `Proxy` in this process, or the client's end of a channel to any server.
        within: How long it waits for each message it expects, in seconds.

    Raises:
        ScriptMismatch: The server has said something that nobody has expected.
        Others: What the block raises, as itself.
    """
    async with open_hidden_nursery() as nursery:
        if isinstance(server, Channel):
            channel: Channel = server
        elif not serves_channels(server):
            raise TypeError(
                "a scripted client needs a server in this process (a Server or a Proxy), or a Channel, not "
                f"{kind_of(server)}"
            )
        else:
            channel, theirs = memory_channel_pair()
            await nursery.start(server.serve_channel, theirs)
        peer = ScriptedPeer(channel, within=within)
        try:
            yield peer
            await peer.expect_nothing()
        finally:
            with trio.move_on_after(min(within, WITHIN), shield=True):
                await channel.aclose()


async def _play(script: Script, peer: ScriptedPeer) -> None:
    given: Any = script  # users err
    played: Any = given(peer) if callable(given) else None
    if hasattr(played, "__await__"):
        await played
    elif isinstance(given, Sequence):
        await peer.play(cast("Sequence[Say | Expect]", given))
    else:
        raise TypeError(f"a script must be a list of Expect and Say, or an async function, not {script!r}")


async def _cancel_after(seconds: float, scope: trio.CancelScope) -> None:
    for _ in range(_TURNS):  # what is on its way now comes first
        await trio.lowlevel.checkpoint()
    await trio.sleep(seconds)
    scope.cancel(reason="nothing came")


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data


def _ids_in(messages: Sequence[Any], *, asks: bool) -> tuple[RequestId, ...]:
    """Return the ids of the requests among messages, or of the answers."""
    objects = (message for message in messages if is_object(message) and ("method" in message) is asks)
    ids = (read_id(message.get("id")) for message in objects)
    return tuple(id for id in ids if id is not None)


def _meta_of(revision: Revision) -> dict[str, Any]:
    return {PROTOCOL_VERSION_KEY: str(revision), CLIENT_CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: _INFO}
