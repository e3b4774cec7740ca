"""HTTP/1.1 by ourselves: one connection, its requests one after the other, straight to the endpoint.

    the wire ──> the buffer ──> a head ──> a body, as far as it has come
                                  └─────> a task for the request ──> the endpoint ──> the wire

A task reads for as long as the connection lasts, so that it is known at once when the client goes. What comes
behind a request that is being served waits, and is read when that is answered. A connection is used again only if
the request and its answer were complete and regular.

Spec: RFC 9110; RFC 9112.
"""

from __future__ import annotations

from typing import Final, final

import trio

from .._core._http_admission import HttpRefused
from .._core._http_heads import ReadFields, fastest_fields
from .._core._http_settings import HttpServerSettings
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from .._parking_lot import LightParkingLot
from ._connections import Connection, OpenConnection
from ._heads import RequestBuffer, read_head
from ._lean_call import LeanCall
from ._places import Places
from ._wires import READ_AHEAD, Wire

__all__ = ["LeanConnection", "lean_connections"]

_log: Final = Log("trio_mcp.http")


def lean_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection:
    """Return what makes connections on which we speak ourselves."""
    read_fields = fastest_fields()
    return lambda wire, places: LeanConnection(wire, places, settings, endpoint, read_fields)


@final
class LeanConnection(Connection):
    """One connection.

    Args:
        wire: Its bytes.
        places: Told whether it rests.
        settings: What it may cost.
        endpoint: Answers its requests.
        read_fields: Reads the fields of heads.
    """

    def __init__(
        self,
        wire: Wire,
        places: Places[Wire],
        settings: HttpServerSettings,
        endpoint: Endpoint,
        read_fields: ReadFields,
    ) -> None:
        super().__init__(wire, places)
        self._settings = settings
        self._endpoint = endpoint
        self._read_fields = read_fields
        self._buffer = RequestBuffer(settings.max_head_bytes)
        self._call: LeanCall | None = None
        self._room = LightParkingLot()
        self._is_irregular = False

    # Reading.

    async def _read(self) -> None:
        while True:
            size, call = READ_AHEAD, self._call
            if call is not None and not call.is_complete:
                await call.wait_body_asked()
                size = call.read_size
            elif call is not None and self._buffer.is_full:
                await self._room.park()
                continue
            data = await self.wire.receive(size)
            if not data:
                return
            self._take(data)
            if self._call is None:  # else it works
                self.take()

    def _take(self, data: bytes) -> None:
        """Take what has come. Never waits."""
        if self._is_irregular or self.has_stopped:  # it may have come before reading could be stopped
            return
        call = self._call
        if call is not None and not call.is_complete:
            data = call.feed(data)
        self._buffer.add(data)
        if call is None:
            self._begin()

    def _begin(self) -> None:
        """Let the next request be served, if its head has come."""
        try:
            data = self._buffer.take_head()
            if data is None:
                return
            head = read_head(data, self._read_fields)
        except HttpRefused as refused:
            self._is_irregular = True
            self.start(self.refuse, refused)
            return
        self._call = call = LeanCall(self, head, self._settings)
        if not call.is_complete and (rest := call.feed(self._buffer.take(head.length))):
            self._buffer.add(rest)  # what is behind the last chunk comes back
        self.work()
        self.start(self._serve, call)

    async def _end(self) -> None:
        if self._call is not None:
            self._call.end()
        elif self._is_irregular:
            await self.wire.linger()

    # Serving.

    async def _serve(self, call: LeanCall) -> None:
        try:
            await self._endpoint.handle(call)
        except Exception:
            # The boundary of one request.
            _log.exception("%s %s failed", call.method, call.path)
        self._call = None
        if call.is_gone:
            return
        self._is_irregular = not (call.is_complete and call.is_finished) or (call.is_last and bool(self._buffer))
        if call.is_last or self._is_irregular:
            self.stop_reading("the connection cannot be used again")
            return
        sent_ahead = bool(self._buffer)
        self.rest(sent_ahead=sent_ahead)
        if sent_ahead and not self.has_stopped:
            self._begin()
            self._room.unpark_all()

    async def send(self, data: bytes) -> None:
        """Send something, if there is somebody to read it."""
        try:
            await self.wire.send(data)
        except trio.BrokenResourceError:
            if self._call is not None:
                self._call.end()
            self.stop_reading("the client is gone")
