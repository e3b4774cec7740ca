"""The connections of a host: how many there are, how long they may idle, and how they end. Knows no HTTP library.

Whatever reads HTTP on a connection is a `Connection`; what one of them does costs no other anything.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Final, TypeAlias, TypeVarTuple, final

import trio

from .._core._addresses import holder_of
from .._core._http_admission import HttpRefused
from .._core._http_settings import HttpServerSettings
from .._endpoint._turnstile import Turnstile
from .._groups import open_hidden_nursery
from .._logs import Log
from ._descriptors import most_connections
from ._heads import encode_refusal
from ._places import Places
from ._wires import Wire

__all__ = ["Connection", "Connections", "OpenConnection"]

_log: Final = Log("trio_mcp.http")

_Args = TypeVarTuple("_Args")


class Connection(abc.ABC):
    """One connection.

    Args:
        wire: Its bytes.
        places: Told whether it rests.

    Attributes:
        wire: Its bytes.
        is_draining: Whether no request is to follow the one that is being served.
    """

    def __init__(self, wire: Wire, places: Places[Wire]) -> None:
        self.wire: Final = wire
        self.is_draining: bool = False
        self._places = places
        self._reading = trio.CancelScope()
        self._variables = copy_context()

    @final
    def start(self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args) -> None:
        """Serve a request in a task of its own.

        It may be the end of the request before it that starts it. It has the context variables of the connection.
        """
        self._variables.run(lambda: self._nursery.start_soon(async_fn, *args, name="an HTTP request"))

    @final
    async def serve(self) -> None:
        """Serve it until it ends."""
        try:
            async with open_hidden_nursery() as nursery:
                self._nursery = nursery
                with self._reading:
                    await self._read()
                await self._end()
        finally:
            self.wire.cut()

    @abc.abstractmethod
    async def _read(self) -> None:
        """Read, and let requests be served in the nursery, until nothing comes or nothing is wanted any more."""

    @abc.abstractmethod
    async def _end(self) -> None:
        """There is nothing more to read. The request that is being served, if there is one, is given up."""

    @final
    def rest(self, *, sent_ahead: bool) -> None:
        """No request is being served from now on.

        Args:
            sent_ahead: Whether the next one has come already, or has begun to.
        """
        self._places.rest(self.wire)
        if sent_ahead:
            self._places.begin(self.wire)
        if self.is_draining:
            self.stop_reading("no more requests are served")
        elif sent_ahead and self._places.must_give_way(self.wire):
            self.stop_reading("others wait for a place")

    @final
    def take(self) -> None:
        """Something has come. If no request is being served, the head of the next one has begun."""
        self._places.begin(self.wire)

    @property
    def has_stopped(self) -> bool:
        """Whether nothing more is to be read."""
        return self._reading.cancel_called

    @final
    def work(self) -> None:
        """A request is being served from now on."""
        self._places.work(self.wire)

    @final
    async def refuse(self, refused: HttpRefused) -> None:
        """Answer what is no request that could be served, and end the connection."""
        _log.info("refused something from %s: %s", self.wire.client, refused)
        with suppress(trio.BrokenResourceError):
            await self.wire.send(encode_refusal(refused))
        self.stop_reading("what came cannot be read")

    @final
    def stop_reading(self, reason: str) -> None:
        """Read no further."""
        self._reading.cancel(reason=reason)


OpenConnection: TypeAlias = Callable[[Wire, Places[Wire]], Connection]


@final
class Connections:
    """The connections there are.

    Args:
        open_connection: Makes one.
        settings: How many there may be, and what each may cost.
        nursery: Where it is seen to that each connection has its turn.
    """

    def __init__(
        self, open_connection: OpenConnection, settings: HttpServerSettings, nursery: trio.Nursery
    ) -> None:
        self._open_connection = open_connection
        self._idle_timeout = settings.idle_timeout
        self._head_timeout = settings.head_timeout
        most = most_connections(settings.max_connections)
        if most < settings.max_connections:
            _log.log(
                logging.INFO if most > settings.max_connections // 2 else logging.WARNING,
                "this process can have %d connections, and not %d (max_connections): RLIMIT_NOFILE",
                most,
                settings.max_connections,
            )
        self._places = Places[Wire](most, settings.max_connections_per_address, lambda wire: wire.cut())
        self._reading = Turnstile(nursery)
        self._writing = Turnstile(nursery)
        self._proxies = settings.proxy_rules()
        self._connections: set[Connection] = set()
        self._is_draining = False

    async def wait_door(self) -> None:
        """Wait until one more may be accepted."""
        await self._places.wait_door()

    @property
    def is_door_open(self) -> bool:
        """Whether `wait_door` would not wait."""
        return self._places.is_door_open

    def enter(self, wire: Wire) -> bool:
        """Count one that is about to be served, once it has a place; or say that it must not be."""
        is_known = wire.client is not None and not self._proxies.trusts(wire.client)
        holder = holder_of(wire.client) if is_known else None
        wire.share(self._reading, self._writing, f"connection {id(wire)}" if holder is None else holder)
        return self._places.enter(wire, holder)

    def make_room(self, *, is_patient: bool) -> bool:
        """Let one give way because the machine has no room; see `Places.make_room`."""
        return self._places.make_room(is_patient=is_patient)

    async def serve(self, wire: Wire) -> None:
        """Serve one until it ends. Whatever happens on it costs nobody else theirs."""
        try:
            if await self._places.wait_place(wire):
                await self._begin(wire)
        except trio.BrokenResourceError:
            pass  # there was no agreement on TLS
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection failed")
        finally:
            self._places.leave(wire)
            wire.cut()

    async def _begin(self, wire: Wire) -> None:
        await wire.wait_to_read()
        connection = self._open_connection(wire, self._places)
        connection.is_draining = self._is_draining
        self._connections.add(connection)
        try:
            await wire.start()
            await connection.serve()
        finally:
            self._connections.discard(connection)

    async def attend(self) -> None:
        """End what has rested for too long, and what has to give way, for as long as this runs."""
        await self._places.attend(self._idle_timeout, self._head_timeout)

    async def finish(self) -> None:
        """End what rests, and let the others finish what was begun."""
        self._reading.open()
        self._writing.open()
        self._is_draining = True
        for connection in self._connections:
            connection.is_draining = True
        self._places.cut_resting()
        await self._places.wait_empty()

    def abort(self) -> None:
        """Cut every connection."""
        self._places.cut_all()
