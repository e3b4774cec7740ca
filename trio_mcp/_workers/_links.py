"""Changes that are told in one process, told to the clients of the others.

Each process has a connection to each other one, and for each what is still to be sent there. Equal changes merge
while they wait, as they do on their way to a client; a new one that finds no room drops the oldest, and the log
says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, final

import trio

from .._codec import _json
from .._codec._jsonrpc import Encoded, Notification, encode_notification, parse_message
from .._core._changes import Change, TaskUpdated, notification_of, read_change
from .._core._http_rules import HttpRefused
from .._errors import RequestError
from .._logs import Log
from .._server._changes import Announcement, ChangeHub
from .._trio import LightParkingLot
from ._frames import CHANGE, LINK, TASK, FrameReader, frame
from ._reach import Reach

_log: Final = Log("trio_mcp.workers")

MAX_WAITING: Final = 10_000
"""How many changes may wait for one worker."""

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of them may."""

RETRY_SECONDS: Final = 0.05
"""After how many seconds a worker is looked for again that does not listen yet."""

START_SECONDS: Final = 2.0
"""How long a worker waits for the others before it accepts clients, in seconds: what they tell until then, its
own clients would miss. A worker that hangs must not keep others from starting."""


@final
class _Outbox:
    """What waits to be sent to one process. From any thread."""

    def __init__(self, worker: int) -> None:
        self.worker: Final = worker
        self.scope: Final = trio.CancelScope()
        self._lock = threading.RLock()  # a signal handler may tell a change
        self._items: dict[Change | Announcement, bytes] = {}
        self._bytes = 0

    def add(self, item: Change | Announcement, data: bytes) -> None:
        dropped = 0
        with self._lock:
            if item not in self._items:
                self._items[item] = data
                self._bytes += len(data)
            while len(self._items) > MAX_WAITING or (self._bytes > MAX_WAITING_BYTES and len(self._items) > 1):
                self._bytes -= len(self._items.pop(next(iter(self._items))))
                dropped += 1
        if dropped:
            _log.warning("process %d does not take changes; %d were dropped", self.worker, dropped)

    def take(self) -> bytes:
        with self._lock:
            items, self._items, self._bytes = self._items, {}, 0
        return b"".join(items.values())


@final
class Links:
    """What a process tells the others, and hears from them.

    Args:
        reach: How they are reached.
        number: Its own number.
        learns: Whether it learns from those that connect, and from those that are gone, which there are; else
            only `know` says so.
    """

    def __init__(self, reach: Reach, number: int, *, learns: bool = False) -> None:
        self._reach = reach
        self._number = number
        self._learns = learns
        self._outboxes: dict[int, _Outbox] = {}
        self._nursery: trio.Nursery | None = None
        self._run: trio.lowlevel.TrioToken | None = None
        self._has_more = LightParkingLot()
        self._has_heard = LightParkingLot()
        self._hub: ChangeHub | None = None
        self._heard_from: set[int] = set()

    def attach(self, hub: ChangeHub) -> None:
        """Tell what a hub is told, and tell it what is heard."""
        self._hub = hub
        self._run = trio.lowlevel.current_trio_token()
        hub.relay = self._tell

    def detach(self) -> None:
        """Tell nothing any more."""
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.relay = None

    def know(self, workers: Iterable[int]) -> None:
        """Note which processes there are."""
        others = set(workers) - {self._number}
        for gone in self._outboxes.keys() - others:
            self._outboxes.pop(gone).scope.cancel(reason="the process has ended")
            self._has_heard.unpark_all()
        for new in sorted(others - self._outboxes.keys()):
            self._know(new)

    def _know(self, new: int) -> None:
        self._outboxes[new] = outbox = _Outbox(new)
        if self._nursery is not None:
            self._nursery.start_soon(self._serve, outbox, name=f"changes for process {new}")

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin to tell the others, and wait until those that there are can be heard."""
        self._nursery = nursery
        for outbox in self._outboxes.values():
            nursery.start_soon(self._serve, outbox, name=f"changes for process {outbox.worker}")
        with trio.move_on_after(START_SECONDS):
            while self._outboxes.keys() - self._heard_from:
                await self._has_heard.park()

    def _tell(self, item: Change | Announcement) -> None:
        if not self._outboxes:
            return
        if isinstance(item, TaskUpdated):
            data = frame(TASK, item.id.encode())
        elif isinstance(item, Announcement):
            data = frame(CHANGE, encode_notification(item.method, item.encoded))
        else:
            change = notification_of(item)
            data = frame(CHANGE, encode_notification(change.method, change.params))
        for outbox in tuple(self._outboxes.values()):
            outbox.add(item, data)
        if self._run is not None:
            with suppress(trio.RunFinishedError):
                self._run.run_sync_soon(self._has_more.unpark_all, idempotent=True)

    async def _serve(self, outbox: _Outbox) -> None:
        """Send one worker what waits for it, until it is no more."""
        with outbox.scope:
            while True:
                with suppress(HttpRefused, RequestError, trio.BrokenResourceError):
                    stream = await self._reach.connect(outbox.worker)
                    if stream is not None:
                        async with stream:
                            await stream.send_all(frame(LINK, b"%d" % self._number))
                            await self._send(outbox, stream)
                    elif self._learns:
                        self._outboxes.pop(outbox.worker, None)
                        self._heard_from.discard(outbox.worker)
                        self._has_heard.unpark_all()
                        return
                await trio.sleep(RETRY_SECONDS)

    async def _send(self, outbox: _Outbox, stream: trio.SocketStream) -> None:
        while True:
            if data := outbox.take():
                await stream.send_all(data)
            else:
                await self._has_more.park()

    async def hear(self, worker: bytes, reader: FrameReader) -> None:
        """Hear another process until it ends."""
        number = int(worker)
        if self._learns and number not in self._outboxes:
            self._know(number)
        self._heard_from.add(number)
        self._has_heard.unpark_all()
        while (found := await reader.read()) is not None:
            if self._hub is None:
                continue
            if found[0] == TASK:
                self._hub.heard(TaskUpdated(found[1].decode()))
                continue
            message = parse_message(_json.decode(found[1]))
            if isinstance(message, Notification):
                self._hub.heard(read_change(message) or _announcement(message, len(found[1])))


def _announcement(message: Notification, size: int) -> Announcement:
    params = message.params
    return Announcement(message.method, None if params is None else Encoded(_json.encode(params)), size)
