"""Where the events of streams are kept, so that a client which lost its connection can have those it missed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Protocol, TypeAlias, final

import attrs
import trio

from .._limits import check_whole

__all__ = ["EventStore", "MemoryEventStore", "StoredEvent"]

StoredEvent: TypeAlias = tuple[int, bytes]
"""The number of an event in its stream, and its message."""


class EventStore(Protocol):
    """Keeps the events of sessions. Numbers in a stream grow; a gap is what was dropped for want of room.

    Calls for one session come one at a time, save `read`. What one raises is logged, and the events are lost.

    Spec: 2025-11-25, basic/transports, "Resumability and Redelivery".
    """

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events of a stream, in order."""
        ...

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        """Return the first events of a stream after a number, at most so many, in order."""
        ...

    async def forget(self, session: str) -> None:
        """Drop everything of a session that has ended."""
        ...


@final
@attrs.define
class _Kept:
    events: deque[tuple[int, int, bytes]] = attrs.field(factory=deque[tuple[int, int, bytes]])
    size: int = 0


@final
class MemoryEventStore:
    """Keeps events in memory, within bounds; the oldest go first.

    Args:
        max_bytes: What the events of all sessions may weigh together; beyond, the session that has said nothing
            for the longest time loses its events.
        max_session_bytes: The same for one session.
        max_session_events: How many events of one session are kept.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        max_session_bytes: int = 4 * 1024 * 1024,
        max_session_events: int = 1_000,
    ) -> None:
        for name, value in (
            ("max_bytes", max_bytes),
            ("max_session_bytes", max_session_bytes),
            ("max_session_events", max_session_events),
        ):
            check_whole(name, value)
        self._max_bytes = max_bytes
        self._max_session_bytes = max_session_bytes
        self._max_session_events = max_session_events
        self._sessions: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    @property
    def size(self) -> int:
        """What all that is kept weighs, in bytes."""
        return self._bytes

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events; see `EventStore.append`."""
        kept = self._sessions.setdefault(session, _Kept())
        self._sessions.move_to_end(session)
        for number, data in events:
            kept.events.append((stream, number, data))
            kept.size += len(data)
            self._bytes += len(data)
        while kept.events and (
            kept.size > self._max_session_bytes or len(kept.events) > self._max_session_events
        ):
            _, _, data = kept.events.popleft()
            kept.size -= len(data)
            self._bytes -= len(data)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._sessions)))
        await trio.lowlevel.checkpoint()

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        """Return events; see `EventStore.read`."""
        await trio.lowlevel.checkpoint()
        kept = self._sessions.get(session)
        if kept is None:
            return ()
        found = [(number, data) for of, number, data in kept.events if of == stream and number > after]
        return found[:limit]

    async def forget(self, session: str) -> None:
        """Drop a session; see `EventStore.forget`."""
        if session in self._sessions:
            self._drop(session)
        await trio.lowlevel.checkpoint()

    def _drop(self, session: str) -> None:
        self._bytes -= self._sessions.pop(session).size
