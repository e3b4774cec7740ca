"""Keeps the events of streams, so that a client which lost its connection can get those that it missed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, final

import attrs
import trio

from .._core._account import Loan, Overdrawn, Pool, lend_all
from .._limits import check_whole

StoredEvent: TypeAlias = tuple[int, bytes]
"""The number of an event in its stream, and its message."""

EVENT_BYTES: Final = 200
"""How many bytes an event counts in addition to its message."""


class EventStore(Protocol):
    """Keeps the events of sessions. Numbers in a stream grow; a missing one is an event dropped for want of room.

    Calls for one session are made one at a time, except `read`. What one raises is logged, and its events are
    lost.

    Spec: 2025-11-25, basic/transports, "Resumability and Redelivery".
    """

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events of a stream, in order."""
        ...

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        """Return the first events of a stream after a number, in order, at most `limit`."""
        ...

    async def forget(self, session: str) -> None:
        """Drop everything of a session that has ended."""
        ...


@final
class EventShares:
    """How much of a store each session takes. No I/O; one thread at a time.

    Of a client's sessions, the one without new events for the longest time is the first in `_sessions`.

    Args:
        most: What all sessions may take together, in bytes.
        drop: Called with a session whose events are all to be dropped.
    """

    def __init__(self, most: int, drop: Callable[[str], object]) -> None:
        self._pool = Pool("max_bytes", most)
        self._drop = drop
        self._clients: dict[str, tuple[str, Pool | None]] = {}
        self._loans: dict[str, tuple[Loan, ...]] = {}
        self._sessions: dict[str, dict[str, None]] = {}  # of each client, those with events

    @property
    def size(self) -> int:
        """What all sessions take, in bytes."""
        return self._pool.lent

    def count_against(self, session: str, client: str, account: Pool | None) -> None:
        """Set whose a session is, before anything of it is kept; otherwise it counts as a client by itself.

        Args:
            session: The session.
            client: The client whose session it is.
            account: Lends what they take as well; `None` if no account counts them.
        """
        self._clients[session] = client, account

    def set(self, session: str, size: int) -> bool:
        """Let a session take so much; another session of the same client may lose its events for that.

        Returns:
            Whether there is room for it. If not, the session takes what it did.
        """
        if not size:
            self._give_back(session)
            return True
        client, account = self._clients.get(session, (session, None))
        pools = (self._pool,) if account is None else (self._pool, account)
        while True:
            try:
                self._lend(session, client, pools, size)
            except Overdrawn:
                # Only other events of the client make room for events: all else it has is worth more.
                others = (other for other in self._sessions.get(client, ()) if other != session)
                oldest = next(others, None)
                if oldest is None:
                    return False
                self._give_back(oldest)
                self._drop(oldest)
            else:
                sessions = self._sessions.setdefault(client, {})
                sessions.pop(session, None)
                sessions[session] = None
                return True

    def _lend(self, session: str, client: str, pools: tuple[Pool, ...], size: int) -> None:
        loans = self._loans.get(session)
        if loans is None:
            self._loans[session] = lend_all([(pool, size) for pool in pools], client, "events")
            return
        before = loans[0].amount
        try:
            for loan in loans:
                loan.change(size)
        except Overdrawn:
            for loan in loans:
                loan.change(before)
            raise

    def _give_back(self, session: str) -> None:
        loans = self._loans.pop(session, ())
        for loan in loans:
            loan.give_back()
        if loans:
            sessions = self._sessions[loans[0].client]
            del sessions[session]
            if not sessions:
                del self._sessions[loans[0].client]

    def forget(self, session: str) -> None:
        """Forget a session that has ended."""
        self._give_back(session)
        self._clients.pop(session, None)


@final
@attrs.define
class _SessionEvents:
    events: deque[tuple[int, int, bytes]] = attrs.field(factory=deque[tuple[int, int, bytes]])
    size: int = 0

    def drop_first(self) -> None:
        self.size -= weight_of(self.events.popleft()[2])


def weight_of(data: bytes) -> int:
    """Return what it takes to keep an event."""
    return EVENT_BYTES + len(data)


@final
class MemoryEventStore:
    """Keeps events in memory, within bounds; the oldest go first.

    Each event counts 200 bytes for itself. What is kept for the sessions of an endpoint counts against their
    clients, too (`Limits.max_kept_bytes`).

    Args:
        max_bytes: What the events of all sessions may weigh together, of which one client gets at most as much
            as is left to others; beyond, it loses those of its session without new events for the longest time.
        max_session_bytes: The same for one session; beyond, it loses its oldest events.
        max_session_events: How many events of one session are kept.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        max_session_bytes: int = 4 * 1024 * 1024,
        max_session_events: int = 1_000,
    ) -> None:
        check_whole("max_bytes", max_bytes)
        self._max_session_bytes = check_whole("max_session_bytes", max_session_bytes)
        self._max_session_events = check_whole("max_session_events", max_session_events)
        self._sessions: dict[str, _SessionEvents] = {}
        self._shares: Final = EventShares(max_bytes, lambda session: self._sessions.pop(session, None))

    @property
    def size(self) -> int:
        """What all that is kept weighs, in bytes."""
        return self._shares.size

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events; see `EventStore.append`."""
        self.keep(session, stream, events)
        await trio.lowlevel.checkpoint()

    def keep(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events, without a checkpoint; see `EventStore.append`."""
        kept = self._sessions.setdefault(session, _SessionEvents())
        for number, data in events:
            kept.events.append((stream, number, data))
            kept.size += weight_of(data)
        while kept.size > self._max_session_bytes or len(kept.events) > self._max_session_events:
            kept.drop_first()
        while not self._shares.set(session, kept.size):
            kept.drop_first()
        if not kept.events:
            self._sessions.pop(session, None)

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
        self._sessions.pop(session, None)
        self._shares.forget(session)
        await trio.lowlevel.checkpoint()


def count_against(store: EventStore, session: str, client: str, account: Pool) -> None:
    """Count what a session stores against its client. A store that is not ours has its own bounds.

    Args:
        store: Where its events will be kept.
        session: The session.
        client: The client whose session it is.
        account: Lends memory.
    """
    shares = getattr(store, "_shares", None)
    if isinstance(shares, EventShares):
        shares.count_against(session, client, account if isinstance(store, MemoryEventStore) else None)
